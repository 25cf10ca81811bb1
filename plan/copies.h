/* copies.h - see copies.c. */
#ifndef MGC_PLAN_COPIES_H
#define MGC_PLAN_COPIES_H

#include "plan/plan.h"

/* Decides whether a collective is made by copies through the host: sets mg_comm_desc.piece. */
void copies_choose(const Module *m, const Device *d, mg_comm_desc *c);
/* Seconds of one that is. */
double copies_seconds(const Module *m, const Device *d, const mg_comm_desc *c);
/* Bytes of the host's memory that the ranks of a machine exchange through; of all of them. */
int64_t copies_bytes(const Plan *p);
/* "192 MiB of the host's memory, for 2 ranks of a machine"; NULL: nothing is made by copies. */
const char *copies_text(const Plan *p);

#endif
