/* shard_old.c - what pass shard asks of the program as it was; see shard.h. */
#include "passes/spmd/shard.h"
#include "passes/walk.h"

static void note_use(Shard *s, Value v, const Ins *i, const Region *of, size_t at)
{
    if (v < s->values)
        vec_push(s->tmp, &s->uses[v], ((Use){i, of, at}));
}

static void read_uses(Shard *s, const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        for (uint32_t x = 0; x < i->nin; x++)
            note_use(s, i->in[x], i, NULL, x);
        if (i->body)
            read_uses(s, i->body);
    }
    for (size_t k = 0; k < r->results.n; k++)
        note_use(s, r->results.data[k], NULL, r, k);
}

/* A carried value that becomes a gradient is an accumulator of it. In a tree, the sum that the
 * inner loop adds to it is one as well. */
static void read_accumulators(Shard *s, Value v, uint32_t tensor)
{
    const Ins *def = s->m->values.data[v].def, *sum, *inner;
    if (def && def->op == OP_cast) { /* of a sum that is kept in fewer bits */
        s->grad[def->in[0]] = tensor + 1;
        read_accumulators(s, def->in[0], tensor);
        return;
    }
    for (uint32_t k = 0; def && def->op == OP_add && s->m->layout.pipeline.axis && k < def->nin;
         k++) {
        s->grad[def->in[k]] = tensor + 1; /* of a table that two stages use */
        read_accumulators(s, def->in[k], tensor);
    }
    for (uint32_t n = 0; def && def->op == OP_repeat && n < (uint32_t)def->attrs.carried; n++) {
        if (def->out[n] != v)
            continue;
        s->grad[def->body->args.data[n]] = tensor + 1;
        sum = s->m->values.data[def->body->results.data[n]].def;
        inner = def->exact && sum && sum->exact ? s->m->values.data[sum->in[1]].def : NULL;
        if (inner && inner->op == OP_repeat && inner->exact)
            read_accumulators(s, sum->in[1], tensor);
    }
}

static void read_gradients(Shard *s)
{
    for (size_t k = 0; k < s->fn->gradients.n; k++) {
        FnGradient g = s->fn->gradients.data[k];
        s->grad[g.v] = g.tensor + 1;
        s->whole_grad[g.v] = true;
        read_accumulators(s, g.v, g.tensor);
    }
}

/* Leaves are computed as they are wanted, wherever that is, and never sent. */
static void read_leaves(Shard *s, const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        bool leaf =
            i->op == OP_const || i->op == OP_iota || i->op == OP_cast || op_is(i->op, POINTWISE);
        for (uint32_t x = 0; x < i->nin; x++)
            leaf &= s->leaf[i->in[x]];
        if (i->body)
            read_leaves(s, i->body);
        if (leaf)
            s->leaf[i->out[0]] = true;
    }
}

Value shard_accumulator(const Shard *s, Value v)
{
    for (;;) {
        const ValueInfo *x = &s->m->values.data[v];
        const Ins *loop = x->home->owner;
        double start;
        size_t k = 0;
        if (x->def && OP_AMONG(x->def->op, OP_window, OP_cast)) { /* cast: it is of halves */
            v = x->def->in[0];
            continue;
        }
        if (x->def || !loop)
            return 0;
        while (x->home->args.data[k] != v)
            k++;
        if (k >= loop->nin)
            return 0;
        if (k < (size_t)loop->attrs.carried)
            return value_is_const(s->m, loop->in[k], &start) && start == 0 ? v : 0;
        v = loop->in[k];
    }
}

/* The same of what an instruction does with operand `at`. */
static bool use_stays_partial(const Shard *s, const Ins *i, size_t at)
{
    if (OP_AMONG(i->op, OP_add, OP_sub, OP_neg, OP_cast, OP_sum, OP_join, OP_window, OP_reindex))
        return true;
    if (i->op == OP_repeat)
        return at >= (size_t)i->attrs.carried;
    if (OP_AMONG(i->op, OP_copy, OP_dispatch, OP_combine, OP_stochastic_round))
        return !at && shard_stays_partial(s, i->out[0]);
    if (i->op == OP_combine_weight) /* a number a choice is added up instead */
        return !at;
    return i->op == OP_mul && !type_of(s->m, i->in[1 - at])->rank;
}

