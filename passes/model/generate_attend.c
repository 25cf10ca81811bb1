/* generate_attend.c - attention of the new positions: its keys and values are kept, of those
 * positions that later queries see. See generate.h.
 *
 * Without a window the key of position p is at place p of the cache. With a window of W that is
 * shorter than the text it is at place p mod W of a ring of W places, and the invariant is
 *
 *   behind a call that ends before position e, place q has the newest position p < e with
 *   p mod W = q, if there is one: so the ring has the positions [e - W, e), each once.
 *
 * A call for one position, p, puts it where p - W was, which no query sees any more; then all
 * places that were ever written are seen, in any order, since a softmax has none. A call for
 * several, from `begin` on, would overwrite what its first queries see. It copies the W - 1
 * positions before `begin` out of the ring, behind which the new keys come, attends over these, in
 * the order of positions, and puts the last W of the new ones into the ring. What a place holds of
 * a text that was there before is hidden: a query sees no position below 0.
 *
 * So a text can be cut back only to nothing: what a ring had before is gone. */
#include "passes/model/generate.h"
#include "passes/walk.h"

/* ---- places ---------------------------------------------------------------------------------- */

static Dim named(Generate *g, const char *what, int64_t window, int64_t size)
{
    const char *name = arena_printf(g->m->arena, "%s.%s%lld", name_str(g->m->names, g->seq), what,
                                    (long long)window);
    return (Dim){.name = name_intern(g->m->names, name), .size = size};
}

static Value number(Builder *b, int64_t n)
{
    return build_const(b, DT_i32, (double)n);
}

/* x mod n, of x that are not negative. Numbers of 32 bits, and quotients of whole numbers, are
 * exact enough in f64 for that. */
static Value modulo(Builder *b, Value x, int64_t n)
{
    const Value by = build_const(b, DT_f64, (double)n);
    const Value turns = build_cast(b, build2(b, OP_div, build_cast(b, x, DT_f64), by), DT_i32);
    return build2(b, OP_sub, x, build2(b, OP_mul, turns, number(b, n)));
}

/* All places but those of what is no token. */
static Value of_tokens(Generate *g, Builder *b, Value place)
{
    return build(b, OP_select, NULL, 3, (Value[]){g->valid, place, number(b, -1)});
}

static void whole_places(Generate *g, Builder *b, Places *p)
{
    p->put = of_tokens(g, b, g->at);
    p->keys = p->seen_keys = (Dim){.name = g->context, .size = g->window};
    p->seen = build2(b, OP_add, g->at, number(b, 1));
    if (p->window)
        p->first =
            build2(b, OP_max, build2(b, OP_sub, g->at, number(b, p->window - 1)), number(b, 0));
}

static void ring_places(Generate *g, Builder *b, Places *p)
{
    const int64_t w = p->window;
    const Dim seq = {.name = g->seq, .size = g->n};
    const Value nth = build_iota(b, DT_i32, seq);
    p->ring = w;
    p->keys = p->seen_keys = named(g, "last", w, w);
    Value place = of_tokens(g, b, modulo(b, generate_place(g, DT_i32), w));
    if (g->n > w) { /* of those that would take the same place, the last */
        const Value last = build2(b, OP_le, build2(b, OP_sub, g->count, number(b, w)), nth);
        place = build(b, OP_select, NULL, 3, (Value[]){last, place, number(b, -1)});
    }
    const Type each = {.dtype = DT_i32, .rank = 2, .dims = {g->batch, seq}};
    p->put = build_as(b, place, each);
    if (g->n == 1) {
        p->seen = build2(b, OP_min, build2(b, OP_add, g->at, number(b, 1)), number(b, w));
        return;
    }
    p->seen_keys = named(g, "near", w, w - 1 + g->n);
    p->seen = build2(b, OP_add, nth, number(b, w));
    p->first = build2(b, OP_max, build2(b, OP_sub, number(b, w - 1), g->begin), nth);
    if (w > 1) {
        const Value back = build_iota(b, DT_i32, named(g, "older", w, w - 1));
        const Value at = build2(b, OP_add, build2(b, OP_sub, g->begin, number(b, w - 1)), back);
        p->old = modulo(b, build2(b, OP_max, at, number(b, 0)), w);
    }
}

/* ring: the window alone says what is seen. */
static const Places *places_of(Generate *g, int64_t window, bool ring)
{
    ring &= window && window < g->window;
    for (size_t k = 0; k < g->places.n; k++)
        if (g->places.data[k].window == window && (g->places.data[k].ring != 0) == ring)
            return &g->places.data[k];
    Builder b = {.m = g->m, .region = g->to->body};
    Places p = {.window = window};
    (ring ? ring_places : whole_places)(g, &b, &p);
    vec_push(g->tmp, &g->places, p);
    return &g->places.data[g->places.n - 1];
}

