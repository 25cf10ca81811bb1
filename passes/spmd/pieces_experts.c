/* pieces_experts.c - experts compute one part of their rows while the next is on its way.
 *
 *   before:  z: [experts=E, slot=S] = dispatch x, chosen, slots       (E of all ranks)
 *            r: [experts=E/r, slot=S] = all_to_all z;  y = dot r, w
 *            s = all_to_all y;  combine s, chosen, slots
 *   after:   p = slots / (S/n);  chosen' = chosen + p E;  slots' = slots - p S/n
 *            z: [experts=n E, slot=S/n] = dispatch x, chosen', slots'
 *            r0 = all_to_all z[0 .. E];  r1 = all_to_all z[E .. 2 E];  y0 = dot r0, w;  ...
 *            s = join (all_to_all y0), (all_to_all y1);  combine s, chosen', slots'
 *
 * An expert with S slots is n experts with S / n, of which the first takes what comes first: the
 * same rows, where part k of all experts lies behind part k - 1. So a part is a window of the
 * outermost dim, on both sides of the exchange, and a join of parts no work. Whatever has slots
 * has them so, in the whole function: what layers keep, too.
 *
 * The parts are of the sequences instead where pieces take turns (pieces.c): one expert with B
 * sequences of S slots is n experts with B / n sequences of S. What precedes the exchange of a part
 * is then of that part alone, and so is what follows it: attention of one part of the sequences
 * runs beside the exchange of another.
 *
 *   after:   z0 = dispatch x[0 .. B/n];  z1 = dispatch x[B/n .. 2 B/n];  z = join z0, z1
 *            r0 = all_to_all z0;  ...;  y: [batch=B] = join (combine s0), (combine s1)
 *
 * Behind the exchange a part is of the same sequences of all ranks, so they stand in another order
 * than in the batch: nothing there may look at it.
 *
 * Each row is computed as before. What is summed over slots, gradients of weights, is summed part
 * by part: in another order, which the layout's pieces decide and nothing else does. */
#include "passes/spmd/pieces_experts.h"
#include "passes/toposort.h"
#include "passes/walk.h"

#include <string.h>

enum { AT_MOST = MAX_PIECES };

typedef struct Parts {
    Module *m;
    Dim experts, slot; /* of all ranks together, as they were */
    Name by;           /* the dim of which a part has one n-th: slots, or sequences */
    int64_t sequences; /* that are sent */
    int64_t n;
    Value (*part)[AT_MOST]; /* per value that was there before: its parts, if it was made of them */
    Value *map;
    size_t values;
    VEC(int) key; /* per instruction of the region: see in_turn */
    ExpertPieces *told;
    Arena *tmp;
} Parts;

static bool by_sequences(const Parts *p)
{
    return p->by != p->slot.name;
}

static bool is_of_slots(const ExpertPieces *told, Name dim)
{
    for (size_t k = 0; k < told->slots.n; k++)
        if (told->slots.data[k] == dim)
            return true;
    return false;
}

static bool has(const Parts *p, Value v, Name d)
{
    return type_find(type_of(p->m, v), d) >= 0;
}

/* Are v's slots those of experts, its outermost dim but for `stacked` others, and are there as many
 * parts? */
static bool is_of_experts(const Parts *p, Value v)
{
    const Type *t = type_of(p->m, v);
    const int e = type_find(t, p->experts.name), by = type_find(t, p->by);
    return e >= 0 && e < type_find(t, p->slot.name) && e < by && t->dims[by].size % p->n == 0 &&
           t->dims[type_find(t, p->slot.name)].size == p->slot.size;
}

static bool is_outermost(const Parts *p, Value v)
{
    return type_of(p->m, v)->dims[0].name == p->experts.name;
}

static bool is_sent(const Ins *i)
{
    return OP_AMONG(i->op, OP_dispatch, OP_combine, OP_combine_weight);
}

/* ---- may the function be cut? ---------------------------------------------------------------- */

/* Sequences may be exchanged with experts; whose they are nothing else may ask. */
static bool names_neither(const Parts *p, const Ins *i)
{
    const Attrs *a = &i->attrs;
    const Name e = p->experts.name, s = p->slot.name;
    const bool exchanged = by_sequences(p) && i->op == OP_all_to_all;
    return a->dim.name != s && a->to.name != s && a->along.name != s && a->along.name != e &&
           a->keys.name != s && !dims_have(&a->over, e) && a->along.name != p->by &&
           a->keys.name != p->by && (exchanged || (a->dim.name != p->by && a->to.name != p->by));
}

