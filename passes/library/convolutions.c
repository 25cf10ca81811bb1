/* convolutions.c - products of what taps show read the taps where they are.
 *
 *   %t = reindex (reindex %x)                   %y = conv %x, %w      (forward, dw)
 *   %y = dot %t, %w                        ->
 *
 *   %t = dot %g, %w {over=[f]}                  %y = conv %g, %w {over=[f, s, r]}     (dx)
 *   %y = sum reindex (sum reindex %t) over ...  ->
 *
 * A reindex shows each element as often as there are taps, and stored it would be so many times as
 * large as x. A conv has no such value. The first operand of dx is the result's cotangent g: the
 * element that a tap r of x[i] = ... has, has taps too, with the signs turned, and w has them as
 * dims; so the sum over taps of what products give is one product over taps.
 *
 * Rounding to halves goes before the taps: it is of each element. The terms are summed in the order
 * in which the operand, as it is shown, has its dims. A reindex by one dim alone, step by step (a
 * part of a tensor, the position before), is left as it is. */
#include "passes/library/conv.h"
#include "passes/passes.h"

#include <string.h>

typedef struct Pass {
    Module *m;
    Region *r;
    Uses uses;
    Builder b;
    ValueMap map;
    VEC(Ins *) out;
    Arena *tmp;
} Pass;

static Ins *def_of(const Pass *p, Value v)
{
    return p->m->values.data[v].def;
}

static const Type *type_at(const Pass *p, Value v)
{
    return type_of(p->m, v);
}

/* ---- taps ------------------------------------------------------------------------------------ */

static bool counted_by(const Taps *t, Name d)
{
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->tap[i].n; k++)
            if (t->tap[i].over[k].name == d)
                return true;
    return false;
}

static bool read_by(const Taps *t, Name d)
{
    for (int i = 0; i < t->n; i++)
        if (t->tap[i].dim.name == d)
            return true;
    return false;
}

/* Puts a reindex before, or behind, those that there are; false: it cannot be one of them. */
static bool take_tap(Taps *t, const Ins *i, bool before)
{
    const Attrs *a = &i->attrs;
    Tap one = {.dim = a->dim, .n = a->over.n, .at = a->at, .every = a->every};
    if (t->n == MAX_TAPS || a->over.n > MAX_TAPS || read_by(t, a->dim.name) ||
        counted_by(t, a->dim.name))
        return false;
    for (int k = 0; k < a->over.n; k++) {
        if (read_by(t, a->over.dim[k].name))
            return false;
        one.over[k] = a->over.dim[k];
        one.by[k] = a->factors.by[k];
    }
    if (before)
        memmove(&t->tap[1], &t->tap[0], (size_t)t->n * sizeof *t->tap);
    t->tap[before ? 0 : t->n] = one;
    t->n++;
    return true;
}

/* The type of x as the taps show it; false: an operand with too many dims. */
static bool shown_type(Pass *p, Value x, const Taps *t, Type *to)
{
    *to = *type_at(p, x);
    for (int i = 0; i < t->n; i++) {
        Type was = *to;
        to->rank = 0;
        for (int k = 0; k < was.rank; k++) {
            if (was.dims[k].name != t->tap[i].dim.name) {
                to->dims[to->rank++] = was.dims[k];
                continue;
            }
            for (int d = 0; d < t->tap[i].n; d++) {
                const Dim dim = t->tap[i].over[d];
                if (dim.name != t->tap[i].dim.name && type_find(&was, dim.name) >= 0)
                    continue;
                if (to->rank + was.rank - k > MAX_RANK)
                    return false;
                to->dims[to->rank++] = dim;
            }
        }
    }
    return true;
}

/* Some tap adds up two indices, or steps over elements. */
static bool has_taps(const Taps *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->tap[i].n > 1 || t->tap[i].by[0] != 1 || t->tap[i].every != 1)
            return true;
    return false;
}

/* ---- a conv ---------------------------------------------------------------------------------- */

/* The parts that a conv is made of. */
typedef struct Made {
    Value x, w, c; /* c: 0, or what is added to */
    DType rounded; /* x is cast to it first, if it has another type */
    Taps taps;
    Attrs attrs; /* over: of all dims that are summed, in any order; without taps */
    bool exact;
} Made;

/* Has w a dim that is called as one that taps read, of another size? It is w's own: ranks that
 * split it may have gathered what is read. */
static bool other_dim_called_so(const Type *x, const Type *w, const Taps *t)
{
    for (int i = 0; i < t->n; i++) {
        const int read = type_find(x, t->tap[i].dim.name), own = type_find(w, t->tap[i].dim.name);
        if (read >= 0 && own >= 0 && x->dims[read].size != w->dims[own].size &&
            !counted_by(t, t->tap[i].dim.name))
            return true;
    }
    return false;
}

