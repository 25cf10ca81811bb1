/* schedule_store.c - decides where values live; see schedule.h. */
#include "plan/schedule/schedule.h"
#include "passes/view.h"

#include <string.h>

/* The operand an accumulating instruction adds to, or 0. */
static Value added_to(const Ins *i)
{
    int k = ins_added(i);
    return k < 0 ? 0 : i->in[k];
}

typedef struct Planner {
    Sched *s;
    Region *r;
    int home;
    const int *last; /* last use of each value here */
    int *def;        /* position of each value's instruction here, or -1 */
    Moves *moves;
} Planner;

static bool owns_storage(const Planner *p, Value v)
{
    const Ins *d = p->s->m->values.data[v].def;
    return p->def[v] >= 0 && !op_is(d->op, VIEW);
}

/* Asks for v to be computed in w.to; false if it cannot be. The results of a loop and of a join are
 * asked for here and settled when it is planned. What is only seen as other dims is asked for as it
 * is computed. */
static bool ask(Planner *p, Value v, const Want *w)
{
    Sched *s = p->s;
    const Ins *d = s->m->values.data[v].def;
    if (d && OP_AMONG(d->op, OP_rename, OP_split, OP_merge)) {
        Want inner = *w;
        return strides_behind_view(d, type_of(s->m, v), w->to.stride, type_of(s->m, d->in[0]),
                                   inner.to.stride) &&
               ask(p, d->in[0], &inner);
    }
    if (!owns_storage(p, v) || want_of(s, v)->set)
        return false;
    if (d->op != OP_repeat && d->op != OP_join && p->def[v] <= w->free_from &&
        !(p->def[v] == w->free_from && takes_over(s->m, d, v, w->occupant)))
        return false;
    *want_of(s, v) = *w;
    want_of(s, v)->set = true;
    return true;
}

/* A value that a scan's iteration is given and stacks as it is can be moved before all else: its
 * place is free, and what becomes of it may then be computed over it. */
static void ask_or_move(Planner *p, Value v, const Want *w)
{
    const bool given = p->r->owner && p->r->owner->attrs.scan && arg_index(p->s->m, v) >= 0 &&
                       p->s->m->values.data[v].home == p->r;
    if (!ask(p, v, w))
        vec_push(p->s->tmp, p->moves,
                 (Move){.from = v, .to = w->to, .first = given && w->free_from < 0});
}

typedef struct LoopMaker {
    Planner *p;
    const Ins *i;
    int at, index; /* position; number of the loop in the program */
    LoopPlan *lp;
    const int *body_last;
    bool *settled; /* per result */
    Value *over;   /* per result: what lies where it is wanted, or 0 */
} LoopMaker;

/* Result k cannot be computed where it is wanted: it is copied there, at once if that place is
 * free when the loop has ended, for what follows may count on it. */
static void copy_out(LoopMaker *l, uint32_t k)
{
    Sched *s = l->p->s;
    Value out = l->i->out[k];
    const Want *w = want_of(s, out);
    if (!w->set || w->start)
        return;
    Move m = {.from = out, .to = w->to};
    if (w->free_from <= l->at)
        vec_push(s->tmp, &l->lp->after, m);
    else
        vec_push(s->tmp, l->p->moves, m);
}

/* Has the loop at position `at` operand k all to itself: is it read as that operand only, and not
 * afterwards? */
static bool only_operand(const Planner *p, const Ins *loop, int at, uint32_t k)
{
    const Module *m = p->s->m;
    Part part = part_of(m, loop->in[k]);
    if (last_read(p->s->m, p->r, &part, -1) != at || region_reads(m, loop->body, part.root))
        return false;
    for (uint32_t n = 0; n < loop->nin; n++)
        if (n != k && part_touches(m, loop->in[n], &part))
            return false;
    return true;
}

/* Is v what a region hands on as `result`, or a part of what it joins for it, from this element on?
 */
