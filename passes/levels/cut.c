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
#include "passes/levels/levels.h"
#include "passes/view.h"
#include "passes/walk.h"

enum { PIECE = 32 << 20, PARTS = 24 /* of a join */ };

/* Instructions that are cut together. */
typedef struct Group {
    Dim dim;
    bool stacked; /* by a repeat: cut in iterations; else in windows */
    int stage;
    int64_t bytes; /* of the largest source */
    bool done;
} Group;

/* A value that is computed in pieces, as it is stored, per level. */
typedef struct Whole {
    bool wanted[LEVEL_count];
    Value value[LEVEL_count];
    VEC(Value) parts[LEVEL_count]; /* windows, until they are joined */
} Whole;

typedef struct Cut {
    Module *m;
    Region *r;
    Region was; /* its instructions */
    const Level *level;
    bool windows;
    const DimList *depth;
    const LevelUse *use;
    Arena *tmp;
    size_t nvalues; /* that there were before */
    VEC(Group) groups;
    uint32_t *of; /* per value: 1 + the group that computes it; 0: none does */
    int *stage;   /* per value that none does: the first stage that may read it */
    Whole **whole;
    bool *emitted;      /* per instruction, by position */
    uint32_t *position; /* per value: 1 + its instruction's; 0: it is of no instruction here */
} Cut;

/* ---- what is cut ---------------------------------------------------------------------------- */

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
static bool can_be_cut(const Ins *i, Dim dim, bool stacked)
{
    if (is_elementwise(i->op))
        return true;
    return (stacked ? OP_AMONG(i->op, OP_sum, OP_rmax, OP_tile_scale, OP_dot, OP_rename, OP_split,
                               OP_merge)
                    : OP_AMONG(i->op, OP_rmax, OP_split, OP_merge)) &&
           !sums_along(i, dim.name);
}

static bool has_dim(const Module *m, Value v, Dim d)
{
    const Type *t = type_of(m, v);
    const int at = type_find(t, d.name);
    return at >= 0 && t->dims[at].size == d.size;
}

/* Its dim may be stacked: it is the first. */
static bool gives_pieces(const Module *m, const Ins *i, const Group *g)
{
    bool all = i->nout > 0;
    for (uint32_t k = 0; k < i->nout; k++)
        all &= has_dim(m, i->out[k], g->dim) &&
               (!g->stacked || type_of(m, i->out[k])->dims[0].name == g->dim.name);
    return all;
}

static bool is_source(const Cut *c, Value v)
{
    const Type *t = type_of(c->m, v);
    return t->level && t->rank && (c->windows || levels_stacked(c->depth, t));
}

static uint32_t group_of(Cut *c, Dim dim, bool stacked, int stage)
{
    for (size_t k = 0; k < c->groups.n; k++) {
        const Group *g = &c->groups.data[k];
        if (g->dim.name == dim.name && g->dim.size == dim.size && g->stacked == stacked &&
            g->stage == stage)
            return (uint32_t)k + 1;
    }
    vec_push(c->tmp, &c->groups, ((Group){.dim = dim, .stacked = stacked, .stage = stage}));
    return (uint32_t)c->groups.n;
}

/* The dim along which an instruction is to be cut: that of its sources and of what is cut already.
 * False: it has none, or several. */
