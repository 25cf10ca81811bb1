/* streams.h - streams of a processor: see abi.h. */
#ifndef MG_RUNTIME_STREAMS_H
#define MG_RUNTIME_STREAMS_H

#include "runtime/run.h"

/* Of a program in which something runs beside the thread that computes; a second call does nothing.
 */
void rt_streams_open(mg_run *r);
void rt_streams_close(mg_run *r);
/* The stream of what is called next. */
int rt_stream(const mg_run *r);
/* The transfer of the other way that is to be done before the next of this way begins; 0: none. */
uint64_t rt_streams_held(const mg_run *r, int way);
/* Waits for transfers of one way up to a number. */
void rt_streams_transferred(mg_run *r, int way, uint64_t number);

#endif
