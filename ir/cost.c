/* cost.c - arithmetic and memory traffic of an instruction, from its types alone. */
#include "ir/cost.h"

static double elements(const Module *m, Value v)
{
    return (double)type_elements(type_of(m, v));
}

static double bytes_of(const Module *m, Value v)
{
    return (double)type_bytes(type_of(m, v));
}

/* Rows that are sent or fetched, one a choice; what positions have is read or written once, since
 * one position's choices are moved one after the other. A dispatch zeroes its slots first. */
static double sent_traffic(const Module *m, const Ins *i)
{
    double rows = bytes_of(m, i->op == OP_combine_weight ? i->in[1]
                              : i->op == OP_dispatch     ? i->in[0]
                                                         : i->out[0]);
    Value choice = i->in[i->op == OP_combine_weight ? 2 : 1];
    double choices = 1;
    for (int k = 0; k < i->attrs.over.n; k++)
        choices *= (double)i->attrs.over.dim[k].size;
    return (1 + choices) * rows + 2 * bytes_of(m, choice) +
           (i->op == OP_dispatch ? bytes_of(m, i->out[0]) : 0);
}

/* Each operand read once, each result written once; of a table only the rows that are looked up, of
 * a view's operand only what the result has. Where rows are added to, they are read and written. */
static double traffic(const Module *m, const Ins *i)
{
    double bytes = 0;
    if (OP_AMONG(i->op, OP_pick, OP_window, OP_join, OP_reindex))
        return 2 * bytes_of(m, i->out[0]);
    if (i->op == OP_gather)
        return 2 * bytes_of(m, i->out[0]) + bytes_of(m, i->in[1]);
    if (i->op == OP_dispatch || i->op == OP_combine || i->op == OP_combine_weight)
        return sent_traffic(m, i);
    if (i->op == OP_put)
        return 2 * bytes_of(m, i->in[0]) + bytes_of(m, i->in[1]);
    if (i->op == OP_scatter_add) /* without what is added to, the result is zeroed first */
        return 3 * bytes_of(m, i->in[0]) + bytes_of(m, i->in[1]) +
               (i->nin == 3 ? 0 : bytes_of(m, i->out[0]));
    for (uint32_t k = 0; k < i->nin; k++)
        bytes += bytes_of(m, i->in[k]);
    for (uint32_t k = 0; k < i->nout; k++)
        bytes += bytes_of(m, i->out[k]);
    return bytes;
}

static double over_size(const Module *m, Value v, const DimList *over)
{
    double n = 1;
    for (int i = 0; i < over->n; i++) {
        int at = type_find(type_of(m, v), over->dim[i].name);
        n *= at < 0 ? 1 : (double)type_of(m, v)->dims[at].size;
    }
    return n;
}

static double dim_size(const Module *m, Value v, Name d)
{
    int at = type_find(type_of(m, v), d);
    return at < 0 ? 1 : (double)type_of(m, v)->dims[at].size;
}

static Cost sum_of_body(const Module *m, const Region *r)
{
    Cost c = {0};
    for (size_t i = 0; i < r->ins.n; i++) {
        Cost one = ir_cost(m, r->ins.data[i]);
        c.flops += one.flops;
        c.bytes += one.bytes;
    }
    return c;
}

double peak_flops(const Device *d, const Train *t)
{
    return t->half == DT_bf16     ? d->flops_bf16
           : t->half              ? d->flops_f16
           : t->compute == DT_f64 ? d->flops_f64
           : t->tf32              ? d->flops_tf32
                                  : d->flops_f32;
}

double product_share(const Device *d, const Train *t)
{
    const double own = t->half                ? 0
                       : t->compute == DT_f64 ? d->product_share_f64
                       : t->tf32              ? d->product_share_tf32
                                              : d->product_share_f32;
    return own > 0 ? own : d->product_share;
}

double product_flops_fp8(const Device *d)
{
    return d->flops_fp8 * (d->product_share_fp8 > 0 ? d->product_share_fp8 : d->product_share);
}

double product_flops(const Device *d, const Train *t)
{
    return peak_flops(d, t) * product_share(d, t);
}

