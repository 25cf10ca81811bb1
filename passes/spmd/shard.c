/* shard.c - pass shard: see shard.h.
 *
 *   before:  %y: f32[batch=8, seq=64, ffn=512] = dot %x, %w {over=[hidden=128]}
 *   after:   %x2: f32[batch=4@dp, seq=64, hidden=128] = all_gather %x {dim=seq=32@tp, axes=tp}
 *            %y: f32[batch=4@dp, seq=64, ffn=256@tp] = dot %x2, %w {over=[hidden=128]}
 *
 * The dims that an instruction runs over are those of its operands and results together; the rules
 * say on which axes each is split, and an axis that no rule uses there is taken as it splits an
 * operand (so an optimizer runs on the parts that its state is in). A result is brought to what the
 * rules say of its own dims. A partial one is added up at once, unless all that reads it is linear
 * in it: then the sum of several, or of all iterations of a loop, is added up instead of each. If
 * one of them turns out to need all of it, a sum over its dims reads that, too: one reduction for
 * both.
 *
 * Whether gradients are summed over microbatches before they are reduced is seen on the way: where
 * what is added to an accumulator is partial, the accumulator is to be (`hint`), and the function
 * is gone through again. */
#include "passes/passes.h"
#include "passes/spmd/shard.h"
#include "passes/spmd/shard_classes.h"
#include "passes/spmd/shard_halo.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"
#include "ir/propose.h"

#include <string.h>

/* ---- how values lie ------------------------------------------------------------------------- */

/* The type that the rules give a value, by its own dims. */
static Type own_type(const Shard *s, Value v)
{
    const Type *t = type_of(s->m, v);
    bool fixed[MAX_RANK] = {false};
    Split split;
    if (s->grad[v])
        split =
            class_split_of(s->m, t, s->grad[v] - 1, s->whole_grad[v] ? CLASS_state : CLASS_grads);
    else {
        shard_cuts(s->m, v, fixed);
        mesh_walk(s->m, t->dims, t->rank, fixed, split.axes);
    }
    const Type own = split_type(s->m, *t, &split);
    return s->exchange[v].heads ? exchanged_type(s->m, own, &s->exchange[v]) : own;
}

/* ---- bringing values where they are wanted -------------------------------------------------- */

static Value known(const Shard *s, const Builder *b, Value x, const Type *to)
{
    if (type_equal(type_of(s->m, x), to))
        return x;
    for (size_t k = s->brought.n; k-- > 0;) {
        const Brought *c = &s->brought.data[k];
        if (c->from == x && c->region == b->region && type_equal(type_of(s->m, c->to), to))
            return c->to;
    }
    return 0;
}

static Value bring(Shard *s, Builder *b, Value x, const Type *to)
{
    Value y = known(s, b, x, to);
    if (y)
        return y;
    y = convert(b, x, to);
    vec_push(s->tmp, &s->brought, ((Brought){x, y, b->region}));
    return y;
}

/* An old value as a new one of that type. */
static Value want(Shard *s, Builder *b, Value old, const Type *to)
{
    Value x = s->now[old], y = known(s, b, x, to);
    if (y)
        return y;
    if (type_equal(type_of(s->m, s->made[old]), to))
        return s->made[old];
    if (!s->leaf[old])
        return bring(s, b, x, to);
    const Ins *def = s->m->values.data[old].def;
    Value in[3];
    for (uint32_t k = 0; k < def->nin; k++) {
        Type t = *type_of(s->m, def->in[k]);
        for (int i = 0; i < t.rank; i++)
            t.dims[i] = to->dims[type_find(to, t.dims[i].name)];
        in[k] = want(s, b, def->in[k], &t);
    }
    Attrs attrs = def->attrs;
    if (def->op == OP_iota)
        attrs.dim = to->dims[0];
    y = build_typed(b, def->op, &attrs, (int)def->nin, in, 1, to, NULL)->out[0];
    s->m->values.data[y].name = s->m->values.data[old].name;
    vec_push(s->tmp, &s->brought, ((Brought){x, y, b->region}));
    return y;
}

