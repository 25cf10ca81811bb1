/* run_kernel.c - a generated kernel on memory, in the interpreter; see run_plan.h. */
#include "tests/plan/run_plan.h"

#include <string.h>

int64_t strided_element(const Operand *o, int64_t e)
{
    int64_t at = 0;
    for (int i = o->type.rank - 1; i >= 0; i--) {
        at += e % o->type.dims[i].size * o->stride[i];
        e /= o->type.dims[i].size;
    }
    return at;
}

static Tensor64 load(const void *from, const Operand *o, const Type *as, Arena *a)
{
    Tensor64 t = {.type = *as};
    int64_t n = type_elements(as);
    t.data = NEW_ARRAY(a, double, n);
    for (int64_t e = 0; e < n; e++)
        t.data[e] = number_at(from, o->type.dtype, strided_element(o, e));
    return t;
}

static void store(void *to, const Operand *o, const double *x)
{
    int64_t n = type_elements(&o->type);
    for (int64_t e = 0; e < n; e++)
        number_put(to, o->type.dtype, strided_element(o, e), x[e]);
}

/* Sums partial[chunks, kept] over the chunks. */
static void combine(const Action *act, const Kernel *k, void *const *at, Arena *a)
{
    int n = (int)k->ins->nout;
    for (int j = 0; j < n; j++) {
        const Operand *from = &act->operand[j], *to = &act->operand[n + j];
        Tensor64 part = load(at[j], from, &from->type, a);
        int64_t kept = type_elements(&to->type);
        double *sum = NEW_ARRAY(a, double, kept);
        for (int64_t c = 0; c < k->chunks; c++)
            for (int64_t e = 0; e < kept; e++)
                sum[e] += part.data[c * kept + e];
        store(at[n + j], to, sum);
    }
}

/* How a sum is shared out to its chunks is the kernel's affair; here the first gets it all. */
static void store_partial(void *to, const Operand *o, const Tensor64 *x, Arena *a)
{
    double *part = NEW_ARRAY(a, double, type_elements(&o->type));
    memcpy(part, x->data, (size_t)type_elements(&x->type) * sizeof *part);
    store(to, o, part);
}

void interpret_kernel(const Plan *p, const Action *act, void *const *at)
{
    interpret_kernel_shaken(p, act, at, 0);
}

void interpret_kernel_shaken(const Plan *p, const Action *act, void *const *at, uint64_t seed)
{
    const Kernel *k = &p->kernels.data[act->kernel];
    const Region *body = k->ins->body;
    Arena *a = arena_new();
    if (k->phase == PHASE_combine) {
        combine(act, k, at, a);
        arena_free(a);
        return;
    }
    Fn fn = {.body = k->ins->body};
    Tensor64 *in = NEW_ARRAY(a, Tensor64, body->args.n);
    Tensor64 *out = NEW_ARRAY(a, Tensor64, body->results.n);
    for (size_t i = 0; i < body->args.n; i++)
        in[i] = load(at[i], &act->operand[i], type_of(p->module, body->args.data[i]), a);
    if (seed)
        ir_interpret_shaken(p->module, &fn, in, out, a, seed);
    else
        ir_interpret(p->module, &fn, in, out, a, false);
    for (size_t i = 0; i < body->results.n; i++) {
        size_t j = body->args.n + i;
        if (k->phase == PHASE_partial)
            store_partial(at[j], &act->operand[j], &out[i], a);
        else
            store(at[j], &act->operand[j], out[i].data);
    }
    arena_free(a);
}
