/* async_comm.h - collectives that run while the rank computes; see async_comm.c. */
#ifndef MG_ASYNC_COMM_H
#define MG_ASYNC_COMM_H

#include "runtime/machine.h"

/* Allocates the queue of asynchronous collectives; call it after the wire is open. Without it all
 * collectives are synchronous, and the functions below do nothing. */
void rt_async_comm_open(mg_run *r);
/* Begins a collective asynchronously if the current stream is that of collectives. False: the
 * caller runs it synchronously, and no collective is in flight. */
bool rt_async_comm_begin(mg_run *r, int action, const mg_comm_desc *d, const void *x, void *y);
/* The number of the last that has begun; 0: none. */
uint64_t rt_async_comm_begun(const mg_run *r);
/* Waits until those up to a number are done. */
void rt_async_comm_finish(mg_run *r, uint64_t number);
/* The next one enters when those up to a number are done. */
void rt_async_comm_hold(mg_run *r, uint64_t number);

#endif
