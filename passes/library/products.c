/* products.c - every `dot` becomes one call of mg_gemm; so does `dot_scaled`.
 *
 *   copy(dot(a, b))     ->  dot(a, b) whose result lies as the copy would, if it then is a product
 *   dot(copy a, b)      ->  dot(a, b) if it is a product as a lies
 *   add(dot(a, b), c)   ->  dot(a, b, c) where c may be overwritten: it is summed in place
 *   dot(a, b)           ->  dot(copy a, copy b) or copy(dot(a, b)) in other orders of dims where
 *                           the operands as they lie are no matrices; the fewest bytes are copied
 *   dot(a, b, c)        ->  add(dot(a, b), c) where c cannot be the result's storage
 *   dot(a, b) of fp8    ->  copies of a and b in which what is summed is innermost, where it is
 * not: tensor cores read fp8 along it alone
 *
 * The same of conv, whose operands are laid out as other calls' are (calls.c).
 *
 * A copy is a pointwise op, so fusion can still merge it with its neighbours. */
#include "passes/passes.h"
#include "passes/library/product.h"
#include "passes/view.h"

/* A copy of fp8 that was made: gradients of several parameters read what they share turned. */
typedef struct Turned {
    Value of, copy;
} Turned;

typedef struct Products {
    Module *m;
    Arena *tmp;
    Region *region;
    Builder b;
    const int *last; /* uses in the region as it was */
    Uses uses;
    ValueMap map;
    VEC(Turned) turned;
} Products;

/* ---- orders of dims ------------------------------------------------------------------------- */

/* The copy of region r that v is, if it only brings the dims of another value in another order. */
static const Ins *turning(const Module *m, const Region *r, Value v)
{
    const Ins *i = m->values.data[v].def;
    if (!i || i->op != OP_copy || i->home != r)
        return NULL;
    const Type *from = type_of(m, i->in[0]), *to = type_of(m, v);
    if (from->dtype != to->dtype || from->rank != to->rank)
        return NULL;
    for (int k = 0; k < to->rank; k++)
        if (type_find(from, to->dims[k].name) < 0)
            return NULL;
    return i;
}

/* Is dot(a, b) a product where these lie, of a result that lies densely in the order of t? */
static bool is_product(const Module *m, Value a, Value b, const Type *t, const DimList *over)
{
    const Strided x = strided_of(m, a), y = strided_of(m, b);
    Strided z = {.type = t};
    Product match;
    strides_dense(t, z.stride);
    return product_match(&x, &y, &z, over, &match);
}

/* The copy whose source a dot can read in place of operand w, where that lies; or NULL. */
static const Ins *needless(const Module *m, const Region *r, const Ins *dot, int w)
{
    const Ins *copy = dot->op == OP_dot ? turning(m, r, dot->in[w]) : NULL;
    Value in[2] = {dot->in[0], dot->in[1]};
    if (!copy)
        return NULL;
    in[w] = copy->in[0];
    return is_product(m, in[0], in[1], type_of(m, dot->out[0]), &dot->attrs.over) ? copy : NULL;
}

/* Reads operands of dots where they lie, if nothing then needs the copies. */
static void read_as_they_lie(Module *m, const Region *r, const Uses *uses, Arena *tmp)
{
    uint32_t *spared = NEW_ARRAY(tmp, uint32_t, m->values.n);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < r->ins.n; i++)
            for (int w = 0; w < 2 && r->ins.data[i]->op == OP_dot; w++) {
                Ins *dot = r->ins.data[i];
                const Value v = dot->in[w];
                const Ins *copy = needless(m, r, dot, w);
                if (copy && round == 0)
                    spared[v]++;
                else if (copy && spared[v] == uses->count[v])
                    dot->in[w] = copy->in[0];
            }
}

