/* module.c - modules, types, regions, values: the containers of the IR. */
#include "ir/ir.h"

#include <math.h>
#include <string.h>

const char *const arg_role_names[] = {"param",  "rounded",   "state",  "input",  "tokens",
                                      "weight", "documents", "lr",     "scale",  "step",
                                      "seed",   "pos",       "filled", "before", "begin",
                                      "count",  "cache",     "total",  "place"};
const char *const offload_names[OFFLOAD_count] = {"state", "masters", "parameters", "gradients",
                                                  "kept"};
const char *const recompute_names[RECOMPUTE_count] = {"auto", "none", "all", "keep"};
const char *const result_role_names[] = {"loss",  "norm",  "dropped", "metric", "logits",
                                         "cache", "total", "grad",    "update"};

static const struct {
    const char *name;
    int bytes;
    bool floating;
} dtypes[DT_count] = {
#define DTYPE(name, ctype, bytes, floating) [DT_##name] = {#name, bytes, floating},
#include "ir/dtypes.def"
};

const char *dtype_name(DType t)
{
    return t > DT_none && t < DT_count ? dtypes[t].name : "?";
}

int64_t dtype_bytes(DType t)
{
    return dtypes[t].bytes;
}

bool dtype_is_float(DType t)
{
    return dtypes[t].floating;
}

bool dtype_is_half(DType t)
{
    return t == DT_bf16 || t == DT_f16;
}

bool dtype_is_fp8(DType t)
{
    return t == DT_e4m3 || t == DT_e5m2;
}

bool dtype_is_dynamic(DType t)
{
    return t == DT_dynamic8 || t == DT_udynamic8;
}

bool dtype_is_narrow(DType t)
{
    return dtype_is_half(t) || dtype_is_fp8(t) || t == DT_e8m0 || dtype_is_dynamic(t);
}

DType dtype_wide(DType t)
{
    return dtype_is_narrow(t) ? DT_f32 : t;
}

double dtype_largest(DType t)
{
    return t == DT_e4m3 ? 448 : t == DT_e5m2 ? 57344 : INFINITY;
}

int type_find(const Type *t, Name dim)
{
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i].name == dim)
            return i;
    return -1;
}

bool type_equal(const Type *a, const Type *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->partial != b->partial ||
        a->max != b->max || a->level != b->level)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i].name != b->dims[i].name || a->dims[i].size != b->dims[i].size ||
            !dim_lies_as(a->dims[i], b->dims[i]))
            return false;
    return true;
}

bool type_same_dims(const Type *a, const Type *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        int j = type_find(b, a->dims[i].name);
        if (j < 0 || b->dims[j].size != a->dims[i].size || !dim_lies_as(a->dims[i], b->dims[j]))
            return false;
    }
    return true;
}

bool join_is_outermost(const Module *m, const Ins *join)
{
    const Type *t = type_of(m, join->out[0]);
    for (uint32_t k = 0; k < join->nin; k++) {
        const Type *part = type_of(m, join->in[k]);
        if (part->rank != t->rank)
            return false;
        for (int i = 0; i < t->rank; i++)
            if (part->dims[i].name != t->dims[i].name)
                return false;
    }
    int first = 0;
    while (first + 1 < t->rank && t->dims[first].size == 1)
        first++;
    return t->dims[first].name == join->attrs.dim.name;
}

Axes type_axes(const Type *t)
{
    Axes all = 0;
    for (int i = 0; i < t->rank; i++)
        all |= t->dims[i].axes;
    return all;
}

void type_strip(Type *t)
{
    for (int i = 0; i < t->rank; i++)
        t->dims[i] = dim_lying_as(t->dims[i], (Dim){0});
    t->partial = t->max = 0;
}

int64_t type_elements(const Type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i].size;
    return n;
}

int64_t type_bytes(const Type *t)
{
    return type_elements(t) * dtype_bytes(t->dtype);
}

bool dims_have(const DimList *l, Name dim)
{
    for (int i = 0; i < l->n; i++)
        if (l->dim[i].name == dim)
            return true;
    return false;
}

DType tensor_kept(const Module *m, const Tensor *t)
{
    const Goal *g = &m->train.goal[t->goal];
    if (t->rounded || t->follows || !t->external_rank || t->base)
        return DT_none;
    const bool base = m->adapter && t->frozen && t->external_rank >= 2;
    if (!t->slot)
        return base && m->train.half == DT_bf16 ? DT_bf16 : m->train.master;
    return strcmp(name_str(m->names, t->slot), ROUNDED_SLOT) && !dtype_is_dynamic(g->state)
               ? g->state
               : DT_none;
}

TensorClass tensor_class(const Module *m, const Tensor *t)
{
    bool rule = false;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        rule |= m->layout.rules.data[r].of == CLASS_state;
    if (t->slot && !tensor_is_rounded(t))
        return CLASS_state;
    const bool halves = tensor_is_rounded(t)
                            ? m->tensors.data[t->parameter].master
                            : dtype_is_half(t->type.dtype) && t->external_rank >= 2 && !t->frozen;
    const bool once = m->layout.once && t->stacked && halves;
    /* A step that generates answers reads halves for each token, and would gather them. */
    const bool ahead = tensor_is_ahead(t) && !m->train.rollout.size;
    return rule && (t->master || ahead || once) ? CLASS_state : CLASS_params;
}

Module *module_new(Arena *a, Names *names, Diag *d)
{
    Module *m = NEW(a, Module);
    m->arena = a;
    m->names = names;
    m->diag = d;
    m->train.goals = 1;
    vec_push(a, &m->values, (ValueInfo){0});
    return m;
}

Fn *module_fn(const Module *m, const char *name)
{
    for (size_t i = 0; i < m->fns.n; i++)
        if (strcmp(name_str(m->names, m->fns.data[i]->name), name) == 0)
            return m->fns.data[i];
    return NULL;
}

Region *region_new(Module *m, Region *parent)
{
    Region *r = NEW(m->arena, Region);
    r->parent = parent;
    return r;
}

Value value_new(Module *m, Region *home, Type t, Name hint)
{
    vec_push(m->arena, &m->values, (ValueInfo){.type = t, .name = hint, .home = home});
    return (Value)(m->values.n - 1);
}

Value region_arg(Module *m, Region *r, Type t, Name hint)
{
    Value v = value_new(m, r, t, hint ? hint : name_intern(m->names, "a"));
    vec_push(m->arena, &r->args, v);
    return v;
}

const char *const schedule_names[LR_count] = {"constant",     "linear", "cosine",       "wsd",
                                              "inverse_sqrt", "warmup", "warmup_cosine"};
const char *const descent_names[DESCENT_count] = {"linear", "cosine", "sqrt"};
