/* whole.c - external tensors of which several parameters are parts.
 *
 * A part says in its external form where it begins along one dim. The parts of a name lie side by
 * side along the same dim, are alike in all others, and fill the tensor without gap or overlap. So
 * its size is where the last of them ends. */
#include "grammar/elab.h"
#include "ir/external.h"

#include <string.h>

static int64_t end_of(const Tensor *t)
{
    return t->part_at + external_size(t, t->part_dim);
}

static const char *range_text(Elab *e, const Tensor *t)
{
    return arena_printf(e->arena, "%lld to %lld", (long long)t->part_at, (long long)end_of(t) - 1);
}

static const char *shape_text(Elab *e, const Tensor *t)
{
    const char *shape = "[";
    for (int i = 0; i < t->external_rank; i++)
        shape = arena_printf(
            e->arena, "%s%s%lld%s", shape, i ? ", " : "", (long long)external_size(t, i),
            i == t->part_dim ? arena_printf(e->arena, " at %lld", (long long)t->part_at) : "");
    return arena_printf(e->arena, "%s]", shape);
}

static void refuse_unlike(Elab *e, const Node *n, const Tensor *t, const Tensor *other)
{
    fail(e, n->at, 269, "'%s' is %s of '%s', of which another part is %s", text(e, n->name),
         shape_text(e, t), text(e, t->external), shape_text(e, other));
    note(e, other->span, "by this parameter");
    help(e, "parts lie along the same external dim, and are alike in all others%s",
         t->stacked ? ", and in the number of layers" : "");
}

static void refuse_overlap(Elab *e, const Node *n, const Tensor *t, const Tensor *other)
{
    fail(e, n->at, 269, "'%s' has the elements %s of '%s', and another part %s", text(e, n->name),
         range_text(e, t), text(e, t->external), range_text(e, other));
    note(e, other->span, "by this parameter");
    if (t->part_at == other->part_at && e->frame->block->kind == N_BLOCK) {
        note(e, e->frame->call, "in this call of '%s'", text(e, e->frame->block->name));
        help(e, "give the call a name: %s(...) as \"...\"", text(e, e->frame->block->name));
        return;
    }
    help(e, "it can begin at %lld", (long long)end_of(other));
}

bool join_whole(Elab *e, const Node *n, const Tensor *t, const Tensor *first)
{
    Externals *parts = map_find(&e->wholes, t->external);
    if (!parts) {
        parts = NEW(e->arena, Externals);
        map_put(e->arena, &e->wholes, t->external, parts);
    }
    if (first && !external_parts_fit(t, first)) {
        refuse_unlike(e, n, t, first);
        return false;
    }
    const Tensor *all = e->module->tensors.data;
    size_t at = 0;
    for (size_t behind = parts->n; at < behind;) {
        const size_t middle = (at + behind) / 2;
        if (all[parts->data[middle]].part_at < t->part_at)
            at = middle + 1;
        else
            behind = middle;
    }
    const Tensor *before = at ? &all[parts->data[at - 1]] : NULL;
    const Tensor *after = at < parts->n ? &all[parts->data[at]] : NULL;
    if ((before && end_of(before) > t->part_at) || (after && end_of(t) > after->part_at)) {
        refuse_overlap(e, n, t, before && end_of(before) > t->part_at ? before : after);
        return false;
    }
    vec_push(e->arena, parts, 0);
    memmove(parts->data + at + 1, parts->data + at, (parts->n - 1 - at) * sizeof *parts->data);
    parts->data[at] = (uint32_t)e->module->tensors.n;
    return true;
}

/* ---- once all are known ---------------------------------------------------------------------- */

static void check_whole(Elab *e, const Externals *parts)
{
    Tensor *all = e->module->tensors.data;
    const int64_t whole = end_of(&all[parts->data[parts->n - 1]]);
    int64_t end = 0;
    for (size_t i = 0; i < parts->n; i++) {
        Tensor *t = &all[parts->data[i]];
        if (t->part_at != end) {
            fail(e, t->span, 269, "no part of '%s' has the elements %lld to %lld",
                 text(e, t->external), (long long)end, (long long)t->part_at - 1);
            if (i)
                note(e, all[parts->data[i - 1]].span, "the part before it ends at %lld",
                     (long long)end);
            help(e, "%s begins at %lld", i ? "the next part" : "the first part", (long long)end);
            return;
        }
        end = end_of(t);
        t->part_of = whole;
    }
}

void check_wholes(Elab *e)
{
    for (size_t i = 0; i < e->module->tensors.n; i++) {
        const Externals *parts = map_find(&e->wholes, e->module->tensors.data[i].external);
        if (parts && parts->data[0] == i) /* the first of them in their order */
            check_whole(e, parts);
    }
}
