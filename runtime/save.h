/* save.h - checkpoints that are written beside the steps, and what a checkpoint cost. */
#ifndef MG_SAVE_H
#define MG_SAVE_H

#include "runtime/run.h"

/* checkpoint/saving.c: checkpoints are written beside the steps, if the run saves before its end,
 * the options let it, and there is room: else r->saving is NULL, and a line says why. The leader
 * calls these between steps. */
void rt_saving_open(mg_run *r);
/* About the memory that this machine needs for it, before the start; 0: it is not asked for. */
int64_t rt_saving_wants(const mg_run *r);
/* Copies the state, and has it written; waits for the save before, if that is not over. */
void rt_saving_begin(mg_run *r);
/* Begins an in-memory checkpoint, if one is due and no save is under way: true. */
bool rt_saving_keep(mg_run *r);
/* True if checkpoints are written beside the steps, so that rt_saving_begin does it. */
bool rt_saving_writes(const mg_run *r);
void rt_saving_look(mg_run *r);            /* goes on with the save under way; never waits */
bool rt_saving_end(mg_run *r);             /* waits for it; false if the last one failed */
int64_t rt_saving_step(const mg_run *r);   /* of the save under way, or -1 */
void rt_saving_tell(const mg_run *r);      /* at the end: what in-memory checkpoints cost */
int64_t rt_saving_memory(const mg_run *r); /* bytes that it takes on this machine */
void rt_saving_close(mg_run *r);           /* each rank, when none is under way; frees */

/* log.c: what a checkpoint cost. */
typedef struct rt_save_cost {
    int64_t step, bytes;
    double stopped_ms, waited_ms; /* steps stood still: for the copy (or, in the blocking way, all
                                   * of it), and for the save before */
    double beside_ms;             /* it was written beside steps; 0: in the blocking way */
    double predicted_stop_ms, predicted_write_ms; /* 0: unknown */
} rt_save_cost;
void rt_log_saved(rt_log *l, const rt_save_cost *c);

#endif