/* Writes the result of a dot as `copy` would turn it; the copy is then not needed. */
static bool write_turned(Module *m, const Region *r, const Uses *uses, const Ins *copy)
{
    Ins *dot = m->values.data[copy->in[0]].def;
    const Value out = copy->out[0];
    if (!turning(m, r, out) || !dot || dot->op != OP_dot || ins_added(dot) >= 0 || dot->home != r ||
        uses->count[copy->in[0]] != 1 ||
        !is_product(m, dot->in[0], dot->in[1], type_of(m, out), &dot->attrs.over))
        return false;
    m->values.data[out].def = dot;
    m->values.data[out].name = m->values.data[dot->out[0]].name;
    dot->out[0] = out;
    return true;
}

static void spare_copies(Module *m, Region *r, Arena *tmp)
{
    const Uses were = ir_uses(m, r, tmp);
    read_as_they_lie(m, r, &were, tmp);
    const Uses uses = ir_uses(m, r, tmp);
    size_t n = 0;
    for (size_t i = 0; i < r->ins.n; i++) {
        Ins *ins = r->ins.data[i];
        const bool spared = turning(m, r, ins->nout ? ins->out[0] : 0) && !uses.count[ins->out[0]];
        if (!spared && (ins->op != OP_copy || !write_turned(m, r, &uses, ins)))
            r->ins.data[n++] = ins;
    }
    r->ins.n = n;
}

/* ---- accumulation --------------------------------------------------------------------------- */

static bool is_result(const Region *r, Value v)
{
    for (size_t i = 0; i < r->results.n; i++)
        if (r->results.data[i] == v)
            return true;
    return false;
}

/* A product whose only use is the instruction at hand, of exactly type t. */
static const Ins *product_for(const Products *p, Value v, const Type *t)
{
    const Ins *d = p->m->values.data[v].def;
    return d && OP_AMONG(d->op, OP_dot, OP_dot_scaled, OP_conv, OP_grouped_weight) &&
                   ins_added(d) < 0 && d->home == p->region && p->uses.count[v] == 1 &&
                   type_equal(type_of(p->m, v), t)
               ? d
               : NULL;
}

/* Of two dots that are added up, the operand that adds to the other (walk.h); -1: they are not two,
 * or either may. Both may have to keep their bits (Ins.exact): the sum is computed like this
 * wherever it is, or its terms have other uses there. */
static int summed_dots(const Products *p, const Ins *add)
{
    const Type *t = type_of(p->m, add->out[0]);
    const Ins *x = product_for(p, add->in[0], t), *y = product_for(p, add->in[1], t);
    if (!x || !y || x == y || x->op != OP_dot || y->op != OP_dot)
        return -1;
    const int64_t a = dot_terms(p->m, x), b = dot_terms(p->m, y);
    return a == b && !x->exact && !y->exact ? -1 : b >= a;
}

/* May the result of `add` at position `at` take over c's storage? A pointwise value that is only
 * added here is better added by the kernel that makes it: it then needs no storage. */
static bool may_take(const Products *p, Value c, const Ins *add, int at)
{
    const ValueInfo *info = &p->m->values.data[c];
    if (info->home != p->region || p->last[c] > at ||
        !type_equal(type_of(p->m, c), type_of(p->m, add->out[0])))
        return false;
    if (info->def && op_is(info->def->op, POINTWISE | FUSE))
        return p->uses.count[c] > 1;
    if (info->def)
        return !op_is(info->def->op, VIEW);
    Value stacked;
    if (!p->region->owner)
        return false; /* an input of the program */
    return !slice_loop(p->m, c, &stacked) || is_result(p->region, add->out[0]);
}

static int defined_at(const Products *p, Value v)
{
    for (size_t i = 0; i < p->region->ins.n; i++)
        if (p->region->ins.data[i] == p->m->values.data[v].def)
            return (int)i;
    return -1;
}

