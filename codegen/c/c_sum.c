/* c_sum.c - kernels that reduce, in C: every sum in the order of its loops.
 *
 * row      loops over the row, stage by stage; each sum has a variable
 * col      adds to the place of the sum in memory, at once or a chunk at a time (partial)
 * combine  adds up the chunks of partial sums, in their order */
#include "codegen/c/c_gen.h"

#include <string.h>

static DType dtype_of(const CGen *g, Value v)
{
    return type_of(g->c.m, v)->dtype;
}

/* Adds to a sum, or to a maximum: a variable, or an element in memory (stored). */
static void add(CGen *g, const Ins *i, const char *sum, bool stored, Text x)
{
    const DType t = dtype_of(g, i->out[0]);
    if (i->op == OP_sum && !(stored && dtype_is_narrow(t))) {
        code_line(&g->c, "%s += %s;", sum, x.s);
        return;
    }
    const Text old = stored ? c_loaded(g, t, sum) : (Text){sum, NAMED};
    const char *larger = t == DT_f64 ? "larger" : "largerf";
    x = i->op == OP_sum ? code_pointwise(&g->c, OP_add, DT_f32, 2, (Text[]){old, x})
                        : (Text){arena_printf(g->c.a, "%s(%s, %s)", larger, old.s, x.s), CALLED};
    code_line(&g->c, "%s = %s;", sum, stored ? c_stored(g, t, x) : x.s);
}

static const char *declare(CGen *g, const Ins *i)
{
    const char *name = c_fresh(g, i->op == OP_sum ? "sum" : "max");
    code_line(&g->c, "%s %s = %s;", code_computed(g->c.dialect, dtype_of(g, i->out[0])), name,
              code_start(&g->c, i));
    return name;
}

/* The same of a sum that may have a great many terms, one after the other: in double, which a sum
 * of floats in vectors is as good as. */
static const char *declare_long(CGen *g, const Ins *i)
{
    if (i->op != OP_sum || dtype_of(g, i->out[0]) == DT_f64)
        return declare(g, i);
    const char *name = c_fresh(g, "sum");
    code_line(&g->c, "double %s = 0.0;", name);
    return name;
}

/* ---- row ---------------------------------------------------------------------------------- */

static bool moves(const Region *body)
{
    bool any = false;
    for (size_t i = 0; i < body->ins.n; i++) {
        const Op op = body->ins.data[i]->op;
        any |= OP_AMONG(op, OP_rename, OP_pick, OP_window, OP_reindex);
    }
    return any;
}

static bool is_wide(const CGen *g, Value v)
{
    return nest_wide(&g->c.nest, type_of(g->c.m, v));
}

/* Does anything that differs along the row use v, or sum it? */
static bool used_along(const CGen *g, Value v)
{
    bool is = false;
    for (size_t i = 0; i < g->c.body->ins.n; i++) {
        const Ins *user = g->c.body->ins.data[i];
        for (uint32_t k = 0; k < user->nin; k++)
            is |= user->in[k] == v && (is_wide(g, user->out[0]) || nest_reduces(user));
    }
    return is;
}

/* A number that is the same in a whole row is computed once, before the loop that uses it. */
static void before_loop(CGen *g, const CodeEnv *row, int stage)
{
    if (moves(g->c.body))
        return;
    for (size_t i = 0; i < g->c.body->ins.n; i++) {
        const Ins *ins = g->c.body->ins.data[i];
        const Value v = ins->out[0];
        if (nest_reduces(ins) || ins->op == OP_const || g->c.reduced[v] || is_wide(g, v) ||
            g->c.stage[v] >= stage || !used_along(g, v))
            continue;
        Text x = c_eval(g, v, row);
        if (x.level < NAMED)
            x = code_variable(&g->c, c_value_name(g, v), dtype_of(g, v), x);
        g->c.reduced[v] = x.s;
    }
}

/* wide: NULL, or the results that this loop writes. */
static void row_stage(CGen *g, const CodeEnv *row, int s, const bool *wide)
{
    const Ins *sum[MAX_OPERANDS];
    const char *acc[MAX_OPERANDS];
    const int braces = g->braces;
    CodeEnv e = *row;
    int n = 0;
    for (size_t i = 0; i < g->c.body->ins.n && n < MAX_OPERANDS; i++) {
        const Ins *ins = g->c.body->ins.data[i];
        if (nest_reduces(ins) && g->c.stage[ins->out[0]] == s)
            sum[n++] = ins;
    }
    for (int k = 0; k < n; k++)
        acc[k] = declare(g, sum[k]);
    c_open_loops(g, g->c.nest.nouter, c_loops(g), -1, &e);
    for (int k = 0; k < n; k++)
        add(g, sum[k], acc[k], false, c_eval(g, sum[k]->in[0], &e));
    if (wide)
        c_store(g, &e, wide);
    c_close_to(g, braces);
    for (int k = 0; k < n; k++)
        g->c.reduced[sum[k]->out[0]] = acc[k];
}

