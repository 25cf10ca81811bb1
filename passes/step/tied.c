/* tied.c - a table that is looked up and multiplied by has a gradient of two parts. Where layers
 * are stages on several ranks, one is made on the first of them and one on the last:
 *
 *   before:  give loss, add (scatter_add ...), (dot ...)
 *   after:   give loss, scatter_add ..., dot ...
 *
 * Over the microbatches each is added up where it is made; the sums are added afterwards. */
#include "passes/step/tied.h"
#include "passes/simplify/simplify.h"

typedef struct Parts {
    Builder b;
    const StageSet *at;
    Value sum[2]; /* of what is known at the first stage (or all), and of the rest */
    bool mixed;   /* a term is of neither */
} Parts;

static void add_term(Parts *p, Value v, StageSet at)
{
    Value *sum = &p->sum[at & AT_FIRST ? 0 : 1];
    *sum = *sum ? build2(&p->b, OP_add, *sum, v) : v;
}

/* Adds up the terms of v, as values of its type. */
static void terms(Parts *p, Value v)
{
    Module *m = p->b.m;
    const Ins *i = m->values.data[v].def;
    Parts inner = {.b = p->b, .at = p->at};
    if (p->at[v]) {
        add_term(p, v, p->at[v]);
    } else if (i && i->op == OP_add && i->home == p->b.region) {
        terms(p, i->in[0]);
        terms(p, i->in[1]);
    } else if (i && (i->op == OP_cast || i->op == OP_copy) && i->home == p->b.region) {
        terms(&inner, i->in[0]);
        p->mixed |= inner.mixed;
        for (int k = 0; k < 2; k++)
            if (inner.sum[k])
                add_term(
                    p,
                    build_typed(&p->b, i->op, &i->attrs, 1, &inner.sum[k], 1, type_of(m, v), NULL)
                        ->out[0],
                    k ? AT_LAST : AT_FIRST);
    } else {
        p->mixed = true;
    }
}

uint32_t *tied_split(Module *m, Fn *fn, Arena *tmp)
{
    Region *body = fn->body;
    uint32_t *other = NEW_ARRAY(tmp, uint32_t, fn->results.n);
    const StageSet *at = ir_available(m, body, fn, tmp);
    bool changed = false;
    for (size_t k = 0; k < fn->results.n; k++) {
        Value v = body->results.data[k];
        if (fn->results.data[k].role != RES_grad || at[v])
            continue;
        Parts p = {.b = {.m = m, .region = body, .backward = true}, .at = at};
        terms(&p, v);
        if (p.mixed || !p.sum[0] || !p.sum[1])
            continue; /* what is wrong is told of the program of all ranks */
        Type t = *type_of(m, v);
        body->results.data[k] = build_as(&p.b, p.sum[0], t);
        vec_push(m->arena, &body->results, build_as(&p.b, p.sum[1], t));
        other[k] = (uint32_t)body->results.n;
        changed = true;
    }
    if (changed)
        simplify_dce(m, fn, tmp); /* the sums */
    return other;
}

Value tied_sum(Builder *b, const Ins *loop, const uint32_t *other, size_t k)
{
    Builder sums = *b;
    sums.backward = true;
    return other && other[k] ? build2(&sums, OP_add, loop->out[k], loop->out[other[k] - 1])
                             : loop->out[k];
}
