/* send_rows.c - rows of experts are sent to the ranks that have the experts' matrices.
 *
 *   before:  %s = slots %c {dim=choice, to=rows, sorted}      after, of a rule `experts -> ep
 * (rows)`: %e = ends %c                                     %s = slots %c {dim=experts.home, each}
 *            %z = dispatch %x, %c, %s    [group, rows]        %e = ends %c   [experts.home, group,
 * choice] %y = grouped %z, %w, %e                          %z             [experts.home, group,
 * rows] %o = combine %y, %c, %s                          ...
 *
 * The experts that a rank of the axis has are neighbours: its home. A group's rows of a home,
 * sorted by expert, have `rows` places, as many as the bound says, and lie along a dim of homes,
 * which a rule of its own splits on the axis. So pass shard sends them by an all-to-all, and with
 * them how many rows each expert has; grouped products have the groups of all senders, and what
 * they give goes back likewise. What rows beyond the bound would give is 0, as where capacity is
 * short. A row is dropped by what its own group chose alone: numbers depend on the axis's ranks and
 * the bound, and on no other layout.
 *
 * A rule `experts -> node (once), ep (rows)` has homes on both axes; pass shard sends rows to all
 * peers on the first (passes/spmd/rows_once.c says what such a rule asks for) and then along the
 * second.
 *
 * Values between dispatch and combine are looked at along no dim of rows: they get that of homes,
 * outermost.
 */
#include "ir/ir.h"
#include "ir/mesh.h"
#include "passes/passes.h"
#include "passes/spmd/rows_once.h"
#include "passes/walk.h"

#include <math.h>

/* The dim of homes of experts. */
#define HOME "home"

typedef struct Sent {
    Module *m;
    const LayoutRule *rule;
    int64_t ranks;
    Name rows;        /* the dim that is sent; 0: no grouped product has been seen */
    Dim home, places; /* ranks; of a group, on each of them */
    int64_t each;     /* experts of a home */
    bool drops;       /* there may be more rows than places */
    double share;     /* of the places, as are used where all experts are used alike */
    const Type **was; /* of values that have got another type: the one before */
    bool counts;      /* in @train: what is dropped is added up */
    bool all;         /* in a function that generates: nothing is dropped */
    const Ins *why;   /* rows cannot be sent because of this one; NULL: they can */
    const char *because;
} Sent;

static void *give_up(Sent *s, const Ins *i, const char *because)
{
    if (!s->why) {
        s->why = i;
        s->because = because;
    }
    return NULL;
}

static bool has_rows(const Sent *s, const Type *t)
{
    return type_find(t, s->rows) >= 0;
}

/* ---- what is sent --------------------------------------------------------------------------- */

static void find_rows(void *ctx, Ins *i)
{
    Sent *s = ctx;
    if (i->op != OP_grouped || i->attrs.dim.name != s->rule->dim)
        return;
    if (s->rows && s->rows != i->attrs.along.name)
        give_up(s, i, "two dims of rows are multiplied by matrices of the same experts");
    s->rows = i->attrs.along.name;
}

/* Does each position choose experts that differ, as `top` does? */
static bool differ(const Module *m, Value choice, const Attrs *a)
{
    const Ins *i = m->values.data[choice].def;
    while (i && i->op == OP_copy)
        i = m->values.data[i->in[0]].def;
    return i && i->op == OP_top && a->over.n && i->attrs.to.name == a->over.dim[0].name;
}

/* Places of a group on each rank, by the first dispatch of a function, of which all have as many
 * rows. Functions that generate have groups of fewer positions each. */
