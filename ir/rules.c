/* rules.c - what each op says of its operands' types, and the types of its results.
 *
 * A rule sees the operand types and fills the result types; it returns NULL or a message that a
 * person can read (in the module's arena). Sizes of equal dims must agree in every op, so that is
 * checked once, before the op's own rule. A dim that an attribute names has the operand's size, so
 * that whoever reads an attribute need not look at the operand. */
#include "ir/rules.h"

#include <stdio.h>
#include <string.h>

static bool is_dtype(const Type *t, DType want)
{
    return t->dtype == want;
}

const char *rule_add_dims(Rule *r, Type *out, const Type *t, const DimList *without)
{
    for (int i = 0; i < t->rank; i++) {
        if (type_find(out, t->dims[i].name) >= 0 ||
            (without && dims_have(without, t->dims[i].name)))
            continue;
        if (out->rank == MAX_RANK)
            WRONG(r, "the result would have more than %d dims", MAX_RANK);
        out->dims[out->rank++] = t->dims[i];
    }
    return NULL;
}

const char *rule_has_dim(Rule *r, const Type *t, Dim d, const char *side)
{
    int at = type_find(t, d.name);
    if (at < 0)
        WRONG(r, "%s has no dim '%s'", side, rule_dim(r, d.name));
    if (t->dims[at].size != d.size)
        WRONG(r, "%s has dim '%s' of %lld, the attribute says %lld", side, rule_dim(r, d.name),
              (long long)t->dims[at].size, (long long)d.size);
    if (t->dims[at].axes != d.axes)
        WRONG(r, "%s has dim '%s' split on other axes than the attribute says", side,
              rule_dim(r, d.name));
    if (!dim_lies_as(t->dims[at], d))
        WRONG(r, "%s has dim '%s' in another order than the attribute says", side,
              rule_dim(r, d.name));
    return NULL;
}

const char *rule_all_have(Rule *r, const Type *t, const DimList *l, const char *side)
{
    const char *wrong = NULL;
    for (int i = 0; i < l->n && !wrong; i++) {
        for (int k = 0; k < i; k++)
            if (l->dim[k].name == l->dim[i].name)
                WRONG(r, "dim '%s' is listed twice", rule_dim(r, l->dim[i].name));
        wrong = rule_has_dim(r, t, l->dim[i], side);
    }
    return wrong;
}

const char *rule_is_float(Rule *r, const Type *t, const char *side)
{
    if (!dtype_is_float(t->dtype))
        WRONG(r, "%s is %s where a float is wanted", side, dtype_name(t->dtype));
    return NULL;
}

/* A float that is computed with: halves are cast to f32 before. */
static const char *is_number(Rule *r, const Type *t, const char *side)
{
    if (dtype_is_narrow(t->dtype))
        WRONG(r, "%s is %s where f32 is wanted", side, dtype_name(t->dtype));
    return rule_is_float(r, t, side);
}

const char *rule_has_type(Rule *r, int nth, const Type *t, DType dtype, const char *what)
{
    if (r->in[nth]->dtype != dtype || !type_same_dims(r->in[nth], t))
        WRONG(r, "%s must have the dims of its counterpart, and be %s", what, dtype_name(dtype));
    return NULL;
}

/* The dtypes that a pointwise op is for. Halves are stored and chosen, never computed with. */
static bool takes(Op op, DType t)
{
    const Takes least = dtype_is_narrow(t) || t == DT_u8 ? TAKES_ANY
                        : t == DT_bool                   ? TAKES_STORED
                        : dtype_is_float(t)              ? TAKES_REAL
                                                         : TAKES_NUMBER;
    return op_info[op].takes >= least;
}

/* The dims of an operand with the batch come first, whatever side it is on: `bias + x` lies as
 * `x + bias` does. */
