/* pairs.h - tiles of a product of bf16, two terms at a time, on processors with AVX512-BF16.
 *
 * An instruction of AVX512-BF16 adds two products of bf16 to each of 16 floats, as fast as one
 * multiply-add of floats. Each element of a packed operand is therefore a pair: 32 bits, the
 * earlier term in the lower half, and a zero after the last term of an odd number; all else is as
 * for floats. The instruction treats a subnormal term or sum as zero. */
#ifndef MGK_PAIRS_H
#define MGK_PAIRS_H

#include "kernels/product.h"

/* True if the processor has the instruction. */
bool mgk_pairs_there(void);

/* Multiplies tiles of a panel of pairs: w->k counts pairs. */
void mgk_pairs_tiles(mgk_panel *w);
/* The same of a few rows: f->k counts pairs. The sums of columns that are contiguous are in another
 * order, which mgk_pairs_order puts right when all of f's terms are added. */
void mgk_pairs_few(const mgk_few *f);
void mgk_pairs_turned(const mgk_few *f);
void mgk_pairs_order(const mgk_few *f);

#endif
