/* levels.c - state that lies on another level of memory is updated a piece at a time.
 *
 *   before:  m' = f(m, g);  p' = h(p, m')                                   all layers at once
 *   after:   m', p' = repeat layers (slice m, slice g, slice p) {
 *                m1 = transfer m {device};  m2 = f(m1, g);  p2 = h(p, m2)
 *                m3 = transfer m2 {host}
 *            } -> m3, p2
 *
 * Layout.offload says which classes of tensors lie where. What a tensor's update computes from its
 * old value, and what is computed for that alone, is cut along the tensor's outermost dim. All
 * tensors that are stacked along one dim share a loop over it: in an iteration, while one of them
 * is updated, the next comes and the last goes. A tensor that no repeat stacks is cut in windows of
 * PIECE bytes at most (but for the number of PARTS), in one row of instructions. What cannot be
 * cut, because it sums along the dim or is no arithmetic on elements, is transferred whole.
 *
 * Of several ranks each updates its part of what is split, and may gather the parameter behind
 * that. Such a collective is no part of the update: it stands behind the loops, and reads the
 * pieces stacked.
 *
 * why here: types say no more how values lie over the mesh, so that pieces are of what a rank has;
 * before kernels are made, which are then a piece's. */
#include "passes/passes.h"
#include "passes/walk.h"

#include <string.h>

enum { PIECE = 32 << 20, PARTS = 24 /* of a join */ };

/* The tensors that belong to one parameter, and how they are updated. */
typedef struct Update {
    Dim dim;       /* the outermost of theirs */
    bool stacked;  /* by a repeat */
    bool whole;    /* cannot be cut */
    int64_t bytes; /* of the largest */
} Update;

/* A value that others read of an update: a result of the function, or what a collective sends; its
 * windows until they are joined. */
typedef struct Result {
    Value of; /* before */
    Level level;
    Value v; /* 0: it is as it was */
    VEC(Value) parts;
} Result;

typedef struct Offload {
    Module *m;
    Fn *fn;
    Arena *tmp;
    Builder b;
    uint32_t *of;       /* per value: 1 + the parameter whose update it is part of; 0: of none */
    uint32_t *behind;   /* per value: 1 + the parameter behind whose update it is computed; or 0 */
    Value *here;        /* per value of another level: all of it on the device, or 0 */
    size_t nvalues;     /* that there were before */
    Update *update;     /* per parameter */
    VEC(Result) result; /* those of the function, in its order, and then others */
} Offload;

static Level level_of(const Module *m, const Tensor *t)
{
    const Layout *l = &m->layout;
    return tensor_is_rounded(t) ? LEVEL_device
           : t->slot            ? l->offload[OFFLOAD_state]
           : t->master          ? l->offload[OFFLOAD_masters]
                                : LEVEL_device;
}

/* ---- what belongs to an update -------------------------------------------------------------- */

static bool is_elementwise(Op op)
{
    return op_is(op, POINTWISE) || op == OP_cast || op == OP_stochastic_round;
}

static bool sums_along(const Ins *i, Name dim)
{
    return dims_have(&i->attrs.over, dim) || i->attrs.dim.name == dim || i->attrs.to.name == dim ||
           i->attrs.along.name == dim;
}

/* Can an instruction be done for each index of a dim that its operands have? */
static bool can_be_cut(const Ins *i, const Update *u)
{
    if (is_elementwise(i->op))
        return true;
    return u->stacked && OP_AMONG(i->op, OP_sum, OP_rmax, OP_dot, OP_rename, OP_split, OP_merge) &&
           !sums_along(i, u->dim.name);
}

static bool has_dim(const Module *m, Value v, Dim d)
{
    const Type *t = type_of(m, v);
    const int at = type_find(t, d.name);
    return at >= 0 && t->dims[at].size == d.size;
}

/* The arguments that lie elsewhere. */
static void note_arguments(Offload *o)
{
    Module *m = o->m;
    for (size_t k = 0; k < o->fn->args.n; k++) {
        const FnArg a = o->fn->args.data[k];
        const Value v = o->fn->body->args.data[k];
        if (a.role > ARG_state || !m->tensors.data[a.tensor].type.level)
            continue;
        const Tensor *t = &m->tensors.data[a.tensor];
        Update *u = &o->update[t->parameter];
        m->values.data[v].type.level = t->type.level;
        o->of[v] = t->parameter + 1;
        u->whole |= !t->type.rank || (u->dim.name && u->dim.name != t->type.dims[0].name);
        u->dim = t->type.rank ? t->type.dims[0] : u->dim;
        u->stacked = t->stacked > 0;
        const int64_t bytes = type_bytes(&t->type);
        u->bytes = bytes > u->bytes ? bytes : u->bytes;
    }
}

