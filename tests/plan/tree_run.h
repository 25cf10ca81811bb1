/* tree_run.h - programs with `reduce = tree`: a step of all ranks, in double precision. */
#ifndef MGC_TESTS_TREE_RUN_H
#define MGC_TESTS_TREE_RUN_H

#include "tests/plan/sharded.h"

/* A step of all ranks with `reduce = tree`, in double precision: what each result is, whole. Rank
 * and microbatch have the sequences that the runtime would give them. */
typedef struct TreeRun {
    Model t;
    const Fn *fn;
    Tensor64 *whole; /* per result */
    bool ran;        /* false: the layout is refused */
} TreeRun;

/* local: after pass local. To be closed by model_close(&r->t). */
void run_tree(TreeRun *r, const Small *s, const char *spec, int64_t microbatch, bool local);

/* The program up to the gradients, of one rank: loss and RES_grads. */
void open_gradients(Model *t, const Small *s, int64_t microbatch, bool tree);

#endif
