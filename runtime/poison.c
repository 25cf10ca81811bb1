/* poison.c - --poison: fills dead bytes of the arena with NaN, so that a plan that reads them is
 * visible.
 *
 * The plan says after which action or loop a buffer dies (mg_program.deaths). A byte of 255 is part
 * of a NaN in every floating-point type, and of an index that no table has. */
#include "runtime/net/ranks.h"
#include "runtime/sizes.h"

enum { POISON = 0xff };

void rt_poison(mg_run *r)
{
    const mg_program *p = r->program;
    rt_device_fill(r, p->persistent_bytes, POISON, p->arena_bytes - p->persistent_bytes);
    if (r->ranks)
        rt_places_tell(r, r->rank); /* once more: poison overwrote them */
    r->watch |= RT_WATCH_POISON;
}

static bool had(const mg_run *r, const mg_death *d)
{
    const uint32_t axis = r->program->stages.axis;
    return !axis || mg_is_at(d->at, mg_place(r, axis), rt_ranks_of(r->program, axis));
}

void rt_poison_dead(mg_run *r, int event)
{
    const mg_program *p = r->program;
    int low = 0, high = p->ndeaths;
    /* The search for a non-finite value reads outputs after the action, also dead ones. */
    if (r->watch & RT_WATCH_VALUES)
        return;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (p->deaths[middle].event < (uint32_t)event)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->ndeaths && p->deaths[low].event == (uint32_t)event; low++)
        if (had(r, &p->deaths[low]))
            rt_device_fill(r, p->deaths[low].offset, POISON, p->deaths[low].bytes);
}