/* The one parameter that a list names for operands of an instruction; 0: none, *two: several. */
static uint32_t one_of(const uint32_t *list, const Ins *i, bool *two)
{
    uint32_t of = 0;
    for (uint32_t k = 0; k < i->nin; k++) {
        *two |= of && list[i->in[k]] && list[i->in[k]] != of;
        of = list[i->in[k]] ? list[i->in[k]] : of;
    }
    return of;
}

static void transfer_whole(Offload *o, uint32_t of)
{
    if (of)
        o->update[of - 1].whole = true;
}

/* Forward: what is computed from them. */
static void note_results(Offload *o)
{
    const Module *m = o->m;
    for (size_t n = 0; n < o->fn->body->ins.n; n++) {
        const Ins *i = o->fn->body->ins.data[n];
        bool two = false;
        const uint32_t of = one_of(o->of, i, &two), behind = one_of(o->behind, i, &two);
        const Update *u = of ? &o->update[of - 1] : NULL;
        const bool sends = u && op_is(i->op, COMM) && !two && !behind && u->dim.name &&
                           !type_of(m, i->in[0])->level;
        bool cut = u && !two && !behind && u->dim.name && can_be_cut(i, u);
        for (uint32_t k = 0; k < i->nout && cut; k++)
            cut = has_dim(m, i->out[k], u->dim);
        for (uint32_t k = 0; k < i->nin && !cut && !sends && (two || of); k++) {
            transfer_whole(o, o->of[i->in[k]]);
            transfer_whole(o, o->behind[i->in[k]]);
        }
        for (uint32_t k = 0; k < i->nout && !two; k++) {
            o->of[i->out[k]] = cut ? of : 0;
            o->behind[i->out[k]] = sends ? of : !of ? behind : 0;
        }
    }
}

/* Per value: 1 + the parameter whose update alone reads it. */
typedef struct Readers {
    uint32_t *only;
    bool *others;
    uint32_t of;
} Readers;

static void note_reader(void *ctx, Value *use)
{
    Readers *r = ctx;
    r->others[*use] |= !r->of || (r->only[*use] && r->only[*use] != r->of);
    r->only[*use] = r->of;
}

/* Backward: what is computed for one update alone, element by element, is part of it. Nothing of
 * its size is stored then. */
static void note_operands(Offload *o)
{
    Region *r = o->fn->body;
    Readers readers = {NEW_ARRAY(o->tmp, uint32_t, o->nvalues), NEW_ARRAY(o->tmp, bool, o->nvalues),
                       0};
    for (size_t k = 0; k < r->results.n; k++)
        if (!o->of[r->results.data[k]])
            readers.others[r->results.data[k]] = true;
    for (size_t n = r->ins.n; n-- > 0;) {
        Ins *i = r->ins.data[n];
        const Value v = i->nout == 1 ? i->out[0] : 0;
        if (v && !o->of[v] && readers.only[v] && !readers.others[v] && is_elementwise(i->op) &&
            !o->update[readers.only[v] - 1].whole &&
            has_dim(o->m, v, o->update[readers.only[v] - 1].dim))
            o->of[v] = readers.only[v];
        readers.of = v ? o->of[v] : 0;
        each_use(i, note_reader, &readers);
    }
}

/* An update that is not cut has no instructions of its own, and none behind it. */
static void forget_whole(Offload *o)
{
    for (size_t v = 0; v < o->nvalues; v++) {
        if (o->of[v] && o->update[o->of[v] - 1].whole)
            o->of[v] = 0;
        if (o->behind[v] && o->update[o->behind[v] - 1].whole)
            o->behind[v] = 0;
    }
}

/* ---- transfers ------------------------------------------------------------------------------ */

static Value transfer(Builder *b, Value v, Level to)
{
    if (type_of(b->m, v)->level == to)
        return v;
    Attrs a = {.level = to};
    Value y = build(b, OP_transfer, &a, 1, &v);
    b->m->values.data[y].name = b->m->values.data[v].name;
    return y;
}

/* ---- a piece -------------------------------------------------------------------------------- */

/* Some indices of a dim: one, which the values of a piece then lack, or a window. */
typedef struct Piece {
    Offload *o;
    Builder b, outside; /* where it is computed; before the loop */
    Dim dim;
    int64_t at, n; /* a window's; n 0: an iteration of the loop `loop` */
    Ins *loop;
    ValueMap map;
} Piece;

static Type piece_of(const Piece *p, const Type *t)
{
    if (!p->n)
        return type_without(t, p->dim.name);
    Type r = *t;
    r.dims[type_find(t, p->dim.name)].size = p->n;
    return r;
}

