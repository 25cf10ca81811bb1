/* rates.h - see rates.c. */
#ifndef MGC_PASSES_RATES_H
#define MGC_PASSES_RATES_H

#include "plan/plan.h"

/* Prices the plan: sets the seconds of collectives, and on GPUs of products (all others' are their
 * roofline, which schedule.c set), and the sums of all seconds of each program. Twice is as once.
 */
void plan_rates(Plan *p);

/* Bytes of the logits of a row of a head. */
int64_t rate_logits(const mg_head_desc *h);

#endif