/* ---- arithmetic, an op a function ------------------------------------------------------------
 *
 * Multiplications and additions counted apart (a product of m, n, k costs 2mnk); a causal mask
 * halves attention; its backward has five products where the forward has two. Each adds to what
 * traffic() says. */

static void cost_moved(const Module *m, const Ins *i, Cost *c)
{
    (void)m, (void)i, (void)c; /* bytes alone */
}

static void cost_dot(const Module *m, const Ins *i, Cost *c)
{
    c->flops = 2 * elements(m, i->out[0]) * over_size(m, i->in[0], &i->attrs.over);
}

/* Of the taps that lie between elements none is multiplied. */
static void cost_conv(const Module *m, const Ins *i, Cost *c)
{
    c->flops = 2 * elements(m, i->out[0]);
    for (int k = 0; k < i->attrs.over.n; k++)
        c->flops *= (double)i->attrs.over.dim[k].size;
    for (int k = 0; k < i->attrs.taps->n; k++)
        c->flops /= (double)i->attrs.taps->tap[k].every;
}

static void cost_sum(const Module *m, const Ins *i, Cost *c)
{
    c->flops = elements(m, i->in[0]);
}

static void cost_top(const Module *m, const Ins *i, Cost *c)
{
    c->flops = elements(m, i->in[0]) * (double)i->attrs.to.size;
}

/* Each choice is read for each expert. */
static void cost_slots(const Module *m, const Ins *i, Cost *c)
{
    const double homes = i->op == OP_ends && i->attrs.keys.name ? (double)i->attrs.keys.size
                         : i->attrs.each                        ? (double)i->attrs.each
                                                                : 1;
    c->flops = elements(m, i->in[0]) * (double)i->attrs.dim.size * homes;
}

/* Each choice has a row, so that all rows are multiplied, or as many as are said to be somebody's.
 */
static double rows_used(const Ins *i)
{
    return i->attrs.share > 0 ? i->attrs.share : 1;
}

static void cost_grouped(const Module *m, const Ins *i, Cost *c)
{
    c->flops = 2 * elements(m, i->out[0]) * over_size(m, i->in[0], &i->attrs.over) * rows_used(i);
}

static void cost_grouped_weight(const Module *m, const Ins *i, Cost *c)
{
    c->flops = 2 * elements(m, i->out[0]) / (double)i->attrs.dim.size *
               (elements(m, i->in[2]) / (double)i->attrs.to.size) * (double)i->attrs.along.size *
               rows_used(i);
}

static void cost_combine_weight(const Module *m, const Ins *i, Cost *c)
{
    c->flops = 2 * elements(m, i->in[1]) * over_size(m, i->in[2], &i->attrs.over);
}

static void cost_random(const Module *m, const Ins *i, Cost *c)
{
    c->flops = 10 * elements(m, i->out[0]);
}

/* A block of random bits an element, which several roundings of it share. */
static void cost_stochastic_round(const Module *m, const Ins *i, Cost *c)
{
    c->flops = 24 * elements(m, i->out[0]);
}

/* To look a number of 8 bits up, and to find the nearest, takes about so long. */
static void cost_cast(const Module *m, const Ins *i, Cost *c)
{
    const bool from = dtype_is_dynamic(type_of(m, i->in[0])->dtype);
    const bool to = dtype_is_dynamic(type_of(m, i->out[0])->dtype);
    c->flops = (from ? 12 : to ? 36 : 0) * elements(m, i->out[0]);
}

/* Of a bias more than once: it is read for each pair, and its gradient is read and written. */
static double bias_traffic(const Module *m, const Ins *i, double pairs)
{
    const bool grad = i->op == OP_attention_bias_grad;
    return pairs * (double)dtype_bytes(type_of(m, i->in[0])->dtype) * (grad ? 3 : 1);
}

