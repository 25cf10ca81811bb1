/* copy.c - a second module with the same program. */
#include "ir/ir.h"

#include <string.h>

/* The elements of a VEC, in an arena. */
#define COPY_VEC(a, to, from)                                                                      \
    do {                                                                                           \
        (to)->n = (to)->cap = (from)->n;                                                           \
        (to)->data = arena_copy(a, (from)->data, (from)->n * sizeof *(from)->data);                \
    } while (0)

static Region *copy_region(Module *m, const Region *r, Region *parent, Ins *owner);

static Ins *copy_ins(Module *m, const Ins *i, Region *home)
{
    Ins *c = arena_copy(m->arena, i, sizeof *i);
    c->in = arena_copy(m->arena, i->in, i->nin * sizeof *c->in);
    c->out = arena_copy(m->arena, i->out, i->nout * sizeof *c->out);
    c->home = home;
    if (i->attrs.taps)
        c->attrs.taps = arena_copy(m->arena, i->attrs.taps, sizeof *i->attrs.taps);
    for (uint32_t k = 0; k < i->nout; k++) {
        m->values.data[c->out[k]].def = c;
        m->values.data[c->out[k]].home = home;
    }
    if (i->body)
        c->body = copy_region(m, i->body, home, c);
    return c;
}

static Region *copy_region(Module *m, const Region *r, Region *parent, Ins *owner)
{
    Region *c = region_new(m, parent);
    c->owner = owner;
    COPY_VEC(m->arena, &c->args, &r->args);
    COPY_VEC(m->arena, &c->results, &r->results);
    for (size_t k = 0; k < c->args.n; k++)
        m->values.data[c->args.data[k]].home = c;
    COPY_VEC(m->arena, &c->ins, &r->ins);
    for (size_t k = 0; k < c->ins.n; k++)
        c->ins.data[k] = copy_ins(m, c->ins.data[k], c);
    return c;
}

Module *module_copy(const Module *m, const char *fn, Diag *d, Arena *a)
{
    Module *c = NEW(a, Module);
    *c = *m;
    c->arena = a;
    c->diag = d;
    COPY_VEC(a, &c->inputs, &m->inputs);
    COPY_VEC(a, &c->metrics, &m->metrics);
    c->values.cap = m->values.n; /* the first new one is to copy them no second time */
    c->values.data = arena_grow(a, m->values.data, m->values.n, &c->values.cap, sizeof(ValueInfo));
    COPY_VEC(a, &c->tensors, &m->tensors);
    memset(&c->fns, 0, sizeof c->fns);
    for (size_t k = 0; k < m->fns.n; k++) {
        const Fn *f = m->fns.data[k];
        if (fn && strcmp(name_str(m->names, f->name), fn) != 0)
            continue;
        Fn *g = NEW(a, Fn);
        *g = *f;
        COPY_VEC(a, &g->args, &f->args);
        COPY_VEC(a, &g->results, &f->results);
        COPY_VEC(a, &g->totals, &f->totals);
        g->body = copy_region(c, f->body, NULL, NULL);
        vec_push(a, &c->fns, g);
    }
    return c;
}
