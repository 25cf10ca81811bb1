/* pieces.c - pass pieces: a collective and the products beside it are cut, so that one piece is
 * computed while the next is on its way.
 *
 *   before:  g = all_gather x over seq;  y = dot g, w
 *            z = dot h, w;  r = reduce_scatter z
 *   after:   g0 = all_gather x0;  g1 = all_gather x1;  y0 = dot g0, w;  y1 = dot g1, w
 *            z0 = dot h0, w;  r0 = reduce_scatter z0;  z1 = dot h1, w;  r1 = reduce_scatter z1
 *            g = join g0, g1;  y = join y0, y1;  r = join r0, r1
 *
 * Under tensor parallelism a product waits for what it multiplies, and what follows a product for
 * its sum over ranks: nothing else could run meanwhile. Pieces are of the outermost dim of what is
 * sent, which is neither the one that is gathered nor one that is summed: so each lies by itself in
 * memory, on both sides, and a join of them is no work. That dim is sequences, where a rank
 * computes several at once, or blocks of positions, where the layout deals these out in blocks
 * (mesh.h). Each element is computed and added up as before, in the same order.
 *
 * Causal attention along the dim that is cut takes turns, too, where all that is computed does: the
 * first piece of queries needs the first piece of keys alone, so what follows it is on its way
 * while the others, which see keys up to their own positions, are computed. A score and a sum have
 * the same terms as before.
 *
 * Rows of experts take turns with the rest where pieces are sequences, too (pieces_experts.c, which
 * goes first): one part's attention runs beside the exchange of another's.
 *
 * A sum of products, and what is pointwise of them, may be sent: then all of that is cut.
 * Parameters are not: those an iteration needs are gathered ahead of it (prefetch_gathers.c).
 *
 * why here: types say no more how values lie, so a piece is a window like any other; before
 * anything else looks at what stands where. How many pieces: Layout.pieces (decide/pieces.c). */
#include "passes/dim_rules.h"
#include "passes/passes.h"
#include "passes/simplify/simplify.h"
#include "passes/spmd/pieces_experts.h"
#include "passes/toposort.h"
#include "passes/walk.h"

#include <string.h>

enum { DEEP = 8 /* instructions between a product and what is sent */ };

/* A value that is cut along a dim, into n pieces; no dim: it is not. */
typedef struct Cut {
    Name dim;
    int64_t n;
    Value piece[MAX_PIECES];
} Cut;

typedef struct Pieces {
    Module *m;
    Fn *fn;
    Cut *cut; /* per value that was there before */
    size_t values;
    Uses uses;
    Region *r;
    Arena *tmp;
    VEC(int) key; /* per instruction that the region has now: see in_turn */
    ExpertPieces experts;
    uint8_t *behind; /* per value: the part of experts' rows that it is made of, or for */
} Pieces;

/* Into how many pieces, of the part of the program that i belongs to. */
static const LayoutPieces *pieces_of(const Pieces *p, const Ins *i)
{
    return &p->m->layout.pieces[i->backward || i->again];
}

/* Is v cut as i is to be? */
static bool is_cut_for(const Pieces *p, const Ins *i, Value v, Name d)
{
    return v < p->values && p->cut[v].dim == d && p->cut[v].n == pieces_of(p, i)->n;
}

/* ---- what is cut ---------------------------------------------------------------------------- */

static const Ins *made_here(const Pieces *p, Value v)
{
    const Ins *i = p->m->values.data[v].def;
    return i && i->home == p->r ? i : NULL;
}

/* Is v a tensor, or made of one by itself? Then layers need it whole at their beginning. */
static bool is_parameter(const Pieces *p, Value v)
{
    const ValueInfo *i = &p->m->values.data[v];
    if (i->def)
        return i->def->nin == 1 && i->def->nout == 1 && !i->def->body &&
               is_parameter(p, i->def->in[0]);
    const Region *r = i->home;
    size_t k = 0;
    while (r->args.data[k] != v)
        k++;
    if (r->owner)
        return r->owner->op == OP_repeat && k >= (size_t)r->owner->attrs.carried &&
               k < r->owner->nin && is_parameter(p, r->owner->in[k]);
    const ArgRole role = p->fn->args.data[k].role;
    return role == ARG_param || role == ARG_rounded || role == ARG_state;
}

/* Is piece k of what i gives, along d, made of piece k of what it reads? Operands that lack d are
 * read by all pieces. */
