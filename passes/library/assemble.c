/* assemble.c - a tensor that is put together becomes a join, whose parts are computed in place.
 *
 *   add (select (eq iota 0) dq 0), (select (eq iota 1) dk 0), ...   ->   join dq, dk, ...
 *   add (reindex dq), (reindex dk), ...                             ->   join dq, dk, ...
 *
 * The first is the gradient of a tensor that is read by picks, the second by windows: each index of
 * one dim comes from exactly one of several values, and zeros are added to it. As a kernel that
 * would read all parts and write them once more. As a join it is storage in which the calls that
 * compute the parts write, at strides (plan/schedule/schedule_store.c), and no time at all.
 *
 * It is one if its parts are disjoint and all of the dim; something other than a kernel reads the
 * sum, which is in memory then anyway; and a part at least is a gradient of attention, whose
 * descriptor takes strides, and lies on whole words of 16 bytes, or kernels compute half of it in
 * parts of several indices, which no kernel of the sum can compute (fuse_shape.c). The other parts
 * are kernels' results, which write at strides too, or are copied there as the kernel would have
 * done. A part is what it was: only a -0 that got a 0 added now stays -0. */
#include "passes/library/attention.h"
#include "passes/passes.h"
#include "passes/walk.h"

#include <string.h>

enum { MAX_PARTS = 24, WORD = 16 /* bytes that kernels of attention load and store at once */ };

/* A value that is at indices [at, at + n) of the dim. */
typedef struct Indices {
    Value v;
    int64_t at, n;
} Indices;

typedef struct Assemble {
    Module *m;
    Region *r;
    Arena *tmp;
    Uses uses;
    Ins **ins; /* the region's, as they were before the rewriting at hand */
    size_t n;
    ValueMap map;
    bool undone; /* casts from halves count as what is cast, as they will not be there */
    Value sum;   /* the one at hand */
    Dim dim;     /* along which the sum at hand is put together; no name: none is known yet */
    Indices part[MAX_PARTS];
    int parts;
} Assemble;

static Ins *made_here(const Assemble *a, Value v)
{
    Ins *i = a->m->values.data[v].def;
    return i && i->home == a->r ? i : NULL;
}

static DType dtype_at(const Assemble *a, Value v)
{
    return type_of(a->m, v)->dtype;
}

static bool is_cast_of_half(const Assemble *a, const Ins *i)
{
    return i->op == OP_cast && dtype_is_half(dtype_at(a, i->in[0]));
}

/* Without copies to another order of dims, which nothing else reads. */
static Value as_made(const Assemble *a, Value v)
{
    const Ins *i = made_here(a, v);
    while (i && a->uses.count[v] == 1 && i->op == OP_copy &&
           type_same_dims(type_of(a->m, i->in[0]), type_of(a->m, v))) {
        v = i->in[0];
        i = made_here(a, v);
    }
    return v;
}

/* ---- what a sum is put together of ----------------------------------------------------------- */

/* Is v `iota d == k`? */
static bool is_index(const Assemble *a, Value v, Dim *d, int64_t *k)
{
    const Ins *eq = a->m->values.data[v].def;
    const Ins *iota = eq && eq->op == OP_eq ? a->m->values.data[eq->in[0]].def : NULL;
    double value;
    if (!iota || iota->op != OP_iota || !value_is_const(a->m, eq->in[1], &value))
        return false;
    *d = iota->attrs.dim;
    *k = (int64_t)value;
    return (double)*k == value;
}

static bool is_zero(const Assemble *a, Value v)
{
    double value;
    return value_is_const(a->m, v, &value) && value == 0;
}

/* A value at one index of a dim, or at some in a row, and 0 elsewhere. */
static bool is_placed(const Assemble *a, const Ins *i, Indices *f, Dim *d)
{
    const Attrs *at = &i->attrs;
    if (i->op == OP_select) {
        f->v = i->in[1];
        f->n = 1;
        return is_zero(a, i->in[2]) && is_index(a, i->in[0], d, &f->at);
    }
    if (i->op != OP_reindex || at->over.n != 1 || at->factors.by[0] != 1 || at->every != 1)
        return false;
    *d = at->over.dim[0];
    *f = (Indices){i->in[0], -at->at, at->dim.size};
    return at->dim.name == d->name;
}

/* Has v the dims of t, but for the joined one, of which it has n (none: one)? */
static bool fills(const Assemble *a, const Type *t, const Indices *f)
{
    const Type *part = type_of(a->m, f->v);
    int at = type_find(part, a->dim.name);
    if (part->rank + (at < 0) != t->rank || (at < 0 ? 1 : part->dims[at].size) != f->n)
        return false;
    for (int i = 0; i < part->rank; i++) {
        const int k = type_find(t, part->dims[i].name);
        if (k < 0 || (i != at && part->dims[i].size != t->dims[k].size))
            return false;
    }
    return true;
}

