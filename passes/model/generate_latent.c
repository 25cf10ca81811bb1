/* generate_latent.c - attention whose heads' keys and values are products of one vector z for each
 * position (latent attention) keeps that vector, not what it is multiplied to. See generate.h.
 *
 *   k[t, h, d] = sum_r z[t, r] wk[r, h, d], for some d; for others u[t, d], which all heads share
 *   v[t, h, c] = sum_r z[t, r] wv[r, h, c]
 *
 * Products are associative:
 *
 *   q[h] . k[t, h]                = (sum_d wk[r, h, d] q[h, d]) . z[t] + q[h] . u[t]
 *   sum_t p[h, t] v[t, h]         = (sum_t p[h, t] z[t]) wv[h]
 *
 * so all heads attend to the row (z, u) of a position, whose first part is its value, and what they
 * get is multiplied by wv. Per new position the products with wk and wv cost what those that make k
 * and v did; per pair of positions more is multiplied, and less is read. */
#include "passes/model/generate.h"
#include "passes/walk.h"

/* Multiplications and additions that a device at least does while it reads a byte. */
static const double FLOPS_A_BYTE = 5;

/* ---- what a head is put together of -----------------------------------------------------------
 */

static bool is_sequence(const Generate *g, Name d)
{
    return d == g->seq || generate_is_alias(g, d);
}

/* Is it the same for all positions, and texts? */
static bool is_weight(const Generate *g, const Type *t)
{
    for (int k = 0; k < t->rank; k++)
        if (is_sequence(g, t->dims[k].name) || t->dims[k].name == g->batch.name)
            return false;
    return true;
}

static void add(LatentParts *p, LatentPart part)
{
    if (p->n == LATENT_PARTS)
        p->many = true;
    else
        p->part[p->n++] = part;
}

/* i is a product of a vector of each position and of a weight that has the dim. */
static bool is_product(const Generate *g, const Ins *i, Name d, LatentPart *part)
{
    if (i->op != OP_dot || i->nin != 2 || i->attrs.over.n != 1)
        return false;
    for (int k = 0; k < 2; k++)
        if (type_find(type_of(g->m, i->in[k]), d) >= 0 && is_weight(g, type_of(g->m, i->in[k]))) {
            part->weight = i->in[k];
            part->x = i->in[1 - k];
            part->over = i->attrs.over.dim[0];
            return true;
        }
    return false;
}

/* select of index(d) < n: n; 0: it is another one. */
static int64_t cut_at(const Generate *g, const Ins *i, Name d)
{
    const Ins *less = g->m->values.data[i->in[0]].def;
    const Ins *index = less && less->op == OP_lt ? g->m->values.data[less->in[0]].def : NULL;
    double n = 0;
    if (!index || index->op != OP_iota || index->attrs.dim.name != d ||
        !value_is_const(g->m, less->in[1], &n))
        return 0;
    return (int64_t)n;
}

/* Elements from `part.from` on of v along part.dim are part of a head: finds what they are. */
static void take_apart(const Generate *g, Value v, LatentPart part, LatentParts *out)
{
    const Ins *i = g->m->values.data[v].def;
    const Attrs *a = i ? &i->attrs : NULL;
    if (i && i->op == OP_window && a->along.name == part.dim) {
        part.from += a->at;
        take_apart(g, i->in[0], part, out);
    } else if (i && i->op == OP_rename && a->to.name == part.dim) {
        part.dim = a->dim.name;
        take_apart(g, i->in[0], part, out);
    } else if (i && i->op == OP_copy && type_find(type_of(g->m, i->in[0]), part.dim) >= 0) {
        take_apart(g, i->in[0], part, out);
    } else if (i && i->op == OP_reindex && a->over.n == 1 && a->over.dim[0].name == part.dim &&
               a->factors.by[0] == 1 && a->every == 1 && part.from + a->at >= 0 &&
               part.from + part.size + a->at <= a->dim.size) {
        part.from += a->at;
        part.dim = a->dim.name;
        take_apart(g, i->in[0], part, out);
    } else if (i && i->op == OP_select && cut_at(g, i, part.dim) > 0) {
        const int64_t cut = cut_at(g, i, part.dim) - part.from;
        LatentPart first = part, second = part;
        first.size = cut < part.size ? cut : part.size;
        if (first.size > 0)
            take_apart(g, i->in[1], first, out);
        else
            first.size = 0;
        second.at += first.size;
        second.from += first.size;
        second.size -= first.size;
        if (second.size > 0)
            take_apart(g, i->in[2], second, out);
    } else {
        if (!i || !is_product(g, i, part.dim, &part))
            part.x = v;
        add(out, part);
    }
}

