/* pack.h - offline packing: items with known lifetimes get offsets, so that those that live at the
 * same time do not overlap.
 *
 *   pack.c       several greedy orders, each with first fit and best fit
 *   squeeze.c    one order, changed step by step where that is not enough
 *   pack_memo.c  the same items are packed once (base/memo.h) */
#ifndef MGC_PLAN_PLACE_PACK_H
#define MGC_PLAN_PLACE_PACK_H

#include "plan/plan.h"

typedef struct Item {
    uint32_t number; /* of equal items the lower one comes first: no two have the same */
    int first, last; /* actions in which it lives, both included */
    StageSet at;     /* items on no common rank may overlap */
    int phase;       /* of pairs that run beside each other: 1 F's, 2 B's; 0: neither's */
    bool at_peak;    /* alive when most is */
    int64_t bytes, offset;
} Item;

/* Do two items live at the same time, on some rank? What one phase of a pair has lives while the
 * other's does. */
enum { PHASES_OF_PAIR = 1 ^ 2 };
static inline bool items_meet(const Item *a, const Item *b)
{
    return ((a->first <= b->last && a->last >= b->first) ||
            (a->phase ^ b->phase) == PHASES_OF_PAIR) &&
           (a->at & b->at);
}

/* Sets all offsets; returns the end of the highest item. least: bytes that no packing is below;
 * enough: bytes that are as good as fewer. Scratch memory is in a. */
int64_t pack_items(Item *item, size_t n, int64_t least, int64_t enough, Arena *a);

/* pack_memo.c: the same of items in the order of their numbers, remembered by all processes for
 * each other. */
int64_t pack_remembered(Item *item, size_t n, int64_t least, int64_t enough, Arena *a);

/* ---- squeeze.c ------------------------------------------------------------------------------- */

/* The items that each item meets, for squeeze. */
typedef struct Meetings Meetings;
Meetings *squeeze_open(const Item *item, size_t n, Arena *a);

/* order: indices of the n items, in the order in which first fit gave them their offsets. The item
 * that ends highest is placed before all others, and everything anew, until the end is at most
 * `enough`, or 150 times. Returns the lowest end below `top` that was found, with all offsets in
 * best[n]; top, if there was none. Changes order. */
int64_t squeeze(Meetings *s, const Item *item, uint32_t *order, int64_t top, int64_t enough,
                int64_t *best);

#endif
