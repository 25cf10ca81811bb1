/* halved_caches.c - caches of keys and values are kept in halves, as attention reads them; part of
 * the pass precision.
 *
 *   before:  %c: f32 = put %x, %at, %cache    after:  %x2: bf16 = cast %x
 *            %c2: bf16 = cast %c                      %c: bf16 = put %x2, %at, %cache
 *            attention %q, %c2, ...                   attention %q, %c, ...
 *
 * Values that are read of a cache through views, look-ups and joins are in halves, too; one that is
 * joined to these is rounded first, as it would be afterwards. A number is rounded once either way.
 * A cache that anything reads in f32 stays f32, in both functions; with prompts that are read once
 * for several texts the two have a cache each, which are in the same halves, or not. */
#include "passes/model/halves.h"
#include "passes/walk.h"

typedef struct Caches {
    Module *m;
    bool *member; /* per value: what becomes of one cache */
    bool changed, good;
} Caches;

static bool is(const Caches *c, Value v)
{
    return c->member[v];
}

static void join(Caches *c, Value from, Value to)
{
    c->changed |= c->member[from] && !c->member[to];
    c->member[to] |= c->member[from];
}

/* Of an instruction whose result has numbers of a cache as they are: the operand that is the cache,
 * or `nin`. What a join puts together is any of them. */
static uint32_t passes_on(const Caches *c, const Ins *i)
{
    uint32_t k = i->nin;
    if (i->op == OP_put)
        return 2;
    if (OP_AMONG(i->op, OP_gather, OP_window, OP_pick, OP_rename, OP_copy))
        return 0;
    for (uint32_t n = 0; i->op == OP_join && n < i->nin; n++)
        k = is(c, i->in[n]) ? n : k;
    return k;
}

static void follow(void *ctx, Ins *i)
{
    Caches *c = ctx;
    const uint32_t carried = (uint32_t)i->attrs.carried, k = passes_on(c, i);
    if (k < i->nin)
        join(c, i->in[k], i->out[0]);
    for (uint32_t k = carried; i->op == OP_repeat && k < i->nin; k++)
        join(c, i->in[k], i->body->args.data[k]);
    for (uint32_t k = carried; i->op == OP_repeat && k < i->nout; k++)
        join(c, i->body->results.data[k], i->out[k]);
}

static void look(void *ctx, Ins *i)
{
    Caches *c = ctx;
    const uint32_t carried = (uint32_t)i->attrs.carried;
    for (uint32_t k = 0; k < i->nin; k++)
        if (is(c, i->in[k]))
            c->good &= (i->op == OP_repeat && k >= carried) || i->op == OP_join ||
                       k == passes_on(c, i) ||
                       (i->op == OP_cast && type_of(c->m, i->out[0])->dtype == c->m->train.half);
    for (uint32_t k = 0; i->op == OP_repeat && k < carried; k++)
        c->good &= !is(c, i->body->results.data[k]);
}

/* A value per function is the cache; which values it becomes. */
static void find(Caches *c, const Fn *fn, uint32_t number)
{
    bool found = false;
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == ARG_cache && fn->args.data[k].tensor == number) {
            c->member[fn->body->args.data[k]] = found = true;
            c->good &= type_of(c->m, fn->body->args.data[k])->dtype == DT_f32;
        }
    do {
        c->changed = false;
        each_ins(fn->body, follow, c);
    } while (c->changed);
    each_ins(fn->body, look, c);
    for (size_t k = 0; k < fn->results.n; k++)
        if (is(c, fn->body->results.data[k]))
            c->good &=
                fn->results.data[k].role == RES_cache && fn->results.data[k].tensor == number;
    c->good &= found;
}

/* Rows are rounded before they are put into a member, or joined to one. */
static void round_added(Caches *c, Region *r)
{
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Builder b = builder_at(c->m, r, i);
        if (i->body)
            round_added(c, i->body);
        const bool put = i->op == OP_put && is(c, i->in[2]);
        for (uint32_t x = 0; x < i->nin; x++)
            if ((put && x == 0) || (i->op == OP_join && is(c, i->out[0]) && !is(c, i->in[x])))
                i->in[x] = build_cast(&b, i->in[x], c->m->train.half);
        vec_push(c->m->arena, &r->ins, i);
    }
}

void halved_caches(Module *m, Arena *tmp)
{
    enum { FUNCTIONS = 2 };
    const char *const names[FUNCTIONS] = {"prefill", "decode"};
    Fn *fn[FUNCTIONS];
    uint32_t first[FUNCTIONS];
    size_t caches = 0;
    for (int f = 0; f < FUNCTIONS; f++) {
        fn[f] = module_fn(m, names[f]);
        if (!fn[f])
            return;
        first[f] = UINT32_MAX;
        for (size_t k = 0; k < fn[f]->args.n; k++) {
            const FnArg a = fn[f]->args.data[k];
            caches += f == 0 && a.role == ARG_cache;
            first[f] = a.role == ARG_cache && a.tensor < first[f] ? a.tensor : first[f];
        }
    }
    for (uint32_t number = 0; number < caches; number++) {
        const size_t values = m->values.n;
        Caches c = {.m = m, .member = NEW_ARRAY(tmp, bool, values), .good = true};
        for (int f = 0; f < FUNCTIONS; f++)
            find(&c, fn[f], first[f] + number);
        for (int f = 0; f < FUNCTIONS && c.good; f++)
            round_added(&c, fn[f]->body);
        for (size_t v = 0; v < values && c.good; v++)
            if (c.member[v])
                m->values.data[v].type.dtype = m->train.half;
    }
}
