/* batch.h - the inputs of a batch in the host's memory, between files and ranks. */
#ifndef RT_BATCH_H
#define RT_BATCH_H

#include "runtime/run.h"

/* The inputs of an entry: for each, rows of all sequences of a batch. */
rt_batch *rt_batch_new(const mg_entry *e);
void rt_batch_free(rt_batch *b); /* NULL: nothing */
/* Puts row number `row` of the input that lies at `offset` of the arenas; all rows of an input have
 * as many bytes. */
void rt_batch_row(rt_batch *b, int64_t offset, int64_t row, const void *from, int64_t bytes);

/* Gives each rank its rows. */
void rt_batch_put(mg_run *r, const rt_batch *b);

/* Gives the ranks the samples [first, first + n) of d as the batch of a program; copies of the last
 * fill it. Samples of a step are of the shuffled sequence, others of the fixed order. They are read
 * now, unless rt_batch_ahead has read them. */
void rt_batch_fill(mg_run *r, rt_program which, const rt_data *d, int64_t first, int64_t n);
/* Reads the batch of the step after the one that runs. For a host that would wait for its device.
 */
void rt_batch_ahead(mg_run *r);

#endif
