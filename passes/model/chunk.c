/* chunk.c - scans whose carried values are updated linearly go along their dim chunk by chunk.
 *
 *   before:  repeat seq (S; slices a, k, v, q)           a: positive, k v: an outer product
 *                S = a S + k v;  y = sum(q S, over key)
 *   after:   seq = n chunks of positions t, once more s; l = sum of log a up to a position
 *            U = dot(k exp(l_end - l), v, over s)        what a chunk adds to the state
 *            repeat n (S; slices A = exp(l_end), U)      E: the state that each chunk begins with
 *                E = S;  S = A S + U
 *            y = dot(dot(q, k) exp(l_t - l_s) [s <= t], v, over s) + exp(l_t) dot(q, E)
 *
 * So the loop has seq / t iterations, and all else is products of all chunks at once. Their
 * gradients are those of the products (differentiate). linear.h says which scans are taken; another
 * one remains the loop that it is. Where a term depends on a read (the delta rule), its factor is
 * the solution of a triangle of equations in each chunk: w = (1 - M)^-1 (...), of which one part is
 * known before the loop, and the other one is linear in the state (chunk_solve.c).
 *
 * The layout says how many positions a chunk has at most; the dim's largest divisor up to it is
 * taken (where a triangle is solved: the largest power of two). If it splits the dim, chunks are
 * split as the dim is (chunk_parts.c), and the state goes from part to part (chunk_loop.c).
 *
 * why here: the state is recognised in the program as the user wrote it; before precision, which
 * rounds what products read and leaves sums of logarithms and the state alone. */
#include "passes/model/chunk.h"

#include "passes/all_indices.h"
#include "passes/dim_rules.h"
#include "passes/model/chunk_parts.h"
#include "passes/model/chunk_reads.h"
#include "passes/passes.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

/* ---- values of the body ---------------------------------------------------------------------- */

static Value whole_read(Chunk *c, Value v)
{
    const Type t = *type_of(c->m, v);
    return chunk_read(c, &(Read){.chain = c->x->chain[v]}, &t);
}

static Value emit_all(Chunk *c, const Ins *i)
{
    const Type t = *type_of(c->m, i->out[0]);
    Value in[3] = {0};
    Read r;
    if (c->x->role[i->out[0]] == ROLE_after && linear_read(c->x, i, &r))
        return chunk_read(c, &r, &t);
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = chunk_all(c, i->in[k]);
    return build_at_all(&c->b, i, in, c->along);
}

Value chunk_all(Chunk *c, Value v)
{
    const Region *body = c->x->loop->body;
    if (c->m->values.data[v].home != body)
        return v;
    const Value known = map_get(&c->all, v);
    if (known != v)
        return known;
    size_t k = 0;
    while (k < body->args.n && body->args.data[k] != v)
        k++;
    Value r;
    if (c->x->role[v] == ROLE_chain)
        r = whole_read(c, v);
    else if (k == c->x->loop->nin)
        r = build_iota(&c->b, DT_i32, c->along);
    else if (k < body->args.n)
        r = c->x->loop->in[k];
    else
        r = emit_all(c, c->m->values.data[v].def);
    map_set(c->m, &c->all, v, r);
    return r;
}

/* ---- what a chunk does to a state -------------------------------------------------------------
 */

/* The dims by which the factors of a term are told apart: those that a read sums over, or, where
 * none does, those of the first factor. */
static DimList dims_read(const Chunk *c, int state)
{
    const Region *body = c->x->loop->body;
    Read r;
    for (size_t k = 0; k < body->ins.n; k++)
        if (c->x->role[body->ins.data[k]->out[0]] == ROLE_after &&
            linear_read(c->x, body->ins.data[k], &r) && r.chain->state == state)
            return r.over;
    DimList first = {0};
    const Chain *update = c->x->update[state];
    for (int s = 0; s < update->n && !first.n; s++) {
        const Step *step = update->step[s];
        const Type *last = type_of(c->m, step->factor[step->n - 1]);
        const Type *t = type_of(c->m, step->factor[0]);
        for (int k = 0; !step->scales && k < t->rank; k++)
            if (type_find(last, t->dims[k].name) < 0)
                first.dim[first.n++] = t->dims[k];
    }
    return first;
}

/* v as one chunk after the other, with the dims of t. */
static Value per_chunk(Chunk *c, Value v, const Type *t)
{
    const Type all = type_stacked(t, c->n);
    return build_as(&c->b, v, all);
}

