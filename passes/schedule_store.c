/* schedule_store.c - decides where values live; see schedule.h. */
#include "passes/schedule.h"
#include "passes/view.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

static int64_t round64(int64_t n)
{
    return (n + 63) / 64 * 64;
}

uint32_t buffer_new(Sched *s, const char *name, Owner owner, int64_t bytes, int home, Value v)
{
    Buffer b = {.name = name_intern(s->m->names, name),
                .owner = owner,
                .value = v,
                .offset = -1,
                .program = s->program,
                .first = -1,
                .last = -1};
    b.bytes = round64(bytes > 0 ? bytes : 1);
    if (v && s->m->values.data[v].def)
        b.span = s->m->values.data[v].def->span;
    vec_push(s->m->arena, &s->p->buffers, b);
    vec_push(s->m->arena, &s->home, home);
    return (uint32_t)s->p->buffers.n - 1;
}

Loc loc_dense(uint32_t buffer, const Type *t)
{
    Loc l = {.known = true, .at = {.buffer = buffer}};
    strides_dense(t, l.stride);
    return l;
}

/* Gradients are told from activations by their type: that of a parameter. */
static Owner owner_of(const Sched *s, Value v)
{
    const ValueInfo *info = &s->m->values.data[v];
    for (size_t i = 0; i < s->m->tensors.n; i++)
        if (type_equal(&info->type, &s->m->tensors.data[i].type))
            return OWN_grads;
    return OWN_activations;
}

static const char *value_name(const Sched *s, Value v)
{
    const ValueInfo *info = &s->m->values.data[v];
    const char *name = name_str(s->m->names, info->name);
    if (!*name)
        name = info->def ? op_info[info->def->op].name : "value";
    if (!info->def || !info->def->path || strchr(name, '.'))
        return name;
    return arena_printf(s->m->arena, "%s.%s", name_str(s->m->names, info->def->path), name);
}

Loc loc_new(Sched *s, Value v, int home)
{
    const Type *t = type_of(s->m, v);
    Owner owner = owner_of(s, v);
    const char *name = value_name(s, v);
    if (owner == OWN_grads) /* it may be called like its parameter */
        name = arena_printf(s->m->arena, "grad.%s", name);
    return loc_dense(buffer_new(s, name, owner, type_bytes(t), home, v), t);
}

static bool place_equal(const Place *a, const Place *b)
{
    if (a->buffer != b->buffer || a->offset != b->offset || a->nloops != b->nloops)
        return false;
    for (int i = 0; i < a->nloops; i++)
        if (a->loop[i].loop != b->loop[i].loop || a->loop[i].stride != b->loop[i].stride)
            return false;
    return true;
}

bool loc_equal(const Loc *a, const Loc *b, int rank)
{
    return a->known && b->known && place_equal(&a->at, &b->at) &&
           memcmp(a->stride, b->stride, (size_t)rank * sizeof a->stride[0]) == 0;
}

Loc locate(Sched *s, Value v)
{
    const Ins *def = s->m->values.data[v].def;
    if (!def || !op_is(def->op, VIEW)) {
        if (!s->loc[v].known)
            sched_bug(s, def, "a value is read that has no place");
        return s->loc[v];
    }
    Loc from = locate(s, def->in[0]), l = from;
    const Type *t = type_of(s->m, v), *ft = type_of(s->m, def->in[0]);
    const Attrs *a = &def->attrs;
    strides_of_view(def, t, ft, from.stride, l.stride);
    int moved = def->op == OP_pick     ? type_find(ft, a->dim.name)
                : def->op == OP_window ? type_find(ft, a->along.name)
                                       : -1;
    if (moved >= 0)
        l.at.offset += a->at * from.stride[moved] * dtype_bytes(t->dtype);
    return l;
}

Operand operand_of(Sched *s, Value v, bool read, bool write)
{
    Loc l = locate(s, v);
    Operand o = {.at = l.at, .type = *type_of(s->m, v), .read = read, .write = write, .value = v};
    memcpy(o.stride, l.stride, sizeof o.stride);
    return o;
}

/* ---- regions --------------------------------------------------------------------------------- */

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
    if (d && (d->op == OP_split || d->op == OP_merge)) {
        Want inner = *w;
        strides_dense(type_of(s->m, d->in[0]), inner.to.stride);
        return ask(p, d->in[0], &inner);
    }
    if (!owns_storage(p, v) || s->want[v].set)
        return false;
    if (d->op != OP_repeat && d->op != OP_join && p->def[v] <= w->free_from &&
        !(p->def[v] == w->free_from && takes_over(s->m, d, v, w->occupant)))
        return false;
    s->want[v] = *w;
    s->want[v].set = true;
    return true;
}

static void ask_or_move(Planner *p, Value v, const Want *w)
{
    if (!ask(p, v, w))
        vec_push(p->s->tmp, p->moves, (Move){v, w->to});
}

/* The bytes of a loop's slot, and a place in slot `index + first` of it. */
Loc loc_slot(const Loc *base, int loop, int64_t bytes, int64_t first)
{
    Loc l = *base;
    l.at.offset += first * bytes;
    l.at.loop[l.at.nloops].loop = (uint32_t)loop;
    l.at.loop[l.at.nloops++].stride = bytes;
    return l;
}

