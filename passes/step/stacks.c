/* stacks.c - the cast of a stack becomes a stack of casts, and a sum of stacks a stack of sums.
 *
 *   %s: f16[layers, k] = repeat layers {           %s: f32[layers, k] = repeat layers {
 *     give %g                                        %w: f32[k] = cast %g
 *   }                                         ->     give %w
 *   %w: f32[layers, k] = cast %s                   }
 *
 *   %x: f32[layers, k] = repeat layers { }         %x: f32[layers, k] = repeat layers { }
 *   %y: f32[layers, k] = repeat layers {           %y: f32[layers, k] = repeat layers, %x {
 *     give %g                                 ->     %s: f32[k] = add %x[l], %g
 *   }                                                give %s
 *   %s: f32[layers, k] = add %x, %y                }
 *
 * The gradient of a parameter that was rounded to a half is such a cast, and of one that is read
 * twice such a sum. Now each iteration can add its own slice, and there is no stack of halves. A
 * pipeline's stage depends on it: it runs the iterations of its own layers, and the slices of all
 * others are never written. What is not rounded is better added up by each loop in turn
 * (accumulate.c), which needs no stack but the sum itself; a sum that is rounded is rounded once.
 */
#include "passes/step/stacks.h"
#include "passes/walk.h"

typedef struct Stacks {
    Module *m;
    Region *r;
    Uses uses;
    size_t *place; /* per value of r: its instruction's number, from 1 */
    ValueMap map;
    bool sums;
} Stacks;

/* The number of v among what its loop stacks, or -1: no loop stacks v. */
static int stacked_number(const Module *m, Value v)
{
    const Ins *loop = m->values.data[v].def;
    if (!loop || loop->op != OP_repeat)
        return -1;
    for (uint32_t k = (uint32_t)loop->attrs.carried; k < loop->nout; k++)
        if (loop->out[k] == v)
            return (int)k;
    return -1;
}

/* A stack of r that one instruction reads: what its iterations stack. NULL: it is none. */
static Value *part_of(const Stacks *s, Value stack)
{
    const ValueInfo *v = &s->m->values.data[stack];
    const int k = stacked_number(s->m, stack);
    if (k < 0 || v->home != s->r || s->uses.count[stack] != 1)
        return NULL;
    return &v->def->body->results.data[k];
}

/* i computes what the stack is now. */
static void becomes(Stacks *s, const Ins *i, Value stack)
{
    map_set(s->m, &s->map, i->out[0], stack);
    s->uses.count[stack] = s->uses.count[i->out[0]];
}

static bool cast_moved(Stacks *s, const Ins *i)
{
    Value *part = part_of(s, i->in[0]);
    if (!part)
        return false;
    const Ins *loop = s->m->values.data[i->in[0]].def;
    const DType to = type_of(s->m, i->out[0])->dtype;
    Builder b = builder_at(s->m, loop->body, loop);
    *part = build_cast(&b, *part, to);
    s->m->values.data[i->in[0]].type.dtype = to;
    becomes(s, i, i->in[0]);
    return true;
}

/* Is v there when a loop of r begins, and made of one slice for each of its iterations? */
static bool comes_by_slices(const Stacks *s, Value v, const Ins *loop)
{
    const Type *t = type_of(s->m, v);
    const bool early = s->m->values.data[v].home != s->r || s->place[v] < s->place[loop->out[0]];
    return early && t->rank && t->dims[0].name == loop->attrs.dim.name;
}

/* x + y, where y is a stack. */
static bool sum_moved(Stacks *s, const Ins *i, Value x, Value y)
{
    Value *part = part_of(s, y);
    if (!part || x == y)
        return false;
    Module *m = s->m;
    Ins *loop = m->values.data[y].def;
    const bool one = m->values.data[x].def == loop;
    if (one ? !part_of(s, x) : !comes_by_slices(s, x, loop))
        return false;
    const Value slice = one ? *part_of(s, x) : repeat_slice(m, loop, x);
    Builder b = builder_at(m, loop->body, loop);
    part = part_of(s, y);
    *part = build2(&b, OP_add, slice, *part);
    becomes(s, i, y);
    return true;
}

static bool moved(Stacks *s, const Ins *i)
{
    if (!i->backward)
        return false;
    if (i->op == OP_cast)
        return cast_moved(s, i);
    return i->op == OP_add && s->sums && !i->exact &&
           type_equal(type_of(s->m, i->in[0]), type_of(s->m, i->in[1])) &&
           (sum_moved(s, i, i->in[0], i->in[1]) || sum_moved(s, i, i->in[1], i->in[0]));
}

static void read_mapped(void *ctx, Value *use)
{
    *use = map_get(ctx, *use);
}

void stacks_by_iterations(Module *m, Region *r, bool sums, Arena *tmp)
{
    Stacks s = {.m = m, .r = r, .uses = ir_uses(m, r, tmp), .sums = sums};
    s.place = NEW_ARRAY(tmp, size_t, m->values.n);
    for (size_t n = 0; n < r->ins.n; n++)
        for (uint32_t k = 0; k < r->ins.data[n]->nout; k++)
            s.place[r->ins.data[n]->out[k]] = n + 1;
    size_t kept = 0;
    for (size_t n = 0; n < r->ins.n; n++) {
        Ins *i = r->ins.data[n];
        each_use(i, read_mapped, &s.map);
        if (!moved(&s, i))
            r->ins.data[kept++] = i;
    }
    r->ins.n = kept;
    for (size_t k = 0; k < r->results.n; k++)
        r->results.data[k] = map_get(&s.map, r->results.data[k]);
    for (size_t n = 0; n < r->ins.n; n++)
        if (r->ins.data[n]->op == OP_repeat)
            stacks_by_iterations(m, r->ins.data[n]->body, sums, tmp);
}
