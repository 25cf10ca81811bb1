/* explain_levels.c - mgc explain F.mg NAME: on which level of memory a buffer lies, for how long,
 * and which transfers bring it, or a slice of it, to the device and back.
 *
 * Times are those of the predicted step, of the first iteration of the loops around; what comes
 * again says after how long. In a pipeline a rank's phases come in the order of its table, so that
 * no time is said of what is in them. */
#include "compiler/explain.h"

#include <math.h>

#include "base/quantity.h"

static bool in_phases(const Program *g, int loop)
{
    for (int l = loop; l >= 0; l = g->loops.data[l].parent)
        if (g->pipe && l == g->pipe->loop)
            return true;
    return false;
}

/* When the first iteration of a loop begins; -1: the program. */
static double since(const Program *g, int loop)
{
    double t = 0;
    for (int l = loop; l >= 0; l = g->loops.data[l].parent)
        t += g->actions.data[g->loops.data[l].begin].begin;
    return t;
}

static bool is_loop(const Action *a)
{
    return a->kind == ACT_loop || a->kind == ACT_end;
}

/* The loop around an action. Of one that begins or ends a loop, that one. */
static int around(const Action *a)
{
    return is_loop(a) ? (int)a->loop : a->around;
}

/* Seconds by which the phases of a pipeline, which run in the order of its table, make what comes
 * behind them later than its loop would. */
static double later(const Program *g, const Action *a)
{
    const Loop *l = g->pipe ? &g->loops.data[g->pipe->loop] : NULL;
    const bool behind = l && a - g->actions.data >= l->end;
    return behind ? g->pipe->step - (double)l->dim.size * l->seconds : 0;
}

/* When an action begins first, or has ended: of a loop's end, all of its iterations. */
static double begins(const Program *g, const Action *a)
{
    return since(g, around(a)) + (is_loop(a) ? 0 : a->begin) + later(g, a);
}

static double ended(const Program *g, const Action *a)
{
    const Loop *l = a->kind == ACT_end ? &g->loops.data[a->loop] : NULL;
    return since(g, around(a)) + later(g, a) +
           (l            ? (double)l->dim.size * l->seconds
            : is_loop(a) ? 0
                         : a->end);
}

/* ", then every 2 ms (layers), 30 ms (micro)" */
static const char *again(const Plan *p, const Program *g, int loop)
{
    Arena *a = p->module->arena;
    const char *text = "";
    for (int l = loop; l >= 0; l = g->loops.data[l].parent) {
        const Loop *x = &g->loops.data[l];
        if (x->dim.size > 1)
            text =
                arena_printf(a, "%s%s%s (%s)", text, *text ? ", " : ", then every ",
                             text_seconds(a, x->seconds), name_str(p->module->names, x->dim.name));
    }
    return text;
}

/* A time of a step, as exact as what is short in it needs. */
static const char *at_text(Arena *a, double t)
{
    return t < 1 ? arena_printf(a, "%.3f ms", t * 1e3) : arena_printf(a, "%.5f s", t);
}

static const char *program_name(const Plan *p, const Program *g)
{
    return name_str(p->module->names, g->fn->name);
}

static bool touches(const Action *a, uint32_t buffer)
{
    for (int k = 0; k < a->noperands; k++)
        if (a->operand[k].at.buffer == buffer)
            return true;
    return false;
}

/* From when to when a buffer is in use; a transfer may run behind what comes after it. */
static void lives(const Plan *p, const Program *g, uint32_t buffer, double *from, double *to)
{
    const Buffer *b = &p->buffers.data[buffer];
    *from = begins(g, &g->actions.data[b->first]);
    *to = ended(g, &g->actions.data[b->last]);
    for (int i = b->first; i <= b->last; i++) {
        const Action *a = &g->actions.data[i];
        if (touches(a, buffer)) {
            *from = fmin(*from, begins(g, a));
            *to = fmax(*to, ended(g, a));
        }
    }
}