/* A sum over slots, of what can be added to: then it is one of parts, one after the other. */
static bool is_summed(const Parts *p, const Ins *i)
{
    const DType t = type_of(p->m, i->out[0])->dtype;
    if (!dims_have(&i->attrs.over, p->slot.name) || !dims_have(&i->attrs.over, p->by) || i->exact ||
        (t != DT_f32 && t != DT_f64))
        return false;
    for (uint32_t k = 0; k < i->nin && k < 2; k++)
        if (!has(p, i->in[k], p->slot.name))
            return false;
    return i->op == OP_sum || (i->op == OP_dot && !i->attrs.fp8 && !i->attrs.tiles);
}

/* Is part k of what i gives made of part k of what it reads? */
static bool is_by_parts(const Parts *p, const Ins *i)
{
    const Attrs *a = &i->attrs;
    for (uint32_t k = 0; k < i->nout; k++)
        if (!has(p, i->out[k], p->slot.name))
            return false;
    if (i->op == OP_all_to_all)
        return a->dim.name == p->experts.name || a->to.name == p->experts.name;
    if (dims_have(&a->over, p->slot.name) || dims_have(&a->over, p->by) ||
        a->dim.name == p->experts.name || a->to.name == p->experts.name)
        return false;
    if (i->op == OP_dot)
        return !a->fp8 && !a->tiles; /* a product that adds to what there is adds part by part */
    return op_is(i->op, POINTWISE) || OP_AMONG(i->op, OP_cast, OP_copy, OP_pick, OP_window, OP_sum,
                                               OP_all_reduce, OP_reduce_scatter, OP_all_gather);
}

/* Does i read, beside slots, what tells sequences apart? */
static bool tells_apart(const Parts *p, const Ins *i)
{
    for (uint32_t k = 0; k < i->nin; k++)
        if (!has(p, i->in[k], p->slot.name) && has(p, i->in[k], p->by))
            return true;
    return false;
}

/* Is each sequence sent by itself, and are those of all that is sent the same? Where a rank has a
 * part of the batch for one thing and all of it for another, their parts would be of other ones.
 * The batch is the outermost dim of what has no slots. */
static bool are_of_sequences(const Parts *p, const Ins *i)
{
    bool all = true;
    for (uint32_t k = 0; k < i->nin + i->nout; k++) {
        const Value v = k < i->nin ? i->in[k] : i->out[k - i->nin];
        const Type *t = type_of(p->m, v);
        all &= has(p, v, p->slot.name) ||
               (type_find(t, p->by) == 0 && t->dims[0].size == p->sequences);
    }
    return all;
}

/* Of an instruction that has slots: is it one that parts are known of? */
static bool is_known(const Parts *p, const Ins *i)
{
    bool some = false, outermost = true, fit = true;
    for (uint32_t k = 0; k < i->nin + i->nout; k++) {
        const Value v = k < i->nin ? i->in[k] : i->out[k - i->nin];
        if (!has(p, v, p->slot.name))
            continue;
        some = true;
        fit &= is_of_experts(p, v);
        outermost &= is_outermost(p, v);
    }
    if (!some || !fit)
        return !some;
    if (i->op == OP_repeat) /* slices and stacks are along its own dim */
        return i->attrs.dim.name != p->slot.name && i->attrs.dim.name != p->experts.name;
    if (OP_AMONG(i->op, OP_window, OP_join, OP_pick) && !outermost) /* of layers */
        return names_neither(p, i) && i->attrs.dim.name != p->experts.name;
    if (is_sent(i))
        return outermost && !i->attrs.sorted && i->attrs.dim.name == p->experts.name &&
               i->attrs.to.name == p->slot.name && (!by_sequences(p) || are_of_sequences(p, i));
    return outermost && names_neither(p, i) && !tells_apart(p, i) &&
           (is_by_parts(p, i) || is_summed(p, i));
}

