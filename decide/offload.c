/* offload.c - what is offloaded, by plans that are made with it.
 *
 * Each way is planned with what the backward part keeps best then (frontier.c): where something
 * leaves, layers may keep more, so transfers are weighed against what is computed again. What moves
 * once a step leaves before what moves with each microbatch; of that, what is kept, of which the
 * frontier takes as many layers as it wants; then parameters, which only come; then gradients,
 * which come and go. The fastest that fits is taken. If nothing has to leave and next to nothing is
 * computed again, no other way is tried, for transfers only take time. Ways are tried one after the
 * other, as each may rule out others; what a way needs is planned by all processors. While one
 * plans what layers keep, the others begin to price the layers of the next way, and are ended where
 * that is ruled out.
 *
 * All of a way lies on the nearest level, the host of a GPU. If there is a disk below, a way for
 * which that has no room, or might have room for more of what layers keep, is tried with what moves
 * once a step on the disk, state before masters, or with all.
 *
 * A way of which what layers keep may leave is planned first with layers that keep no more than
 * their input. How fast it can be at most follows, and most ways are not priced any further:
 *   - computing nothing again saves what computing all again takes, and waits for it;
 *   - where more moves, or farther, the same layers take longer by what those take longer that keep
 *     no more than their input; and what more room would save them is known by their prices.
 *
 * Ways that move state and masters alone have layers of the same prices, which are found once. One
 * that has no room for what stays on the device has none farther either: what it needs is planned
 * only if nothing fits, for the message.
 *
 * A layout that says nothing offloads nothing of a program that fits, however much that computes
 * again: only for one that does not fit ways are tried. */
#include "decide/offload_search.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "base/quantity.h"
#include "decide/frontier.h"
#include "decide/make.h"
#include "passes/levels/levels.h"
#include "plan/levels.h"
#include "plan/order/order.h"
#include "plan/place/place.h"

/* Of a step's time: what is computed again that is not worth another try. Little, for it counts
 * whole kernels alone, and products wait for what is computed again: with 0.2% of a step that was,
 * Qwen2.5 1.5B in fp8 is 6% slower than with its state on the host. */
static const double LITTLE = 0.001;

static Layout with(const Module *m, const Way *w)
{
    Layout l = m->layout;
    for (int k = 0; k < OFFLOAD_count; k++)
        l.offload[k] = w->level[k];
    l.offloads = OFFLOADS_as_given;
    return l;
}

static void count(const Plan *p, Tried *t)
{
    t->planned = true;
    t->bytes[LEVEL_device] = plan_bytes(p);
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++)
        t->bytes[l] = levels_bytes(p, (Level)l);
    t->always = p->persistent_bytes + p->memory[OWN_grads];
    for (size_t k = 0; k < p->module->tensors.n; k++) {
        const Tensor *x = &p->module->tensors.data[k];
        const OffloadClass class = levels_class(x);
        if (class < OFFLOAD_count)
            t->of[class] += p->buffers.data[p->tensor_buffer.data[k]].bytes;
        if (x->stacked && !x->slot) /* sums of gradients are f32 at most, or f64 as all is */
            t->of[OFFLOAD_gradients] += type_elements(&x->type) * (x->type.dtype == DT_f64 ? 8 : 4);
    }
    if (t->of[OFFLOAD_gradients] > p->memory[OWN_grads])
        t->of[OFFLOAD_gradients] = p->memory[OWN_grads];
}

static bool fits(const Plan *p, const Module *m, const Device *d)
{
    return p && p->train && plan_bytes(p) <= plan_budget(m, d) && levels_fit(p) &&
           levels_asserted(p);
}

/* Does the layout leave open what layers keep? */
static bool open_to_keep(const Module *m)
{
    return m->layout.recompute == RECOMPUTE_auto && module_fn(m, "train");
}

/* A plan of a way, judged. */
static Tried judged(Plan *p, const Module *m, const Device *d)
{
    Tried t = {.fits = fits(p, m, d)};
    if (p)
        count(p, &t);
    if (t.fits) {
        plan_streams(p);
        plan_timeline(p);
        t.seconds = p->train->seconds;
        t.again = p->train->again;
    }
    return t;
}

/* A way, planned with what the backward part keeps. */
static Tried try_kept(const Module *m, const Device *d, const KeepPlan *kept)
{
    Arena *tmp = arena_new();
    const Tried t = judged(frontier_plan(m, d, kept, NULL, tmp), m, d);
    arena_free(tmp);
    return t;
}

