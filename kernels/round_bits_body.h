/* round_bits_body.h - words to round with on one vector unit (each_isa.h). */
#include "kernels/philox_blocks.h"

/* The words of columns [col, col + n) of a row: word c % 4 of the block of counter {c / 4, row}. */
static void NAME(bits)(const mgk_bits *w)
{
    uint64_t block = (uint64_t)w->row << 32 | w->col / 4;
    for (int64_t at = -(int64_t)(w->col % 4); at < w->n; at += 4 * MGK_WIDE, block += MGK_WIDE) {
        uint32_t word[4 * MGK_WIDE];
        const bool whole = at >= 0 && at + 4 * MGK_WIDE <= w->n;
        blocks(whole ? w->out + at : word, block, w->step, w->key);
        if (whole)
            continue;
        const int64_t from = at < 0 ? -at : 0, left = w->n - at;
        const int64_t to = left < 4 * MGK_WIDE ? left : 4 * MGK_WIDE;
        memcpy(w->out + at + from, word + from, (size_t)(to - from) * sizeof *word);
    }
}

#undef blocks