/* The piece of an operand that the update does not compute itself. */
static Value operand(Piece *p, Value v)
{
    Module *m = p->o->m;
    if (v < p->map.n && p->map.data[v])
        return p->map.data[v];
    if (!has_dim(m, v, p->dim))
        return v;
    Attrs window = {.along = {p->dim.name, p->n}, .at = p->at};
    const bool first = type_find(type_of(m, v), p->dim.name) == 0;
    Type stacked = type_without(type_of(m, v), p->dim.name);
    stacked = type_stacked(&stacked, p->dim);
    Value part = p->n == p->dim.size ? v
                 : p->n              ? build(&p->b, OP_window, &window, 1, &v)
                        : repeat_slice(m, p->loop, first ? v : build_as(&p->outside, v, stacked));
    m->values.data[part].name = m->values.data[v].name;
    part = transfer(&p->b, part, LEVEL_device);
    map_set(m, &p->map, v, part);
    return part;
}

static void resize(DimList *l, const Piece *p)
{
    for (int k = 0; k < l->n; k++)
        if (l->dim[k].name == p->dim.name)
            l->dim[k].size = p->n;
}

/* Lists what others read: the results of the function, on their levels, and of what a collective
 * sends all that an update computes. */
static void note_read(Offload *o)
{
    const Region *r = o->fn->body;
    for (size_t k = 0; k < r->results.n; k++) {
        const FnResult f = o->fn->results.data[k];
        const Level to =
            f.role == RES_update ? o->m->tensors.data[f.tensor].type.level : LEVEL_device;
        vec_push(o->tmp, &o->result, ((Result){.of = r->results.data[k], .level = to}));
    }
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        if (i->nout && o->behind[i->out[0]] && o->of[i->in[0]]) /* a collective: one operand */
            vec_push(o->tmp, &o->result, ((Result){.of = i->in[0]}));
    }
}

/* A piece of a result goes where that is to be. */
static void give(Piece *p, Value v, Value piece)
{
    Offload *o = p->o;
    for (size_t k = 0; k < o->result.n; k++) {
        Result *r = &o->result.data[k];
        if (r->of != v)
            continue;
        const Value there = transfer(&p->b, piece, r->level);
        if (p->n)
            vec_push(o->tmp, &r->parts, there);
        else
            r->v = repeat_stack(o->m, p->loop, there);
    }
}

static void compute(Piece *p, const Ins *i)
{
    Module *m = p->o->m;
    Value in[RULE_OPERANDS];
    Type types[8];
    Attrs attrs = i->attrs;
    resize(&attrs.over, p);
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = operand(p, i->in[k]);
    for (uint32_t k = 0; k < i->nout; k++)
        types[k] = piece_of(p, type_of(m, i->out[k]));
    p->b.span = i->span;
    p->b.path = i->path;
    p->b.block = i->block;
    Ins *made = build_typed(&p->b, i->op, &attrs, (int)i->nin, in, (int)i->nout, types, NULL);
    made->exact = i->exact;
    for (uint32_t k = 0; k < i->nout; k++) {
        m->values.data[made->out[k]].name = m->values.data[i->out[k]].name;
        map_set(m, &p->map, i->out[k], made->out[k]);
        give(p, i->out[k], made->out[k]);
    }
}

/* The instructions of the updates that `mine` names, in their order. */
static void compute_all(Piece *p, const Region *r, const bool *mine)
{
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        if (i->nout && p->o->of[i->out[0]] && mine[p->o->of[i->out[0]] - 1])
            compute(p, i);
    }
}

/* ---- loops and windows ---------------------------------------------------------------------- */

/* The updates of `mine`, an index of the dim at a time. */
static void in_loop(Offload *o, const Region *was, Dim dim, const bool *mine)
{
    Module *m = o->m;
    Region *body = region_new(m, o->fn->body);
    region_arg(m, body, (Type){.dtype = DT_i32}, dim.name);
    Attrs attrs = {.dim = dim};
    Piece p = {.o = o, .dim = dim, .outside = {.m = m, .region = o->fn->body}};
    p.loop = build_typed(&p.outside, OP_repeat, &attrs, 0, NULL, 0, NULL, body);
    o->fn->body->ins.n--; /* what its operands need comes before it */
    p.b = (Builder){.m = m, .region = body};
    compute_all(&p, was, mine);
    vec_push(m->arena, &o->fn->body->ins, p.loop);
}