/* Collects the parts that v is the sum of; `whole`: it is the sum itself. */
static bool collect(Assemble *a, Value v, bool whole)
{
    const Ins *i = made_here(a, v);
    Indices f;
    Dim d;
    if (whole)
        a->sum = v;
    if (!i || (!whole && a->uses.count[v] != 1))
        return false;
    if (i->op == OP_add)
        return !i->exact && collect(a, i->in[0], false) && collect(a, i->in[1], false);
    if (is_cast_of_half(a, i) && !whole)
        return collect(a, i->in[0], false);
    if (whole || a->parts == MAX_PARTS || !is_placed(a, i, &f, &d) ||
        (a->dim.name && a->dim.name != d.name))
        return false;
    a->dim = d;
    f.v = as_made(a, f.v);
    a->part[a->parts++] = f;
    return fills(a, type_of(a->m, a->sum), &f); /* not v, which may lack dims */
}

/* In order, without a gap and without an overlap? */
static bool cover(Assemble *a)
{
    int64_t end = 0;
    for (int n = 0; n < a->parts; n++) {
        int next = n;
        while (next < a->parts && a->part[next].at != end)
            next++;
        if (next == a->parts)
            return false;
        const Indices f = a->part[next];
        a->part[next] = a->part[n];
        a->part[n] = f;
        end += f.n;
    }
    return end == a->dim.size;
}

/* ---- of which type the parts are ------------------------------------------------------------- */

/* Is a use of the sum one that needs it in memory? */
static bool needs_memory(const Assemble *a, Value sum)
{
    for (size_t k = 0; k < a->r->results.n; k++)
        if (a->r->results.data[k] == sum)
            return true;
    for (size_t n = 0; n < a->n; n++) {
        const Ins *i = a->ins[n];
        for (uint32_t k = 0; k < i->nin; k++)
            if (i->in[k] == sum && ((op_is(i->op, VIEW) || i->op == OP_cast || i->op == OP_copy)
                                        ? needs_memory(a, i->out[0])
                                        : !op_is(i->op, POINTWISE | FUSE)))
                return true;
    }
    return false;
}

/* The type to which all uses of the sum round it, each to the sum's own order of dims; or that of
 * the sum. */
static DType rounded_to(const Assemble *a, Value sum)
{
    const Type *t = type_of(a->m, sum);
    DType to = t->dtype;
    uint32_t casts = 0;
    for (size_t n = 0; n < a->n; n++) {
        const Ins *i = a->ins[n];
        if (i->op != OP_cast || i->in[0] != sum)
            continue;
        Type like = *type_of(a->m, i->out[0]);
        if (!dtype_is_half(like.dtype) || (casts && like.dtype != to))
            return t->dtype;
        to = like.dtype;
        like.dtype = t->dtype;
        casts += type_equal(&like, t);
    }
    return casts == a->uses.count[sum] ? to : t->dtype;
}

/* The type in which v is computed, before views and casts from halves that nothing else reads. */
static DType made_in(const Assemble *a, Value v)
{
    const Ins *i = made_here(a, v);
    while (i && a->uses.count[v] == 1 && (op_is(i->op, VIEW) || is_cast_of_half(a, i))) {
        v = i->in[0];
        i = made_here(a, v);
    }
    return dtype_at(a, v);
}

/* The type of the join: that of the parts if all are of one, else that to which the sum is rounded.
 */
static DType parts_in(const Assemble *a, Value sum)
{
    const DType round = rounded_to(a, sum);
    DType t = made_in(a, a->part[0].v);
    for (int n = 1; n < a->parts; n++)
        if (made_in(a, a->part[n].v) != t)
            t = round;
    return t;
}

/* A part in type t: as it was before it was cast, or cast once more, before it is viewed: so that
 * the kernel that computes it casts it. */
static Value in_type(const Assemble *a, Builder *b, Value v, DType t)
{
    const Ins *i = made_here(a, v);
    const bool view = i && op_is(i->op, VIEW), cast = i && is_cast_of_half(a, i);
    if (dtype_at(a, v) == t)
        return v;
    if (!i || a->uses.count[v] != 1 || (!view && (!cast || made_in(a, v) != t)))
        return build_cast(b, v, t);
    const Value x = in_type(a, b, i->in[0], t);
    if (cast)
        return x;
    Type like = *type_of(a->m, v);
    like.dtype = t;
    return build_typed(b, i->op, &i->attrs, 1, &x, 1, &like, NULL)->out[0];
}

