/* asserts.c - what a layout asserts of the plan beside its memory, which place.c sees to. */
#include <math.h>

#include "base/quantity.h"
#include "plan/volume.h"
#include "ir/propose.h"
#include "plan/asserts.h"
#include "plan/levels.h"

int plan_costliest(const Program *p, Costly *top, int limit)
{
    int n = 0;
    for (size_t i = 0; i < p->actions.n; i++) {
        const Action *a = &p->actions.data[i];
        const double times = a->times;
        if (action_is_mark(a))
            continue;
        int k = n;
        while (k > 0 && a->seconds * times > top[k - 1].seconds) {
            if (k < limit)
                top[k] = top[k - 1];
            k--;
        }
        if (k < limit) {
            top[k] = (Costly){a, times, a->seconds * times};
            n += n < limit;
        }
    }
    return n;
}

static void tell_costliest(const Plan *p)
{
    enum { TOLD = 5 };
    const Module *m = p->module;
    Costly top[TOLD];
    int n = plan_costliest(p->train, top, TOLD);
    for (int k = 0; k < n; k++)
        diag_note(m->diag, top[k].a->span, "%.4g ms, %.1f%% of the step: '%s'%s",
                  top[k].seconds * 1e3, 100 * top[k].seconds / p->train->seconds,
                  name_str(m->names, top[k].a->name),
                  top[k].times > 1 ? arena_printf(m->arena, ", %.0f times", top[k].times) : "");
}

/* Seconds of one microbatch; what a step does once, the optimizer, is not in
 * them. Several are the loop that takes longest; of one, everything is taken to
 * be in it. */
static double microbatch_seconds(const Program *p, int64_t microbatches)
{
    double max = 0;
    if (microbatches == 1)
        return p->seconds;
    for (size_t i = 0; i < p->loops.n; i++) {
        const Loop *l = &p->loops.data[i];
        if (l->parent < 0)
            max = fmax(max, l->seconds * (double)l->dim.size);
    }
    return max / (double)microbatches;
}

/* The largest batch whose step is as short as is asserted, if there is one. */
static void tell_remedy(const Plan *p, double limit)
{
    const Module *m = p->module;
    int64_t microbatches = mesh_microbatches(m), micro = m->batch.size / microbatches;
    double microbatch = microbatch_seconds(p->train, microbatches);
    double once = p->train->seconds - microbatch * (double)microbatches;
    int64_t fit = microbatches;
    while (fit > 0 && once + microbatch * (double)fit >= limit)
        fit--;
    enum { TRIES = 4 };
    for (int64_t n = fit, ranks = mesh_batch_ranks(m); n > 0 && n > fit - TRIES; n--)
        if (propose_size(m->diag, name_str(m->names, m->batch.name), n * micro * ranks))
            return;
    if (fit <= 0)
        diag_help(m->diag,
                  "even one microbatch of %lld takes %.4g ms: assert more, or name a faster device",
                  (long long)micro, (once + microbatch) * 1e3);
}

static bool step_is_short(const Plan *p)
{
    const Layout *l = &p->module->layout;
    if (!p->train || l->assert_step == 0 || p->train->seconds < l->assert_step)
        return true;
    diag_error(p->module->diag, l->assert_step_span, 552,
               "a step is predicted to take %.4g ms where the layout asserts less than %.4g ms",
               p->train->seconds * 1e3, l->assert_step * 1e3);
    tell_costliest(p);
    tell_remedy(p, l->assert_step);
    return false;
}

/* The kind of communication that ranks wait for longest. */
static const Volume *longest(const Volumes *all)
{
    const Volume *max = &all->of[0];
    for (int i = 1; i < all->n; i++)
        if (all->of[i].exposed > max->exposed)
            max = &all->of[i];
    return max;
}

static bool communication_is_hidden(const Plan *p)
{
    const Module *m = p->module;
    const Layout *l = &m->layout;
    if (!p->train)
        return true;
    Volumes all = plan_volumes(p->module, p->train);
    double part = all.exposed / p->train->seconds;
    if (l->assert_exposed == 0 || part < l->assert_exposed)
        return true;
    const Volume *v = longest(&all);
    diag_error(m->diag, l->assert_exposed_span, 553,
               "%.3g%% of a step are predicted to wait for communication where the layout asserts "
               "less than %.3g%%",
               100 * part, 100 * l->assert_exposed);
    for (size_t i = 0; i < l->mesh.n; i++)
        if (v->axes >> i & 1)
            diag_note(m->diag, l->mesh.data[i].span,
                      "%s over '%s': %.0f times, %s a rank, %.4g ms, of which %.4g exposed",
                      volume_name(v), name_str(m->names, l->mesh.data[i].name), v->count,
                      text_bytes(m->arena, v->bytes), v->seconds * 1e3, v->exposed * 1e3);
    diag_help(m->diag, "fewer ranks on that axis, a larger microbatch, or assert more");
    return false;
}

bool plan_asserts(const Plan *p)
{
    bool shorter = step_is_short(p), hidden = communication_is_hidden(p);
    return levels_asserted(p) && shorter && hidden;
}