static bool passes_on(const Pieces *p, const Ins *i, Name d)
{
    const Attrs *a = &i->attrs;
    bool some = false;
    for (uint32_t k = 0; k < i->nin; k++)
        some |= type_find(type_of(p->m, i->in[k]), d) >= 0;
    for (uint32_t k = 0; k < i->nout; k++)
        some &= type_find(type_of(p->m, i->out[k]), d) >= 0;
    if (a->blocks && a->blocks == pieces_of(p, i)->n && a->dim.name == d)
        return some;
    if (!some || a->dim.name == d || a->to.name == d || a->along.name == d || a->keys.name == d ||
        dims_have(&a->over, d))
        return false;
    if (i->op == OP_dot) /* what a third operand adds is made whole: a piece would wait for that */
        return !a->fp8 && !a->tiles && i->nin == 2;
    if (i->op == OP_sum)
        return !i->exact;
    return op_is(i->op, POINTWISE) ||
           OP_AMONG(i->op, OP_cast, OP_rename, OP_pick, OP_window, OP_split, OP_merge, OP_reindex,
                    OP_rotate, OP_rmax, OP_gather, OP_attention, OP_attention_grad, OP_top,
                    OP_slots, OP_cross_entropy, OP_cross_entropy_grad, OP_all_reduce,
                    OP_reduce_scatter, OP_all_gather);
}

/* Has i rows of experts that were cut already? */
static bool is_of_experts(const Pieces *p, const Ins *i)
{
    for (size_t s = 0; s < p->experts.slots.n && p->experts.sequences; s++)
        for (uint32_t k = 0; k < i->nin + i->nout; k++)
            if (type_find(type_of(p->m, k < i->nin ? i->in[k] : i->out[k - i->nin]),
                          p->experts.slots.data[s]) >= 0)
                return true;
    return false;
}

/* The outermost dim of more than one element of what collective i sends, if that can be cut: pieces
 * of it lie by themselves on all ranks. */
static Name outermost(const Pieces *p, const Ins *i)
{
    const Type *t = type_of(p->m, i->in[0]);
    int k = 0;
    while (k < t->rank && t->dims[k].size == 1)
        k++;
    const int64_t n = pieces_of(p, i)->n;
    return k < t->rank && n > 1 && t->dims[k].size % n == 0 && passes_on(p, i, t->dims[k].name)
               ? t->dims[k].name
               : 0;
}

/* A product along d that another operand is the same for all of. */
static bool is_product(const Pieces *p, const Ins *i, Name d)
{
    return i->op == OP_dot && passes_on(p, i, d) &&
           (type_find(type_of(p->m, i->in[0]), d) < 0) !=
               (type_find(type_of(p->m, i->in[1]), d) < 0);
}

/* Would v, computed once for each piece that `sent` sends, have its products cut? Counts these.
 * Deep: instructions that may still be between. */