/* Do repeats read nothing that the layout offloads? Then they have the same prices, whatever else
 * it does. */
static bool repeats_stay(const Module *m)
{
    const Level *const level = m->layout.offload;
    return !level[OFFLOAD_kept] && !level[OFFLOAD_parameters] && !level[OFFLOAD_gradients];
}

static Module *module_with(const Module *module, const Way *w, Arena *a)
{
    Module *m = module_copy(module, NULL, diag_silent(module->diag, a), a);
    m->layout = with(module, w);
    return m;
}

/* Bytes of the nearest level from which on layers might keep more, had it more room: steps of what
 * they keep are large. */
static int64_t crowded(const Search *s)
{
    return ways_room(s, s->to) / 3 * 2;
}

/* Is something of a way on the level below the nearest? */
static bool on_lower(const Search *s, int n)
{
    bool any = false;
    for (int k = 0; k < OFFLOAD_count; k++)
        any |= s->below && s->way[n].level[k] == s->below;
    return any;
}

/* Seconds that a way takes at least, by another that moves the same, or less, to the nearest level.
 */
static double bound_by(const Search *s, int n, const Known *k)
{
    const bool same = k->which == s->which[n];
    const double more = s->least[n].seconds - k->t.least; /* what moving more takes, or farther */
    return k->t.seconds - (same ? k->t.gain_of_room : k->t.gain_of_all) + more;
}

/* Seconds that a way takes at least, whatever layers keep. */
static double bound_of(const Search *s, int n)
{
    static const double WAITS = 1.25; /* of what is computed again, with what waits for it */
    double bound = s->least[n].seconds - WAITS * s->least[n].again;
    for (int k = 0; k < s->nknown; k++)
        if (!(s->known[k].which & ~s->which[n]))
            bound = fmax(bound, bound_by(s, n, &s->known[k]));
    return bound;
}

/* Might layers keep more, had the nearest level more room? */
static bool is_held_back(const Search *s, int n, const Tried *t)
{
    return s->which[n] & KEPT && t->bytes[s->to] > crowded(s);
}

/* Should a way be planned further, as far as is known? */
static bool may_be_better(const Search *s, int n, const Tried *best)
{
    return s->least[n].fits && !(best->fits && bound_of(s, n) >= best->seconds);
}

/* The next way that is tried has its layers priced meanwhile, unless it is known to be no better.
 */
static void begin_next(void *ctx)
{
    Search *s = ctx;
    int n = s->at + 1;
    while (n < s->n && s->which[n] & KEPT && !may_be_better(s, n, s->best))
        n++;
    if (n == s->n || !(s->which[n] & KEPT) || s->begun.a || s->m->layout.pipeline.axis)
        return;
    Arena *a = arena_new();
    Module *m = module_with(s->m, &s->way[n], a);
    s->begun = (Begun){n, a, m, frontier_begin(m, s->d)};
}

static void drop_begun(Search *s)
{
    if (s->begun.a && s->begun.prices)
        frontier_close(s->begun.prices);
    arena_free(s->begun.a);
    s->begun = (Begun){0};
}

/* Tries a way with what layers keep best, or where nothing fits, with what needs least, which says
 * what the way lacks; hopeless: that is not planned where no choice helps. */
static Tried try_best(Search *s, const Module *m, bool hopeless, Frontier *begun, Arena *a,
                      const KeepPlan **kept)
{
    Arena *tmp = arena_new();
    KeepAsk ask = {.must_fit = true,
                   .a = tmp,
                   .crowded = crowded(s),
                   .begun = begun,
                   .meanwhile = s->measured ? begin_next : NULL,
                   .ctx = s,
                   .shares = repeats_stay(m)};
    Tried t = {.hopeless = true};
    ask.prices = ask.shares ? s->prices : NULL;
    *kept = frontier_choose(m, s->d, a, &ask);
    s->prices = ask.shares ? ask.prices : s->prices;
    const bool none = ask.fit != KEEP_fits && !*kept;
    if (none)
        *kept = frontier_nothing(m, a);
    if (!none || ask.fit != KEEP_hopeless || !hopeless)
        t = ask.plan && !none ? judged(ask.plan, m, s->d) : try_kept(m, s->d, *kept);
    t.gain_of_room = ask.gain_of_room;
    t.gain_of_all = ask.gain_of_all;
    arena_free(tmp);
    return t;
}

