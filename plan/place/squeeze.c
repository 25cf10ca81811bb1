/* squeeze.c - what is hard to place comes to the front of an order by and by; see pack.h.
 *
 * An iteration changes the place of one item in the order, and then the offsets of perhaps half.
 * So an item is placed anew only where something that it depends on has changed: its offset is the
 * lowest that is free of the items that it meets and that come before it. When one of those goes
 * from one range of bytes to another, the item stays where it is, unless the old range began below
 * its offset (room may be there now), or the new one overlaps it. */
#include "plan/place/pack.h"

#include <stdlib.h>
#include <string.h>

/* An item, as it is placed. */
typedef struct Spot {
    int64_t begin, end; /* bytes of the arena */
    uint32_t at;        /* its place in the order */
    uint32_t befores;   /* items that it meets and that come before it */
    uint32_t again;     /* 1: is to be placed anew */
} Spot;

struct Meetings {
    size_t n;
    Spot *spot;
    size_t *from;   /* lists of item k are from[k]..from[k + 1] of: */
    uint32_t *met;  /* the items that it meets, */
    uint32_t *list; /* ... those before it in the order behind all others, nearly by offset */
    uint32_t *order;
};

/* Counts for each item what it meets, given items by their first actions. met: where count[] says,
 * they are written there, too; NULL: they are not. */
static void each_pair(const Item *const *by_first, size_t n, const Item *base, size_t *count,
                      uint32_t *met)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            if (by_first[k]->first > by_first[i]->last && !by_first[i]->phase)
                break;
            if (!items_meet(by_first[i], by_first[k]))
                continue;
            const size_t x = (size_t)(by_first[i] - base), y = (size_t)(by_first[k] - base);
            if (met) {
                met[count[x]] = (uint32_t)y;
                met[count[y]] = (uint32_t)x;
            }
            count[x]++;
            count[y]++;
        }
}

static int earlier(const void *x, const void *y)
{
    const Item *a = *(const Item *const *)x, *b = *(const Item *const *)y;
    return a->first != b->first ? (a->first > b->first) * 2 - 1 : (a > b) - (a < b);
}

Meetings *squeeze_open(const Item *item, size_t n, Arena *a)
{
    Meetings *s = NEW(a, Meetings);
    const Item **by_first = NEW_ARRAY(a, const Item *, n + 1);
    size_t *count = NEW_ARRAY(a, size_t, n + 1);
    *s = (Meetings){.n = n, .spot = NEW_ARRAY(a, Spot, n + 1), .from = NEW_ARRAY(a, size_t, n + 1)};
    for (size_t k = 0; k < n; k++)
        by_first[k] = &item[k];
    qsort(by_first, n, sizeof *by_first, earlier);
    each_pair(by_first, n, item, count, NULL);
    for (size_t k = 0; k < n; k++) {
        s->from[k + 1] = s->from[k] + count[k];
        count[k] = s->from[k];
    }
    s->met = NEW_ARRAY(a, uint32_t, s->from[n] + 1);
    s->list = NEW_ARRAY(a, uint32_t, s->from[n] + 1);
    each_pair(by_first, n, item, count, s->met);
    return s;
}

typedef struct Begin {
    int64_t begin;
    uint32_t item;
} Begin;

static int lower(const void *x, const void *y)
{
    const Begin *a = x, *b = y;
    return a->begin != b->begin ? (a->begin > b->begin) * 2 - 1
                                : (a->item > b->item) - (a->item < b->item);
}

/* Sets all lists for an order. */
static void list_all(Meetings *s)
{
    Arena *tmp = arena_new();
    Begin *all = NEW_ARRAY(tmp, Begin, s->n + 1);
    size_t *after = NEW_ARRAY(tmp, size_t, s->n + 1), *before = NEW_ARRAY(tmp, size_t, s->n + 1);
    for (uint32_t k = 0; k < s->n; k++) {
        all[k] = (Begin){s->spot[k].begin, k};
        s->spot[s->order[k]].at = k;
    }
    for (size_t k = 0; k < s->n; k++) {
        Spot *spot = &s->spot[k];
        spot->befores = 0;
        for (size_t i = s->from[k]; i < s->from[k + 1]; i++)
            spot->befores += s->spot[s->met[i]].at < spot->at;
        after[k] = s->from[k];
        before[k] = s->from[k + 1] - spot->befores;
    }
    qsort(all, s->n, sizeof *all, lower);
    for (size_t k = 0; k < s->n; k++) {
        const uint32_t x = all[k].item;
        for (size_t i = s->from[x]; i < s->from[x + 1]; i++) {
            const uint32_t y = s->met[i];
            s->list[s->spot[x].at < s->spot[y].at ? before[y]++ : after[y]++] = x;
        }
    }
    arena_free(tmp);
}

