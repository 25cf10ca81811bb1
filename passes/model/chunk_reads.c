/* chunk_reads.c - what is read of a state, for all positions of all chunks at once; see chunk.c. */
#include "passes/model/chunk_reads.h"

#include "passes/walk.h"

/* The product of a term's factors that have one of some dims (with), or none of them; along s. The
 * solved factor is left out. 0: there are none. */
Value chunk_factors(Chunk *c, const Step *s, const DimList *over, bool with, bool from)
{
    Value r = 0;
    for (int k = 0; k < s->n; k++) {
        if (k == s->solved)
            continue;
        const Value v = chunk_cut(c, chunk_all(c, s->factor[k]), from);
        bool has = false;
        for (int d = 0; d < over->n; d++)
            has |= chunk_has(c, v, over->dim[d].name);
        if (has == with)
            r = chunk_times(c, r, v);
    }
    return r;
}

static bool has_any(const Chunk *c, Value v, const DimList *over)
{
    for (int d = 0; d < over->n; d++)
        if (chunk_has(c, v, over->dim[d].name))
            return true;
    return false;
}

/* The part that is left at t, behind `steps` steps, of what step k added at s: [.., t, s], 0 where
 * it is added later. */
static Value left_of(Chunk *c, const Chain *update, int steps, int k)
{
    const Value mask = chunk_before(c, k < steps);
    const DType dtype = type_of(c->m, c->x->loop->in[0])->dtype;
    const Value to = chunk_fade(c, update, steps, false);
    const Value from = chunk_fade(c, update, k + 1, true);
    if (!to) {
        const Value in[] = {mask, build_const(&c->b, dtype, 1), build_const(&c->b, dtype, 0)};
        return build(&c->b, OP_select, NULL, 3, in);
    }
    const Value less = build2(&c->b, OP_sub, to, from);
    const Type t = *type_of(c->m, less);
    const Value in[] = {mask, less, build_const(&c->b, dtype, -1e30)};
    return build1(&c->b, OP_exp, build_typed(&c->b, OP_select, NULL, 3, in, 1, &t, NULL)->out[0]);
}

Value chunk_scores(Chunk *c, const Place *p, int k)
{
    const Chain *update = c->x->update[p->state];
    const Step *s = update->step[k];
    const Value left = left_of(c, update, p->steps, k);
    const Value inner = chunk_factors(c, s, &p->over, true, true);
    if (has_any(c, left, &p->over)) /* it fades along what is summed, too */
        return chunk_contract(c, chunk_times(c, chunk_times(c, left, p->by), inner), 0, &p->over);
    if (!p->by && !inner)
        return chunk_contract(c, left, 0, &p->over);
    return chunk_times(c, chunk_contract(c, p->by, inner, &p->over), left);
}

static Value negated(Chunk *c, const Step *s, Value v)
{
    return s->minus ? build1(&c->b, OP_neg, v) : v;
}

/* The place's view of what step k added in this chunk. solved: its solved factor, along s. */
static Value of_term(Chunk *c, const Place *p, int k, Value solved)
{
    const Step *s = c->x->update[p->state]->step[k];
    const Value scores = chunk_scores(c, p, k);
    const Value outer = chunk_times(c, chunk_factors(c, s, &p->over, false, true), solved);
    const DimList along = {.n = 1, .dim = {c->s}};
    return negated(c, s, chunk_contract(c, scores, outer, &along));
}

Value chunk_carried(Chunk *c, const Place *p, Value state, Value times)
{
    const Value fade = chunk_fade(c, c->x->update[p->state], p->steps, false);
    const Value left = fade ? build1(&c->b, OP_exp, fade) : 0;
    if (has_any(c, left, &p->over))
        return chunk_contract(c, chunk_times(c, chunk_times(c, p->by, left), times), state,
                              &p->over);
    const Value r =
        p->by ? chunk_contract(c, p->by, state, &p->over) : build_sum(&c->b, state, &p->over);
    return chunk_times(c, chunk_times(c, r, left), times);
}

Value chunk_terms(Chunk *c, const Place *p, Value solved)
{
    const Chain *update = c->x->update[p->state];
    Value r = 0;
    for (int k = 0; k < update->n; k++) {
        const Step *s = update->step[k];
        if (!s->scales && (s->solved < 0 || solved))
            r = chunk_plus(c, r, of_term(c, p, k, s->solved < 0 ? 0 : solved));
    }
    return r;
}

Place chunk_place(Chunk *c, const Read *read, Value *also)
{
    const Chain *update = c->x->update[read->chain->state];
    Place p = {.state = read->chain->state, .over = read->over};
    while (p.steps < read->chain->n && p.steps < update->n &&
           read->chain->step[p.steps] == update->step[p.steps])
        p.steps++;
    if (read->by)
        p.by = chunk_cut(c, chunk_all(c, read->by), false);
    *also = 0;
    for (int k = read->chain->n; k-- > p.steps;) { /* from the read back to the state's own chain */
        const Step *s = read->chain->step[k];
        if (s->scales) {
            p.by = chunk_times(c, p.by, chunk_cut(c, chunk_all(c, s->factor[0]), false));
            continue;
        }
        const Value inner = chunk_factors(c, s, &p.over, true, false);
        const Value by = !p.by && !inner ? 0 : chunk_contract(c, p.by, inner, &p.over);
        const Value term = chunk_times(c, by, chunk_factors(c, s, &p.over, false, false));
        *also = chunk_plus(c, *also, negated(c, s, term));
    }
    return p;
}

Value chunk_read(Chunk *c, const Read *read, const Type *t)
{
    Value r;
    const Place p = chunk_place(c, read, &r);
    r = chunk_plus(c, chunk_terms(c, &p, c->solved[p.state]), r);
    r = chunk_plus(c, r, chunk_carried(c, &p, c->entered[p.state], 0));
    return chunk_uncut(c, r, t);
}