static const char *pointwise(Rule *r, Op op)
{
    bool select = op == OP_select;
    int first = 0;
    while (first < r->nin && type_find(r->in[first], r->m->batch.name) < 0)
        first++;
    r->out[0] = (Type){.dtype = r->in[select]->dtype};
    if (!takes(op, r->out[0].dtype))
        WRONG(r, "%s of %s has no meaning", op_info[op].name, dtype_name(r->out[0].dtype));
    for (int i = 0; i < r->nin; i++) {
        DType want = select && i == 0 ? DT_bool : r->out[0].dtype;
        if (r->in[i]->dtype != want)
            WRONG(r, "operand %d is %s where %s is wanted", i + 1, dtype_name(r->in[i]->dtype),
                  dtype_name(want));
    }
    const char *wrong = rule_add_dims(r, &r->out[0], r->in[first % r->nin], NULL);
    for (int i = 0; i < r->nin && !wrong; i++)
        wrong = rule_add_dims(r, &r->out[0], r->in[i], NULL);
    r->out[0].indexes = r->in[select]->indexes;
    return wrong;
}

static const char *condition(Rule *r, Op op)
{
    const char *wrong = pointwise(r, op);
    r->out[0].dtype = DT_bool;
    r->out[0].indexes = 0;
    return wrong;
}

static const char *type_const(Rule *r)
{
    r->out[0] = (Type){.dtype = DT_f32};
    return NULL;
}

static const char *type_iota(Rule *r)
{
    r->out[0] = (Type){.dtype = DT_f32, .rank = 1, .dims = {r->attrs->dim}};
    return NULL;
}

static const char *type_random(Rule *r)
{
    static const DType want[3] = {DT_i64, DT_i64, DT_i32};
    for (int i = 0; i < 3; i++)
        if (r->in[i]->dtype != want[i] || r->in[i]->rank)
            WRONG(r, "operand %d must be a %s scalar", i + 1, dtype_name(want[i]));
    r->out[0] = (Type){.dtype = DT_f32};
    return NULL;
}

static const char *type_cast(Rule *r)
{
    r->out[0] = *r->in[0];
    return NULL;
}

static const char *type_transfer(Rule *r)
{
    const int64_t to = r->attrs->level;
    r->out[0] = *r->in[0];
    if (to < 0 || to >= LEVEL_count || (r->in[0]->level == LEVEL_device) == (to == LEVEL_device))
        WRONG(r, "nothing is transferred from the %s to level %lld", level_names[r->in[0]->level],
              (long long)to);
    r->out[0].level = (Level)to;
    return NULL;
}

/* row and col number an element of x; each has some of its dims. */
static const char *type_stochastic_round(Rule *r)
{
    static const DType want[5] = {DT_f32, DT_i32, DT_i32, DT_i64, DT_i64};
    for (int i = 0; i < 5; i++)
        if (r->in[i]->dtype != want[i] || (i >= 3 && r->in[i]->rank))
            WRONG(r, "operand %d must be %s%s", i + 1, i >= 3 ? "a scalar of " : "",
                  dtype_name(want[i]));
    for (int i = 1; i < 3; i++)
        for (int d = 0; d < r->in[i]->rank; d++)
            if (type_find(r->in[0], r->in[i]->dims[d].name) < 0)
                WRONG(r, "operand %d has dim '%s', which what is rounded lacks", i + 1,
                      rule_dim(r, r->in[i]->dims[d].name));
    if (r->attrs->at < 0 || r->attrs->at > 1)
        WRONG(r, "a word has twice 16 bits, and no number %lld", (long long)r->attrs->at);
    r->out[0] = *r->in[0];
    r->out[0].dtype = DT_bf16;
    return NULL;
}

static const char *type_rotate(Rule *r)
{
    const char *wrong = rule_has_dim(r, r->in[0], r->attrs->dim, "the operand");
    if (!wrong)
        wrong = is_number(r, r->in[0], "the operand");
    if (wrong)
        return wrong;
    if (r->attrs->dim.size % 2)
        WRONG(r, "dim '%s' of %lld cannot be split in halves", rule_dim(r, r->attrs->dim.name),
              (long long)r->attrs->dim.size);
    r->out[0] = *r->in[0];
    return NULL;
}

static const char *type_sum(Rule *r)
{
    const char *wrong = rule_all_have(r, r->in[0], &r->attrs->over, "the operand");
    if (!wrong)
        wrong = is_number(r, r->in[0], "the operand");
    if (wrong)
        return wrong;
    r->out[0] = (Type){.dtype = r->in[0]->dtype};
    return rule_add_dims(r, &r->out[0], r->in[0], &r->attrs->over);
}

