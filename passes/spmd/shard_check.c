/* shard_check.c - can the layout's rules be followed by this program? Each dim that is split has to
 * come out even; see shard.h. */
#include "passes/spmd/shard.h"
#include "ir/propose.h"

#include <string.h>

static const LayoutRule *rule_of(const Module *m, Name dim, Axes axes)
{
    const LayoutRule *first = NULL;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        for (int k = 0; k < rule->n && !first; k++)
            if (!rule->of && rule->dim == dim && axes >> rule->axis[k] & 1)
                first = rule;
    }
    return first;
}

/* The place where the line of a rule begins. */
static Span line_of(const Module *m, Span rule)
{
    size_t size, at = rule.begin;
    const char *text = rule.file ? diag_text(m->diag, rule.file, &size) : NULL;
    while (text && at && text[at - 1] != '\n')
        at--;
    while (text && text[at] == ' ')
        at++;
    return text ? (Span){rule.file, (uint32_t)at, (uint32_t)at} : (Span){0};
}

/* Padding, of which the front end adds at most a fourth by itself (grammar/pad.c). */
static void propose_padding(const Module *m, const LayoutRule *rule, Dim d, int64_t size)
{
    const Span at = line_of(m, rule ? rule->span : (Span){0});
    const char *dim = name_str(m->names, d.name);
    const char *pad = arena_printf(m->arena, "pad %s to %lld", dim, (long long)size);
    if (at.file)
        diag_remedy(m->diag, &(Remedy){1, {{at, arena_printf(m->arena, "%s\n", pad)}}},
                    "`%s` in the layout: %lld%% more of all that has '%s'", pad,
                    (long long)((size - d.size) * 100 / d.size), dim);
}

static void uneven(const Module *m, Dim d, Axes axes)
{
    const LayoutRule *rule = rule_of(m, d.name, axes);
    int64_t ranks = mesh_size(m, axes);
    int64_t unit = mesh_unit(m, mesh_ruled(m, d.name, axes)), each = unit / ranks;
    const char *dim = name_str(m->names, d.name), *axis = mesh_axes_text(m, axes);
    diag_error(m->diag, rule ? rule->span : (Span){0}, 332,
               "'%s' of %lld is not split evenly on %s, which is %lld ranks%s", dim,
               (long long)d.size, axis, (long long)ranks,
               each > 1 ? ", each with two parts in zigzag order" : "");
    propose_ranks(m->diag, m, axes, d.size, each);
    const int64_t even = (d.size + unit - 1) / unit * unit;
    propose_size(m->diag, dim, even);
    propose_padding(m, rule, d, even);
}

void shard_cuts(const Module *m, Value v, bool fixed[MAX_RANK])
{
    const Ins *i = m->values.data[v].def;
    if (!i || !OP_AMONG(i->op, OP_window, OP_rename, OP_reindex))
        return;
    const Attrs *a = &i->attrs;
    const Type *t = type_of(m, v);
    Axes axes[MAX_RANK];
    mesh_walk(m, t->dims, t->rank, fixed, axes);
    for (int k = 0; k < t->rank; k++) {
        const Name d = t->dims[k].name;
        const bool whole = d == (i->op == OP_window ? a->along.name : a->dim.name) ||
                           (i->op == OP_rename && d == a->to.name) ||
                           (i->op == OP_reindex && dims_have(&a->over, d));
        fixed[k] = whole && !(axes[k] & m->layout.pipeline.axis) &&
                   t->dims[k].size % mesh_unit(m, mesh_ruled(m, d, axes[k])) != 0;
    }
}

static bool generates(const Module *m)
{
    return module_fn(m, "decode") != NULL;
}

/* Marks the values of a region. */
static void mark(const Region *r, bool *there)
{
    for (size_t k = 0; k < r->args.n; k++)
        there[r->args.data[k]] = true;
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        for (uint32_t x = 0; x < i->nout; x++)
            there[i->out[x]] = true;
        if (i->body)
            mark(i->body, there);
    }
}

/* The values to be looked at: those of the functions, where there were others, of a batch of
 * training and of whole windows (grammar/elaborate.c, passes/model/generate.c); else all. */
