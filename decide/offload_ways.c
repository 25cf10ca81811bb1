/* offload_ways.c - the ways to offload that are tried, in order; see offload.c. */
#include "decide/offload_search.h"

#include <string.h>

#include "plan/levels.h"
#include "plan/place/place.h"

/* The ways, as sets of classes, behind nothing. */
static const unsigned ways[] = {
    STATE,
    MASTERS,
    STATE | MASTERS,
    STATE | MASTERS | KEPT,
    STATE | MASTERS | KEPT | PARAMETERS,
    STATE | MASTERS | KEPT | GRADIENTS,
    STATE | MASTERS | KEPT | PARAMETERS | GRADIENTS,
    STATE | MASTERS | PARAMETERS | GRADIENTS, /* where the level below has no room for more */
};

_Static_assert(sizeof ways / sizeof *ways == CLASSES, "each is tried");

/* The classes of a way that leave for the level below the nearest. */
static const unsigned lower[LOWER] = {0, STATE, STATE | MASTERS, ~0u};

/* Bytes that there are of a level. */
int64_t ways_room(const Search *s, int l)
{
    return l == LEVEL_device ? plan_budget(s->m, s->d) : levels_share(s->m, s->d, (Level)l).memory;
}

/* Bytes that a way lacks. */
int64_t ways_lacks(const Search *s, const Needs *n)
{
    int64_t all = 0;
    for (int l = 0; l < LEVEL_count; l++)
        all += n->of[l] > ways_room(s, l) ? n->of[l] - ways_room(s, l) : 0;
    return all;
}

/* A way that does not fit: is it nearer than all before? */
void ways_note_needs(Search *s, Needs n)
{
    if (!s->nearest.any || ways_lacks(s, &n) < ways_lacks(s, &s->nearest))
        s->nearest = n;
}

/* Could it fit, if all bytes of its classes left the device? `nothing` was tried. Tensors leave as
 * a whole; of gradients the bytes there are an estimate. Stages of a pipeline have each their own,
 * so that a level's are not the sum. */
static bool may_fit(Search *s, const Tried *nothing, const Way *w)
{
    Needs n = {.any = true, .of[LEVEL_device] = nothing->always};
    for (int k = 0; k < OFFLOAD_count; k++) {
        if (w->level[k] == LEVEL_device)
            continue;
        n.of[LEVEL_device] -= nothing->of[k];
        n.of[w->level[k]] += k == OFFLOAD_gradients ? 0 : nothing->of[k];
    }
    bool may = true;
    for (int l = 0; l < LEVEL_count; l++)
        may &= n.of[l] <= ways_room(s, l) || (l != LEVEL_device && s->m->layout.pipeline.axis);
    if (!may)
        ways_note_needs(s, n);
    return may;
}

static bool has_masters(const Module *m)
{
    return m->train.half != DT_none; /* pass round makes them of what is rounded */
}

static Way way_of(const Search *s, unsigned which, unsigned lower)
{
    Way w = {0};
    for (int k = 0; k < OFFLOAD_count; k++)
        if (which >> k & 1)
            w.level[k] = lower >> k & 1 ? s->below : s->to;
    return w;
}

void ways_note_hopeless(Search *s, unsigned which, const Way *w)
{
    s->hopeless[s->nhopeless++] = (Hopeless){which, *w}; /* each that is listed, once at most */
}

static bool is_listed(const Search *s, const Way *w)
{
    bool listed = false;
    for (int i = 0; i < s->n; i++)
        listed = listed || !memcmp(&s->way[i], w, sizeof *w);
    return listed;
}

/* Of the two that leave alone the smaller comes first: it moves less. */
static unsigned nth_way(const Tried *nothing, int n)
{
    const int64_t masters = nothing->of[OFFLOAD_masters];
    const bool turned = masters && masters < nothing->of[OFFLOAD_state];
    return ways[turned && n < 2 ? 1 - n : n];
}

static void list_way(Search *s, const Tried *nothing, unsigned which, unsigned on_lower)
{
    const Way w = way_of(s, which, on_lower);
    for (int k = 0; k < s->nfit; k++)
        if (s->fit[k] == which)
            return;
    if (!which || (on_lower && !(which & on_lower)) || is_listed(s, &w) || !may_fit(s, nothing, &w))
        return;
    for (int k = 0; k < s->nhopeless; k++)
        if (s->hopeless[k].which == which)
            return ways_note_hopeless(s, which, &w);
    s->way[s->n] = w;
    s->which[s->n++] = which;
}

/* The ways that may fit, each once: a class that has no bytes is in none. All on the nearest level,
 * or (from 1 on) some of it on the one below. */
void ways_list(Search *s, const Tried *nothing, int from, int end)
{
    for (int n = 0; n < CLASSES; n++) {
        unsigned which = nth_way(nothing, n);
        if (!has_masters(s->m))
            which &= ~(unsigned)MASTERS;
        for (int k = 0; k < OFFLOAD_count; k++)
            if (nothing->planned && k != OFFLOAD_kept && !nothing->of[k])
                which &= ~(1u << k);
        for (int k = from; k < end; k++)
            list_way(s, nothing, which, lower[k]);
    }
}