static const char *type_rmax(Rule *r)
{
    return type_sum(r);
}

/* The third operand of dot and scatter_add: what is added to. */
const char *rule_added(Rule *r, int nth)
{
    if (r->nin <= nth)
        return NULL;
    DType t = r->in[nth]->dtype;
    if ((t != r->out[0].dtype && t != dtype_wide(r->out[0].dtype)) ||
        !type_same_dims(r->in[nth], &r->out[0]))
        WRONG(r, "what is added to has not the result's type");
    r->out[0].dtype = t; /* the sum is of the type of what it starts from */
    return NULL;
}

/* Operands of fp8: one is e4m3, the other either. The product is f32, since their scales are
 * still to come. */
static bool fp8_product(const Rule *r)
{
    return dtype_is_fp8(r->in[0]->dtype) && dtype_is_fp8(r->in[1]->dtype) &&
           (r->in[0]->dtype == DT_e4m3 || r->in[1]->dtype == DT_e4m3);
}

static const char *product(Rule *r)
{
    const DimList *over = &r->attrs->over;
    const char *wrong = rule_all_have(r, r->in[0], over, "the left side");
    if (!wrong)
        wrong = rule_all_have(r, r->in[1], over, "the right side");
    if (!wrong)
        wrong = rule_is_float(r, r->in[0], "the left side");
    if (wrong)
        return wrong;
    const bool fp8 = fp8_product(r);
    if (!fp8 && r->in[0]->dtype != r->in[1]->dtype)
        WRONG(r, "the left side is %s and the right side %s", dtype_name(r->in[0]->dtype),
              dtype_name(r->in[1]->dtype));
    if (!fp8 && dtype_is_fp8(r->in[0]->dtype))
        WRONG(r, "both sides are %s: one is e4m3", dtype_name(r->in[0]->dtype));
    r->out[0] = (Type){.dtype = fp8 ? DT_f32 : r->in[0]->dtype};
    wrong = rule_add_dims(r, &r->out[0], r->in[0], over);
    return wrong ? wrong : rule_add_dims(r, &r->out[0], r->in[1], over);
}

static const char *type_dot(Rule *r)
{
    const char *wrong = product(r);
    return wrong ? wrong : rule_added(r, 2);
}

/* Its scales are known, so the result may be a half (ir/verify.c). */
static const char *type_dot_scaled(Rule *r)
{
    const char *wrong = product(r);
    if (!wrong && !fp8_product(r))
        WRONG(r, "the left side is %s where fp8 is wanted", dtype_name(r->in[0]->dtype));
    for (int k = 2; k < 4 && !wrong && !r->attrs->tiles; k++)
        if (r->in[k]->rank || !is_dtype(r->in[k], DT_f32))
            WRONG(r, "a scale is no number of f32");
    if (!wrong && r->attrs->tiles)
        wrong = rule_tiles(r);
    if (!wrong && r->nin == 5 && dtype_is_half(r->in[4]->dtype)) /* a sum that is kept so */
        r->out[0].dtype = r->in[4]->dtype;
    return wrong ? wrong : rule_added(r, 4);
}

/* The product of the first operand as its taps show it. */
static const char *type_conv(Rule *r)
{
    const Taps *taps = r->attrs->taps;
    Type seen[MAX_TAPS + 1] = {*r->in[0]};
    Rule product = *r;
    if (!taps)
        WRONG(r, "it has no taps");
    for (int i = 0; i < taps->n; i++) {
        const Tap *t = &taps->tap[i];
        Attrs a = {.dim = t->dim, .over = {.n = t->n}, .factors = {.n = t->n}};
        a.at = t->at;
        a.every = t->every;
        memcpy(a.over.dim, t->over, sizeof t->over);
        memcpy(a.factors.by, t->by, sizeof t->by);
        for (int k = 0; k < taps->n; k++)
            for (int x = 0; x < taps->tap[k].n; x++)
                if (k != i && taps->tap[k].over[x].name == t->dim.name)
                    WRONG(r, "dim '%s' is read through taps and counts others",
                          rule_dim(r, t->dim.name));
        Rule one = {.m = r->m, .attrs = &a, .nin = 1, .in = {&seen[i]}, .out = &seen[i + 1]};
        const char *wrong = type_reindex(&one);
        if (wrong)
            return wrong;
    }
    product.in[0] = &seen[taps->n];
    return type_dot(&product);
}