/* ---- whether it is better ---------------------------------------------------------------------
 */

/* Columns of the row: of each vector that keys and values are made of. */
static LatentPart *column_of(Latent *l, const LatentPart *p)
{
    LatentPart want = {.x = p->x, .dim = p->dim, .from = p->from, .size = p->size};
    if (p->weight) {
        want.dim = p->over.name;
        want.from = 0;
        want.size = p->over.size;
    }
    for (int k = 0; k < l->row.n; k++) {
        LatentPart *c = &l->row.part[k];
        if (c->x == want.x && c->dim == want.dim && c->from == want.from && c->size == want.size)
            return c;
    }
    want.at = l->size;
    add(&l->row, want);
    l->size += want.size;
    return &l->row.part[l->row.n - 1];
}

/* Has t dims beside the texts, the sequence and `own`? */
static bool has_heads(const Generate *g, const Type *t, Name own)
{
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].name != own && t->dims[k].name != g->batch.name &&
            !is_sequence(g, t->dims[k].name))
            return true;
    return false;
}

static double elements(const Generate *g, const Type *t)
{
    double n = 1;
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].name != g->batch.name && !is_sequence(g, t->dims[k].name))
            n *= (double)t->dims[k].size;
    return n;
}

/* Of a pair of positions: the time in which a byte is read, for what is read of the cache or what
 * is multiplied, whichever is longer. */
static double price(double bytes, double multiplied)
{
    const double arithmetic = 2 * multiplied / FLOPS_A_BYTE;
    return bytes > arithmetic ? bytes : arithmetic;
}

static bool is_better(const Generate *g, const Ins *i, const Latent *l)
{
    const Module *m = g->m;
    const double each = m->train.half ? 2 : m->train.compute == DT_f64 ? 8 : 4;
    const double heads = elements(g, type_of(m, i->in[0])) / (double)i->attrs.over.dim[0].size;
    const double kept = elements(g, type_of(m, i->in[1])) + elements(g, type_of(m, i->in[2]));
    const double head = (double)(i->attrs.over.dim[0].size + l->v.part[0].size);
    const double row = (double)l->size, value = (double)l->v.part[0].over.size;
    return row < kept &&
           price(row * each, heads * (row + value)) <= price(kept * each, heads * head);
}

bool generate_is_latent(const Generate *g, const Ins *i, Latent *l)
{
    const Module *m = g->m;
    const DimList values =
        attention_value_head(&i->attrs, type_of(m, i->in[1]), type_of(m, i->in[2]));
    *l = (Latent){0};
    if (i->attrs.biased || i->attrs.over.n != 1 || values.n != 1)
        return false;
    const Dim key = i->attrs.over.dim[0], value = values.dim[0];
    take_apart(g, i->in[2], (LatentPart){.dim = value.name, .size = value.size}, &l->v);
    take_apart(g, i->in[1], (LatentPart){.dim = key.name, .size = key.size}, &l->k);
    if (l->v.many || l->k.many || l->v.n != 1 || !l->v.part[0].weight)
        return false;
    const LatentPart *first = column_of(l, &l->v.part[0]);
    bool scored = false;
    for (int k = 0; k < l->k.n; k++)
        scored |= column_of(l, &l->k.part[k]) == first;
    for (int k = 0; k < l->row.n; k++)
        if (has_heads(g, type_of(m, l->row.part[k].x), l->row.part[k].dim) ||
            type_find(type_of(m, l->row.part[k].x), l->row.part[k].dim) < 0)
            return false;
    return scored && !l->row.many && is_better(g, i, l);
}

/* ---- images ---------------------------------------------------------------------------------- */

static Dim own_dim(Generate *g, const Ins *i, const char *what, int64_t size)
{
    const char *head = name_str(g->m->names, i->attrs.over.dim[0].name);
    return (Dim){.name = name_intern(g->m->names, arena_printf(g->m->arena, "%s.%s", head, what)),
                 .size = size};
}