static bool *values_there(const Module *m, Arena *tmp)
{
    bool *there = NEW_ARRAY(tmp, bool, m->values.n + 1);
    memset(there, !generates(m), m->values.n);
    for (size_t f = 0; f < m->fns.n; f++)
        mark(m->fns.data[f]->body, there);
    return there;
}

typedef struct Sizes {
    const Module *m;
    VEC(Name) told;
    Axes used;
    bool *applied;
} Sizes;

/* Notes which axes split the dims, by which rules; tells of a size that does not come out even. */
static void note_split(Sizes *s, const Type *t, const bool *fixed, Arena *tmp)
{
    const Module *m = s->m;
    Axes axes[MAX_RANK];
    mesh_walk_noting(m, t->dims, t->rank, fixed, axes, s->applied);
    for (int i = 0; i < t->rank; i++) {
        bool known = (axes[i] & m->layout.pipeline.axis) || /* stages may be of any sizes */
                     t->dims[i].size % mesh_unit(m, mesh_ruled(m, t->dims[i].name, axes[i])) == 0;
        s->used |= axes[i];
        for (size_t k = 0; k < s->told.n && !known; k++)
            known = s->told.data[k] == t->dims[i].name;
        if (known)
            continue;
        vec_push(tmp, &s->told, t->dims[i].name);
        uneven(m, t->dims[i], axes[i]);
    }
}

/* Sizes; and which axes split anything at all, by which rules. */
static bool sizes_are_even(const Module *m, Axes *used, bool *applied, Arena *tmp)
{
    Sizes s = {.m = m, .applied = applied};
    const bool *there = values_there(m, tmp);
    for (size_t v = 1; v < m->values.n; v++) {
        bool fixed[MAX_RANK] = {false};
        if (!there[v])
            continue;
        shard_cuts(m, (Value)v, fixed);
        note_split(&s, &m->values.data[v].type, fixed, tmp);
    }
    for (size_t t = 0; t < m->tensors.n; t++) {
        const bool fixed[MAX_RANK] = {false};
        note_split(&s, &m->tensors.data[t].type, fixed, tmp);
        for (TensorClass c = CLASS_state; c < CLASS_count; c++) {
            Split split = class_split(m, (uint32_t)t, c);
            for (int i = 0; i < m->tensors.data[t].type.rank; i++)
                s.used |= split.axes[i];
        }
    }
    *used = s.used;
    return s.told.n == 0;
}

/* The place where the setting that names the axis begins; no place if it is not found. */
static Span before_mesh(const Module *m, Axis a)
{
    static const char word[] = "mesh";
    size_t size, n = sizeof word - 1;
    const char *text = diag_text(m->diag, a.span.file, &size);
    for (size_t i = a.span.begin; a.span.file && i-- > 0;)
        if (i + n <= size && !memcmp(text + i, word, n))
            return (Span){a.span.file, (uint32_t)i, (uint32_t)i};
    return (Span){0};
}

static void propose_rule(const Module *m, Axis a)
{
    const char *rule = arena_printf(m->arena, "%s -> %s", name_str(m->names, m->batch.name),
                                    name_str(m->names, a.name));
    Span at = before_mesh(m, a);
    if (at.file)
        diag_remedy(m->diag, &(Remedy){1, {{at, arena_printf(m->arena, "%s\n", rule)}}},
                    "a rule, such as %s", rule);
}

static bool all_are_used(const Module *m, Axes used)
{
    bool all = true;
    for (size_t i = 0; i < m->layout.mesh.n; i++) {
        Axis a = m->layout.mesh.data[i];
        if (used >> i & 1)
            continue;
        all = false;
        diag_error(m->diag, a.span, 333, "no rule splits anything on axis '%s', of %lld ranks",
                   name_str(m->names, a.name), (long long)a.size);
        propose_rule(m, a);
        propose_size(m->diag, name_str(m->names, a.name), 1);
    }
    return all;
}

/* The most elements of a dim of that name that anything has; 0: nothing has it. */
static int64_t size_of(const Module *m, Name dim)
{
    int64_t max = 0;
    for (size_t v = 1; v < m->values.n; v++) {
        const Type *t = &m->values.data[v].type;
        int at = type_find(t, dim);
        max = at >= 0 && t->dims[at].size > max ? t->dims[at].size : max;
    }
    return max;
}

