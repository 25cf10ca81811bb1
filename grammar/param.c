/* param.c - parameters: tensors that outlive a step, their names, initial values, external form.
 *
 * A parameter inside repeats is stored once, with the dims of the repeats in front; each repeat
 * hands its body the slice of its iteration. */
#include "grammar/elab.h"
#include "ir/external.h"
#include "ir/propose.h"

#include <math.h>
#include <string.h>

/* ---- external form ------------------------------------------------------------------------ */

static const int64_t PART_MAX = INT64_C(1) << 62; /* the end of a part */

static bool external_dim(Elab *e, const Node *name, Dim d, const DimList *own, Tensor *t,
                         int *count)
{
    int at = type_find(&t->type, d.name);
    if (t->numbered && own->dim[0].name == d.name) {
        fail(e, name->at, 261, "'%s' is the {} of the name, and no dim of what is called so",
             text(e, d.name));
        return false;
    }
    if (at < t->stacked) {
        fail(e, name->at, 261, "'%s' is not a dim of this parameter", text(e, d.name));
        help(e, "its dims are [%s]", dims_text(e, own));
        return false;
    }
    for (int i = 0; i < *count; i++)
        if (t->order[i] == at) {
            fail(e, name->at, 261, "'%s' stands twice in the external order", text(e, d.name));
            return false;
        }
    t->order[(*count)++] = (uint8_t)at;
    return true;
}

/* The dims that a name of the external order stands for: one, but in parentheses, where they merge
 * anyway, all that it is a block's list of. */
static bool external_dims(Elab *e, const Node *name, bool merge, const DimList *own, Tensor *t,
                          int *count)
{
    DimList l = {.n = 1};
    if (!(merge ? resolve_all(e, name, &l) : resolve_dim(e, name, &l.dim[0])))
        return false;
    for (int i = 0; i < l.n; i++)
        if (!external_dim(e, name, l.dim[i], own, t, count))
            return false;
    return true;
}

/* The place of a part in an external dim. Its whole ends with it, as long as no other is known. */
static bool external_part(Elab *e, const Node *n, Tensor *t)
{
    if (t->part_of) {
        fail(e, n->at, 269, "'at' stands twice: a part is a range of one external dim");
        return false;
    }
    t->part_dim = t->external_rank - 1;
    if (!integer_of(e, n->b, &t->part_at))
        return false;
    const int64_t size = external_size(t, t->part_dim);
    if (t->part_at < 0 || t->part_at > PART_MAX - size) {
        fail(e, n->b->span, 269, "a part of %lld elements cannot begin at %lld", (long long)size,
             (long long)t->part_at);
        return false;
    }
    t->part_of = t->part_at + size;
    return true;
}

static bool external_order(Elab *e, const Node *n, const DimList *own, Tensor *t)
{
    int count = 0;
    for (size_t i = 0; i < n->more.n; i++) {
        const Node *from = n->more.data[i], *g = from->kind == N_FROM ? from->a : from;
        bool group = g->kind == N_GROUP;
        int before = count;
        for (size_t k = 0; k < (group ? g->list.n : 1); k++)
            if (!external_dims(e, group ? g->list.data[k] : g, group, own, t, &count))
                return false;
        t->merge[t->external_rank++] = (uint8_t)(count - before);
        if (g != from && !external_part(e, from, t))
            return false;
    }
    for (int i = t->numbered; !n->more.n && i < own->n; i++) {
        t->order[count++] = (uint8_t)(t->stacked - t->numbered + i);
        t->merge[t->external_rank++] = 1;
    }
    if (count == own->n - t->numbered)
        return true;
    for (int i = t->numbered; i < own->n; i++) {
        bool there = false;
        for (int k = 0; k < count; k++)
            there |= t->order[k] == t->stacked - t->numbered + i;
        if (!there) {
            fail(e, n->at, 261, "the external order of '%s' leaves out '%s'", text(e, n->name),
                 text(e, own->dim[i].name));
            return false;
        }
    }
    return false;
}

/* A {} in the parameter's own name is the index of its first dim: what is called so lacks it. */
static bool numbered(Elab *e, const Node *n, const DimList *own, Tensor *t)
{
    const char *hole = n->text ? strstr(n->text, "{}") : NULL;
    t->numbered = hole ? 1 : 0;
    if (!hole || (own->n && !strstr(hole + 2, "{}")))
        return true;
    fail(e, n->at, 236,
         own->n ? "more than one {} in the name of a parameter"
                : "{} is the index of a parameter's first dim, and this has none");
    return false;
}

/* ---- the tensor --------------------------------------------------------------------------- */