/* A partial value is added to v: if v is an accumulator, it may be partial as well. */
static void may_gather(Shard *s, Value v, Axes partial)
{
    Value root = shard_accumulator(s, v);
    partial &= root ? ~s->never[root] : 0;
    if (root && s->m->values.data[root].home->owner->exact)
        partial &= ~s->each_microbatch;
    if (!(partial & ~s->hint[root]))
        return;
    s->hint[root] |= partial;
    s->again = true;
}

/* Once all is known that may be partial: accumulators that are not so in the next iteration, since
 * something whole was added, are added up each iteration. */
static void take_back_hints(Shard *s)
{
    bool known = !s->again;
    for (size_t v = 0; v < s->values && known; v++) {
        s->never[v] |= s->lacks[v];
        s->hint[v] &= ~s->lacks[v];
        s->again |= s->lacks[v] != 0;
    }
}

/* A sum of i has a value that is brought to what is no longer partial. Each microbatch's gradient
 * is to be whole before it is added up over ranks: then the order of sums does not depend on how
 * many there are. */
static void note_early(Shard *s, const Ins *i, Value old, Axes partial)
{
    bool now = s->added_up[old] || (type_of(s->m, s->now[old])->partial & ~partial & s->tree);
    if (now && !i->exact && !s->whole_grad[old])
        s->early = i;
}

/* A sum of several operands is partial: accumulators among them may be partial as well. */
static void note_sums(Shard *s, const Ins *i, const Space *p)
{
    Axes any = 0;
    if (i->op != OP_add && i->op != OP_sub && i->op != OP_join)
        return;
    for (uint32_t k = 0; k < i->nin; k++)
        any |= type_of(s->m, s->now[i->in[k]])->partial;
    for (uint32_t k = 0; k < i->nin; k++)
        may_gather(s, i->in[k], any & ~space_axes(p));
}

/* The type that the rules give an op's result, which is made as t, reduced. */
static Type settled_type(const Shard *s, Value old, const Type *t)
{
    Type to = own_type(s, old);
    Axes used = type_axes(&to);
    for (int i = 0; i < to.rank; i++) { /* what was taken from an operand stays so */
        int at = type_find(t, to.dims[i].name);
        Axes more = t->dims[at].axes & ~used;
        const bool even = to.dims[i].size % mesh_size(s->m, more) == 0; /* of what heads leave */
        if (!s->grad[old] && !t->dims[at].inner && more > to.dims[i].axes && even)
            to.dims[i] = mesh_split(s->m, to.dims[i], more);
    }
    return to;
}

/* Converts an op's result to the type that the rules give it. */
static Value settle(Shard *s, Builder *b, Value old, Value x)
{
    const Type *t = type_of(s->m, x);
    Type to;
    if (!shard_read_ahead(s, old, &to))
        to = settled_type(s, old, t);
    if (t->partial && !s->whole_grad[old] && !s->whole[old] && shard_stays_partial(s, old)) {
        if (!s->grad[old]) /* split when it is added up */
            for (int i = 0; i < to.rank; i++) {
                Axes later = to.dims[i].axes & t->partial;
                to.dims[i] = dim_without_axes(to.dims[i], later);
                to.dims[i].size *= mesh_size(s->m, later);
            }
        to.partial = t->partial & ~type_axes(&to);
    }
    s->added_up[old] = (t->partial & ~to.partial & s->tree) != 0;
    return bring(s, b, x, &to);
}

/* Was a partial operand of an addition reduced for it, to what the rules give that operand? */
static void note_all(Shard *s, const Ins *i, Value old, Value taken)
{
    const ValueInfo *v = &s->m->values.data[old];
    const Axes partial = type_of(s->m, s->now[old])->partial;
    if (!partial || !v->def)
        return;
    Type to = settled_type(s, old, type_of(s->m, s->made[old]));
    bool all = type_equal(type_of(s->m, taken), &to);
    (all && v->home == i->home && !(partial & s->tree) ? s->has_all : s->has_less)[old] = true;
}

static void region(Shard *s, const Region *old, Region *r);

static Builder builder(Shard *s, const Ins *i)
{
    return builder_at(s->m, s->region, i);
}

static void name_as(Shard *s, Value x, Value old)
{
    s->m->values.data[x].name = s->m->values.data[old].name;
}

