/* schedule_kernel.c - fused instructions: kernels, shared where they are equal, and how column sums
 * are cut for many threads. */
#include "plan/schedule/schedule.h"
#include "ir/level.h"
#include "passes/view.h"
#include "passes/walk.h"
#include "plan/host_price.h"
#include "plan/nest.h"

#include <stdlib.h>
#include <string.h>

enum {
    MANY_UNITS = 16,        /* a kernel with so many units needs no partial sums */
    CHUNK_ELEMENTS = 16384, /* what a chunk of a partial sum should read */
    ORDERED_TERMS = 2048,   /* ... of one in order should sum */
    MAX_CHUNKS = 32,
    /* On a GPU: blocks that keep any busy, kept elements of a block, and terms of a chunk: what the
     * 256 threads of a block sum, some each. */
    BUSY_BLOCKS = 1024,
    BLOCK_KEPT = 128,
    BLOCK_TERMS = 4096
};

/* ---- equal kernels --------------------------------------------------------------------------- */

/* A kernel as a row of numbers in which dims and values count in order of appearance: two kernels
 * with one row compute the same from the same strides, wherever they come from. */
typedef struct Shape {
    Sched *s; /* s->row has what is written so far */
    Name dim[64];
    int ndims;
    uint32_t *number; /* per value */
    uint32_t next;
} Shape;

/* Six bits a byte, and a seventh that is always set: no byte is zero, as names want it. */
static void shape_number(Shape *h, uint64_t n)
{
    enum { DIGIT = 63, SET = 64, MORE = 128 };
    for (; n > DIGIT; n >>= 6)
        vec_push(h->s->tmp, &h->s->row, (char)(MORE | SET | (n & DIGIT)));
    vec_push(h->s->tmp, &h->s->row, (char)(SET | n));
}

static void shape_dim(Shape *h, Dim d)
{
    int k = 0;
    while (k < h->ndims && h->dim[k] != d.name)
        k++;
    if (k == h->ndims && k < 64)
        h->dim[h->ndims++] = d.name;
    shape_number(h, (uint64_t)k);
    shape_number(h, (uint64_t)d.size);
}

static void shape_type(Shape *h, const Type *t)
{
    shape_number(h, t->dtype);
    shape_number(h, (uint64_t)t->rank);
    for (int i = 0; i < t->rank; i++)
        shape_dim(h, t->dims[i]);
}

static void shape_DIM(Shape *h, Dim d)
{
    shape_dim(h, d);
}
static void shape_OTHER(Shape *h, Dim d)
{
    shape_dim(h, d);
}
static void shape_DIMS(Shape *h, DimList l)
{
    shape_number(h, (uint64_t)l.n);
    for (int k = 0; k < l.n; k++)
        shape_dim(h, l.dim[k]);
}
static void shape_FACTORS(Shape *h, Factors f)
{
    shape_number(h, (uint64_t)f.n);
    for (int k = 0; k < f.n; k++)
        shape_number(h, (uint64_t)f.by[k]);
}
static void shape_TAPS(Shape *h, const Taps *t)
{
    shape_number(h, (uint64_t)t->n);
    for (int k = 0; k < t->n; k++)
        shape_dim(h, t->tap[k].dim);
}
static void shape_INT(Shape *h, int64_t n)
{
    shape_number(h, (uint64_t)n);
}
static void shape_COUNT(Shape *h, int64_t n)
{
    shape_INT(h, n);
}
static void shape_REAL(Shape *h, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    shape_number(h, bits);
}
static void shape_SHARE(Shape *h, double x)
{
    shape_REAL(h, x);
}
static void shape_FLAG(Shape *h, bool set)
{
    shape_INT(h, set);
}
static void shape_MARK(Shape *h, bool set)
{
    shape_INT(h, set);
}
static void shape_NAME(Shape *h, Name n)
{
    shape_INT(h, n);
}
static void shape_AXES(Shape *h, Axes axes)
{
    shape_INT(h, axes);
}

/* All that the op has: an attribute that is left out would make two kernels one. But `whole` is of
 * the mesh. */
