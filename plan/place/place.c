/* place.c - offsets in the arena: persistent buffers first, then what each program needs between.
 *
 * The programs (step, eval, sample, round) never run at once, so their transient parts overlap.
 * Within one, buffers alive at the same time may not: offline packing, the best of several greedy
 * orders, each putting a buffer at the lowest place free of its contemporaries (first fit) or in
 * the tightest gap (best fit); where that does not reach the largest live set, which is a lower
 * bound, what ends highest is placed earlier and earlier. Both numbers are in the plan.
 *
 * All ranks have one arena's offsets. What is on the first rank of a pipeline alone and what is on
 * the last alone may lie in the same bytes; a peak is that of the rank that needs most. */
#include "plan/place/place.h"

#include "base/quantity.h"
#include "plan/order/order.h"
#include "plan/outside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Item {
    uint32_t buffer;
    int64_t bytes, offset;
    int first, last;
    StageSet at;
    int phase;    /* of pairs that run beside each other: 1 F's, 2 B's; 0: neither's */
    bool at_peak; /* alive when most is */
} Item;

typedef struct Packing {
    Item *item;
    size_t n;
} Packing;

/* ---- packing --------------------------------------------------------------------------------- */

static int by_size(const void *x, const void *y)
{
    const Item *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : (a->buffer > b->buffer) * 2 - 1;
}

static int by_area(const void *x, const void *y)
{
    const Item *a = x, *b = y;
    double p = (double)a->bytes * (a->last - a->first + 1);
    double q = (double)b->bytes * (b->last - b->first + 1);
    return p != q ? (p < q ? 1 : -1) : by_size(x, y);
}

static int by_length(const void *x, const void *y)
{
    const Item *a = x, *b = y;
    int p = a->last - a->first, q = b->last - b->first;
    return p != q ? (p < q ? 1 : -1) : by_size(x, y);
}

static int by_start(const void *x, const void *y)
{
    const Item *a = x, *b = y;
    return a->first != b->first ? (a->first > b->first ? 1 : -1) : by_size(x, y);
}

/* Buffers alive at the peak fill the arena to its top: without gaps, in the order of their first
 * actions, so that buffers that die together leave one gap. */
static int by_peak(const void *x, const void *y)
{
    const Item *a = x, *b = y;
    return a->at_peak != b->at_peak ? b->at_peak - a->at_peak
           : a->at_peak             ? by_start(x, y)
                                    : by_area(x, y);
}

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
 * rank? What one phase of a pair has is alive while the other's is. Without a branch, which no
 * processor would guess. */
static void find_alive(const Item *it, const Placed *p, size_t from, size_t n,
                       unsigned char alive[BLOCK])
{
    const int first = it->first, last = it->last, at = (int)it->at, phase = it->phase;
    enum { BOTH = 1 ^ 2 };
    memset(alive, 0, BLOCK);
    for (size_t k = 0; k < n; k++)
        alive[k] = (((p->first[from + k] <= last) & (p->last[from + k] >= first)) |
                    ((p->phase[from + k] ^ phase) == BOTH)) &
                   ((p->at[from + k] & at) != 0);
}

/* The offset for an item among those that are placed. Most of the time of planning is here. */
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
static int64_t pack(Packing *p, bool best_fit, Placed *placed)
{
    int64_t top = 0;
    placed->n = 0;
    for (size_t i = 0; i < p->n; i++) {
        Item *it = &p->item[i];
        it->offset = place_for(it, placed, best_fit);
        put(placed, it);
        if (it->offset + it->bytes > top)
            top = it->offset + it->bytes;
    }
    return top;
}

/* The item that ends highest is placed before all others, and everything anew: what is hard to
 * place comes to the front by and by. Until the bound is reached, or for so many iterations. */
static int64_t squeeze(Packing *p, int64_t top, int64_t bound, Item *best, Placed *live)
{
    enum { ITERATIONS = 150 };
    for (int iteration = 0; iteration < ITERATIONS && top > bound; iteration++) {
        size_t high = 0;
        for (size_t i = 0; i < p->n; i++)
            if (p->item[i].offset + p->item[i].bytes > p->item[high].offset + p->item[high].bytes)
                high = i;
        Item it = p->item[high];
        memmove(p->item + 1, p->item, high * sizeof *p->item);
        p->item[0] = it;
        int64_t t = pack(p, false, live);
        if (t < top) {
            top = t;
            memcpy(best, p->item, p->n * sizeof *best);
        }
    }
    return top;
}

