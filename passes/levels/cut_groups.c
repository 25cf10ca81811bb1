/* cut_groups.c - which instructions are cut, and with which others; see cut.c.
 *
 * Forward, an instruction is cut if it reads a source, or what is cut already, along one dim, and
 * does the same for each of its indices. Backward, what one group alone reads joins it. Then it is
 * known what of a group's results something else reads, which is stored whole. */
#include "passes/levels/cut.h"
#include "passes/walk.h"

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

bool cut_has_dim(const Module *m, Value v, Dim d)
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
        all &= cut_has_dim(m, i->out[k], g->dim) &&
               (!g->stacked || type_of(m, i->out[k])->dims[0].name == g->dim.name);
    return all;
}

bool cut_is_source(const Cut *c, Value v)
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
        } else if (cut_is_source(c, i->in[k])) {
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
                if (cut_is_source(c, i->in[k]) && bytes > group->bytes)
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

/* May a result of the region be in the place of an argument when group g reads that? */
static bool is_written_before(const Cut *c, Value arg, uint32_t g)
{
    const Region *r = &c->was;
    for (size_t k = 0; k < r->results.n; k++) {
        const Value v = r->results.data[k];
        const int at = c->groups.data[g - 1].stage;
        const bool before = c->of[v] ? c->groups.data[c->of[v] - 1].stage < at : c->stage[v] <= at;
        if (before && c->m->values.data[v].def &&
            type_same_dims(type_of(c->m, v), type_of(c->m, arg)))
            return true;
    }
    return false;
}

/* Is a value of an earlier stage computed again in group g? Not of what the region is given, if its
 * new value may be there by then. */
bool cut_is_again(const Cut *c, Value v, uint32_t g)
{
    const Ins *def = c->m->values.data[v].def;
    if (c->of[v] == g || !is_elementwise(def->op) ||
        c->groups.data[c->of[v] - 1].dim.name != c->groups.data[g - 1].dim.name)
        return false;
    for (uint32_t k = 0; k < def->nin; k++)
        if (cut_is_source(c, def->in[k]) && !c->m->values.data[def->in[k]].def &&
            is_written_before(c, def->in[k], g))
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
        if (cut_is_again(c, v, g))
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

void cut_groups(Cut *c)
{
    note_results(c);
    note_operands(c);
    note_wanted(c);
}