/* A result with one number for each row is computed before the last loop and stored after it,
 * because it may take the place of an operand that the loop reads. */
static Text before_store(CGen *g, Value v, const CodeEnv *row)
{
    Text x = c_eval(g, v, row);
    if (x.level == NAMED && !strchr(x.s, '['))
        return x;
    return code_variable(&g->c, c_value_name(g, v), dtype_of(g, v), x);
}

/* once: those that differ along the row are written already. */
static void row_results(CGen *g, const CodeEnv *row, int stages, const bool *wide, bool once)
{
    const Region *body = g->c.body;
    bool any = false;
    Text x[MAX_OPERANDS];
    for (size_t r = 0; r < body->results.n; r++)
        any |= wide[r] && !once;
    if (any)
        before_loop(g, row, stages + 1);
    for (size_t r = 0; r < body->results.n; r++)
        if (!wide[r])
            x[r] = (any ? before_store : c_eval)(g, body->results.data[r], row);
    if (any) {
        const int braces = g->braces;
        CodeEnv e = *row;
        c_open_loops(g, g->c.nest.nouter, c_loops(g), -1, &e);
        c_store(g, &e, wide);
        c_close_to(g, braces);
    }
    for (size_t r = 0; r < body->results.n; r++) {
        const int o = g->c.k->nin + (int)r;
        const Operand *to = &g->c.k->operand[o];
        if (!wide[r])
            code_line(&g->c, "%s = %s;", code_element(&g->c, o, to, row, NULL),
                      c_stored(g, to->type.dtype, x[r]));
    }
}

void c_row(CGen *g)
{
    CodeEnv row = {0};
    c_units(g, &row);
    const int stages = nest_stages(g->c.body, g->c.stage);
    const bool once = nest_one_walk(g->c.m, &g->c.nest, g->c.body, g->c.stage);
    bool wide[MAX_OPERANDS];
    for (size_t r = 0; r < g->c.body->results.n; r++)
        wide[r] = is_wide(g, g->c.body->results.data[r]);
    for (int s = 1; s <= stages; s++) {
        before_loop(g, &row, s);
        row_stage(g, &row, s, once ? wide : NULL);
    }
    row_results(g, &row, stages, wide, once);
}

/* ---- columns ------------------------------------------------------------------------------ */

/* The places of the sums: the results, or a chunk's part of the workspaces. */
typedef struct Columns {
    Operand to[MAX_OPERANDS];
    const char *base[MAX_OPERANDS];
} Columns;

static const Ins *sum_of(const CGen *g, size_t r)
{
    return g->c.m->values.data[g->c.body->results.data[r]].def;
}

static const char *column(CGen *g, const Columns *c, size_t r, const CodeEnv *e)
{
    return code_element(&g->c, g->c.k->nin + (int)r, &c->to[r], e, c->base[r]);
}

static void zero(CGen *g, const Columns *c, const CodeEnv *kept)
{
    CodeEnv e = *kept;
    const int braces = g->braces;
    c_open_loops(g, g->c.nest.nouter, c_loops(g), 0, &e);
    for (size_t r = 0; r < g->c.body->results.n; r++) {
        const char *start = code_start(&g->c, sum_of(g, r));
        code_line(&g->c, "%s = %s;", column(g, c, r, &e),
                  c_stored(g, c->to[r].type.dtype, (Text){start, NAMED}));
    }
    c_close_to(g, braces);
}

static void add_all(CGen *g, const Columns *c, const CodeEnv *e)
{
    Text x[MAX_OPERANDS];
    for (size_t r = 0; r < g->c.body->results.n; r++)
        x[r] = c_eval(g, sum_of(g, r)->in[0], e);
    for (size_t r = 0; r < g->c.body->results.n; r++)
        add(g, sum_of(g, r), column(g, c, r, e), true, x[r]);
}

/* The loops from `tail` on, all reduced, sum into variables. They are then stored in memory (once),
 * or added to the values there. */
static void add_tail(CGen *g, const Columns *c, int tail, const CodeEnv *e, bool once)
{
    const char *acc[MAX_OPERANDS];
    const size_t n = g->c.body->results.n;
    const int braces = g->braces;
    CodeEnv inner = *e;
    for (size_t r = 0; r < n; r++)
        acc[r] = declare_long(g, sum_of(g, r));
    c_open_loops(g, tail, c_loops(g), -1, &inner);
    for (size_t r = 0; r < n; r++)
        add(g, sum_of(g, r), acc[r], false, c_eval(g, sum_of(g, r)->in[0], &inner));
    c_close_to(g, braces);
    for (size_t r = 0; r < n; r++) {
        const Text sum = {acc[r], NAMED};
        if (once)
            code_line(&g->c, "%s = %s;", column(g, c, r, e), c_stored(g, c->to[r].type.dtype, sum));
        else
            add(g, sum_of(g, r), column(g, c, r, e), true, sum);
    }
}

