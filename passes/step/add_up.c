/* add_up.c - see add_up.h. */
#include "passes/step/add_up.h"
#include "passes/step/even.h"

#include "passes/simplify/accumulate.h"
#include "passes/step/tree.h"
#include "passes/walk.h"

#include <string.h>

typedef struct Adder {
    Builder b;
    Uses uses;
    VEC(Ins *) views; /* of running sums: they are put before everything else */
    Arena *tmp;
    bool tree;
    const Rounding *round; /* of the sum at hand; NULL: it is of the type of what is added */
} Adder;

/* A running sum, or a part of it. */
typedef struct Sum {
    Value acc;          /* 0: it begins here */
    Value at[MAX_RANK]; /* Rounding.at, of its elements */
} Sum;

/* acc + v, where v is computed by itself. */
static Value added_apart(const Adder *a, Builder *b, Value v, const Sum *s)
{
    if (a->tree)
        return tree_add(b, s->acc, v);
    Rounding r = *a->round;
    memcpy(r.at, s->at, sizeof r.at);
    const DType wide = type_of(b->m, v)->dtype;
    if (r.sent && s->acc)
        v = build_cast(b, build_cast(b, v, DT_bf16), wide);
    const Value sum = s->acc ? build2(b, OP_add, build_cast(b, s->acc, wide), v) : v;
    return r.nearest ? build_cast(b, sum, DT_bf16) : round_at_random(b, sum, &r);
}

/* The part of a sum that an iteration of a loop adds to. */
static Sum slice_of_sum(const Adder *a, Ins *loop, const Sum *s)
{
    Module *m = a->b.m;
    Sum part = *s;
    if (s->acc)
        part.acc = repeat_slice(m, loop, s->acc);
    for (int k = 0; k < MAX_RANK; k++) {
        if (!s->at[k] || type_find(type_of(m, s->at[k]), loop->attrs.dim.name) < 0)
            continue;
        const Ins *all = m->values.data[s->at[k]].def; /* or a view of it */
        part.at[k] = all && all->op == OP_iota ? loop->body->args.data[loop->nin]
                                               : repeat_slice(m, loop, s->at[k]);
    }
    return part;
}

/* v now has the type of the sum that is made in its place. */
static Value in_its_place(const Adder *a, Value v)
{
    if (a->round)
        a->b.m->values.data[v].type.dtype = DT_bf16;
    return v;
}

/* acc + v where v is what a loop of region r stacks: each of its iterations adds its own. */
static bool added_by_iterations(Adder *a, const Region *r, Value v, const Sum *s)
{
    Module *m = a->b.m;
    Ins *loop = m->values.data[v].def;
    if (!loop || loop->op != OP_repeat || loop->home != r || a->uses.count[v] != 1)
        return false;
    uint32_t k = 0;
    while (loop->out[k] != v)
        k++;
    if (k < (uint32_t)loop->attrs.carried)
        return false;
    Value *part = &loop->body->results.data[k];
    const Sum slice = slice_of_sum(a, loop, s);
    if (!added_by_iterations(a, loop->body, *part, &slice)) {
        Builder b = builder_at(m, loop->body, loop);
        *part = added_apart(a, &b, *part, &slice);
    }
    in_its_place(a, v);
    return true;
}

static Value view(Adder *a, Op op, const Attrs *attrs, Value of)
{
    Value v = build(&a->b, op, attrs, 1, &of);
    vec_push(a->tmp, &a->views, a->b.region->ins.data[--a->b.region->ins.n]);
    return v;
}

static Sum view_of_sum(Adder *a, Op op, const Attrs *attrs, Dim along, const Sum *s)
{
    Sum part = *s;
    if (s->acc)
        part.acc = view(a, op, attrs, s->acc);
    for (int k = 0; k < MAX_RANK; k++)
        if (s->at[k] && type_find(type_of(a->b.m, s->at[k]), along.name) >= 0)
            part.at[k] = view(a, op, attrs, s->at[k]);
    return part;
}

static Value added(Adder *a, Value v, const Sum *s);

