/* trial.h - a plan, and plans with mistakes in them: what the checker says of each. */
#ifndef MGC_TESTS_TRIAL_H
#define MGC_TESTS_TRIAL_H

#include "tests/plan/planned.h"

enum { TRIED = 6 }; /* functions: those of a step, and those that generate */

typedef struct Trial {
    Model t;
    const Device *device; /* NULL: the test's */
    Plan *p;
    Run run[TRIED];
    Tensor64 *results[TRIED];
} Trial;

/* Lowers, plans and runs the model of x, for its device. */
void trial_start(Trial *x);
/* How many rules a plan breaks. */
int trial_broken(const Plan *p);
/* `count` plans with one change each: the checker lets pass what computes the same numbers in each
 * of several orders alone, and hardly anything. of: named where a test fails. */
void trial_mutations(Trial *x, const char *of, uint64_t seed, int count);

typedef bool Lie(Plan *p); /* false: nothing to lie about */

/* A lie, and what the checker says of it. */
typedef struct Said {
    Lie *lie;
    const char *said;
} Said;
void trial_each_is_said(const Trial *x, const Said *all, size_t n);

#endif