/* ---- parts in place -------------------------------------------------------------------------- */

/* The value that is computed where part v lies, through views that nothing else reads, and its
 * strides there; 0: none can be. */
static Value computed(const Assemble *a, Value v, int64_t *stride)
{
    for (;;) {
        const Ins *i = made_here(a, v);
        int64_t inner[MAX_RANK];
        if (!i || a->uses.count[v] != 1)
            return 0;
        if (a->undone && is_cast_of_half(a, i)) {
            v = i->in[0];
            continue;
        }
        if (!op_is(i->op, VIEW))
            return v;
        if (!strides_behind_view(i, type_of(a->m, v), stride, type_of(a->m, i->in[0]), inner))
            return 0;
        memcpy(stride, inner, sizeof inner);
        v = i->in[0];
    }
}

/* Does each row of a tensor begin at a whole word, from this element on? */
static bool by_words(const Strided *s, int64_t offset)
{
    const int64_t each = WORD / dtype_bytes(s->type->dtype);
    int64_t all = offset;
    for (int i = 0; i < s->type->rank; i++)
        all |= s->type->dims[i].size > 1 && s->stride[i] != 1 ? s->stride[i] : 0;
    return all % each == 0;
}

/* A join that is or will be, of type t: where its parts lie in it. */
typedef struct Joined {
    const Ins *join; /* its parts and dim */
    Strided whole;
} Joined;

static Joined dense_join(const Ins *join, const Type *t)
{
    Joined j = {.join = join, .whole.type = t};
    strides_dense(t, j.whole.stride);
    return j;
}

/* Attention's gradient i computes a part of the join: may it write all of them there? */
static bool writes_there(const Assemble *a, const Ins *i, const Joined *j)
{
    enum { OPERANDS = 6 };
    Strided op[OPERANDS + 3];
    mg_attention_desc d = {0};
    for (uint32_t k = 0; k < OPERANDS; k++)
        op[k] = strided_of(a->m, i->in[k]);
    for (uint32_t k = 0; k < i->nout; k++)
        op[OPERANDS + k] = strided_of(a->m, i->out[k]);
    for (uint32_t k = 0; k < j->join->nin; k++) {
        Strided s;
        const int64_t offset = strides_of_part(a->m, j->join, k, &j->whole, s.stride);
        const Value v = computed(a, j->join->in[k], s.stride);
        for (uint32_t n = 0; v && n < i->nout; n++) {
            if (i->out[n] != v)
                continue;
            s.type = type_of(a->m, v);
            if (by_words(&op[OPERANDS + n], 0) && !by_words(&s, offset))
                return false;
            op[OPERANDS + n] = s;
        }
    }
    const Strided first = strided_of(a->m, i->in[i->nin - 1]);
    const Strided bias = strided_of(a->m, i->in[i->attrs.biased ? attention_bias(i) : 0]);
    const Strided seen = strided_of(a->m, i->in[attention_seen(i) >= 0 ? attention_seen(i) : 0]);
    const AttentionMask mask = {.bias = i->attrs.biased ? &bias : NULL,
                                .seen = attention_seen(i) >= 0 ? &seen : NULL,
                                .first = i->attrs.within ? &first : NULL};
    return attention_match(i, op, &mask, &d);
}

typedef enum Way { PART_copied, PART_kernel, PART_attention } Way;

