/* pool.h - a stand-in for the runtime under the kernels' tests: threads, guarded buffers, and a
 * record of what kernels say of their outputs. */
#ifndef TEST_POOL_H
#define TEST_POOL_H

#include "kernels/isa.h"

#include <stdatomic.h>
#include <stdio.h>

struct mg_run {
    int threads;
    int64_t scratch;  /* bytes per thread, allocated to the byte */
    int depth, calls; /* mg_begin without mg_end; all mg_begin */
    int64_t outputs;  /* elements in all mg_output; each was looked at and is finite, */
    bool not_finite;  /* ... unless this says that some are not */
    uint64_t cuts;    /* seed of where the units are cut into ranges */
    atomic_int looks; /* mg_look, by all threads */
};

/* The level the kernels under test run at: what mgk_isa() returns. */
void pool_level(mgk_level level);
mgk_level pool_best(void);
const char *pool_level_name(mgk_level level);

/* n numbers of type t between guards, all NaN: numbers never written show, and so do writes
 * outside. Guards are checked when it is freed. */
typedef struct Buffer {
    mg_dtype t;
    int64_t n;
    void *p;
} Buffer;
Buffer buffer_new(mg_dtype t, int64_t n);
Buffer buffer_random(mg_dtype t, int64_t n, uint64_t *seed); /* uniform in [-1, 1) */
void buffer_free(Buffer *b);
double at(const Buffer *b, int64_t i);
void put(Buffer *b, int64_t i, double v);
double roundoff(mg_dtype t);                /* how far off a rounded 1 can be */
bool untouched(const Buffer *b, int64_t i); /* still the NaN of buffer_new */
bool same_bits(const Buffer *a, const Buffer *b);

uint64_t next_random(uint64_t *seed);
int64_t in_range(uint64_t *seed, int64_t low, int64_t high); /* both included */

#endif