/* kept: what the backward part keeps best then, in a. hopeless: as above. */
static Tried try(Search *s, const Way *w, bool hopeless, Arena *a, const KeepPlan **kept)
{
    const Begun begun = s->begun.n == s->at ? s->begun : (Begun){0};
    if (begun.a)
        s->begun = (Begun){0};
    Arena *tmp = begun.a ? begun.a : arena_new();
    Module *m = begun.a ? begun.m : module_with(s->m, w, tmp);
    *kept = NULL;
    const Tried t =
        open_to_keep(m) ? try_best(s, m, hopeless, begun.prices, a, kept) : try_kept(m, s->d, NULL);
    arena_free(tmp);
    return t;
}

/* No other way is worth a try: of the last, which keeps nothing below, only whether it fits counts.
 */
static bool enough(const Search *s, int n, const Tried *least)
{
    const unsigned way = s->which[n];
    const bool last = way & (PARAMETERS | GRADIENTS) && !(way & KEPT);
    return least->fits && (last || least->again <= LITTLE * least->seconds);
}

/* Nothing needs less than to keep no more than each layer's input. */
static Tried least_of(const Search *s, const Way *w)
{
    Arena *tmp = arena_new();
    Module *m = module_with(s->m, w, tmp);
    const Tried t = try_kept(m, s->d, frontier_nothing(m, tmp));
    arena_free(tmp);
    return t;
}

static void try_least(void *ctx, int k, FILE *out)
{
    const Search *s = ctx;
    const Tried t = least_of(s, &s->way[s->number[k]]);
    fwrite(&t, sizeof t, 1, out);
}

/* That of all ways from one on. */
static void measure_least(Search *s, int from)
{
    Arena *tmp = arena_new();
    Written w[WAYS];
    int n = 0;
    for (int k = from; k < s->n; k++)
        if (s->which[k] & KEPT)
            s->number[n++] = k;
    parallel_map(n, try_least, s, tmp, w);
    for (int k = 0; k < n; k++)
        if (w[k].n == sizeof *s->least)
            memcpy(&s->least[s->number[k]], w[k].bytes, sizeof *s->least);
    s->measured = true;
    arena_free(tmp);
}

static Needs needs_of(const Tried *t)
{
    Needs n = {.any = true};
    memcpy(n.of, t->bytes, sizeof n.of);
    return n;
}

/* Should a way be planned further? */
static bool is_worth_it(Search *s, int n, const Tried *least)
{
    const Tried *t = &s->least[n];
    if (!(s->which[n] & KEPT) || !open_to_keep(s->m))
        return true;
    if (!t->fits && t->planned)
        ways_note_needs(s, needs_of(t));
    const bool beaten = t->fits && !may_be_better(s, n, least);
    if (beaten && s->nfit < CLASSES)
        s->fit[s->nfit++] = s->which[n];
    return t->fits && !beaten;
}

/* Tries a way, and takes it if it is faster than `least`. */
static void try_way(Search *s, int n, Tried *least, Way *best, Arena *a, const KeepPlan **kept)
{
    const KeepPlan *k;
    Tried t = try(s, &s->way[n], true, a, &k);
    t.least = s->least[n].seconds;
    if (t.fits && t.least > 0 && !on_lower(s, n) && s->nknown < CLASSES)
        s->known[s->nknown++] = (Known){s->which[n], t};
    if (t.fits && !is_held_back(s, n, &t) && s->nfit < CLASSES)
        s->fit[s->nfit++] = s->which[n];
    if (!t.fits && t.planned)
        ways_note_needs(s, needs_of(&t));
    if (t.hopeless)
        ways_note_hopeless(s, s->which[n], &s->way[n]);
    if (!t.fits || (least->fits && t.seconds >= least->seconds))
        return;
    *least = t;
    *best = s->way[n];
    *kept = k;
}

/* ---- where nothing is said ------------------------------------------------------------------- */

/* Does the program fit as it is? By what layers keep, and if that is too much, by the decisions
 * that are made later. */
static bool fits_as_it_is(const Module *module, const Device *d, Arena *a, OffloadFound *found)
{
    Arena *tmp = arena_new();
    Module *m = module_copy(module, NULL, diag_silent(module->diag, tmp), tmp);
    KeepAsk ask = {0};
    KeepFit fit;
    if (open_to_keep(m)) {
        found->kept = frontier_choose(m, d, a, &ask);
        found->settled = ask.settled;
        fit = ask.fit;
    } else {
        const Plan *p = frontier_plan(m, d, NULL, NULL, tmp);
        fit = !p || plan_bytes(p) <= d->memory   ? KEEP_fits
              : p->persistent_bytes >= d->memory ? KEEP_hopeless
                                                 : KEEP_too_large;
    }
    if (fit == KEEP_too_large) {
        Settled *later = NEW(tmp, Settled);
        m->layout.plan = found->kept;
        PlanJob job = plan_onward(m, d, tmp, "frontier", later);
        job.upto = "place";
        plan_make(&job);
        if (!job.plan || plan_bytes(job.plan) <= d->memory) {
            fit = KEEP_fits;
            found->settled = settled_copy(later, a);
        }
    }
    arena_free(tmp);
    return fit == KEEP_fits;
}

