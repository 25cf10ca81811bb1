/* begin.c - before the first step: tensors that follow parameters are copies of them.
 *
 * A copy goes by external elements, so the two may lie over the ranks in different ways. */
#include "runtime/run.h"

#include <stdlib.h>
#include <string.h>

typedef struct beginning {
    mg_run *r;
    const rt_weights *weights; /* or NULL */
    bool *done;                /* per item of r->params */
} beginning;

/* The item of r->params of this name; of parts number `part`. */
static int find(const mg_run *r, const char *name, int part)
{
    int low = 0, high = r->params.n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (strcmp(r->params.item[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    const rt_external *x = &r->params.item[low];
    if (low == r->params.n || strcmp(x->name, name) != 0 || part >= x->parts)
        rt_die(RT_MISFIT, "there is no parameter %s: this program was not made by its compiler",
               name);
    return low + part;
}

static void copy(mg_run *r, const rt_external *x, const rt_external *from)
{
    const int64_t n = x->form->elements;
    if (n != from->form->elements || x->form->tensor->dtype != from->form->tensor->dtype)
        rt_die(RT_MISFIT, "%s and %s differ: this program was not made by its compiler", x->name,
               from->name);
    void *values = rt_alloc((size_t)n, (size_t)mg_dtype_bytes(x->form->tensor->dtype));
    char *stored = rt_stored_open(r, from, true);
    rt_external_get(from, stored, 0, n, values);
    rt_stored_close(r, from, false);
    stored = rt_stored_open(r, x, false);
    rt_external_put(x, stored, 0, n, values);
    rt_stored_close(r, x, true);
    free(values);
}

static void begin(const beginning *b, const rt_external *x);

/* A parameter, which may follow another itself. */
static void settle(const beginning *b, int i)
{
    const rt_external *x = &b->r->params.item[i];
    if (b->done[i])
        return;
    b->done[i] = true;
    if (x->begins && !(b->weights && rt_weights_have(b->weights, i - x->part)))
        begin(b, x);
}

static void begin(const beginning *b, const rt_external *x)
{
    const int from = find(b->r, x->begins, x->part);
    settle(b, from);
    copy(b->r, x, &b->r->params.item[from]);
}

void rt_begin(mg_run *r, const rt_weights *w)
{
    beginning b = {r, w, rt_alloc((size_t)r->params.n + 1, sizeof(bool))};
    for (int i = 0; i < r->params.n; i++)
        settle(&b, i);
    for (int i = 0; i < r->slots.n; i++)
        if (r->slots.item[i].begins)
            begin(&b, &r->slots.item[i]);
    free(b.done);
}
