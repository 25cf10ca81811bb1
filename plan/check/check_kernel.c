/* check_kernel.c - does a kernel compute an instruction, and what may it overwrite.
 *
 * Kernels are shared: the body a kernel was made from has to be that of the instruction, up to the
 * names of dims, and its operands the same strides. */
#include "plan/check/check.h"

#include <string.h>

/* ---- equal bodies ---------------------------------------------------------------------------- */

enum { PAIRS = 64 };

typedef struct Pairing {
    const Module *m;
    int ndims;
    Name left[PAIRS], right[PAIRS];
    size_t nvalues;
    Value (*values)[2];
} Pairing;

static bool pair_dim(Pairing *p, Dim a, Dim b)
{
    if (!a.name && !b.name)
        return true;
    for (int i = 0; i < p->ndims; i++)
        if (p->left[i] == a.name || p->right[i] == b.name)
            return p->left[i] == a.name && p->right[i] == b.name && a.size == b.size;
    if (p->ndims == PAIRS || a.size != b.size)
        return false;
    p->left[p->ndims] = a.name;
    p->right[p->ndims++] = b.name;
    return true;
}

/* A window has a dim of one name in two sizes: sizes are compared where they occur. */
static bool pair_types(Pairing *p, const Type *a, const Type *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (!pair_dim(p, a->dims[i], b->dims[i]))
            return false;
    return true;
}

static bool pair_values(Pairing *p, Value a, Value b)
{
    p->values[p->nvalues][0] = a;
    p->values[p->nvalues++][1] = b;
    return pair_types(p, type_of(p->m, a), type_of(p->m, b));
}

static bool paired(const Pairing *p, Value a, Value b)
{
    for (size_t i = 0; i < p->nvalues; i++)
        if (p->values[i][0] == a || p->values[i][1] == b)
            return p->values[i][0] == a && p->values[i][1] == b;
    return false;
}

static bool same_factors(const Factors *a, const Factors *b)
{
    bool same = a->n == b->n;
    for (int k = 0; same && k < a->n; k++)
        same = a->by[k] == b->by[k];
    return same;
}

static bool pair_attrs(Pairing *p, const Ins *a, const Ins *b)
{
    unsigned have = op_info[a->op].attrs;
    const Attrs *x = &a->attrs, *y = &b->attrs;
    if (have & 1u << ATTR_over) {
        if (x->over.n != y->over.n)
            return false;
        for (int i = 0; i < x->over.n; i++)
            if (!pair_dim(p, x->over.dim[i], y->over.dim[i]))
                return false;
    }
    return (!(have & 1u << ATTR_dim) || pair_dim(p, x->dim, y->dim)) &&
           (!(have & 1u << ATTR_to) || pair_dim(p, x->to, y->to)) &&
           (!(have & 1u << ATTR_along) || pair_dim(p, x->along, y->along)) && x->at == y->at &&
           (!(have & 1u << ATTR_factors) || same_factors(&x->factors, &y->factors)) &&
           (!(have & 1u << ATTR_every) || x->every == y->every) &&
           (x->value == y->value || (x->value != x->value && y->value != y->value));
}

static bool pair_ins(Pairing *p, const Ins *a, const Ins *b)
{
    if (a->op != b->op || a->nin != b->nin || a->nout != b->nout || a->exact != b->exact ||
        !pair_attrs(p, a, b))
        return false;
    for (uint32_t k = 0; k < a->nin; k++)
        if (!paired(p, a->in[k], b->in[k]))
            return false;
    for (uint32_t k = 0; k < a->nout; k++)
        if (!pair_values(p, a->out[k], b->out[k]))
            return false;
    return true;
}

static bool same_body(const Module *m, const Region *a, const Region *b)
{
    Pairing p = {.m = m};
    if (a == b)
        return true;
    if (a->args.n != b->args.n || a->ins.n != b->ins.n || a->results.n != b->results.n)
        return false;
    Arena *tmp = arena_new();
    p.values = arena_array(tmp, a->args.n + a->ins.n + 1, sizeof *p.values);
    bool same = true;
    for (size_t i = 0; same && i < a->args.n; i++)
        same = pair_values(&p, a->args.data[i], b->args.data[i]);
    for (size_t i = 0; same && i < a->ins.n; i++)
        same = a->ins.data[i]->nout == 1 && pair_ins(&p, a->ins.data[i], b->ins.data[i]);
    for (size_t i = 0; same && i < a->results.n; i++)
        same = paired(&p, a->results.data[i], b->results.data[i]);
    arena_free(tmp);
    return same;
}