/* ---- keys and values ------------------------------------------------------------------------- */

static Value renamed(Builder *b, Value x, Name from, Dim to)
{
    const Type *t = type_of(b->m, x);
    const Dim d = t->dims[type_find(t, from)];
    const Attrs a = {.dim = d, .to = {.name = to.name, .size = d.size}};
    return build(b, OP_rename, &a, 1, &x);
}

/* The rows that a ring had before this call, in the order of positions, and behind them x. */
static Value older_and(Builder *b, const Places *p, Value ring, Value x, Name seq)
{
    x = renamed(b, x, seq, p->seen_keys);
    if (!p->old)
        return x;
    Type t = *type_of(b->m, x);
    Value old = build(b, OP_gather, &(Attrs){.dim = p->keys}, 2, (Value[]){ring, p->old});
    old = renamed(b, old, type_of(b->m, p->old)->dims[1].name, p->seen_keys);
    t.dims[1].size = p->seen_keys.size - t.dims[1].size;
    old = build_as(b, old, t);
    return build(b, OP_join, &(Attrs){.dim = p->seen_keys}, 2, (Value[]){old, x});
}

/* Puts x, of the new positions, into what positions before left. Returns what attention reads. */
static Value kept(Generate *g, Frame *f, const Ins *i, Value x, const DimList *head,
                  const Places *p)
{
    Builder b = builder_at(g->m, f->to, i);
    const Type t = generate_in_cache(g, type_of(g->m, x), head, p->keys);
    Type rows = {.dtype = t.dtype, .rank = 2, .dims = {g->batch, {.name = g->seq, .size = g->n}}};
    size_t number;
    const Value old = generate_cache(g, f, &t, &number);
    g->cuts = p->ring && p->ring < g->cuts ? p->ring : g->cuts;
    for (int k = 1; k < t.rank; k++)
        if (t.dims[k].name != p->keys.name)
            rows.dims[rows.rank++] = t.dims[k];
    x = build_as(&b, generate_each(g, &b, x), rows);
    /* Reads the cache before what writes it, which is then done in its place. */
    const Value several = p->ring && g->n > 1 ? older_and(&b, p, old, x, g->seq) : 0;
    const Value all = build(&b, OP_put, &(Attrs){.dim = p->keys}, 3, (Value[]){x, p->put, old});
    generate_leave(g, f, number, all);
    return several ? several : all;
}

/* ---- attention ------------------------------------------------------------------------------- */

bool generate_own_keys(const Generate *g, const Attrs *a)
{
    return !a->keys.name || generate_is_alias(g, a->keys.name);
}

/* Says what each query sees. Returns the number of operands. */
static uint32_t sees(const Places *p, Value *in, uint32_t n, Attrs *a)
{
    in[n++] = p->seen;
    if (p->first)
        in[n++] = p->first;
    a->within = p->first != 0;
    a->causal = false;
    a->window = 0;
    return n;
}

/* ---- written out -----------------------------------------------------------------------------
 */

/* bool of queries and keys: is the key seen? */
static Value sight(Builder *b, const Places *p)
{
    const Value key = build_iota(b, DT_i32, p->seen_keys);
    const Value sees = build2(b, OP_gt, p->seen, key);
    if (!p->first)
        return sees;
    const Value no = build_const(b, DT_bool, 0);
    const Value behind = build2(b, OP_le, p->first, key);
    return build(b, OP_select, NULL, 3, (Value[]){behind, sees, no});
}

/* Attention of the row of latent attention, which is longer than a head of tiles: two products with
 * a softmax between them. All keys that there is room for are multiplied. in: as of attention;
 * out: what attention gives. */
static void written_out(Builder *b, const Ins *i, const Places *p, const Latent *l, const Value *in,
                        Value *out)
{
    const DimList keys = {1, {p->seen_keys}};
    Value s = build_dot(b, in[0], in[1], &(DimList){1, {l->over}});
    const Type t = *type_of(b->m, s);
    s = build2(b, OP_mul, s, build_const(b, t.dtype, i->attrs.scale));
    if (i->attrs.cap > 0) {
        const Value cap = build_const(b, t.dtype, i->attrs.cap);
        s = build2(b, OP_mul, build1(b, OP_tanh, build2(b, OP_div, s, cap)), cap);
    }
    const Value none = build_const(b, t.dtype, -1e30);
    const Value seen[3] = {sight(b, p), s, none};
    s = build_typed(b, OP_select, NULL, 3, seen, 1, &t, NULL)->out[0];
    Value top = build(b, OP_rmax, &(Attrs){.over = keys}, 1, &s);
    top = i->attrs.sunk ? build2(b, OP_max, top, in[3]) : top;
    const Value e = build1(b, OP_exp, build2(b, OP_sub, s, top));
    Value sum = build_sum(b, e, &keys);
    if (i->attrs.sunk)
        sum = build2(b, OP_add, sum, build1(b, OP_exp, build2(b, OP_sub, in[3], top)));
    out[0] = build_dot(b, build2(b, OP_div, e, sum), in[2], &keys);
    out[1] = build2(b, OP_add, top, build1(b, OP_log, sum));
}