/* Halves that a loop of the forward part stacks for the backward part: added up, they are a part of
 * what they are partial, and nobody adds them up again. */
static bool is_kept(const Shard *s, Value v)
{
    const Ins *def = s->m->values.data[v].def;
    return def && !def->backward && !s->m->train.wide_partials &&
           dtype_is_half(type_of(s->m, v)->dtype);
}

bool shard_stays_partial(const Shard *s, Value v)
{
    for (size_t k = 0; k < s->uses[v].n; k++) {
        Use u = s->uses[v].data[k];
        if (!u.ins) {
            const Ins *loop = u.of->owner;
            if (!loop || (u.at >= (size_t)loop->attrs.carried && is_kept(s, v)))
                return false;
            /* A gradient is added up behind the loop that stacks it. */
            const bool stays =
                u.at < (size_t)loop->attrs.carried
                    ? s->hint[u.of->args.data[u.at]] != 0
                    : s->whole_grad[loop->out[u.at]] || shard_stays_partial(s, loop->out[u.at]);
            if (!stays)
                return false;
            continue;
        }
        if (!use_stays_partial(s, u.ins, u.at))
            return false;
    }
    return true;
}

bool shard_read_ahead(const Shard *s, Value v, Type *t)
{
    const Module *m = s->m;
    const Value of = made_ahead_of(m, v);
    const int at = of != v && m->values.data[of].home == s->fn->body ? arg_index(m, of) : -1;
    if (at < 0 || s->fn->args.data[at].role > ARG_rounded || m->layout.once)
        return false;
    const Tensor *x = &m->tensors.data[s->fn->args.data[at].tensor];
    bool sliced = false;
    for (size_t k = 0; k < s->uses[v].n; k++) {
        const Ins *i = s->uses[v].data[k].ins;
        sliced |= i && (i->op == OP_repeat || op_is(i->op, VIEW));
    }
    if (!sliced || !tensor_is_ahead(x))
        return false;
    const Split split = class_split_of(m, type_of(m, v), x->parameter, CLASS_params);
    *t = split_type(m, *type_of(m, v), &split);
    return true;
}

/* Finds the first instruction of the optimizer, and its parameters. */
static void read_parameters(Shard *s)
{
    const Region *r = s->fn->body;
    for (size_t k = 0; k < r->args.n; k++)
        if (s->fn->args.data[k].role == ARG_param)
            s->param[r->args.data[k]] = s->fn->args.data[k].tensor + 1;
    s->updates = r->ins.n;
    for (size_t k = 0; k < s->fn->gradients.n; k++) {
        const Ins *def = s->m->values.data[s->fn->gradients.data[k].v].def;
        size_t at = 0;
        while (def && at < r->ins.n && r->ins.data[at] != def)
            at++;
        s->updates = !k || at + 1 > s->updates ? at + 1 : s->updates;
    }
}

void shard_read(Shard *s)
{
    read_parameters(s);
    read_uses(s, s->fn->body);
    read_leaves(s, s->fn->body);
    read_gradients(s);
    for (size_t v = 1; v < s->values && s->m->layout.mesh.n; v++)
        s->exchange[v] = exchange_of_readers(s, (Value)v);
}

/* Do additions and sums over dims alone read v, and is one of these sums reduced as it is made? */
static bool sum_is_reduced(const Shard *s, Value v)
{
    bool any = false;
    for (size_t k = 0; k < s->uses[v].n; k++) {
        const Ins *i = s->uses[v].data[k].ins;
        if (!i || i->home != s->m->values.data[v].home ||
            !OP_AMONG(i->op, OP_add, OP_sub, OP_sum) || (i->op == OP_sum && i->nin > 1))
            return false;
        any |= i->op == OP_sum && type_of(s->m, s->made[i->out[0]])->partial &&
               !type_of(s->m, s->now[i->out[0]])->partial;
    }
    return any;
}

void shard_reduce_once(Shard *s)
{
    bool known = !s->again;
    for (size_t v = 0; v < s->values && known; v++)
        if (s->has_all[v] && !s->has_less[v] && sum_is_reduced(s, (Value)v))
            s->whole[v] = s->again = true;
}