/* Turns add(dot, c) into dot(a, b, c) in place; the dot that was is left without uses. */
static void accumulate(Products *p, Ins *add, int at)
{
    const Type *t = type_of(p->m, add->out[0]);
    int best = summed_dots(p, add), where = -1;
    const bool chosen = best >= 0;
    for (int k = 0; !chosen && k < 2; k++) {
        Value v = add->in[k], c = add->in[1 - k];
        const Ins *dot = product_for(p, v, t);
        if (v != c && p->last[c] == at && dot && !dot->exact && may_take(p, c, add, at) &&
            defined_at(p, v) > where) {
            best = k;
            where = defined_at(p, v);
        }
    }
    if (best < 0)
        return;
    const Ins *dot = p->m->values.data[add->in[best]].def;
    Value *in = NEW_ARRAY(p->m->arena, Value, dot->nin + 1);
    for (uint32_t k = 0; k < dot->nin; k++)
        in[k] = dot->in[k];
    in[dot->nin] = add->in[1 - best];
    p->uses.count[add->in[best]] = 0;
    add->op = dot->op;
    add->attrs = dot->attrs;
    add->in = in;
    add->nin = dot->nin + 1;
}

/* Turns a sum that is rounded to the nearest into the product that rounds it, in place. */
static void accumulate_rounded(Products *p, Ins *next, int at)
{
    RoundedSum r;
    if (!rounded_sum(p->m, &p->uses, next, &r) ||
        (r.sum && (p->uses.count[r.sum] != 1 || !may_take(p, r.sum, next, at))))
        return;
    Value *in = NEW_ARRAY(p->m->arena, Value, r.dot->nin + 1);
    for (uint32_t k = 0; k < r.dot->nin; k++)
        in[k] = r.dot->in[k];
    in[r.dot->nin] = r.sum;
    p->uses.count[r.dot->out[0]] = 0;
    p->uses.count[r.wide] = p->uses.count[r.added] = 0; /* of value 0, too: nobody asks for it */
    next->op = r.dot->op;
    next->attrs = r.dot->attrs;
    next->in = in;
    next->nin = r.dot->nin + (r.sum != 0);
}

/* Has it become a part of another instruction? */
static bool is_gone(const Products *p, const Ins *i)
{
    if (!OP_AMONG(i->op, OP_dot, OP_dot_scaled, OP_conv, OP_grouped_weight, OP_add, OP_cast))
        return false;
    return ins_added(i) < 0 && p->uses.count[i->out[0]] == 0;
}

/* ---- matching ------------------------------------------------------------------------------- */

typedef struct Choice {
    bool copy[3]; /* a, b, result */
    Type type[3]; /* as the product takes them */
    double bytes;
} Choice;

enum { IN_A = 1, IN_B = 2, IN_C = 4 };

/* Appends the dims of `from` that occur in exactly the tensors of `in`. */
static void take(Type *to, const Type *from, const Type t[3], int in)
{
    for (int i = 0; i < from->rank; i++) {
        int where = 0;
        for (int w = 0; w < 3; w++)
            where |= type_find(&t[w], from->dims[i].name) >= 0 ? 1 << w : 0;
        if (where == in)
            to->dims[to->rank++] = from->dims[i];
    }
}

/* The dim of a tensor that is innermost where it lies, or 0. */
static Name innermost(const Strided *s)
{
    Name best = 0;
    int64_t least = INT64_MAX;
    for (int i = 0; i < s->type->rank; i++)
        if (s->type->dims[i].size > 1 && s->stride[i] < least) {
            least = s->stride[i];
            best = s->type->dims[i].name;
        }
    return best;
}

/* Types with the dims of each group together: batch, then the two others of a tensor, of which the
 * one is behind that has the innermost dim of what is copied. So a copy moves runs of elements, and
 * a product takes either order. But fp8 is read along what is summed. */