static Attrs with_taps(const Made *c, const Taps *taps)
{
    Attrs a = c->attrs;
    a.taps = taps;
    return a;
}

/* Sets the order of the sums; false: no such call is there. */
static bool fits(Pass *p, Made *c, const Type *result)
{
    Type shown, x = *type_at(p, c->x);
    DimList over = {0};
    if (!has_taps(&c->taps) || !shown_type(p, c->x, &c->taps, &shown) ||
        other_dim_called_so(&x, type_at(p, c->w), &c->taps))
        return false;
    for (int i = 0; i < shown.rank; i++)
        if (dims_have(&c->attrs.over, shown.dims[i].name))
            over.dim[over.n++] = shown.dims[i];
    if (over.n != c->attrs.over.n)
        return false;
    c->attrs.over = over;
    const Attrs attrs = with_taps(c, &c->taps);
    x.dtype = c->rounded;
    const Type *w = type_at(p, c->w);
    const Type y = conv_result(&attrs, &x, w, result);
    Strided s[3] = {{.type = &x}, {.type = w}, {.type = &y}};
    mg_conv_desc d;
    for (int k = 0; k < 3; k++)
        strides_dense(s[k].type, s[k].stride);
    return y.rank == result->rank && w->dtype == x.dtype &&
           conv_match(&attrs, &s[0], &s[1], &s[2], &d);
}

/* Appends it in the place of an instruction, of which it has the result. */
static void append(Pass *p, const Made *c, const Ins *of)
{
    const Value in[3] = {build_cast(&p->b, c->x, c->rounded), c->w, c->c};
    const Attrs a = with_taps(c, arena_copy(p->m->arena, &c->taps, sizeof c->taps));
    Ins *i = build_typed(&p->b, OP_conv, &a, c->c ? 3 : 2, in, 1, type_at(p, of->out[0]), NULL);
    i->exact = c->exact;
    p->m->values.data[i->out[0]].name = p->m->values.data[of->out[0]].name;
    map_set(p->m, &p->map, of->out[0], i->out[0]);
}

/* ---- forward, dw ----------------------------------------------------------------------------- */

/* x of an operand that is reindexed, perhaps cast. */
static Value behind_taps(const Pass *p, Value v, Taps *t)
{
    for (Ins *i = def_of(p, v); i; i = def_of(p, v)) {
        const bool casts = i->op == OP_cast && dtype_is_float(type_at(p, i->in[0])->dtype);
        if (!casts && (i->op != OP_reindex || !take_tap(t, i, true)))
            break;
        v = i->in[0];
    }
    return v;
}

static bool take_dot(Pass *p, const Ins *dot)
{
    for (int k = 0; k < 2; k++) {
        Made c = {.w = dot->in[1 - k], .c = dot->nin == 3 ? dot->in[2] : 0, .exact = dot->exact};
        c.attrs.over = dot->attrs.over;
        c.rounded = type_at(p, dot->in[k])->dtype;
        c.x = behind_taps(p, dot->in[k], &c.taps);
        if (!fits(p, &c, type_at(p, dot->out[0])))
            continue;
        append(p, &c, dot);
        return true;
    }
    return false;
}

/* ---- dx -------------------------------------------------------------------------------------- */

/* One more reindex or sum of what the conv gives: of the operand x alone, or over what both have.
 */
static bool take_step(Pass *p, Made *c, const Ins *i)
{
    Type shown;
    const Type *w = type_at(p, c->w);
    if (i->op == OP_cast)
        return dtype_is_float(type_at(p, i->in[0])->dtype) &&
               type_at(p, i->out[0])->dtype == dtype_wide(type_at(p, i->in[0])->dtype);
    if (i->op == OP_reindex) {
        const Name d = i->attrs.dim.name;
        return type_find(type_at(p, c->x), d) >= 0 && type_find(w, d) < 0 &&
               !dims_have(&c->attrs.over, d) && take_tap(&c->taps, i, false);
    }
    if (i->attrs.whole || !shown_type(p, c->x, &c->taps, &shown))
        return false;
    for (int k = 0; k < i->attrs.over.n; k++) {
        const Dim d = i->attrs.over.dim[k];
        if (type_find(&shown, d.name) < 0 || type_find(w, d.name) < 0 ||
            c->attrs.over.n == MAX_RANK)
            return false;
        c->attrs.over.dim[c->attrs.over.n++] = d;
    }
    return true;
}

/* The reindexes and sums that a product goes through before `last`, the product first; none other
 * reads what is between. Returns their number, or 0. */