/* A stacked location seen without its outermost dim. */
Loc loc_inner(const Loc *l, int rank)
{
    Loc r = *l;
    memmove(r.stride, l->stride + 1, (size_t)rank * sizeof r.stride[0]);
    return r;
}

typedef struct LoopMaker {
    Planner *p;
    const Ins *i;
    int at, index; /* position; number of the loop in the program */
    LoopPlan *lp;
    const int *body_last;
    bool *settled; /* per result */
} LoopMaker;

/* Result k cannot be computed where it is wanted: it is copied there, at once if that place is
 * free when the loop has ended, for what follows may count on it. */
static void copy_out(LoopMaker *l, uint32_t k)
{
    Sched *s = l->p->s;
    Value out = l->i->out[k];
    const Want *w = &s->want[out];
    if (!w->set || w->start)
        return;
    Move m = {out, w->to};
    if (w->free_from <= l->at)
        vec_push(s->tmp, &l->lp->after, m);
    else
        vec_push(s->tmp, l->p->moves, m);
}

/* Does anything in a region, or in the regions in it, read v, itself or through a view? */
static bool region_reads(const Module *m, const Region *r, Value v)
{
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        for (uint32_t k = 0; k < i->nin; k++)
            if (view_of(m, i->in[k]).root == v)
                return true;
        if (i->op == OP_repeat && region_reads(m, i->body, v))
            return true;
    }
    for (size_t k = 0; k < r->results.n; k++)
        if (view_of(m, r->results.data[k]).root == v)
            return true;
    return false;
}

/* Elements of a root, from the first on; the end is not among them. */
typedef struct Part {
    Value root;
    int64_t from, to;
} Part;

static Part part_of(const Module *m, Value v)
{
    View w = view_of(m, v);
    const Type *t = type_of(m, v);
    Part part = {w.root, w.offset, w.offset + 1};
    for (int i = 0; i < t->rank; i++)
        part.to += (t->dims[i].size - 1) * w.stride[i];
    return part;
}

static bool touches(const Module *m, Value v, const Part *part)
{
    Part of = part_of(m, v);
    return of.root == part->root && of.from < part->to && part->from < of.to;
}

/* The last position in the region at which something of a part is read, -1: nowhere. */
static int last_read(const Planner *p, const Part *part)
{
    const Module *m = p->s->m;
    int last = -1;
    for (size_t n = 0; n < p->r->ins.n; n++) {
        const Ins *i = p->r->ins.data[n];
        bool reads = i->op == OP_repeat && region_reads(m, i->body, part->root);
        for (uint32_t k = 0; k < i->nin && !op_is(i->op, VIEW); k++)
            reads |= touches(m, i->in[k], part);
        last = reads ? (int)n : last;
    }
    for (size_t k = 0; k < p->r->results.n; k++)
        if (touches(m, p->r->results.data[k], part))
            last = (int)p->r->ins.n;
    return last;
}

/* Has the loop at position `at` operand k all to itself: is it read as that operand only, and not
 * afterwards? */
static bool only_operand(const Planner *p, const Ins *loop, int at, uint32_t k)
{
    const Module *m = p->s->m;
    Part part = part_of(m, loop->in[k]);
    if (last_read(p, &part) != at || region_reads(m, loop->body, part.root))
        return false;
    for (uint32_t n = 0; n < loop->nin; n++)
        if (n != k && touches(m, loop->in[n], &part))
            return false;
    return true;
}

/* Storage that an instruction of the region may write: not the program's arguments. */
static bool is_writable(const Planner *p, Value root)
{
    const Module *m = p->s->m;
    return owns_storage(p, root) ||
           (arg_index(m, root) >= 0 && p->r->owner && m->values.data[root].home == p->r);
}

static bool shared_already(const LoopMaker *l, uint32_t j)
{
    for (uint32_t k = 0; k < l->i->nout; k++)
        if (l->lp->share[k] == (int)j)
            return true;
    return false;
}

/* The slice operand whose storage stacked result k can take over, or -1: the body adds to the slice
 * in place, and nobody reads the stack afterwards. */
static int shared_operand(LoopMaker *l, uint32_t k)
{
    const Module *m = l->p->s->m;
    const Region *b = l->i->body;
    Value res = b->results.data[k];
    const Ins *d = m->values.data[res].def;
    if (!d || d->home != b)
        return -1;
    for (uint32_t j = (uint32_t)l->i->attrs.carried; j < l->i->nin; j++) {
        Value arg = b->args.data[j], xs = l->i->in[j];
        size_t pos = 0;
        while (b->ins.data[pos] != d)
            pos++;
        if (shared_already(l, j) || l->body_last[arg] != (int)pos ||
            !only_operand(l->p, l->i, l->at, j) ||
            !type_equal(type_of(m, xs), type_of(m, l->i->out[k])))
            continue;
        View seen = view_of(m, xs);
        bool writable =
            is_writable(l->p, seen.root) && strides_are_dense(type_of(m, xs), seen.stride);
        bool inside = d->op == OP_repeat ? true : takes_over(m, d, res, arg);
        if (writable && inside)
            return (int)j;
    }
    return -1;
}