static bool dim_of(const Cut *c, const Ins *i, Dim *dim, bool *stacked)
{
    bool any = false, one = true;
    for (uint32_t k = 0; k < i->nin; k++) {
        const uint32_t of = c->of[i->in[k]];
        Dim d;
        bool s;
        if (of) {
            d = c->groups.data[of - 1].dim;
            s = c->groups.data[of - 1].stacked;
        } else if (is_source(c, i->in[k])) {
            d = type_of(c->m, i->in[k])->dims[0];
            s = levels_stacked(c->depth, type_of(c->m, i->in[k]));
        } else {
            continue;
        }
        one &= !any || (dim->name == d.name && dim->size == d.size && *stacked == s);
        *dim = d;
        *stacked = s;
        any = true;
    }
    return any && one;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

typedef struct LastStage {
    const Cut *c;
    int stage;
} LastStage;

/* A value that is cut has to be whole for an instruction that is not. */
static void note_stage(void *ctx, Value *use)
{
    LastStage *s = ctx;
    if (*use < s->c->nvalues) {
        const uint32_t of = s->c->of[*use];
        s->stage = max_int(s->stage, of ? s->c->groups.data[of - 1].stage + 1 : s->c->stage[*use]);
    }
}

/* The stage in which an instruction can be cut. */
static int stage_of(const Cut *c, const Ins *i, int guarded)
{
    int stage = guarded;
    for (uint32_t k = 0; k < i->nin; k++) {
        const uint32_t of = c->of[i->in[k]];
        stage = max_int(stage, of ? c->groups.data[of - 1].stage : c->stage[i->in[k]]);
    }
    return stage;
}

/* Forward: what is computed from sources. */
static void note_results(Cut *c)
{
    int guarded = 0;
    for (size_t n = 0; n < c->was.ins.n; n++) {
        Ins *i = c->was.ins.data[n];
        Dim dim = {0};
        bool stacked = false;
        for (uint32_t k = 0; k < i->nout; k++)
            c->position[i->out[k]] = (uint32_t)n + 1;
        if (!i->body && dim_of(c, i, &dim, &stacked) && can_be_cut(i, dim, stacked) &&
            gives_pieces(c->m, i, &(Group){.dim = dim, .stacked = stacked})) {
            const uint32_t g = group_of(c, dim, stacked, stage_of(c, i, guarded));
            for (uint32_t k = 0; k < i->nout; k++)
                c->of[i->out[k]] = g;
            for (uint32_t k = 0; k < i->nin; k++) {
                const int64_t bytes = type_bytes(type_of(c->m, i->in[k]));
                Group *group = &c->groups.data[g - 1];
                if (is_source(c, i->in[k]) && bytes > group->bytes)
                    group->bytes = bytes;
            }
            continue;
        }
        LastStage last = {.c = c};
        each_use(i, note_stage, &last);
        for (uint32_t k = 0; k < i->nout; k++)
            c->stage[i->out[k]] = last.stage;
        if (op_is(i->op, EFFECT))
            guarded = max_int(guarded, last.stage);
    }
}

/* Per value: the group that alone reads it. */
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

/* Is an instruction that nothing cuts, or an earlier stage does, part of group g, which alone reads
 * it? */
static bool joins(const Cut *c, const Ins *i, uint32_t g)
{
    const Group *to = &c->groups.data[g - 1];
    const uint32_t of = c->of[i->out[0]];
    if (!is_elementwise(i->op) || !gives_pieces(c->m, i, to))
        return false;
    return !of || (c->groups.data[of - 1].dim.name == to->dim.name &&
                   c->groups.data[of - 1].stage < to->stage);
}

/* Backward: what is computed for one group alone, element by element, is part of it. Nothing of its
 * size is stored then. */
static void note_operands(Cut *c)
{
    const Region *r = &c->was;
    Readers readers = {NEW_ARRAY(c->tmp, uint32_t, c->nvalues), NEW_ARRAY(c->tmp, bool, c->nvalues),
                       0};
    for (size_t k = 0; k < r->results.n; k++)
        readers.others[r->results.data[k]] = true;
    for (size_t n = r->ins.n; n-- > 0;) {
        Ins *i = r->ins.data[n];
        const Value v = i->nout == 1 ? i->out[0] : 0;
        if (v && readers.only[v] && !readers.others[v] && joins(c, i, readers.only[v]))
            c->of[v] = readers.only[v];
        readers.of = v ? c->of[v] : 0;
        each_use(i, note_reader, &readers);
    }
}

/* ---- what is stored whole ------------------------------------------------------------------- */

static void want(Cut *c, Value v, Level l)
{
    if (!c->whole[v])
        c->whole[v] = NEW(c->tmp, Whole);
    c->whole[v]->wanted[l] = true;
}

static void want_here(void *ctx, Value *use)
{
    Cut *c = ctx;
    if (*use < c->nvalues && c->of[*use])
        want(c, *use, LEVEL_device);
}

/* Is a value of an earlier stage computed again in group g? Not of what the region is given: the
 * earlier stage may have written its new value in its place. */
static bool is_again(const Cut *c, Value v, uint32_t g)
{
    const Ins *def = c->m->values.data[v].def;
    if (c->of[v] == g || !is_elementwise(def->op) ||
        c->groups.data[c->of[v] - 1].dim.name != c->groups.data[g - 1].dim.name)
        return false;
    for (uint32_t k = 0; k < def->nin; k++)
        if (is_source(c, def->in[k]) && !c->m->values.data[def->in[k]].def)
            return false;
    return true;
}

/* Operands of group g have to be stored, also those of what it computes again. */
static void want_operands(Cut *c, const Ins *i, uint32_t g)
{
    for (uint32_t k = 0; k < i->nin; k++) {
        const Value v = i->in[k];
        if (!c->of[v] || c->of[v] == g)
            continue;
        if (is_again(c, v, g))
            want_operands(c, c->m->values.data[v].def, g);
        else
            want(c, v, LEVEL_device);
    }
}

static void note_wanted(Cut *c)
{
    for (size_t n = 0; n < c->was.ins.n; n++) {
        Ins *i = c->was.ins.data[n];
        if (i->nout && c->of[i->out[0]])
            want_operands(c, i, c->of[i->out[0]]);
        else
            each_use(i, want_here, c);
    }
    for (size_t k = 0; k < c->was.results.n; k++)
        if (c->of[c->was.results.data[k]])
            want(c, c->was.results.data[k], c->level[k]);
}

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

/* The piece of an operand. */
static Value operand(Piece *p, Value v)
{
    Cut *c = p->c;
    Module *m = c->m;
    if (v < p->map.n && p->map.data[v])
        return p->map.data[v];
    if (c->of[v] ? is_again(c, v, p->group) : has_dim(m, v, p->dim) && is_widened(c, v)) {
        compute(p, m->values.data[v].def);
        return p->map.data[v];
    }
    const Value all = c->of[v] ? whole_here(c, v) : v;
    if (!has_dim(m, v, p->dim)) { /* all pieces read all of it */
        const Value here = levels_bring(&p->outside, all, LEVEL_device);
        map_set(m, &p->map, v, here);
        return here;
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
            if (is_source(c, i->in[k]))
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
    note_results(&c);
    note_operands(&c);
    note_wanted(&c);
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
