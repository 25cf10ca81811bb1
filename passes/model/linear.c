/* linear.c - recognises linear recurrences; see linear.h. */
#include "passes/model/linear.h"

#include "passes/all_indices.h"
#include "passes/model/logs.h"
#include "passes/view.h"
#include "passes/walk.h"

static bool inside(const Linear *x, Value v)
{
    return x->m->values.data[v].home == x->loop->body;
}

static Role role_of(const Linear *x, Value v)
{
    return inside(x, v) ? x->role[v] : ROLE_before;
}

static bool no(Linear *x, const char *why)
{
    x->why = why;
    return false;
}

/* ---- factors of a term ----------------------------------------------------------------------- */

/* The value that v is: behind a slice and copies in another order of dims. */
static const Ins *made_by(const Linear *x, Value v)
{
    const Module *m = x->m;
    Value stacked;
    for (;;) {
        const Ins *i = m->values.data[v].def;
        if (i && i->op == OP_copy && type_same_dims(type_of(m, v), type_of(m, i->in[0])))
            v = i->in[0];
        else if (!i && slice_loop(m, v, &stacked) == x->loop)
            v = stacked;
        else
            return i;
    }
}

/* v is one factor of s, or several if it is a product of values with fewer dims. */
static bool add_factors(Linear *x, Step *s, Value v)
{
    const Ins *i = made_by(x, v);
    const int rank = type_of(x->m, v)->rank;
    bool outer = false;
    for (uint32_t k = 0; i && i->op == OP_mul && k < 2; k++)
        outer |= type_of(x->m, i->in[k])->rank < type_of(x->m, i->out[0])->rank;
    for (uint32_t k = 0; outer && k < 2;
         k++) /* of a value that is not all read, it is one factor */
        outer = !inside(x, i->in[k]) || x->role[i->in[k]] != ROLE_chain;
    if (outer)
        return add_factors(x, s, i->in[0]) && add_factors(x, s, i->in[1]);
    if (i && i->op == OP_neg && role_of(x, i->in[0]) == ROLE_before) {
        s->minus = !s->minus;
        return add_factors(x, s, i->in[0]);
    }
    if (s->n == LINEAR_FACTORS || rank > MAX_RANK)
        return no(x, "a term has too many factors");
    if (role_of(x, v) == ROLE_after) {
        if (s->solved >= 0)
            return no(x, "two factors of one term depend on the state");
        s->solved = s->n;
    }
    s->factor[s->n++] = v;
    return true;
}

/* ---- the body -------------------------------------------------------------------------------- */

static Chain *extended(Arena *tmp, const Chain *c, const Step *s)
{
    Chain *r = NEW(tmp, Chain);
    *r = *c;
    if (s)
        r->step[r->n++] = s;
    return r;
}

/* i, whose operand k alone is a chain, goes on with it; NULL: it reads it. */
static bool go_on(Linear *x, Arena *tmp, const Ins *i, int k, const Chain **out)
{
    const Chain *c = x->chain[i->in[k]];
    const Type *was = type_of(x->m, i->in[k]), *t = type_of(x->m, i->out[0]);
    *out = NULL;
    if (i->op == OP_copy && type_same_dims(was, t)) {
        *out = c;
        return true;
    }
    const bool adds = (i->op == OP_add || (i->op == OP_sub && k == 0)) && type_same_dims(was, t);
    const bool scales = i->op == OP_mul && role_of(x, i->in[1 - k]) == ROLE_before;
    if (!adds && !scales)
        return true;
    if (c->n == LINEAR_STEPS)
        return no(x, "a state has too many steps");
    Step *s = NEW(tmp, Step);
    *s = (Step){.scales = scales, .minus = i->op == OP_sub, .solved = -1};
    if (scales)
        s->factor[s->n++] = i->in[1 - k];
    else if (!add_factors(x, s, i->in[1 - k]))
        return false;
    *out = extended(tmp, c, s);
    return true;
}