/* The lowest value of a body, and how many there are up to the highest: it uses no others. */
static Value values_of(const Region *body, size_t *n)
{
    Value low = body->results.data[0], high = low;
    for (size_t k = 0; k < body->args.n + body->ins.n; k++) {
        const Value v =
            k < body->args.n ? body->args.data[k] : body->ins.data[k - body->args.n]->out[0];
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    *n = (size_t)(high - low) + 1;
    return low;
}

/* Does a body of rows need the number of a row at another one? Only its own is there when a row is
 * computed. An op that moves indices along a dim of the rows lies between the reduction and what
 * needs it. */
static bool needs_another_row(const Region *body)
{
    size_t n;
    const Value low = values_of(body, &n);
    DimList reduced = {0};
    Arena *tmp = arena_new();
    bool *of_row = NEW_ARRAY(tmp, bool, n), any = false;
    for (size_t k = 0; k < body->ins.n; k++) {
        const Ins *i = body->ins.data[k];
        for (int d = 0; OP_AMONG(i->op, OP_sum, OP_rmax) && d < i->attrs.over.n; d++)
            if (!dims_have(&reduced, i->attrs.over.dim[d].name) && reduced.n < MAX_RANK)
                reduced.dim[reduced.n++] = i->attrs.over.dim[d];
    }
    for (size_t k = 0; k < body->ins.n && !any; k++) {
        const Ins *i = body->ins.data[k];
        bool here = false;
        for (uint32_t x = 0; x < i->nin; x++)
            here |= of_row[i->in[x] - low];
        const Name moved = i->op == OP_window ? i->attrs.along.name : i->attrs.dim.name;
        any = here && OP_AMONG(i->op, OP_rotate, OP_reindex, OP_pick, OP_window) &&
              !dims_have(&reduced, moved);
        of_row[i->out[0] - low] = here || OP_AMONG(i->op, OP_sum, OP_rmax);
    }
    arena_free(tmp);
    return any;
}

const char *kernel_wrong(const Module *m, const Kernel *k, const Ins *i)
{
    if (!k->ins || k->ins->op != OP_fused)
        return "the kernel was made from no fused instruction";
    if (k->ins->attrs.kind != i->attrs.kind || !same_body(m, k->ins->body, i->body))
        return "the kernel has another body than the instruction";
    bool col = strcmp(name_str(m->names, i->attrs.kind), "col") == 0;
    if (k->phase != PHASE_whole && (!col || k->chunks < 1))
        return "only sums over columns have phases, of at least one chunk";
    if (strcmp(name_str(m->names, i->attrs.kind), "row") == 0 && needs_another_row(i->body))
        return "a row needs another row's number";
    return NULL;
}

/* ---- in place -------------------------------------------------------------------------------- */

static DimList dims_iterated(const Module *m, const Ins *i)
{
    DimList all = {0};
    for (size_t k = 0; k < i->body->ins.n; k++) {
        const Ins *in = i->body->ins.data[k];
        for (uint32_t n = 0; n <= in->nin; n++) {
            const Type *t = type_of(m, n < in->nin ? in->in[n] : in->out[0]);
            for (int d = 0; d < t->rank; d++)
                if (!dims_have(&all, t->dims[d].name) && all.n < MAX_RANK)
                    all.dim[all.n++] = t->dims[d];
        }
    }
    return all;
}

/* Does any result depend on input k at other indices than its own? An op that moves indices lies in
 * between then. What a reduction gives has been read before anything is written. Each instruction
 * is looked at once: a chain of values that are read twice has no end of ways through it. */
static bool moves(const Ins *i, uint32_t k)
{
    enum { NOT, HERE, MOVED }; /* how a value depends on it */
    const Region *body = i->body;
    size_t n;
    const Value low = values_of(body, &n);
    Arena *tmp = arena_new();
    uint8_t *depends = NEW_ARRAY(tmp, uint8_t, n);
    bool any = false;
    depends[body->args.data[k] - low] = HERE;
    for (size_t j = 0; j < body->ins.n; j++) {
        const Ins *in = body->ins.data[j];
        uint8_t *out = &depends[in->out[0] - low];
        if (in->op == OP_sum || in->op == OP_rmax)
            continue;
        for (uint32_t x = 0; x < in->nin; x++)
            *out = depends[in->in[x] - low] > *out ? depends[in->in[x] - low] : *out;
        if (*out && (OP_AMONG(in->op, OP_rotate, OP_reindex) || op_is(in->op, VIEW)))
            *out = MOVED;
    }
    for (size_t j = 0; j < body->results.n; j++)
        any |= depends[body->results.data[j] - low] == MOVED;
    arena_free(tmp);
    return any;
}

bool kernel_by_elements(const Module *m, const Ins *i, uint32_t k)
{
    const DimList all = dims_iterated(m, i);
    const Type *in = type_of(m, i->in[k]);
    if (strcmp(name_str(m->names, i->attrs.kind), "map") != 0 || in->rank != all.n)
        return false;
    for (uint32_t n = 0; n < i->nout; n++)
        if (type_of(m, i->out[n])->rank != all.n)
            return false;
    return !moves(i, k);
}

bool kernel_in_place(const Module *m, const Ins *i, uint32_t j, uint32_t k)
{
    const char *kind = name_str(m->names, i->attrs.kind);
    const Type *in = type_of(m, i->in[k]), *out = type_of(m, i->out[j]);
    DimList all = dims_iterated(m, i);
    if (strcmp(kind, "col") == 0 || !type_equal(in, out))
        return false;
    /* One element belongs to one step of the kernel; in a row, one number belongs to one row. */
    bool whole = true, rows = strcmp(kind, "row") == 0;
    for (int d = 0; d < all.n; d++)
        if (all.dim[d].size > 1 && type_find(out, all.dim[d].name) < 0)
            whole = false;
    if (!whole && !rows)
        return false;
    if (!whole) /* stored after the last walk over the row */
        for (size_t n = 0; n < i->body->ins.n; n++) {
            const Ins *in_body = i->body->ins.data[n];
            bool reduces = in_body->op == OP_sum || in_body->op == OP_rmax;
            for (int d = 0; reduces && d < in_body->attrs.over.n; d++)
                if (type_find(out, in_body->attrs.over.dim[d].name) >= 0)
                    return false;
        }
    return !moves(i, k);
}