static void find_places(void *ctx, Ins *i)
{
    Sent *s = ctx;
    const Attrs *a = &i->attrs;
    if (i->op != OP_slots || a->to.name != s->rows)
        return;
    const int64_t best = a->over.n ? a->over.dim[0].size : 1, each = a->dim.size / s->ranks;
    const int64_t most = a->along.size * (differ(s->m, i->in[0], a) && each < best ? each : best);
    const double mean = (double)(a->along.size * best) / (double)s->ranks;
    const double bound = s->rule->bound > 0 && !s->all ? ceil(s->rule->bound * mean) : (double)most;
    const int64_t places = bound < (double)most ? (int64_t)bound : most;
    if (!a->sorted || (s->places.size && s->places.size != places) ||
        (s->each && s->each != each)) {
        give_up(s, i, "dispatches to one dim of rows are of other experts or positions");
        return;
    }
    s->each = each;
    s->places = (Dim){.name = s->rows, .size = places};
    s->home = (Dim){.size = s->ranks};
    s->home.name = name_intern(
        s->m->names, arena_printf(s->m->arena, "%s." HOME, name_str(s->m->names, s->rule->dim)));
    s->share = mean / (double)places;
    s->drops = places < most;
}

/* ---- instructions --------------------------------------------------------------------------- */

static bool moves_rows(const Sent *s, const Ins *i)
{
    return OP_AMONG(i->op, OP_slots, OP_dispatch, OP_combine) && i->attrs.to.name == s->rows;
}

/* Attributes of what moves rows, and multiplies them; false: i is neither. */
static bool sends(const Sent *s, Ins *i)
{
    Attrs *a = &i->attrs;
    if (moves_rows(s, i)) {
        a->sorted = false;
        a->each = s->each;
        a->dim = s->home;
        a->to = s->places;
    } else if (i->op == OP_ends && a->to.name == s->rows) {
        a->keys = s->home;
        a->dim.size = s->each;
        a->to = s->places;
    } else if (i->op == OP_grouped && a->along.name == s->rows) {
        a->keys = s->home;
        a->to.size = s->each;
        a->along = s->places;
        a->share = s->share;
    } else {
        return false;
    }
    return true;
}

static bool names_rows(const Sent *s, const Attrs *a)
{
    return a->dim.name == s->rows || a->to.name == s->rows || a->along.name == s->rows ||
           a->keys.name == s->rows || dims_have(&a->over, s->rows);
}

/* Is each row's result that of the row alone? */
static bool is_of_rows(const Sent *s, const Ins *i)
{
    return (op_is(i->op, POINTWISE) ||
            OP_AMONG(i->op, OP_cast, OP_copy, OP_sum, OP_rmax, OP_dot, OP_pick, OP_rename)) &&
           !names_rows(s, &i->attrs);
}

/* t, of rows that lie side by side, with those of each home. */
static Type sent_type(Sent *s, const Ins *i, const Type *t)
{
    Type r = *t;
    r.dims[type_find(t, s->rows)] = s->places;
    if (r.rank == MAX_RANK) {
        give_up(s, i, "a value of rows has the most dims that there are");
        return r;
    }
    return type_stacked(&r, s->home);
}

/* Operands of a pointwise operation have their dims in one order. */
static void in_order(Sent *s, Builder *b, Ins *i)
{
    const Type *first = type_of(s->m, i->in[0]);
    for (uint32_t k = 1; k < i->nin && op_is(i->op, POINTWISE); k++) {
        Type t = *first;
        t.dtype = type_of(s->m, i->in[k])->dtype;
        t.indexes = type_of(s->m, i->in[k])->indexes;
        if (type_of(s->m, i->in[k])->rank == first->rank)
            i->in[k] = build_as(b, i->in[k], t);
    }
}