/* Dims of parameters: what rules are for. */
static const char *dims_of_parameters(const Module *m)
{
    const char *all = "";
    VEC(Name) told = {0};
    for (size_t k = 0; k < m->tensors.n; k++)
        for (int i = m->tensors.data[k].stacked; i < m->tensors.data[k].type.rank; i++) {
            Name d = m->tensors.data[k].type.dims[i].name;
            bool known = false;
            for (size_t n = 0; n < told.n; n++)
                known |= told.data[n] == d;
            if (known)
                continue;
            vec_push(m->arena, &told, d);
            all = arena_printf(m->arena, "%s%s%s", all, *all ? ", " : "", name_str(m->names, d));
        }
    return all;
}

/* Is a rule one that pass chunk added? No dim of a source has a point in its name. */
static bool is_added(const Module *m, const LayoutRule *rule)
{
    return !rule->of && strchr(name_str(m->names, rule->dim), '.');
}

/* A rule for what is not there is an error; one that others have left nothing, a warning. A program
 * that only generates has less than the one that trains, which says it. */
static bool rules_apply(const Module *m, const bool *applied)
{
    const bool only = generates(m) && !module_fn(m, "train");
    bool all = true;
    for (size_t r = 0; r < m->layout.rules.n && !only; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        Axes axes = 0;
        for (int k = 0; k < rule->n; k++)
            axes |= (Axes)1 << rule->axis[k];
        if (is_added(m, rule))
            continue;
        int64_t size = rule->of ? 1 : size_of(m, rule->dim);
        const char *dim = rule->of ? "" : name_str(m->names, rule->dim);
        if (size == 0) {
            all = false;
            diag_error(m->diag, rule->span, 337,
                       "a rule for '%s', which nothing in the program has", dim);
            diag_help(m->diag, "parameters have %s", dims_of_parameters(m));
        } else if (size > 1 && !applied[r]) {
            diag_warning(m->diag, rule->span, 338,
                         "this rule splits nothing: wherever '%s' is, %s is in use by rules before",
                         dim, mesh_axes_text(m, axes));
        }
    }
    return all;
}

static bool attention_runs_along(const Region *r, Name dim)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        if ((i->op == OP_attention && i->attrs.along.name == dim &&
             (!i->attrs.keys.name || i->attrs.causal)) ||
            (i->body && attention_runs_along(i->body, dim)))
            return true;
    }
    return false;
}

/* The first option of that name behind the rule's dim. */
static Span zigzag_of(const Module *m, const LayoutRule *rule)
{
    size_t size;
    const char *text = diag_text(m->diag, rule->span.file, &size);
    const char *found = rule->span.file ? strstr(text + rule->span.end, "zigzag") : NULL;
    uint32_t at = found ? (uint32_t)(found - text) : 0;
    return found ? (Span){rule->span.file, at, at + 6} : (Span){0};
}

/* Zigzag order is for causal attention: it gives all ranks as much of it. */
static bool zigzags_balance(const Module *m)
{
    bool all = true;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        bool along = false;
        for (size_t f = 0; f < m->fns.n; f++)
            along |= !rule->of && attention_runs_along(m->fns.data[f]->body, rule->dim);
        if (!rule->zigzag || along || is_added(m, rule))
            continue;
        all = false;
        const char *what = rule->of ? class_names[rule->of] : name_str(m->names, rule->dim);
        diag_error(m->diag, rule->span, 340,
                   "'%s' is split in zigzag order, and no attention runs along it", what);
        Span option = zigzag_of(m, rule);
        if (option.file)
            diag_remedy(m->diag, &(Remedy){1, {{entry_with_comma(m->diag, option), ""}}},
                        "%s -> %s, without it", what, mesh_axes_text(m, rule->zigzag));
    }
    return all;
}

bool shard_is_possible(const Module *m, Arena *tmp)
{
    Axes used = 0;
    if (!zigzags_balance(m) || !exchanges_are_possible(m))
        return false;
    bool *applied = NEW_ARRAY(tmp, bool, m->layout.rules.n + 1);
    bool even = sizes_are_even(m, &used, applied, tmp), apply = rules_apply(m, applied);
    return all_are_used(m, used) && even && apply;
}
