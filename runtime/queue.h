/* queue.h - the rules of the queue of async collectives. async_comm.c runs the queue by these
 * rules; plan/check/check_queue.c proves that no two collectives that the rules allow at the same
 * time touch the same bytes.
 *
 * Collectives are numbered 1, 2, ... in the order in which a rank puts them into the queue. A
 * collective enters (the rank says that its operands are ready, and messages may begin), then has
 * posted all of its messages, then is done (no rank of this machine reads its operands any more):
 *
 *   - collectives enter in order. A collective with `after` enters only when all collectives up to
 *     the number `after` are done: it reads or writes what they write, or writes what they read;
 *   - messages of a collective begin when the collective before it has posted all of its messages:
 *     any number of collectives may be in flight;
 *   - collectives are done in order.
 *
 * A wait for one collective therefore also waits for all before it, and a collective that is held
 * also holds all behind it. */
#ifndef MG_QUEUE_H
#define MG_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* entered, posted, done: the number of the last collective in that state; after: 0 for none. */
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
