/* parts.c - what one microbatch computes of the whole batch.
 *
 * In a microbatch every value is one of three things:
 *   own   it has the batch dim: the rows of the whole-batch value that this microbatch is about
 *   same  it does not depend on the batch: equal to the whole-batch value in every microbatch
 *   part  it was summed over the batch: the whole-batch value is the sum over the microbatches
 * A sum over the batch of what comes from the inputs alone, or is drawn, is none of them: it is
 * computed before the microbatches, of the whole batch, and then the same in all. Sums, products
 * with what is the same, and casts of parts are parts; anything else done to a part would mix rows
 * that are not there (a mean over the batch inside the model), and is refused. */
#include "passes/step/parts.h"
#include "passes/walk.h"
#include "ir/propose.h"

/* ---- the batch becomes a microbatch ---------------------------------------------------------- */

int64_t fn_rows(const Module *m, const Fn *fn)
{
    for (size_t k = 0; k < fn->args.n; k++) {
        const Type *t = type_of(m, fn->body->args.data[k]);
        int at = fn->args.data[k].role > ARG_state ? type_find(t, m->batch.name) : -1;
        if (at >= 0)
            return t->dims[at].size;
    }
    return 0;
}

static void resize_dim(const Microbatches *r, Dim *d)
{
    if (d->name == r->batch)
        d->size = r->size;
}

static void resize_value(const Microbatches *r, Value v)
{
    Type *t = &r->m->values.data[v].type;
    for (int i = 0; i < t->rank; i++)
        resize_dim(r, &t->dims[i]);
}

static void resize_attrs(const Microbatches *r, Attrs *a)
{
    resize_dim(r, &a->dim);
    resize_dim(r, &a->along);
    resize_dim(r, &a->to);
    resize_dim(r, &a->keys);
    for (int i = 0; i < a->over.n; i++)
        resize_dim(r, &a->over.dim[i]);
}

void microbatches_resize(const Microbatches *r, Region *body)
{
    for (size_t k = 0; k < body->args.n; k++)
        resize_value(r, body->args.data[k]);
    for (size_t n = 0; n < body->ins.n; n++) {
        Ins *i = body->ins.data[n];
        resize_attrs(r, &i->attrs);
        for (uint32_t k = 0; k < i->nout; k++)
            resize_value(r, i->out[k]);
        if (i->body)
            microbatches_resize(r, i->body);
    }
}

static bool has_batch(const Microbatches *r, Value v)
{
    return type_find(type_of(r->m, v), r->batch) >= 0;
}

/* ---- finding ------------------------------------------------------------------------------- */

bool ins_adds(const Ins *i, uint32_t k)
{
    return op_is(i->op, ADDITIVE) || (i->op == OP_select && k > 0) ||
           (OP_AMONG(i->op, OP_dot, OP_scatter_add) && k == 2) ||
           (i->op == OP_grouped_weight && k == 3);
}

bool ins_is_linear(const Module *m, const Ins *i, uint32_t k)
{
    if (ins_adds(i, k) || op_is(i->op, LINEAR))
        return true;
    if (i->op == OP_cast)
        return dtype_is_float(type_of(m, i->out[0])->dtype);
    if (OP_AMONG(i->op, OP_mul, OP_dot, OP_combine_weight, OP_grouped, OP_grouped_weight))
        return k < 2; /* of both factors, as the rows and what comes to them */
    if (OP_AMONG(i->op, OP_div, OP_gather, OP_scatter_add))
        return k == 0;
    if (OP_AMONG(i->op, OP_attention_grad, OP_attention_bias_grad))
        return k == 5; /* in what comes back to its result */
    if (OP_AMONG(i->op, OP_dispatch, OP_combine))
        return k == 0 || k == 3; /* in the rows, and in their weights */
    return i->op == OP_cross_entropy_grad && k == 3;
}

