/* place.c - offsets in the arena: persistent buffers first, then what each program needs between.
 *
 * The programs (step, eval, sample, round) never run at once, so their transient parts overlap.
 * Within one, buffers alive at the same time may not: they are packed (pack.h), as near as that
 * comes to the largest live set, which is a lower bound. Both numbers are in the plan.
 *
 * All ranks have one arena's offsets. What is on the first rank of a pipeline alone and what is on
 * the last alone may lie in the same bytes; a peak is that of the rank that needs most. */
#include "plan/place/place.h"

#include "base/quantity.h"
#include "plan/order/order.h"
#include "plan/outside.h"
#include "plan/place/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- programs -------------------------------------------------------------------------------- */

static const StageSet stage_set[] = {AT_FIRST, AT_MIDDLE, AT_LAST};
enum { STAGE_SET = sizeof stage_set / sizeof *stage_set };

/* Bytes alive during each action, on the ranks that have most; returns the action with most. */
static int busiest(const Item *item, size_t n, int actions, Arena *a, int64_t *max)
{
    int at = 0;
    *max = 0;
    for (int k = 0; k < STAGE_SET; k++) {
        int64_t *delta = NEW_ARRAY(a, int64_t, actions + 2), live = 0;
        for (size_t i = 0; i < n; i++) {
            if (!(item[i].at & stage_set[k]))
                continue;
            delta[item[i].first] += item[i].bytes;
            delta[item[i].last + 1] -= item[i].bytes;
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
static int64_t busiest_pair(const Item *item, size_t n, const Program *g, Arena *a)
{
    int64_t max = 0;
    for (int k = 0; k < STAGE_SET; k++) {
        int64_t most = 0;
        for (int phase = 0; phase <= 2; phase++) {
            Item *of = NEW_ARRAY(a, Item, n + 1);
            size_t count = 0;
            int64_t here;
            for (size_t i = 0; i < n; i++)
                if (item[i].phase == phase && (item[i].at & stage_set[k]))
                    of[count++] = item[i];
            busiest(of, count, (int)g->actions.n, a, &here);
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
 * lives, so that no packing may reach the bound: one that is close will do, if it fits, or if the
 * plan fits in no packing and is only compared. In a rough plan any that fits will do, and where
 * none can, any. */
static int64_t slack(const Plan *p, int64_t bound)
{
    int64_t left =
        plan_budget(p->module, p->device) - outside_bytes(p) - p->persistent_bytes - bound;
    int64_t close = bound / 1000;
    if (p->rough)
        return left < 0 ? INT64_MAX / 4 : left;
    if (!p->module->layout.overlap || (left < 0 && !p->compared))
        return 0;
    return left >= 0 && left < close ? left : close;
}

static void place_program(Plan *p, Program *prog, int number, Arena *a)
{
    Item *item = NEW_ARRAY(a, Item, p->buffers.n + 1);
    size_t n = 0;
    int loop[2];
    const bool joins = pipe_joins(p, prog, loop);
    for (size_t i = 0; i < p->buffers.n; i++) {
        const Buffer *b = &p->buffers.data[i];
        if (!b->persistent && !b->level && b->program == number && b->first >= 0)
            item[n++] = (Item){.number = (uint32_t)i,
                               .first = b->first,
                               .last = b->last,
                               .at = b->at,
                               .phase = joins ? phase_of(prog, b) : 0,
                               .bytes = b->bytes};
    }
    const int64_t kept = program_has_caches(number) ? p->cache_bytes : 0;
    prog->peak_action = busiest(item, n, (int)prog->actions.n, a, &prog->live_bound);
    for (size_t i = 0; i < n; i++)
        item[i].at_peak = item[i].first <= prog->peak_action && item[i].last >= prog->peak_action;
    const int64_t loose = slack(p, kept + prog->live_bound);
    const int64_t more = joins ? busiest_pair(item, n, prog, a) - prog->live_bound : 0;
    prog->peak = kept + pack_remembered(item, n, prog->live_bound,
                                        prog->live_bound + (more > 0 ? more : 0) + loose, a);
    prog->live_bound += kept;
    for (size_t i = 0; i < n; i++)
        p->buffers.data[item[i].number].offset = p->persistent_bytes + kept + item[i].offset;
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
