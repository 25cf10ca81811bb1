/* shard_heads.c - attention along a dim that is split, by an exchange of heads for positions
 * (DeepSpeed Ulysses, Jacobs et al. 2023); see shard.h.
 *
 *   %q: bf16[seq=512@cp, kv_heads=8, group=4, head=128]
 *   %q2: bf16[seq=4096, kv_heads=1@cp, ...] = all_to_all %q {dim=seq=512@cp, to=kv_heads=8}
 *   %o, %lse = attention %q2, %k2, %v2
 *   %o2: bf16[seq=512@cp, kv_heads=8, ...] = all_to_all %o {dim=kv_heads=1@cp, to=seq=4096}
 *
 * The axis of an attention's positions becomes one of a dim that queries and keys share, if the
 * rule of the positions says so (LayoutRule.heads); that is all. Operands are brought to that and
 * results back from it as all others are (shard_convert.c), and each rank's attention is its own.
 * On other axes the heads are split already, and the exchange cuts what they leave (Dim.inner).
 *
 * Values that attention alone reads are exchanged once, where they are made: so q, k, v and lse are
 * kept for the backward part as they are exchanged. */
#include "passes/spmd/shard.h"
#include "passes/spmd/shard_heads.h"
#include "ir/mesh.h"
#include "ir/propose.h"

#include <string.h>

static int find(const Dim *dims, int n, Name d)
{
    for (int i = 0; i < n; i++)
        if (dims[i].name == d)
            return i;
    return -1;
}

/* Axes of the dim that attention runs along, the last of them: the one whose parts are neighbours.
 */
static Axes last_axis(Axes axes)
{
    while (axes & (axes - 1))
        axes &= axes - 1;
    return axes;
}

/* May these heads be split on one axis more? Parts of zigzags and blocks are no neighbours. */
static bool may_split(const Module *m, Dim d, Axes axes, Axes more)
{
    const Dim ruled = mesh_ruled(m, d.name, axes | more);
    return !ruled.zigzag && !ruled.blocks && d.size % mesh_size(m, axes | more) == 0;
}

/* Do queries and keys share this dim, beside their positions and the batch? */
static bool is_heads(const Module *m, const Ins *i, Name d, const Type *keys)
{
    return d != i->attrs.along.name && d != m->batch.name && !dims_have(&i->attrs.over, d) &&
           type_find(keys, d) >= 0;
}

Exchange exchange_of(const Module *m, const Ins *i, const Dim *dims, const Axes *axes, int n,
                     Axes which)
{
    const Attrs *a = &i->attrs;
    if (!OP_AMONG(i->op, OP_attention, OP_attention_grad) || a->keys.name)
        return (Exchange){0};
    const Type *q = type_of(m, i->in[0]), *k = type_of(m, i->in[1]);
    const int along = find(dims, n, a->along.name);
    const Axes axis = along < 0 ? 0 : last_axis(axes[along]);
    const Dim ruled = mesh_ruled(m, a->along.name, axis);
    if (!(axis & which) || ruled.zigzag || ruled.blocks)
        return (Exchange){0};
    for (int d = 0; d < q->rank; d++) {
        const int at = find(dims, n, q->dims[d].name);
        if (is_heads(m, i, q->dims[d].name, k) && at >= 0 && may_split(m, dims[at], axes[at], axis))
            return (Exchange){a->along.name, q->dims[d].name, axis};
    }
    return (Exchange){0};
}

Type exchanged_type(const Module *m, Type t, const Exchange *x)
{
    const int64_t ranks = mesh_size(m, x->axis);
    Dim *along = &t.dims[type_find(&t, x->along)], *heads = &t.dims[type_find(&t, x->heads)];
    if (!(along->axes & x->axis) || heads->zigzag || heads->blocks || heads->size % ranks)
        return t;
    *along = dim_without_axes(*along, x->axis);
    along->size *= ranks;
    *heads = mesh_split_within(m, *heads, x->axis);
    return t;
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static bool same(Exchange a, Exchange b)
{
    return a.heads == b.heads && a.along == b.along && a.axis == b.axis;
}

/* On which axes the rules split the queries of an attention. */
static const Type *ruled_queries(const Module *m, const Ins *i, Axes axes[MAX_RANK])
{
    const Type *q = type_of(m, i->in[0]);
    bool fixed[MAX_RANK] = {false};
    for (int k = 0; k < q->rank; k++)
        fixed[k] = dims_have(&i->attrs.over, q->dims[k].name);
    mesh_walk(m, q->dims, q->rank, fixed, axes);
    return q;
}

static Axes axes_along(const Module *m, const Ins *i)
{
    Axes axes[MAX_RANK];
    const Type *q = ruled_queries(m, i, axes);
    return axes[type_find(q, i->attrs.along.name)];
}

/* By the rules alone: of the attention's own dims. */
static Exchange ruled_exchange(const Module *m, const Ins *i, Axes which)
{
    if (!OP_AMONG(i->op, OP_attention, OP_attention_grad))
        return (Exchange){0};
    Axes axes[MAX_RANK];
    const Type *q = ruled_queries(m, i, axes);
    return exchange_of(m, i, q->dims, axes, q->rank, which);
}

Exchange exchange_of_readers(const Shard *s, Value v)
{
    const Type *t = type_of(s->m, v);
    Exchange all = {0};
    for (size_t k = 0; k < s->uses[v].n; k++) {
        const Use u = s->uses[v].data[k];
        const Ins *loop = u.ins ? u.ins : u.of->owner;
        Exchange x = {0};
        if (u.ins && u.ins->op != OP_repeat)
            x = ruled_exchange(s->m, u.ins, mesh_heads(s->m, u.ins->attrs.along.name));
        else if (loop && u.at >= (size_t)loop->attrs.carried)
            x = exchange_of_readers(s, u.ins ? loop->body->args.data[u.at] : loop->out[u.at]);
        if (!x.heads || (k && !same(x, all)) || type_find(t, x.along) < 0 ||
            type_find(t, x.heads) < 0)
            return (Exchange){0};
        all = x;
    }
    return all;
}

/* ---- is there one? --------------------------------------------------------------------------- */

typedef struct Seen {
    bool any;           /* attention that exchanges heads on the axis */
    bool whole;         /* attention along the dim that has all keys on each rank */
    const Ins *without; /* one whose positions are split on it, and that does not */
    Axes along;         /* axes on which the positions of that are split */
} Seen;

static void look(const Module *m, const Region *r, Name dim, Axes axis, Seen *seen)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        if (i->body)
            look(m, i->body, dim, axis, seen);
        if (i->op != OP_attention || i->attrs.along.name != dim)
            continue;
        if (i->attrs.keys.name) {
            seen->whole = true;
            continue;
        }
        const Axes along = axes_along(m, i);
        if (ruled_exchange(m, i, axis).heads) {
            seen->any = true;
        } else if (along & axis) {
            seen->without = i;
            seen->along = along;
        }
    }
}