/* Is the op linear in a part at operand k, given that no other operand but added ones is a part? */
static bool linear(const Microbatches *r, const Ins *i, uint32_t k)
{
    if (!ins_is_linear(r->m, i, k))
        return false;
    if (ins_adds(i, k) || op_is(i->op, LINEAR) || i->op == OP_cast)
        return true;
    const bool two = OP_AMONG(i->op, OP_mul, OP_dot, OP_div, OP_gather, OP_scatter_add);
    for (uint32_t o = 0; o < (two ? 2 : i->nin); o++)
        if (o != k && (r->part[i->in[o]] || has_batch(r, i->in[o])))
            return false;
    return true;
}

/* Ops that sum over dims: over the batch they make parts. */
static bool sums(Op op)
{
    return op == OP_sum || op == OP_dot || op == OP_scatter_add || op == OP_attention_grad ||
           op == OP_attention_bias_grad || op == OP_cross_entropy_grad || op == OP_head ||
           op == OP_grouped_weight;
}

static bool refuse(const Microbatches *r, const Ins *i, const char *what)
{
    diag_error(r->m->diag, i->span, 522, "%s cannot be computed one microbatch at a time ('%s')",
               what, op_info[i->op].name);
    /* A pipeline takes even a whole batch as a microbatch: there it does not help. */
    propose_microbatch(r->m->diag, &r->m->layout, r->m->batch.size / mesh_batch_ranks(r->m));
    return false;
}

/* Ops that look along a dim and would see one microbatch of it. */
static bool along_batch(const Microbatches *r, const Ins *i)
{
    const Attrs *a = &i->attrs;
    if (a->along.name == r->batch || a->to.name == r->batch || a->keys.name == r->batch)
        return true;
    if (a->dim.name == r->batch && i->op != OP_iota)
        return true;
    return dims_have(&a->over, r->batch) && !sums(i->op);
}

/* Are numbers drawn for each row, one row after the other? */
static bool draws_rows(const Microbatches *r, const Ins *i)
{
    return i->op == OP_random && has_batch(r, i->out[0]) &&
           type_of(r->m, i->out[0])->dims[0].name == r->batch;
}

/* Does i only rearrange and combine what comes from the inputs, or is drawn, each row by itself? */
static bool from_inputs(const Microbatches *r, const Ins *i)
{
    bool known = op_is(i->op, POINTWISE | VIEW) || i->op == OP_cast || i->op == OP_const ||
                 i->op == OP_sum || i->op == OP_rmax || draws_rows(r, i) ||
                 (i->op == OP_iota && i->attrs.dim.name != r->batch);
    known = known && i->op != OP_copy && i->home == r->top &&
            type_of(r->m, i->out[0])->rank < MAX_RANK; /* the dim of microbatches is to come */
    for (uint32_t k = 0; k < i->nin && known; k++)
        known = r->given[i->in[k]];
    return known;
}

static bool find_ins(Microbatches *r, const Ins *i)
{
    bool own = false, part = false;
    if (from_inputs(r, i)) {
        if (i->op == OP_random)
            r->slot[i->out[0]] = i->in[2];
        bool over = dims_have(&i->attrs.over, r->batch);
        r->whole[i->out[0]] = i->op == OP_sum && over;
        r->given[i->out[0]] = !over;
        if (r->whole[i->out[0]])
            return true;
    }
    if (along_batch(r, i))
        return refuse(r, i, "what looks along the batch");
    if (i->op == OP_random && has_batch(r, i->out[0]) && !draws_rows(r, i))
        return refuse(r, i, "random numbers whose outermost dim is not the batch");
    for (uint32_t k = 0; k < i->nin; k++) {
        own |= has_batch(r, i->in[k]);
        part |= r->part[i->in[k]];
        if (r->part[i->in[k]] && !linear(r, i, k))
            return refuse(r, i, "a number that depends on the sum over the batch");
    }
    for (uint32_t k = 0; k < i->nout; k++) {
        bool mixed = has_batch(r, i->out[k]);
        if (mixed && part)
            return refuse(r, i, "a row of the batch that depends on the sum over the batch");
        if (!mixed && own && !sums(i->op))
            return refuse(r, i, "one row of the batch");
        r->part[i->out[k]] = !mixed && (own || part);
    }
    return true;
}