static bool handed_on(const Module *m, Value result, Value v, int64_t from)
{
    const View seen = view_of(m, result);
    const Ins *join = m->values.data[seen.root].def;
    if (seen.root == v)
        return from == 0;
    if (!join || join->op != OP_join || !join_is_outermost(m, join))
        return false;
    for (uint32_t k = 0; k < join->nin; k++) {
        const int64_t n = type_elements(type_of(m, join->in[k]));
        if (from >= 0 && from < n)
            return handed_on(m, join->in[k], v, from);
        from -= n;
    }
    return false;
}

/* Storage that an instruction of the region may write for its result v, from this element on: what
 * is made here; and what the loop around it carries or hands in as the slice of a stack that it
 * takes over, if v is what becomes of just that. Not the program's arguments, nor what is read
 * again behind the loop. */
static bool is_writable(const Planner *p, const View *at, Value v)
{
    const Module *m = p->s->m;
    const Ins *loop = p->r->owner;
    const int k = arg_index(m, at->root);
    if (owns_storage(p, at->root))
        return true;
    if (k < 0 || !loop || m->values.data[at->root].home != p->r)
        return false;
    const LoopPlan *around = loop_plan(p->s, loop);
    for (uint32_t out = 0; out < loop->nout; out++) {
        bool in_place = k < loop->attrs.carried ? (int)out == k : around->share[out] == k;
        if (in_place && handed_on(m, p->r->results.data[out], v, at->offset))
            return true;
    }
    return false;
}

static bool shared_already(const LoopMaker *l, uint32_t j)
{
    for (uint32_t k = 0; k < l->i->nout; k++)
        if (l->lp->share[k] == (int)j)
            return true;
    return false;
}

/* Is another result than k wanted where the stack `root` lies? */
static bool kept_for_another(const LoopMaker *l, uint32_t k, Value root)
{
    for (uint32_t n = 0; n < l->i->nout; n++)
        if (n != k && l->over[n] == root)
            return true;
    return false;
}

/* Is result k of a loop of which a phase of a pipeline runs some iterations wanted where the stack
 * `root` lies? Then each iteration moves its slice there, as it is done with it. (Elsewhere all of
 * the result is moved at once, behind the loop: the slices of iterations that do not run stay as
 * they are.)
 */
static bool moved_by_iteration(const LoopMaker *l, uint32_t k, Value root)
{
    return l->over[k] == root && pipe_runs_parts(l->p->s, l->i);
}

/* Is result k of a loop of the function's own the new value of an argument, `at`, which it is
 * wanted in the place of? Then an iteration writes the slice that it has read. */
static bool is_updated(const LoopMaker *l, uint32_t k, const View *at)
{
    const Module *m = l->p->s->m;
    return !l->p->r->owner && l->over[k] == at->root && at->offset == 0 &&
           arg_index(m, at->root) >= 0 && m->values.data[at->root].home == l->p->r;
}

/* The slice operand whose storage stacked result k can take over, or -1: nobody reads the stack
 * afterwards, and the body computes the result in the slice's place, or has to move it there. Where
 * it is wanted in the place of one of them, it is that one, also if the body has read the slice
 * before it computes the result (a sum of several steps). */
static int shared_operand(LoopMaker *l, uint32_t k)
{
    const Module *m = l->p->s->m;
    const Region *b = l->i->body;
    Value res = b->results.data[k];
    const Ins *d = m->values.data[res].def;
    int first = -1;
    if (!d || d->home != b)
        return -1;
    int pos = 0;
    while (b->ins.data[pos] != d)
        pos++;
    for (uint32_t j = (uint32_t)l->i->attrs.carried; j < l->i->nin; j++) {
        Value arg = b->args.data[j], xs = l->i->in[j];
        const View seen = view_of(m, xs);
        const bool wanted = l->over[k] == seen.root;
        const bool by_iteration = moved_by_iteration(l, k, seen.root);
        if (shared_already(l, j) || kept_for_another(l, k, seen.root) ||
            !(l->body_last[arg] == pos || by_iteration || (wanted && l->body_last[arg] < pos)) ||
            !only_operand(l->p, l->i, l->at, j) ||
            !type_equal(type_of(m, xs), type_of(m, l->i->out[k])))
            continue;
        bool writable = (is_writable(l->p, &seen, l->i->out[k]) || is_updated(l, k, &seen)) &&
                        strides_are_dense(type_of(m, xs), seen.stride);
        bool inside = d->op == OP_repeat || l->body_last[arg] < pos || by_iteration ||
                      takes_over(m, d, res, arg);
        if (writable && inside && wanted)
            return (int)j;
        if (writable && inside && first < 0)
            first = (int)j;
    }
    return first;
}