/* Words for what the nearest way needs, and what there is; NULL: it lacks no bytes. */
static const char *lacking(Search *s, Arena *a)
{
    int64_t there[LEVEL_count];
    for (int k = 0; k < s->nhopeless; k++) {
        const Tried t = least_of(s, &s->hopeless[k].way);
        if (t.planned)
            ways_note_needs(s, needs_of(&t));
    }
    for (int l = 0; l < LEVEL_count; l++)
        there[l] = ways_room(s, l);
    return s->nearest.any && ways_lacks(s, &s->nearest)
               ? offload_needs_text(s->nearest.of, there, a)
               : NULL;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Takes the best of the ways that are listed, or of those that are worth a try. */
static void try_listed(Search *s, Tried *least, Way *best, Arena *a, const KeepPlan **kept)
{
    for (int k = 0; k < s->n && !enough(s, k, least); k++) {
        if (s->which[k] & KEPT && open_to_keep(s->m) && !s->measured)
            measure_least(s, k);
        if (!is_worth_it(s, k, least))
            continue;
        s->at = k;
        s->best = least;
        try_way(s, k, least, best, a, kept);
    }
    drop_begun(s);
}

/* The best way; `least` is what nothing offloaded gives. */
static Way search(Search *s, Tried *least, Arena *a, const KeepPlan **kept)
{
    const Tried nothing = *least;
    Way best = {0};
    ways_list(s, &nothing, 0, 1);
    try_listed(s, least, &best, a, kept);
    if (!s->below)
        return best;
    s->n = 0;
    s->measured = false;
    ways_list(s, &nothing, 1, LOWER);
    try_listed(s, least, &best, a, kept);
    return best;
}

/* Prices of ranges of layers add up, and what transfers wait for does not; and memory that layers
 * leave goes to logits. So of the way that was taken it is tried whether layers that keep no more
 * than their input are faster, where they come near. That makes all later decisions. */
static void or_nothing(const Search *s, const Way *best, const Tried *least, Arena *a,
                       OffloadFound *found)
{
    static const double NEAR = 1.03; /* logits may gain that much */
    if (!least->least || least->least > NEAR * least->seconds)
        return;
    Layout as[2] = {with(s->m, best), with(s->m, best)};
    WholeWay way[2];
    as[0].plan = found->kept;
    as[1].plan = frontier_nothing(s->m, a);
    whole_ways(s->m, s->d, "frontier", as, 2, a, way);
    const int faster = way[1].seconds < way[0].seconds;
    found->kept = as[faster].plan;
    found->settled = way[faster].settled;
}

bool offload_choose(Module *m, const Device *d, Arena *a, OffloadFound *found)
{
    const bool needed = m->layout.offloads == OFFLOADS_if_needed;
    Search s = {.m = m, .d = d, .to = levels_below(d, LEVEL_device)};
    s.below = s.to ? levels_below(d, s.to) : LEVEL_device;
    Way best = {0};
    bool fit = false;
    *found = (OffloadFound){0};
    if (m->layout.offloads == OFFLOADS_as_given || (needed && !(s.to && module_fn(m, "train"))))
        return false;
    if (needed && fits_as_it_is(m, d, a, found))
        return open_to_keep(m);
    found->settled = NULL;
    if (s.to) {
        Arena *tmp = arena_new();
        const Tried nothing =
            needed ? try_kept(m, d, found->kept) : try(&s, &best, false, a, &found->kept);
        Tried least = nothing;
        best = search(&s, &least, a, &found->kept);
        fit = least.fits;
        if (fit)
            or_nothing(&s, &best, &least, a, found);
        if (needed && fit)
            offload_tell(m, d, best.level, nothing.bytes[LEVEL_device]);
        if (!fit)
            found->missing = lacking(&s, a);
        if (s.prices)
            frontier_close(s.prices);
        arena_free(tmp);
    }
    if (fit || !s.to)
        m->layout = with(m, &best);
    return s.to && open_to_keep(m);
}
