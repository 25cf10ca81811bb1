/* rules_attention.c - the rules of attention and of its gradient; see rules.h. */
#include "ir/rules.h"

DimList attention_value_head(const Attrs *a, const Type *k, const Type *v)
{
    DimList head = {0};
    for (int i = 0; i < v->rank; i++)
        if (dims_have(&a->over, v->dims[i].name) || type_find(k, v->dims[i].name) < 0)
            head.dim[head.n++] = v->dims[i];
    return head;
}

/* t, of queries or keys, with the head of values in the place of its own. */
static const char *of_values(Rule *r, const Type *t, const DimList *head, Type *out)
{
    bool same = head->n == r->attrs->over.n;
    for (int i = 0; i < head->n; i++)
        same &= dims_have(&r->attrs->over, head->dim[i].name);
    *out = *t;
    if (same)
        return NULL;
    out->rank = 0;
    for (int i = 0, put = 0; i < t->rank; i++) {
        const bool of_head = dims_have(&r->attrs->over, t->dims[i].name);
        for (int k = 0; of_head && !put && k < head->n; k++) {
            if (out->rank == MAX_RANK)
                WRONG(r, "the result would have more than %d dims", MAX_RANK);
            out->dims[out->rank++] = head->dim[k];
        }
        put |= of_head;
        if (!of_head && out->rank == MAX_RANK)
            WRONG(r, "the result would have more than %d dims", MAX_RANK);
        if (!of_head)
            out->dims[out->rank++] = t->dims[i];
    }
    return NULL;
}

/* Values have the dims of keys, but that their head may be another one. */
static const char *values_fit(Rule *r, const DimList *head)
{
    const Type *q = r->in[0], *k = r->in[1], *v = r->in[2];
    Type want;
    if (k->dtype != v->dtype || q->dtype != k->dtype)
        WRONG(r, "keys and values differ in type");
    for (int i = 0; i < head->n; i++)
        if (!dims_have(&r->attrs->over, head->dim[i].name) && type_find(q, head->dim[i].name) >= 0)
            WRONG(r, "the values' own dim '%s' is in the query", rule_dim(r, head->dim[i].name));
    const char *wrong = of_values(r, k, head, &want);
    if (!wrong && (!head->n || !type_same_dims(&want, v)))
        WRONG(r, "keys and values differ in type");
    return wrong;
}

/* Keys with a dim of their own. Of another sequence each query sees all; those of one sequence have
 * a name of their own where a bias tells the two apart, and masks compare positions. */
static const char *others_keys(Rule *r, int tensors)
{
    const Attrs *a = r->attrs;
    if (!a->keys.name)
        return NULL;
    if (type_find(r->in[0], a->keys.name) >= 0)
        WRONG(r, "the query has the dim '%s' of the keys", rule_dim(r, a->keys.name));
    for (int k = 1; k < 3; k++)
        if (type_find(r->in[k], a->along.name) >= 0)
            WRONG(r, "keys or values have the dim '%s' of the queries", rule_dim(r, a->along.name));
    if (dims_have(&a->over, a->keys.name))
        WRONG(r, "dim '%s' cannot be the head's too", rule_dim(r, a->keys.name));
    const Type *k = r->in[1];
    const int at = type_find(k, a->keys.name);
    const bool compares = a->causal || a->window;
    const bool numbered = r->nin - tensors - a->biased > a->within;
    if ((compares || (a->within && !numbered)) &&
        (!a->biased || at < 0 || (compares && dim_whole(r->m, a->along) != k->dims[at].size)))
        WRONG(r, "a mask of positions where keys are another sequence");
    return NULL;
}