static bool is_made_in_pieces(const Pieces *p, const Ins *sent, Value v, Name d, int deep,
                              int *products)
{
    const Ins *i = made_here(p, v);
    if (is_cut_for(p, sent, v, d)) /* its pieces are there */
        return true;
    if (type_find(type_of(p->m, v), d) < 0)
        return true; /* all pieces read it */
    if (!i || !deep || p->uses.count[v] != 1 || i->nout != 1)
        return false;
    if (is_product(p, i, d)) {
        ++*products;
        return true;
    }
    if (i->exact || (!op_is(i->op, POINTWISE) && !OP_AMONG(i->op, OP_cast, OP_copy)))
        return false;
    for (uint32_t k = 0; k < i->nin; k++)
        if (!is_made_in_pieces(p, sent, i->in[k], d, deep - 1, products))
            return false;
    return true;
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* Piece k of v, for instruction i. */
static Value part(const Pieces *p, Builder *b, const Ins *i, Value v, Name d, int k)
{
    if (is_cut_for(p, i, v, d))
        return p->cut[v].piece[k];
    const Type *t = type_of(p->m, v);
    const int at = type_find(t, d);
    if (at < 0)
        return v;
    Dim piece = t->dims[at];
    piece.size /= pieces_of(p, i)->n;
    const Attrs a = {.along = piece, .at = k * piece.size};
    return build(b, OP_window, &a, 1, &v);
}

/* Instruction i of one of n pieces; results are in the order of dims of i's. */
static Ins *built(const Pieces *p, Builder *b, const Ins *i, int64_t n, Name d, const Value *in)
{
    enum { RESULTS = 4 };
    Type t[RESULTS];
    for (uint32_t k = 0; k < i->nout; k++) {
        t[k] = *type_of(p->m, i->out[k]);
        t[k].dims[type_find(&t[k], d)].size /= n;
    }
    Attrs a = i->attrs;
    if (a.blocks && a.dim.name == d) { /* one of them */
        a.blocks = 0;
        a.dim.size /= n;
    }
    Ins *piece = build_typed(b, i->op, &a, (int)i->nin, in, (int)i->nout, t, NULL);
    piece->exact = i->exact;
    for (uint32_t k = 0; k < i->nout; k++)
        p->m->values.data[piece->out[k]].name = p->m->values.data[i->out[k]].name;
    return piece;
}

/* Piece k of v for `sent`, made as v is: see is_made_in_pieces. */
static Value made_part(const Pieces *p, Builder *b, const Ins *sent, Value v, Name d, int k)
{
    const Ins *i = made_here(p, v);
    if (is_cut_for(p, sent, v, d) || type_find(type_of(p->m, v), d) < 0)
        return part(p, b, sent, v, d, k);
    const bool product = is_product(p, i, d);
    Value in[RULE_OPERANDS];
    for (uint32_t n = 0; n < i->nin; n++)
        in[n] = product ? part(p, b, sent, i->in[n], d, k) : made_part(p, b, sent, i->in[n], d, k);
    return built(p, b, i, pieces_of(p, sent)->n, d, in)->out[0];
}

/* The results of i are joins of their pieces, which are known from here on; views are seen of what
 * is joined. */
static void joined(Pieces *p, Builder *b, const Ins *i, Name d, Ins *const *piece, Value *map)
{
    for (uint32_t k = 0; k < i->nout; k++) {
        const Value out = i->out[k];
        const Type *t = type_of(p->m, out);
        const Attrs a = {.dim = t->dims[type_find(t, d)]};
        Cut *cut = &p->cut[out];
        cut->dim = d;
        cut->n = pieces_of(p, i)->n;
        for (int64_t c = 0; c < cut->n; c++)
            cut->piece[c] = piece[c]->out[k];
        if (op_is(i->op, VIEW))
            continue;
        map[out] = build_typed(b, OP_join, &a, (int)cut->n, cut->piece, 1, t, NULL)->out[0];
        p->m->values.data[map[out]].name = p->m->values.data[out].name;
    }
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Does a product read v, and go through d with it alone? */
static bool is_multiplied(const Pieces *p, Ins *const *ins, size_t n, Value v, Name d)
{
    for (size_t k = 0; k < n; k++)
        for (uint32_t x = 0; x < ins[k]->nin; x++)
            if (ins[k]->in[x] == v && is_product(p, ins[k], d))
                return true;
    return false;
}

/* The dim along which collective i is cut, with the products beside it; or 0. Behind it come n
 * others. */
static Name cut_along(const Pieces *p, const Ins *i, Ins *const *behind, size_t n)
{
    int products = 0;
    if (!OP_AMONG(i->op, OP_reduce_scatter, OP_all_reduce, OP_all_gather) || i->attrs.max)
        return 0;
    const Name d = outermost(p, i);
    if (d && op_is(i->op, SUMS))
        return is_made_in_pieces(p, i, i->in[0], d, DEEP, &products) && products ? d : 0;
    return d && !is_parameter(p, i->in[0]) && is_multiplied(p, behind, n, i->out[0], d) ? d : 0;
}

/* The part of experts' rows that i is of, or for; 0 of none as well. */
static int behind(const Pieces *p, const Ins *i)
{
    return p->experts.sequences && i->nout ? p->behind[i->out[0]] : 0;
}

/* The dim along which the region is cut: where experts' rows were cut by sequences, these. */
static Name region_cut(const Pieces *p, Ins *const *ins, size_t n)
{
    Name d = 0;
    for (size_t k = 0; k < n; k++)
        if (behind(p, ins[k]))
            return p->m->batch.name;
    for (size_t k = 0; k < n && !d; k++)
        d = cut_along(p, ins[k], ins + k + 1, n - k - 1);
    return d;
}

/* Has i so much along d that it can be cut? */
static bool divides(const Pieces *p, const Ins *i, Name d)
{
    const Type *t = type_of(p->m, i->out[0]);
    const int64_t n = pieces_of(p, i)->n;
    return n > 1 && t->dims[type_find(t, d)].size % n == 0;
}

/* Is i computed in pieces along d? Behind it come n others. */
static bool is_cut(const Pieces *p, const Ins *i, Name d, Ins *const *behind, size_t n)
{
    if (!passes_on(p, i, d) || !divides(p, i, d) || is_of_experts(p, i))
        return false;
    if (pieces_of(p, i)->turns)
        return true;
    if (op_is(i->op, COMM))
        return cut_along(p, i, behind, n) == d;
    bool cut = false;
    for (uint32_t k = 0; k < i->nin; k++)
        cut |= is_cut_for(p, i, i->in[k], d);
    return cut && is_product(p, i, d);
}

/* Causal attention of the positions that are cut, and nothing else. */
static bool attends_by_pieces(const Pieces *p, const Ins *i, Name d)
{
    const Attrs *a = &i->attrs;
    return i->op == OP_attention && i->nin == 3 && pieces_of(p, i)->turns && !i->exact &&
           a->causal && a->along.name == d && !a->keys.name && !a->window && !a->biased &&
           !a->sunk && !a->within && a->share <= 0 && is_cut_for(p, i, i->in[0], d) &&
           divides(p, i, d);
}

/* The attention of piece k of the queries: of the keys of that piece too, the first of them, or of
 * all keys as far as each query sees. */
static Ins *attention_piece(const Pieces *p, Builder *b, const Ins *i, Name d, int k)
{
    const int64_t n = pieces_of(p, i)->n;
    Attrs a = i->attrs;
    Value in[4] = {part(p, b, i, i->in[0], d, k), part(p, b, i, i->in[1], d, k),
                   part(p, b, i, i->in[2], d, k)};
    a.along.size /= n;
    if (k) {
        const Dim whole = i->attrs.along, queries = a.along;
        const Attrs other = {.dim = whole, .to = dim_part(p->m, whole, "key", whole.size)};
        in[1] = build(b, OP_rename, &other, 1, &i->in[1]);
        in[2] = build(b, OP_rename, &other, 1, &i->in[2]);
        const Value before = build_const(b, DT_i32, (double)(k * queries.size + 1));
        in[3] = build2(b, OP_add, build_iota(b, DT_i32, queries), before);
        a.causal = false;
        a.keys = other.to;
        a.share = (k + 0.5) / (double)n;
    }
    Ins *piece = build_ins(b, i->op, &a, k ? 4 : 3, in);
    for (uint32_t o = 0; o < piece->nout; o++)
        p->m->values.data[piece->out[o]].name = p->m->values.data[i->out[o]].name;
    return piece;
}

/* The instructions that were added to the region since get a key: those of piece k come behind
 * those of the pieces before it, of the same stretch between collectives. So what one piece sends
 * has what the next computes to run beside. */
static void in_turn(Pieces *p, int stretch, int64_t piece)
{
    while (p->key.n < p->r->ins.n)
        vec_push(p->tmp, &p->key, stretch * MAX_PIECES + (int)piece);
}

/* A join of pieces along d, as i is to be cut: they are what it gives. */
static bool is_join(Pieces *p, const Ins *i, Name d)
{
    const int64_t n = pieces_of(p, i)->n;
    if (!p->experts.sequences || i->op != OP_join || i->attrs.dim.name != d || i->nin != n ||
        is_of_experts(p, i))
        return false;
    Cut *cut = &p->cut[i->out[0]];
    for (int64_t k = 0; k < n; k++) {
        const Type *t = type_of(p->m, i->in[k]);
        if (t->dims[type_find(t, d)].size * n != i->attrs.dim.size)
            return false;
        cut->piece[k] = i->in[k];
    }
    cut->dim = d;
    cut->n = n;
    return true;
}

/* The piece that i is a window of; 0: of none. */
static Value window_of(const Pieces *p, const Ins *i, Name d)
{
    const Attrs *a = &i->attrs;
    const int64_t n = pieces_of(p, i)->n;
    if (!p->experts.sequences || i->op != OP_window || a->along.name != d ||
        !is_cut_for(p, i, i->in[0], d))
        return 0;
    const Type *t = type_of(p->m, i->in[0]);
    const bool whole = a->along.size * n == t->dims[type_find(t, d)].size;
    return whole && a->at % a->along.size == 0 ? p->cut[i->in[0]].piece[a->at / a->along.size] : 0;
}

/* An instruction of experts' rows is behind the parts before it. */
static void keep_part(Pieces *p, const Ins *i, int *stretch)
{
    const int k = behind(p, i);
    in_turn(p, *stretch, k);
    *stretch += op_is(i->op, COMM) && k + 1 == p->experts.n;
}

static void region(Pieces *p, Region *r)
{
    Module *m = p->m;
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    int stretch = 0;
    for (size_t k = 0; k < n; k++)
        if (old[k]->op == OP_repeat)
            region(p, old[k]->body);
    Value *map = NEW_ARRAY(m->arena, Value, p->values);
    p->r = r;
    const Name d = region_cut(p, old, n);
    if (!d)
        return;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = p->key.n = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k], *piece[MAX_PIECES];
        const int64_t pieces = pieces_of(p, i)->n;
        Builder b = builder_at(m, r, i);
        const Value window = window_of(p, i, d);
        if (window) {
            map[i->out[0]] = window;
            continue;
        }
        vec_push(m->arena, &r->ins, i);
        if (is_join(p, i, d)) {
            in_turn(p, stretch, pieces - 1);
            continue;
        }
        const bool attends = attends_by_pieces(p, i, d);
        if (!attends && !is_cut(p, i, d, old + k + 1, n - k - 1)) {
            keep_part(p, i, &stretch);
            continue;
        }
        int products = 0;
        const bool made =
            op_is(i->op, SUMS) && is_made_in_pieces(p, i, i->in[0], d, DEEP, &products);
        for (int64_t c = 0; c < pieces; c++) {
            Value in[RULE_OPERANDS];
            for (uint32_t x = 0; x < i->nin && !attends; x++)
                in[x] = made ? made_part(p, &b, i, i->in[x], d, (int)c)
                             : part(p, &b, i, i->in[x], d, (int)c);
            piece[c] =
                attends ? attention_piece(p, &b, i, d, (int)c) : built(p, &b, i, pieces, d, in);
            in_turn(p, stretch, c);
        }
        joined(p, &b, i, d, piece, map);
        in_turn(p, stretch, pieces - 1);
        stretch += op_is(i->op, COMM);
    }
    Value *all = NEW_ARRAY(m->arena, Value, m->values.n);
    memcpy(all, map, p->values * sizeof *map);
    ir_replace(r, all);
    toposort_by(m, r, p->key.data, p->tmp);
}