/* The factors of step k that have some dims, with what is left of them at the chunk's end. */
static Value inner_at_end(Chunk *c, int state, int k, const DimList *over, Value *outer)
{
    const Chain *update = c->x->update[state];
    const Step *s = update->step[k];
    const Value all = chunk_fade_all(c, update);
    Value inner = chunk_factors(c, s, over, true, true);
    *outer = chunk_factors(c, s, over, false, true);
    if (!all)
        return inner;
    const Value fade = chunk_fade(c, update, k + 1, true);
    const Value left = build1(&c->b, OP_exp, build2(&c->b, OP_sub, all, fade));
    bool lacks = false; /* it goes to the factors that have its dims already */
    for (int d = 0; d < type_of(c->m, left)->rank; d++)
        lacks |= !chunk_has(c, inner, type_of(c->m, left)->dims[d].name);
    for (int d = 0; d < over->n; d++)
        lacks &= !chunk_has(c, left, over->dim[d].name);
    if (lacks && *outer)
        *outer = chunk_times(c, *outer, left);
    else
        inner = chunk_times(c, inner, left);
    return inner;
}

/* factor = plus + times * read; 0 as a factor is 1. */
typedef struct Affine {
    Chunk *c;
    Value plus, times;
    bool minus;
} Affine;

static void affine_step(void *ctx, const Ins *i, int operand)
{
    Affine *a = ctx;
    Chunk *c = a->c;
    const Value other = i->nin == 2 ? chunk_cut(c, chunk_all(c, i->in[1 - operand]), false) : 0;
    const bool turns = i->op == OP_neg || (i->op == OP_sub && operand == 1);
    if (i->op == OP_mul) {
        a->plus = a->plus ? chunk_times(c, a->plus, other) : 0;
        a->times = chunk_times(c, a->times, other);
        return;
    }
    if (turns) {
        a->minus = !a->minus;
        a->plus = a->plus ? build1(&c->b, OP_neg, a->plus) : 0;
    }
    if (i->op == OP_add || i->op == OP_sub)
        a->plus = chunk_plus(
            c, a->plus, i->op == OP_sub && operand == 0 ? build1(&c->b, OP_neg, other) : other);
}

/* The equations of the solved factor, solved but for what depends on the state. */
static void solve(Chunk *c, int state, Update *u)
{
    const int k = c->x->solved[state];
    const Step *s = c->x->update[state]->step[k];
    const DimList along = {.n = 1, .dim = {c->s}};
    Affine a = {.c = c};
    const Ins *ins;
    Read read;
    Value also, outer;
    linear_affine(c->x, s->factor[s->solved], &ins, affine_step, &a);
    linear_read(c->x, ins, &read);
    const Place p = chunk_place(c, &read, &also);
    const Value own = chunk_factors(c, s, &p.over, false, true);
    Value m = chunk_times(c, chunk_times(c, chunk_scores(c, &p, k), a.times), own);
    m = chunk_signed(c, m, a.minus != s->minus);
    const Value inverse = chunk_inverse(c, m);
    Value known = chunk_plus(c, chunk_terms(c, &p, 0), also);
    if (known)
        known = chunk_signed(c, chunk_times(c, known, a.times), a.minus);
    known = chunk_plus(c, a.plus, known);
    /* of the state: by, summed over dims with it */
    Place of = p;
    const Value fade = chunk_fade(c, c->x->update[state], p.steps, false);
    of.by = chunk_times(c, p.by, fade ? build1(&c->b, OP_exp, fade) : 0);
    of.by = chunk_signed(c, chunk_times(c, of.by, a.times), a.minus);
    u->read = p.over;
    Value solved[2] = {known, of.by};
    for (int n = 0; n < 2; n++)
        if (solved[n])
            solved[n] = chunk_renamed(
                c, chunk_contract(c, inverse, chunk_renamed(c, solved[n], c->t, c->s), &along),
                c->t, c->s);
    u->known = solved[0];
    u->by = solved[1];
    u->times = inner_at_end(c, state, k, &p.over, &outer);
    u->times = chunk_times(c, u->times, outer);
    u->minus = s->minus;
}

