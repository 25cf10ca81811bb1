/* interp_rounding.h - cases of test_interp.c that are about rounding. */
#ifndef MGC_TESTS_INTERP_ROUNDING_H
#define MGC_TESTS_INTERP_ROUNDING_H

#include "ir/ir.h"

/* test_interp.c: the op has a case. */
void interp_covers(Op op);

void stochastic_rounding(void **state);
void scales_of_tiles(void **state);
void rounding(void **state);
void shaking(void **state);

#endif
