/* linear.h - scans whose carried values are updated linearly, recognised.
 *
 * A state is what a scan carries. Its update is a chain of steps: it is scaled by a positive factor
 * that no state leads to, or a term is added to it. A term is a product of such factors. One term
 * of a state may have one factor that depends on the state: affine in one read of it, as in the
 * delta rule, v - S k. A read is a sum over some dims of the state, at some place of the chain,
 * times a factor. What is computed from reads leads to no state in another way. */
#ifndef MGC_PASSES_LINEAR_H
#define MGC_PASSES_LINEAR_H

#include "ir/ir.h"

enum { LINEAR_FACTORS = 8, LINEAR_STEPS = 12, LINEAR_STATES = 4 };

/* One step of a chain, from the state as it comes into an iteration. */
typedef struct Step {
    bool scales;
    bool minus;                   /* a term: it is subtracted */
    int n;                        /* a term's factors; or one factor */
    Value factor[LINEAR_FACTORS]; /* values of the body, or from around it */
    int solved;                   /* the factor that depends on a read; -1: none */
} Step;

/* A value of the body that is what `steps` make of state `state`. */
typedef struct Chain {
    int state;
    int n;
    const Step *step[LINEAR_STEPS];
} Chain;

typedef enum Role {
    ROLE_before, /* no state leads to it */
    ROLE_chain,  /* .chain */
    ROLE_after   /* computed from reads */
} Role;

typedef struct Linear {
    const Module *m;
    const Ins *loop;
    Role *role;          /* per value of the module as it was */
    const Chain **chain; /* per value: ROLE_chain */
    int states;
    const Chain *update[LINEAR_STATES];
    const Ins *read[LINEAR_STATES]; /* the read that a solved factor depends on, or NULL */
    int solved[LINEAR_STATES];      /* the step that has it, or -1 */
    const char *why;                /* for people: what is not linear, where it is not */
} Linear;

/* Fills *x; false: the scan is none, x->why says why. */
bool linear_scan(Module *m, const Ins *loop, Arena *tmp, Linear *x);

/* How a solved factor depends on the read: factor = plus + times * read; walks down from v.
 * `each` is called from the read outwards with every instruction between, and the number of the
 * operand that depends on the read. False: it is not affine. */
typedef void AffineFn(void *ctx, const Ins *i, int operand);
bool linear_affine(const Linear *x, Value v, const Ins **read, AffineFn *each, void *ctx);

/* The chain that a read reads, its other factor (0: none) and what it sums over. */
typedef struct Read {
    const Chain *chain;
    Value by;
    DimList over;
} Read;
/* Is i, whose result is ROLE_after, a read? */
bool linear_read(const Linear *x, const Ins *i, Read *r);

#endif