enum { CHAIN = 10 };
static int chain_to(const Pass *p, Ins *last, Ins *chain[CHAIN])
{
    Ins *back[CHAIN];
    int n = 0;
    for (Ins *i = last; i && i->home == p->r; i = def_of(p, i->in[0])) {
        if (n == CHAIN || (n && p->uses.count[i->out[0]] != 1))
            return 0;
        back[n++] = i;
        if (i->op == OP_dot) {
            for (int k = 0; k < n; k++)
                chain[k] = back[n - 1 - k];
            return i->nin == 2 && !i->exact && n > 1 ? n : 0;
        }
        if (!OP_AMONG(i->op, OP_reindex, OP_sum, OP_cast) || i->exact)
            return 0;
    }
    return 0;
}

/* Would elements of the product be computed once for each tap? */
static bool shows_more(const Pass *p, const Ins *dot, const Ins *last)
{
    return last->op == OP_reindex &&
           type_elements(type_at(p, last->out[0])) >= type_elements(type_at(p, dot->out[0]));
}

static bool take_chain(Pass *p, Ins *last)
{
    Ins *chain[CHAIN];
    const int n = OP_AMONG(last->op, OP_sum, OP_reindex) ? chain_to(p, last, chain) : 0;
    for (int k = 0; k < 2 && n; k++) {
        const Ins *dot = chain[0];
        Made c = {.x = dot->in[k], .w = dot->in[1 - k]};
        c.attrs.over = dot->attrs.over;
        c.rounded = type_at(p, c.x)->dtype;
        int at = 1;
        while (at < n && take_step(p, &c, chain[at]))
            at++;
        if (at < n || !fits(p, &c, type_at(p, last->out[0])) || shows_more(p, dot, last))
            continue;
        append(p, &c, last);
        return true;
    }
    return false;
}

/* Is the result read by a step of a longer chain alone? That chain is tried first. */
static bool goes_on(const Pass *p, const Ins *const *reader, const Ins *i)
{
    const Ins *next = reader[i->out[0]];
    return p->uses.count[i->out[0]] == 1 && next && next->home == p->r &&
           OP_AMONG(next->op, OP_sum, OP_reindex);
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Drops what nothing reads any more: reindexes, casts, products whose chain is gone. */
static void drop_unread(Pass *p)
{
    Region *r = p->r;
    const Uses uses = ir_uses(p->m, r, p->tmp);
    bool *gone = NEW_ARRAY(p->tmp, bool, r->ins.n + 1);
    size_t kept = 0;
    for (size_t i = r->ins.n; i-- > 0;) {
        const Ins *ins = r->ins.data[i];
        gone[i] = OP_AMONG(ins->op, OP_reindex, OP_cast, OP_sum, OP_dot, OP_conv) &&
                  uses.count[ins->out[0]] == 0;
        for (uint32_t k = 0; k < ins->nin && gone[i]; k++)
            uses.count[ins->in[k]]--;
    }
    for (size_t i = 0; i < r->ins.n; i++)
        if (!gone[i])
            r->ins.data[kept++] = r->ins.data[i];
    r->ins.n = kept;
}

static void convolutions_in(Module *m, Region *r, Arena *tmp)
{
    Pass p = {.m = m, .r = r, .uses = ir_uses(m, r, tmp), .tmp = tmp};
    const Ins **reader = (const Ins **)NEW_ARRAY(tmp, Ins *, m->values.n);
    const size_t values = m->values.n, n = r->ins.n;
    Ins **old = r->ins.data;
    bool any = false;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < old[i]->nin; k++)
            reader[old[i]->in[k]] = old[i];
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t i = 0; i < n; i++) {
        Ins *ins = old[i];
        p.b = (Builder){m, r, ins->span, ins->path, ins->block, ins->backward, ins->again};
        if (ins->op == OP_repeat)
            convolutions_in(m, ins->body, tmp);
        const bool taken = ins->op == OP_dot ? take_dot(&p, ins)
                           : OP_AMONG(ins->op, OP_sum, OP_reindex) && !goes_on(&p, reader, ins)
                               ? take_chain(&p, ins)
                               : false;
        any |= taken;
        if (!taken)
            vec_push(m->arena, &r->ins, ins);
    }
    if (!any)
        return;
    Value *map = NEW_ARRAY(tmp, Value, m->values.n);
    for (size_t v = 0; v < p.map.n && v < values; v++)
        map[v] = p.map.data[v];
    ir_replace(r, map);
    drop_unread(&p);
}

PassStatus pass_convolutions(Job *j)
{
    for (size_t i = 0; i < j->m->fns.n; i++)
        convolutions_in(j->m, j->m->fns.data[i]->body, j->tmp);
    return PASS_ok;
}