static int64_t best_packing(Packing *p, int64_t bound, Arena *a)
{
    typedef int Order(const void *, const void *);
    Order *const orders[] = {by_size, by_area, by_length, by_start, by_peak};
    Item *best = NEW_ARRAY(a, Item, p->n + 1);
    Placed live = room_for(p->n + 1, a);
    int64_t top = -1;
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++)
        for (int fit = 0; fit < 2; fit++) {
            qsort(p->item, p->n, sizeof *p->item, orders[o]);
            int64_t t = pack(p, fit == 1, &live);
            if (top < 0 || t < top) {
                top = t;
                memcpy(best, p->item, p->n * sizeof *best);
            }
        }
    for (size_t o = 0; o < sizeof orders / sizeof *orders && top > bound; o++) {
        qsort(p->item, p->n, sizeof *p->item, orders[o]);
        pack(p, false, &live);
        top = squeeze(p, top, bound, best, &live);
    }
    memcpy(p->item, best, p->n * sizeof *best);
    return top;
}

/* ---- programs -------------------------------------------------------------------------------- */

static const StageSet stage_set[] = {AT_FIRST, AT_MIDDLE, AT_LAST};
enum { STAGE_SET = sizeof stage_set / sizeof *stage_set };

/* Bytes alive during each action, on the ranks that have most; returns the action with most. */
static int busiest(const Packing *p, int actions, Arena *a, int64_t *max)
{
    int at = 0;
    *max = 0;
    for (int k = 0; k < STAGE_SET; k++) {
        int64_t *delta = NEW_ARRAY(a, int64_t, actions + 2), live = 0;
        for (size_t i = 0; i < p->n; i++) {
            if (!(p->item[i].at & stage_set[k]))
                continue;
            delta[p->item[i].first] += p->item[i].bytes;
            delta[p->item[i].last + 1] -= p->item[i].bytes;
        }
        for (int i = 0; i < actions; i++) {
            live += delta[i];
            if (live > *max) {
                *max = live;
                at = i;
            }
        }
    }
    return at;
}

/* The phase of a pair that a buffer is of. */
static int phase_of(const Program *g, const Buffer *b)
{
    const int first = pipe_joined(g, b->first), last = pipe_joined(g, b->last);
    return first == last ? first : 0;
}

/* The most bytes that are alive while the phases of a pair run beside each other: as much of each
 * as it ever has, and the rest. */
static int64_t busiest_pair(const Packing *p, const Program *g, Arena *a)
{
    int64_t max = 0;
    for (int k = 0; k < STAGE_SET; k++) {
        int64_t most = 0;
        for (int phase = 0; phase <= 2; phase++) {
            Packing of = {.item = NEW_ARRAY(a, Item, p->n + 1)};
            int64_t here;
            for (size_t i = 0; i < p->n; i++)
                if (p->item[i].phase == phase && (p->item[i].at & stage_set[k]))
                    of.item[of.n++] = p->item[i];
            busiest(&of, (int)g->actions.n, a, &here);
            most += here;
        }
        max = most > max ? most : max;
    }
    return max;
}

int64_t plan_budget(const Module *m, const Device *d)
{
    double asserted = m->layout.assert_peak;
    return asserted > 0 && asserted < (double)d->memory ? (int64_t)asserted : d->memory;
}

/* How far above the bound a packing is good enough. What collectives touch is alive across others'
 * lives, so that no packing may reach the bound: one that is close will do, if it fits. In a rough
 * plan any that fits will do, and where none can, any. */
static int64_t slack(const Plan *p, int64_t bound)
{
    int64_t left =
        plan_budget(p->module, p->device) - outside_bytes(p) - p->persistent_bytes - bound;
    int64_t close = bound / 1000;
    if (p->rough)
        return left < 0 ? INT64_MAX / 4 : left;
    return !p->module->layout.overlap || left < 0 ? 0 : left < close ? left : close;
}

