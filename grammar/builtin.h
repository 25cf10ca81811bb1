/* builtin.h - one call of a function of builtin.def: private to builtin.c, experts.c, noise.c,
 * parts.c.
 */
#ifndef MGC_BUILTIN_H
#define MGC_BUILTIN_H

#include "grammar/elab.h"

/* The arguments, counted and of the right kinds. */
typedef struct Call {
    const Node *node;
    const Node *arg[MAX_RANK];
    int nargs;
    bool over_given;
    DimList over; /* or along */
    const Node *over_node;
    const Node *option;
    DimList from, to; /* of `->` */
    const Node *arrow;
} Call;

typedef Val BuiltinFn(Elab *e, const Call *c);

/* A value that must be a tensor: numbers have no dims. */
bool tensor_arg(Elab *e, const Node *arg, const Call *c, Value *x);

/* experts.c */
BuiltinFn builtin_top, builtin_dispatch, builtin_combine, builtin_grouped;
/* noise.c */
BuiltinFn builtin_dropout, builtin_uniform, builtin_step;
/* windows.c */
BuiltinFn builtin_next;
/* parts.c */
BuiltinFn builtin_join;

#endif