static void cost_attention(const Module *m, const Ins *i, Cost *c)
{
    const Attrs *a = &i->attrs;
    double seq = dim_size(m, i->in[1], attention_keys(a)), window = (double)a->window;
    /* Of a causal ring: ranks see half of all pairs on average, or, with a window, as few as all.
     * Of a piece of the queries, whose keys are more, all ranks see as many. */
    const bool piece = a->share > 0 && a->keys.name;
    double ring = piece ? 0 : a->share > 0 && a->share < 0.5 ? a->share : a->share > 0 ? 0.5 : 0;
    double part = piece ? a->share : ring > 0 ? ring : a->causal ? 0.5 : 1;
    if (window > 0 && window < seq)
        part = window / seq * (1 - 0.5 * window / seq);
    c->keys = 2 * part * seq;
    c->slowest = ring > 0 ? a->share / ring : 0;
    const DimList values = attention_value_head(a, type_of(m, i->in[1]), type_of(m, i->in[2]));
    double head = over_size(m, i->in[0], &a->over), vhead = over_size(m, i->in[2], &values);
    double pairs = elements(m, i->in[0]) / head * seq * part;
    c->more = attention_beside(i->op != OP_attention, part * seq, a->causal || piece,
                               window > 0 && window < seq);
    c->across = a->biased ? bias_traffic(m, i, pairs) : 0;
    c->flops = pairs * (i->op == OP_attention_grad ? 6 * head + 4 * vhead : 2 * head + 2 * vhead);
    c->exps = pairs * (i->op == OP_attention_grad ? 2 : 1) * (a->cap > 0 ? 2 : 1);
}

static void cost_cross_entropy(const Module *m, const Ins *i, Cost *c)
{
    c->flops = 12 * elements(m, i->in[0]);
    c->exps = elements(m, i->in[0]);
}

static void cost_head(const Module *m, const Ins *i, Cost *c)
{
    double rows = elements(m, i->in[2]), classes = dim_size(m, i->in[1], i->attrs.dim.name);
    double hidden = over_size(m, i->in[0], &i->attrs.over);
    c->flops = rows * classes *
               (i->op == OP_head          ? 6 * hidden + 24
                : i->op == OP_head_frozen ? 4 * hidden + 24
                                          : 2 * hidden + 12);
    c->bytes += rows * classes * (double)dtype_bytes(type_of(m, i->in[0])->dtype);
    c->exps = rows * classes;
}

static void cost_repeat(const Module *m, const Ins *i, Cost *c)
{
    Cost body = sum_of_body(m, i->body);
    c->flops = body.flops * (double)i->attrs.dim.size;
    c->bytes = body.bytes * (double)i->attrs.dim.size;
}

static void cost_fused(const Module *m, const Ins *i, Cost *c)
{
    c->flops = sum_of_body(m, i->body).flops;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define cost_const               cost_moved
#define cost_iota                cost_moved
#define cost_rename              cost_moved
#define cost_pick                cost_moved
#define cost_window              cost_moved
#define cost_split               cost_moved
#define cost_merge               cost_moved
#define cost_join                cost_moved
#define cost_rotate              cost_moved
#define cost_reindex             cost_moved
#define cost_gather              cost_moved
#define cost_put                 cost_moved
#define cost_dispatch            cost_moved
#define cost_combine             cost_moved
#define cost_guard               cost_moved
#define cost_transfer            cost_moved
#define cost_rmax                cost_sum
#define cost_tile_scale          cost_sum
#define cost_round_tiles         cost_sum
#define cost_scatter_add         cost_sum
#define cost_ends                cost_slots
#define cost_dot_scaled          cost_dot
#define cost_dot_bias            cost_dot
#define cost_dot_sum             cost_dot
#define cost_dot_gelu            cost_dot
#define cost_dot_gelu_aux        cost_dot
#define cost_dot_gelu_grad       cost_dot
#define cost_attention_grad      cost_attention
#define cost_attention_bias_grad cost_attention
#define cost_cross_entropy_grad  cost_cross_entropy
#define cost_head_frozen         cost_head
#define cost_head_loss           cost_head

typedef void CostFn(const Module *m, const Ins *i, Cost *c);
static CostFn *const cost[OP_count] = {
#define OP(name, ...)         [OP_##name] = cost_##name,
#define COLLECTIVE(name, ...) [OP_##name] = cost_moved, /* what is sent is plan/rates.c's */
#include "ir/ops.def"
};

Cost ir_cost(const Module *m, const Ins *i)
{
    Cost c = {.bytes = traffic(m, i)};
    if (op_is(i->op, POINTWISE))
        c.flops = op_info[i->op].flops * elements(m, i->out[0]);
    else
        cost[i->op](m, i, &c);
    return c;
}
