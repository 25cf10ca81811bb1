/* composite.c - blocks of the prelude that are also ops: the op where it takes the operands, else
 * (the caller does it) the definition. */
#include "grammar/elab.h"

#include <math.h>
#include <string.h>

static const Val poison = {.kind = VAL_POISON};

/* The argument that a parameter of the block is bound to. */
static const Sym *bound(Elab *e, const char *name)
{
    return find_local(e->frame, name_intern(e->names, name));
}

static Val bound_tensor(Elab *e, const char *name)
{
    const Sym *s = bound(e, name);
    return s && s->val.kind == VAL_TENSOR ? s->val : poison;
}

/* The window and the cap make sense. The caret is under the call, as its arguments are gone. */
static bool mask_makes_sense(Elab *e, const Node *n, double window, double cap, bool causal)
{
    if (window < 0 || window != floor(window) || window > 1e9)
        fail(e, n->at, 259, "a window of %g keys", window);
    else if (window > 0 && !causal)
        fail(e, n->at, 259, "a window of %g keys without `causal`", window);
    else if (!(cap >= 0 && cap < 1e30))
        fail(e, n->at, 259, "a cap of %g", cap);
    else
        return true;
    if (window > 0 && window == floor(window) && !causal)
        help(e,
             "write `causal` behind `window = %g`: a query then sees itself and %g keys before it",
             window, window - 1);
    else if (window != 0 && (window < 0 || window != floor(window) || window > 1e9))
        help(e, "a window is a whole number of keys, the query's own among them; 0 is no window");
    else
        help(e, "scores lie between -cap and cap, a number above 0; 0 is no cap");
    return false;
}

/* The mistake is the caller's. */
static bool check_mask(Elab *e, const Node *n, double window, double cap, bool causal)
{
    Frame *callee = e->frame;
    e->frame = callee->caller;
    const bool good = mask_makes_sense(e, n, window, cap, causal);
    e->frame = callee;
    return good;
}

/* Values that document_start gave do not fall along the sequence, which the op relies on. */
static bool is_document_start(const Elab *e, Value v)
{
    for (size_t i = 0; i < e->documents.n; i++)
        if (e->documents.data[i] == v)
            return true;
    return false;
}

/* The number that a parameter is given; 0: the block has none of that name. */
static double bound_number(Elab *e, const char *name)
{
    const Sym *s = bound(e, name);
    return s ? s->val.number.d : 0;
}

/* Keys along a dim of their own have another than the queries. */
static bool check_sequences(Elab *e, const Node *n, Dim queries, Dim keys)
{
    if (queries.name != keys.name)
        return true;
    Frame *callee = e->frame;
    e->frame = callee->caller;
    fail(e, n->at, 259, "queries and keys both along '%s'", text(e, keys.name));
    help(e, "write `along %s` once where both are one sequence", text(e, keys.name));
    e->frame = callee;
    return false;
}

/* The definition's number for no sink. */
#define NO_SINK (-1e30)

/* The score of the key without a value, or 0 where there is none. */
static Value sink_of(Elab *e)
{
    const Val sink = bound(e, "sink")->val;
    if (sink.kind == VAL_TENSOR)
        return sink.value;
    return sink.number.d <= NO_SINK ? 0 : build_const(&e->b, e->compute, sink.number.d);
}

/* The bias of scores: 0 is none, and another number for all of them is a tensor without dims. */
static Value bias_of(Elab *e)
{
    const Sym *bias = bound(e, "bias");
    if (!bias)
        return 0;
    if (bias->val.kind == VAL_TENSOR)
        return bias->val.value;
    return bias->val.number.d == 0 ? 0 : build_const(&e->b, e->compute, bias->val.number.d);
}

/* Keys or values along the dim of the queries. Positions of two sequences are compared where both
 * are as long; 0: they are not, or v has the other dim too. */
static Value along_queries(Elab *e, const Attrs *a, Value v)
{
    const Type *t = type_of(e->module, v);
    if (a->keys.size != a->along.size || type_find(t, a->along.name) >= 0 ||
        type_find(t, a->keys.name) < 0)
        return 0;
    const Attrs to = {.dim = a->keys, .to = a->along};
    return build(&e->b, OP_rename, &to, 1, &v);
}

