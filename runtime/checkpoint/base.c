/* base.c - see base.h. The kinds are base_nf4.c and base_int8.c. */
#include "runtime/checkpoint/base.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/base_kinds.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/number.h"

struct rt_base {
    const rt_base_kind *kind;
    mg_run *r;
    const rt_external *x;
    char **stored;
    void *of; /* the kind's */
};

/* NULL: no codes. */
static const rt_base_kind *kind_of(const rt_external *x)
{
    const mg_base part = x->form->tensor->coded;
    return part == MG_BASE_CODES ? &rt_base_nf4 : part == MG_BASE_BYTES ? &rt_base_int8 : NULL;
}

bool rt_base_beside(const rt_external *x)
{
    return x->form->tensor->coded && !kind_of(x);
}

int rt_base_each(const rt_external *x)
{
    const rt_base_kind *kind = kind_of(x);
    return kind ? kind->each : 1;
}

mg_dtype rt_file_dtype(const rt_external *x)
{
    return kind_of(x) ? x->form->tensor->wide : x->form->tensor->dtype;
}

int64_t rt_file_elements(const rt_external *x)
{
    return x->form->whole * rt_base_each(x);
}

int64_t rt_file_size(const rt_external *x, int dim)
{
    return x->form->shape[dim] * (dim == x->form->rank - 1 ? rt_base_each(x) : 1);
}

/* ---- parts ---------------------------------------------------------------------------------- */

const rt_external *rt_base_part(const mg_run *r, const rt_external *x, const char *end)
{
    char *name = rt_printf("%s.%s", x->name, end);
    const int found = rt_catalog_find(&r->params, name);
    if (found < 0)
        rt_die(RT_MISFIT, "there is no %s: this program was not made by its compiler", name);
    free(name);
    return &r->params.item[found];
}

void rt_base_put_all(mg_run *r, const rt_external *x, const void *values)
{
    char **stored = rt_whole_open(r, x, false);
    rt_whole_put(x, stored, 0, x->form->whole, values);
    rt_whole_close(r, x, stored, true);
}

/* Floats as the type in which the program computes. */
void rt_base_put_floats(mg_run *r, const rt_external *x, const float *values)
{
    const int64_t n = x->form->whole;
    if (x->form->tensor->dtype != MG_F64) {
        rt_base_put_all(r, x, values);
        return;
    }
    double *wide = rt_alloc((size_t)n, sizeof *wide);
    for (int64_t i = 0; i < n; i++)
        wide[i] = (double)values[i];
    rt_base_put_all(r, x, wide);
    free(wide);
}

void *rt_base_get_all(mg_run *r, const rt_external *x)
{
    void *values = rt_alloc((size_t)x->form->whole, (size_t)mg_dtype_bytes(x->form->tensor->dtype));
    char **stored = rt_whole_open(r, x, true);
    rt_whole_get(x, stored, 0, x->form->whole, values);
    rt_whole_close(r, x, stored, false);
    return values;
}

double rt_base_number(const rt_external *x, const void *values, int64_t i)
{
    return rt_number(rt_dtype_name(x->form->tensor->dtype), values, i);
}

/* ---- a matrix ------------------------------------------------------------------------------- */

rt_base *rt_base_begin(mg_run *r, const rt_external *x)
{
    rt_base *b = rt_alloc(1, sizeof *b);
    *b = (rt_base){.kind = kind_of(x), .r = r, .x = x, .stored = rt_whole_open(r, x, false)};
    b->of = b->kind->begin(r, x, b->stored);
    return b;
}

void rt_base_put(rt_base *b, const char *dtype, const char *in, int64_t at, int64_t n)
{
    b->kind->put(b->of, dtype, in, at, n);
}

void rt_base_end(rt_base *b)
{
    rt_whole_close(b->r, b->x, b->stored, true);
    b->kind->end(b->of);
    free(b);
}

double *rt_base_values(mg_run *r, const rt_external *x)
{
    double *values = rt_alloc((size_t)rt_file_elements(x), sizeof *values);
    kind_of(x)->values(r, x, values);
    return values;
}

int64_t rt_base_bytes(const mg_run *r)
{
    int64_t most = 0;
    for (int i = 0; i < r->params.n; i++) {
        const rt_base_kind *kind = kind_of(&r->params.item[i]);
        const int64_t bytes = kind ? kind->bytes(&r->params.item[i]) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}