static Seen look_at_all(const Module *m, Name dim, Axes axis)
{
    Seen seen = {0};
    for (size_t f = 0; f < m->fns.n; f++)
        look(m, m->fns.data[f]->body, dim, axis, &seen);
    return seen;
}

bool exchange_is_possible(const Module *m, const LayoutRule *rule, Axes axis)
{
    const Seen seen = rule->of ? (Seen){0} : look_at_all(m, rule->dim, axis);
    return seen.any && !seen.without;
}

/* The option `heads` of a rule, behind its dim; no place if it is not found. */
static Span option_of(const Module *m, const LayoutRule *rule)
{
    static const char word[] = "(heads)";
    size_t size;
    const char *text = rule->span.file ? diag_text(m->diag, rule->span.file, &size) : NULL;
    const char *found = text ? strstr(text + rule->span.end, word) : NULL;
    const uint32_t at = found ? (uint32_t)(found + 1 - text) : 0;
    return found ? (Span){rule->span.file, at, at + (uint32_t)sizeof word - 3} : (Span){0};
}

/* The dims of heads: those that queries and keys share, beside the batch. */
static const char *heads_text(const Module *m, const Ins *i)
{
    const Type *q = type_of(m, i->in[0]), *k = type_of(m, i->in[1]);
    Axes axes[MAX_RANK];
    const char *all = "";
    ruled_queries(m, i, axes);
    for (int d = 0; d < q->rank; d++) {
        const Dim x = q->dims[d];
        if (is_heads(m, i, x.name, k))
            all = arena_printf(
                m->arena, "%s%s'%s' of %lld%s", all, *all ? ", " : "", name_str(m->names, x.name),
                (long long)x.size / mesh_size(m, axes[d]), axes[d] ? " on a rank" : "");
    }
    return all;
}

/* Other numbers of ranks, if heads have one dim. */
static void propose_others(const Module *m, const LayoutRule *rule, const Ins *i)
{
    const Type *q = type_of(m, i->in[0]), *k = type_of(m, i->in[1]);
    Axes axes[MAX_RANK];
    Dim heads = {0};
    int n = 0;
    ruled_queries(m, i, axes);
    for (int d = 0; d < q->rank; d++)
        if (is_heads(m, i, q->dims[d].name, k)) {
            heads = q->dims[d];
            heads.size /= mesh_size(m, axes[d]);
            n++;
        }
    if (n == 1)
        propose_ranks(m->diag, m, rule->heads, heads.size, 1);
}

static void tell(const Module *m, const LayoutRule *rule, const Seen *seen)
{
    const char *dim = rule->of ? class_names[rule->of] : name_str(m->names, rule->dim);
    const char *axis = mesh_axes_text(m, rule->heads);
    const Span option = option_of(m, rule);
    const Ins *i = seen->without;
    if (!i) {
        diag_error(m->diag, rule->span, 347,
                   "heads are to be exchanged for parts of '%s', and no attention runs along it%s",
                   dim,
                   seen->whole ? ", but what has all keys on each rank, for a bias or of another "
                                 "sequence"
                               : "");
        if (option.file)
            diag_remedy(m->diag, &(Remedy){1, {{entry_with_comma(m->diag, option), ""}}},
                        "%s -> %s, without it", dim, axis);
        return;
    }
    const char *heads = heads_text(m, i);
    if (last_axis(seen->along) != rule->heads || (rule->heads & rule->zigzag))
        diag_error(m->diag, rule->span, 347,
                   "heads are exchanged on the last of the axes that split '%s', in its order, and "
                   "'%s' is not that",
                   dim, axis);
    else
        diag_error(
            m->diag, rule->span, 347, "heads are to be split on '%s', which is %lld ranks, and %s",
            axis, (long long)mesh_size(m, rule->heads),
            *heads ? arena_printf(m->arena, "there are %s", heads) : "queries and keys share none");
    diag_note(m->diag, i->span, "the attention along '%s'", dim);
    if (option.file)
        diag_remedy(m->diag, &(Remedy){1, {{option, "ring"}}}, "a ring: %s -> %s (ring)", dim,
                    axis);
    if (last_axis(seen->along) == rule->heads)
        propose_others(m, rule, i);
}

bool exchanges_are_possible(const Module *m)
{
    bool all = true;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        const Seen seen = rule->of ? (Seen){0} : look_at_all(m, rule->dim, rule->heads);
        if (!rule->heads || (seen.any && !seen.without))
            continue;
        tell(m, rule, &seen);
        all = false;
    }
    return all;
}
