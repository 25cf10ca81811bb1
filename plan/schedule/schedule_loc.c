/* schedule_loc.c - buffers, and where in them the elements of values are. */
#include "plan/schedule/schedule.h"
#include "passes/view.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

uint32_t buffer_new(Sched *s, const char *name, Owner owner, int64_t bytes, int home, Value v)
{
    Buffer b = {.name = name_intern(s->m->names, name),
                .owner = owner,
                .value = v,
                .offset = -1,
                .program = s->program,
                .home = home,
                .first = -1,
                .last = -1};
    b.bytes = device_round(s->p->device, bytes > 0 ? bytes : 1);
    b.level = v ? type_of(s->m, v)->level : LEVEL_device;
    if (v && s->m->values.data[v].def)
        b.span = s->m->values.data[v].def->span;
    vec_push(s->m->arena, &s->p->buffers, b);
    return (uint32_t)s->p->buffers.n - 1;
}

Loc loc_dense(uint32_t buffer, const Type *t)
{
    Loc l = {.known = true, .at = {.buffer = buffer}};
    strides_dense(t, l.stride);
    return l;
}

/* Does it only come from other ranks, to be used? Gathered, perhaps for the next iteration of a
 * loop; or an iteration's sum, which is added to what there is. */
static bool is_received(const Module *m, Value v)
{
    const Ins *def = m->values.data[v].def;
    uint32_t k = 0;
    if (!def || def->op != OP_repeat)
        return def &&
               (def->op == OP_all_gather || (def->op == OP_reduce_scatter && def->home->owner));
    while (def->out[k] != v)
        k++;
    return k < def->attrs.carried && is_received(m, def->body->results.data[k]);
}

/* Has a value the dims of a tensor, with the tensor's padding or without? */
static bool has_dims_of(const Type *t, const Tensor *x)
{
    bool same = t->rank == x->type.rank;
    for (int i = 0; i < t->rank && same; i++) {
        const Dim d = t->dims[i];
        const int at = type_find(&x->type, d.name);
        same = at >= 0 && (d.size == x->type.dims[at].size || d.size == x->valid[at]);
    }
    return same;
}

/* Is a value, which has the dims of a parameter, of the type of gradients or of their sums? Of that
 * are copies of parameters, too, which come from another level. */
static bool has_type_of_gradients(const Module *m, Value v)
{
    const ValueInfo *info = &m->values.data[v];
    const bool sum = m->train.sums && info->type.dtype == m->train.sums;
    return info->type.dtype == m->train.compute ||
           (sum && !(info->def && info->def->op == OP_transfer));
}

/* Gradients are told from activations by their type: the dims of a parameter, or of what a rank has
 * of its copy, in the type of computation, or of sums. */
static Owner owner_of(const Sched *s, Value v)
{
    const ValueInfo *info = &s->m->values.data[v];
    if (is_received(s->m, v))
        return OWN_comm;
    for (size_t i = 0; i < s->m->tensors.n; i++)
        if (has_dims_of(&info->type, &s->m->tensors.data[i]) && has_type_of_gradients(s->m, v))
            return OWN_grads;
    return OWN_activations;
}

static const char *value_name(const Sched *s, Value v)
{
    const ValueInfo *info = &s->m->values.data[v];
    const char *name = name_str(s->m->names, info->name);
    if (!*name)
        name = info->def ? op_info[info->def->op].name : "value";
    if (!info->def || !info->def->path || strchr(name, '.'))
        return name;
    return arena_printf(s->m->arena, "%s.%s", name_str(s->m->names, info->def->path), name);
}

Loc loc_new(Sched *s, Value v, int home)
{
    const Type *t = type_of(s->m, v);
    Owner owner = owner_of(s, v);
    const char *name = value_name(s, v);
    if (owner == OWN_grads) /* it may be called like its parameter */
        name = arena_printf(s->m->arena, "grad.%s", name);
    return loc_dense(buffer_new(s, name, owner, type_bytes(t), home, v), t);
}

static bool place_equal(const Place *a, const Place *b)
{
    if (a->buffer != b->buffer || a->offset != b->offset || a->nloops != b->nloops)
        return false;
    for (int i = 0; i < a->nloops; i++)
        if (a->loop[i].loop != b->loop[i].loop || a->loop[i].stride != b->loop[i].stride)
            return false;
    return true;
}

bool loc_equal(const Loc *a, const Loc *b, const Type *t)
{
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i].size > 1 && a->stride[i] != b->stride[i])
            return false;
    return a->known && b->known && place_equal(&a->at, &b->at);
}

Loc locate(Sched *s, Value v)
{
    const Ins *def = s->m->values.data[v].def;
    if (!def || !op_is(def->op, VIEW)) {
        if (!loc_of(s, v)->known)
            sched_bug(s, def, "a value is read that has no place");
        return *loc_of(s, v);
    }
    Loc from = locate(s, def->in[0]), l = from;
    const Type *t = type_of(s->m, v), *ft = type_of(s->m, def->in[0]);
    const Attrs *a = &def->attrs;
    strides_of_view(def, t, ft, from.stride, l.stride);
    int moved = def->op == OP_pick     ? type_find(ft, a->dim.name)
                : def->op == OP_window ? type_find(ft, a->along.name)
                                       : -1;
    if (moved >= 0)
        l.at.offset += a->at * from.stride[moved] * dtype_bytes(t->dtype);
    return l;
}

Operand operand_of(Sched *s, Value v, bool read, bool write)
{
    Loc l = locate(s, v);
    Operand o = {.at = l.at, .type = *type_of(s->m, v), .read = read, .write = write, .value = v};
    memcpy(o.stride, l.stride, sizeof o.stride);
    return o;
}

/* ---- slots ----------------------------------------------------------------------------------- */

Loc loc_slot(const Loc *base, int loop, int64_t bytes, int64_t first)
{
    Loc l = *base;
    l.at.offset += first * bytes;
    l.at.loop[l.at.nloops].loop = (uint32_t)loop;
    l.at.loop[l.at.nloops++].stride = bytes;
    return l;
}

Loc loc_inner(const Loc *l, int rank)
{
    Loc r = *l;
    memmove(r.stride, l->stride + 1, (size_t)rank * sizeof r.stride[0]);
    return r;
}

Loc loc_chain(Sched *s, Value stack, int64_t n, int home)
{
    const Type *t = type_of(s->m, stack);
    int64_t bytes = type_bytes(t) / t->dims[0].size;
    uint32_t buf =
        buffer_new(s, value_name(s, stack), OWN_activations, bytes * (n + 1), home, stack);
    Loc l = loc_dense(buf, t);
    return loc_inner(&l, t->rank - 1);
}
