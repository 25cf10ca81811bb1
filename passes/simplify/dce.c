/* dce.c - what nothing uses goes; part of simplify.
 *
 * Of a loop, each carried value, slice and stacked result is looked at by itself: a carried value
 * stays if its last value or its value in some iteration is used, and then needs its start and its
 * next value; so a gradient that leads nowhere goes with everything that was kept for it. */
#include "passes/simplify/simplify.h"

typedef struct Drop {
    Module *m;
    Arena *a;
    bool *live; /* per value */
    bool changed;
} Drop;

static bool live(Drop *d, Value v)
{
    bool news = !d->live[v];
    d->live[v] = true;
    return news;
}

static bool has_effect(const Ins *i)
{
    if (op_is(i->op, EFFECT))
        return true;
    for (size_t k = 0; i->body && k < i->body->ins.n; k++)
        if (has_effect(i->body->ins.data[k]))
            return true;
    return false;
}

static bool any_live(const Drop *d, const Ins *i)
{
    for (uint32_t k = 0; k < i->nout; k++)
        if (d->live[i->out[k]])
            return true;
    return has_effect(i);
}

static void mark_region(Drop *d, const Region *r);

static bool carried_stays(const Drop *d, const Ins *i, size_t k)
{
    return d->live[i->out[k]] || d->live[i->body->args.data[k]];
}

static void mark_repeat(Drop *d, const Ins *i)
{
    const Region *body = i->body;
    size_t carried = (size_t)i->attrs.carried;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t k = 0; k < i->nout; k++)
            if (k < carried ? carried_stays(d, i, k) : d->live[i->out[k]])
                changed |= live(d, body->results.data[k]);
        mark_region(d, body);
        for (size_t k = 0; k < i->nin; k++)
            if (k < carried ? carried_stays(d, i, k) : d->live[body->args.data[k]])
                changed |= live(d, i->in[k]);
        for (size_t k = 0; k < carried; k++)
            if (carried_stays(d, i, k) && !d->live[body->results.data[k]])
                changed = true;
    }
}

static void mark_region(Drop *d, const Region *r)
{
    for (size_t n = r->ins.n; n-- > 0;) {
        const Ins *i = r->ins.data[n];
        if (!any_live(d, i))
            continue;
        if (i->op == OP_repeat)
            mark_repeat(d, i);
        else
            for (uint32_t k = 0; k < i->nin; k++)
                live(d, i->in[k]);
    }
}

/* Takes out of a loop what did not stay. */
static void narrow(Drop *d, Ins *i)
{
    Region *body = i->body;
    size_t carried = (size_t)i->attrs.carried, stay = 0, in = 0, out = 0;
    Value index = body->args.data[i->nin];
    bool *stays = NEW_ARRAY(d->a, bool, carried);
    for (size_t k = 0; k < carried; k++)
        stays[k] = carried_stays(d, i, k);
    for (size_t k = 0; k < i->nin; k++) {
        Value arg = body->args.data[k];
        if (k < carried ? !stays[k] : !d->live[arg])
            continue;
        stay += k < carried;
        i->in[in] = i->in[k];
        body->args.data[in++] = arg;
    }
    for (size_t k = 0; k < i->nout; k++) {
        if (k < carried ? !stays[k] : !d->live[i->out[k]])
            continue;
        i->out[out] = i->out[k];
        body->results.data[out++] = body->results.data[k];
    }
    d->changed |= in != i->nin || out != i->nout;
    body->args.data[in] = index;
    body->args.n = in + 1;
    body->results.n = out;
    i->nin = (uint32_t)in;
    i->nout = (uint32_t)out;
    i->attrs.carried = (int64_t)stay;
    i->attrs.relay &= stay > 0;
}

static void sweep(Drop *d, Region *r)
{
    size_t kept = 0;
    for (size_t n = 0; n < r->ins.n; n++) {
        Ins *i = r->ins.data[n];
        if (!any_live(d, i)) {
            d->changed = true;
            continue;
        }
        if (i->op == OP_repeat) {
            sweep(d, i->body);
            narrow(d, i);
        }
        r->ins.data[kept++] = i;
    }
    r->ins.n = kept;
}

bool simplify_dce(Module *m, Fn *fn, Arena *a)
{
    Drop d = {.m = m, .a = a, .live = NEW_ARRAY(a, bool, m->values.n)};
    for (size_t k = 0; k < fn->body->results.n; k++)
        live(&d, fn->body->results.data[k]);
    mark_region(&d, fn->body);
    sweep(&d, fn->body);
    return d.changed;
}