/* A start as positions, as the data have it. */
static Value start_positions(Elab *e, Value start)
{
    const Ins *def = e->module->values.data[start].def;
    if (def && def->op == OP_cast && type_of(e->module, def->in[0])->dtype == DT_i32)
        return def->in[0];
    return build_cast(&e->b, start, DT_i32);
}

static Val attention(Elab *e, const Node *n, bool *done)
{
    Val q = bound_tensor(e, "q"), k = bound_tensor(e, "k"), v = bound_tensor(e, "v");
    const Val start = bound_tensor(e, "start");
    const Sym *keys = bound(e, "t");
    const double window = bound_number(e, "window"), cap = bound_number(e, "cap");
    Attrs attrs = {.along = bound(e, "pos")->dims.dim[0],
                   .over = bound(e, "d")->dims,
                   .causal = bound_number(e, "causal") != 0,
                   .scale = bound_number(e, "scale"),
                   .cap = cap,
                   .within = bound(e, "start") != NULL};
    if (keys)
        attrs.keys = keys->dims.dim[0];
    if (!check_mask(e, n, window, cap, attrs.causal) ||
        (keys && !check_sequences(e, n, attrs.along, attrs.keys))) {
        *done = true;
        return poison;
    }
    attrs.window = (int64_t)window;
    if (q.kind == VAL_POISON || k.kind == VAL_POISON || v.kind == VAL_POISON || attrs.over.n != 1 ||
        e->options->inline_composites)
        return poison;
    if (attrs.within && (start.kind != VAL_TENSOR || !is_document_start(e, start.value)))
        return poison;
    const Value bias = bias_of(e);
    attrs.biased = bias != 0;
    if (keys && attrs.causal && !bias) {
        k.value = along_queries(e, &attrs, k.value);
        v.value = along_queries(e, &attrs, v.value);
        attrs.keys = (Dim){0};
        if (!k.value || !v.value)
            return poison;
    }
    Value in[6] = {attention_queries(&e->b, &attrs, q.value, k.value), k.value, v.value,
                   sink_of(e)};
    attrs.sunk = in[3] != 0;
    int nin = 3 + attrs.sunk;
    if (bias)
        in[nin++] = build_cast(&e->b, bias, e->compute);
    if (attrs.within)
        in[nin++] = start_positions(e, start.value);
    Type out[2];
    const DimList values =
        attention_value_head(&attrs, type_of(e->module, k.value), type_of(e->module, v.value));
    if (values.n != 1 || type_check(e->module, OP_attention, &attrs, nin, in, 2, out))
        return poison;
    DimList reads = {.n = 1, .dim = {attrs.along}};
    if (keys)
        reads.dim[reads.n++] = keys->dims.dim[0];
    *done = true;
    return check_padding(e, n->at, &reads) ? make(e, n->at, OP_attention, &attrs, nin, in) : poison;
}

/* Is this next(tokens), or its last element along seq? */
static bool is_next(const Elab *e, Value v, Dim *picked)
{
    const Ins *def = e->module->values.data[v].def;
    if (def && def->op == OP_pick && def->attrs.at == def->attrs.dim.size - 1) {
        *picked = def->attrs.dim;
        v = def->in[0];
    }
    return v == e->next;
}

/* The mean over the targets, in double: it is the loss a run prints. */
static Val mean(Elab *e, Span at, Val per_target)
{
    const Type *t = type_of(e->module, per_target.value);
    DimList all = {.n = t->rank};
    memcpy(all.dim, t->dims, sizeof all.dim);
    Value wide = build_cast(&e->b, per_target.value, DT_f64);
    Value sum = build_sum(&e->b, wide, &all);
    Number share = number_inverse(dims_number(e, &all));
    return apply2(e, at, OP_mul, tensor_val(sum), (Val){.kind = VAL_NUMBER, .number = share});
}

