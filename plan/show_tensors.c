/* show_tensors.c - what of each tensor a rank has, and the rule that split it. */
#include "base/quantity.h"
#include "plan/place/place.h"
#include "plan/plan.h"
#include "plan/show.h"

#include <jansson.h>

static bool is_state(const Tensor *t)
{
    return t->slot && !tensor_is_rounded(t);
}

/* The rule that splits a tensor's dim on an axis: that of the dim, or else that of its class. */
static const LayoutRule *deciding_rule(const Module *m, const Tensor *t, Name dim, int axis)
{
    const TensorClass of = tensor_class(m, t);
    const LayoutRule *of_class = NULL;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        for (int k = 0; k < rule->n; k++) {
            if (rule->axis[k] == axis && !rule->of && rule->dim == dim)
                return rule;
            if (rule->axis[k] == axis && rule->of == of && !of_class)
                of_class = rule;
        }
    }
    return of_class;
}

int tensor_splits(const Module *m, const Tensor *t, TensorSplit *out)
{
    int n = 0;
    for (int d = 0; d < t->type.rank; d++)
        for (int axis = 0; axis < (int)m->layout.mesh.n; axis++) {
            Name dim = t->type.dims[d].name;
            const LayoutRule *rule = t->axes[d] >> axis & 1 ? deciding_rule(m, t, dim, axis) : NULL;
            if (rule)
                out[n++] = (TensorSplit){dim, m->layout.mesh.data[axis].name,
                                         t->zigzag[d] >> axis & 1, rule};
        }
    return n;
}

const char *split_rule(const Module *m, const TensorSplit *s)
{
    return s->rule->of ? class_names[s->rule->of] : name_str(m->names, s->rule->dim);
}

/* "kv_heads on tp (kv_heads, line 54)", of each dim that is split; "whole" of a tensor of which
 * none is. */
static const char *why(const Module *m, const Tensor *t)
{
    TensorSplit all[MAX_AXES];
    const char *text = NULL;
    int n = tensor_splits(m, t, all), line = 0, column;
    for (int i = 0; i < n; i++) {
        diag_locate(m->diag, all[i].rule->span, &line, &column);
        text = arena_printf(m->arena, "%s%s%s on %s%s (%s, line %d)", text ? text : "",
                            text ? ", " : "", name_str(m->names, all[i].dim),
                            name_str(m->names, all[i].axis),
                            all[i].zigzag ? " in zigzag order" : "", split_rule(m, &all[i]), line);
    }
    return text ? text : "whole";
}

static const char *dims_text(const Module *m, const Type *t)
{
    const char *text = "";
    for (int i = 0; i < t->rank; i++)
        text = arena_printf(m->arena, "%s%s%s=%lld", text, i ? ", " : "",
                            name_str(m->names, t->dims[i].name), (long long)t->dims[i].size);
    return arena_printf(m->arena, "[%s]", text);
}

static void print_tensor(const Module *m, const char *name, const Tensor *t, int alike, FILE *out)
{
    const char *bytes = text_bytes(m->arena, (double)type_bytes(&t->type));
    fprintf(out, "  %-44s %8s%-5s %s %s\n", name, bytes,
            alike > 1 ? arena_printf(m->arena, " x %d", alike) : "", dims_text(m, &t->type),
            why(m, t));
}

/* Of state, what lies unlike its parameter; the slots that lie alike in one line. */
static void print_state(const Module *m, uint32_t parameter, FILE *out)
{
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        int alike = 0, before = 0;
        if (t->parameter != parameter || !is_state(t) ||
            type_equal(&t->type, &m->tensors.data[parameter].type))
            continue;
        for (size_t k = 0; k < m->tensors.n; k++) {
            const Tensor *u = &m->tensors.data[k];
            bool same = u->parameter == parameter && is_state(u) && type_equal(&t->type, &u->type);
            alike += same;
            before += same && k < i;
        }
        if (!before)
            print_tensor(m, "  its state", t, alike, out);
    }
}

static void print_copy(const Module *m, uint32_t parameter, FILE *out)
{
    for (size_t i = 0; i < m->tensors.n; i++)
        if (m->tensors.data[i].parameter == parameter && tensor_is_rounded(&m->tensors.data[i]))
            print_tensor(m, arena_printf(m->arena, "  its copy in %s", dtype_name(m->train.half)),
                         &m->tensors.data[i], 1, out);
}

/* The external name; of a part with its place. */
static const char *external_text(const Module *m, const Tensor *t)
{
    const char *name = name_str(m->names, t->external);
    return t->part_of ? arena_printf(m->arena, "%s at %lld", name, (long long)t->part_at) : name;
}

void plan_print_tensors(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    if (!m->layout.mesh.n)
        return;
    fputs("what a rank has of each parameter, and the rules that split it\n", out);
    for (size_t i = 0; i < m->tensors.n; i++)
        if (!m->tensors.data[i].slot) {
            print_tensor(m, external_text(m, &m->tensors.data[i]), &m->tensors.data[i], 1, out);
            print_state(m, (uint32_t)i, out);
            print_copy(m, (uint32_t)i, out);
        }
}

/* ---- an adapter's -------------------------------------------------------------------------- */

int64_t plan_parameters(const Plan *p, bool adapter)
{
    int64_t n = 0;
    for (size_t i = 0; i < p->module->tensors.n; i++) {
        const Tensor *t = &p->module->tensors.data[i];
        if (adapter && !t->adapter)
            continue;
        int64_t e = 1;
        for (int k = 0; k < t->type.rank; k++)
            e *= t->valid[k];
        const int each = t->base == BASE_codes   ? 2
                         : t->base == BASE_bytes ? 1
                                                 : t->base == 0; /* elements a number */
        n += t->slot ? 0 : e * each;
    }
    return n;
}

void plan_print_adapter(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    const int64_t bytes = plan_bytes(p);
    if (!m->adapter)
        return;
    fprintf(out, "adapter      %lld parameters are trained, the others are frozen",
            (long long)plan_parameters(p, true));
    if (p->unfrozen_bytes)
        fprintf(out, ": %s of memory, and %s if all were trained",
                text_bytes(m->arena, (double)bytes),
                text_bytes(m->arena, (double)p->unfrozen_bytes));
    fputc('\n', out);
}

void plan_adapter_json(const Plan *p, json_t *to)
{
    if (p->module->adapter)
        json_object_set_new(to, "adapter",
                            json_pack("{s:I, s:I}", "params", (json_int_t)plan_parameters(p, true),
                                      "unfrozen_bytes", (json_int_t)p->unfrozen_bytes));
}
