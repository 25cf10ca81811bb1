/* quantize.c - products that are marked read operands of fp8, each with a scale for the tensor.
 *
 *   before:  y: bf16 = dot x, w {over=[k], fp8=1}
 *   after:   largest = rmax (abs (cast x)) {all dims}        once, for all that read x
 *            s = cast (div 448, (max (cast largest) 1e-12))  in f64
 *            q: e4m3 = cast (mul (cast x) s)
 *            i = div 1, s                                    the same of w
 *            p: f32 = dot q, q_w {over=[k]}
 *            y: bf16 = cast (mul p (mul i i_w))
 *
 * This is the rule of torchao's dynamic scaling of whole tensors, to the bit. Scales are just in
 * time: of the tensor at hand, and no history. A gradient that is an operand is rounded to the type
 * that the program says. What is kept for the backward part of a value that only products of fp8
 * read there is what it was rounded to; of any other the half, of which the same is made again. And
 * its scale, so that nothing looks for the largest number a second time.
 *
 * Of a parameter in a stack of layers the whole stack is rounded, once a step, with a scale for
 * each layer; loops take slices of both. Where parameters are offloaded each layer's is rounded as
 * it comes: its scale is the same.
 *
 * This is `scales = tensor`; tiles.c has the others.
 *
 * why here: the gradients' products are marked by the differentiator, and parameters have copies
 * that are halves. Before shard: the largest number is one of the tensor on all ranks together, and
 * what is gathered of parameters is what was rounded. */
#include "passes/step/quantize.h"
#include "passes/view.h"
#include "passes/walk.h"

#include <string.h>

static bool same_dims(const DimList *a, const DimList *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = dims_have(b, a->dim[i].name);
    return same;
}

static const Scaled *known(const Quantize *q, Value v, DType t, const DimList *each)
{
    for (size_t k = q->known.n; k-- > 0;) {
        const Scaled *s = &q->known.data[k];
        if (s->of == v && s->dtype == t && same_dims(&s->each, each))
            return s;
    }
    return NULL;
}

/* ---- parameters and their views -------------------------------------------------------------- */

bool quantize_is_parameter(const Quantize *q, Value v)
{
    const ValueInfo *x = &q->m->values.data[v];
    Value stacked;
    if (x->def)
        return op_is(x->def->op, VIEW) && quantize_is_parameter(q, x->def->in[0]);
    if (slice_loop(q->m, v, &stacked))
        return quantize_is_parameter(q, stacked);
    const int at = x->home->owner ? -1 : arg_index(q->m, v);
    return at >= 0 && q->fn->args.data[at].role <= ARG_rounded;
}

static void without(DimList *l, Name d)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        if (l->dim[i].name != d)
            l->dim[n++] = l->dim[i];
    l->n = n;
}

static void with(DimList *l, Dim d)
{
    l->dim[l->n++] = d;
}

/* How the operand of a view has scales, so that the result has one for each index of `each`: in
 * *in. *moved: scales are seen through the view as numbers are. False: they would not be scales of
 * the result alone. */
static bool behind_view(const Ins *view, const DimList *each, DimList *in, bool *moved)
{
    const Attrs *a = &view->attrs;
    const Op op = view->op;
    *in = *each;
    *moved = true;
    if (op == OP_pick) {
        with(in, a->dim);
        return true;
    }
    const Name d = op == OP_rename ? a->to.name : op == OP_window ? a->along.name : a->dim.name;
    *moved = dims_have(each, d);
    if (op == OP_rename && *moved) {
        without(in, d);
        with(in, a->dim);
    } else if (op == OP_split) {
        without(in, a->to.name);
        return *moved == dims_have(each, a->to.name);
    } else if (op == OP_merge && *moved) {
        with(in, a->to);
    }
    return op != OP_window || *moved;
}

static Scaled scaled(Quantize *q, Value v, DType t, const DimList *each);

static bool parameters(Quantize *q, Value v, Scaled *s)
{
    Module *m = q->m;
    const ValueInfo x = m->values.data[v];
    Value stacked;
    DimList in = s->each;
    if (!x.def && slice_loop(m, v, &stacked) &&
        m->layout.offload[OFFLOAD_parameters] == LEVEL_device) {
        with(&in, x.home->owner->attrs.dim);
        const Scaled all = scaled(q, stacked, s->dtype, &in);
        s->number = repeat_slice(m, x.home->owner, all.number);
        s->inverse = repeat_slice(m, x.home->owner, all.inverse);
        return true;
    }
    bool moved;
    if (!x.def || !behind_view(x.def, &s->each, &in, &moved))
        return false;
    const Scaled all = scaled(q, x.def->in[0], s->dtype, &in);
    Builder b = builder_at(m, x.home, x.def);
    s->number = build(&b, x.def->op, &x.def->attrs, 1, &all.number);
    s->inverse = moved ? build(&b, x.def->op, &x.def->attrs, 1, &all.inverse) : all.inverse;
    return true;
}