static void finish(Shard *s, Builder *b, const Ins *i, uint32_t k, Value x)
{
    name_as(s, x, i->out[k]);
    s->made[i->out[k]] = x;
    /* Leaves are made anew as they are wanted: their own way may not even come out even. */
    s->now[i->out[k]] = s->leaf[i->out[k]] ? x : settle(s, b, i->out[k], x);
}

/* ---- loops ---------------------------------------------------------------------------------- */

static Type carried_type(const Shard *s, Value arg)
{
    Type t = own_type(s, arg);
    t.partial = s->hint[arg] & ~type_axes(&t);
    return t;
}

/* The initial value of a carried value, or what something partial is joined with. Zero is a partial
 * sum of zero. */
static Value start_of(Shard *s, Builder *b, Value old, const Type *t)
{
    if (!t->partial || !shard_is_zero(s, old))
        return want(s, b, old, t);
    Type scalar = {.dtype = t->dtype, .partial = t->partial};
    Attrs zero = {0};
    Value v = build_typed(b, OP_const, &zero, 0, NULL, 1, &scalar, NULL)->out[0];
    return build_as(b, v, *t);
}

/* x, of which a loop along d takes slices: every rank has all of d, or what its stages have. */
static Value whole_along(Shard *s, Builder *b, Value x, Dim d)
{
    Type t = *type_of(s->m, x);
    Dim *at = &t.dims[type_find(&t, d.name)];
    if (at->axes == d.axes)
        return x;
    *at = d;
    return bring(s, b, x, &t);
}

/* The sum that the loop around i carries on in the stack out[k] of i; 0: there is none. */
static Value sum_of_stack(const Ins *i, uint32_t k)
{
    const Region *around = i->home;
    for (int64_t c = 0; around->owner && c < around->owner->attrs.carried; c++)
        if (around->results.data[c] == i->out[k])
            return around->args.data[c];
    return 0;
}

/* Result k of a layer as the stack out[k] of i is to lie: as it was made, where that is so. A stage
 * that has fewer layers than there is room for (differ) leaves the rest of the stack as it was,
 * which only a sum that the loop around carries on in place remembers. So there it is brought to
 * where the stack, or that sum, lies before it is stacked, and not the stack behind the loop. */
static Value layer_of(Shard *s, Builder *b, const Ins *i, uint32_t k, Dim layers, bool differ)
{
    const Value old = i->body->results.data[k], y = s->now[old], sum = sum_of_stack(i, k);
    Type to, now = type_stacked(type_of(s->m, y), layers);
    if (sum) {
        to = carried_type(s, sum);
        to = type_without(&to, layers.name);
        return differ ? bring(s, b, y, &to) : y;
    }
    if (!shard_read_ahead(s, i->out[k], &to))
        to = settled_type(s, i->out[k], &now);
    to = type_without(&to, layers.name);
    if (now.partial || !(differ || type_equal(type_of(s->m, s->made[old]), &to)))
        return y;
    return want(s, b, old, &to);
}

static void loop(Shard *s, const Ins *i)
{
    Builder b = builder(s, i);
    Region *above = s->region, *body = region_new(s->m, above);
    const Region *old = i->body;
    size_t carried = (size_t)i->attrs.carried;
    Value *in = NEW_ARRAY(s->tmp, Value, i->nin + 1);
    Attrs attrs = i->attrs;
    const bool staged = ir_is_staged(s->m, i);
    if (staged)
        attrs.dim = mesh_split(s->m, attrs.dim, s->m->layout.pipeline.axis);
    for (uint32_t k = 0; k < i->nin; k++) {
        Value arg = old->args.data[k];
        Type t;
        if (k < carried) {
            t = carried_type(s, arg);
            in[k] = start_of(s, &b, i->in[k], &t);
        } else {
            in[k] = whole_along(s, &b, s->now[i->in[k]], attrs.dim);
            t = type_without(type_of(s->m, in[k]), i->attrs.dim.name);
        }
        s->now[arg] = s->made[arg] = region_arg(s->m, body, t, s->m->values.data[arg].name);
    }
    Value index = old->args.data[i->nin];
    s->now[index] = region_arg(s->m, body, *type_of(s->m, index), s->m->values.data[index].name);
    region(s, old, body);
    s->region = body;
    Builder end = {.m = s->m, .region = body};
    Type *types = NEW_ARRAY(s->tmp, Type, i->nout + 1);
    for (size_t k = 0; k < old->results.n; k++) {
        Value y;
        if (k < carried) {
            types[k] = carried_type(s, old->args.data[k]);
            note_early(s, i, old->results.data[k], types[k].partial);
            y = want(s, &end, old->results.data[k], &types[k]);
            s->lacks[old->args.data[k]] = types[k].partial & ~type_of(s->m, y)->partial;
        } else {
            y = layer_of(s, &end, i, (uint32_t)k, attrs.dim, staged && ir_layers_differ(s->m));
            types[k] = type_stacked(type_of(s->m, y), attrs.dim);
        }
        vec_push(s->m->arena, &body->results, y);
    }
    s->region = above;
    Ins *made = build_typed(&b, OP_repeat, &attrs, (int)i->nin, in, (int)i->nout, types, body);
    made->exact = i->exact;
    for (uint32_t k = 0; k < i->nout; k++)
        finish(s, &b, i, k, made->out[k]);
}