/* Is there a want for result k that the loop may fill from its first iteration on? */
static const Want *free_want(const LoopMaker *l, uint32_t k)
{
    const Want *w = want_of(l->p->s, l->i->out[k]);
    return w->set && w->free_from < l->at ? w : NULL;
}

static void plan_shared(LoopMaker *l, uint32_t k, int j)
{
    Sched *s = l->p->s;
    Value xs = l->i->in[j], out = l->i->out[k];
    Want *w = want_of(s, out);
    l->lp->share[k] = j;
    if (w->set) { /* which is no copy if it turns out to be where it is wanted */
        Want start = *w;
        start.start = true;
        ask(l->p, xs, &start);
        copy_out(l, k);
    }
    w->set = false;
}

static void plan_stacked(LoopMaker *l, uint32_t k)
{
    Sched *s = l->p->s;
    const Region *b = l->i->body;
    Value out = l->i->out[k], res = b->results.data[k];
    const Type *t = type_of(s->m, out), *rt = type_of(s->m, res);
    int j = shared_operand(l, k);
    if (j >= 0) {
        plan_shared(l, k, j);
        return; /* the target is set when the operand's place is known: see loop_targets */
    }
    const Want *w = free_want(l, k);
    l->lp->out[k] = w ? w->to : loc_new(s, out, l->p->home);
    if (!w)
        copy_out(l, k);
    want_of(s, out)->set = false;
    const Loc in = loc_inner(&l->lp->out[k], t->rank - 1);
    const bool one = l->i->attrs.dim.size == 1; /* wherever the loop is in its iterations */
    l->lp->target[k] = (Want){
        .set = true, .to = one ? in : loc_slot(&in, l->index, type_bytes(rt), 0), .free_from = -1};
}

/* The result that stacks carried value k as it enters each iteration, or -1. */
static int64_t stack_of(const Ins *loop, uint32_t k)
{
    const Region *b = loop->body;
    for (uint32_t j = (uint32_t)loop->attrs.carried; j < loop->nout; j++)
        if (b->results.data[j] == b->args.data[k])
            return j;
    return -1;
}

/* Is what a loop begins with read behind the loop, too? */
static bool read_behind(const LoopMaker *l, uint32_t k)
{
    const Part part = part_of(l->p->s->m, l->i->in[k]);
    return last_read(l->p->s->m, l->p->r, &part, -1) > l->at;
}

/* A carried value that is stacked as it enters each iteration lives in the stack itself, which has
 * one slot more: iteration i reads slot i and writes slot i + 1 (backwards: reads i + 1, writes i).
 * Its start is computed there, unless it is read behind the loop: an action that reads the stack
 * then may write over it. */