/* ---- scales ---------------------------------------------------------------------------------- */

static Value largest(Builder *b, Value wide, const DimList *each)
{
    const Type *t = type_of(b->m, wide);
    Attrs a = {0};
    for (int i = 0; i < t->rank; i++)
        if (!dims_have(each, t->dims[i].name))
            with(&a.over, t->dims[i]);
    Value size = build1(b, OP_abs, wide);
    return a.over.n ? build(b, OP_rmax, &a, 1, &size) : size;
}

static Value scale_of(Builder *b, Value wide, const Scaled *s)
{
    static const double least = 1e-12; /* so that a tensor of zeros has a scale */
    Value top = build_cast(b, largest(b, wide, &s->each), DT_f64);
    top = build2(b, OP_max, top, build_const(b, DT_f64, least));
    Value scale = build2(b, OP_div, build_const(b, DT_f64, dtype_largest(s->dtype)), top);
    return build_cast(b, scale, DT_f32);
}

/* v behind views that show all of it. */
static Value whole_of(const Module *m, Value v)
{
    const Ins *i = m->values.data[v].def;
    while (i && OP_AMONG(i->op, OP_rename, OP_split, OP_merge)) {
        v = i->in[0];
        i = m->values.data[v].def;
    }
    return v;
}

/* How the loop rounded the value that v is a slice of, of those that it stacks; NULL: it did not.
 * In *loop, the loop. */
static const Scaled *rounded_before(const Quantize *q, Value v, const Scaled *s, Ins **loop)
{
    const Module *m = q->m;
    Value stacked;
    v = whole_of(m, v);
    const Ins *reads = m->values.data[v].def ? NULL : slice_loop(m, v, &stacked);
    *loop = reads ? m->values.data[stacked].def : NULL;
    if (!*loop || (*loop)->op != OP_repeat || (*loop)->home != reads->home || s->each.n)
        return NULL;
    uint32_t at = 0;
    while ((*loop)->out[at] != stacked)
        at++;
    const Value was = whole_of(m, (*loop)->body->results.data[at]);
    for (size_t k = q->known.n; k-- > 0;) {
        const Scaled *x = &q->known.data[k];
        if (x->scale && !x->each.n && x->dtype == s->dtype && whole_of(m, x->of) == was &&
            m->values.data[x->scale].home == (*loop)->body)
            return x;
    }
    return NULL;
}

/* Takes what the loop kept: the scale; and the numbers, where nothing else needs the half. A
 * pipeline's loops keep a scale with its numbers alone, in place of halves: of what they stack
 * there is one a microbatch that is under way. */
static void take_kept(Quantize *q, Value v, Scaled *s)
{
    Module *m = q->m;
    Ins *loop, *reads = m->values.data[whole_of(m, v)].home->owner;
    const Scaled *x = rounded_before(q, v, s, &loop);
    const bool instead =
        x && !q->half[whole_of(m, v)] && type_same_dims(type_of(m, x->number), type_of(m, v));
    if (!x || (!instead && m->layout.pipeline.axis))
        return;
    s->scale = repeat_slice(m, reads, repeat_stack(m, loop, x->scale));
    if (instead)
        s->number = repeat_slice(m, reads, repeat_stack(m, loop, x->number));
}

static void round_whole(Quantize *q, Value v, Scaled *s)
{
    Module *m = q->m;
    take_kept(q, v, s);
    const ValueInfo x = m->values.data[v];
    Builder b = builder_at(m, x.home, x.def ? x.def : q->dot);
    if (!s->number) {
        Value wide = build_cast(&b, v, DT_f32);
        s->scale = s->scale ? s->scale : scale_of(&b, wide, s);
        s->number = build_cast(&b, build2(&b, OP_mul, wide, s->scale), s->dtype);
    }
    s->inverse = build2(&b, OP_div, build_const(&b, DT_f32, 1), s->scale);
    m->values.data[s->number].name = x.name;
}

/* v in fp8, made where v is, or as soon as something asks for it. */
static Scaled scaled(Quantize *q, Value v, DType t, const DimList *each)
{
    const Scaled *was = known(q, v, t, each);
    if (was)
        return *was;
    Scaled s = {.of = v, .dtype = t, .each = *each};
    if (!quantize_is_parameter(q, v) || !parameters(q, v, &s))
        round_whole(q, v, &s);
    vec_push(q->tmp, &q->known, s);
    return s;
}

/* ---- products -------------------------------------------------------------------------------- */

DType quantize_type(const Quantize *q, int k)
{
    const Train *t = &q->m->train;
    return k == 0 && q->dot->attrs.fp8 == FP8_gradient ? t->fp8_gradients : t->fp8;
}