void explain_lies(const Plan *p, uint32_t buffer)
{
    Arena *a = p->module->arena;
    const Buffer *b = &p->buffers.data[buffer];
    const Program *g = b->persistent ? NULL : p->programs[b->program];
    const char *where =
        b->level ? arena_printf(a, "on the %s", level_names[b->level]) : "on the device";
    double from, to;
    if (!g || b->first < 0 || in_phases(g, b->home)) {
        explain_row("lies", arena_printf(a, "%s%s", where, b->persistent ? ", always" : ""));
        return;
    }
    lives(p, g, buffer, &from, &to);
    explain_row("lies", arena_printf(a, "%s from %s to %s of @%s%s", where, at_text(a, from),
                                     at_text(a, to), program_name(p, g), again(p, g, b->home)));
}

/* The last action behind a transfer, within its iteration, that reads or writes `buffer`; or NULL.
 */
static const Action *last_user(const Program *g, const Action *of, uint32_t buffer)
{
    const size_t at = (size_t)(of - g->actions.data);
    const size_t end = of->around >= 0 ? (size_t)g->loops.data[of->around].end : g->actions.n;
    const Action *last = NULL;
    for (size_t i = at + 1; i < end; i++)
        if (touches(&g->actions.data[i], buffer))
            last = &g->actions.data[i];
    return last;
}

/* ", for action 12 and until 3 ms"; of a fetch, how long the device has what it brings. */
static const char *stays(const Plan *p, const Program *g, const Action *fetch, bool timed)
{
    Arena *a = p->module->arena;
    const Action *last = last_user(g, fetch, fetch->operand[1].at.buffer);
    if (!last)
        return fetch->around >= 0 ? ", read after this iteration" : "";
    if (!timed)
        return arena_printf(a, ", there until action %u", last->id);
    return arena_printf(a, ", there until action %u ends at %s", last->id,
                        at_text(a, ended(g, last)));
}

static const char *buffer_text(const Plan *p, uint32_t buffer)
{
    const Buffer *b = &p->buffers.data[buffer];
    return arena_printf(p->module->arena, "buffer %s of the %s",
                        name_str(p->module->names, b->name), level_names[b->level]);
}

/* The action, its bytes and how often, when, and where the other end is. */
static void say(const Plan *p, const Program *g, const Action *t, bool here)
{
    Arena *a = p->module->arena;
    const bool fetch = t->kind == ACT_fetch, timed = !in_phases(g, t->around);
    const int64_t all = p->buffers.data[t->operand[fetch ? 0 : 1].at.buffer].bytes;
    const char *of = t->bytes < all ? arena_printf(a, " of %lld", (long long)all) : "";
    const char *when = timed ? arena_printf(a, "; at %s of @%s, for %s%s", at_text(a, begins(g, t)),
                                            program_name(p, g), text_seconds(a, t->end - t->begin),
                                            again(p, g, t->around))
                             : arena_printf(a, "; in each microbatch of @%s", program_name(p, g));
    const bool far = here == fetch; /* the buffer that is asked for is the one that is read */
    const Operand *other = &t->operand[far ? 1 : 0];
    explain_row(fetch ? "fetched" : "offloaded",
                arena_printf(a, "action %u, %s: %lld bytes%s, %.0f time%s a step, %s %s%s%s", t->id,
                             name_str(p->module->names, t->name), (long long)t->bytes, of, t->times,
                             t->times == 1 ? "" : "s", far ? "to" : "from",
                             buffer_text(p, other->at.buffer), when,
                             fetch ? stays(p, g, t, timed) : ""));
}

void explain_transfers(const Plan *p, const Program *g, uint32_t buffer)
{
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *t = &g->actions.data[i];
        if (action_transfers(t) &&
            (t->operand[0].at.buffer == buffer || t->operand[1].at.buffer == buffer))
            say(p, g, t, p->buffers.data[buffer].level != LEVEL_device);
    }
}