/* The elements [from, from + to.size) of x along d, as the dim `to`. */
static Value slice(Builder *b, Value x, Name d, int64_t from, Dim to)
{
    const Type *t = type_of(b->m, x);
    const Dim part = {.name = d, .size = to.size};
    if (t->dims[type_find(t, d)].size != to.size)
        x = build(b, OP_window, &(Attrs){.along = part, .at = from}, 1, &x);
    return d == to.name ? x : build(b, OP_rename, &(Attrs){.dim = part, .to = to}, 1, &x);
}

static Value joined(Builder *b, Dim row, int n, const Value *part)
{
    return n == 1 ? part[0] : build(b, OP_join, &(Attrs){.dim = row}, n, part);
}

/* x times the part of a weight that a part of a head is the product with, over `shared`, one of
 * both dims of the weight; the other becomes `to`. */
static Value times(Builder *b, Value x, Value w, const LatentPart *p, Dim shared, Dim to, bool back)
{
    const Dim head = back ? to : shared, latent = back ? shared : to;
    w = slice(b, w, p->dim, p->from, head);
    w = build(b, OP_rename, &(Attrs){.dim = p->over, .to = latent}, 1, &w);
    return build_dot(b, x, w, &(DimList){1, {shared}});
}

/* The part of a query for a column of the row, of which some part of a key is; 0: refused. */
static Value query_of(Generate *g, Frame *f, const Ins *i, Latent *l, const LatentPart *c, Value q)
{
    Builder b = builder_at(g->m, f->to, i);
    const Dim to = own_dim(g, i, "row", c->size);
    const Name head = i->attrs.over.dim[0].name;
    Value sum = 0;
    for (int k = 0; k < l->k.n; k++) {
        const LatentPart *p = &l->k.part[k];
        if (column_of(l, p) != c)
            continue;
        const Dim part = own_dim(g, i, "part", p->size);
        Value x = slice(&b, q, head, p->at, p->weight ? part : to);
        if (p->weight) {
            const Value w = generate_image(g, f, p->weight, NEAR);
            if (!w)
                return 0;
            x = times(&b, x, w, p, part, to, false);
        }
        sum = sum ? build2(&b, OP_add, sum, x) : x;
    }
    Type t = *type_of(g->m, q);
    t.dims[type_find(&t, head)] = to;
    return build_as(&b, sum, t);
}

bool generate_latent(Generate *g, Frame *f, const Ins *i, Latent *l, Value *q, Value *row)
{
    Builder b = builder_at(g->m, f->to, i);
    Value of_q[LATENT_PARTS], of_row[LATENT_PARTS];
    *q = generate_image(g, f, i->in[0], NEAR);
    if (!*q)
        return false;
    *q = generate_each(g, &b, *q);
    for (int k = 0; k < l->row.n; k++) {
        const LatentPart *c = &l->row.part[k];
        const Dim to = own_dim(g, i, "row", c->size);
        const Type t = {.dtype = type_of(g->m, *q)->dtype,
                        .rank = 3,
                        .dims = {g->batch, {.name = g->seq, .size = g->n}, to}};
        const Value x = generate_image(g, f, c->x, NEAR);
        of_q[k] = x ? query_of(g, f, i, l, c, *q) : 0;
        if (!of_q[k])
            return false;
        of_row[k] = build_as(&b, generate_each(g, &b, slice(&b, x, c->dim, c->from, to)), t);
    }
    l->over = own_dim(g, i, "row", l->size);
    *q = joined(&b, l->over, l->row.n, of_q);
    *row = joined(&b, l->over, l->row.n, of_row);
    return true;
}

Value generate_latent_values(Generate *g, Builder *b, const Ins *i, const Latent *l, Value rows)
{
    return slice(b, rows, l->over.name, 0, own_dim(g, i, "value", l->v.part[0].over.size));
}

Value generate_latent_out(Generate *g, Frame *f, const Ins *i, const Latent *l, Value o)
{
    Builder b = builder_at(g->m, f->to, i);
    const LatentPart *p = &l->v.part[0];
    const Value w = generate_image(g, f, p->weight, NEAR);
    const DimList head =
        attention_value_head(&i->attrs, type_of(g->m, i->in[1]), type_of(g->m, i->in[2]));
    const Dim from = own_dim(g, i, "value", p->over.size);
    return w ? times(&b, o, w, p, from, head.dim[0], true) : 0;
}
