/* cut.c - what is computed of a value on another level is computed a piece at a time.
 *
 *   before:  m' = f(m, g);  p' = h(p, m')                                   all layers at once
 *   after:   m', p' = repeat layers (slice m, slice g, slice p) {
 *                m1 = transfer m {device};  m2 = f(m1, g);  p2 = h(p, m2)
 *                m3 = transfer m2 {host}
 *            } -> m3, p2
 *
 * A source is a value of another level that a region sees as a whole. Instructions on it, and on
 * what they give, are cut along its outermost dim, if they do the same for each index. All sources
 * that are stacked along one dim share a loop over it: in an iteration, while one of them is
 * computed with, the next comes and the last goes. A source that no repeat stacks is cut in windows
 * of PIECE bytes at most (but for the number of PARTS), in one row of instructions. What is
 * computed for that alone is cut with it, so that nothing of its size is stored.
 *
 * An instruction that sums over all pieces, and a guard, end a stage: what depends on them is cut
 * in a loop of its own, behind them. Such a loop computes again, element by element, what it needs
 * of an earlier stage; anything else that is read of pieces is stored whole, on the device. */
#include "passes/levels/cut.h"
#include "passes/view.h"
#include "passes/walk.h"

enum { PIECE = 32 << 20, PARTS = 24 /* of a join */ };

/* ---- a piece -------------------------------------------------------------------------------- */

