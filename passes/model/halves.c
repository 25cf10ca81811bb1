/* halves.c - which values are bf16 or f16 (below: halves), and where they are rounded.
 *
 *   before:  %y: f32 = dot %x, %w            after:  %x2: bf16 = cast %x     (once, where %x is
 * made) %z: f32 = mul %y, %c                    %w2: bf16 = cast %w     (once a step, at the top)
 *                                                    %y2: bf16 = dot %x2, %w2
 *                                                    %y:  f32  = cast %y2
 *                                                    %z:  f32  = mul %y, %c
 *
 * Halves are: the operands of products and of attention, and their results (where a bias is added,
 * after that; the bias is rounded too); what is sent to experts and fetched from them; logits; what
 * a repeat carries from round to round (but a scan's state, to which each of thousands of positions
 * adds a little); and a sum of two such tensors (the residual stream). All
 * arithmetic is done in f32, on what was widened again: norms, activations, softmax, losses, the
 * optimizer, and every sum of a product. Parameters stay f32 (the master copy); products read a
 * copy that is rounded once a step. So a rounding is an instruction, made before differentiation:
 * its transpose is one too, and no later pass decides what is rounded.
 *
 * With `precision fp8` the products of layers with their parameters are marked in @train: pass
 * quantize rounds their operands, and those of their gradients, once more. */
#include "passes/model/halves.h"
#include "passes/view.h"
#include "passes/walk.h"

typedef struct Halves {
    Module *m;
    DType half;
    Arena *tmp;
    Uses uses;
    ValueMap wide; /* a value as it was: the f32 that stands for it */
    ValueMap half_of;
    bool fp8;    /* marks the products that pass quantize makes fp8 */
    int marked;  /* how many were */
    bool *exact; /* per value as it was: a product that a bias or another product is added to */
    size_t values;
} Halves;

static bool is_f32(const Halves *h, Value v)
{
    return type_of(h->m, v)->dtype == DT_f32;
}

/* A parameter, a layer's slice of one, or a view of either. */
static bool is_parameter(const Module *m, Value v)
{
    const ValueInfo *x = &m->values.data[v];
    Value stacked;
    if (x->def)
        return op_is(x->def->op, VIEW) && is_parameter(m, x->def->in[0]);
    if (!x->home->owner)
        return true;
    return slice_loop(m, v, &stacked) && is_parameter(m, stacked);
}

static void pair(Halves *h, Value wide, Value half)
{
    map_set(h->m, &h->half_of, wide, half);
}

static bool was_half(const Halves *h, Value v)
{
    return map_get(&h->half_of, v) != v;
}

/* The rounded v, where v is made: so all that multiply it share it. A slice of a parameter is a
 * slice of the rounded parameter, a view of what was a half a view of that. */
static Value narrow(Halves *h, Value v)
{
    Module *m = h->m;
    Value known = map_get(&h->half_of, v), stacked, r;
    if (known != v)
        return known;
    const Ins *def = m->values.data[v].def;
    Region *home = m->values.data[v].home;
    Builder b = {.m = m, .region = home};
    if (def)
        b = builder_at(m, home, def);
    if (!def && home->owner && is_parameter(m, v)) {
        slice_loop(m, v, &stacked);
        r = repeat_slice(m, home->owner, narrow(h, stacked));
    } else if (def && op_is(def->op, VIEW) && (is_parameter(m, v) || was_half(h, def->in[0]))) {
        Value in = narrow(h, def->in[0]);
        r = build(&b, def->op, &def->attrs, 1, &in);
    } else {
        r = build_cast(&b, v, h->half);
        m->values.data[r].name = m->values.data[v].name;
    }
    pair(h, v, r);
    return r;
}

/* v, made as f32, is a half from now on: what reads it reads it widened. */
static void becomes_half(Halves *h, Builder *b, Value v)
{
    h->m->values.data[v].type.dtype = h->half;
    Value w = build_cast(b, v, DT_f32);
    h->m->values.data[w].name = h->m->values.data[v].name;
    map_set(h->m, &h->wide, v, w);
    pair(h, w, v);
}

/* ---- instructions ------------------------------------------------------------------------- */

/* How many of the first operands are multiplied, and of the first results come of it. */
static const struct {
    uint32_t operands, results;
} multiplies[OP_count] = {
    [OP_dot] = {2, 1},      [OP_attention] = {3, 1}, [OP_cross_entropy] = {1, 0},
    [OP_dispatch] = {1, 1}, /* moved, as they are multiplied afterwards */
    [OP_combine] = {1, 1},  [OP_grouped] = {2, 1},
};

