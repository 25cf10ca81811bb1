/* check.h - what the checks of kernels share: arrays that are on both sides, and how far what the
 * device computed may be from what it should be. */
#ifndef MG_TESTS_CUDA_CHECK_H
#define MG_TESTS_CUDA_CHECK_H

#include "runtime/run.h"

enum { ARENA = 64 << 20 };
extern const mg_program mg_main; /* program.c */

typedef struct Bench {
    mg_run run;
    uint64_t rng;
    int64_t used; /* of the arena */
    mg_dtype t;
    int passed, failed;
} Bench;

typedef struct Array {
    int64_t offset, n;
    double *x; /* what the device has, in double */
    mg_dtype t;
} Array;

bool is_half(mg_dtype t);
/* Of losses and normalisers, and of sums of products that are wanted as they are. */
mg_dtype statistic(mg_dtype t);

double draw(Bench *b); /* in [0, 1) */
int64_t draw_int(Bench *b, int64_t min, int64_t max);

void *at(Bench *b, const Array *a);
int64_t take(Bench *b, int64_t bytes);
/* x as the device has it from now on; x is rounded to that. */
void upload(Bench *b, Array *a);
double *download(Bench *b, const Array *a);

/* n numbers in [-1, 1), of the type that is checked or another. */
Array numbers(Bench *b, int64_t n);
Array numbers_of(Bench *b, int64_t n, mg_dtype t);
/* n indices below `limit`; x holds them too. */
Array indices(Bench *b, int64_t n, int64_t limit);
void done(Bench *b, int n, Array *const *a);

/* The lse of a query that sees no key; the kernel must give this number. */
#define NOTHING -1e30

/* Compares a, as the device computed it, with want: the greatest difference relative to the
 * greatest element. `terms` are an ulp for each term of the longest sum, `roundings` to halves on
 * the way there. */
void compare(Bench *b, const char *what, const Array *a, const double *want, double terms,
             double roundings);

/* The same of n numbers of type t. */
typedef struct Compared {
    const char *what;
    mg_dtype t;
    int64_t n;
    const double *x, *want;
    double terms, roundings;
    double term,
        size; /* of a term of the sum, and of what is rounded, if it is more than the result */
    const bool *zero; /* where it has to be 0 to the bit; or NULL */
} Compared;
void compare_numbers(Bench *b, const Compared *c);

/* check_attention.c */
void check_attention(Bench *b);

/* check_conv.c */
void check_convolutions(Bench *b);

/* check_grouped.c */
void check_grouped(Bench *b);

/* check_tiles.c: of bf16, on the GPUs whose products have scales of tiles. */
void check_tiles(Bench *b);

#endif
