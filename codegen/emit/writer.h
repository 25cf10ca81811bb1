/* writer.h - a program's function while it is written: private to emit_c.c and emit_calls.c. */
#ifndef MGC_WRITER_H
#define MGC_WRITER_H

#include "codegen/emit/emit.h"

/* One program being written: its functions are collected first, its body then calls them. */
typedef struct Writer {
    Emitter *e;
    const Program *p;
    const char *entry; /* "step", "eval", "sample" */
    const char **loop; /* per loop: its C variable */
    int line;          /* last source line quoted */
    uint32_t line_file;
    bool guarded;          /* past the guard of loss and norm: only updates follow */
    const char **function; /* per action: the function that starts with it, or NULL */
    size_t *length;        /* how many actions that is */
    int *point;            /* per action: 1 + its point that others wait for, or 0 */
    bool *beside;          /* per action: a collective may run beside it, and has to be seen to */
    bool streams;          /* there are several */
} Writer;

/* The call of an action, with what it waits for and what is recorded behind it. conditional: it is
 * written when it is done, where not all ranks do it; else the caller has written that. */
void emit_call(Writer *w, const Action *a, int depth, bool conditional);
/* "if (...)" where not all ranks do it; the depth of what follows. */
int emit_if(const Writer *w, const Action *a, int depth);
void emit_waits(const Writer *w, const Action *a, int depth);

#endif