/* The instruction of `after` that has v as an operand. */
static const Ins *user_of(Ins *const *after, size_t n, Value v)
{
    for (size_t k = 0; k < n; k++)
        for (uint32_t x = 0; x < after[k]->nin; x++)
            if (after[k]->in[x] == v)
                return after[k];
    return NULL;
}

/* x + bias, as values were before: a parameter with fewer dims. */
static bool adds_bias(const Halves *h, const Ins *i, Value x)
{
    Value bias = i->op != OP_add ? 0 : i->in[0] == x ? i->in[1] : i->in[0];
    return bias && bias != x && is_f32(h, bias) && is_parameter(h->m, bias) &&
           type_of(h->m, bias)->rank < type_of(h->m, x)->rank &&
           type_of(h->m, i->out[0])->rank == type_of(h->m, x)->rank;
}

/* A product that only a bias is added to is rounded after that. */
static bool before_bias(const Halves *h, Ins *const *after, size_t n, const Ins *i)
{
    const Ins *user =
        i->op == OP_dot && h->uses.count[i->out[0]] == 1 ? user_of(after, n, i->out[0]) : NULL;
    return user && adds_bias(h, user, i->out[0]);
}

/* The other one of two products that i adds up, if nothing else reads them. */
static const Ins *summed_with(const Halves *h, const Ins *i, Value v)
{
    const Value other = i->op == OP_add ? i->in[i->in[0] == v] : v;
    const Ins *dot = other != v ? h->m->values.data[other].def : NULL;
    return dot && dot->op == OP_dot && !dot->attrs.fp8 && h->uses.count[other] == 1 &&
                   type_same_dims(type_of(h->m, other), type_of(h->m, i->out[0])) &&
                   type_same_dims(type_of(h->m, v), type_of(h->m, i->out[0]))
               ? dot
               : NULL;
}

/* A product that adds to another one is rounded after that. */
static bool before_sum(const Halves *h, Ins *const *after, size_t n, const Ins *i)
{
    const Value v = i->out[0];
    const Ins *user =
        i->op == OP_dot && !i->attrs.fp8 && h->uses.count[v] == 1 ? user_of(after, n, v) : NULL;
    const Ins *other = user ? summed_with(h, user, v) : NULL;
    const int64_t more = other ? dot_terms(h->m, i) - dot_terms(h->m, other) : -1;
    return more > 0 || (more == 0 && user->in[1] == v);
}

static bool is_exact(const Halves *h, Value v)
{
    return v < h->values && h->exact[v];
}

static bool whole_add(const Halves *h, const Ins *i)
{
    const Type *t = type_of(h->m, i->out[0]);
    return i->op == OP_add && t->dtype == DT_f32 && t->rank &&
           type_of(h->m, i->in[0])->rank == t->rank && type_of(h->m, i->in[1])->rank == t->rank;
}

/* A sum of two tensors, one of which is a half, that goes anywhere but into another such sum. */
static bool is_kept_sum(const Halves *h, Ins *const *after, size_t n, const Ins *i)
{
    if (!whole_add(h, i) || !(was_half(h, i->in[0]) || was_half(h, i->in[1])))
        return false;
    const Ins *user = h->uses.count[i->out[0]] == 1 ? user_of(after, n, i->out[0]) : NULL;
    return !user || !whole_add(h, user);
}

static void region(Halves *h, Region *r);

/* A carried value is a half, inside and outside of the loop. */
static void loop(Halves *h, Region *r, Ins *i)
{
    Region *body = i->body;
    Builder b = builder_at(h->m, r, i);
    size_t carried = (size_t)i->attrs.carried;
    bool *half = NEW_ARRAY(h->tmp, bool, carried + 1);
    for (size_t k = 0; k < carried; k++) {
        half[k] = !i->attrs.scan && is_f32(h, i->in[k]) && type_of(h->m, i->in[k])->rank;
        if (half[k])
            i->in[k] = narrow(h, i->in[k]);
    }
    for (size_t k = 0; k < carried; k++)
        if (half[k])
            h->m->values.data[body->args.data[k]].type.dtype = h->half;
    region(h, body);
    for (size_t k = 0; k < carried; k++)
        if (half[k])
            body->results.data[k] = narrow(h, body->results.data[k]);
    vec_push(h->m->arena, &r->ins, i);
    for (size_t k = 0; k < carried; k++)
        if (half[k])
            becomes_half(h, &b, i->out[k]);
}

/* v as it is when it was rounded. */
static Value rounded(Halves *h, Builder *b, Value v)
{
    return build_cast(b, narrow(h, v), DT_f32);
}