/* ---- instructions --------------------------------------------------------------------------- */

/* A product or sum of rows that is added to what does not lie as it does: it is brought there, and
 * added by an instruction of its own. */
static void add_to(Shard *s, Builder *b, const Ins *i, Value x, int added)
{
    Value c = s->now[i->in[added]];
    Type to = *type_of(s->m, c);
    may_gather(s, i->in[added], type_of(s->m, x)->partial & ~type_axes(&to));
    to.partial &= type_of(s->m, x)->partial;
    Type part = to;
    part.dtype = type_of(s->m, x)->dtype;
    note_early(s, i, i->in[added], to.partial);
    if (type_of(s->m, x)->partial & ~to.partial & s->tree)
        s->early = i;
    c = bring(s, b, c, &to);
    x = build_cast(b, bring(s, b, x, &part), to.dtype);
    finish(s, b, i, 0, build2(b, OP_add, c, x));
}

static void instruction(Shard *s, const Ins *i)
{
    Type rule[8] = {0}, types[8];
    Value in[RULE_OPERANDS];
    if (i->op == OP_repeat) {
        loop(s, i);
        return;
    }
    Builder b = builder(s, i);
    Space p = space_of(s, i);
    note_sums(s, i, &p);
    /* A sum may be added to afterwards; what rows are put into is where they are put. */
    int added = i->op == OP_put ? -1 : ins_added(i);
    for (uint32_t k = 0; k < i->nin; k++) {
        if ((int)k == added) { /* the last operand */
            in[k] = s->now[i->in[k]];
            continue;
        }
        Type t = space_type(s, &p, *type_of(s->m, i->in[k]));
        const bool zero = op_is(i->op, ADDITIVE) && shard_is_zero(s, i->in[k]);
        t.partial = zero ? p.partial : p.partial & type_of(s->m, s->now[i->in[k]])->partial;
        if (i->op == OP_add || i->op == OP_sub || i->op == OP_join)
            note_early(s, i, i->in[k], t.partial);
        in[k] = zero ? start_of(s, &b, i->in[k], &t) : want(s, &b, i->in[k], &t);
        if (OP_AMONG(i->op, OP_add, OP_sub))
            note_all(s, i, i->in[k], in[k]);
    }
    Attrs attrs = space_attrs(s, &p, i->attrs);
    if (attrs.tiles && i->op == OP_dot &&
        ir_cuts_product(s->m, &attrs, type_of(s->m, in[0]), type_of(s->m, in[1])))
        attrs.fp8 = attrs.tiles = 0; /* halves are multiplied */
    int nin = (int)i->nin - (added >= 0);
    const char *wrong = type_check(s->m, i->op, &attrs, nin, in, 8, rule);
    if (wrong)
        ir_broken(s->m, i, "shard: %s", wrong);
    for (uint32_t k = 0; k < i->nout; k++) {
        types[k] = space_type(s, &p, *type_of(s->m, i->out[k]));
        types[k].partial = rule[k].partial;
        types[k].max = rule[k].max;
    }
    bool fits = added >= 0 && type_same_dims(&types[0], type_of(s->m, in[added])) &&
                types[0].partial == type_of(s->m, in[added])->partial;
    Ins *made = build_typed(&b, i->op, &attrs, nin + fits, in, (int)i->nout, types, NULL);
    made->keep = i->keep;
    made->exact = i->exact;
    if (added >= 0 && !fits) {
        add_to(s, &b, i, made->out[0], added);
        return;
    }
    for (uint32_t k = 0; k < i->nout; k++)
        finish(s, &b, i, k, made->out[k]);
}

