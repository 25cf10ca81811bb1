/* writer.h - the function of a program while it is written; private to emit_c.c and emit_calls.c.
 */
#ifndef MGC_WRITER_H
#define MGC_WRITER_H

#include "codegen/emit/emit.h"

/* One program being written. */
typedef struct Writer {
    Emitter *e;
    const Program *p;
    const char *entry; /* "step", "eval", "sample", "round" */
    const char **loop; /* per loop: its C variable */
    int line;          /* last source line quoted */
    uint32_t line_file;
    const char *block; /* the block of the quoted lines: "layers.mlp, backward" */
    bool called;       /* there was a call since the loop around it began */
    bool guarded;      /* past the guard of loss and norm: only updates follow */
    int *point;        /* per action: 1 + its point that others wait for, or 0 */
    int points;        /* of the two of a pair beside each other (emit_join.c) */
    bool *beside;      /* per action: it has to advance a collective that may run beside it */
} Writer;

/* Writes the call of an action, with its waits before it and its point after it. */
void emit_call(Writer *w, const Action *a, int depth);
void emit_waits(const Writer *w, const Action *a, int depth);
void emit_point(const Writer *w, const Action *a, int depth); /* what is waited for is behind it */

/* emit_c.c: the begin and the end of a loop; return the depth of the text behind it. */
int emit_loop_begin(const Writer *w, const Action *a, int depth);
int emit_loop_end(Writer *w, const Action *a, int depth);
/* emit_join.c: the function of a pair of a pipeline's table, before the program's own; its call. */
void emit_join(Writer *w);
void emit_join_call(const Writer *w, int depth);
/* emit_pipe.c: the end of a pipeline's loop. */
void emit_pipe_end(Writer *w, int depth);
/* emit_beside.c: what is gathered before the table; the cases of what is beside it; and behind it
 * the wait for all of that. */
void emit_gathers(Writer *w, int depth);
void emit_beside(Writer *w, int depth);
void emit_beside_ends(const Writer *w, int depth);

#endif