/* How part k of a join gets to its place. */
static Way way_of(const Assemble *a, const Joined *j, uint32_t k)
{
    int64_t stride[MAX_RANK];
    strides_of_part(a->m, j->join, k, &j->whole, stride);
    const Value v = computed(a, j->join->in[k], stride);
    const Ins *i = v ? made_here(a, v) : NULL;
    if (i && i->op == OP_attention_grad)
        return writes_there(a, i, j) ? PART_attention : PART_copied;
    return i && op_is(i->op, POINTWISE | FUSE) && !OP_AMONG(i->op, OP_const, OP_iota) ? PART_kernel
                                                                                      : PART_copied;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* Casts of `sum` to the type of what it became are that. */
static void take_casts(Assemble *a, Value sum, Value joined)
{
    for (size_t n = 0; n < a->n; n++) {
        const Ins *i = a->ins[n];
        if (i->op == OP_cast && i->in[0] == sum &&
            type_equal(type_of(a->m, i->out[0]), type_of(a->m, joined)))
            map_set(a->m, &a->map, i->out[0], joined);
    }
}

/* Builds the join that `sum` is, if it is one and that is worth it. */
static void assemble(Assemble *a, Builder *b, Ins *sum)
{
    if (sum->op != OP_add)
        return;
    const Value out = sum->out[0];
    Value part[MAX_PARTS];
    bool worth = false;
    int64_t by_kernels = 0; /* indices of the dim */
    a->parts = 0;
    a->dim = (Dim){0};
    if (!collect(a, out, true) || !cover(a) || !needs_memory(a, out))
        return;
    Type t = *type_of(a->m, out);
    t.dtype = parts_in(a, out);
    const Ins join = {.op = OP_join, .attrs.dim = a->dim, .nin = (uint32_t)a->parts, .in = part};
    for (int n = 0; n < a->parts; n++)
        part[n] = a->part[n].v;
    const Joined there = dense_join(&join, &t);
    a->undone = true;
    for (uint32_t n = 0; n < join.nin; n++)
        if (made_in(a, part[n]) == t.dtype) {
            const Way way = way_of(a, &there, n);
            worth |= way == PART_attention;
            by_kernels += way == PART_kernel && a->part[n].n > 1 ? a->part[n].n : 0;
        }
    a->undone = false;
    if (!worth && 2 * by_kernels < a->dim.size)
        return;
    for (uint32_t n = 0; n < join.nin; n++)
        part[n] = in_type(a, b, part[n], t.dtype);
    const Value made = build_typed(b, OP_join, &join.attrs, a->parts, part, 1, &t, NULL)->out[0];
    a->m->values.data[made].name = a->m->values.data[out].name;
    map_set(a->m, &a->map, out, build_cast(b, made, dtype_at(a, out)));
    take_casts(a, out, made);
}

/* Is v seen in memory with gaps? */
static bool has_gaps(const Assemble *a, Value v)
{
    const Strided s = strided_of(a->m, v);
    return !strides_are_dense(s.type, s.stride);
}

/* The parts of a join that are not computed where they lie are copied there, by a kernel; where
 * they lie one behind the other, by bytes, unless they have gaps. */
static void settle(Assemble *a, Builder *b, Ins *join)
{
    if (join->op != OP_join)
        return;
    const bool outermost = join_is_outermost(a->m, join);
    const Joined there = dense_join(join, type_of(a->m, join->out[0]));
    Value *part = NEW_ARRAY(a->m->arena, Value, join->nin);
    for (uint32_t k = 0; k < join->nin; k++) {
        const Type *t = type_of(a->m, join->in[k]);
        const bool copied =
            outermost ? has_gaps(a, join->in[k]) : way_of(a, &there, k) == PART_copied;
        part[k] = copied ? build_typed(b, OP_copy, NULL, 1, &join->in[k], 1, t, NULL)->out[0]
                         : join->in[k];
    }
    join->in = part;
}

/* Instructions whose results nothing reads any more go. */
static void sweep(Assemble *a)
{
    Region *r = a->r;
    a->uses = ir_uses(a->m, r, a->tmp);
    size_t left = r->ins.n;
    for (size_t k = r->ins.n; k-- > 0;) {
        Ins *i = r->ins.data[k];
        if (op_is(i->op, POINTWISE | FUSE | VIEW) && !a->uses.count[i->out[0]])
            for (uint32_t n = 0; n < i->nin; n++)
                a->uses.count[i->in[n]]--;
        else
            r->ins.data[--left] = i;
    }
    r->ins.n -= left;
    memmove(r->ins.data, r->ins.data + left, r->ins.n * sizeof *r->ins.data);
}

/* Goes through the region's instructions in order: `f` appends what comes before one, by the
 * builder. */
typedef void BeforeFn(Assemble *a, Builder *b, Ins *i);
static void rewrite(Assemble *a, BeforeFn *f)
{
    Region *r = a->r;
    a->ins = r->ins.data;
    a->n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < a->n; k++) {
        Builder b = builder_at(a->m, r, a->ins[k]);
        f(a, &b, a->ins[k]);
        vec_push(a->m->arena, &r->ins, a->ins[k]);
    }
}

static void assemble_in(Module *m, Region *r, Arena *tmp)
{
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->op == OP_repeat)
            assemble_in(m, r->ins.data[k]->body, tmp);
    Assemble a = {.m = m, .r = r, .tmp = tmp, .uses = ir_uses(m, r, tmp)};
    rewrite(&a, assemble);
    if (a.map.n) {
        Value *map = NEW_ARRAY(tmp, Value, m->values.n);
        for (size_t v = 0; v < a.map.n && v < m->values.n; v++)
            map[v] = a.map.data[v];
        ir_replace(r, map);
        sweep(&a);
    }
    a.uses = ir_uses(m, r, tmp);
    rewrite(&a, settle);
}

PassStatus pass_assemble(Job *j)
{
    for (size_t i = 0; i < j->m->fns.n; i++)
        assemble_in(j->m, j->m->fns.data[i]->body, j->tmp);
    return PASS_ok;
}
