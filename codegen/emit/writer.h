/* writer.h - the function of a program while it is written; private to emit_c.c and emit_calls.c.
 */
#ifndef MGC_WRITER_H
#define MGC_WRITER_H

#include "codegen/emit/emit.h"

/* One program being written. */
typedef struct Writer {
    Emitter *e;
    const Program *p;
    const char *entry; /* "step", "eval", "sample" */
    const char **loop; /* per loop: its C variable */
    int line;          /* last source line quoted */
    uint32_t line_file;
    const char *block; /* whose lines are quoted: "layers.mlp, backward" */
    bool called;       /* something was since the loop around it began */
    bool guarded;      /* past the guard of loss and norm: only updates follow */
    int *point;        /* per action: 1 + its point that others wait for, or 0 */
    bool *beside;      /* per action: a collective may run beside it, and has to be seen to */
} Writer;

/* The call of an action, with what it waits for and what is recorded behind it. */
void emit_call(Writer *w, const Action *a, int depth);
void emit_waits(const Writer *w, const Action *a, int depth);

#endif
