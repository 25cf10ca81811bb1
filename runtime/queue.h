/* queue.h - the rules of the queue of collectives: read by async_comm.c, which carries it on, and
 * by plan/check/check_queue.c, which proves that no two collectives that these rules let run at
 * once touch the same bytes.
 *
 * Collectives are numbered 1, 2, ... in the order in which a rank puts them into the queue. Each
 * enters it (the rank says that the operands are there, and messages may begin), has posted all of
 * its messages, and is done when no rank of this machine reads its operands any more:
 *
 *   - they enter in order, and one that comes after another (`after`, the number up to which all
 *     have to be done: what reads, or writes, what those write, or read) not before that is done;
 *   - messages of one begin when the one before has posted all of its own: any number of them may
 *     be under way at once;
 *   - they are done in order.
 *
 * Who waits for one therefore waits for all before it, too, and what holds one holds all behind. */
#ifndef MG_QUEUE_H
#define MG_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* entered, posted, done: the number of the last that has; after: 0 for none. */
static inline bool mg_queue_enters(uint64_t number, uint64_t entered, uint64_t done, uint64_t after)
{
    return number == entered + 1 && done >= after;
}

static inline bool mg_queue_sends(uint64_t number, uint64_t entered, uint64_t posted)
{
    return number == posted + 1 && number <= entered;
}

static inline bool mg_queue_ends(uint64_t number, uint64_t posted, uint64_t done)
{
    return number == done + 1 && number <= posted;
}

#endif