static void reorder(const Strided s[3], const DimList *over, const bool copy[3], Type out[3])
{
    static const int groups[3][2] = {
        {IN_A | IN_C, IN_A | IN_B}, {IN_B | IN_C, IN_A | IN_B}, {IN_A | IN_C, IN_B | IN_C}};
    const Type t[3] = {*s[0].type, *s[1].type, *s[2].type};
    const Type *like = copy[2] ? &t[0] : &t[2];
    const Type *columns = copy[2] ? &t[1] : &t[2];
    Type sum = {.rank = over->n};
    for (int i = 0; i < over->n; i++)
        sum.dims[i] = t[0].dims[type_find(&t[0], over->dim[i].name)];
    for (int w = 0; w < 3; w++) {
        out[w] = t[w];
        if (!copy[w])
            continue;
        out[w].rank = 0;
        out[w].indexes = 0;
        take(&out[w], like, t, IN_A | IN_B | IN_C);
        const int batch = out[w].rank;
        Type two[2] = {out[w], out[w]};
        for (int first = 0; first < 2; first++)
            for (int k = 0; k < 2; k++) {
                const int g = groups[w][k ^ first];
                take(&two[first],
                     g == (IN_A | IN_B)   ? &sum
                     : g == (IN_B | IN_C) ? columns
                                          : like,
                     t, g);
            }
        const Type *turned = &two[1];
        const bool turns =
            turned->rank > batch && turned->dims[turned->rank - 1].name == innermost(&s[w]);
        out[w] = two[turns && !(w < 2 && dtype_is_fp8(t[w].dtype))];
    }
}

/* The region in which a copy of v is made for an instruction of region r: a scan's operand that is
 * the same in all iterations is copied before it. */
static Region *copied_in(const Module *m, Value v, Region *r, int64_t *iterations)
{
    const Region *home = m->values.data[v].home;
    for (*iterations = 1; r != home && r->owner && r->owner->attrs.scan; r = r->parent)
        *iterations *= r->owner->attrs.dim.size;
    return r;
}

/* Does v begin at a whole word of 16 bytes, as operands of fp8 do? What is not a view of something
 * does. */
static bool begins_whole(const Products *p, Value v)
{
    return view_of(p->m, v).offset * dtype_bytes(type_of(p->m, v)->dtype) % FP8_SIDE == 0;
}

static bool try_choice(const Products *p, const Ins *dot, int which, Choice *c)
{
    Value v[3] = {dot->in[0], dot->in[1], dot->out[0]};
    Strided s[3];
    Product match;
    *c = (Choice){0};
    for (int w = 0; w < 3; w++) {
        c->copy[w] = which >> w & 1;
        s[w] = strided_of(p->m, v[w]);
        int64_t iterations;
        copied_in(p->m, v[w], p->region, &iterations);
        c->bytes += c->copy[w] ? (double)type_bytes(s[w].type) / (double)iterations : 0;
        if (dtype_is_fp8(s[0].type->dtype) && !c->copy[w] && !begins_whole(p, v[w]))
            return false;
    }
    reorder(s, &dot->attrs.over, c->copy, c->type);
    for (int w = 0; w < 3; w++) {
        if (c->copy[w]) {
            s[w].type = &c->type[w];
            strides_dense(s[w].type, s[w].stride);
        }
    }
    return product_match(&s[0], &s[1], &s[2], &dot->attrs.over, &match);
}

/* Copying all three always gives a product. */
static Choice choose(const Products *p, const Ins *dot)
{
    Choice best = {.bytes = -1}, c;
    for (int which = 0; which < 8; which++)
        if (try_choice(p, dot, which, &c) && (best.bytes < 0 || c.bytes < best.bytes))
            best = c;
    return best;
}

/* c is the result's storage only if it lies as the result does. */
static bool in_place(const Products *p, const Ins *dot)
{
    const int c = ins_added(dot);
    return c >= 0 && type_equal(type_of(p->m, dot->in[c]), type_of(p->m, dot->out[0])) &&
           !op_is(p->m->values.data[dot->in[c]].def ? p->m->values.data[dot->in[c]].def->op
                                                    : OP_none,
                  VIEW);
}

static Value copied(Products *p, Value v, Type t)
{
    int64_t iterations;
    Builder b = p->b;
    b.region = copied_in(p->m, v, p->region, &iterations);
    for (size_t k = 0; k < p->turned.n; k++)
        if (p->turned.data[k].of == v && type_equal(type_of(p->m, p->turned.data[k].copy), &t))
            return p->turned.data[k].copy;
    const Value copy = build_typed(&b, OP_copy, NULL, 1, &v, 1, &t, NULL)->out[0];
    if (dtype_is_fp8(t.dtype))
        vec_push(p->tmp, &p->turned, ((Turned){v, copy}));
    return copy;
}

