/* shard_refuse.c - programs that cannot be cut into stages, or along a scan; see shard.h. */
#include "passes/spmd/shard.h"

#include <string.h>

static const char *named(const Module *m, Value v)
{
    return name_str(m->names, m->values.data[v].name);
}

static const char *layers(const Module *m)
{
    return name_str(m->names, m->layout.pipeline.dim);
}

/* ---- before: the loops ------------------------------------------------------------------------
 */

typedef struct Loops {
    const Module *m;
    const Ins *first;
    bool fine;
} Loops;

static bool looks_along(const Ins *i, Name dim)
{
    const Attrs *a = &i->attrs;
    return i->op != OP_repeat && i->op != OP_iota &&
           (a->dim.name == dim || a->to.name == dim || a->along.name == dim || a->keys.name == dim);
}

/* relays.c joined those that do not need each other. */
static void refuse_second(const Module *m, const Ins *first, const Ins *i)
{
    diag_error(m->diag, i->span, 343,
               "this repeat over '%s' needs what another gives, and a microbatch goes through the "
               "stages once",
               layers(m));
    diag_note(m->diag, first->span, "the other one");
    diag_help(
        m->diag,
        "over a dim of its own (dim deep = %lld) it is computed as a whole, on the last rank; "
        "or the other one on the first",
        (long long)i->attrs.dim.size);
}

static void look_at(Loops *l, const Region *r, int depth)
{
    const Module *m = l->m;
    for (size_t k = 0; k < r->ins.n && l->fine; k++) {
        const Ins *i = r->ins.data[k];
        if (looks_along(i, m->layout.pipeline.dim)) {
            diag_error(m->diag, i->span, 343,
                       "this looks at some of '%s', which are stages on several ranks", layers(m));
            diag_note(m->diag, m->layout.pipeline.span, "by this rule");
            l->fine = false;
        } else if (ir_is_staged(m, i) && depth > 1) {
            diag_error(
                m->diag, i->span, 343,
                "stages are iterations of an outermost repeat, and '%s' is inside of another",
                layers(m));
            l->fine = false;
        } else if (ir_is_staged(m, i) && i->attrs.carried && !i->attrs.reverse && l->first) {
            refuse_second(m, l->first, i);
            l->fine = false;
        } else if (ir_is_staged(m, i) && i->attrs.carried && !i->attrs.reverse) {
            l->first = i;
        }
        if (i->body && l->fine)
            look_at(l, i->body, depth + 1);
    }
}

/* The first scan of a region along the dim. */
static const Ins *scan_along(const Region *r, Name dim)
{
    const Ins *found = NULL;
    for (size_t k = 0; k < r->ins.n && !found; k++) {
        const Ins *i = r->ins.data[k];
        const bool here = i->op == OP_repeat && i->attrs.scan && i->attrs.dim.name == dim;
        found = here ? i : i->body ? scan_along(i->body, dim) : NULL;
    }
    return found;
}

/* Why a scan does not go on in chunks, as pass chunk said; NULL: it could. */
static const char *why_not(const Module *m, const Ins *scan)
{
    for (size_t k = 0; k < m->layout.scans.n; k++)
        if (m->layout.scans.data[k].span.begin == scan->span.begin)
            return m->layout.scans.data[k].why;
    return "its state is not updated linearly";
}

static void refuse_scan(const Module *m, const LayoutRule *rule, const Ins *i)
{
    const char *why = why_not(m, i), *dim = name_str(m->names, rule->dim);
    Axes axes = 0;
    for (int k = 0; k < rule->n; k++)
        axes |= (Axes)1 << rule->axis[k];
    const int64_t ranks = mesh_size(m, axes), part = i->attrs.dim.size / ranks;
    diag_error(m->diag, rule->span, 345, "'%s' is split, and a scan goes along it", dim);
    diag_note(m->diag, i->span, "this scan: each index waits for the one before%s%s",
              why ? ", for " : "", why ? why : "");
    if (!why && m->layout.chunk <= 1)
        diag_help(m->diag, "it is linear, and may be split in chunks: without `chunk 1`");
    else if (!why)
        diag_help(m->diag,
                  "it is linear, and may be split in chunks: the %lld %s of a rank have to be cut "
                  "evenly, into 2 to %lld each",
                  (long long)part, dim, (long long)m->layout.chunk);
    else
        diag_help(m->diag, "a scan that updates its state linearly may be split");
    diag_help(m->diag, "split the batch, or a dim that the scan does not go along");
}

bool scans_are_whole(const Module *m)
{
    for (size_t r = 0; r < m->layout.rules.n; r++)
        for (size_t f = 0; f < m->fns.n && m->layout.rules.data[r].n; f++) {
            const LayoutRule *rule = &m->layout.rules.data[r];
            const Ins *i = rule->dim && !strchr(name_str(m->names, rule->dim), '.')
                               ? scan_along(m->fns.data[f]->body, rule->dim)
                               : NULL;
            if (!i)
                continue;
            refuse_scan(m, rule, i);
            return false;
        }
    return true;
}

