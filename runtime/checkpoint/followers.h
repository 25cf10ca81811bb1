/* followers.h - tensors that follow parameters: how they begin, and evaluation with averages. */
#ifndef RT_FOLLOWERS_H
#define RT_FOLLOWERS_H

#include "runtime/run.h"

/* Tensors that follow a parameter begin as that, if they are not in the file of --init (w, or
 * NULL). */
void rt_begin(mg_run *r, const rt_weights *w);
/* With --eval-with average: each parameter changes places with its average, and its rounded copy is
 * made anew. The second call changes all back, to the bit. */
void rt_exchange_averages(mg_run *r);
bool rt_keeps_averages(const mg_program *p);
/* Host memory that these take, of one tensor at a time. */
int64_t rt_followers_bytes(const mg_run *r);

#endif
