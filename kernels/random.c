/* random.c - draws random tensors with Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011): ten rounds encrypt a counter, so each number of
 * the stream can be computed independently.
 *
 * Element g = slot * elements + e of a random tensor is word g % 4 of
 *   counter = {low, high half of g / 4; low, high half of step}
 *   key     = {low, high half of (seed xor the tensor's key)}
 * and its value is the word's top 24 bits times 2^-24, in f64 as in f32, so that a model draws the
 * same numbers in both. */
#include "kernels/random.h"

#define MGK_BODY "kernels/random_body.h"
#include "kernels/each_isa.h"

static mg_task *const draw[][MGK_FLOATS] = MGK_TABLE(draw);

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