bool stages_are_loops(const Module *m)
{
    const Fn *round = module_fn(m, "round"); /* elements alone, each where it lies */
    for (size_t f = 0; f < m->fns.n && m->layout.pipeline.axis; f++) {
        Loops l = {.m = m, .fine = true};
        if (m->fns.data[f] == round)
            continue;
        look_at(&l, m->fns.data[f]->body, 0);
        if (!l.fine)
            return false;
        if (l.first)
            continue;
        const char *of = name_str(m->names, m->fns.data[f]->name);
        diag_error(m->diag, m->layout.pipeline.span, 343,
                   "no layer hands anything on to the next%s: '%s' are no stages",
                   strcmp(of, "sample") ? "" : " in what is computed to sample", layers(m));
        if (!strcmp(of, "sample"))
            diag_help(m->diag, "what is sampled from, the first operand of cross_entropy, needs "
                               "no layer; a layout without this rule samples it");
        else
            diag_help(m->diag,
                      "stages are cut out of a loop: the layers of `repeat ... at l` whose "
                      "numbers all differ by `l` are each by itself, and make none");
        return false;
    }
    return true;
}

/* ---- after: values ----------------------------------------------------------------------------
 */

static const char *place(StageSet at)
{
    return at & AT_FIRST ? "before the layers, on the first rank"
                         : "from what the layers give, on the last rank";
}

typedef struct Places {
    const Module *m;
    const StageSet *at; /* where values are */
    bool fine;
} Places;

static void refuse(Places *p, const Ins *i, const char *what, Value v)
{
    const Module *m = p->m;
    const Ins *def = m->values.data[v].def;
    if (!p->fine)
        return;
    p->fine = false;
    diag_error(m->diag, i->span, 343, "%s '%s', which is computed %s", what, named(m, v),
               place(p->at[v]));
    if (def && def->span.file)
        diag_note(m->diag, def->span, "here");
    diag_help(m->diag, "what layers hand on is carried by the repeat: x = x + ...");
}

/* Two operands that no rank has both of. */
static void refuse_both(Places *p, const Ins *i, Value v)
{
    const Module *m = p->m;
    Value other = v;
    for (uint32_t x = 0; x < i->nin; x++)
        if (!(p->at[i->in[x]] & p->at[v]))
            other = i->in[x];
    if (!p->fine)
        return;
    p->fine = false;
    if (i->backward)
        diag_error(m->diag, i->span, 343,
                   "the gradient of what is computed here is needed on the first rank of a "
                   "pipeline, and a part of it is made on the last");
    else
        diag_error(m->diag, i->span, 343, "this needs '%s', which is computed %s, and '%s', %s",
                   named(m, other), place(p->at[other]), named(m, v), place(p->at[v]));
    diag_help(m->diag, "what layers hand on is carried by the repeat: x = x + ...");
}

/* Inside of layers all is at all ranks, but for what comes from outside. */
static void check_layer(Places *p, const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        for (uint32_t x = 0; x < i->nin && p->fine; x++) {
            const Region *home = p->m->values.data[i->in[x]].home;
            if (p->at[i->in[x]] != AT_ALL && (!home->owner || !ir_is_staged(p->m, home->owner)))
                refuse(p, i, "each layer reads", i->in[x]);
        }
        if (i->body)
            check_layer(p, i->body);
    }
}

static void check_iteration(Places *p, const Region *r)
{
    for (size_t k = 0; k < r->ins.n && p->fine; k++) {
        const Ins *i = r->ins.data[k];
        StageSet all = AT_ALL;
        if (ir_is_staged(p->m, i)) {
            StageSet begin = i->attrs.reverse ? AT_LAST : AT_FIRST;
            for (uint32_t x = 0; x < i->nin; x++)
                if (x < i->attrs.carried ? !(p->at[i->in[x]] & begin) : p->at[i->in[x]] != AT_ALL)
                    refuse(p, i, "these layers begin with", i->in[x]);
            check_layer(p, i->body);
            continue;
        }
        for (uint32_t x = 0; x < i->nin && i->op != OP_repeat; x++) {
            if (!(all & p->at[i->in[x]]))
                refuse_both(p, i, i->in[x]);
            all &= p->at[i->in[x]];
        }
        if (i->op == OP_repeat)
            check_iteration(p, i->body);
    }
}

bool stages_hold(const Module *m, Arena *tmp)
{
    for (size_t f = 0; f < m->fns.n; f++) {
        const Fn *fn = m->fns.data[f];
        Places p = {m, ir_available(m, fn->body, fn, tmp), true};
        for (size_t k = 0; k < fn->body->ins.n && p.fine; k++)
            if (fn->body->ins.data[k]->op == OP_repeat)
                check_iteration(&p, fn->body->ins.data[k]->body);
        if (!p.fine)
            return false;
    }
    return true;
}