/* The mean weighed by target, in double too. Where nothing counts it is 0. */
static Val weighed_mean(Elab *e, Span at, Val per_target, Val weight)
{
    const Type *t = type_of(e->module, per_target.value);
    DimList all = {.n = t->rank};
    memcpy(all.dim, t->dims, sizeof all.dim);
    Value wide = build_cast(&e->b, weight.value, DT_f64);
    Value sum = build_sum(
        &e->b, build2(&e->b, OP_mul, wide, build_cast(&e->b, per_target.value, DT_f64)), &all);
    Val least = {.kind = VAL_NUMBER, .number = number_real(1e-30)};
    Val total = apply2(e, at, OP_max, tensor_val(build_sum(&e->b, wide, &all)), least);
    return apply2(e, at, OP_div, tensor_val(sum), total);
}

/* A weight for each target, or none. */
static bool check_weight(Elab *e, const Node *n, Val targets, Val weight)
{
    const Type *w = weight.kind == VAL_TENSOR ? type_of(e->module, weight.value) : NULL;
    const Type *t = type_of(e->module, targets.value);
    bool same = w && w->rank == t->rank && dtype_is_float(w->dtype);
    for (int i = 0; same && i < t->rank; i++)
        same = type_find(w, t->dims[i].name) >= 0;
    if (same)
        return true;
    fail(e, n->at, 257, "the targets have %s, their weights %s", type_text(e, targets.value),
         w ? type_text(e, weight.value) : "no dims, being a number");
    help(
        e,
        "a weight for each target: model m(tokens[batch, seq] : token(vocab), weight[batch, seq])");
    return false;
}

static Val cross_entropy(Elab *e, const Node *n, bool *done)
{
    Val logits = bound_tensor(e, "logits"), targets = bound_tensor(e, "targets");
    if (logits.kind == VAL_POISON || targets.kind == VAL_POISON)
        return poison;
    const Sym *weight = bound(e, "weight");
    if (weight && !check_weight(e, n, targets, weight->val)) {
        *done = true;
        return poison;
    }
    Dim classes = bound(e, "c")->dims.dim[0], picked = {0};
    if (e->mode == MODE_TRAIN && !e->sampled && !e->in_metric && e->b.region == e->fn->body &&
        is_next(e, targets.value, &picked))
        e->sampled = n;
    if (e->options->inline_composites)
        return poison;
    Attrs attrs = {.over = {1, {classes}}, .valid = dim_info(e, classes.name)->valid};
    Value in[2] = {logits.value, targets.value};
    Type out[2];
    if (type_check(e->module, OP_cross_entropy, &attrs, 2, in, 2, out))
        return poison;
    *done = true;
    Val loss = make(e, n->at, OP_cross_entropy, &attrs, 2, in);
    if (loss.kind != VAL_TENSOR)
        return poison;
    return weight ? weighed_mean(e, n->at, loss, weight->val) : mean(e, n->at, loss);
}

/* Of a tensor that can be computed with; the definition has the error for others. */
static Val gelu_tanh(Elab *e, const Node *n, bool *done)
{
    Val x = bound_tensor(e, "x");
    Type out[1];
    if (x.kind == VAL_POISON ||
        type_check(e->module, OP_gelu_tanh, &(Attrs){0}, 1, &x.value, 1, out))
        return poison;
    *done = true;
    return make(e, n->at, OP_gelu_tanh, &(Attrs){0}, 1, &x.value);
}

/* document_start without a separator. */
static bool starts_in_data(Elab *e, const Node *n)
{
    const Sym *s = strcmp(text(e, n->name), "document_start") ? NULL : bound(e, "separator");
    return s && s->val.number.d < 0;
}

Val call_composite(Elab *e, const Node *n, bool *done)
{
    Op op = op_find(text(e, n->name));
    *done = false;
    if (e->rule) /* by their definitions: rules are not differentiated, nor is there a model */
        return poison;
    if (starts_in_data(e, n)) {
        *done = true;
        return document_start_of_data(e, n, bound_tensor(e, "tokens"),
                                      bound(e, "pos")->dims.dim[0]);
    }
    if (op == OP_cross_entropy)
        return cross_entropy(e, n, done);
    if (op == OP_attention)
        return attention(e, n, done);
    if (op == OP_gelu_tanh && !e->options->inline_composites)
        return gelu_tanh(e, n, done);
    return poison;
}