static const char *type_dot_bias(Rule *r)
{
    const char *wrong = product(r);
    const Type *bias = r->in[2];
    for (int i = 0; i < bias->rank && !wrong; i++)
        wrong = rule_has_dim(r, &r->out[0], bias->dims[i], "the product");
    if (!wrong && bias->dtype != r->in[0]->dtype)
        WRONG(r, "the bias is %s and the left side %s", dtype_name(bias->dtype),
              dtype_name(r->in[0]->dtype));
    return wrong;
}

static const char *type_dot_gelu(Rule *r)
{
    return r->nin == 3 ? type_dot_bias(r) : product(r);
}

static const char *type_dot_gelu_aux(Rule *r)
{
    const char *wrong = type_dot_gelu(r);
    r->out[1] = r->out[0];
    return wrong;
}

static const char *type_dot_gelu_grad(Rule *r)
{
    const char *wrong = product(r);
    return wrong ? wrong
                 : rule_has_type(r, 2, &r->out[0], r->out[0].dtype, "what gelu is the slope at");
}

static const char *type_dot_sum(Rule *r)
{
    const char *wrong = type_dot(r);
    r->out[1] = (Type){.dtype = dtype_wide(r->in[0]->dtype)};
    return wrong ? wrong : rule_add_dims(r, &r->out[1], r->in[0], &r->attrs->over);
}

static const char *type_gather(Rule *r)
{
    const Type *table = r->in[0], *index = r->in[1];
    if (!is_dtype(index, DT_i32))
        WRONG(r, "the index is %s where i32 is wanted", dtype_name(index->dtype));
    const char *wrong = rule_has_dim(r, table, r->attrs->dim, "the table");
    if (!wrong)
        wrong = rule_is_float(r, table, "the table");
    if (wrong)
        return wrong;
    DimList without = {.n = 1, .dim = {r->attrs->dim}};
    r->out[0] = (Type){.dtype = table->dtype};
    wrong = rule_add_dims(r, &r->out[0], index, NULL);
    return wrong ? wrong : rule_add_dims(r, &r->out[0], table, &without);
}

static const char *type_scatter_add(Rule *r)
{
    const Type *g = r->in[0], *index = r->in[1];
    if (!is_dtype(index, DT_i32))
        WRONG(r, "the index is %s where i32 is wanted", dtype_name(index->dtype));
    const char *wrong = rule_is_float(r, g, "what is added");
    if (wrong)
        return wrong;
    const DimList *over = &r->attrs->over;
    wrong = rule_all_have(r, index, over, "the index");
    if (wrong)
        return wrong;
    for (int i = 0; i < index->rank; i++)
        if (type_find(g, index->dims[i].name) < 0)
            WRONG(r, "what is added has no dim '%s' of the index",
                  rule_dim(r, index->dims[i].name));
    r->out[0] = (Type){.dtype = g->dtype, .rank = 1, .dims = {r->attrs->dim}};
    if (type_find(g, r->attrs->dim.name) >= 0 && !dims_have(over, r->attrs->dim.name))
        WRONG(r, "dim '%s' is there already", rule_dim(r, r->attrs->dim.name));
    wrong = rule_add_dims(r, &r->out[0], g, over);
    return wrong ? wrong : rule_added(r, 2);
}

static const char *type_put(Rule *r)
{
    const Type *x = r->in[0], *index = r->in[1], *table = r->in[2];
    if (!is_dtype(index, DT_i32))
        WRONG(r, "the index is %s where i32 is wanted", dtype_name(index->dtype));
    const char *wrong = rule_has_dim(r, table, r->attrs->dim, "the table");
    if (!wrong)
        wrong = rule_is_float(r, x, "what is put");
    if (wrong)
        return wrong;
    const DimList without = {.n = 1, .dim = {r->attrs->dim}};
    Type rows = {.dtype = table->dtype};
    wrong = rule_add_dims(r, &rows, index, NULL);
    if (!wrong && type_find(index, r->attrs->dim.name) >= 0)
        WRONG(r, "the index has the table's dim '%s'", rule_dim(r, r->attrs->dim.name));
    if (!wrong)
        wrong = rule_add_dims(r, &rows, table, &without);
    if (wrong)
        return wrong;
    if (rows.dtype != x->dtype || !type_same_dims(&rows, x))
        WRONG(r, "what is put has not the dims of the index and the table, or not its type");
    r->out[0] = *table;
    return NULL;
}