static void place_program(Plan *p, Program *prog, int number, Arena *a)
{
    Packing k = {.item = NEW_ARRAY(a, Item, p->buffers.n + 1)};
    int loop[2];
    const bool joins = pipe_joins(p, prog, loop);
    for (size_t i = 0; i < p->buffers.n; i++) {
        const Buffer *b = &p->buffers.data[i];
        if (!b->persistent && !b->level && b->program == number && b->first >= 0)
            k.item[k.n++] = (Item){
                (uint32_t)i, b->bytes, 0, b->first, b->last, b->at, joins ? phase_of(prog, b) : 0,
                false};
    }
    const int64_t kept = program_has_caches(number) ? p->cache_bytes : 0;
    prog->peak_action = busiest(&k, (int)prog->actions.n, a, &prog->live_bound);
    for (size_t i = 0; i < k.n; i++)
        k.item[i].at_peak =
            k.item[i].first <= prog->peak_action && k.item[i].last >= prog->peak_action;
    const int64_t loose = slack(p, kept + prog->live_bound);
    const int64_t more = joins ? busiest_pair(&k, prog, a) - prog->live_bound : 0;
    prog->peak = kept + best_packing(&k, prog->live_bound + (more > 0 ? more : 0) + loose, a);
    prog->live_bound += kept;
    for (size_t i = 0; i < k.n; i++)
        p->buffers.data[k.item[i].buffer].offset = p->persistent_bytes + kept + k.item[i].offset;
}

/* Caches lie behind what is alive in all programs, over what those have that do not generate. */
static void place_caches(Plan *p)
{
    int64_t end = 0;
    for (size_t i = 0; i < p->buffers.n; i++) {
        Buffer *b = &p->buffers.data[i];
        if (!b->persistent || buffer_always(b))
            continue;
        b->offset = p->persistent_bytes + end;
        end += b->bytes;
    }
    p->cache_bytes = end;
}

/* Is it alive at the peak of program `number`? */
static bool at_peak_of(const Buffer *b, const Program *prog, int number)
{
    if (b->persistent)
        return buffer_always(b) || program_has_caches(number);
    return b->program == number && b->first >= 0 && b->first <= prog->peak_action &&
           b->last >= prog->peak_action;
}

/* Bytes by owner: what is persistent, and what is alive at the peak of the fullest program, on the
 * ranks that have most. */
static void count_owners(Plan *p, const Program *fullest, int number)
{
    int64_t max = -1;
    for (int k = 0; k < STAGE_SET; k++) {
        int64_t here[OWN_count] = {0}, all = 0;
        for (size_t i = 0; i < p->buffers.n; i++) {
            const Buffer *b = &p->buffers.data[i];
            if (at_peak_of(b, fullest, number) && !b->level && (b->at & stage_set[k])) {
                here[b->owner] += b->bytes;
                all += b->bytes;
            }
        }
        if (all > max)
            memcpy(p->memory, here, sizeof here);
        max = all > max ? all : max;
    }
}

/* Places the persistent buffers of a level (of another than the device all): those of all ranks
 * first, then those of some, those of different stages over each other; on a disk each begins on a
 * whole block. Returns the end. */
static int64_t place_persistent(Plan *p, Level level)
{
    const int64_t whole = level == LEVEL_disk ? MG_DISK_BLOCK : device_align(p->device);
    int64_t end[STAGE_SET] = {0}, top = 0;
    for (int iteration = 0; iteration < 2; iteration++)
        for (size_t i = 0; i < p->buffers.n; i++) {
            Buffer *b = &p->buffers.data[i];
            if (b->level != level || !(buffer_always(b) || level) ||
                (b->at == AT_ALL) != (iteration == 0))
                continue;
            b->offset = 0;
            for (int k = 0; k < STAGE_SET; k++)
                if ((b->at & stage_set[k]) && end[k] > b->offset)
                    b->offset = (end[k] + whole - 1) / whole * whole;
            for (int k = 0; k < STAGE_SET; k++)
                if (b->at & stage_set[k])
                    end[k] = b->offset + b->bytes;
        }
    for (int k = 0; k < STAGE_SET; k++)
        top = end[k] > top ? end[k] : top;
    return top;
}

