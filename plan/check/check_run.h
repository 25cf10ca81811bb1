/* check_run.h - the state of a symbolic execution: private to check.c, check_run.c, check_bytes.c.
 */
#ifndef MGC_PASSES_CHECK_RUN_H
#define MGC_PASSES_CHECK_RUN_H

#include "plan/check/check.h"

enum { CHECK_TOLD = 20 }; /* broken invariants that are described, a program */

typedef struct Check {
    const Plan *p;
    const Module *m;
    const Program *prog; /* NULL: what is common to all */
    int program;
    FILE *out;
    Arena *tmp;
    int broken;
    int at;               /* action that runs, or -1 */
    const Ins **loop_ins; /* per loop of the program */
    bool *shortened;
    bool *described; /* two per action: its descriptor was checked, which no iteration changes, and
                        its kernel */
    int64_t *iteration;
    Meaning meaning;
    Memory *memory;
    bool guarded;    /* the guard has run */
    bool again;      /* another stage of the rank runs the microbatch */
    StageSet stages; /* the rank that runs, along the axis of stages */
    int rank;        /* ... its number there */
} Check;

/* Invariant p does not hold, at the action that runs. */
void broken(Check *c, int p, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *value_name(const Check *c, Value v);

/* The index of the innermost dim, of `size` elements, of element *e; *e goes on with the others.
 * The proof divides more than it does anything else, and numbers of 32 bits take a third of the
 * time. */
static inline int64_t index_of(int64_t *e, int64_t size)
{
    int64_t index;
    if ((uint64_t)(*e | size) <= UINT32_MAX) {
        index = (uint32_t)*e % (uint32_t)size;
        *e = (uint32_t)*e / (uint32_t)size;
    } else {
        index = *e % size;
        *e /= size;
    }
    return index;
}

/* check_run.c */
void give_arguments(Check *c);
void run_action(Check *c, const Action *a);
/* The instruction an action computes: that of the value it writes. */
const Ins *instruction_of(const Check *c, const Action *a);
/* In this iteration. */
int64_t address_of(const Check *c, const Place *at);
void check_results(Check *c);
/* Elements being compared with memory, or written to it. */
typedef struct Cursor {
    Check *c;
    const Operand *o;
    int64_t address, bytes; /* of the operand's beginning; of an element */
    bool failed;
} Cursor;
/* check_expect.c: a RunFn; P3 */
void expect_run(void *ctx, Value v, uint64_t iterations, Strip s);
/* Applies `run` to all elements of an operand, with a Cursor; false: it failed. */
bool each_run(Check *c, const Operand *o, RunFn *run);
/* Elements of an operand that follow each other in memory; is what should be there there? What it
 * writes is there from now on. */
int64_t run_length(const Operand *o);
bool expect_operand(Check *c, const Operand *o);
/* In the loops around the action that runs. */
Iterations iterations_here(const Check *c);

/* check_write.c: results; work space, or partial sums, operand `which` of the action; and before
 * them, what holds nothing. */
void write_run(void *ctx, Value v, uint64_t iterations, Strip s);
void write_operand(Check *c, const Operand *o);
void write_work(Check *c, const Operand *o, int which);
void forget_dead(Check *c, const Action *a);

/* check_begin.c: zeros; and sums that begin with a write: in what loops, and does this one now?
 * Then what it adds to is to be zero. */
void run_zero(Check *c, const Action *a, const Ins *i);
void check_begins(Check *c);
bool begins_now(Check *c, const Action *a, const Operand *added);

/* check_overlap.c: do operands meet; do they lie in the same bytes, element by element? An action
 * must not write over what else it has, but for what may be done in place. i: NULL, or what it
 * computes. */
bool overlap(const Check *c, const Operand *a, const Operand *b);
bool lie_alike(const Check *c, const Operand *a, const Operand *b);
void check_overlaps(Check *c, const Action *a, const Ins *i);

/* check_epilogue.c: a product and the kernel that goes on with it. */
void run_with_kernel(Check *c, const Action *a);

/* check_depth.c: does the rank that runs leave out iterations of this loop; does it run this one?
 * Is a rank, along the axis of stages, unlike all before it? */
bool check_leaves_out(const Check *c, const Ins *loop);
bool check_runs(const void *c, const Ins *loop, int64_t i);
StageSet check_stage_set(int rank, int ranks);
bool check_is_another(const Check *c, int rank, int ranks);

/* check_value.c: the buffer of a function's argument, or -1 */
int argument_buffer(const Check *c, FnArg a);

/* check_bytes.c: buffers in the arena, lifetimes, peaks */
void check_bytes(Check *c);
/* check_pipe.c: P8; a message's receive or send; does this rank give what is communicated? */
void check_pipe(Check *c);
void check_beside(Check *c);
void check_pass(Check *c, const Action *a);
bool check_gives(const Check *c, const Action *a);
/* check_ranks.c: P7, P8: what ranks do together, run; of some that stand for all, or of all. Of a
 * mesh that is small enough for all. */
void check_ranks(Check *c, bool folded);
bool check_unfolds(const Module *m);
/* check_streams.c: P6, P7. The operands are inside their buffers. */
void check_streams(Check *c);
/* ... do two actions touch a byte that one of them writes? */
bool check_conflict(const Check *c, const Action *a, const Action *b);
/* check_join.c: P12; what stands beside each other in a pair. After check_pipe. */
void check_join(Check *c);
/* check_queue.c: the same, where collectives are a queue. */
void check_queue(Check *c);
void check_peak(Check *c);
/* check_outside.c: P9, of a plan for a GPU. */
void check_outside(Check *c);
void check_copies(Check *c); /* check_copies.c */
void check_small(Check *c);  /* check_small.c */
void check_near(Check *c);   /* check_near.c */

#endif