static Update update_of(Chunk *c, int state)
{
    const Chain *update = c->x->update[state];
    const Type *t = type_of(c->m, c->x->loop->in[state]);
    const DimList over = dims_read(c, state), along = {.n = 1, .dim = {c->s}};
    const Value fade = chunk_fade_all(c, update);
    Update u = {.left = fade ? build1(&c->b, OP_exp, fade) : 0};
    for (int k = 0; k < update->n; k++) {
        const Step *s = update->step[k];
        Value outer;
        if (s->scales || s->solved >= 0)
            continue;
        const Value inner = inner_at_end(c, state, k, &over, &outer);
        const Value v = chunk_contract(c, inner, outer, &along);
        u.adds = chunk_plus(c, u.adds, chunk_signed(c, v, s->minus));
    }
    if (u.adds)
        u.adds = per_chunk(c, u.adds, t);
    if (c->x->solved[state] >= 0)
        solve(c, state, &u);
    return u;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* How many positions a chunk has: the largest divisor of what is gone through in turn, up to
 * `most`, and a power of two if a triangle is solved. 1: none. */
static int64_t positions(const Linear *x, int64_t all, int64_t most)
{
    bool solves = false;
    for (int k = 0; k < x->states; k++)
        solves |= x->solved[k] >= 0;
    int64_t r = 1;
    for (int64_t k = 2; k <= most && k <= all; k++)
        if (all % k == 0 && (!solves || (k & (k - 1)) == 0))
            r = k;
    return r;
}

/* Writes a linear scan in chunks at the region's end; its results are entered into `to`. says: the
 * layout notes how it goes on. False: it remains a loop. */
static bool rewrite(Module *m, Region *r, const Ins *loop, Arena *tmp, bool says, ValueMap *to)
{
    Linear x;
    Value last[LINEAR_STATES];
    Update u[LINEAR_STATES];
    const Dim d = loop->attrs.dim;
    const int64_t unit = rules_unit(m, d);
    bool linear = linear_scan(m, loop, tmp, &x);
    const int64_t parts = linear ? scan_parts(&x) : 1;
    if (linear && !parts) {
        linear = false;
        x.why = "its state has too many dims to be handed from rank to rank";
    }
    const int64_t size = linear ? positions(&x, d.size / unit, m->layout.chunk) : 1;
    if (says)
        vec_push(m->arena, &m->layout.scans, ((ScanForm){loop->span, d, size, x.why}));
    if (size == 1)
        return false;
    Chunk c = {.m = m,
               .tmp = tmp,
               .x = &x,
               .b = builder_at(m, r, loop),
               .along = d,
               .n = dim_part(m, d, SCAN_CHUNK, d.size / size),
               .t = dim_part(m, d, "at", size),
               .s = dim_part(m, d, "from", size),
               .p = dim_part(m, d, SCAN_PART, parts),
               .own = dim_part(m, d, "own", d.size / size / parts)};
    rules_extend(m, d.name, (Name[]){c.p.name, c.n.name}, 2);
    for (int k = 0; k < x.states; k++)
        u[k] = update_of(&c, k);
    chunk_go_through(&c, u, last);
    for (uint32_t k = 0; k < loop->nout; k++) {
        const Value v = (int)k < x.states
                            ? last[k]
                            : build_as(&c.b, chunk_all(&c, loop->body->results.data[k]),
                                       *type_of(m, loop->out[k]));
        m->values.data[v].name = m->values.data[loop->out[k]].name;
        map_set(m, to, loop->out[k], v);
    }
    return true;
}

static void replace_mapped(void *ctx, Value *use)
{
    *use = map_get(ctx, *use);
}

static bool region(Module *m, Region *r, Arena *tmp, bool says)
{
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    ValueMap to = {0};
    bool changed = false;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        each_use(i, replace_mapped, &to);
        if (i->op == OP_repeat && i->attrs.scan && rewrite(m, r, i, tmp, says, &to)) {
            changed = true;
            continue;
        }
        if (i->body)
            changed |= region(m, i->body, tmp, says);
        vec_push(m->arena, &r->ins, i);
    }
    for (size_t k = 0; k < r->results.n; k++)
        replace_mapped(&to, &r->results.data[k]);
    return changed;
}

PassStatus pass_chunk(Job *j)
{
    Module *m = j->m;
    const Fn *said = module_fn(m, "train") ? module_fn(m, "train") : module_fn(m, "eval");
    for (size_t f = 0; f < m->fns.n; f++)
        if (region(m, m->fns.data[f]->body, j->tmp, m->fns.data[f] == said))
            simplify_dce(m, m->fns.data[f], j->tmp);
    return PASS_ok;
}