/* The types of a loss for each target: the scores' dims but the classes, of which some are valid.
 * out[0] becomes that. */
static const char *targets_fit(Rule *r, const Type *rows, const DimList *over, Dim classes,
                               const Type *targets)
{
    const char *wrong = rule_is_float(r, rows, "the operand");
    if (wrong)
        return wrong;
    if (!is_dtype(targets, DT_i32))
        WRONG(r, "the targets are %s where i32 is wanted", dtype_name(targets->dtype));
    if (r->attrs->valid < 1 || r->attrs->valid > classes.size)
        WRONG(r, "%lld of %lld classes cannot be valid", (long long)r->attrs->valid,
              (long long)classes.size);
    r->out[0] = (Type){.dtype = dtype_wide(rows->dtype)};
    wrong = rule_add_dims(r, &r->out[0], rows, over);
    if (!wrong && !type_same_dims(&r->out[0], targets))
        WRONG(r, "the targets must have the dims of the scores, less the classes");
    return wrong;
}

/* The cotangent of a loss for each target: one number for each, or one for all. */
static const char *dloss_fits(Rule *r, int nth, const Type *loss)
{
    if (r->in[nth]->rank == 0 && r->in[nth]->dtype == loss->dtype)
        return NULL;
    return rule_has_type(r, nth, loss, loss->dtype, "dloss");
}

static const char *type_cross_entropy(Rule *r)
{
    const DimList *over = &r->attrs->over;
    const char *wrong = rule_all_have(r, r->in[0], over, "the scores");
    if (wrong)
        return wrong;
    if (over->n != 1)
        WRONG(r, "the classes are one dim, not %d", over->n);
    wrong = targets_fit(r, r->in[0], over, over->dim[0], r->in[1]);
    r->out[1] = r->out[0];
    return wrong;
}

static const char *type_cross_entropy_grad(Rule *r)
{
    Type two[2] = {{0}};
    Type *out = r->out;
    r->out = two;
    const char *wrong = type_cross_entropy(r);
    r->out = out;
    if (!wrong)
        wrong = rule_has_type(r, 2, &two[1], two[1].dtype, "lse");
    if (!wrong)
        wrong = dloss_fits(r, 3, &two[0]);
    out[0] = *r->in[0];
    return wrong;
}

static const char *type_head_loss(Rule *r)
{
    const Type *x = r->in[0], *w = r->in[1];
    const DimList *over = &r->attrs->over;
    Dim classes = r->attrs->dim;
    const char *wrong = rule_all_have(r, x, over, "the left side");
    if (!wrong)
        wrong = rule_all_have(r, w, over, "the right side");
    if (!wrong)
        wrong = rule_has_dim(r, w, classes, "the right side");
    if (wrong)
        return wrong;
    if (w->rank != over->n + 1 || dims_have(over, classes.name) || w->dtype != x->dtype)
        WRONG(r, "the right side must be %s, with the summed dims and the classes",
              dtype_name(x->dtype));
    if (type_find(x, classes.name) >= 0)
        WRONG(r, "the left side has the classes '%s' already", rule_dim(r, classes.name));
    return targets_fit(r, x, over, classes, r->in[2]);
}

static const char *type_head_frozen(Rule *r)
{
    const char *wrong = type_head_loss(r);
    r->out[1] = *r->in[0];
    return wrong ? wrong : dloss_fits(r, 3, &r->out[0]);
}

static const char *type_head(Rule *r)
{
    const char *wrong = type_head_frozen(r);
    r->out[2] = *r->in[1];
    if (!wrong && r->nin == 5)
        wrong = rule_has_type(r, 4, r->in[1], dtype_wide(r->in[1]->dtype), "what is added to");
    if (r->nin == 5)
        r->out[2].dtype = r->in[4]->dtype;
    return wrong;
}

