/* transfers.h - transfers between memory and a file, beside the thread that computes.
 *
 * There are two lanes, one each way. A lane does its transfers one after the other, in the order in
 * which they were begun, and numbers them from 1; one may be held until the other lane has done so
 * many. A program's plan says which; transfers that nothing holds apart touch different bytes. */
#ifndef MG_TRANSFERS_H
#define MG_TRANSFERS_H

#include <stdbool.h>
#include <stdint.h>

enum { RT_IN, RT_OUT, RT_WAYS };
enum { RT_TRANSFERS = 256 }; /* of a lane that are begun and not done, at most */

typedef struct rt_transfers rt_transfers;

/* Of a file that has all its bytes; `where` names its folder in messages, and is the caller's, as
 * the file is. A transfer that fails ends the program (exit 74). */
rt_transfers *rt_transfers_open(int file, const char *where);
/* Once all transfers are done. */
void rt_transfers_close(rt_transfers *t);
/* `bytes` at `at` of the file to memory (RT_IN), or from memory to there. */
typedef struct rt_transfer {
    char *memory;
    int64_t at, bytes;
    uint64_t after; /* held until the other lane has done those up to this number; 0: not held */
    int action;     /* that begins it */
    bool noted;     /* a note says when it ran */
} rt_transfer;
/* Begins it; returns its number. */
uint64_t rt_transfers_begin(rt_transfers *t, int way, const rt_transfer *x);
/* The action of transfer `number`, which is not done. */
int rt_transfers_action(const rt_transfers *t, int way, uint64_t number);
/* The last that was begun; 0: none. */
uint64_t rt_transfers_begun(const rt_transfers *t, int way);
/* Are those up to a number done? Waits so long, or (ns < 0) until they are. */
bool rt_transfers_done(rt_transfers *t, int way, uint64_t number, int64_t ns);

/* When a transfer ran: ns of rt_now_ns. */
typedef struct rt_lane_time {
    int64_t begin, end;
    int action;
} rt_lane_time;
/* Takes the notes of a lane, in order; the caller frees them. Of transfers that are done. */
int64_t rt_transfers_notes(rt_transfers *t, int way, rt_lane_time **of);
/* The way that transfers take ("several blocks at once, by io_uring"), and why. */
const char *rt_transfers_way(const rt_transfers *t);

/* ---- transfer_blocks.c, for the lanes -------------------------------------------------------- */

/* The memory and the handles that a lane copies with. */
typedef struct rt_blocks rt_blocks;
rt_blocks *rt_blocks_new(int file, const char *where);
void rt_blocks_free(rt_blocks *b);
/* Memory of a lane, at most: its blocks, its ring, its thread's stack. */
int64_t rt_blocks_bytes(void);
/* As rt_transfers_way. */
const char *rt_blocks_way(const rt_blocks *b);
/* Copies, and returns when it is done. */
void rt_blocks_copy(rt_blocks *b, int way, char *memory, int64_t at, int64_t bytes);

#endif
