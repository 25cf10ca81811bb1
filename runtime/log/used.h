/* used.h - what a run used of the memory that was planned; see used.c. */
#ifndef MG_USED_H
#define MG_USED_H

#include "runtime/run.h"

/* Prints a line for each level of memory. */
void rt_log_memory(rt_log *l, const mg_run *r);

#endif