static void region(Shard *s, const Region *old, Region *r)
{
    Region *above = s->region;
    s->region = r;
    for (size_t k = 0; k < old->ins.n; k++) {
        s->updating = old == s->fn->body && k >= s->updates;
        instruction(s, old->ins.data[k]);
    }
    s->region = above;
}

/* ---- functions ------------------------------------------------------------------------------ */

static Type tensor_type(const Module *m, uint32_t tensor)
{
    const Tensor *t = &m->tensors.data[tensor];
    Split s = class_split_of(m, &t->type, t->parameter, tensor_class(m, t));
    return split_type(m, t->type, &s);
}

/* Inputs are split by sequences alone. */
static Type input_type(const Shard *s, Value v)
{
    const Type *t = type_of(s->m, v);
    bool fixed[MAX_RANK];
    Split split;
    for (int i = 0; i < t->rank; i++)
        fixed[i] = t->dims[i].name != s->m->batch.name;
    mesh_walk(s->m, t->dims, t->rank, fixed, split.axes);
    return split_type(s->m, *t, &split);
}

/* Texts lie in caches as their tokens do; what the rules split besides is split on the other axes.
 */
static Type cache_type(const Shard *s, Value v)
{
    const Type *t = type_of(s->m, v), given = input_type(s, v);
    const int batch = type_find(t, s->m->batch.name);
    bool fixed[MAX_RANK] = {false};
    Split split;
    fixed[batch] = true;
    mesh_walk(s->m, t->dims, t->rank, fixed, split.axes);
    for (int i = 0; i < t->rank; i++)
        split.axes[i] &= ~given.dims[batch].axes;
    split.axes[batch] = given.dims[batch].axes;
    return split_type(s->m, *t, &split);
}

static bool is_copy(const Shard *s, FnResult r)
{
    return r.role == RES_update && tensor_is_rounded(&s->m->tensors.data[r.tensor]);
}

/* The rounded copy of a new value. Where that is brought to how the copy lies for its own sake, it
 * is rounded there; else as it was made, and what moves is the copy. */
static Value copy_of_update(Shard *s, Builder *b, Value old, const Type *t)
{
    const Ins *cast = s->m->values.data[old].def;
    if (cast->op != OP_cast) /* rounded in blocks */
        return want(s, b, old, t);
    Type wide = *t;
    wide.dtype = type_of(s->m, cast->in[0])->dtype;
    Value from = known(s, b, s->now[cast->in[0]], &wide);
    if (!from)
        return want(s, b, old, t);
    Builder at = builder_at(s->m, b->region, cast);
    return build_cast(&at, from, t->dtype);
}

/* The type that a result is brought to: what remains lies as it did; the others are whole. */
static Type result_type(const Shard *s, size_t k)
{
    const FnResult res = s->fn->results.data[k];
    if (res.role == RES_update)
        return tensor_type(s->m, res.tensor);
    for (size_t i = 0; i < s->fn->args.n && res.role == RES_cache; i++)
        if (s->fn->args.data[i].role == ARG_cache && s->fn->args.data[i].tensor == res.tensor)
            return *type_of(s->m, s->now[s->fn->body->args.data[i]]);
    return *type_of(s->m, s->fn->body->results.data[k]);
}

static Region *sharded_body(Shard *s)
{
    const Region *old = s->fn->body;
    Region *r = region_new(s->m, NULL);
    s->brought.n = 0;
    for (size_t k = 0; k < old->args.n; k++) {
        Value v = old->args.data[k];
        FnArg a = s->fn->args.data[k];
        Type t = a.role <= ARG_state   ? tensor_type(s->m, a.tensor)
                 : a.role == ARG_cache ? cache_type(s, v)
                                       : input_type(s, v);
        s->now[v] = s->made[v] = region_arg(s->m, r, t, s->m->values.data[v].name);
    }
    region(s, old, r);
    Builder b = {.m = s->m, .region = r};
    for (size_t k = 0; k < old->results.n; k++) {
        FnResult res = s->fn->results.data[k];
        Type t = result_type(s, k);
        vec_push(s->m->arena, &r->results,
                 is_copy(s, res) ? copy_of_update(s, &b, old->results.data[k], &t)
                                 : want(s, &b, old->results.data[k], &t));
    }
    return r;
}