static void shape_attrs(Shape *h, const Ins *i)
{
#define ATTR(name, kind)                                                                           \
    if (ATTR_##name != ATTR_whole && op_info[i->op].attrs >> ATTR_##name & 1)                      \
        shape_##kind(h, i->attrs.name);
#include "ir/attrs.def"
    shape_number(h, i->exact);
}

static void shape_body(Shape *h, const Region *b)
{
    const Module *m = h->s->m;
    for (size_t k = 0; k < b->args.n; k++)
        h->number[b->args.data[k]] = h->next++;
    for (size_t k = 0; k < b->ins.n; k++) {
        const Ins *i = b->ins.data[k];
        shape_number(h, i->op);
        shape_number(h, i->nin);
        for (uint32_t n = 0; n < i->nin; n++)
            shape_number(h, h->number[i->in[n]]);
        shape_attrs(h, i);
        shape_type(h, type_of(m, i->out[0]));
        h->number[i->out[0]] = h->next++;
    }
    shape_number(h, OP_none);
    for (size_t k = 0; k < b->results.n; k++)
        shape_number(h, h->number[b->results.data[k]]);
}

static Name shape_of(Sched *s, const Kernel *k)
{
    Shape h = {.s = s, .number = s->number};
    s->row.n = 0;
    shape_number(&h, k->ins->attrs.kind);
    shape_number(&h, k->phase);
    shape_number(&h, k->level);
    shape_number(&h, (uint64_t)k->chunks);
    shape_number(&h, (uint64_t)k->columns);
    shape_number(&h, (uint64_t)k->noperands);
    for (int i = 0; i < k->noperands; i++) {
        shape_number(&h, (uint64_t)(k->alias[i] + 1));
        shape_type(&h, &k->operand[i].type);
        for (int n = 0; n < k->operand[i].type.rank; n++)
            shape_number(&h, (uint64_t)k->operand[i].stride[n]);
    }
    shape_body(&h, k->ins->body);
    return name_intern_n(s->m->names, s->row.data, s->row.n);
}

/* The kernel equal to k, added if there is none. */
static uint32_t kernel_number(Sched *s, Kernel *k)
{
    const Name shape = shape_of(s, k);
    for (size_t i = 0; i < s->p->kernels.n; i++)
        if (s->shapes.data[i] == shape)
            return (uint32_t)i;
    kernel_nest(s->m, k);
    k->name = kernel_name(s, k);
    vec_push(s->m->arena, &s->p->kernels, *k);
    vec_push(s->tmp, &s->shapes, shape);
    return (uint32_t)s->p->kernels.n - 1;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static Kernel kernel_of(Sched *s, const Ins *i)
{
    Kernel k = {.ins = i, .level = fused_level(s->m, i), .nin = (int)i->nin, .nout = (int)i->nout};
    if (i->nin + i->nout > MAX_OPERANDS)
        sched_bug(s, i, "a kernel with too many operands");
    for (uint32_t n = 0; n < i->nin; n++)
        k.operand[k.noperands++] = operand_of(s, i->in[n], true, false);
    for (uint32_t n = 0; n < i->nout; n++)
        k.operand[k.noperands++] = operand_of(s, i->out[n], false, true);
    memset(k.alias, -1, sizeof k.alias);
    for (int o = k.nin; o < k.noperands; o++)
        for (int n = 0; n < k.nin; n++) {
            Loc a = {.known = true, .at = k.operand[o].at},
                b = {.known = true, .at = k.operand[n].at};
            memcpy(a.stride, k.operand[o].stride, sizeof a.stride);
            memcpy(b.stride, k.operand[n].stride, sizeof b.stride);
            if (loc_equal(&a, &b, &k.operand[o].type))
                k.alias[o] = (int8_t)n;
        }
    return k;
}

/* Elements of argument n that a body reads: those that its views of it have, where it has only
 * those. */
static double elements_read(const Module *m, const Region *body, size_t n)
{
    const double all = (double)type_elements(type_of(m, body->args.data[n]));
    double read = 0;
    for (size_t k = 0; k < body->ins.n; k++) {
        const Ins *i = body->ins.data[k];
        for (uint32_t o = 0; o < i->nin; o++)
            if (i->in[o] == body->args.data[n])
                read += OP_AMONG(i->op, OP_pick, OP_window, OP_reindex)
                            ? (double)type_elements(type_of(m, i->out[0]))
                            : all;
    }
    for (size_t k = 0; k < body->results.n; k++)
        read += body->results.data[k] == body->args.data[n] ? all : 0;
    return read < all ? read : all;
}

static double moved(const Module *m, const Kernel *k)
{
    const Region *body = k->ins->body;
    double bytes = 0;
    for (int n = 0; n < k->noperands; n++) {
        bool argument = k->phase != PHASE_combine && n < k->nin && (size_t)n < body->args.n;
        const Type *t = &k->operand[n].type;
        bytes += argument ? elements_read(m, body, (size_t)n) * dtype_bytes(t->dtype)
                          : (double)type_bytes(t);
    }
    return bytes;
}

/* Bytes of turned operands take about 2.2 times as long as others: measured on an EPYC with
 * AVX-512.
 */
static double across(const Sched *s, const Kernel *k)
{
    return s->p->device->target == TARGET_host ? 1.2 * kernel_turns(s->m, k) : 0;
}

/* A sum of partial sums is additions alone. */
static double operations(const Sched *s, const Kernel *k, double flops)
{
    return s->p->device->target != TARGET_host || k->phase == PHASE_combine
               ? flops
               : host_operations(s->m, k->ins);
}

static void launch(Sched *s, Kernel *k, double flops)
{
    const Cost cost = {.flops = flops,
                       .bytes = moved(s->m, k),
                       .across = across(s, k),
                       .operations = operations(s, k, flops)};
    Action *product = k->phase == PHASE_whole && !k->level ? goes_on_with(s, k) : NULL;
    const uint32_t number = kernel_number(s, k);
    if (product) {
        go_on(s, product, k, number, cost);
        return;
    }
    Action *a = action_new(s, ACT_kernel, k->ins, k->noperands, k->operand);
    a->kernel = number;
    if (k->level)
        price_on_host(s, a, cost);
    else
        price(s, a, cost);
}

static bool sums_in_order(const Ins *fused)
{
    for (size_t k = 0; k < fused->body->ins.n; k++)
        if (fused->body->ins.data[k]->op == OP_sum && fused->body->ins.data[k]->exact)
            return true;
    return false;
}

/* The same on a GPU, which needs many more chunks, and any size of what is kept or summed: of sizes
 * of an iteration, so that a deeper model is the same program. */
static int64_t chunks_on_gpu(int64_t kept, int64_t read)
{
    const int64_t reduced = kept ? read / kept : 1, across = kept < BLOCK_KEPT ? kept : BLOCK_KEPT;
    const int64_t most = BUSY_BLOCKS / ((kept + BLOCK_KEPT - 1) / BLOCK_KEPT);
    const int64_t chunks = reduced * across / BLOCK_TERMS;
    return chunks > most ? most : chunks;
}

/* How many chunks a column sum is cut into: by its size alone, so that no thread count shows; and
 * whether at all, by its size without the depth of the model. */
static int64_t chunks_of(Sched *s, const Kernel *k)
{
    DimList depth = depth_dims(s->m);
    int64_t max = 0, per_iteration = 0, kept = type_elements(&k->operand[k->nin].type);
    for (int n = 0; n < k->nin; n++) {
        int64_t e = type_elements(&k->operand[n].type);
        int64_t r = elements_per_iteration(&k->operand[n].type, &depth);
        max = e > max ? e : max;
        per_iteration = r > per_iteration ? r : per_iteration;
    }
    int64_t reduced = kept ? max / kept : 1, chunks = max / CHUNK_ELEMENTS;
    if (sums_in_order(
            k->ins)) { /* by what is summed alone: of what is kept a rank may have a part */
        chunks = reduced / ORDERED_TERMS;
        return chunks < 1 ? 1 : chunks > MAX_CHUNKS ? MAX_CHUNKS : chunks;
    }
    if (s->p->device->target == TARGET_cuda)
        return chunks_on_gpu(elements_per_iteration(&k->operand[k->nin].type, &depth),
                             per_iteration);
    Kernel whole = *k;
    kernel_nest(s->m, &whole);
    if (whole.units >= MANY_UNITS || per_iteration < 2 * CHUNK_ELEMENTS || reduced < 2)
        return 1;
    chunks = chunks > MAX_CHUNKS ? MAX_CHUNKS : chunks;
    return chunks > reduced ? reduced : chunks;
}

static void call_partial(Sched *s, const Kernel *whole, int64_t chunks, double flops, int home)
{
    Kernel part = *whole, sum = *whole;
    part.phase = PHASE_partial;
    sum.phase = PHASE_combine;
    part.chunks = sum.chunks = chunks;
    memset(part.alias, -1, sizeof part.alias);
    memset(sum.alias, -1, sizeof sum.alias);
    for (int o = 0; o < whole->nout; o++) {
        const Operand *to = &whole->operand[whole->nin + o];
        Operand w = {
            .type = type_stacked(&to->type,
                                 (Dim){.name = name_intern(s->m->names, "chunk"), .size = chunks})};
        w.at.buffer = buffer_new(s, "partial", OWN_workspace, type_bytes(&w.type), home, 0);
        strides_dense(&w.type, w.stride);
        w.write = true;
        part.operand[whole->nin + o] = w;
        w.write = false;
        w.read = true;
        sum.operand[o] = w;
        sum.operand[whole->nout + o] = *to;
    }
    sum.nin = whole->nout;
    sum.noperands = 2 * whole->nout;
    launch(s, &part, flops);
    launch(s, &sum, moved(s->m, &sum) / 4);
}

/* Nothing but zeros, one behind the other: no kernel is made for that. */
static bool is_zero(const Sched *s, const Ins *i)
{
    const Type *t = type_of(s->m, i->out[0]);
    if (i->nin || i->nout != 1 || type_elements(t) == 1 ||
        !strides_are_dense(t, loc_of(s, i->out[0])->stride))
        return false;
    for (size_t k = 0; k < i->body->ins.n; k++) {
        const Ins *b = i->body->ins.data[k];
        if (b->op != OP_copy && b->op != OP_cast && (b->op != OP_const || b->attrs.value != 0))
            return false;
    }
    return true;
}

static void call_zero(Sched *s, const Ins *i)
{
    Operand op = operand_of(s, i->out[0], false, true);
    Action *a = action_new(s, ACT_zero, i, 1, &op);
    a->bytes = type_bytes(&op.type);
    price(s, a, (Cost){.bytes = (double)a->bytes});
}

void call_kernel(Sched *s, const Ins *i, int home)
{
    if (is_zero(s, i)) {
        call_zero(s, i);
        return;
    }
    Kernel k = kernel_of(s, i);
    double flops = ir_cost(s->m, i).flops;
    int64_t chunks = 1;
    if (strcmp(name_str(s->m->names, i->attrs.kind), "col") == 0)
        chunks = chunks_of(s, &k);
    if (chunks > 1)
        call_partial(s, &k, chunks, flops, home);
    else
        launch(s, &k, flops);
}
