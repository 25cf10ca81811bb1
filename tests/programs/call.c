/* call.c - calls of blocks, attention, experts; see gen.h. */
#include "tests/programs/gen.h"

#include <stdio.h>

#define TEXT(...) arena_printf(g->a, __VA_ARGS__)
#define ANY(...)                                                                                   \
    ((const char *const[]){__VA_ARGS__}[draw_below(                                                \
        g, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))])

/* ---- blocks ---------------------------------------------------------------------------------- */

void new_instance(Gen *g)
{
    const int b = draw_below(g, g->nblocks + 1) - 1;
    if (b < 0 || !g->block[b].params || g->block[b].along >= 0 || g->block[b].over >= 0 ||
        g->ninstances == INSTANCES_MAX)
        return;
    const char *name = new_name(g, "shared");
    line(g, "%s : block %s%s", name, g->block[b].name,
         draw_below(g, 10) ? TEXT(" as \"%s\"", name) : "");
    g->instance[g->ninstances++] = (GenInstance){name, b, false};
}

/* The latest instance of a block, or NULL. */
static GenInstance *instance_of(Gen *g, const GenBlock *b)
{
    GenInstance *last = NULL;
    for (int i = 0; i < g->ninstances; i++)
        if (&g->block[g->instance[i].block] == b)
            last = &g->instance[i];
    return last;
}

/* Its result is to have these dims: those that it has itself, and what comes along. */
static bool gives(Gen *g, const GenBlock *b, Dims want, Dims *along)
{
    Dims extra = b->extra;
    if (g->scanned >= 0 && ((b->params && !instance_of(g, b)) || b->used & bit(g->scanned)))
        return false;
    if (b->result & ~want & ~extra)
        return false;
    *along = want & ~b->result;
    if (*along && (!(b->result & extra) || *along & b->used))
        return false;
    return !(g->fixed & *along & ~reach(g));
}

/* `along`: dims that come with the first argument. */
static const char *call_of(Gen *g, const GenBlock *b, Dims along, int depth)
{
    const char *s = "";
    for (int i = 0; i < b->nargs; i++) {
        const GenValue *arg = &b->arg[i], *v = NULL;
        Dims extra = b->extra;
        if (arg->kind == KIND_index) {
            for (int k = 0; k < g->nvalues; k++)
                if (g->value[k].kind == KIND_index && g->value[k].indexes == arg->indexes &&
                    g->value[k].dims == (arg->dims & ~extra))
                    v = &g->value[k];
            if (!v)
                return NULL;
        }
        Dims more = i == 0 && b->arg[0].dims & extra ? along : 0;
        Dims dims = (arg->dims & ~extra) | more;
        if (!small(g, dims))
            return NULL;
        s = TEXT("%s%s%s", s, i ? ", " : "", v ? v->name : expression(g, dims, depth - 1));
    }
    if (b->along >= 0)
        s = TEXT("%s, along %s", s, dim_name(g, b->along));
    if (b->over >= 0)
        s = TEXT("%s, over %s", s, dim_name(g, b->over));
    if (b->option && (b->must || draw_one_in(g, 2)))
        s = TEXT("%s, %s = %s", s, b->option, number(g, 1));
    if (b->flag && draw_one_in(g, 2))
        s = TEXT("%s, %s", s, b->flag);
    g->used |= b->used;
    GenInstance *instance = instance_of(g, b);
    if (instance && (g->scanned >= 0 || draw_below(g, 4))) {
        instance->called = true;
        return TEXT("%s(%s)", instance->name, s);
    }
    const char *as = b->params && draw_below(g, 40) ? TEXT(" as \"%s\"", new_name(g, "call")) : "";
    return TEXT("%s(%s)%s", b->name, s, as);
}

/* A value that a call of the latest instance gives, if there is such a call. */
static bool called(Gen *g)
{
    GenInstance *i = &g->instance[g->ninstances - 1];
    const GenBlock *b = &g->block[i->block];
    Dims along = 0;
    const Dims d = b->result & ~b->extra;
    if (b->two || !gives(g, b, d, &along) || along || g->ninstances == INSTANCES_MAX)
        return false;
    const char *s = call_of(g, b, 0, 2), *name = new_name(g, "v");
    if (!s)
        return false;
    line(g, "%s = %s", name, s);
    add_value(g, name, KIND_float, d, -1);
    return i->called;
}

void new_follower(Gen *g)
{
    const int before = g->ninstances;
    new_instance(g);
    if (g->ninstances == before || !called(g))
        return;
    const GenInstance *of = &g->instance[g->ninstances - 1];
    const char *name = new_name(g, "copy");
    line(g, "%s : block %s as \"%s\" follows %s %s", name, g->block[of->block].name, name, of->name,
         ANY("by 0.9", "by 1", "every 2", "by min(0.99, (1 + step()) / (10 + step()))",
             "by 0.5 + 0.4 * cos(step())"));
    g->instance[g->ninstances++] = (GenInstance){name, of->block, false};
}

