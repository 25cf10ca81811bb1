/* send_narrow.c - pass send_narrow: what ranks exchange and then round to numbers of 8 bits, by one
 * scale for all of it, is rounded first and sent in 8 bits.
 *
 *   before:  r = all_to_all z;  c = cast r;  m = all_reduce (rmax (abs c)) max
 *            q = cast (mul c, scale m)
 *   after:   c = cast z;  m = all_reduce (rmax (abs c)) max;  p = cast (mul c, scale m)
 *            q = all_to_all p
 *
 * The largest number of all ranks is the same before they exchange what they have, and each number
 * is rounded by itself: every bit is as before. So are half of the bytes of what goes to experts in
 * fp8, and of the gradients of what they give. Of two exchanges, along ep and then along tp, the
 * second is moved, and then the first stands before the same instructions.
 *
 * why here: collectives are instructions, and a rank's sizes are in the types; before pieces, which
 * cuts what is sent. */
#include "passes/passes.h"
#include "passes/walk.h"

/* The only readers of what an all_to_all gives. */
typedef struct Rounded {
    Ins *widened, *absolute, *largest, *reduced, *scaled, *rounded;
} Rounded;

typedef struct Sends {
    Module *m;
    const Region *all; /* of the function */
    Uses uses;         /* in all of it */
} Sends;

/* The k-th instruction of r that reads v, from 0 on; NULL: there is none. */
static Ins *reader(const Region *r, Value v, int k)
{
    for (size_t n = 0; n < r->ins.n; n++)
        for (uint32_t x = 0; x < r->ins.data[n]->nin; x++)
            if (r->ins.data[n]->in[x] == v && k-- == 0)
                return r->ins.data[n];
    return NULL;
}

/* The one reader of what i gives, if it is such an instruction; NULL. */
static Ins *only_reader(const Sends *s, const Region *r, const Ins *i, Op op)
{
    Ins *by = s->uses.count[i->out[0]] == 1 ? reader(r, i->out[0], 0) : NULL;
    return by && by->op == op ? by : NULL;
}

/* Does every number of v's go into the largest, of all ranks that exchange v? */
static bool of_all(const Sends *s, const Ins *sent, const Rounded *f)
{
    const Type *t = type_of(s->m, f->absolute->out[0]);
    return f->largest->attrs.over.n == t->rank && f->reduced->attrs.max &&
           (f->reduced->attrs.axes & sent->attrs.axes) == sent->attrs.axes;
}

/* Is v made of numbers that all ranks have, and of the largest number? */
static bool is_scale(const Sends *s, Value v, const Ins *largest)
{
    const Ins *i = s->m->values.data[v].def;
    if (!i || i == largest || i->op == OP_const)
        return i;
    bool all = type_of(s->m, v)->rank == 0 && (op_is(i->op, POINTWISE) || i->op == OP_cast);
    for (uint32_t k = 0; k < i->nin && all; k++)
        all = is_scale(s, i->in[k], largest);
    return all;
}

static bool is_rounded(const Sends *s, const Region *r, const Ins *sent, Rounded *f)
{
    f->widened = only_reader(s, r, sent, OP_cast);
    if (!f->widened || s->uses.count[f->widened->out[0]] != 2)
        return false;
    for (int k = 0; k < 2; k++) {
        Ins *by = reader(r, f->widened->out[0], k);
        f->absolute = by && by->op == OP_abs ? by : f->absolute;
        f->scaled = by && by->op == OP_mul ? by : f->scaled;
    }
    if (!f->absolute || !f->scaled || type_of(s->m, f->scaled->in[1])->rank)
        return false;
    f->largest = only_reader(s, r, f->absolute, OP_rmax);
    f->reduced = f->largest ? only_reader(s, r, f->largest, OP_all_reduce) : NULL;
    f->rounded = only_reader(s, r, f->scaled, OP_cast);
    return f->reduced && f->rounded && dtype_is_fp8(type_of(s->m, f->rounded->out[0])->dtype) &&
           of_all(s, sent, f) && is_scale(s, f->scaled->in[1], f->reduced);
}

/* v has the sizes of `like`. */
static void resize(const Sends *s, Value v, Value like)
{
    Type *t = &s->m->values.data[v].type;
    const Type *u = type_of(s->m, like);
    for (int d = 0; d < t->rank; d++)
        t->dims[d] = u->dims[d];
}

/* The exchange goes behind the rounding. */
static void send_behind(const Sends *s, Region *r, Ins *sent, const Rounded *f)
{
    Module *m = s->m;
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    const Value z = sent->in[0];
    f->widened->in[0] = z;
    resize(s, f->widened->out[0], z);
    resize(s, f->absolute->out[0], z);
    resize(s, f->scaled->out[0], z);
    for (int d = 0; d < f->largest->attrs.over.n; d++) {
        Dim *over = &f->largest->attrs.over.dim[d];
        *over = type_of(m, z)->dims[type_find(type_of(m, z), over->name)];
    }
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        if (i == sent)
            continue;
        if (i == f->rounded) {
            Builder b = builder_at(m, r, i);
            Type t = *type_of(m, f->scaled->out[0]);
            t.dtype = type_of(m, i->out[0])->dtype;
            i->in[0] = build_typed(&b, OP_cast, &i->attrs, 1, i->in, 1, &t, NULL)->out[0];
            i->op = OP_all_to_all;
            i->attrs = sent->attrs;
        }
        vec_push(m->arena, &r->ins, i);
    }
}

static void region(Sends *s, Region *r, Arena *tmp)
{
    bool any = true;
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->body)
            region(s, r->ins.data[k]->body, tmp);
    while (any) {
        any = false;
        for (size_t k = 0; k < r->ins.n && !any; k++) {
            Rounded f = {0};
            Ins *sent = r->ins.data[k];
            any = sent->op == OP_all_to_all && is_rounded(s, r, sent, &f);
            if (any)
                send_behind(s, r, sent, &f);
        }
        if (any)
            s->uses = ir_uses(s->m, s->all, tmp);
    }
}

PassStatus pass_send_narrow(Job *j)
{
    for (size_t k = 0; k < j->m->fns.n; k++) {
        Region *body = j->m->fns.data[k]->body;
        Sends s = {.m = j->m, .all = body, .uses = ir_uses(j->m, body, j->tmp)};
        region(&s, body, j->tmp);
    }
    return PASS_ok;
}