/* Zeros where a tensor has padding, so that ranks receive parts of one size of what is joined
 * (pad_gradients): a sum of such parts has no parts of its own. */
static bool is_scattered(const Module *m, const Ins *join)
{
    const Ins *last = m->values.data[join->in[join->nin - 1]].def;
    const Ins *from = last && last->op == OP_copy ? m->values.data[last->in[0]].def : NULL;
    return splits_gradients(m) && from && from->op == OP_const && from->attrs.value == 0;
}

/* Adds to a join part by part, and to a merge before it is merged. 0: v is neither. */
static Value added_by_parts(Adder *a, Value v, const Sum *s)
{
    Module *m = a->b.m;
    Ins *i = m->values.data[v].def;
    if (!i || i->home != a->b.region || a->uses.count[v] != 1)
        return 0;
    if (i->op == OP_merge) {
        const Sum split = view_of_sum(a, OP_split, &i->attrs, i->attrs.dim, s);
        Value x = added(a, i->in[0], &split);
        return x == i->in[0] ? in_its_place(a, v) : build(&a->b, OP_merge, &i->attrs, 1, &x);
    }
    if (i->op != OP_join || !join_is_outermost(m, i) || is_scattered(m, i))
        return 0;
    Value *part = NEW_ARRAY(a->tmp, Value, i->nin);
    bool same = true;
    int64_t at = 0;
    for (uint32_t k = 0; k < i->nin; k++) {
        Attrs w = {.along = type_of(m, i->in[k])->dims[0], .at = at};
        const Sum window = view_of_sum(a, OP_window, &w, w.along, s);
        part[k] = added(a, i->in[k], &window);
        same &= part[k] == i->in[k];
        at += w.along.size;
    }
    return same ? in_its_place(a, v) : build(&a->b, OP_join, &i->attrs, (int)i->nin, part);
}

/* acc + v, in place where that can be. */
static Value added(Adder *a, Value v, const Sum *s)
{
    const bool apart = a->tree || a->round;
    /* Counts of values made since are not in `uses`; none of those is asked for. */
    if (apart ? added_by_iterations(a, a->b.region, v, s)
              : accumulate_into(a->b.m, a->b.region, &a->uses, v, s->acc))
        return v;
    Value sum = added_by_parts(a, v, s);
    if (sum || apart)
        return sum ? sum : added_apart(a, &a->b, v, s);
    Type t = *type_of(a->b.m, v);
    Value in[] = {s->acc, v};
    return build_typed(&a->b, OP_add, NULL, 2, in, 1, &t, NULL)->out[0];
}

/* The index along each dim of a sum, from the beginning of the body on. */
static void number_dims(Adder *a, const Tensor *t, Sum *s)
{
    for (int k = 0; k < t->type.rank; k++) {
        s->at[k] = build_iota(&a->b, DT_i32, t->type.dims[k]);
        vec_push(a->tmp, &a->views, a->b.region->ins.data[--a->b.region->ins.n]);
    }
}

void add_up(Module *m, Region *body, const Value *acc, const Rounding *round, bool backward,
            Arena *tmp)
{
    Adder a = {
        .b = {.m = m, .region = body, .backward = backward}, .tmp = tmp, .tree = m->train.tree};
    a.uses = ir_uses(m, body, tmp);
    for (size_t k = 0; k < body->results.n; k++) {
        Sum s = {.acc = acc ? acc[k] : 0};
        a.round = round[k].tensor ? &round[k] : NULL;
        if (!a.round && !acc)
            continue;
        if (a.round && !a.round->nearest)
            number_dims(&a, a.round->tensor, &s);
        body->results.data[k] = added(&a, body->results.data[k], &s);
    }
    Ins **rest = body->ins.data;
    size_t n = body->ins.n;
    body->ins.data = NULL;
    body->ins.n = body->ins.cap = 0;
    for (size_t k = 0; k < a.views.n; k++)
        vec_push(m->arena, &body->ins, a.views.data[k]);
    for (size_t k = 0; k < n; k++)
        vec_push(m->arena, &body->ins, rest[k]);
}