/* tensors: operands before the bias and the mask. */
static const char *attends(Rule *r, int tensors)
{
    const Type *q = r->in[0], *k = r->in[1];
    Dim along = r->attrs->along;
    const Dim keys = r->attrs->keys.name ? r->attrs->keys : along;
    const char *wrong = others_keys(r, tensors);
    if (!wrong)
        wrong = rule_all_have(r, q, &r->attrs->over, "the query");
    if (!wrong)
        wrong = rule_has_dim(r, q, along, "the query");
    if (!wrong)
        wrong = rule_has_dim(r, k, keys, "the keys");
    if (!wrong)
        wrong = rule_all_have(r, k, &r->attrs->over, "the keys");
    if (!wrong)
        wrong = rule_is_float(r, q, "the query");
    if (wrong)
        return wrong;
    if (dims_have(&r->attrs->over, along.name))
        WRONG(r, "dim '%s' cannot be the head's too", rule_dim(r, along.name));
    const DimList head = attention_value_head(r->attrs, k, r->in[2]);
    wrong = values_fit(r, &head);
    if (wrong)
        return wrong;
    for (int i = 0; i < k->rank; i++)
        if (k->dims[i].name != keys.name && type_find(q, k->dims[i].name) < 0)
            WRONG(r, "the query has no dim '%s' of the keys", rule_dim(r, k->dims[i].name));
    wrong = of_values(r, q, &head, &r->out[0]);
    r->out[1] = (Type){.dtype = dtype_wide(q->dtype)};
    return wrong ? wrong : rule_add_dims(r, &r->out[1], q, &r->attrs->over);
}

/* Operand nth: a number of each query, `what`; sequences have their own, or all the same. */
static const char *of_queries(Rule *r, int nth, const char *what)
{
    const Type *t = r->in[nth], *q = r->in[0], *k = r->in[1];
    if (t->dtype != DT_i32 || type_find(t, r->attrs->along.name) < 0)
        WRONG(r, "%s is i32 along '%s'", what, rule_dim(r, r->attrs->along.name));
    for (int i = 0; i < t->rank; i++) {
        const Name d = t->dims[i].name;
        if (dims_have(&r->attrs->over, d) || type_find(q, d) < 0 ||
            (d != r->attrs->along.name && type_find(k, d) < 0))
            WRONG(r, "%s has dim '%s', that queries and keys do not share", what, rule_dim(r, d));
    }
    return rule_has_dim(r, t, r->attrs->along, what);
}

/* Operand nth: how many keys each query sees. */
static const char *seen_fits(Rule *r, int nth)
{
    const char *wrong = of_queries(r, nth, "what each query sees");
    if (wrong)
        return wrong;
    if (r->attrs->within && r->in[nth]->rank > 1 && !type_same_dims(r->in[nth], r->in[r->nin - 1]))
        WRONG(r, "the first keys and the numbers of keys that are seen differ in dims");
    if (r->attrs->causal)
        WRONG(r, "a causal mask and a number of keys for each query");
    if (r->attrs->along.axes)
        WRONG(r, "numbers of keys for each query where keys are split on %s",
              mesh_axes_text(r->m, r->attrs->along.axes));
    return NULL;
}

/* The mask: what attributes say, and the operands from nth on. */
static const char *mask_fits(Rule *r, int nth)
{
    const Attrs *a = r->attrs;
    const int given = r->nin - nth, seen = given - a->within;
    const char *wrong = NULL;
    if (seen < 0 || seen > 1)
        WRONG(r, "%d operands that say what is seen%s", given,
              a->within ? ", the last of them from where on" : "");
    if (!(a->share >= 0 && a->share <= seen))
        WRONG(r, "a share of %g of what each query sees", a->share);
    if (a->window < 0 || (a->window > 0 && !a->causal))
        WRONG(r, "a window of %lld keys%s", (long long)a->window,
              a->causal ? "" : " without a causal mask");
    if (!(a->cap >= 0 && a->cap < 1e30))
        WRONG(r, "scores up to a cap of %g", a->cap);
    if (seen)
        wrong = seen_fits(r, nth);
    return wrong || !a->within ? wrong : of_queries(r, r->nin - 1, "the first key of each query");
}

/* Operand 3, where there is a sink: a score for each query, or for those that share it. */
static const char *sink_fits(Rule *r)
{
    const Type *sink = r->in[3], *lse = &r->out[1];
    if (sink->dtype != lse->dtype)
        WRONG(r, "the sink is %s, and scores are %s", dtype_name(sink->dtype),
              dtype_name(lse->dtype));
    for (int i = 0; i < sink->rank; i++)
        if (type_find(lse, sink->dims[i].name) < 0)
            WRONG(r, "the sink has dim '%s', that no score has", rule_dim(r, sink->dims[i].name));
    return NULL;
}