void quantize_gives(Module *m, Ins *i, Value v)
{
    i->out[0] = v;
    m->values.data[v].def = i;
}

static void product(Quantize *q, Region *r, const Ins *i)
{
    Module *m = q->m;
    const DimList whole = {0};
    const Scaled x = scaled(q, i->in[0], quantize_type(q, 0), &whole);
    const Scaled y = scaled(q, i->in[1], quantize_type(q, 1), &whole);
    Builder b = builder_at(m, r, i);
    const Type want = *type_of(m, i->out[0]);
    Type wide = want;
    wide.dtype = DT_f32;
    const Attrs a = {.over = i->attrs.over};
    Ins *dot = build_typed(&b, OP_dot, &a, 2, (Value[]){x.number, y.number}, 1, &wide, NULL);
    dot->exact = i->exact;
    Value scale = build2(&b, OP_mul, x.inverse, y.inverse);
    Value in[] = {dot->out[0], scale};
    Ins *last = build_typed(&b, OP_mul, NULL, 2, in, 1, &wide, NULL);
    if (want.dtype != DT_f32)
        last = build_typed(&b, OP_cast, NULL, 1, last->out, 1, &want, NULL);
    quantize_gives(m, last, i->out[0]);
}

static void region(Quantize *q, Region *r)
{
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        if (old[k]->body)
            region(q, old[k]->body);
        const bool whole = q->m->train.fp8_scales == SCALES_tensor;
        q->dot = old[k];
        if (!whole && !old[k]->attrs.over.n) /* no tile goes along nothing */
            old[k]->attrs.fp8 = FP8_none;
        const bool marked = old[k]->op == OP_dot && old[k]->attrs.fp8;
        if (marked && !whole && q->m->train.fp8_products)
            quantize_mark_tiles(q, old[k]);
        if (!marked || (!whole && q->m->train.fp8_products))
            vec_push(q->m->arena, &r->ins, old[k]);
        else if (whole)
            product(q, r, old[k]);
        else
            quantize_in_tiles(q, r);
    }
}

/* Notes the values of which loops take slices that something reads. */
static void note_slices(const Module *m, const Region *r, const Uses *uses, bool *sliced)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        for (uint32_t n = (uint32_t)i->attrs.carried; i->op == OP_repeat && n < i->nin; n++)
            if (uses->count[i->body->args.data[n]])
                sliced[view_of(m, i->in[n]).root] = true;
        if (i->body)
            note_slices(m, i->body, uses, sliced);
    }
}

/* Parameters of layers of which these read what was rounded ahead of them, and nothing else. */
static void note_ahead(Module *m, const Fn *fn, Arena *tmp)
{
    bool *sliced = NEW_ARRAY(tmp, bool, m->values.n);
    const Uses uses = ir_uses(m, fn->body, tmp);
    note_slices(m, fn->body, &uses, sliced);
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == ARG_param || fn->args.data[k].role == ARG_rounded) {
            Tensor *t = &m->tensors.data[fn->args.data[k].tensor];
            t->ahead = t->stacked && !t->master && !sliced[fn->body->args.data[k]];
        }
}

/* ---- who reads halves ------------------------------------------------------------------------ */

/* Notes what reads a value as it is: all but products that read it rounded to the type of most
 * operands, and views of all of it that nothing else reads. Users come before what they read. */
static void note_halves(const Quantize *q, const Region *r, bool *half)
{
    for (size_t k = 0; k < r->results.n; k++)
        half[r->results.data[k]] = true;
    for (size_t k = r->ins.n; k-- > 0;) {
        Ins *i = r->ins.data[k];
        const bool product = i->op == OP_dot && i->attrs.fp8;
        if (i->body)
            note_halves(q, i->body, half);
        for (uint32_t n = 0; n < i->nin; n++)
            half[i->in[n]] |=
                product ? quantize_type(&(Quantize){.m = q->m, .dot = i}, (int)n) != q->m->train.fp8
                : OP_AMONG(i->op, OP_rename, OP_split, OP_merge) ? half[i->out[0]]
                                                                 : true;
    }
}

PassStatus pass_quantize(Job *j)
{
    for (size_t f = 0; j->m->train.fp8 && f < j->m->fns.n; f++) {
        Quantize q = {.m = j->m, .fn = j->m->fns.data[f], .tmp = j->tmp};
        bool *half = NEW_ARRAY(j->tmp, bool, j->m->values.n);
        note_halves(&q, q.fn->body, half);
        q.half = half;
        region(&q, q.fn->body);
    }
    if (j->m->train.fp8 && module_fn(j->m, "train"))
        note_ahead(j->m, module_fn(j->m, "train"), j->tmp);
    return PASS_ok;
}