static void plan_chain(LoopMaker *l, uint32_t k, uint32_t stacked)
{
    Sched *s = l->p->s;
    bool rev = l->i->attrs.reverse;
    const Type *t = type_of(s->m, l->i->out[k]);
    Value out = l->i->out[stacked];
    int64_t bytes = type_bytes(t), n = l->i->attrs.dim.size;
    const Want *part = want_of(s, out);
    const bool joined = part->set && part->chain && !rev;
    Loc base = joined ? loc_inner(&part->to, t->rank) : loc_chain(s, out, n, l->p->home);
    Loc all = base;
    strides_dense(type_of(s->m, out), all.stride);
    LoopPlan *lp = l->lp;
    lp->arg[k] = loc_slot(&base, l->index, bytes, rev ? 1 : 0);
    lp->target[k] =
        (Want){.set = true, .to = loc_slot(&base, l->index, bytes, rev ? 0 : 1), .free_from = -1};
    lp->start[k] = base;
    lp->start[k].at.offset += rev ? bytes * n : 0;
    lp->out[k] = base;
    lp->out[k].at.offset += rev ? 0 : bytes * n;
    lp->out[stacked] = all;
    lp->out[stacked].at.offset += rev ? bytes : 0;
    l->settled[stacked] = true;
    Want w = {.to = lp->start[k], .free_from = -1};
    lp->copy_in[k] = read_behind(l, k) || !ask(l->p, l->i->in[k], &w);
    for (int i = 0; i < 2; i++) {
        uint32_t r = i ? stacked : k;
        Value v = l->i->out[r];
        if (!loc_equal(&want_of(s, v)->to, &lp->out[r], type_of(s->m, v)))
            copy_out(l, r);
        want_of(s, v)->set = false;
    }
}

/* Can a loop go on in the place w with carried value k, because what is there starts it? */
static bool starts_there(const Planner *p, const Ins *loop, int at, uint32_t k, const Want *w)
{
    return w->occupant && w->free_from == at && loop->in[k] == w->occupant &&
           only_operand(p, loop, at, k);
}

/* Could v have been computed in the place w? Not if it was before that place is free. */
static bool too_early(const Planner *p, Value v, const Want *w)
{
    const Ins *d = p->s->m->values.data[v].def;
    if (!owns_storage(p, v) || p->def[v] > w->free_from)
        return false;
    for (uint32_t k = 0; d->op == OP_repeat && k < d->attrs.carried; k++)
        if (d->out[k] == v)
            return !starts_there(p, d, p->def[v], k, w);
    return true;
}

static void plan_carried(LoopMaker *l, uint32_t k)
{
    Sched *s = l->p->s;
    const Region *b = l->i->body;
    Value arg = b->args.data[k], out = l->i->out[k], init = l->i->in[k];
    LoopPlan *lp = l->lp;
    int64_t stack = stack_of(l->i, k), moved = -1;
    if (pipe_is_relay(s, l->i) && !pipe_chains(s))
        stack = -1;
    /* Wanted elsewhere, a stack that is no part of a chain there would be copied as a whole. */
    if (stack >= 0 && l->i->attrs.scan && free_want(l, (uint32_t)stack) &&
        !want_of(s, l->i->out[stack])->chain) {
        moved = stack;
        stack = -1;
    }
    if (stack >= 0 && !l->settled[stack]) {
        plan_chain(l, k, (uint32_t)stack);
        return;
    }
    const Want *w = want_of(s, out);
    bool here = w->set && starts_there(l->p, l->i, l->at, k, w);
    bool fill = here || (w->set && w->free_from < l->at && !too_early(l->p, init, w));
    Loc place = fill ? w->to : loc_new(s, out, l->p->home);
    if (!fill)
        copy_out(l, k);
    Want in = {
        .to = place, .free_from = fill ? w->free_from : -1, .occupant = fill ? w->occupant : 0};
    want_of(s, out)->set = false;
    lp->copy_in[k] = !here && (!only_operand(l->p, l->i, l->at, k) || !ask(l->p, init, &in));
    lp->start[k] = lp->arg[k] = lp->out[k] = place;
    const Part all = part_of(s->m, arg);
    const int last = moved < 0 ? l->body_last[arg] : last_read(s->m, b, &all, moved);
    lp->target[k] = (Want){.set = true, .to = place, .free_from = last, .occupant = arg};
}