/* One update, a window at a time. */
static void in_windows(Offload *o, const Region *was, const Update *u, const bool *mine)
{
    Module *m = o->m;
    const int64_t piece = m->layout.piece ? m->layout.piece : PIECE;
    const int64_t rows = u->dim.size, fewest = u->bytes / piece + 1;
    const int64_t pieces = fewest < PARTS ? (fewest < rows ? fewest : rows) : PARTS;
    const int64_t each = (rows + pieces - 1) / pieces;
    for (int64_t at = 0; at < rows; at += each) {
        Piece p = {.o = o, .dim = u->dim, .at = at, .n = rows - at < each ? rows - at : each};
        p.b = p.outside = (Builder){.m = m, .region = o->fn->body};
        compute_all(&p, was, mine);
    }
    for (size_t k = 0; k < o->result.n; k++) {
        Result *r = &o->result.data[k];
        Attrs join = {.dim = u->dim};
        Builder b = {.m = m, .region = o->fn->body, .block = name_intern(m->names, "optimizer")};
        if (!r->parts.n)
            continue;
        r->v = r->parts.n == 1 ? r->parts.data[0]
                               : build(&b, OP_join, &join, (int)r->parts.n, r->parts.data);
        m->values.data[r->v].name = m->values.data[r->of].name;
        r->parts.n = 0;
    }
}

/* ---- what is not cut ------------------------------------------------------------------------ */

static void use_transferred(void *ctx, Value *use)
{
    Offload *o = ctx;
    const Module *m = o->m;
    for (size_t k = o->fn->results.n; k < o->result.n; k++)
        if (o->result.data[k].of == *use) {
            *use = o->result.data[k].v;
            return;
        }
    if (*use >= o->nvalues || !type_of(m, *use)->level)
        return;
    if (!o->here[*use])
        o->here[*use] = transfer(&o->b, *use, LEVEL_device);
    *use = o->here[*use];
}

/* All other instructions, which read tensors as a whole: those before the updates, or those behind
 * them. */
static void leave_the_rest(Offload *o, const Region *was, bool behind)
{
    Region *r = o->fn->body;
    for (size_t n = 0; n < was->ins.n; n++) {
        Ins *i = was->ins.data[n];
        if (i->nout && (o->of[i->out[0]] || (o->behind[i->out[0]] != 0) != behind))
            continue;
        if (!i->nout && behind)
            continue;
        o->b = builder_at(o->m, r, i);
        each_use(i, use_transferred, o);
        vec_push(o->m->arena, &r->ins, i);
    }
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Updates whose tensors are stacked along one dim share a loop, in the order of the first. */
static void cut_updates(Offload *o, const Region *was)
{
    const size_t n = o->m->tensors.n;
    bool *done = NEW_ARRAY(o->tmp, bool, n + 1), *mine = NEW_ARRAY(o->tmp, bool, n + 1);
    for (size_t t = 0; t < n; t++) {
        const Update *u = &o->update[t];
        if (!u->dim.name || u->whole || done[t])
            continue;
        for (size_t k = 0; k < n; k++) {
            const Update *w = &o->update[k];
            mine[k] = w->dim.name && !w->whole &&
                      (k == t || (u->stacked && w->stacked && w->dim.name == u->dim.name &&
                                  w->dim.size == u->dim.size));
            done[k] |= mine[k];
        }
        if (u->stacked)
            in_loop(o, was, u->dim, mine);
        else
            in_windows(o, was, u, mine);
    }
}

static void offload_fn(Offload *o)
{
    Module *m = o->m;
    Region *r = o->fn->body;
    o->nvalues = m->values.n;
    o->of = NEW_ARRAY(o->tmp, uint32_t, o->nvalues);
    o->behind = NEW_ARRAY(o->tmp, uint32_t, o->nvalues);
    o->here = NEW_ARRAY(o->tmp, Value, o->nvalues);
    o->update = NEW_ARRAY(o->tmp, Update, m->tensors.n + 1);
    note_arguments(o);
    note_results(o);
    forget_whole(o);
    note_operands(o);
    note_read(o);
    const Region was = *r;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    leave_the_rest(o, &was, false);
    cut_updates(o, &was);
    leave_the_rest(o, &was, true);
    for (size_t k = 0; k < r->results.n; k++) {
        const Result *x = &o->result.data[k];
        o->b = (Builder){.m = m, .region = r, .block = name_intern(m->names, "optimizer")};
        r->results.data[k] = x->v ? x->v : transfer(&o->b, x->of, x->level);
    }
}

PassStatus pass_levels(Job *j)
{
    Module *m = j->m;
    bool any = false;
    for (size_t t = 0; t < m->tensors.n; t++) {
        m->tensors.data[t].type.level = level_of(m, &m->tensors.data[t]);
        any |= m->tensors.data[t].type.level != LEVEL_device;
    }
    for (size_t f = 0; f < m->fns.n && any; f++)
        offload_fn(&(Offload){.m = m, .fn = m->fns.data[f], .tmp = j->tmp});
    return PASS_ok;
}