static const char *type_repeat(Rule *r)
{
    WRONG(r, "the types of a repeat are those of its body");
}

static const char *type_fused(Rule *r)
{
    WRONG(r, "the types of a fused kernel are those of its body");
}

static const char *type_guard(Rule *r)
{
    for (int i = 0; i < r->nin; i++)
        if (r->in[i]->dtype != DT_f64 || r->in[i]->rank)
            WRONG(r, "operand %d must be an f64 scalar", i + 1);
    return NULL;
}

typedef const char *RuleFn(Rule *);
static RuleFn *const rules[OP_count] = {
#define OP(name, ...) [OP_##name] = type_##name,
#include "ir/ops.def"
};

/* Dims of operands that need not agree: a looked up dim may be the index's own, of another size. */
static bool apart(const Rule *r, Op op, Name d)
{
    return op == OP_join || (op == OP_gather && d == r->attrs->dim.name);
}

static const char *sizes_agree(Rule *r, Op op)
{
    for (int i = 0; i < r->nin; i++)
        for (int j = 0; j < i; j++)
            for (int k = 0; k < r->in[i]->rank; k++) {
                Dim d = r->in[i]->dims[k];
                int at = type_find(r->in[j], d.name);
                if (at < 0 || apart(r, op, d.name))
                    continue;
                if (r->in[j]->dims[at].size != d.size)
                    WRONG(r, "dim '%s' is %lld here and %lld there", rule_dim(r, d.name),
                          (long long)r->in[j]->dims[at].size, (long long)d.size);
                if (r->in[j]->dims[at].axes != d.axes)
                    WRONG(r, "dim '%s' is split on other axes here and there", rule_dim(r, d.name));
                if (r->in[j]->dims[at].zigzag != d.zigzag)
                    WRONG(r, "dim '%s' is in zigzag order here and not there", rule_dim(r, d.name));
                if (r->in[j]->dims[at].inner != d.inner)
                    WRONG(r, "dim '%s' is split on axes in another order here and there",
                          rule_dim(r, d.name));
                if (!dim_lies_as(r->in[j]->dims[at], d))
                    WRONG(r, "dim '%s' is in other blocks here and there", rule_dim(r, d.name));
            }
    return NULL;
}

static const char *small_enough(Rule *r, const Type *t)
{
    int64_t n = dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(n, t->dims[i].size, &n) || n >= (int64_t)1 << 62)
            WRONG(r, "the tensor would have 2^62 bytes or more");
    return NULL;
}

/* A value on another level is seen, put side by side and transferred, and nothing else. */
static const char *on_device(Rule *r, Op op, int i)
{
    if (r->in[i]->level && op != OP_transfer && op != OP_join && !op_is(op, VIEW))
        WRONG(r, "operand %d is on the %s", i + 1, level_names[r->in[i]->level]);
    return NULL;
}

const char *type_check(Module *m, Op op, const Attrs *attrs, int nin, const Value *in, int nout,
                       Type *out)
{
    const OpInfo *info = &op_info[op];
    Rule r = {.m = m, .attrs = attrs, .nin = nin, .out = out};
    if (nin < info->min || nin > info->max || nin > RULE_OPERANDS || nout < info->results)
        WRONG(&r, "%s does not take %d operands for %d results", info->name, nin, nout);
    for (int i = 0; i < nin; i++)
        r.in[i] = type_of(m, in[i]);
    const char *wrong = sizes_agree(&r, op);
    if (wrong)
        return wrong;
    if (op_is(op, POINTWISE))
        wrong = op_is(op, CONDITION) ? condition(&r, op) : pointwise(&r, op);
    else
        wrong = rules[op](&r);
    for (int i = 0; !wrong && i < nin; i++)
        wrong = on_device(&r, op, i);
    if (!wrong && nout >= info->results)
        wrong = rule_over_mesh(&r, op);
    for (int i = 0; !wrong && i < info->results; i++)
        wrong = small_enough(&r, &out[i]);
    return wrong;
}
