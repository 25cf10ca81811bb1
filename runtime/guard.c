/* guard.c - finds the action that made the first NaN or infinity.
 *
 * mg_guard returned false, so the step ended before it changed a parameter. A second run on the
 * same inputs gives the same values; in this run every output is checked when it is made.
 *
 * If updates do not wait for all gradients, the norm is known only after some parameters were
 * updated. None of them holds a NaN (pass update), and a run of the step with the updated
 * parameters shows the source. */
#include "runtime/number.h"
#include "runtime/net/ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096 };

bool rt_guard_passes(mg_run *r, int action, double loss, double norm)
{
    if (isfinite(loss) && isfinite(norm))
        return !rt_spike(r, loss, norm);
    if (!rt_scale_forgives(r))
        r->guard = (rt_guard){true, action, loss, norm};
    return false;
}

/* The first of n elements at an offset of the arena that is not finite, or -1. */
static int64_t first_non_finite(const mg_run *r, int64_t offset, int64_t n, mg_dtype t,
                                double *value)
{
    static const char *const names[] = {
        [MG_F32] = "F32", [MG_F64] = "F64", [MG_BF16] = "BF16", [MG_F16] = "F16"};
    char some[BLOCK * sizeof(double)];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t k = n - at < BLOCK ? n - at : BLOCK, width = mg_dtype_bytes(t);
        rt_get(r, offset + at * width, some, k * width);
        for (int64_t i = 0; i < k; i++) {
            *value = rt_number(names[t], some, i);
            if (!isfinite(*value))
                return at + i;
        }
    }
    return -1;
}

void rt_check_output(mg_run *r, int action, const void *p, int64_t n, mg_dtype t)
{
    rt_check *c = &r->check;
    double value = 0;
    c->outputs++;
    if (c->found || t < MG_F32 || t > MG_F16)
        return;
    int64_t at = first_non_finite(r, (const char *)p - r->arena, n, t, &value);
    if (at < 0)
        return;
    c->found = true;
    c->action = action;
    c->output = c->outputs;
    c->call = c->calls[action];
    c->element = at;
    c->elements = n;
    c->value = value;
}

/* Reports a parameter or state that was not finite before the step; true if one exists. */
static bool report_tensors(const mg_run *r)
{
    for (int i = 0; i < r->program->ntensors; i++) {
        const mg_tensor *t = &r->program->tensors[i];
        int64_t n = 1;
        double value = 0;
        if (!rt_has_tensor(r->program, t, r->rank) || mg_dtype_bytes(t->dtype) == 1)
            continue; /* numbers of 8 bits that are kept are all finite */
        for (int k = 0; k < t->rank; k++)
            n *= t->size[k];
        int64_t at = first_non_finite(r, t->offset, n, t->dtype, &value);
        if (at < 0)
            continue;
        rt_note("  before the step %s%s%s (%s) already held %g at stored element %" PRId64
                " of %" PRId64,
                t->slot, *t->slot ? " of " : "", t->name, t->where, value, at, n);
        return true;
    }
    return false;
}

static void report_action(const mg_run *r)
{
    const rt_check *c = &r->check;
    const mg_action *a = &r->program->actions[c->action];
    rt_note("  the first is in the result of action %d, %s (%s%s%s), run %" PRId64
            " of it in this step, output %d: element %" PRId64 " of %" PRId64 " is %g",
            c->action, a->name, a->kind, *a->where ? ", " : "", a->where, c->call, c->output,
            c->element, c->elements, c->value);
}

/* True if the norm is not finite although no guard ended the step. */
static bool bad_norm(const mg_run *r)
{
    return !r->guard.tripped && !isfinite(rt_goals_norm(r));
}

void rt_find_non_finite(mg_run *r, int64_t step)
{
    const mg_program *p = r->program;
    rt_guard first = r->guard;
    const bool updated = !first.tripped;
    if (updated)
        first = (rt_guard){.loss = rt_goals_loss(r), .norm = rt_goals_norm(r)};
    if (r->program->as_ready && !updated)
        rt_note("error: step %" PRId64 " gave a loss of %g", step, first.loss);
    else
        rt_note("error: step %" PRId64 " gave a loss of %g and a gradient norm of %g", step,
                first.loss, first.norm);
    for (int k = 0; k < p->ngoals; k++)
        rt_note("  of which '%s' is %g", p->goals[k].name, rt_get_f64(r, p->goals[k].loss));
    if (!report_tensors(r)) {
        r->check = (rt_check){.calls = rt_alloc((size_t)r->program->nactions, sizeof(int64_t))};
        r->guard.tripped = false;
        r->watch |= RT_WATCH_VALUES;
        rt_fill_batch(r);
        rt_run(r, RT_STEP);
        r->watch &= ~(unsigned)RT_WATCH_VALUES;
        free(r->check.calls);
        r->check.calls = NULL;
        if (r->check.found)
            report_action(r);
        else if (!r->guard.tripped && !bad_norm(r))
            rt_note(
                "  the same step run again was finite: suspect this machine's memory or processor");
        else
            rt_note("  no output of an action has it: it arises in the loss or the norm itself");
    }
    rt_note("  learning rate of this step: %.3g; %s and nothing was saved", rt_lr(&r->lr, step - 1),
            updated ? "parameters with finite gradients were updated" : "no parameter was changed");
}
