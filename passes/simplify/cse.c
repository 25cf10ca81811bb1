/* cse.c - what is computed twice is computed once; part of simplify.
 *
 * Two instructions are shared if they are the same op of the same operands with the same
 * attributes and result types, and the first is visible where the second stands. Not shared:
 *   - a forward with a backward instruction, unless it is a scalar or depends on nothing: the
 *     backward one is there so that the value need not live from one part to the other;
 *   - constants and positions of different regions: a kernel makes its own;
 *   - tensors filled with a constant: sums start from them, each in its own storage;
 *   - what has a region or an effect.
 * In a loop, slices of one value are one slice, and stacks of one value one stack. */
#include "passes/autodiff/gradient.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

#include <string.h>

typedef struct Entry {
    Ins *ins;
    uint32_t hash, next; /* next: an older entry of the same bucket, from 1 */
} Entry;

typedef struct Share {
    Module *m;
    Arena *a;
    const bool *leaf;
    ValueMap map;
    VEC(Entry) entries; /* a stack: those of a region go when it ends */
    uint32_t *bucket, mask;
    bool changed;
} Share;

static uint32_t mix(uint32_t h, uint32_t x)
{
    return (h ^ x) * 16777619u;
}

static uint32_t hash_ins(const Ins *i)
{
    uint32_t h = mix(2166136261u, i->op);
    for (uint32_t k = 0; k < i->nin; k++)
        h = mix(h, i->in[k]);
    h = mix(h, i->attrs.dim.name);
    h = mix(h, (uint32_t)i->attrs.at);
    return h ^ h >> 15;
}

static bool same_computation(const Share *s, const Ins *a, const Ins *b)
{
    if (a->op != b->op || a->nin != b->nin || a->nout != b->nout ||
        memcmp(a->in, b->in, a->nin * sizeof *a->in) || !attrs_equal(a->op, &a->attrs, &b->attrs))
        return false;
    for (uint32_t k = 0; k < a->nout; k++)
        if (!type_equal(type_of(s->m, a->out[k]), type_of(s->m, b->out[k])))
            return false;
    return true;
}

static bool may_share(const Share *s, const Ins *a, const Ins *b)
{
    double fill;
    if (a->op == OP_copy && value_is_const(s->m, a->out[0], &fill))
        return false;
    if ((a->op == OP_const || a->op == OP_iota) && a->home != b->home)
        return false;
    return a->backward == b->backward || s->leaf[b->out[0]] || !type_of(s->m, b->out[0])->rank;
}

static const Ins *find(const Share *s, const Ins *i, uint32_t hash)
{
    for (uint32_t e = s->bucket[hash & s->mask]; e; e = s->entries.data[e - 1].next) {
        const Entry *x = &s->entries.data[e - 1];
        if (x->hash == hash && same_computation(s, x->ins, i) && may_share(s, x->ins, i))
            return x->ins;
    }
    return NULL;
}

static void enter(Share *s, Ins *i, uint32_t hash)
{
    uint32_t *b = &s->bucket[hash & s->mask];
    vec_push(s->a, &s->entries, (Entry){i, hash, *b});
    *b = (uint32_t)s->entries.n;
}

/* In a loop, two slices of one value are one, and two stacks of one value. */
static void share_slices(Share *s, Ins *loop)
{
    const Value *arg = loop->body->args.data;
    for (uint32_t k = (uint32_t)loop->attrs.carried; k < loop->nin; k++)
        for (uint32_t first = (uint32_t)loop->attrs.carried; first < k; first++)
            if (loop->in[first] == loop->in[k] &&
                type_equal(type_of(s->m, arg[first]), type_of(s->m, arg[k]))) {
                map_set(s->m, &s->map, arg[k], arg[first]);
                break;
            }
}

static void share_stacks(Share *s, Ins *loop)
{
    const Value *from = loop->body->results.data;
    for (uint32_t k = (uint32_t)loop->attrs.carried; k < loop->nout; k++)
        for (uint32_t first = (uint32_t)loop->attrs.carried; first < k; first++)
            if (from[first] == from[k] &&
                type_equal(type_of(s->m, loop->out[first]), type_of(s->m, loop->out[k]))) {
                map_set(s->m, &s->map, loop->out[k], loop->out[first]);
                break;
            }
}

static void share_region(Share *s, Region *r)
{
    size_t kept = 0, mark = s->entries.n;
    for (size_t n = 0; n < r->ins.n; n++) {
        Ins *i = r->ins.data[n];
        for (uint32_t k = 0; k < i->nin; k++)
            i->in[k] = map_get(&s->map, i->in[k]);
        if (i->body && i->op == OP_repeat) {
            share_slices(s, i);
            share_region(s, i->body);
            share_stacks(s, i);
        }
        if (!i->body && i->nout && !op_is(i->op, EFFECT)) {
            uint32_t hash = hash_ins(i);
            const Ins *first = find(s, i, hash);
            for (uint32_t k = 0; first && k < i->nout; k++)
                map_set(s->m, &s->map, i->out[k], first->out[k]);
            s->changed |= first != NULL;
            if (first)
                continue;
            enter(s, i, hash);
        }
        r->ins.data[kept++] = i;
    }
    r->ins.n = kept;
    for (size_t n = 0; n < r->results.n; n++)
        r->results.data[n] = map_get(&s->map, r->results.data[n]);
    for (; s->entries.n > mark; s->entries.n--) {
        const Entry *e = &s->entries.data[s->entries.n - 1];
        s->bucket[e->hash & s->mask] = e->next;
    }
}

bool simplify_cse(Module *m, Fn *fn, Arena *a)
{
    uint32_t buckets = 64;
    while (buckets < m->values.n)
        buckets *= 2;
    Share s = {.m = m,
               .a = a,
               .leaf = activity_leaf(m, fn->body, a),
               .bucket = NEW_ARRAY(a, uint32_t, buckets),
               .mask = buckets - 1};
    share_region(&s, fn->body);
    return s.changed;
}
