/* host_price.h - what a processor does for a kernel, and for a convolution, beside what ir_cost
 * counts; see host_price.c. */
#ifndef MGC_HOST_PRICE_H
#define MGC_HOST_PRICE_H

#include "plan/plan.h"

/* Additions that a fused instruction computes (Device.operations). */
double host_operations(const Module *m, const Ins *fused);
/* Bytes more that a convolution of so many FLOP takes as long for: what its taps show of x is
 * packed. */
double host_packs(const mg_conv_desc *d, double flops);

#endif