/* Gives the results of i their types as its operands are now. */
static void adapt(Sent *s, Builder *b, Ins *i)
{
    bool any = sends(s, i);
    const bool known = any;
    for (uint32_t k = 0; k < i->nin; k++)
        any |= has_rows(s, type_of(s->m, i->in[k]));
    for (uint32_t k = 0; k < i->nout; k++)
        any |= has_rows(s, type_of(s->m, i->out[k]));
    if (!any || s->why)
        return;
    if (!known && (!is_of_rows(s, i) || i->nout != 1)) {
        give_up(s, i, "it looks at rows by their places");
        return;
    }
    Type t, was = *type_of(s->m, i->out[0]);
    if (OP_AMONG(i->op, OP_copy, OP_cast)) {
        t = i->op == OP_cast    ? *type_of(s->m, i->in[0])
            : has_rows(s, &was) ? sent_type(s, i, &was)
                                : was;
        t.dtype = was.dtype;
    } else {
        in_order(s, b, i);
        if (type_check(s->m, i->op, &i->attrs, (int)i->nin, i->in, 1, &t)) {
            give_up(s, i, "its operands have rows in another way each");
            return;
        }
    }
    t.indexes = was.indexes;
    s->m->values.data[i->out[0]].type = t;
}

/* ---- what is dropped ------------------------------------------------------------------------ */

/* Choices without a place, counted; and of how many, in all iterations. */
typedef struct Dropped {
    Value n; /* f64; 0: nothing has been counted */
    double of;
} Dropped;

/* A choice that has no place has the slot -1. */
static void count(Builder *b, Value slot, Dropped *d)
{
    const Type t = *type_of(b->m, slot);
    DimList all = {0};
    for (int k = 0; k < t.rank; k++)
        all.dim[all.n++] = t.dims[k];
    const Value x = build1(b, OP_neg, build_cast(b, slot, DT_f64));
    const Value without = build2(b, OP_max, x, build_const(b, DT_f64, 0));
    const Value n = build_sum(b, without, &all);
    d->n = d->n ? build2(b, OP_add, d->n, n) : n;
    d->of += (double)type_elements(&t);
}

/* The number that a loop's iterations drop goes round it. */
static void carry(Module *m, Ins *loop, Value start, Dropped each, Dropped *d)
{
    const Value arg = repeat_carry(m, loop, start);
    const size_t at = (size_t)loop->attrs.carried - 1;
    Builder b = builder_at(m, loop->body, loop);
    loop->body->results.data[at] = build2(&b, OP_add, arg, each.n);
    d->n = loop->out[at];
    d->of += each.of * (double)loop->attrs.dim.size;
}

static Dropped region(Sent *s, Region *of)
{
    Dropped dropped = {0};
    const size_t n = of->ins.n;
    Ins **old = of->ins.data;
    for (size_t k = 0; k < of->args.n; k++)
        if (has_rows(s, type_of(s->m, of->args.data[k])))
            give_up(s, n ? old[0] : NULL, "a repeat or a parameter has the dim of rows");
    of->ins.data = NULL;
    of->ins.n = of->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Builder b = builder_at(s->m, of, i);
        const Dropped each = i->body ? region(s, i->body) : (Dropped){0};
        if (each.n) {
            const Value start = dropped.n ? dropped.n : build_const(&b, DT_f64, 0);
            carry(s->m, i, start, each, &dropped);
        }
        adapt(s, &b, i);
        vec_push(s->m->arena, &of->ins, i);
        if (s->counts && i->op == OP_slots && moves_rows(s, i))
            count(&b, i->out[0], &dropped);
    }
    for (size_t k = 0; k < of->results.n; k++)
        if (has_rows(s, type_of(s->m, of->results.data[k])))
            give_up(s, n ? old[n - 1] : NULL, "rows are a result of a repeat or of the program");
    return dropped;
}

/* A function, all of it; of @train also the share that is dropped, if any may be. */
static void function(Sent *s, Fn *f)
{
    Module *m = s->m;
    s->counts = f == module_fn(m, "train") && s->drops;
    const Dropped d = region(s, f->body);
    if (!d.n)
        return;
    Builder b = {.m = m, .region = f->body};
    const Value share = build2(&b, OP_mul, d.n, build_const(&b, DT_f64, 1 / d.of));
    vec_push(m->arena, &f->body->results, share);
    vec_push(m->arena, &f->results, (FnResult){.role = RES_dropped});
}