static bool find_region(Microbatches *r, const Region *body);

static bool find_repeat(Microbatches *r, const Ins *i)
{
    const Region *body = i->body;
    size_t carried = (size_t)i->attrs.carried;
    if (i->attrs.dim.name == r->batch)
        return refuse(r, i, "a repeat over the batch");
    for (uint32_t k = 0; k < i->nin; k++)
        r->part[body->args.data[k]] |= r->part[i->in[k]];
    for (bool changed = true; changed;) {
        if (!find_region(r, body))
            return false;
        changed = false;
        for (size_t k = 0; k < carried; k++) {
            bool *arg = &r->part[body->args.data[k]], more = r->part[body->results.data[k]];
            changed |= more && !*arg;
            *arg |= more;
        }
    }
    for (uint32_t k = 0; k < i->nout; k++)
        r->part[i->out[k]] = r->part[k < carried ? body->args.data[k] : body->results.data[k]];
    return true;
}

static bool find_region(Microbatches *r, const Region *body)
{
    for (size_t n = 0; n < body->ins.n; n++) {
        const Ins *i = body->ins.data[n];
        if (i->op == OP_repeat ? !find_repeat(r, i) : !find_ins(r, i))
            return false;
    }
    return true;
}

bool parts_find(Microbatches *r, const Fn *fn, Arena *a)
{
    Region *body = fn->body;
    r->part = NEW_ARRAY(a, bool, r->m->values.n);
    r->given = NEW_ARRAY(a, bool, r->m->values.n);
    r->whole = NEW_ARRAY(a, bool, r->m->values.n);
    r->slot = NEW_ARRAY(a, Value, r->m->values.n);
    r->top = body;
    r->classified = r->m->values.n;
    for (size_t k = 0; k < body->args.n; k++) { /* of the arguments, inputs alone have the batch */
        const ArgRole role = fn->args.data[k].role;
        r->given[body->args.data[k]] = has_batch(r, body->args.data[k]) || role == ARG_step ||
                                       role == ARG_seed || role == ARG_before;
    }
    return find_region(r, body);
}

/* ---- adjusting ----------------------------------------------------------------------------- */

typedef struct Adjust {
    Microbatches *r;
    ValueMap map;
    size_t known; /* values that were classified */
} Adjust;

static bool is_part(const Adjust *a, Value v)
{
    return v >= a->known || a->r->part[v];
}

/* A value that is the same in all microbatches, as the part of it that one microbatch contributes.
 */
static Value share(const Adjust *a, Builder *b, Value v)
{
    double known;
    if (is_part(a, v) || (value_is_const(b->m, v, &known) && known == 0))
        return v;
    a->r->shared = v;
    Value microbatches = build_const(b, type_of(b->m, v)->dtype, (double)a->r->microbatches);
    return build2(b, OP_div, v, microbatches);
}

/* The same of a result of the region. What a repeat stacks is divided as its iterations make it:
 * stages of a pipeline are several on a rank, which has one of them at a time. */
static Value share_result(const Adjust *a, Builder *b, const Uses *uses, Value v)
{
    Module *m = b->m;
    const Ins *loop = m->values.data[v].def;
    uint32_t k = 0;
    if (is_part(a, v) || !loop || loop->op != OP_repeat || loop->home != b->region ||
        uses->count[v] != 1)
        return share(a, b, v);
    while (loop->out[k] != v)
        k++;
    Value *part = &loop->body->results.data[k];
    if (k < (uint32_t)loop->attrs.carried)
        return share(a, b, v);
    Builder inner = builder_at(m, loop->body, loop);
    *part = is_part(a, *part) ? *part : share_result(a, &inner, uses, *part);
    return v;
}

/* a number of rows before those of this microbatch, as dtype t */
static Value rows_before(const Adjust *a, Builder *b, DType t, Value rows)
{
    return build2(b, OP_mul, build_cast(b, a->r->index, t), rows);
}

static void adjust_iota(Adjust *a, Builder *b, Ins *i)
{
    Value v = i->out[0];
    DType t = type_of(b->m, v)->dtype;
    Value before = rows_before(a, b, t, build_const(b, t, (double)a->r->size));
    map_set(b->m, &a->map, v, build2(b, OP_add, v, before));
}