static bool look_at(Linear *x, Arena *tmp, const Ins *i)
{
    int chains = 0, at = 0;
    bool after = false;
    if (!goes_by_names(x->m, i))
        return no(x, "its body has what is not computed for all indices at once");
    for (uint32_t k = 0; k < i->nin; k++) {
        const Role r = role_of(x, i->in[k]);
        after |= r == ROLE_after;
        if (r == ROLE_chain) {
            chains++;
            at = (int)k;
        }
    }
    if (i->op == OP_gather && chains + after)
        return no(x, "its state is a table");
    if (i->op == OP_gather && inside(x, i->in[0]))
        return no(x, "it looks up in a table that changes");
    const Chain *c = NULL;
    if (chains == 1 && !go_on(x, tmp, i, at, &c))
        return false;
    x->role[i->out[0]] = c ? ROLE_chain : chains || after ? ROLE_after : ROLE_before;
    x->chain[i->out[0]] = c;
    return true;
}

bool linear_read(const Linear *x, const Ins *i, Read *r)
{
    *r = (Read){0};
    if (!OP_AMONG(i->op, OP_dot, OP_sum))
        return false;
    for (uint32_t k = 0; k < i->nin; k++) {
        if (role_of(x, i->in[k]) != ROLE_chain)
            continue;
        if (r->chain || (i->nin == 2 && role_of(x, i->in[1 - k]) != ROLE_before))
            return false;
        *r = (Read){x->chain[i->in[k]], i->nin == 2 ? i->in[1 - k] : 0, i->attrs.over};
    }
    return r->chain;
}

bool linear_affine(const Linear *x, Value v, const Ins **read, AffineFn *each, void *ctx)
{
    const Ins *i = inside(x, v) ? x->m->values.data[v].def : NULL;
    Read r;
    if (!i)
        return false;
    if (linear_read(x, i, &r)) {
        *read = i;
        return true;
    }
    int at = 0, depend = 0;
    for (uint32_t k = 0; k < i->nin; k++)
        if (role_of(x, i->in[k]) != ROLE_before) {
            at = (int)k;
            depend++;
        }
    const bool wide = type_of(x->m, i->in[at])->rank == type_of(x->m, v)->rank;
    if (depend != 1 || !wide || !OP_AMONG(i->op, OP_add, OP_sub, OP_mul, OP_neg, OP_copy) ||
        !linear_affine(x, i->in[at], read, each, ctx))
        return false;
    if (each)
        each(ctx, i, at);
    return true;
}

/* ---- what is asked of them ------------------------------------------------------------------- */

/* Is the chain c a beginning of the update, with more steps? Then that is how many are of it. */
static int common(const Chain *update, const Chain *c)
{
    int n = 0;
    while (n < c->n && n < update->n && update->step[n] == c->step[n])
        n++;
    return n;
}

/* Has a read at hand one more dim than can be: of both positions of a chunk, and of the chunk? */
static bool fits(const Linear *x, const Read *r, int state)
{
    int rank = type_of(x->m, x->loop->in[state])->rank + 3;
    const Type *by = r->by ? type_of(x->m, r->by) : NULL;
    for (int k = 0; by && k < by->rank; k++)
        rank += type_find(type_of(x->m, x->loop->in[state]), by->dims[k].name) < 0;
    for (int n = 0; n < r->chain->n; n++)
        for (int k = 0; r->chain->step[n]->scales && k < 1; k++) {
            const Type *t = type_of(x->m, r->chain->step[n]->factor[0]);
            for (int d = 0; d < t->rank; d++)
                rank += type_find(type_of(x->m, x->loop->in[state]), t->dims[d].name) < 0;
        }
    return rank <= MAX_RANK;
}

/* Would a term be as large as the state at each index? A product of what lacks dims, read whole. */
static bool is_outer(const Linear *x, const Chain *update, int state)
{
    const int rank = type_of(x->m, x->loop->in[state])->rank;
    for (int k = 0; k < update->n; k++) {
        const Step *s = update->step[k];
        bool whole = s->scales;
        for (int f = 0; f < s->n; f++) {
            const Type *t = type_of(x->m, s->factor[f]);
            whole |= t->rank - (type_find(t, x->loop->attrs.dim.name) >= 0) >= rank;
        }
        if (!whole)
            return true;
    }
    return false;
}

