/* weigh.c - pass weigh: gradients of what experts give are weighed where the experts are, and so
 * are the gradients of the weights made there.
 *
 *   before:  gz = dispatch g, c, s, w                    weighed rows are sent to the experts
 *            gw = combine_weight z, g, c, s              z, which was sent back, is sent once more
 *   after:   gu = dispatch g, c, s;  ws = dispatch 1, c, s, w    [experts, group, slot]
 *            gz = mul gu, ws
 *            d = sum (mul z, gu) over what a row is      [experts, group, slot]
 *            gw = combine_weight d, 1, c, s
 *
 * The forward part sends z to the positions, and keeps it, or computes it again, where the experts
 * are. The gradient of a weight needs a row of z and the gradient of its position side by side: the
 * latter comes to the expert anyhow. So instead of all rows of z two numbers a slot are sent. Each
 * weighed row has the bits that it had: one product, rounded once.
 *
 * Programs whose ranks send no rows, as that of one rank, stay as they are: it would be one more
 * pass over memory.
 *
 * why here: the gradients exist; before quantize, which rounds weighed rows. */
#include "passes/passes.h"
#include "passes/spmd/sent.h"
#include "passes/walk.h"

/* The instruction that weighs the gradients of which i multiplies z by. */
static Ins *weighs(const Region *r, const Ins *i)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *d = r->ins.data[k];
        if (d->op == OP_dispatch && d->nin == 4 && d->in[0] == i->in[1] && d->in[1] == i->in[2] &&
            d->in[2] == i->in[3] && attrs_equal(OP_dispatch, &d->attrs, &i->attrs))
            return d;
    }
    return NULL;
}

/* One number for each position, 1, of the type that weights of such rows have. */
static Value ones(Builder *b, Value choice, const Attrs *a, DType wide)
{
    const Type *c = type_of(b->m, choice);
    Type t = {.dtype = wide};
    for (int k = 0; k < c->rank; k++)
        if (!dims_have(&a->over, c->dims[k].name))
            t.dims[t.rank++] = c->dims[k];
    return build_filled(b, t, 1);
}

/* A copy of `last` gives what i gave. */
static void give(Builder *b, const Ins *i, Value last)
{
    const Type t = *type_of(b->m, i->out[0]);
    const Attrs none = {0};
    Ins *copy = build_typed(b, OP_copy, &none, 1, &last, 1, &t, NULL);
    copy->out[0] = i->out[0];
    b->m->values.data[i->out[0]].def = copy;
}

/* d as rows that are not weighed, and weighed then; the former. */
static Value weighed_there(Builder *b, const Ins *d)
{
    const DType as = type_of(b->m, d->in[0])->dtype, wide = dtype_wide(as);
    const Value rows = build(b, OP_dispatch, &d->attrs, 3, d->in);
    const Value x = build_cast(b, rows, wide);
    const Value in[] = {ones(b, d->in[1], &d->attrs, wide), d->in[1], d->in[2], d->in[3]};
    const Value weight = build(b, OP_dispatch, &d->attrs, 4, in);
    const Value of_rows = build_as(b, weight, *type_of(b->m, x));
    give(b, d, build_cast(b, build2(b, OP_mul, x, of_rows), as));
    return rows;
}

/* i of the rows that come to the experts. */
static void made_there(Builder *b, const Ins *i, Value rows)
{
    const DType wide = dtype_wide(type_of(b->m, rows)->dtype);
    const Value y = build_cast(b, rows, wide);
    const Value z = build_as(b, build_cast(b, i->in[0], wide), *type_of(b->m, y));
    const Type *t = type_of(b->m, y), *choice = type_of(b->m, i->in[2]);
    DimList row = {0};
    for (int k = 0; k < t->rank; k++) {
        const Dim d = t->dims[k];
        if (d.name != i->attrs.dim.name && d.name != i->attrs.to.name &&
            type_find(choice, d.name) < 0)
            row.dim[row.n++] = d;
    }
    const Value in[] = {build_sum(b, build2(b, OP_mul, z, y), &row),
                        ones(b, i->in[2], &i->attrs, wide), i->in[2], i->in[3]};
    give(b, i, build(b, OP_combine_weight, &i->attrs, 4, in));
}

/* Of a dispatch that is weighed where the experts are, what it sends. */
typedef struct Rows {
    const Ins *of;
    Value rows;
} Rows;

static void region(Module *m, Region *r, Arena *tmp)
{
    const Region was = *r;
    VEC(Rows) sent = {0};
    for (size_t k = 0; k < was.ins.n; k++) {
        Ins *i = was.ins.data[k];
        Ins *d = i->op == OP_combine_weight && rows_sent(m, i) ? weighs(&was, i) : NULL;
        if (d)
            vec_push(tmp, &sent, ((Rows){.of = d}));
        if (i->body)
            region(m, i->body, tmp);
    }
    if (!sent.n)
        return;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < was.ins.n; k++) {
        Ins *i = was.ins.data[k];
        Builder b = builder_at(m, r, i);
        Rows *rows = NULL;
        const Ins *d = i->op == OP_combine_weight ? weighs(&was, i) : i;
        for (size_t n = 0; n < sent.n; n++)
            rows = sent.data[n].of == d ? &sent.data[n] : rows;
        if (rows && i == d)
            rows->rows = weighed_there(&b, i);
        else if (rows && rows->rows)
            made_there(&b, i, rows->rows);
        else
            vec_push(m->arena, &r->ins, i);
    }
}

PassStatus pass_weigh(Job *j)
{
    Fn *train = module_fn(j->m, "train");
    if (train && j->m->layout.mesh.n)
        region(j->m, train->body, j->tmp);
    return PASS_ok;
}