/* Is r in the body of a repeat over layers, and in no scan? */
static bool in_layers(const Region *r)
{
    bool layers = false;
    for (; r->owner; r = r->parent) {
        if (r->owner->attrs.scan)
            return false;
        layers = true;
    }
    return layers;
}

static bool are_sixteens(const Type *t, const DimList *over)
{
    int64_t summed = 1, left = 1;
    for (int i = 0; i < t->rank; i++)
        *(dims_have(over, t->dims[i].name) ? &summed : &left) *= t->dims[i].size;
    return summed % FP8_SIDE == 0 && left % FP8_SIDE == 0;
}

/* Does v show a tensor's elements at computed places? Such products are another kernel's. */
static bool is_shown(const Halves *h, Value v)
{
    const Ins *def = h->m->values.data[v].def;
    return def && (def->op == OP_reindex ||
                   ((def->op == OP_cast || op_is(def->op, VIEW)) && is_shown(h, def->in[0])));
}

/* Is this a layer's product with one of its parameters, of sides that tensor cores take in fp8? */
static bool is_layers_product(const Halves *h, const Ins *i)
{
    const bool second = is_parameter(h->m, i->in[1]);
    return i->op == OP_dot && in_layers(i->home) && second != is_parameter(h->m, i->in[0]) &&
           are_sixteens(type_of(h->m, i->in[second]), &i->attrs.over) &&
           !is_shown(h, i->in[!second]);
}

static void instruction(Halves *h, Region *r, Ins *i, Ins *const *after, size_t n)
{
    Builder b = builder_at(h->m, r, i);
    bool biased = false;
    for (uint32_t k = 0; k < 2 && i->op == OP_add; k++)
        biased |=
            is_exact(h, i->in[k]) && (adds_bias(h, i, i->in[k]) || summed_with(h, i, i->in[k]));
    for (uint32_t k = 0; k < i->nin; k++) {
        bool exact = is_exact(h, i->in[k]);
        i->in[k] = map_get(&h->wide, i->in[k]);
        if (biased && !exact)
            i->in[k] = rounded(h, &b, i->in[k]);
    }
    if (i->op == OP_repeat) {
        loop(h, r, i);
        return;
    }
    bool halved = multiplies[i->op].operands && is_f32(h, i->in[0]);
    if (h->fp8 && halved && is_layers_product(h, i))
        h->marked += i->attrs.fp8 = FP8_values;
    for (uint32_t k = 0; halved && k < multiplies[i->op].operands; k++)
        i->in[k] = narrow(h, i->in[k]);
    vec_push(h->m->arena, &r->ins, i);
    if (halved && (before_bias(h, after, n, i) || before_sum(h, after, n, i))) {
        h->exact[i->out[0]] = true;
        return;
    }
    for (uint32_t k = 0; halved && k < multiplies[i->op].results; k++)
        becomes_half(h, &b, i->out[k]);
    if (biased || is_kept_sum(h, after, n, i)) {
        Value half = narrow(h, i->out[0]);
        Value wide = build_cast(&b, half, DT_f32);
        map_set(h->m, &h->wide, i->out[0], wide);
        pair(h, wide, half);
    }
}

static void region(Halves *h, Region *r)
{
    Ins **old = r->ins.data;
    size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    Builder b = {.m = h->m, .region = r};
    for (size_t k = 0; k < r->args.n; k++)
        if (type_of(h->m, r->args.data[k])->dtype == h->half)
            becomes_half(h, &b, r->args.data[k]);
    for (size_t k = 0; k < n; k++)
        instruction(h, r, old[k], old + k + 1, n - k - 1);
    for (size_t k = 0; k < r->results.n; k++)
        r->results.data[k] = map_get(&h->wide, r->results.data[k]);
}

void halves_module(Module *m, Arena *tmp)
{
    for (size_t f = 0; f < m->fns.n; f++) {
        Region *body = m->fns.data[f]->body;
        Halves h = {.m = m,
                    .half = m->train.half,
                    .fp8 = m->train.fp8 && m->fns.data[f] == module_fn(m, "train"),
                    .tmp = tmp,
                    .values = m->values.n,
                    .uses = ir_uses(m, body, tmp)};
        h.exact = NEW_ARRAY(tmp, bool, m->values.n);
        region(&h, body);
        if (h.fp8 && !h.marked) {
            diag_warning(m->diag, m->train.precision_span, 533,
                         "precision fp8: all products are of bf16, for none is one of layers");
            diag_help(m->diag,
                      "precision bf16; fp8 is for products in a repeat with a parameter "
                      "whose rows and columns are multiples of %d",
                      FP8_SIDE);
        }
    }
}
