/* pairs.h - tiles of a product of bf16, two terms at a time, where the processor can.
 *
 * AVX512-BF16 has an instruction that adds to each of 16 floats two products of bf16, as fast as
 * one multiply-add of floats. So a number of a packed operand is a pair: 32 bits, the earlier term
 * in the lower half, a zero behind the last of an odd number; and all else is as for floats. What
 * is subnormal, a term or a sum, is zero to it. */
#ifndef MGK_PAIRS_H
#define MGK_PAIRS_H

#include "kernels/product.h"

/* Whether the processor has the instruction. */
bool mgk_pairs_there(void);

/* Tiles of a panel, of pairs: w->k counts these. */
void mgk_pairs_tiles(mgk_panel *w);

#endif
