/* compare.h - generated kernels against the reference interpreter, each on the operands it meets in
 * a plan: the same numbers up to rounding, the same bits in whatever way it is run, nothing written
 * but the results, and a NaN or an infinity wherever the interpreter has one. */
#ifndef MGC_TESTS_COMPARE_H
#define MGC_TESTS_COMPARE_H

#include "tests/plan/planned.h"
#include "tests/plan/random_graph.h"

typedef struct Comparison Comparison;
struct Comparison {
    /* How kernels are made, run (in way 0 or 1) and let go; `kernels` is theirs. */
    void (*open)(Comparison *c, Model *t, const Plan *p);
    void (*run)(Comparison *c, const Plan *p, const Action *act, void *const *at, int way);
    void (*close)(Comparison *c);
    void *kernels;
    uint64_t rng;
    bool halves;           /* are kernels on bf16 and f16 built? */
    bool term_by_term;     /* does a sum in f64 add one term after the other? Vectors round less */
    double epsilon, slack; /* of the floats; how many of them a result may be off by, of its size */
    bool poison;           /* puts NaN and infinities into what the kernel reads */
    unsigned char *arena, *before, *want;
    int64_t bytes;
    long seen[4], elements; /* map, row, col, partial sums; and their results' elements */
};

/* The tests of kernels that are opened, run and closed as `like` says: the small models, so many
 * random graphs in both float types (half as many with halves), half as many with numbers that are
 * not finite. What main() returns. */
int compare_all(const Comparison *like, int programs);

/* One of them, in rounding.c: what is rounded at random. */
void compare_rounding(const Comparison *like);

#endif
