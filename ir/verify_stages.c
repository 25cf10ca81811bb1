/* verify_stages.c - I12: layers that are stages on several ranks.
 *
 * A loop over them that carries something is a relay, and each value is where it is needed: what a
 * relay carries is at its first stage before it and at its last after it, tensors are where they
 * are said to be, and from there to others a value comes by a collective, outside of the loops over
 * microbatches. */
#include "ir/verify.h"

static const Pipeline *pipeline(const Verifier *v)
{
    return &v->m->layout.pipeline;
}

/* Has pass shard been through? Before it, layers are one loop as ever. */
static bool is_cut(const Verifier *v)
{
    return pipeline(v)->max_layers > 0;
}

static void check_sizes(Verifier *v)
{
    const Pipeline *p = pipeline(v);
    int64_t max = 0;
    if (!p->axis || (p->axis & (p->axis - 1)) || p->axis >> v->m->layout.mesh.n || p->chunks < 1) {
        verify_broken(v, NULL, 12, "stages along no axis");
        return;
    }
    for (size_t s = 0; s < p->layers.n; s++)
        max = p->layers.data[s] > max ? p->layers.data[s] : max;
    if (p->layers.n != (size_t)mesh_stages(v->m) || max != p->max_layers)
        verify_broken(v, NULL, 12, "%zu stages of at most %lld layers", p->layers.n,
                      (long long)max);
}

static void check_dim(Verifier *v, const Ins *i, Dim d, Axes axes)
{
    const Pipeline *p = pipeline(v);
    if (!(axes & p->axis))
        return;
    if (d.name != p->dim || axes != p->axis || d.size != p->chunks * p->max_layers)
        verify_broken(v, i, 12, "'%s' of %lld is split as stages are",
                      name_str(v->m->names, d.name), (long long)d.size);
}

static void check_tensors(Verifier *v)
{
    for (size_t k = 0; k < v->m->tensors.n; k++) {
        const Tensor *t = &v->m->tensors.data[k];
        const char *name = name_str(v->m->names, t->name);
        bool cut = false;
        for (int i = 0; i < t->type.rank; i++) {
            Axes axes = t->axes[i] | t->type.dims[i].axes;
            check_dim(v, NULL, t->type.dims[i], axes);
            cut |= (axes & pipeline(v)->axis) != 0;
        }
        if (!t->at || t->at & ~AT_ALL || (cut && t->at != AT_ALL) ||
            t->at != v->m->tensors.data[t->parameter].at)
            verify_broken(v, NULL, 12, "tensor '%s' is at %d", name, t->at);
    }
}

typedef struct Relays {
    Verifier *v;
    int ways[2]; /* forward, in reverse */
    const StageSet *at;
} Relays;

static void check_staged(Relays *r, const Ins *i, bool inside)
{
    const Pipeline *p = pipeline(r->v);
    Axes axes = r->v->m->local ? p->axis : i->attrs.dim.axes;
    if (inside)
        verify_broken(r->v, i, 12, "stages inside of a stage");
    if (axes != p->axis || i->attrs.dim.size != p->chunks * p->max_layers)
        verify_broken(r->v, i, 12, "a loop over all layers where a rank has some");
    if (i->attrs.relay != (i->attrs.carried > 0))
        verify_broken(r->v, i, 12,
                      i->attrs.relay ? "a relay that hands nothing on"
                                     : "stages hand on what is carried");
    StageSet end = i->attrs.reverse ? AT_FIRST : AT_LAST;
    for (uint32_t k = 0; i->attrs.relay && k < i->attrs.carried; k++)
        if (r->at[i->out[k]] & ~end)
            verify_broken(r->v, i, 12, "what the relay carries is needed where it does not end");
    if (i->attrs.relay && r->ways[i->attrs.reverse]++)
        verify_broken(r->v, i, 12, "a second relay in the same direction");
    if (i->attrs.relay && i->attrs.reverse && !r->ways[false] &&
        ir_relay_before(i, i->home->ins.data, i->home->ins.n))
        verify_broken(r->v, i, 12, "the relay goes back before it went forward");
}

/* depth: loops around the region. */
static void check_region(Relays *r, const Region *b, int depth, bool inside)
{
    const Module *m = r->v->m;
    for (size_t k = 0; k < b->ins.n; k++) {
        const Ins *i = b->ins.data[k];
        bool staged = ir_is_staged(m, i);
        for (uint32_t x = 0; x < i->nout; x++) {
            const Type *t = type_of(m, i->out[x]);
            for (int d = 0; d < t->rank; d++)
                check_dim(r->v, i, t->dims[d], t->dims[d].axes);
        }
        if (op_is(i->op, COMM) && (i->attrs.axes & pipeline(r->v)->axis) && depth)
            verify_broken(r->v, i, 12, "ranks of other stages are elsewhere in their loops");
        if (staged)
            check_staged(r, i, inside || depth > 1);
        else if (i->op == OP_repeat && i->attrs.relay)
            verify_broken(r->v, i, 12, "a relay of what are no layers");
        if (i->body)
            check_region(r, i->body, depth + 1, inside || staged);
    }
}

static void check_fn(Verifier *v, const Fn *fn)
{
    Relays r = {.v = v, .at = ir_stage_set(v->m, fn, v->tmp)};
    check_region(&r, fn->body, 0, false);
    for (size_t k = 0; k < fn->args.n; k++) {
        FnArg a = fn->args.data[k];
        if (a.role <= ARG_state &&
            (r.at[fn->body->args.data[k]] & ~v->m->tensors.data[a.tensor].at))
            verify_broken(v, NULL, 12, "tensor '%s' is needed where it is not",
                          name_str(v->m->names, v->m->tensors.data[a.tensor].name));
    }
}

void verify_stages(Verifier *v)
{
    if (v->broken || !is_cut(v)) /* what is looked at here has to make sense */
        return;
    check_sizes(v);
    for (size_t k = 0; k < v->m->fns.n && !v->broken; k++) {
        v->fn = name_str(v->m->names, v->m->fns.data[k]->name);
        check_fn(v, v->m->fns.data[k]);
    }
    if (!v->broken)
        check_tensors(v);
}