/* Element e of a tensor drawn at slot s is number s * elements + e of the stream: with
 * 1/microbatches of the elements, slot s becomes s * microbatches + microbatch. */
static void adjust_random(Adjust *a, Builder *b, Ins *i)
{
    Value microbatches = build_const(b, DT_i32, (double)a->r->microbatches);
    i->in[2] = build2(b, OP_add, build2(b, OP_mul, i->in[2], microbatches), a->r->index);
}

/* x[piece, row, ...] with these two as the batch. */
static Value as_batch(const Adjust *a, Builder *b, Value x, Dim row)
{
    const Microbatches *r = a->r;
    Attrs rename = {.dim = {.name = row.name, .size = r->size},
                    .to = {.name = r->batch, .size = r->size}};
    return build(b, OP_rename, &rename, 1, &x);
}

static Dim row_of_piece(const Microbatches *r)
{
    return (Dim){.name = name_intern(r->m->names, "row of piece"), .size = r->size / r->pieces};
}

/* Positions along a batch in pieces. */
static Value iota_of_pieces(const Adjust *a, Builder *b, const Ins *i)
{
    const Microbatches *r = a->r;
    DType t = type_of(b->m, i->out[0])->dtype;
    Dim row = row_of_piece(r);
    Dim piece = {.name = name_intern(b->m->names, "piece"), .size = r->pieces};
    Value before =
        build2(b, OP_mul, build_iota(b, t, piece), build_const(b, t, (double)r->microbatches));
    before = build2(b, OP_add, before, build_cast(b, r->index, t));
    before = build2(b, OP_mul, before, build_const(b, t, (double)row.size));
    Attrs merge = {.dim = row, .to = piece};
    Value x = build2(b, OP_add, before, build_iota(b, t, row));
    x = build(b, OP_merge, &merge, 1, &x);
    return as_batch(a, b, x, row);
}

/* Numbers drawn for a batch in pieces: each piece is drawn at a slot of its own. */
static Value random_of_pieces(const Adjust *a, Builder *b, const Ins *i)
{
    const Microbatches *r = a->r;
    Dim row = row_of_piece(r);
    Type t = *type_of(b->m, i->out[0]);
    Value part[RULE_OPERANDS], in[3] = {i->in[0], i->in[1], 0};
    t.dims[0] = row;
    for (int64_t p = 0; p < r->pieces; p++) {
        Value slot = build2(b, OP_mul, i->in[2], build_const(b, DT_i32, (double)r->pieces));
        slot = build2(b, OP_add, slot, build_const(b, DT_i32, (double)p));
        slot = build2(b, OP_mul, slot, build_const(b, DT_i32, (double)r->microbatches));
        in[2] = build2(b, OP_add, slot, r->index);
        part[p] = build_typed(b, OP_random, &i->attrs, 3, in, 1, &t, NULL)->out[0];
    }
    Attrs join = {.dim = {.name = row.name, .size = r->size}};
    return as_batch(a, b, build(b, OP_join, &join, (int)r->pieces, part), row);
}

static void adjust_region(Adjust *a, Region *body);