static void plan_loop(Planner *p, const Ins *i, int at)
{
    Sched *s = p->s;
    LoopPlan *lp = NEW(s->tmp, LoopPlan);
    *lp = (LoopPlan){.ins = i};
    lp->target = NEW_ARRAY(s->tmp, Want, i->nout + 1);
    lp->arg = NEW_ARRAY(s->tmp, Loc, i->nin + 1);
    lp->out = NEW_ARRAY(s->tmp, Loc, i->nout + 1);
    lp->share = NEW_ARRAY(s->tmp, int, i->nout + 1);
    lp->copy_in = NEW_ARRAY(s->tmp, bool, i->nin + 1);
    lp->start = NEW_ARRAY(s->tmp, Loc, i->nin + 1);
    Loop loop = {.dim = i->attrs.dim, .reverse = i->attrs.reverse, .parent = p->home};
    vec_push(s->m->arena, &s->prog->loops, loop);
    LoopMaker l = {.p = p, .i = i, .at = at, .index = (int)s->prog->loops.n - 1, .lp = lp};
    l.body_last = last_uses(s->m, i->body, s->tmp);
    l.settled = NEW_ARRAY(s->tmp, bool, i->nout + 1);
    l.over = NEW_ARRAY(s->tmp, Value, i->nout + 1);
    for (uint32_t k = 0; k < i->nout; k++) {
        const Want *w = want_of(s, i->out[k]);
        l.over[k] = w->set && w->occupant ? view_of(s->m, w->occupant).root : 0;
        lp->share[k] = -1;
    }
    for (uint32_t k = 0; k < i->attrs.carried; k++)
        plan_carried(&l, k);
    for (uint32_t k = (uint32_t)i->attrs.carried; k < i->nout; k++)
        if (!l.settled[k])
            plan_stacked(&l, k);
    lp->index = l.index;
    vec_push(s->tmp, &s->loops, lp);
}

LoopPlan *loop_plan(Sched *s, const Ins *i)
{
    for (size_t k = s->loops.n; k-- > 0;)
        if (s->loops.data[k]->ins == i)
            return s->loops.data[k];
    sched_bug(s, i, "a loop without storage");
}

/* The carried value that v is the stack of, or -1. */
static int64_t chain_of(const Module *m, Value v)
{
    const Ins *loop = m->values.data[v].def;
    for (uint32_t k = 0;
         loop && loop->op == OP_repeat && !loop->attrs.reverse && k < loop->attrs.carried; k++) {
        int64_t j = stack_of(loop, k);
        if (j >= 0 && loop->out[j] == v)
            return k;
    }
    return -1;
}

/* Is v the value `of`, stacked by a loop of one iteration? */
static bool is_alone(const Module *m, Value v, Value of)
{
    const Ins *loop = m->values.data[v].def;
    for (uint32_t k = 0; loop && loop->op == OP_repeat && k < loop->nout; k++)
        if (loop->out[k] == v)
            return loop->attrs.dim.size == 1 && loop->body->results.data[k] == of;
    return false;
}

/* Are its parts stacks of one value, which goes from loop to loop? Then they are one chain. The
 * last may be what the value is at the end, which lies behind the others then. */
static bool joins_chain(const Module *m, const Ins *join)
{
    Value from = 0;
    if (!join_is_outermost(m, join) ||
        type_of(m, join->out[0])->dims[0].name != join->attrs.dim.name)
        return false;
    for (uint32_t n = 0; n < join->nin; n++) {
        int64_t k = chain_of(m, join->in[n]);
        const Ins *loop = m->values.data[join->in[n]].def;
        if (n && n + 1 == join->nin && is_alone(m, join->in[n], from))
            return true;
        if (k < 0 || (n && loop->in[k] != from))
            return false;
        from = loop->out[k];
    }
    return true;
}

/* Are all parts of a join computed behind position `at`? */
static bool parts_behind(const Planner *p, const Ins *join, int at)
{
    for (uint32_t k = 0; k < join->nin; k++)
        if (p->def[view_of(p->s->m, join->in[k]).root] <= at)
            return false;
    return true;
}

/* The operand of the instruction that computes v which is just this part of what v is wanted to lie
 * over; or the root itself. */
