/* explain.h - the parts of mgc explain F.mg NAME. */
#ifndef MGC_EXPLAIN_H
#define MGC_EXPLAIN_H

#include "plan/plan.h"

/* A line of what is said of one thing. */
void explain_row(const char *left, const char *right);

/* explain_levels.c: on which level a buffer is, and for how long. */
void explain_lies(const Plan *p, uint32_t buffer);
/* Of a program: what fetches from a buffer or to it, and what offloads, and when. */
void explain_transfers(const Plan *p, const Program *g, uint32_t buffer);

#endif