static bool all_known(const Parts *p, const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++)
        if (!is_known(p, r->ins.data[k]) ||
            (r->ins.data[k]->body && !all_known(p, r->ins.data[k]->body)))
            return false;
    return true;
}

/* A dispatch of r, or of a region in it, whose rows are sent to other ranks, and that was not cut
 * yet. NULL: there is none. */
static const Ins *sent_away(const Module *m, const Region *r, const ExpertPieces *told)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k], *from = m->values.data[i->nin ? i->in[0] : 0].def;
        const Ins *inside = i->body ? sent_away(m, i->body, told) : NULL;
        if (inside)
            return inside;
        if (i->op == OP_all_to_all && from && from->op == OP_dispatch && !from->attrs.sorted &&
            i->attrs.to.name == from->attrs.dim.name && !is_of_slots(told, from->attrs.to.name))
            return from;
    }
    return NULL;
}

/* ---- types ----------------------------------------------------------------------------------- */

static void retype(const Parts *p, Value v)
{
    Type *t = &p->m->values.data[v].type;
    if (type_find(t, p->slot.name) < 0)
        return;
    t->dims[type_find(t, p->by)].size /= p->n;
    t->dims[type_find(t, p->experts.name)].size *= p->n;
}

static void retype_all(const Parts *p, Region *r)
{
    for (size_t k = 0; k < r->args.n; k++)
        retype(p, r->args.data[k]);
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        for (uint32_t o = 0; o < i->nout; o++)
            retype(p, i->out[o]);
        if (i->body)
            retype_all(p, i->body);
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Part k of v. What has no slots is read by all. */
static Value part(const Parts *p, Builder *b, Value v, int64_t k)
{
    if (!has(p, v, p->slot.name))
        return v;
    if (v < p->values && p->part[v][0])
        return p->part[v][k];
    Dim experts = type_of(p->m, v)->dims[0];
    experts.size /= p->n;
    const Attrs a = {.along = experts, .at = k * experts.size};
    return build(b, OP_window, &a, 1, &v);
}

/* Part k of what i gives, computed of the parts that i reads. */
static Ins *of_part(const Parts *p, Builder *b, const Ins *i, int64_t k)
{
    enum { RESULTS = 4 };
    Type t[RESULTS];
    Value in[RULE_OPERANDS];
    for (uint32_t o = 0; o < i->nout; o++) {
        t[o] = *type_of(p->m, i->out[o]);
        if (has(p, i->out[o], p->slot.name))
            t[o].dims[0].size /= p->n;
    }
    for (uint32_t x = 0; x < i->nin; x++)
        in[x] = part(p, b, i->in[x], k);
    Attrs a = i->attrs;
    for (int d = 0; d < a.over.n; d++)
        if (a.over.dim[d].name == p->by)
            a.over.dim[d].size /= p->n;
    if (a.dim.name == p->by)
        a.dim.size /= p->n;
    if (a.to.name == p->by)
        a.to.size /= p->n;
    Ins *made = build_typed(b, i->op, &a, (int)i->nin, in, (int)i->nout, t, NULL);
    made->exact = i->exact;
    for (uint32_t o = 0; o < i->nout; o++)
        p->m->values.data[made->out[o]].name = p->m->values.data[i->out[o]].name;
    return made;
}

/* The instructions that were added to the region since get a key: those of part k come behind
 * those of the parts before it, of the same stretch between exchanges. So while one part is sent
 * another is computed. */
static void in_turn(Parts *p, const Region *r, int stretch, int64_t k)
{
    while (p->key.n < r->ins.n) {
        const Ins *i = r->ins.data[p->key.n];
        if (k && by_sequences(p))
            vec_push(p->tmp, &p->told->behind, ((ExpertPiece){i->out[0], (int)k}));
        vec_push(p->tmp, &p->key, stretch * AT_MOST + (int)k);
    }
}

static void by_parts(Parts *p, Builder *b, const Ins *i, int stretch)
{
    for (int64_t k = 0; k < p->n; k++) {
        const Ins *made = of_part(p, b, i, k);
        for (uint32_t o = 0; o < i->nout; o++)
            p->part[i->out[o]][k] = made->out[o];
        in_turn(p, b->region, stretch, k);
    }
    for (uint32_t o = 0; o < i->nout; o++) {
        const Type *t = type_of(p->m, i->out[o]);
        const Attrs a = {.dim = t->dims[0]};
        const Value all =
            build_typed(b, OP_join, &a, (int)p->n, p->part[i->out[o]], 1, t, NULL)->out[0];
        p->m->values.data[all].name = p->m->values.data[i->out[o]].name;
        p->map[i->out[o]] = all;
    }
    in_turn(p, b->region, stretch, p->n - 1);
}

/* The sum over the slots of each part is added to that of those before it. */
static void summed(Parts *p, Builder *b, const Ins *i, int stretch)
{
    const Type t = *type_of(p->m, i->out[0]);
    Value sum = i->op == OP_dot && i->nin == 3 ? i->in[2] : 0;
    for (int64_t k = 0; k < p->n; k++) {
        Ins one = *i;
        one.nin = i->op == OP_dot ? 2 : 1;
        if (i->op == OP_dot && sum) { /* a product adds to what there is */
            Value in[] = {i->in[0], i->in[1], sum};
            one.nin = 3;
            one.in = in;
            sum = of_part(p, b, &one, k)->out[0];
        } else {
            const Value next = of_part(p, b, &one, k)->out[0];
            sum = sum ? build2(b, OP_add, sum, next) : next;
        }
        in_turn(p, b->region, stretch, k);
    }
    p->map[i->out[0]] = build_as(b, sum, t);
    in_turn(p, b->region, stretch, p->n - 1);
}

/* The experts and slots of a dispatch, or of what fetches its rows, as there are more experts. */
typedef struct Sent {
    Value chosen, slots, as_chosen, as_slots;
} Sent;

static Sent numbered(const Parts *p, Builder *b, Value chosen, Value slots)
{
    const int64_t each = p->slot.size / p->n;
    Value number = 0, one = build_const(b, DT_i32, 1), none = build_const(b, DT_i32, 0);
    for (int64_t k = 1; k < p->n; k++) { /* no slot, -1, is of the first */
        const Value in[] = {build2(b, OP_ge, slots, build_const(b, DT_i32, (double)(k * each))),
                            one, none};
        const Value behind = build(b, OP_select, NULL, 3, in);
        number = number ? build2(b, OP_add, number, behind) : behind;
    }
    const Value first = build2(b, OP_mul, number, build_const(b, DT_i32, (double)each));
    const Value before = build2(b, OP_mul, number, build_const(b, DT_i32, (double)p->experts.size));
    return (Sent){chosen, slots, build2(b, OP_add, chosen, before),
                  build2(b, OP_sub, slots, first)};
}

typedef VEC(Sent) SentList;

static void renumber(const Parts *p, Builder *b, Ins *i, SentList *seen)
{
    const uint32_t at = i->op == OP_combine_weight ? 2 : 1;
    const Value chosen = i->in[at], slots = i->in[at + 1];
    const Sent *s = NULL;
    for (size_t k = 0; k < seen->n && !s; k++)
        if (seen->data[k].chosen == chosen && seen->data[k].slots == slots)
            s = &seen->data[k];
    if (!s) {
        vec_push(p->tmp, seen, numbered(p, b, chosen, slots));
        s = &seen->data[seen->n - 1];
    }
    i->in[at] = s->as_chosen;
    i->in[at + 1] = s->as_slots;
    i->attrs.dim.size = p->experts.size * p->n;
    i->attrs.to.size = p->slot.size / p->n;
}

/* Part k of v, which has no slots: of its sequences. */
static Value some_sequences(const Parts *p, Builder *b, Value v, int64_t k)
{
    Dim some = type_of(p->m, v)->dims[0];
    some.size /= p->n;
    const Attrs a = {.along = some, .at = k * some.size};
    return build(b, OP_window, &a, 1, &v);
}

/* A dispatch, or what fetches its rows, of each part of the sequences. */
static void sent_by_parts(Parts *p, Builder *b, const Ins *i, int stretch)
{
    const Value out = i->out[0];
    Type t = *type_of(p->m, out);
    const Attrs whole = {.dim = t.dims[0]};
    Value all[AT_MOST], *piece = has(p, out, p->slot.name) ? p->part[out] : all;
    t.dims[0].size /= p->n;
    for (int64_t k = 0; k < p->n; k++) {
        Value in[RULE_OPERANDS];
        for (uint32_t x = 0; x < i->nin; x++)
            in[x] = has(p, i->in[x], p->slot.name) ? part(p, b, i->in[x], k)
                                                   : some_sequences(p, b, i->in[x], k);
        Ins *made = build_typed(b, i->op, &i->attrs, (int)i->nin, in, 1, &t, NULL);
        made->exact = i->exact;
        piece[k] = made->out[0];
        p->m->values.data[piece[k]].name = p->m->values.data[out].name;
        in_turn(p, b->region, stretch, k);
    }
    p->map[out] =
        build_typed(b, OP_join, &whole, (int)p->n, piece, 1, type_of(p->m, out), NULL)->out[0];
    p->m->values.data[p->map[out]].name = p->m->values.data[out].name;
    in_turn(p, b->region, stretch, p->n - 1);
}

static bool has_slots(const Parts *p, const Ins *i)
{
    bool some = false;
    for (uint32_t k = 0; k < i->nin; k++)
        some |= has(p, i->in[k], p->slot.name);
    for (uint32_t k = 0; k < i->nout; k++)
        some |= has(p, i->out[k], p->slot.name);
    return some;
}

static void region(Parts *p, Region *r)
{
    Module *m = p->m;
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    SentList seen = {0};
    int stretch = 0;
    bool any = false;
    for (size_t k = 0; k < n; k++)
        if (old[k]->body)
            region(p, old[k]->body);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = p->key.n = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Builder b = builder_at(m, r, i);
        const bool cut =
            has_slots(p, i) && i->op != OP_repeat && !is_sent(i) &&
            !(OP_AMONG(i->op, OP_window, OP_join, OP_pick) && !is_outermost(p, i->in[0]));
        any |= cut;
        if (is_sent(i) && by_sequences(p)) {
            sent_by_parts(p, &b, i, stretch);
            continue;
        }
        if (is_sent(i))
            renumber(p, &b, i, &seen);
        if (!cut) {
            vec_push(m->arena, &r->ins, i);
            in_turn(p, r, stretch, 0);
        } else if (has(p, i->out[0], p->slot.name)) {
            by_parts(p, &b, i, stretch);
        } else {
            summed(p, &b, i, stretch);
        }
        stretch += cut && op_is(i->op, COMM);
    }
    if (any && !by_sequences(p)) /* else pieces.c does that */
        toposort_by(m, r, p->key.data, p->tmp);
}

