/* sink.c - attention with a sink becomes attention without one, of which the sink takes its share.
 *
 *   before:  %o, %lse = attention %q, %k, %v, %sink {sunk}
 *   after:   %o0, %lse0 = attention %q, %k, %v
 *            %lse = log(exp %lse0 + exp %sink), from the larger of the two
 *            %o = %o0 exp(%lse0 - %lse)
 *
 * The gradients of attention need nothing of this: they take o and lse as they are with the sink
 * (vjp.c). So this comes after differentiation, and before the program is divided over ranks: what
 * is computed here is computed for each query by itself. */
#include "passes/passes.h"
#include "passes/walk.h"

/* Of two values, in the dims of `like`. */
static Value of_type(Builder *b, Op op, Value x, Value y, const Type *like)
{
    return build_typed(b, op, NULL, 2, (Value[]){x, y}, 1, like, NULL)->out[0];
}

/* log(e^a + e^b) of two scores. */
static Value log_of_both(Builder *b, Value x, Value y, const Type *like)
{
    const Value top = of_type(b, OP_max, x, y, like);
    const Value ex = build1(b, OP_exp, build2(b, OP_sub, x, top));
    const Value ey = build1(b, OP_exp, of_type(b, OP_sub, y, top, like));
    return build2(b, OP_add, top, build1(b, OP_log, build2(b, OP_add, ex, ey)));
}

static void lower(Builder *b, const Ins *i, Value out[2])
{
    Module *m = b->m;
    Value in[7], both[2];
    int n = 0;
    for (uint32_t k = 0; k < i->nin; k++)
        if (k != 3)
            in[n++] = i->in[k];
    Attrs a = i->attrs;
    a.sunk = false;
    const Type types[2] = {*type_of(m, i->out[0]), *type_of(m, i->out[1])};
    const Ins *plain = build_typed(b, OP_attention, &a, n, in, 2, types, NULL);
    out[1] = log_of_both(b, plain->out[1], i->in[3], &types[1]);
    both[0] = build_cast(b, plain->out[0], types[1].dtype);
    both[1] = build1(b, OP_exp, build2(b, OP_sub, plain->out[1], out[1]));
    out[0] = build_cast(b, build(b, OP_mul, NULL, 2, both), types[0].dtype);
    for (int k = 0; k < 2; k++)
        m->values.data[out[k]].name = m->values.data[i->out[k]].name;
}

static void region(Module *m, Region *r, ValueMap *map)
{
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        for (uint32_t x = 0; x < i->nin; x++)
            i->in[x] = map_get(map, i->in[x]);
        if (i->body)
            region(m, i->body, map);
        if (i->op != OP_attention || !i->attrs.sunk) {
            vec_push(m->arena, &r->ins, i);
            continue;
        }
        Value out[2];
        Builder b = builder_at(m, r, i);
        lower(&b, i, out);
        for (int x = 0; x < 2; x++)
            map_set(m, map, i->out[x], out[x]);
    }
    for (size_t k = 0; k < r->results.n; k++)
        r->results.data[k] = map_get(map, r->results.data[k]);
}

PassStatus pass_sink(Job *j)
{
    for (size_t f = 0; f < j->m->fns.n; f++) {
        ValueMap map = {0};
        region(j->m, j->m->fns.data[f]->body, &map);
    }
    return PASS_ok;
}