/* ---- operands --------------------------------------------------------------------------------
 */

/* Operands: the query, keys and values of all positions. Sets the head's dim of a latent one. */
static bool of_positions(Generate *g, Frame *f, const Ins *i, const Places *p, Latent *l, Attrs *a,
                         Value *in)
{
    Module *m = g->m;
    const DimList values =
        attention_value_head(&i->attrs, type_of(m, i->in[1]), type_of(m, i->in[2]));
    Builder b = builder_at(m, f->to, i);
    if (l) {
        Value row;
        if (!generate_latent(g, f, i, l, &in[0], &row))
            return false;
        a->over = (DimList){1, {l->over}};
        in[1] = kept(g, f, i, row, &a->over, p);
        in[2] = generate_latent_values(g, &b, i, l, in[1]);
        return true;
    }
    for (uint32_t k = 0; k < 3; k++) {
        in[k] = generate_image(g, f, i->in[k], NEAR);
        if (!in[k])
            return false;
    }
    in[0] = generate_each(g, &b, in[0]);
    in[1] = kept(g, f, i, in[1], &i->attrs.over, p);
    in[2] = kept(g, f, i, in[2], &values, p);
    return true;
}

/* Operands from the fourth on, but for what is seen. The first key that a query has of its own
 * joins that of the window. */
static bool beside(Generate *g, Frame *f, const Ins *i, Value *in, uint32_t *n, Places *p)
{
    const uint32_t bias = 3 + i->attrs.sunk;
    Builder b = builder_at(g->m, f->to, i);
    for (uint32_t k = 3; k < i->nin; k++) {
        const Image image = i->attrs.biased && k == bias ? FAR : NEAR;
        const Value x = generate_image(g, f, i->in[k], image);
        if (!x)
            return false;
        if (!i->attrs.within || k + 1 < i->nin) {
            in[(*n)++] = x;
            continue;
        }
        const Value own = generate_each(g, &b, x);
        p->first = p->first ? build2(&b, OP_max, p->first, own) : own;
    }
    return true;
}

/* Enters what attention gives, as @generate has it. */
static bool given(Generate *g, Frame *f, const Ins *i, const Latent *l, const Value *out)
{
    Builder b = builder_at(g->m, f->to, i);
    for (uint32_t k = 0; k < 2; k++) {
        Value x = l && k == 0 ? generate_latent_out(g, f, i, l, out[0]) : out[k];
        const Type was = generate_type(g, type_of(g->m, i->out[k]), NEAR);
        const bool batch = type_find(&was, g->batch.name) >= 0;
        if (!x)
            return false;
        if (l)
            x = build_as(&b, x, batch ? was : type_stacked(&was, g->batch));
        generate_enter(g, i, k, NEAR, x);
    }
    return true;
}

bool generate_attention(Generate *g, Frame *f, const Ins *i)
{
    Module *m = g->m;
    if (!i->attrs.causal)
        return generate_refuse(g, i, "its queries see later positions");
    if (i->nin > 3u + i->attrs.sunk + i->attrs.biased + i->attrs.within)
        return generate_refuse(g, i, "each of its queries has a number of keys");
    Latent latent, *l = generate_is_latent(g, i, &latent) ? &latent : NULL;
    Attrs a = generate_attrs(g, &i->attrs, FAR);
    Places p = *places_of(g, a.window, !i->attrs.keys.name && !a.within);
    if (i->attrs.keys.name)
        p.keys.name = p.seen_keys.name = i->attrs.keys.name;
    a.keys = p.seen_keys;
    Value in[7], out[2];
    uint32_t n = 3;
    if (!of_positions(g, f, i, &p, l, &a, in) || !beside(g, f, i, in, &n, &p))
        return false;
    Builder b = builder_at(m, f->to, i);
    if (l && g->from->head && l->size > g->from->head) {
        written_out(&b, i, &p, l, in, out);
        return given(g, f, i, l, out);
    }
    n = sees(&p, in, n, &a);
    Type rule[2];
    const char *wrong = type_check(m, i->op, &a, (int)n, in, 2, rule);
    if (wrong)
        return generate_refuse(g, i, wrong);
    const Ins *made = build_typed(&b, i->op, &a, (int)n, in, 2, rule, NULL);
    return given(g, f, i, l, made->out);
}