static bool check_read(Linear *x, const Read *r)
{
    const Chain *update = x->update[r->chain->state];
    const int state = r->chain->state;
    for (int k = common(update, r->chain); k < r->chain->n; k++)
        if (!r->chain->step[k]->scales && r->chain->step[k]->solved >= 0)
            return no(x, "what is read of the state is added to it, too");
    if (!fits(x, r, state))
        return no(x, "its state has too many dims");
    if (!r->over.n && is_outer(x, update, state))
        return no(x, "its whole state is read at each index");
    return true;
}

static bool check_update(Linear *x, int state)
{
    const Chain *c = x->update[state];
    const Type *t = type_of(x->m, x->loop->in[state]);
    x->solved[state] = -1;
    for (int k = 0; k < c->n; k++) {
        const Step *s = c->step[k];
        for (int f = 0; f < s->n; f++) {
            const Type *of = type_of(x->m, s->factor[f]);
            for (int d = 0; d < of->rank; d++)
                if (type_find(t, of->dims[d].name) < 0 &&
                    of->dims[d].name != x->loop->attrs.dim.name)
                    return no(x, "a factor has a dim that its state lacks");
        }
        if (s->scales && !has_log(x->m, s->factor[0]))
            return no(x, "the factor of its state may be 0 or less");
        if (s->scales || s->solved < 0)
            continue;
        Read r;
        if (x->solved[state] >= 0)
            return no(x, "two terms depend on the state");
        if (!linear_affine(x, s->factor[s->solved], &x->read[state], NULL, NULL) ||
            !linear_read(x, x->read[state], &r) || r.chain->state != state)
            return no(x, "what is added to the state is not linear in it");
        if (common(c, r.chain) > k || !r.over.n)
            return no(x, "what is added to the state is not linear in it");
        x->solved[state] = k;
    }
    return true;
}

/* Each read of each chain, by instructions and by the loop's results. */
static bool check_reads(Linear *x)
{
    const Region *body = x->loop->body;
    for (size_t k = 0; k < body->ins.n; k++) {
        const Ins *i = body->ins.data[k];
        Read r;
        if (x->role[i->out[0]] != ROLE_after)
            continue;
        if (linear_read(x, i, &r)) {
            if (!check_read(x, &r))
                return false;
            continue;
        }
        for (uint32_t o = 0; o < i->nin; o++)
            if (role_of(x, i->in[o]) == ROLE_chain &&
                !check_read(x, &(Read){.chain = x->chain[i->in[o]]}))
                return false;
    }
    for (size_t k = (size_t)x->states; k < body->results.n; k++) {
        const Value v = body->results.data[k];
        if (role_of(x, v) == ROLE_chain && !check_read(x, &(Read){.chain = x->chain[v]}))
            return false;
    }
    return true;
}

bool linear_scan(Module *m, const Ins *loop, Arena *tmp, Linear *x)
{
    const Region *body = loop->body;
    *x = (Linear){.m = m,
                  .loop = loop,
                  .role = NEW_ARRAY(tmp, Role, m->values.n),
                  .chain = NEW_ARRAY(tmp, const Chain *, m->values.n)};
    x->states = (int)loop->attrs.carried;
    if (!x->states)
        return no(x, "it carries nothing");
    if (x->states > LINEAR_STATES)
        return no(x, "it carries too many values");
    for (int k = 0; k < x->states; k++) {
        Chain *c = NEW(tmp, Chain);
        c->state = k;
        x->role[body->args.data[k]] = ROLE_chain;
        x->chain[body->args.data[k]] = c;
    }
    for (size_t k = 0; k < body->ins.n; k++)
        if (!look_at(x, tmp, body->ins.data[k]))
            return false;
    for (int k = 0; k < x->states; k++) {
        const Value next = body->results.data[k];
        if (role_of(x, next) != ROLE_chain || x->chain[next]->state != k || !x->chain[next]->n)
            return no(x, "what it carries is not linear in what it carried");
        x->update[k] = x->chain[next];
    }
    for (int k = 0; k < x->states; k++)
        if (!check_update(x, k))
            return false;
    return check_reads(x);
}
