/* random.c - Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1,
 * 2, 3", SC 2011): a counter is encrypted by ten rounds, so any number of the stream is had alone.
 *
 * Element g = slot * elements + e of a random tensor is word g % 4 of
 *   counter = {low, high half of g / 4; low, high half of step}
 *   key     = {low, high half of (seed xor the tensor's key)}
 * and its value is the word's top 24 bits times 2^-24, in f64 as in f32, so that a model draws the
 * same numbers in either. */
#include "kernels/random.h"

#include <string.h>

void mg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4], k0 = key[0], k1 = key[1];
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c[0], p1 = (uint64_t)0xcd9e8d57u * c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    memcpy(out, c, sizeof c);
}

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
uint64_t mg_key(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

#define MGK_BODY "kernels/random_body.h"
#include "kernels/each_isa.h"

static mg_task *const draw[][2] = MGK_TABLE(draw);

void mg_random(mg_run *r, int action, const mg_random_desc *d, const int64_t *seed,
               const int64_t *step, const int32_t *slot, void *out)
{
    const int real = mgk_real(d->dtype, "mg_random");
    const uint64_t key = d->key ^ (uint64_t)*seed;
    mgk_draw w = {.key = {(uint32_t)key, (uint32_t)(key >> 32)},
                  .step = (uint64_t)*step,
                  .first = (uint64_t)(slot ? *slot : 0) * (uint64_t)d->elements,
                  .elements = d->elements,
                  .out = out};
    int64_t counters = ((int64_t)(w.first % 4) + d->elements + 3) / 4;
    mg_begin(r, action);
    mg_parallel(r, (counters + MGK_WIDE - 1) / MGK_WIDE, 64, draw[mgk_isa()][real], &w);
    mg_end(r, action);
    mg_output(r, action, out, d->elements, d->dtype);
}