static Value operand_at(const Module *m, Value v, const Part *part)
{
    const Ins *d = m->values.data[v].def;
    for (uint32_t k = 0; d && k < d->nin; k++) {
        const Part of = part_of(m, d->in[k]);
        if (of.root == part->root && of.from == part->from && of.to == part->to)
            return d->in[k];
    }
    return part->root;
}

/* A join is storage that its parts are computed in. Where it takes over what is there already, each
 * part does so as soon as nobody reads what lies there, whatever the others do; but parts that are
 * strided, which no copy could bring there, all of them or none. */
static void plan_join(Planner *p, const Ins *i, int at)
{
    Sched *s = p->s;
    Value out = i->out[0];
    Want w = *want_of(s, out);
    const bool outermost = join_is_outermost(s->m, i);
    bool there = w.set && w.free_from < at && (outermost || parts_behind(p, i, w.free_from));
    if (w.set && !there && !w.start)
        vec_push(s->tmp, p->moves, (Move){.from = out, .to = w.to});
    if (!there && joins_chain(s->m, i)) {
        const Type *t = type_of(s->m, out);
        w = (Want){
            .to = loc_chain(s, out, t->dims[0].size, p->home), .free_from = -1, .chain = true};
        strides_dense(t, w.to.stride);
    } else if (!there) {
        w = (Want){.to = loc_new(s, out, p->home), .free_from = -1};
    }
    w.set = true;
    *want_of(s, out) = w;
    const View over = w.occupant ? view_of(s->m, w.occupant) : (View){0};
    Part part = {.root = over.root, .from = over.offset + w.from};
    Strided whole = {.type = type_of(s->m, out)};
    memcpy(whole.stride, w.to.stride, sizeof whole.stride);
    for (uint32_t k = 0; k < i->nin; k++) {
        const Type *t = type_of(s->m, i->in[k]);
        Want one = w;
        one.to.at.offset +=
            strides_of_part(s->m, i, k, &whole, one.to.stride) * dtype_bytes(t->dtype);
        part.to = part.from + type_elements(t);
        if (w.occupant && outermost) {
            one.free_from = last_read(p->s->m, p->r, &part, -1);
            one.occupant = operand_at(s->m, i->in[k], &part);
            one.from = one.occupant == part.root ? part.from : 0;
        }
        ask(p, i->in[k], &one);
        part.from = part.to;
    }
}

/* The operand that an instruction adds to is computed where its result is wanted, unless the
 * instruction reads it as another operand, too. */
static void pass_want_on(Planner *p, const Ins *i, int at)
{
    Value c = added_to(i), v = c ? i->out[i->op == OP_head ? 2 : 0] : 0;
    if (!c || !want_of(p->s, v)->set || p->last[c] != at || want_of(p->s, v)->occupant == c ||
        !takes_over(p->s->m, i, v, c))
        return;
    Want w = *want_of(p->s, v);
    w.start = true;
    ask(p, c, &w);
}

void plan_region(Sched *s, Region *r, const Want *target, int home, Moves *moves)
{
    Planner p = {.s = s, .r = r, .home = home, .moves = moves};
    p.last = last_uses(s->m, r, s->tmp);
    p.def = NEW_ARRAY(s->tmp, int, s->m->values.n);
    for (size_t v = 0; v < s->m->values.n; v++)
        p.def[v] = -1;
    for (size_t i = 0; i < r->ins.n; i++)
        for (uint32_t k = 0; k < r->ins.data[i]->nout; k++)
            p.def[r->ins.data[i]->out[k]] = (int)i;
    for (size_t k = 0; target && k < r->results.n; k++)
        if (target[k].set)
            ask_or_move(&p, r->results.data[k], &target[k]);
    for (size_t i = r->ins.n; i-- > 0;) {
        const Ins *ins = r->ins.data[i];
        if (ins->op == OP_repeat)
            plan_loop(&p, ins, (int)i);
        else if (ins->op == OP_join)
            plan_join(&p, ins, (int)i);
        else
            pass_want_on(&p, ins, (int)i);
    }
}