/* Some indices of a dim: one, which the values of a piece then lack, or a window. */
typedef struct Piece {
    Cut *c;
    uint32_t group;
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

static void compute(Piece *p, const Ins *i);

static Value whole_here(const Cut *c, Value v)
{
    return v < c->nvalues && c->whole[v] ? c->whole[v]->value[LEVEL_device] : 0;
}

/* Is v a wider form of a narrow argument of the region? It need not be stored for its pieces. */
static bool is_widened(const Cut *c, Value v)
{
    const Ins *def = c->m->values.data[v].def;
    return def && def->op == OP_cast && !c->m->values.data[def->in[0]].def &&
           c->m->values.data[def->in[0]].home == c->r &&
           dtype_is_narrow(type_of(c->m, def->in[0])->dtype) &&
           !dtype_is_narrow(type_of(c->m, v)->dtype);
}

/* The window of what lies on another level that v is, if its pieces have gaps there. */
static const Ins *has_gaps(const Piece *p, Value v)
{
    const Module *m = p->c->m;
    const Ins *def = type_of(m, v)->level ? levels_gaps(m, v, p->dim.name) : NULL;
    const bool whole = def && def->in[0] < p->c->nvalues && !p->c->of[def->in[0]];
    return whole && def->attrs.along.name != p->dim.name ? def : NULL;
}

/* The piece of an operand. */
static Value operand(Piece *p, Value v)
{
    Cut *c = p->c;
    Module *m = c->m;
    if (v < p->map.n && p->map.data[v])
        return p->map.data[v];
    if (c->of[v] ? cut_is_again(c, v, p->group) : cut_has_dim(m, v, p->dim) && is_widened(c, v)) {
        compute(p, m->values.data[v].def);
        return p->map.data[v];
    }
    /* A number is one of a kernel's own, which then rounds as that of all layers at once does. */
    const Ins *def = m->values.data[v].def;
    if (!p->n && def && def->op == OP_const) {
        const Value here = build_const(&p->b, type_of(m, v)->dtype, def->attrs.value);
        map_set(m, &p->map, v, here);
        return here;
    }
    const Value all = c->of[v] ? whole_here(c, v) : v;
    if (!cut_has_dim(m, v, p->dim)) { /* all pieces read all of it */
        const Value here = levels_bring(&p->outside, all, LEVEL_device);
        map_set(m, &p->map, v, here);
        return here;
    }
    const Ins *inner = has_gaps(p, all);
    if (inner) { /* all of its piece is brought, and the part of that taken on the device */
        const Value brought = operand(p, inner->in[0]);
        const Value taken = build(&p->b, OP_window, &inner->attrs, 1, &brought);
        map_set(m, &p->map, v, taken);
        return taken;
    }
    Attrs window = {.along = {p->dim.name, p->n}, .at = p->at};
    const bool first = type_find(type_of(m, v), p->dim.name) == 0;
    Type stacked = type_without(type_of(m, v), p->dim.name);
    stacked = type_stacked(&stacked, p->dim);
    Value part = p->n == p->dim.size ? all
                 : p->n
                     ? build(&p->b, OP_window, &window, 1, &all)
                     : repeat_slice(m, p->loop, first ? all : build_as(&p->outside, all, stacked));
    m->values.data[part].name = m->values.data[v].name;
    part = levels_bring(&p->b, part, LEVEL_device);
    map_set(m, &p->map, v, part);
    return part;
}

static void resize(DimList *l, const Piece *p)
{
    for (int k = 0; k < l->n; k++)
        if (l->dim[k].name == p->dim.name)
            l->dim[k].size = p->n;
}

/* A piece goes where all of it is to be. */
static void give(Piece *p, Value v, Value piece)
{
    Cut *c = p->c;
    Whole *w = c->whole[v];
    for (int l = 0; w && c->of[v] == p->group && l < LEVEL_count; l++) {
        if (!w->wanted[l])
            continue;
        const Value there = levels_bring(&p->b, piece, (Level)l);
        if (p->n)
            vec_push(c->tmp, &w->parts[l], there);
        else
            w->value[l] = repeat_stack(c->m, p->loop, there);
    }
}

static void compute(Piece *p, const Ins *i)
{
    Module *m = p->c->m;
    Value in[RULE_OPERANDS];
    Type types[8];
    Attrs attrs = i->attrs;
    resize(&attrs.over, p);
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = operand(p, i->in[k]);
    for (uint32_t k = 0; k < i->nout; k++) {
        types[k] = piece_of(p, type_of(m, i->out[k]));
        types[k].level = LEVEL_device; /* also a view, whose operand was brought */
    }
    p->b.span = i->span;
    p->b.path = i->path;
    p->b.block = i->block;
    p->b.backward = i->backward;
    Ins *made = build_typed(&p->b, i->op, &attrs, (int)i->nin, in, (int)i->nout, types, NULL);
    made->exact = i->exact;
    for (uint32_t k = 0; k < i->nout; k++) {
        m->values.data[made->out[k]].name = m->values.data[i->out[k]].name;
        map_set(m, &p->map, i->out[k], made->out[k]);
        give(p, i->out[k], made->out[k]);
    }
}

/* The instructions of a group, in their order. */
static void compute_all(Piece *p)
{
    const Cut *c = p->c;
    for (size_t n = 0; n < c->was.ins.n; n++) {
        const Ins *i = c->was.ins.data[n];
        if (i->nout && c->of[i->out[0]] == p->group)
            compute(p, i);
    }
}

/* ---- loops and windows ---------------------------------------------------------------------- */

/* The updates of a group, an index of the dim at a time. */
static void in_loop(Cut *c, uint32_t group, Dim dim)
{
    Module *m = c->m;
    Region *body = region_new(m, c->r);
    region_arg(m, body, (Type){.dtype = DT_i32}, dim.name);
    Attrs attrs = {.dim = dim};
    Piece p = {.c = c, .group = group, .dim = dim, .outside = {.m = m, .region = c->r}};
    p.loop = build_typed(&p.outside, OP_repeat, &attrs, 0, NULL, 0, NULL, body);
    c->r->ins.n--; /* what its operands need comes before it */
    p.b = (Builder){.m = m, .region = body};
    compute_all(&p);
    vec_push(m->arena, &c->r->ins, p.loop);
}

/* The windows of a value become it. */
static void join_windows(Cut *c, Value v, Dim dim)
{
    Module *m = c->m;
    const Ins *def = m->values.data[v].def;
    for (int l = 0; c->whole[v] && l < LEVEL_count; l++) {
        Whole *w = c->whole[v];
        Attrs join = {.dim = dim};
        Builder b = builder_at(m, c->r, def);
        if (!w->wanted[l])
            continue;
        w->value[l] = w->parts[l].n == 1
                          ? w->parts[l].data[0]
                          : build(&b, OP_join, &join, (int)w->parts[l].n, w->parts[l].data);
        m->values.data[w->value[l]].name = m->values.data[v].name;
    }
}

static void in_windows(Cut *c, uint32_t group, const Group *g)
{
    Module *m = c->m;
    const int64_t piece = m->layout.piece ? m->layout.piece : PIECE;
    const int64_t rows = g->dim.size, fewest = g->bytes / piece + 1;
    const int64_t pieces = fewest < PARTS ? (fewest < rows ? fewest : rows) : PARTS;
    const int64_t each = (rows + pieces - 1) / pieces;
    for (int64_t at = 0; at < rows; at += each) {
        Piece p = {.c = c,
                   .group = group,
                   .dim = g->dim,
                   .at = at,
                   .n = rows - at < each ? rows - at : each};
        p.b = p.outside = (Builder){.m = m, .region = c->r};
        compute_all(&p);
    }
    for (Value v = 0; v < c->nvalues; v++)
        if (c->of[v] == group)
            join_windows(c, v, g->dim);
}

/* ---- the order ------------------------------------------------------------------------------ */

static void emit(Cut *c, size_t at);

static void emit_value(void *ctx, Value *use)
{
    Cut *c = ctx;
    if (*use < c->nvalues && c->position[*use])
        emit(c, c->position[*use] - 1);
}

static void emit_group(Cut *c, uint32_t group)
{
    Group *g = &c->groups.data[group - 1];
    if (g->done)
        return;
    g->done = true;
    for (size_t n = 0; n < c->was.ins.n; n++) {
        Ins *i = c->was.ins.data[n];
        if (!i->nout || c->of[i->out[0]] != group)
            continue;
        for (uint32_t k = 0; k < i->nin; k++)
            if (c->of[i->in[k]] != group)
                emit_value(c, &i->in[k]);
    }
    if (g->stacked)
        in_loop(c, group, g->dim);
    else
        in_windows(c, group, &(Group){.dim = g->dim, .bytes = g->bytes});
}

static void use_whole(void *ctx, Value *use)
{
    const Value v = whole_here(ctx, *use);
    *use = v ? v : *use;
}

/* An instruction, and before it what it needs. Groups come where something reads what they give, so
 * that a group has all its operands. */
static void emit(Cut *c, size_t at)
{
    Ins *i = c->was.ins.data[at];
    if (c->emitted[at])
        return;
    c->emitted[at] = true;
    if (i->nout && c->of[i->out[0]]) {
        emit_group(c, c->of[i->out[0]]);
        return;
    }
    each_use(i, emit_value, c);
    each_use(i, use_whole, c);
    c->use->rest(c->use->ctx, c->r, i);
}

/* Does an instruction of the region see a source? */
static bool has_sources(const Cut *c)
{
    for (size_t n = 0; n < c->was.ins.n; n++) {
        const Ins *i = c->was.ins.data[n];
        for (uint32_t k = 0; k < i->nin; k++)
            if (cut_is_source(c, i->in[k]))
                return true;
    }
    return false;
}

void levels_cut(Module *m, Region *r, const Level *level, bool windows, const DimList *depth,
                const LevelUse *use, Arena *tmp)
{
    const size_t n = m->values.n;
    Cut c = {.m = m,
             .r = r,
             .was = *r,
             .level = level,
             .windows = windows,
             .depth = depth,
             .use = use,
             .tmp = tmp,
             .nvalues = n};
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    if (!has_sources(&c)) {
        for (size_t k = 0; k < c.was.ins.n; k++)
            use->rest(use->ctx, r, c.was.ins.data[k]);
        return;
    }
    c.of = NEW_ARRAY(tmp, uint32_t, n);
    c.stage = NEW_ARRAY(tmp, int, n);
    c.whole = NEW_ARRAY(tmp, Whole *, n);
    c.emitted = NEW_ARRAY(tmp, bool, c.was.ins.n + 1);
    c.position = NEW_ARRAY(tmp, uint32_t, n);
    cut_groups(&c);
    for (size_t k = 0; k < c.was.ins.n; k++)
        if (!c.was.ins.data[k]->nout || !c.of[c.was.ins.data[k]->out[0]])
            emit(&c, k);
    for (uint32_t g = 0; g < c.groups.n; g++)
        emit_group(&c, g + 1);
    for (size_t k = 0; k < r->results.n; k++) {
        const Value v = r->results.data[k];
        if (v < n && c.of[v])
            r->results.data[k] = c.whole[v]->value[level[k]];
    }
}
