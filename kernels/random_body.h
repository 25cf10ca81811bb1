/* random_body.h - draws random numbers on one type and vector unit (each_isa.h). */
#include "kernels/philox_blocks.h"

/* Unit u: the numbers of counters [first / 4 + u * WIDE, + WIDE) that fall into out. */
static void NAME(draw)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_draw *w = ctx;
    for (int64_t unit = begin; unit < end; unit++) {
        const uint64_t block = w->first / 4 + (uint64_t)unit * MGK_WIDE;
        uint32_t word[4 * MGK_WIDE];
        T u[4 * MGK_WIDE];
        blocks(word, block, w->step, w->key);
        for (int i = 0; i < 4 * MGK_WIDE; i++)
            u[i] = (T)((float)(int32_t)(word[i] >> 8) * 0x1p-24f);
        const int64_t at = (int64_t)(block * 4 - w->first); /* of u[0] in out; may be negative */
        const int64_t from = at < 0 ? -at : 0, left = w->elements - at;
        const int64_t to = left < 4 * MGK_WIDE ? left : 4 * MGK_WIDE;
        memcpy((T *)w->out + at + from, u + from, (size_t)(to - from) * sizeof(T));
    }
}

#undef blocks
