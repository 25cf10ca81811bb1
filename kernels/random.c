/* random.c - Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1,
 * 2, 3", SC 2011): a counter is encrypted by ten rounds, so any number of the stream is had alone.
 *
 * Element g = slot * elements + e of a random tensor is word g % 4 of
 *   counter = {low, high half of g / 4; low, high half of step}
 *   key     = {low, high half of (seed xor the tensor's key)}
 * and its value is the word's top 24 bits times 2^-24, in f64 as in f32, so that a model draws the
 * same numbers in either. */
#include "kernels/isa.h"

#include <string.h>

/* Counters encrypted side by side: loops over them become vector code. */
enum { WIDE = 16, GRAIN = 64 };

static void rounds(uint32_t c[4][WIDE], const uint32_t key[2])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < WIDE; i++) {
            uint64_t p0 = (uint64_t)0xd2511f53u * c[0][i], p1 = (uint64_t)0xcd9e8d57u * c[2][i];
            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[1][i] = (uint32_t)p1;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[3][i] = (uint32_t)p0;
        }
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

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

typedef struct Draw {
    uint32_t key[2];
    uint64_t step;
    uint64_t first; /* global index of out[0] */
    int64_t elements;
    bool f64;
    void *out;
} Draw;

/* Unit u: the numbers of counters [first / 4 + u * WIDE, + WIDE) that fall into out. */
static void draw(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Draw *w = ctx;
    for (int64_t unit = begin; unit < end; unit++) {
        uint64_t block = w->first / 4 + (uint64_t)unit * WIDE;
        uint32_t c[4][WIDE];
        for (int i = 0; i < WIDE; i++) {
            c[0][i] = (uint32_t)(block + (uint64_t)i);
            c[1][i] = (uint32_t)((block + (uint64_t)i) >> 32);
            c[2][i] = (uint32_t)w->step;
            c[3][i] = (uint32_t)(w->step >> 32);
        }
        rounds(c, w->key);
        int64_t at = (int64_t)(block * 4 - w->first); /* of the unit's first number; may be < 0 */
        int64_t from = at < 0 ? -at : 0;
        int64_t to = w->elements - at < 4 * WIDE ? w->elements - at : 4 * WIDE;
        for (int64_t i = from; i < to; i++) {
            float u = (float)(int32_t)(c[i % 4][i / 4] >> 8) * 0x1p-24f;
            if (w->f64)
                ((double *)w->out)[at + i] = u;
            else
                ((float *)w->out)[at + i] = u;
        }
    }
}

void mg_random(mg_run *r, int action, const mg_random_desc *d, const int64_t *seed,
               const int64_t *step, const int32_t *slot, void *out)
{
    const int f64 = mgk_real(d->dtype, "mg_random");
    const uint64_t key = d->key ^ (uint64_t)*seed;
    Draw w = {.key = {(uint32_t)key, (uint32_t)(key >> 32)},
              .step = (uint64_t)*step,
              .first = (uint64_t)(slot ? *slot : 0) * (uint64_t)d->elements,
              .elements = d->elements,
              .f64 = f64,
              .out = out};
    int64_t counters = ((int64_t)(w.first % 4) + d->elements + 3) / 4;
    mg_begin(r, action);
    mg_parallel(r, (counters + WIDE - 1) / WIDE, GRAIN, draw, &w);
    mg_end(r, action);
    mg_output(r, action, out, d->elements, d->dtype);
}