/* ---- what is left in blocks ------------------------------------------------------------------ */

/* A collective in blocks is one of each of them, which lie one behind the other. */
static Value by_blocks(Module *m, Builder *b, const Ins *i)
{
    const Type *t = type_of(m, i->in[0]);
    Attrs a = i->attrs;
    const Dim all = t->dims[type_find(t, a.dim.name)];
    Attrs two = {.dim = {.name = all.name, .size = all.size / a.blocks},
                 .to = dim_part(m, all, "block", a.blocks)};
    a.dim = two.dim;
    a.blocks = 0;
    Value x = build(b, OP_split, &two, 1, &i->in[0]);
    x = build(b, i->op, &a, 1, &x);
    t = type_of(m, x);
    two.dim = t->dims[type_find(t, a.dim.name)];
    return build_as(b, build(b, OP_merge, &two, 1, &x), *type_of(m, i->out[0]));
}

static void rest(Module *m, Region *r, Value *map)
{
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Builder b = builder_at(m, r, i);
        if (i->body)
            rest(m, i->body, map);
        if (!op_is(i->op, COMM) || !i->attrs.blocks) {
            vec_push(m->arena, &r->ins, i);
            continue;
        }
        const Value v = by_blocks(m, &b, i);
        m->values.data[v].name = m->values.data[i->out[0]].name;
        map[i->out[0]] = v;
    }
}