static void adjust_ins(Adjust *a, Region *home, Ins *i)
{
    const Microbatches *r = a->r;
    Builder b = builder_at(r->m, home, i);
    for (uint32_t k = 0; k < i->nin; k++)
        i->in[k] = map_get(&a->map, i->in[k]);
    bool along = (i->op == OP_random && has_batch(r, i->out[0])) ||
                 (i->op == OP_iota && i->attrs.dim.name == r->batch);
    if (along && r->pieces > 1) {
        map_set(r->m, &a->map, i->out[0],
                i->op == OP_random ? random_of_pieces(a, &b, i) : iota_of_pieces(a, &b, i));
        return;
    }
    if (along && i->op == OP_random)
        adjust_random(a, &b, i);
    bool part = i->nout && i->out[0] < a->known && r->part[i->out[0]]; /* the index is no part */
    if (i->op == OP_repeat) {
        for (int64_t k = 0; k < i->attrs.carried; k++)
            if (r->part[i->body->args.data[k]])
                i->in[k] = share(a, &b, i->in[k]);
        adjust_region(a, i->body);
        b.region = i->body;
        for (size_t k = 0; k < i->body->results.n; k++)
            if (r->part[i->out[k]])
                i->body->results.data[k] = share(a, &b, i->body->results.data[k]);
    } else if (part && OP_AMONG(i->op, OP_dot, OP_scatter_add, OP_grouped_weight) &&
               ins_added(i) >= 0) {
        bool product = is_part(a, i->in[0]) || is_part(a, i->in[1]) || has_batch(r, i->in[0]) ||
                       has_batch(r, i->in[1]);
        uint32_t k = product ? (uint32_t)ins_added(i) : 0;
        i->in[k] = share(a, &b, i->in[k]);
    } else if (part) {
        for (uint32_t k = 0; k < i->nin; k++)
            if (ins_adds(i, k))
                i->in[k] = share(a, &b, i->in[k]);
    }
    vec_push(r->m->arena, &home->ins, i);
    if (along && i->op == OP_iota)
        adjust_iota(a, &b, i);
}

static void adjust_region(Adjust *a, Region *body)
{
    Ins **old = body->ins.data;
    size_t n = body->ins.n;
    body->ins.data = NULL;
    body->ins.n = body->ins.cap = 0;
    for (size_t k = 0; k < n; k++)
        adjust_ins(a, body, old[k]);
    for (size_t k = 0; k < body->results.n; k++)
        body->results.data[k] = map_get(&a->map, body->results.data[k]);
}

void parts_adjust(Microbatches *r, Region *body)
{
    Adjust a = {.r = r, .known = r->classified};
    adjust_region(&a, body);
    Builder b = {.m = r->m, .region = body, .backward = true};
    Arena *tmp = arena_new();
    const Uses uses = ir_uses(r->m, body, tmp);
    for (size_t k = 0; k < body->results.n; k++)
        body->results.data[k] = share_result(&a, &b, &uses, body->results.data[k]);
    arena_free(tmp);
}

/* ---- the whole batch ----------------------------------------------------------------------- */

static Value whole_value(const Microbatches *r, Builder *b, ValueMap *map, Value v, Dim micro)
{
    const Ins *i = r->m->values.data[v].def;
    if (map_get(map, v) != v)
        return map_get(map, v);
    if (!i) /* a step, a seed */
        return v;
    Value in[3], out;
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = whole_value(r, b, map, k == 2 && r->slot[v] ? r->slot[v] : i->in[k], micro);
    Attrs attrs = i->attrs;
    if (i->op == OP_sum && dims_have(&attrs.over, r->batch))
        attrs.over.dim[attrs.over.n++] = micro;
    b->span = i->span;
    Type stacked;
    if (i->op == OP_const)
        out = build_const(b, type_of(r->m, v)->dtype, attrs.value);
    else if (i->op == OP_iota)
        out = build_iota(b, type_of(r->m, v)->dtype, attrs.dim);
    else if (i->op ==
             OP_random) { /* the same elements of the stream, one microbatch after the other */
        stacked = type_stacked(type_of(r->m, v), micro);
        out = build_typed(b, i->op, &attrs, 3, in, 1, &stacked, NULL)->out[0];
    } else if (i->op == OP_cast)
        out = build_cast(b, in[0], type_of(r->m, v)->dtype);
    else
        out = build(b, i->op, &attrs, (int)i->nin, in);
    map_set(r->m, map, v, out);
    return out;
}

void parts_whole(const Microbatches *r, Builder *b, Region *body, ValueMap *inputs, Dim micro,
                 Arena *tmp)
{
    Value *replace = NEW_ARRAY(tmp, Value, r->m->values.n + 1);
    for (size_t v = 0; v < r->classified; v++)
        if (r->whole[v])
            replace[v] = whole_value(r, b, inputs, (Value)v, micro);
    ir_replace(body, replace);
}
