/* Packing: what squeeze.c finds by placing anew only what has to be is what a packing of everything
 * from the beginning finds, offset for offset; so is what is remembered. */
#include "plan/place/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 60, ROUNDS = 40, ITERATIONS = 150 };

static uint64_t seed = 1;

static int64_t below(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static size_t random_items(Item item[MOST])
{
    const size_t n = 1 + (size_t)below(MOST - 1);
    const int actions = 4 + (int)below(60);
    const bool paired = below(3) == 0;
    for (size_t k = 0; k < n; k++) {
        const int first = (int)below(actions);
        const int length = below(5) ? (int)below(8) : (int)below(actions);
        item[k] = (Item){.number = (uint32_t)k,
                         .first = first,
                         .last = first + length,
                         .at = below(6)   ? AT_ALL
                               : below(2) ? AT_FIRST
                                          : AT_LAST,
                         .phase = paired ? (int)below(3) : 0,
                         .bytes = below(20) ? 1 + below(below(3) ? 9 : 500) : 0};
    }
    return n;
}

static void shuffle(uint32_t *order, size_t n)
{
    for (size_t k = 1; k < n; k++) {
        const size_t other = (size_t)below((int64_t)k + 1);
        const uint32_t x = order[k];
        order[k] = order[other];
        order[other] = x;
    }
}

/* The lowest offset of order[k] that is free of those before it that it meets: each candidate is
 * the bottom, or an end. */
static int64_t lowest_free(const Item *item, const uint32_t *order, size_t k)
{
    const Item *it = &item[order[k]];
    int64_t best = -1;
    for (size_t c = 0; c <= k; c++) {
        const Item *under = &item[order[c]];
        if (c < k && !items_meet(under, it))
            continue;
        const int64_t at = c == k ? 0 : under->offset + under->bytes;
        bool is_free = best < 0 || at < best;
        for (size_t i = 0; i < k && is_free; i++) {
            const Item *x = &item[order[i]];
            is_free =
                !items_meet(x, it) || x->offset >= at + it->bytes || x->offset + x->bytes <= at;
        }
        best = is_free ? at : best;
    }
    return best;
}

static int64_t place_in_order(Item *item, const uint32_t *order, size_t n)
{
    int64_t top = 0;
    for (size_t k = 0; k < n; k++) {
        Item *it = &item[order[k]];
        it->offset = lowest_free(item, order, k);
        top = it->offset + it->bytes > top ? it->offset + it->bytes : top;
    }
    return top;
}

/* squeeze, as pack.h says it. */
static int64_t squeeze_plainly(Item *item, uint32_t *order, size_t n, int64_t top, int64_t enough,
                               int64_t *best)
{
    for (int k = 0; k < ITERATIONS && top > enough; k++) {
        size_t high = 0;
        for (size_t i = 1; i < n; i++) {
            const Item *x = &item[order[i]], *y = &item[order[high]];
            high = x->offset + x->bytes > y->offset + y->bytes ? i : high;
        }
        const uint32_t x = order[high];
        memmove(order + 1, order, high * sizeof *order);
        order[0] = x;
        const int64_t t = place_in_order(item, order, n);
        for (size_t i = 0; t < top && i < n; i++)
            best[i] = item[i].offset;
        top = t < top ? t : top;
    }
    return top;
}

static int64_t largest_live_set(const Item *item, size_t n)
{
    static const StageSet sets[] = {AT_FIRST, AT_MIDDLE, AT_LAST};
    int64_t most = 0;
    for (int s = 0; s < 3; s++)
        for (size_t k = 0; k < n; k++) {
            int64_t live = 0;
            for (size_t i = 0; i < n; i++)
                if (item[i].at & sets[s] && item[i].first <= item[k].first &&
                    item[i].last >= item[k].first)
                    live += item[i].bytes;
            most = live > most ? live : most;
        }
    return most;
}

static void squeezed_as_plainly(void **state)
{
    (void)state;
    int lower = 0;
    for (int round = 0; round < ROUNDS; round++) {
        Arena *a = arena_new();
        Item item[MOST], plain[MOST];
        uint32_t order[MOST], order2[MOST];
        int64_t best[MOST] = {0}, best2[MOST] = {0};
        const size_t n = random_items(item);
        for (uint32_t k = 0; k < n; k++)
            order[k] = k;
        Meetings *meetings = squeeze_open(item, n, a);
        for (int again = 0; again < 3; again++) { /* what is left of one order harms no other */
            const int64_t top = place_in_order(item, order, n),
                          enough = below(2) ? 0 : largest_live_set(item, n);
            memcpy(plain, item, sizeof plain);
            memcpy(order2, order, sizeof order2);
            const int64_t t = squeeze(meetings, item, order, top, enough, best);
            assert_int_equal(t, squeeze_plainly(plain, order2, n, top, enough, best2));
            assert_memory_equal(best, best2, n * sizeof *best);
            assert_memory_equal(order, order2, n * sizeof *order);
            lower += t < top;
            shuffle(order, n);
        }
        arena_free(a);
    }
    assert_true(lower > ROUNDS / 4);
}

/* Nothing overlaps, the end is the end, and never below the largest live set. */
static void nothing_overlaps(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        Arena *a = arena_new();
        Item item[MOST];
        const size_t n = random_items(item);
        const int64_t least = largest_live_set(item, n);
        const int64_t end = pack_items(item, n, least, least + below(3) * least / 50, a);
        int64_t top = 0;
        for (size_t k = 0; k < n; k++) {
            top = item[k].offset + item[k].bytes > top ? item[k].offset + item[k].bytes : top;
            for (size_t i = 0; i < k; i++)
                assert_true(!items_meet(&item[i], &item[k]) || !item[i].bytes || !item[k].bytes ||
                            item[i].offset >= item[k].offset + item[k].bytes ||
                            item[k].offset >= item[i].offset + item[i].bytes);
        }
        assert_int_equal(top, end);
        assert_true(end >= least);
        arena_free(a);
    }
}

/* Packs items by memory, and by itself: the same offsets. */
static void pack_both_ways(Item *item, size_t n, int64_t least, int64_t enough)
{
    Arena *a = arena_new();
    Item plain[MOST];
    memcpy(plain, item, sizeof plain);
    const int64_t end = pack_items(plain, n, least, enough, a);
    for (int again = 0; again < 2; again++) {
        for (size_t k = 0; k < n; k++)
            item[k].offset = -1;
        assert_int_equal(pack_remembered(item, n, least, enough, a), end);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(item[k].offset, plain[k].offset);
    }
    arena_free(a);
}

/* Also where one thing differs from items that are remembered. */
static void remembered_as_packed(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        Item item[MOST] = {{0}};
        const size_t n = random_items(item);
        const int64_t least = largest_live_set(item, n), enough = least + least / 50;
        pack_both_ways(item, n, least, enough);
        pack_both_ways(item, n, least, least);
        pack_both_ways(item, n - 1, 0, 0);
        for (int field = 0; field < 6; field++) {
            Item other[MOST];
            memcpy(other, item, sizeof other);
            Item *x = &other[below((int64_t)n)];
            x->first -= field == 0 && x->first > 0;
            x->last += field == 1;
            x->at = field == 2 ? AT_MIDDLE : x->at;
            x->phase = field == 3 ? (x->phase + 1) % 3 : x->phase;
            x->at_peak ^= field == 4;
            x->bytes += field == 5;
            pack_both_ways(other, n, 0, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(squeezed_as_plainly),
                                       cmocka_unit_test(nothing_overlaps),
                                       cmocka_unit_test(remembered_as_packed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