const char *block_called(Gen *g, Dims want, int depth)
{
    int fits[BLOCKS_MAX], n = 0;
    Dims along = 0;
    for (int i = 0; i < g->nblocks; i++)
        if (!g->block[i].two && gives(g, &g->block[i], want, &along))
            fits[n++] = i;
    if (!n)
        return NULL;
    const GenBlock *b = &g->block[fits[draw_below(g, n)]];
    gives(g, b, want, &along);
    return call_of(g, b, along, depth);
}

const char *pair_called(Gen *g, Dims result[2], int depth)
{
    int fits[BLOCKS_MAX], n = 0;
    for (int i = 0; i < g->nblocks; i++)
        if (g->block[i].two)
            fits[n++] = i;
    if (!n)
        return NULL;
    const GenBlock *b = &g->block[fits[draw_below(g, n)]];
    const Dims of[2] = {b->result, b->second}, extra = b->extra;
    Dims want = of[0] & ~extra, along = 0;
    if (of[0] & extra) {
        want |= reach(g) & ~b->used;
        if (draw_one_in(g, 2))
            want |= bit(draw_dim(g, tensor_dims(g) & ~want & ~b->used & ~of[1] & ~g->fixed));
    }
    if (!gives(g, b, want, &along))
        return NULL;
    for (int i = 0; i < 2; i++) {
        result[i] = (of[i] & ~extra) | (of[i] & extra ? along : 0);
        if (!small(g, result[i]) || result[i] & g->fixed & ~reach(g))
            return NULL;
    }
    return call_of(g, b, along, depth);
}

/* ---- attention ------------------------------------------------------------------------------- */

void write_attention(Gen *g)
{
    static const char *const scores[] = {
        "(q @ k[pos -> t] over d) / sqrt(d)",
        "(q * 0.5) @ k[pos -> t] over d",
        "q @ (k * 0.5)[pos -> t] over d",
        "tanh((q @ k[pos -> t] over d) * 0.25) * 2",
        "(k[pos -> t] @ q over d) * 0.5 + index(t)",
    };
    static const char *const masks[] = {
        "s",
        "select(index(t) <= index(pos), s, -1e30)",
        "s + select(index(t) > index(pos), -1e9, 0)",
        "select(index(pos) - index(t) < 2, select(index(t) <= index(pos), s, -1e9), -1e9)",
        "s - 1e9 * select(index(pos) - index(t) >= 0, 0, 1)",
        "select(index(t) < index(pos), s, -1e9)",
        "select(abs(index(t) - index(pos)) < 2, s, -1e9)",
    };
    static const char *const results[] = {
        "softmax(m, over t) @ v[pos -> t] over t",
        "v[pos -> t] @ (exp(m - max(m, over t)) / sum(exp(m - max(m, over t)), over t)) over t",
        "(exp(m - max(m, over t)) @ v[pos -> t] over t) / sum(exp(m - max(m, over t)), over t)",
    };
#define DRAWN(list) list[draw_below(g, (int)(sizeof list / sizeof *list))]
    g->written = new_name(g, "written");
    line(g, "block %s(q, k, v, along pos, over d) {", g->written);
    line(g, "    dim t = pos");
    line(g, "    s = %s", DRAWN(scores));
    line(g, "    m = %s", DRAWN(masks));
    line(g, "    return %s", DRAWN(results));
    line(g, "}");
}

static const char *bind(Gen *g, const char *stem, const char *text, Dims dims)
{
    const char *name = new_name(g, stem);
    line(g, "%s = %s", name, text);
    add_value(g, name, KIND_float, dims, -1);
    return name;
}

/* A dim of two or three elements that `want` lacks, or -1. */
static int draw_parts(Gen *g, Dims want)
{
    Dims few = 0;
    for (int i = 0; i < g->ndims; i++)
        if (g->dim[i].size == 2 || g->dim[i].size == 3)
            few |= bit(i);
    const int d = draw_dim(g, few & tensor_dims(g) & ~want & ~g->fixed);
    return small(g, want | bit(d)) ? d : -1;
}

/* Keys, values and perhaps queries that are picked from one product, perhaps turned: with all dims
 * of `want`, one of which, d, is that of the head. Text of three, or of two behind an empty one.
 * False: there is none. */