static bool told_early(const Shard *s)
{
    const Module *m = s->m;
    if (!s->early)
        return false;
    diag_error(
        m->diag, s->early->span, 524,
        "reduce = tree: a sum over %s would be made here, of a part of what a microbatch gives",
        mesh_axes_text(m, s->tree));
    propose_no_tree(m->diag, &m->train);
    return true;
}

/* False if it cannot be; told. */
static bool shard_fn(Module *m, Fn *fn, Arena *tmp)
{
    enum { TRIES = 64 }; /* each knows more of some accumulator */
    shard_classes(m, fn);
    shard_halo(m, fn, tmp);
    Shard s = {.m = m, .fn = fn, .tmp = tmp, .values = m->values.n};
    s.tree = fn == module_fn(m, "train") ? mesh_tree_axes(m) : 0;
    s.each_microbatch = mesh_tree_each_microbatch(m) ? s.tree : 0;
    s.now = NEW_ARRAY(tmp, Value, s.values);
    s.made = NEW_ARRAY(tmp, Value, s.values);
    s.leaf = NEW_ARRAY(tmp, bool, s.values);
    s.hint = NEW_ARRAY(tmp, Axes, s.values);
    s.lacks = NEW_ARRAY(tmp, Axes, s.values);
    s.never = NEW_ARRAY(tmp, Axes, s.values);
    s.uses = arena_array(tmp, s.values, sizeof *s.uses);
    s.grad = NEW_ARRAY(tmp, uint32_t, s.values);
    s.whole_grad = NEW_ARRAY(tmp, bool, s.values);
    s.param = NEW_ARRAY(tmp, uint32_t, s.values);
    s.added_up = NEW_ARRAY(tmp, bool, s.values);
    s.has_all = NEW_ARRAY(tmp, bool, s.values);
    s.has_less = NEW_ARRAY(tmp, bool, s.values);
    s.whole = NEW_ARRAY(tmp, bool, s.values);
    s.exchange = NEW_ARRAY(tmp, Exchange, s.values);
    shard_read(&s);
    Region *body = NULL;
    for (int n = 0; n < TRIES && (!body || s.again); n++) {
        s.again = false;
        s.early = NULL;
        memset(s.has_all, 0, s.values * sizeof *s.has_all);
        memset(s.has_less, 0, s.values * sizeof *s.has_less);
        body = sharded_body(&s);
        take_back_hints(&s);
        shard_reduce_once(&s);
    }
    if (told_early(&s))
        return false;
    fn->body = body;
    fn->gradients.n = 0;
    if (m->layout.pipeline.axis)
        shard_broadcast(m, fn, tmp);
    simplify_dce(m, fn, tmp); /* what was brought where nobody wanted it */
    return true;
}

PassStatus pass_shard(Job *j)
{
    Module *m = j->m;
    if (!m->layout.mesh.n) {
        for (size_t f = 0; f < m->fns.n; f++)
            m->fns.data[f]->gradients.n = 0;
        return PASS_ok;
    }
    for (size_t f = 0; f < m->fns.n && m->layout.pipeline.axis; f++)
        relays_join(m, m->fns.data[f], j->tmp);
    if (!scans_are_whole(m) || !stages_are_loops(m) || !shard_is_possible(m, j->tmp) ||
        !stages_choose(m))
        return PASS_error;
    for (size_t f = 0; f < m->fns.n; f++)
        if (!shard_fn(m, m->fns.data[f], j->tmp))
            return PASS_error;
    Type *types = NEW_ARRAY(j->tmp, Type, m->tensors.n);
    for (size_t t = 0; t < m->tensors.n; t++)
        types[t] = tensor_type(m, (uint32_t)t);
    for (size_t t = 0; t < m->tensors.n; t++)
        m->tensors.data[t].type = types[t];
    if (!m->layout.pipeline.axis)
        return PASS_ok;
    shard_places(m, j->tmp);
    return stages_hold(m, j->tmp) ? PASS_ok : PASS_error;
}
