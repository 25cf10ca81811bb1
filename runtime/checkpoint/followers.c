/* followers.c - tensors that follow parameters: before the first step they are copies of them; and
 * an evaluation may be of the averages, which change places with their parameters for it.
 *
 * Both go by external elements, so the two may lie over the ranks in different ways. */
#include "runtime/checkpoint/followers.h"

#include <stdlib.h>
#include <string.h>

typedef struct beginning {
    mg_run *r;
    const rt_weights *weights; /* or NULL */
    bool *done;                /* per item of r->params */
} beginning;

/* The item of r->params that x begins as; of several parts of a tensor the one at x's place. */
static int find(const mg_run *r, const rt_external *of)
{
    const char *name = of->begins;
    for (int i = rt_catalog_find(&r->params, name);
         i >= 0 && i < r->params.n && !strcmp(r->params.item[i].name, name); i++) {
        const rt_form *x = r->params.item[i].form;
        if (x->from == of->form->from && x->elements == of->form->elements &&
            x->tensor->dtype == of->form->tensor->dtype)
            return i;
    }
    rt_die(RT_MISFIT, "%s follows no parameter %s: this program was not made by its compiler",
           of->name, name);
}

static void *read_values(mg_run *r, const rt_external *x)
{
    const int64_t n = x->form->elements;
    void *values = rt_alloc((size_t)n, (size_t)mg_dtype_bytes(x->form->tensor->dtype));
    char *stored = rt_stored_open(r, x, true);
    rt_external_get(x, stored, 0, n, values);
    rt_stored_close(r, x, false);
    return values;
}

static void write_values(mg_run *r, const rt_external *x, const void *values)
{
    char *stored = rt_stored_open(r, x, false);
    rt_external_put(x, stored, 0, x->form->elements, values);
    rt_stored_close(r, x, true);
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
    const int from = find(b->r, x);
    settle(b, from);
    void *values = read_values(b->r, &b->r->params.item[from]);
    write_values(b->r, x, values);
    free(values);
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

void rt_exchange_averages(mg_run *r)
{
    if (!r->options->eval_with)
        return;
    for (int i = 0; i < r->slots.n; i++) {
        const rt_external *x = &r->slots.item[i];
        if (!x->begins)
            continue;
        const rt_external *of = &r->params.item[find(r, x)];
        void *average = read_values(r, x), *parameter = read_values(r, of);
        write_values(r, of, average);
        write_values(r, x, parameter);
        free(average);
        free(parameter);
    }
    if (r->program->round.present)
        rt_run(r, RT_ROUND);
}

bool rt_keeps_averages(const mg_program *p)
{
    for (int i = 0; i < p->ntensors; i++)
        if (p->tensors[i].role == MG_STATE && p->tensors[i].begins)
            return true;
    return false;
}

/* The most bytes of an item that follows a parameter. */
static int64_t largest(const rt_catalog *c)
{
    int64_t most = 0;
    for (int i = 0; i < c->n; i++) {
        const rt_form *x = c->item[i].form;
        const int64_t bytes = x->elements * mg_dtype_bytes(x->tensor->dtype);
        if (c->item[i].begins && bytes > most)
            most = bytes;
    }
    return most;
}

int64_t rt_followers_bytes(const mg_run *r)
{
    const int64_t a = largest(&r->params), b = largest(&r->slots);
    const int64_t exchanged = b && r->options->eval_with ? 2 * b : b;
    return a > exchanged ? a : exchanged;
}