/* The first of the loops from `first` on behind which, itself included, all are reduced. */
static int tail_from(const CGen *g, int first)
{
    int tail = c_loops(g);
    while (tail > first && nest_loop(&g->c.nest, tail - 1)->reduced)
        tail--;
    return tail;
}

/* Are all sums made by the loops from `tail` on alone, once each? */
static bool sums_at_once(const CGen *g, int tail)
{
    bool others = false;
    for (int i = 0; i < tail; i++)
        others |= nest_loop(&g->c.nest, i)->reduced && nest_loop(&g->c.nest, i)->dim.size > 1;
    return tail < c_loops(g) && !others;
}

/* The loops from `first` on. */
static void columns(CGen *g, const Columns *c, int first, const CodeEnv *kept)
{
    CodeEnv e = *kept;
    const int tail = tail_from(g, first);
    c_open_loops(g, first, tail, -1, &e);
    if (tail < c_loops(g))
        add_tail(g, c, tail, &e, sums_at_once(g, tail));
    else
        add_all(g, c, &e);
}

void c_col(CGen *g)
{
    CodeEnv e = {0};
    Columns c = {0};
    for (size_t r = 0; r < g->c.body->results.n; r++)
        c.to[r] = g->c.k->operand[g->c.k->nin + (int)r];
    c_units(g, &e);
    const int braces = g->braces;
    if (!sums_at_once(g, tail_from(g, g->c.nest.nouter)))
        zero(g, &c, &e);
    columns(g, &c, g->c.nest.nouter, &e);
    c_close_to(g, braces);
}

/* Unit u of n sums [u * total / n, (u + 1) * total / n) of the leading, flattened, reduced loops.
 */
void c_partial(CGen *g)
{
    const Nest *n = &g->c.nest;
    const long long chunks = g->c.k->chunks;
    CodeEnv e = {0};
    Columns c = {0};
    long long total = 1;
    for (int i = 0; i < n->nlead; i++)
        total *= n->inner[i].dim.size;
    const char *chunk = c_for(g, "chunk", "begin", "end"), *from, *to;
    for (size_t r = 0; r < g->c.body->results.n; r++) {
        int64_t elements;
        c.to[r] = g->c.k->operand[g->c.k->nin + (int)r];
        c.to[r].type = *type_of(g->c.m, g->c.body->results.data[r]);
        c.to[r] = code_dense(&c.to[r], &elements);
        c.base[r] =
            elements == 1 ? chunk : arena_printf(g->c.a, "%s * %lld", chunk, (long long)elements);
    }
    from = c_fresh(g, "from");
    to = c_fresh(g, "to");
    code_line(&g->c, "const int64_t %s = %s * %lld / %lld, %s = (%s + 1) * %lld / %lld;", from,
              chunk, total, chunks, to, chunk, total, chunks);
    if (n->nlead == n->ninner) { /* one loop in all */
        g->cut[0].from = from;
        g->cut[0].to = to;
        columns(g, &c, 0, &e);
    } else {
        zero(g, &c, &e);
        if (n->nlead == 1) {
            c_open_loop(g, 0, from, to, &e);
        } else {
            c_split(g, 0, n->nlead, c_for(g, "row", from, to), &e);
        }
        columns(g, &c, n->nlead, &e);
    }
}

/* ---- combine ------------------------------------------------------------------------------ */

void c_combine(CGen *g)
{
    CodeEnv e = {0};
    const int nout = g->c.k->nout;
    c_units(g, &e);
    c_open_loops(g, 0, c_loops(g), -1, &e);
    for (int r = 0; r < nout; r++) {
        int64_t elements;
        const Operand *to = &g->c.k->operand[nout + r];
        const Operand dense = code_dense(to, &elements);
        const Ins *sum = sum_of(g, (size_t)r);
        const char *acc = declare_long(g, sum);
        const char *chunk =
            c_for(g, "chunk", "0", arena_printf(g->c.a, "%lld", (long long)g->c.k->chunks));
        const char *base =
            elements == 1 ? chunk : arena_printf(g->c.a, "%s * %lld", chunk, (long long)elements);
        add(g, sum, acc, false,
            c_loaded(g, to->type.dtype, code_element(&g->c, r, &dense, &e, base)));
        c_close(g);
        code_line(&g->c, "%s = %s;", code_element(&g->c, nout + r, to, &e, NULL),
                  c_stored(g, to->type.dtype, (Text){acc, NAMED}));
    }
}