/* ---- too much -------------------------------------------------------------------------------- */

static int larger(const void *x, const void *y)
{
    const Buffer *a = *(Buffer *const *)x, *b = *(Buffer *const *)y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : (a > b) - (a < b);
}

/* The buffers alive at the peak, largest first, under their source lines. */
static void tell_live(Plan *p, const Program *prog, int number)
{
    enum { SHOWN = 8 };
    Module *m = p->module;
    VEC(Buffer *) live = {0};
    for (size_t i = 0; i < p->buffers.n; i++) {
        Buffer *b = &p->buffers.data[i];
        if (!b->level && at_peak_of(b, prog, number))
            vec_push(m->arena, &live, b);
    }
    qsort(live.data, live.n, sizeof *live.data, larger);
    for (size_t i = 0; i < live.n && i < SHOWN; i++)
        diag_note(m->diag, live.data[i]->span, "%s: %lld bytes (%s)",
                  name_str(m->names, live.data[i]->name), (long long)live.data[i]->bytes,
                  text_bytes(m->arena, (double)live.data[i]->bytes));
    if (live.n > SHOWN)
        diag_note(m->diag, (Span){0}, "and %zu smaller ones", live.n - SHOWN);
}

int64_t plan_bytes(const Plan *p)
{
    return p->arena_bytes + p->scratch_bytes * p->device->threads + outside_bytes(p);
}

static bool fits(Plan *p, const Program *prog, int number)
{
    Module *m = p->module;
    int64_t all = plan_bytes(p);
    double limit = m->layout.assert_peak;
    bool asserted = limit > 0 && (double)all > limit;
    if (all <= p->device->memory && !asserted)
        return true;
    Span where = asserted ? m->layout.assert_span : (Span){0};
    diag_error(m->diag, where, asserted ? 551 : 550,
               asserted ? "the plan needs %lld bytes (%s) where the layout asserts less than "
                          "%lld (%s)"
                        : "the plan needs %lld bytes (%s) and the device has %lld (%s)",
               (long long)all, text_bytes(m->arena, (double)all),
               (long long)(asserted ? limit : (double)p->device->memory),
               text_bytes(m->arena, asserted ? limit : (double)p->device->memory));
    tell_live(p, prog, number);
    if (outside_bytes(p))
        diag_note(m->diag, (Span){0}, "%s (%lld bytes) of it beside the arena: %s",
                  text_bytes(m->arena, (double)outside_bytes(p)), (long long)outside_bytes(p),
                  outside_text(p, m->arena));
    return false;
}

/* The program that needs most; its number. */
static const Program *fullest_of(const Plan *p, int *number)
{
    Program *const *const programs = p->programs;
    const Program *fullest = NULL;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        if (programs[k] && (!fullest || programs[k]->peak > fullest->peak)) {
            fullest = programs[k];
            *number = k;
        }
    return fullest;
}

static void place_all(Plan *p)
{
    Program *const *const programs = p->programs;
    Arena *tmp = arena_new();
    int number = 0;
    int64_t at = place_persistent(p, LEVEL_device);
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++)
        p->level_bytes[l] = place_persistent(p, (Level)l);
    p->persistent_bytes = at;
    place_caches(p);
    for (int k = 0; k < PLAN_PROGRAMS; k++) {
        if (!programs[k])
            continue;
        place_program(p, programs[k], k, tmp);
        if (p->live_bound_bytes < at + programs[k]->live_bound)
            p->live_bound_bytes = at + programs[k]->live_bound;
    }
    const Program *fullest = fullest_of(p, &number);
    p->arena_bytes = at + (fullest ? fullest->peak : 0);
    if (fullest)
        count_owners(p, fullest, number);
    arena_free(tmp);
}

bool plan_place(Plan *p)
{
    place_all(p);
    int number = 0;
    const Program *fullest = fullest_of(p, &number);
    return !fullest || fits(p, fullest, number);
}