static bool fused(Gen *g, Dims want, int p, int d, int depth, const char *part[3])
{
    const int m = draw_parts(g, want);
    const int e = draw_dim(g, tensor_dims(g) & ~want & ~g->fixed & ~bit(m));
    if (m < 0 || e < 0 || !small(g, want | bit(m) | bit(e)))
        return false;
    const char *w = declare_param(g, bit(m) | bit(d) | bit(e), "fuse");
    const char *x = term(g, (want & ~bit(d)) | bit(e), depth - 1);
    const char *y = bind(g, "fused", TEXT("%s @ %s over %s", x, w, dim_name(g, e)), want | bit(m));
    const int size = (int)g->dim[m].size, first = draw_below(g, size);
    part[0] = NULL;
    for (int k = 0; k < size; k++)
        part[3 - size + k] =
            TEXT("pick(%s, along %s, at = %d)", y, dim_name(g, m), (first + k) % size);
    for (int k = 0; k < 2; k++)
        if (part[k] && g->dim[d].size % 2 == 0 && draw_one_in(g, 4))
            part[k] = TEXT("rope(%s, along %s, over %s)", part[k], dim_name(g, p), dim_name(g, d));
    return true;
}

const char *attended(Gen *g, Dims want, int depth)
{
    Dims own = want & ~g->fixed, reached = g->fixed & reach(g);
    int p = g->seq >= 0 && own & bit(g->seq) && draw_below(g, 4) ? g->seq : draw_dim(g, own);
    if (p < 0)
        return NULL;
    int d = draw_below(g, 4) ? draw_dim(g, own & ~bit(p)) : -1;
    bool inside = d >= 0; /* values have the dim of the scores */
    if (!inside)
        d = draw_dim(g, tensor_dims(g) & ~want & ~g->fixed);
    if (d < 0 || !small(g, want | bit(d)))
        return NULL;
    Dims q = want | bit(d), with = bit(p) | bit(d) | (want & reached);
    Dims k = with | (want & (Dims)gen_random(&g->rng)), v = k;
    if (draw_one_in(g, 3))
        k = want | bit(d), v = inside ? want : want & ~bit(d);
    if (draw_one_in(g, 4)) /* of keys and values, each has dims that the other lacks */
        v = with | (want & (Dims)gen_random(&g->rng));
    if (draw_one_in(g, 6)) /* queries lack what values have */
        q &= ~(v & ~with);
    v = inside ? v | bit(d) : v & ~bit(d);
    k &= ~(g->fixed & ~reached);
    v &= ~(g->fixed & ~reached);
    if (((q | k | v) & ~bit(d)) != (want & ~bit(d)) || g->fixed & q & ~reached)
        return NULL;
    int t = draw_one_in(g, 4) ? draw_dim(g, tensor_dims(g) & ~want & ~bit(d) & ~g->fixed) : -1;
    if (t >= 0 && small(g, want | bit(d) | bit(t))) { /* of another sequence */
        k = (k & ~bit(p)) | bit(t);
        v = (v & ~bit(p)) | bit(t);
        if (draw_one_in(g, 4)) /* queries lack what keys have */
            q = (q & ~k) | with;
    } else
        t = -1;
    const char *part[3] = {0};
    if (t < 0 && inside && draw_one_in(g, 3) && fused(g, want, p, d, depth, part))
        q = k = v = want;
    const char *qs = part[0] ? part[0] : expression(g, q, depth - 1),
               *ks = part[1] ? part[1] : expression(g, k, depth - 1),
               *vs = part[2] ? part[2] : expression(g, v, depth - 1);
    const bool causal = draw_one_in(g, 2);
    const Dims scored = (q | k) & ~bit(d); /* what scores have */
    const char *more = "";
    if (t >= 0 && draw_one_in(g, 3))
        more = TEXT(", bias = %s", expression(g, scored & (Dims)gen_random(&g->rng), depth - 1));
    if (draw_one_in(g, 4))
        more = TEXT("%s, sink = %s", more,
                    expression(g, q & ~bit(d) & (Dims)gen_random(&g->rng), depth - 1));
    if (t >= 0)
        return TEXT("attention(%s, %s, %s, along %s, along %s, over %s%s%s%s)", qs, ks, vs,
                    dim_name(g, p), dim_name(g, t), dim_name(g, d),
                    draw_one_in(g, 3) ? ", cap = 3" : "", draw_one_in(g, 4) ? ", causal" : "",
                    more);
    if (g->written && draw_one_in(g, 2))
        return TEXT("%s(%s, %s, %s, along %s, over %s)", g->written, qs, ks, vs, dim_name(g, p),
                    dim_name(g, d));
    if (g->start && p == g->seq && want & bit(g->batch) && draw_below(g, 3))
        vs = TEXT("%s, %s", vs, g->start);
    return TEXT("attention(%s, %s, %s, along %s, over %s%s%s%s%s%s)", qs, ks, vs, dim_name(g, p),
                dim_name(g, d), draw_one_in(g, 4) ? ", scale = 0.5" : "", causal ? ", causal" : "",
                causal && draw_one_in(g, 3) ? ", window = 2" : "",
                draw_one_in(g, 3) ? ", cap = 3" : "", more);
}