/* ---- rules ---------------------------------------------------------------------------------- */

/* The axes of a rule. */
static Axes axes_of(const LayoutRule *r)
{
    Axes all = 0;
    for (int k = 0; k < r->n; k++)
        all |= (Axes)1 << r->axis[k];
    return all;
}

/* A rule before this one has one of its axes. */
static const LayoutRule *earlier(const Module *m, size_t rule)
{
    for (size_t k = 0; k < rule; k++)
        if (axes_of(&m->layout.rules.data[k]) & axes_of(&m->layout.rules.data[rule]))
            return &m->layout.rules.data[k];
    return NULL;
}

static bool refuse(const Sent *s, const char *what)
{
    Module *m = s->m;
    diag_error(m->diag, s->rule->span, 348, "rows of '%s' are not sent: %s",
               name_str(m->names, s->rule->dim), what);
    if (s->why && s->why->span.file)
        diag_note(m->diag, s->why->span, "here");
    return false;
}

/* Homes lie on the rule's axes, before everything else. */
static void add_rule(Module *m, size_t rule, Name home)
{
    const Layout was = m->layout;
    LayoutRule mine = was.rules.data[rule];
    mine.dim = home;
    mine.rows = 0;
    mine.bound = 0;
    m->layout.rules.data = NULL;
    m->layout.rules.n = m->layout.rules.cap = 0;
    for (size_t k = 0; k < was.rules.n; k++) {
        if (k == rule)
            vec_push(m->arena, &m->layout.rules, mine);
        vec_push(m->arena, &m->layout.rules, was.rules.data[k]);
    }
}

/* The rule's rows, in all functions of the module; false after an error. */
static bool send(Module *m, size_t rule)
{
    const LayoutRule *r = &m->layout.rules.data[rule];
    Sent s = {.m = m, .rule = r, .ranks = mesh_size(m, axes_of(r))};
    const LayoutRule *before = earlier(m, rule);
    const Axes sent = axes_of(r) & ~r->once;
    if (sent & (sent - 1))
        return refuse(&s, r->once ? "the rule has more than one axis besides those of 'once'"
                                  : "the rule has more than one axis");
    if (before)
        return refuse(&s, arena_printf(m->arena, "the rule of '%s' takes the axis before",
                                       before->of ? class_names[before->of]
                                                  : name_str(m->names, before->dim)));
    for (size_t f = 0; f < m->fns.n; f++)
        each_ins(m->fns.data[f]->body, find_rows, &s);
    if (!s.rows)
        return refuse(&s, "no grouped product has matrices of such experts");
    for (size_t f = 0; f < m->fns.n; f++) {
        s.places = (Dim){0};
        s.all =
            m->fns.data[f] == module_fn(m, "prefill") || m->fns.data[f] == module_fn(m, "decode");
        each_ins(m->fns.data[f]->body, find_places, &s);
        if (s.places.size && !s.why)
            function(&s, m->fns.data[f]);
    }
    if (s.why)
        return refuse(&s, s.because);
    add_rule(m, rule, s.home.name);
    return true;
}

/* Do the axes' ranks divide the experts? Pass shard says so if they do not. */
static bool divides(const Module *m, const LayoutRule *r)
{
    for (size_t t = 0; t < m->tensors.n; t++) {
        const int at = type_find(&m->tensors.data[t].type, r->dim);
        if (at >= 0 && m->tensors.data[t].type.dims[at].size % mesh_size(m, axes_of(r)))
            return false;
    }
    return true;
}

PassStatus pass_send_rows(Job *j)
{
    Module *m = j->m;
    bool right = rows_once_is_possible(m);
    for (size_t k = 0; k < m->layout.rules.n && right; k++) {
        const LayoutRule *r = &m->layout.rules.data[k];
        if (!r->rows || !divides(m, r))
            continue;
        right = send(m, k++); /* the rule of homes stands before it then */
    }
    return right ? PASS_ok : PASS_error;
}
