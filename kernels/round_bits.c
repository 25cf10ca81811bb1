/* round_bits.c - words of Philox4x32-10 (random.c) by which generated kernels round at random.
 *
 * A file of its own, for programs of GPUs have it, too, whose kernels may run on the host; none of
 * the other kernels are in those, so it finds the vectors of the processor itself. */
#include "kernels/round_bits.h"

#define MGK_BODY "kernels/round_bits_body.h"
#include "kernels/each_isa.h"

static mgk_level level(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("x86-64-v4"))
        return MGK_V4;
    if (__builtin_cpu_supports("x86-64-v3"))
        return MGK_V3;
#endif
    return MGK_BASE;
}

static void (*const round_bits[][MGK_FLOATS])(const mgk_bits *) = MGK_TABLE(bits);

void mg_round_bits(uint32_t *out, int64_t n, int32_t row, int32_t col, int64_t seed, int64_t step,
                   uint64_t key)
{
    const uint64_t k = key ^ (uint64_t)seed;
    const mgk_bits w = {.key = {(uint32_t)k, (uint32_t)(k >> 32)},
                        .row = (uint32_t)row,
                        .col = (uint32_t)col,
                        .step = (uint64_t)step,
                        .n = n,
                        .out = out};
    round_bits[level()][0](&w);
}