static void write_blocks(Module *m, Fn *fn, Arena *tmp)
{
    const size_t values = m->values.n;
    Value *map = NEW_ARRAY(tmp, Value, values);
    rest(m, fn->body, map);
    Value *all = NEW_ARRAY(tmp, Value, m->values.n);
    memcpy(all, map, values * sizeof *map);
    ir_replace(fn->body, all);
}

PassStatus pass_pieces(Job *j)
{
    Module *m = j->m;
    for (size_t f = 0; f < m->fns.n; f++) {
        Fn *fn = m->fns.data[f];
        Pieces p = {.m = m, .fn = fn, .experts = pieces_of_experts(m, fn, j->tmp), .tmp = j->tmp};
        p.values = m->values.n;
        p.behind = NEW_ARRAY(j->tmp, uint8_t, p.values);
        for (size_t k = 0; k < p.experts.behind.n; k++)
            p.behind[p.experts.behind.data[k].of] = (uint8_t)p.experts.behind.data[k].k;
        p.cut = NEW_ARRAY(j->tmp, Cut, p.values);
        p.uses = ir_uses(m, fn->body, j->tmp);
        if (m->layout.pieces[0].n > 1 || m->layout.pieces[1].n > 1)
            region(&p, fn->body);
        write_blocks(m, fn, j->tmp);
        simplify_dce(m, fn, j->tmp);
    }
    return PASS_ok;
}
