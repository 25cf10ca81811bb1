/* pack.c - the best of several greedy orders, each putting an item at the lowest offset that is
 * free of the items that it meets (first fit) or into the tightest gap (best fit). Where that is
 * not enough, each order is squeezed (squeeze.c). See pack.h. */
#include "plan/place/pack.h"

#include <stdlib.h>
#include <string.h>

/* ---- orders ---------------------------------------------------------------------------------- */

static int by_size(const void *x, const void *y)
{
    const Item *a = *(Item *const *)x, *b = *(Item *const *)y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : (a->number > b->number) * 2 - 1;
}

static int by_area(const void *x, const void *y)
{
    const Item *a = *(Item *const *)x, *b = *(Item *const *)y;
    double p = (double)a->bytes * (a->last - a->first + 1);
    double q = (double)b->bytes * (b->last - b->first + 1);
    return p != q ? (p < q ? 1 : -1) : by_size(x, y);
}

static int by_length(const void *x, const void *y)
{
    const Item *a = *(Item *const *)x, *b = *(Item *const *)y;
    int p = a->last - a->first, q = b->last - b->first;
    return p != q ? (p < q ? 1 : -1) : by_size(x, y);
}

static int by_start(const void *x, const void *y)
{
    const Item *a = *(Item *const *)x, *b = *(Item *const *)y;
    return a->first != b->first ? (a->first > b->first ? 1 : -1) : by_size(x, y);
}

/* Buffers alive at the peak fill the arena to its top: without gaps, in the order of their first
 * actions, so that buffers that die together leave one gap. */
static int by_peak(const void *x, const void *y)
{
    const Item *a = *(Item *const *)x, *b = *(Item *const *)y;
    return a->at_peak != b->at_peak ? b->at_peak - a->at_peak
           : a->at_peak             ? by_start(x, y)
                                    : by_area(x, y);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Items that are placed, in order of their offsets, a list for each field: so a processor compares
 * several at once. */
typedef struct Placed {
    size_t n;
    int *first, *last, *at, *phase; /* as in Item */
    int64_t *begin, *end;           /* bytes */
} Placed;

static Placed room_for(size_t n, Arena *a)
{
    return (Placed){0,
                    NEW_ARRAY(a, int, n),
                    NEW_ARRAY(a, int, n),
                    NEW_ARRAY(a, int, n),
                    NEW_ARRAY(a, int, n),
                    NEW_ARRAY(a, int64_t, n),
                    NEW_ARRAY(a, int64_t, n)};
}

enum { BLOCK = 64 };

/* Of each item of BLOCK from `from` on, of which there are n: is it alive while `it` is, on some
 * rank (items_meet)? Without a branch, which no processor would guess. */
static void find_alive(const Item *it, const Placed *p, size_t from, size_t n,
                       unsigned char alive[BLOCK])
{
    const int first = it->first, last = it->last, at = (int)it->at, phase = it->phase;
    memset(alive, 0, BLOCK);
    for (size_t k = 0; k < n; k++)
        alive[k] = (((p->first[from + k] <= last) & (p->last[from + k] >= first)) |
                    ((p->phase[from + k] ^ phase) == PHASES_OF_PAIR)) &
                   ((p->at[from + k] & at) != 0);
}

/* The offset for an item among those that are placed. */
static int64_t place_for(const Item *it, const Placed *p, bool best_fit)
{
    unsigned char alive[BLOCK];
    int64_t at = 0, found = -1, tightest = INT64_MAX;
    for (size_t from = 0; from < p->n; from += BLOCK) {
        find_alive(it, p, from, p->n - from < BLOCK ? p->n - from : BLOCK, alive);
        for (size_t eight = 0; eight < BLOCK; eight += 8) {
            uint64_t left; /* the first item's byte is the lowest: little-endian, as all targets */
            memcpy(&left, alive + eight, sizeof left);
            for (; left; left &= left - 1) {
                const size_t k = from + eight + (size_t)__builtin_ctzll(left) / 8;
                const int64_t begin = p->begin[k], end = p->end[k];
                if (begin - at >= it->bytes && begin - at < tightest) {
                    tightest = begin - at;
                    found = at;
                    if (!best_fit)
                        return found;
                }
                at = end > at ? end : at;
            }
        }
    }
    return found >= 0 ? found : at;
}

#define INSERT(list, low, n, x)                                                                    \
    (memmove((list) + (low) + 1, (list) + (low), ((n) - (low)) * sizeof *(list)), (list)[low] = (x))

/* Puts an item behind all that begin no higher. */
static void put(Placed *p, const Item *it)
{
    size_t low = 0, high = p->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->begin[middle] <= it->offset)
            low = middle + 1;
        else
            high = middle;
    }
    INSERT(p->first, low, p->n, it->first);
    INSERT(p->last, low, p->n, it->last);
    INSERT(p->at, low, p->n, (int)it->at);
    INSERT(p->phase, low, p->n, it->phase);
    INSERT(p->begin, low, p->n, it->offset);
    INSERT(p->end, low, p->n, it->offset + it->bytes);
    p->n++;
}

/* Places items in the order given; returns the end of the highest. */
static int64_t pack(Item *const *order, size_t n, bool best_fit, Placed *placed)
{
    int64_t top = 0;
    placed->n = 0;
    for (size_t i = 0; i < n; i++) {
        Item *it = order[i];
        it->offset = place_for(it, placed, best_fit);
        put(placed, it);
        if (it->offset + it->bytes > top)
            top = it->offset + it->bytes;
    }
    return top;
}

int64_t pack_items(Item *item, size_t n, int64_t least, int64_t enough, Arena *a)
{
    typedef int Order(const void *, const void *);
    Order *const orders[] = {by_size, by_area, by_length, by_start, by_peak};
    enum { ORDERS = sizeof orders / sizeof *orders };
    Item **order = NEW_ARRAY(a, Item *, n + 1);
    int64_t *best = NEW_ARRAY(a, int64_t, n + 1), top = INT64_MAX;
    Placed placed = room_for(n + 1, a);
    for (size_t i = 0; i < n; i++)
        order[i] = &item[i];
    for (int k = 0; k < 2 * ORDERS && top > least; k++) {
        if (k % 2 == 0)
            qsort(order, n, sizeof *order, orders[k / 2]);
        const int64_t t = pack(order, n, k % 2, &placed);
        for (size_t i = 0; t < top && i < n; i++)
            best[i] = item[i].offset;
        top = t < top ? t : top;
    }
    if (top > enough) {
        Meetings *meetings = squeeze_open(item, n, a);
        uint32_t *numbers = NEW_ARRAY(a, uint32_t, n + 1);
        for (int k = 0; k < ORDERS && top > enough; k++) {
            qsort(order, n, sizeof *order, orders[k]);
            pack(order, n, false, &placed);
            for (size_t i = 0; i < n; i++)
                numbers[i] = (uint32_t)(order[i] - item);
            top = squeeze(meetings, item, numbers, top, enough, best);
        }
    }
    for (size_t i = 0; i < n; i++)
        item[i].offset = best[i];
    return top;
}
