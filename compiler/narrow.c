/* narrow.c - the edits of a source that make its program keep state, then parameters, then sums of
 * gradients in bf16 (docs/training.md): remedies of a level of memory that is too small. */
#include "compiler/narrow.h"

#include <string.h>

/* A setting with one more argument, before those that it has: "adamw(state = bf16, ...)". */
static Edit with_argument(const Module *m, Span at, const char *argument)
{
    size_t size;
    Arena *a = m->arena;
    const char *text = arena_strndup(a, diag_text(m->diag, at.file, &size) + at.begin,
                                     at.end - at.begin),
               *open = strchr(text, '(');
    if (!open)
        return (Edit){at, arena_printf(a, "%s(%s)", text, argument)};
    const bool empty = open[1 + strspn(open + 1, " \n\t")] == ')';
    return (Edit){at, arena_printf(a, "%.*s(%s%s%s", (int)(open - text), text, argument,
                                   empty ? "" : ", ", open + 1)};
}

/* Has every goal a place that says which optimizer it has, and none what its state is kept in? */
static bool may_state(const Train *t)
{
    bool may = t->goals <= REMEDY_EDITS / 2;
    for (int i = 0; i < t->goals; i++)
        may &= t->goal[i].optimizer_span.file && !t->goal[i].state_span.file;
    return may;
}

/* Parameters and sums are kept in bf16 beside products of bf16 or fp8. */
static bool may_kept(const Train *t)
{
    return t->half == DT_bf16 && !t->tree && t->precision_span.file &&
           t->precision_by == PRECISION_by_source;
}

static const char *kept_text(const Module *m, Narrow n)
{
    const Train *t = &m->train;
    const bool master = n >= NARROW_master && may_kept(t) && !t->master;
    const bool sums = n >= NARROW_reduce && may_kept(t) && !t->sums;
    return arena_printf(m->arena, "%s%s%s", master ? "master = bf16" : "",
                        master && sums ? ", " : "", sums ? "reduce = bf16" : "");
}

/* The last argument of these is not there with the one before. */
static bool adds(const Module *m, Narrow n)
{
    const Train *t = &m->train;
    return n == NARROW_state    ? may_state(t)
           : n == NARROW_master ? may_kept(t) && !t->master
           : n == NARROW_reduce ? may_kept(t) && !t->sums
                                : false;
}

static void put(Remedy *r, Edit e)
{
    int k = r->n++;
    for (; k > 0 && e.at.file && r->edit[k - 1].at.begin > e.at.begin; k--)
        r->edit[k] = r->edit[k - 1];
    r->edit[k] = e;
}

bool narrow_edits(const Module *m, Narrow n, Remedy *r)
{
    const char *kept = kept_text(m, n);
    *r = (Remedy){0};
    if (!adds(m, n))
        return false;
    for (int i = 0; may_state(&m->train) && i < m->train.goals; i++)
        put(r, with_argument(m, m->train.goal[i].optimizer_span, "state = bf16"));
    if (*kept)
        put(r, with_argument(m, m->train.precision_span, kept));
    return true;
}

const char *narrow_text(const Module *m, Narrow n)
{
    const char *kept = kept_text(m, n);
    const bool state = may_state(&m->train);
    return arena_printf(m->arena, "%s%s%s", state ? "state = bf16" : "", state && *kept ? ", " : "",
                        kept);
}