/* The lowest offset that is free for an item. What overlaps it where it is tried leaves it no
 * offset below its own end; that is so for all items once a walk finds none. As they come nearly by
 * offset, two or three walks do. Neither a walk nor what follows has a branch, which no processor
 * would guess. */
static int64_t lowest(const Meetings *s, uint32_t x)
{
    const uint32_t *stop = s->list + s->from[x + 1], *list = stop - s->spot[x].befores;
    const int64_t bytes = s->spot[x].end - s->spot[x].begin;
    int64_t at = 0;
    for (int64_t was = -1; was != at;) {
        was = at;
        for (const uint32_t *k = list; k < stop; k++) {
            const Spot *y = &s->spot[*k];
            const int64_t end = y->end;
            const uint64_t reach = (uint64_t)(end - y->begin + bytes) - 1;
            at = (uint64_t)(end - at - 1) < reach ? end : at;
        }
    }
    return at;
}

/* An item before this one has moved from offset `was` (beyond all: it was not before it). */
static void note_moved(const Spot *moved, int64_t was, Spot *y)
{
    y->again |= (uint32_t)((was < y->begin) | ((moved->begin < y->end) & (moved->end > y->begin)));
}

static void move_to(Spot *x, int64_t begin)
{
    x->end += begin - x->begin;
    x->begin = begin;
}

/* Item y, which x comes after no longer, has it in its list where it belongs, as it is at offset 0.
 */
static void put_before(Meetings *s, uint32_t x, uint32_t y)
{
    uint32_t *list = s->list + s->from[y];
    const size_t afters = s->from[y + 1] - s->from[y] - s->spot[y].befores;
    size_t k = 0;
    while (list[k] != x)
        k++;
    list[k] = list[afters - 1];
    list[afters - 1] = x;
    s->spot[y].befores++;
}

/* Makes the item at a place of the order the first one. */
static void bring_forward(Meetings *s, uint32_t place)
{
    const uint32_t x = s->order[place];
    const int64_t was = s->spot[x].begin;
    move_to(&s->spot[x], 0);
    for (size_t i = s->from[x]; i < s->from[x + 1]; i++) {
        const uint32_t y = s->list[i];
        const bool before = s->spot[y].at < place;
        if (before)
            put_before(s, x, y);
        note_moved(&s->spot[x], before ? INT64_MAX : was, &s->spot[y]);
    }
    s->spot[x].befores = 0;
    memmove(s->order + 1, s->order, place * sizeof *s->order);
    s->order[0] = x;
    for (uint32_t k = 0; k <= place; k++)
        s->spot[s->order[k]].at = k;
}

/* Places what is to be placed anew. */
static void place_again(Meetings *s)
{
    for (uint32_t k = 1; k < s->n; k++) {
        const uint32_t x = s->order[k];
        Spot *spot = &s->spot[x];
        if (!spot->again)
            continue;
        const int64_t was = spot->begin, begin = lowest(s, x);
        const size_t end = s->from[x + 1] - spot->befores;
        spot->again = 0;
        if (begin == was)
            continue;
        move_to(spot, begin);
        for (size_t i = s->from[x]; i < end; i++)
            note_moved(spot, was, &s->spot[s->list[i]]);
    }
}

/* The place in the order of the item that ends highest, the first of several; its end. */
static uint32_t highest(const Meetings *s, int64_t *end)
{
    uint32_t high = 0;
    *end = -1;
    for (uint32_t k = 0; k < s->n; k++) {
        const int64_t e = s->spot[s->order[k]].end;
        high = e > *end ? k : high;
        *end = e > *end ? e : *end;
    }
    return high;
}

int64_t squeeze(Meetings *s, const Item *item, uint32_t *order, int64_t top, int64_t enough,
                int64_t *best)
{
    enum { ITERATIONS = 150 };
    int64_t end;
    if (top <= enough || !s->n)
        return top;
    s->order = order;
    for (size_t k = 0; k < s->n; k++)
        s->spot[k] = (Spot){.begin = item[k].offset, .end = item[k].offset + item[k].bytes};
    list_all(s);
    uint32_t high = highest(s, &end);
    for (int iteration = 0; iteration < ITERATIONS && top > enough; iteration++) {
        bring_forward(s, high);
        place_again(s);
        high = highest(s, &end);
        if (end < top) {
            top = end;
            for (size_t k = 0; k < s->n; k++)
                best[k] = s->spot[k].begin;
        }
    }
    return top;
}