/* Is there a want for result k that the loop may fill from its first round on? */
static const Want *free_want(const LoopMaker *l, uint32_t k)
{
    const Want *w = &l->p->s->want[l->i->out[k]];
    return w->set && w->free_from < l->at ? w : NULL;
}

static void plan_shared(LoopMaker *l, uint32_t k, int j)
{
    Sched *s = l->p->s;
    Value xs = l->i->in[j], out = l->i->out[k];
    Want *w = &s->want[out];
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
    s->want[out].set = false;
    Loc in = loc_inner(&l->lp->out[k], t->rank - 1);
    l->lp->target[k] =
        (Want){.set = true, .to = loc_slot(&in, l->index, type_bytes(rt), 0), .free_from = -1};
}

/* A carried value that is stacked as it enters each round lives in the stack itself, which has one
 * slot more: round i reads slot i and writes slot i + 1 (backwards: reads i + 1, writes i). */
static void plan_chain(LoopMaker *l, uint32_t k, uint32_t stacked)
{
    Sched *s = l->p->s;
    bool rev = l->i->attrs.reverse;
    const Type *t = type_of(s->m, l->i->out[k]);
    Value out = l->i->out[stacked];
    int64_t bytes = type_bytes(t), n = l->i->attrs.dim.size;
    uint32_t buf =
        buffer_new(s, value_name(s, out), OWN_activations, bytes * (n + 1), l->p->home, out);
    Loc base = loc_dense(buf, t);
    LoopPlan *lp = l->lp;
    lp->arg[k] = loc_slot(&base, l->index, bytes, rev ? 1 : 0);
    lp->target[k] =
        (Want){.set = true, .to = loc_slot(&base, l->index, bytes, rev ? 0 : 1), .free_from = -1};
    lp->start[k] = base;
    lp->start[k].at.offset = rev ? bytes * n : 0;
    lp->out[k] = base;
    lp->out[k].at.offset = rev ? 0 : bytes * n;
    lp->out[stacked] = loc_dense(buf, type_of(s->m, out));
    lp->out[stacked].at.offset = rev ? bytes : 0;
    l->settled[stacked] = true;
    Want w = {.to = lp->start[k], .free_from = -1};
    lp->copy_in[k] = !ask(l->p, l->i->in[k], &w);
    for (int i = 0; i < 2; i++) {
        copy_out(l, i ? stacked : k);
        s->want[l->i->out[i ? stacked : k]].set = false;
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
    for (uint32_t j = (uint32_t)l->i->attrs.carried; j < l->i->nout; j++)
        if (b->results.data[j] == arg && !l->settled[j]) {
            plan_chain(l, k, j);
            return;
        }
    const Want *w = &s->want[out];
    bool here = w->set && starts_there(l->p, l->i, l->at, k, w);
    bool fill = here || (w->set && w->free_from < l->at && !too_early(l->p, init, w));
    Loc place = fill ? w->to : loc_new(s, out, l->p->home);
    if (!fill)
        copy_out(l, k);
    Want in = {
        .to = place, .free_from = fill ? w->free_from : -1, .occupant = fill ? w->occupant : 0};
    s->want[out].set = false;
    lp->copy_in[k] = !here && (!only_operand(l->p, l->i, l->at, k) || !ask(l->p, init, &in));
    lp->start[k] = lp->arg[k] = lp->out[k] = place;
    lp->target[k] =
        (Want){.set = true, .to = place, .free_from = l->body_last[arg], .occupant = arg};
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
    for (uint32_t k = 0; k < i->nout; k++)
        lp->share[k] = -1;
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

/* A join is storage that its parts are computed in. Where it takes over what is there already, each
 * part does so as soon as nobody reads what lies there, whatever the others do. */
static void plan_join(Planner *p, const Ins *i, int at)
{
    Sched *s = p->s;
    Value out = i->out[0];
    Want w = s->want[out];
    bool there = w.set && w.free_from < at;
    if (w.set && !there && !w.start)
        vec_push(s->tmp, p->moves, (Move){out, w.to});
    if (!there)
        w = (Want){.to = loc_new(s, out, p->home), .free_from = -1};
    w.set = true;
    s->want[out] = w;
    Part part = {.root = w.occupant};
    for (uint32_t k = 0; k < i->nin; k++) {
        const Type *t = type_of(s->m, i->in[k]);
        Want one = w;
        one.to.at.offset += part.from * dtype_bytes(t->dtype);
        part.to = part.from + type_elements(t);
        if (w.occupant)
            one.free_from = last_read(p, &part);
        ask(p, i->in[k], &one);
        part.from = part.to;
    }
}

/* What an accumulating instruction adds to is computed where its result is wanted. */
static void pass_want_on(Planner *p, const Ins *i, int at)
{
    Value c = added_to(i), v = c ? i->out[i->op == OP_head ? 2 : 0] : 0;
    if (!c || !p->s->want[v].set || p->last[c] != at || p->s->want[v].occupant == c)
        return;
    Want w = p->s->want[v];
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