/* ---- experts --------------------------------------------------------------------------------- */

/* Products of x[want] by experts, in sorted rows that are multiplied by the matrices of their
 * experts: of its dim h another is made, and back. NULL: there is no other. */
static const char *grouped(Gen *g, const char *x, const char *chosen, Dims want, int h)
{
    const int f = draw_dim(g, tensor_dims(g) & ~want & ~g->fixed & ~bit(g->batch) &
                                  ~bit(g->choice) & ~bit(g->best));
    const Dims rows = (want & ~bit(g->seq)) | bit(g->rows);
    if (f < 0 || !small(g, rows | bit(f)) || !small(g, bit(g->experts) | bit(h) | bit(f)))
        return NULL;
    const char *experts = dim_name(g, g->experts), *to = dim_name(g, g->rows);
    g->used |= bit(g->rows);
    const char *z = new_name(g, "z"), *y = new_name(g, "y");
    line(g, "%s = dispatch(%s, %s, %s -> %s)", z, x, chosen, dim_name(g, g->seq), to);
    const char *up = declare_param(g, bit(g->experts) | bit(h) | bit(f), "w"),
               *down = declare_param(g, bit(g->experts) | bit(h) | bit(f), "w");
    line(g, "%s = tanh(grouped(%s, %s, %s, %s -> %s, over %s))", y, z, up, chosen, experts, to,
         dim_name(g, h));
    return TEXT("grouped(%s, %s, %s, %s -> %s, over %s)", y, down, chosen, experts, to,
                dim_name(g, f));
}

const char *routed(Gen *g, Dims want, int depth)
{
    Dims special = bit(g->experts) | bit(g->choice) | bit(g->best) | bit(g->slot);
    if (g->experts < 0 || !(want & bit(g->seq)) || want & special)
        return NULL;
    int h = draw_dim(g, want & ~g->fixed & ~bit(g->seq));
    if (h < 0 || !small(g, want | bit(g->choice)) ||
        !small(g, want | bit(g->experts) | bit(g->slot)))
        return NULL;
    const char *choice = dim_name(g, g->choice), *best = dim_name(g, g->best);
    const char *experts = dim_name(g, g->experts), *slot = dim_name(g, g->slot);
    const char *seq = dim_name(g, g->seq), *hidden = dim_name(g, h);
    Dims at = want & ~bit(h), picked = at | bit(g->best);
    g->used |= special;
    const char *x = bind(g, "x", expression(g, want, depth - 1), want);
    const char *router = declare_param(g, bit(h) | bit(g->choice), "router");
    const char *score =
        bind(g, "score", TEXT("softmax(%s @ %s over %s, over %s)", x, router, hidden, choice),
             at | bit(g->choice));
    const char *chosen = new_name(g, "chosen");
    line(g, "%s = top(%s, %s -> %s)", chosen, score, choice, best);
    add_value(g, chosen, KIND_index, picked, g->choice);
    const char *y = draw_one_in(g, 2) ? grouped(g, x, chosen, want, h) : NULL;
    const char *from = y ? dim_name(g, g->rows) : TEXT("(%s, %s)", experts, slot);
    if (!y) {
        const char *z = new_name(g, "z");
        line(g, "%s = dispatch(%s, %s, %s -> %s)", z, x, chosen, seq, from);
        y = TEXT("tanh(%s * %s)", z, declare_param(g, bit(g->experts) | bit(h), "w"));
    }
    if (draw_one_in(g, 2)) {
        const char *to = new_name(g, "y"), *b = declare_param(g, bit(h), "w");
        line(g, "%s = %s", to, y);
        y = TEXT("%s + %s", to, b);
    }
    if (draw_one_in(g, 3))
        bind(g, "uneven", TEXT("imbalance(%s, %s, along %s, over %s)", score, chosen, seq, best),
             at & ~bit(g->seq));
    if (draw_one_in(g, 3))
        return TEXT("combine(%s, %s, %s -> %s)", y, chosen, from, seq);
    const char *share = bind(g, "share", TEXT("scores_of(%s, %s)", score, chosen), picked);
    return TEXT("combine(%s, %s, %s%s, %s -> %s)", y, chosen, share,
                draw_one_in(g, 2) ? TEXT(" / sum(%s, over %s)", share, best) : "", from, seq);
}