static bool stored_type(Elab *e, const Node *n, const DimList *own, Tensor *t)
{
    DimList loops = {0};
    LoopList around = {0};
    loops_of_parameters(e, &around);
    for (size_t k = 0; k < around.n; k++) {
        const Loop *l = around.data[k];
        if (dims_have(own, l->dim.name)) {
            fail(e, n->at, 262, "dim '%s' is the repeat around '%s'", text(e, l->dim.name),
                 text(e, n->name));
            for (size_t i = 0; i < n->list.n; i++)
                if (n->list.data[i]->name == l->dim.name)
                    remedy(e, entry_with_comma(e->diag, n->list.data[i]->span), "",
                           "each iteration has a '%s' of its own: leave the dim out",
                           text(e, n->name));
            return false;
        }
        if (loops.n + own->n == MAX_RANK) {
            fail(e, n->at, 206, "'%s' has more than %d dims, those of the repeats counted",
                 text(e, n->name), MAX_RANK);
            return false;
        }
        memmove(&loops.dim[1], &loops.dim[0], (size_t)loops.n * sizeof(Dim));
        loops.dim[0] = l->dim;
        loops.n++;
    }
    t->stacked = loops.n + t->numbered;
    t->type = (Type){.dtype = e->compute, .rank = loops.n + own->n};
    memcpy(t->type.dims, loops.dim, (size_t)loops.n * sizeof(Dim));
    memcpy(t->type.dims + loops.n, own->dim, (size_t)own->n * sizeof(Dim));
    for (int i = 0; i < t->type.rank; i++) {
        const DimInfo *d = dim_info(e, t->type.dims[i].name);
        t->valid[i] = d->valid;
        if (d->name == e->module->batch.name) {
            fail(e, n->at, 263, "a parameter cannot have the batch dim '%s'", text(e, d->name));
            return false;
        }
    }
    return fits(e, n->at, &t->type);
}

Name unique_path(Elab *e, const char *path)
{
    Name wanted = name_intern(e->names, path), name = wanted;
    uintptr_t given = (uintptr_t)map_find(&e->paths, wanted); /* how often */
    for (uintptr_t i = given + 1; map_find(&e->paths, name); i++) {
        name = name_intern(e->names, arena_printf(e->arena, "%s_%zu", path, (size_t)i));
        map_put(e->arena, &e->paths, wanted, (void *)i);
    }
    map_put(e->arena, &e->paths, name, (void *)(uintptr_t)1);
    return name;
}

/* All but the names. */
static bool described(Elab *e, const Node *n, Tensor *t)
{
    DimList own;
    return resolve_dims(e, &n->list, &own) && numbered(e, n, &own, t) &&
           stored_type(e, n, &own, t) && external_order(e, n, &own, t) && initial(e, n, &own, t);
}

/* In the first function a new tensor; in the others the one that has the name there: a sample
 * leaves out what reads the next tokens, with the parameters in it. */
static bool tensor_of(Elab *e, const Node *n, const Shared *shared, uint32_t *index)
{
    if (e->mode != MODE_TRAIN)
        return find_external(e, n, index);
    *index = shared ? shared->tensor : (uint32_t)e->module->tensors.n;
    Tensor t = {.span = n->at, .parameter = *index};
    if (!described(e, n, &t))
        return false;
    if (shared)
        return check_shared(e, n, shared, &t);
    if (!claim_external(e, n, &t))
        return false;
    if (*index >= PARAMS_MAX) {
        e->stopped = true;
        fail(e, n->at, 265, "more than %d parameters", PARAMS_MAX);
        return false;
    }
    t.name = unique_path(e, path_join(e, e->frame->path, text(e, n->name)));
    if (e->frame->follower)
        add_follower(e, &t);
    else
        apply_rules(e, &t), select_adapter(e, &t);
    vec_push(e->module->arena, &e->module->tensors, t);
    return true;
}

/* The slice of v in the body of l: one, the same for all that read it. */
static Value slice(Elab *e, Loop *l, Value v, Name hint)
{
    for (size_t k = 0; k < l->stacked.n; k++)
        if (l->stacked.data[k] == v)
            return l->slices.data[k];
    Type t = *type_of(e->module, v);
    memmove(&t.dims[0], &t.dims[1], (size_t)(t.rank - 1) * sizeof(Dim));
    t.dims[--t.rank] = (Dim){0};
    vec_push(e->arena, &l->stacked, v);
    Value s = region_arg(e->module, l->region, t, hint);
    vec_push(e->arena, &l->slices, s);
    return s;
}

/* Hands v down through the repeats that it has, from the outermost on. */
Value slices_in(Elab *e, const LoopList *around, Value v, Name hint)
{
    for (size_t k = around->n; k-- > 0;)
        v = slice(e, around->data[k], v, hint);
    return v;
}

static Value slices(Elab *e, Value v, Name hint)
{
    LoopList around = {0};
    loops_of_parameters(e, &around);
    return slices_in(e, &around, v, hint);
}

/* The weights of a scan are the same for all its iterations. */
static bool outside_scans(Elab *e, const Node *n)
{
    LoopList around = {0};
    loops_of_parameters(e, &around);
    for (size_t k = 0; k < around.n; k++) {
        const Loop *l = around.data[k];
        if (l->scan) {
            fail(e, n->at, 267, "parameter '%s' is declared in a scan over '%s'", text(e, n->name),
                 text(e, l->dim.name));
            help(e, "declare it before the scan, or before the block that has the scan is called");
            return false;
        }
    }
    return true;
}

void param(Elab *e, const Node *n)
{
    uint32_t index;
    if (!outside_scans(e, n)) {
        Sym *poisoned = declare(e, SYM_PARAM, n->name, n->at);
        if (poisoned)
            poisoned->val = (Val){.kind = VAL_POISON}, poisoned->ready = true;
        return;
    }
    const Shared *shared = find_shared(e, n);
    bool ok = tensor_of(e, n, shared, &index);
    Sym *s = declare(e, SYM_PARAM, n->name, n->at);
    if (!s || !ok)
        return;
    Value v = shared ? shared->arg : 0;
    if (!shared) {
        v = fn_arg(e, ARG_param, index, e->module->tensors.data[index].type, text(e, n->name));
        add_shared(e, n, index, v);
    }
    s->val = tensor_val(slices(e, v, n->name));
    note_adapted(e, index, s->val.value);
    s->ready = true;
}
