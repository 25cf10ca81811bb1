/* transfers.h - transfers between memory and a file, beside the thread that computes.
 *
 * There are two lanes, one each way. A lane does its transfers one after the other, in the order in
 * which they were begun, and numbers them from 1; one may be held until the other lane has done so
 * many. A program's plan says which; transfers that nothing holds apart touch different bytes. */
#ifndef MG_TRANSFERS_H
#define MG_TRANSFERS_H

#include <stdint.h>

enum { RT_IN, RT_OUT, RT_WAYS };
enum { RT_TRANSFERS = 256 }; /* of a lane that are begun and not done, at most */

typedef struct rt_transfers rt_transfers;

/* Of a file that has all its bytes; `where` names its folder in messages, and is the caller's, as
 * the file is. A transfer that fails ends the program (exit 74). */
rt_transfers *rt_transfers_open(int file, const char *where);
/* Once all transfers are done. */
void rt_transfers_close(rt_transfers *t);
/* Begins to copy `bytes` at `at` of the file to memory (RT_IN), or from memory to there; returns
 * its number. Held until the other lane has done those up to the number `after`; 0: not held. */
uint64_t rt_transfers_begin(rt_transfers *t, int way, char *memory, int64_t at, int64_t bytes,
                            uint64_t after);
/* The last that was begun; 0: none. */
uint64_t rt_transfers_begun(const rt_transfers *t, int way);
/* Are those up to a number done? Waits so long, or (ns < 0) until they are. */
bool rt_transfers_done(rt_transfers *t, int way, uint64_t number, int64_t ns);

/* ---- transfer_blocks.c, for the lanes -------------------------------------------------------- */

/* The memory and the handles that a lane copies with. */
typedef struct rt_blocks rt_blocks;
rt_blocks *rt_blocks_new(int file, const char *where);
void rt_blocks_free(rt_blocks *b);
/* Copies, and returns when it is done. */
void rt_blocks_copy(rt_blocks *b, int way, char *memory, int64_t at, int64_t bytes);

#endif