/* ---- the function ---------------------------------------------------------------------------- */

static bool cut(Module *m, Fn *fn, const Ins *dispatch, Name by, int64_t n, Arena *tmp,
                ExpertPieces *told)
{
    Parts p = {.m = m,
               .experts = dispatch->attrs.dim,
               .slot = dispatch->attrs.to,
               .by = by,
               .sequences = type_of(m, dispatch->in[0])->dims[0].size,
               .n = n,
               .values = m->values.n,
               .told = told,
               .tmp = tmp};
    if (!all_known(&p, fn->body))
        return false;
    p.part = arena_array(tmp, p.values, sizeof *p.part);
    p.map = NEW_ARRAY(tmp, Value, p.values);
    retype_all(&p, fn->body);
    region(&p, fn->body);
    Value *all = NEW_ARRAY(tmp, Value, m->values.n);
    memcpy(all, p.map, p.values * sizeof *p.map);
    ir_replace(fn->body, all);
    return true;
}

ExpertPieces pieces_of_experts(Module *m, Fn *fn, Arena *tmp)
{
    const LayoutPieces *of = m->layout.pieces;
    const bool train = fn == module_fn(m, "train"), turns = of[0].turns || (train && of[1].turns);
    const int64_t n = train && of[1].n > of[0].n ? of[1].n : of[0].n;
    ExpertPieces told = {.n = n};
    const Ins *dispatch;
    while (n > 1 && (dispatch = sent_away(m, fn->body, &told))) {
        const Name slots = dispatch->attrs.to.name;
        const bool sequences = turns && cut(m, fn, dispatch, m->batch.name, n, tmp, &told);
        if (!sequences)
            cut(m, fn, dispatch, slots, n, tmp, &told);
        told.sequences |= sequences;
        vec_push(tmp, &told.slots, slots);
    }
    return told;
}