static void place_dot(Products *p, Ins *dot)
{
    Choice c = choose(p, dot);
    const int adds = ins_added(dot);
    bool keep = in_place(p, dot) && !c.copy[2];
    if (!c.copy[0] && !c.copy[1] && !c.copy[2] && (adds < 0 || keep)) {
        vec_push(p->m->arena, &p->region->ins, dot);
        return;
    }
    Type want = *type_of(p->m, dot->out[0]);
    Value in[5] = {0};
    const uint32_t n = dot->nin - (adds >= 0 && !keep);
    for (uint32_t k = 0; k < n; k++)
        in[k] = dot->in[k];
    for (int w = 0; w < 2; w++) /* also of a view whose type is the one wanted: it becomes dense */
        if (c.copy[w])
            in[w] = copied(p, in[w], c.type[w]);
    const bool apart = adds >= 0 && !keep;
    if (apart)
        c.type[2].dtype = dtype_wide(want.dtype);
    Value r = build_typed(&p->b, dot->op, &dot->attrs, (int)n, in, 1, &c.type[2], NULL)->out[0];
    p->m->values.data[r].name = p->m->values.data[dot->out[0]].name;
    r = apart ? sum_apart(&p->b, r, dot->in[adds], &want) : build_as(&p->b, r, want);
    map_set(p->m, &p->map, dot->out[0], r);
}

/* A conv is laid out as other calls are; it adds only where its result lies as what it adds to. */
static void place_conv(Products *p, Ins *conv)
{
    const Value was = conv->out[0], c = conv->nin == 3 ? conv->in[2] : 0;
    const Type want = *type_of(p->m, was);
    if (!c || (in_place(p, conv) && conv_lies(p->m, conv))) {
        fit_call(&p->b, conv, &p->map);
        return;
    }
    conv->nin = 2;
    Type own_type = want;
    own_type.dtype = dtype_wide(want.dtype);
    conv->out[0] = value_new(p->m, p->region, own_type, p->m->values.data[was].name);
    p->m->values.data[conv->out[0]].def = conv;
    const Value own = conv->out[0];
    fit_call(&p->b, conv, &p->map);
    map_set(p->m, &p->map, was, sum_apart(&p->b, map_get(&p->map, own), c, &want));
}

/* ---- the pass ------------------------------------------------------------------------------- */

static void products_in(Module *m, Region *r, Arena *tmp)
{
    spare_copies(m, r, tmp);
    Products p = {
        .m = m, .tmp = tmp, .region = r, .last = last_uses(m, r, tmp), .uses = ir_uses(m, r, tmp)};
    for (size_t i = 0; i < r->ins.n; i++)
        if (r->ins.data[i]->op == OP_add && !r->ins.data[i]->exact)
            accumulate(&p, r->ins.data[i], (int)i);
    for (size_t i = 0; i < r->ins.n; i++)
        accumulate_rounded(&p, r->ins.data[i], (int)i);
    Ins **old = r->ins.data;
    size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t i = 0; i < n; i++) {
        Ins *ins = old[i];
        p.b = (Builder){m, r, ins->span, ins->path, ins->block, ins->backward, ins->again};
        if (is_gone(&p, ins))
            continue;
        if (ins->op == OP_repeat) /* whose copies may be made before it */
            products_in(m, ins->body, tmp);
        if (ins->op == OP_dot || ins->op == OP_dot_scaled)
            place_dot(&p, ins);
        else if (ins->op == OP_conv)
            place_conv(&p, ins);
        else
            fit_call(&p.b, ins, &p.map);
    }
    Value *map = NEW_ARRAY(tmp, Value, m->values.n);
    for (size_t v = 0; v < p.map.n && v < m->values.n; v++)
        map[v] = p.map.data[v];
    ir_replace(r, map);
}

PassStatus pass_products(Job *j)
{
    for (size_t i = 0; i < j->m->fns.n; i++)
        products_in(j->m, j->m->fns.data[i]->body, j->tmp);
    return PASS_ok;
}