/* Does t have some of these dims, but not all? */
static bool has_part(const Type *t, const DimList *dims)
{
    int n = 0;
    for (int i = 0; i < dims->n; i++)
        n += type_find(t, dims->dim[i].name) >= 0;
    return n > 0 && n < dims->n;
}

/* Of the dims that queries have beside their sequence and head: those that keys share, and are dims
 * of the first keys or (others) are not; or that queries have alone (groups). mask: the
 * operand behind the bias. */
static DimList heads_of(const Rule *r, int mask, bool groups, bool others)
{
    const Type *q = r->in[0], *k = r->in[1];
    const bool numbered = r->nin > mask + r->attrs->within && r->in[mask]->rank > 1;
    const Type *first = r->attrs->within ? r->in[r->nin - 1] : numbered ? r->in[mask] : NULL;
    DimList dims = {0};
    for (int i = 0; i < q->rank; i++) {
        const Name d = q->dims[i].name;
        if (d == r->attrs->along.name || dims_have(&r->attrs->over, d) ||
            groups == (type_find(k, d) >= 0))
            continue;
        if (groups || others == !(first && type_find(first, d) >= 0))
            dims.dim[dims.n++] = q->dims[i];
    }
    return dims;
}

/* Operand nth: numbers that are added to the scores. It has any of their dims, but a descriptor
 * (runtime/abi.h) has one stride for all groups, and one for a batch that the first keys have too.
 */
static const char *bias_fits(Rule *r, int nth, const Type *lse)
{
    if (r->nin <= nth)
        WRONG(r, "a bias that is no operand");
    const Type *bias = r->in[nth];
    if (!r->attrs->keys.name)
        WRONG(r, "a bias of keys that have no dim of their own");
    if (bias->dtype != lse->dtype)
        WRONG(r, "the bias is %s, and scores are %s", dtype_name(bias->dtype),
              dtype_name(lse->dtype));
    for (int i = 0; i < bias->rank; i++)
        if (type_find(lse, bias->dims[i].name) < 0 && bias->dims[i].name != r->attrs->keys.name)
            WRONG(r, "the bias has dim '%s', that no score has", rule_dim(r, bias->dims[i].name));
    const DimList groups = heads_of(r, nth + 1, true, false);
    const DimList batch = heads_of(r, nth + 1, false, false);
    const DimList others = heads_of(r, nth + 1, false, true);
    if (has_part(bias, &groups))
        WRONG(r, "the bias has some of the dims that queries alone have, and lacks others");
    if (batch.n && (has_part(bias, &batch) || has_part(bias, &others)))
        WRONG(r, "the bias has some of the dims of the first keys, and lacks others");
    return NULL;
}

const char *type_attention(Rule *r)
{
    const int sunk = r->attrs->sunk, biased = r->attrs->biased;
    const char *wrong = attends(r, 3 + sunk);
    if (!wrong && sunk && r->nin < 4)
        WRONG(r, "a sink that is no operand");
    if (!wrong && sunk)
        wrong = sink_fits(r);
    if (!wrong && biased)
        wrong = bias_fits(r, 3 + sunk, &r->out[1]);
    return wrong ? wrong : mask_fits(r, 3 + sunk + biased);
}

/* The operands of a gradient. */
static const char *gradient_fits(Rule *r)
{
    Type two[2];
    Type *out = r->out;
    r->out = two;
    const char *wrong = attends(r, 6);
    r->out = out;
    if (!wrong)
        wrong = rule_has_type(r, 3, &two[0], two[0].dtype, "o");
    if (!wrong)
        wrong = rule_has_type(r, 4, &two[1], two[1].dtype, "lse");
    if (!wrong)
        wrong = rule_has_type(r, 5, &two[0], two[0].dtype, "do");
    if (!wrong && r->attrs->biased)
        wrong = bias_fits(r, 6, &two[1]);
    return wrong ? wrong : mask_fits(r, 6 + r->attrs->biased);
}

const char *type_attention_grad(Rule *r)
{
    const char *wrong = gradient_fits(r);
    for (int i = 0; i < 3; i++)
        r->out[i] = *r->in[i];
    return wrong;
}

const char *type_attention_bias_grad(Rule *r)
{
    const char *wrong = gradient_fits(r);
    if (!wrong && !r->attrs->biased)
        WRONG(r, "a gradient of no bias");
    r->out[0] = *r->in[6];
    return wrong;
}
