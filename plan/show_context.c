/* show_context.c - how attention runs along dims that are split, and where experts' rows meet their
 * matrices, and what the other way would take (decide/context.c, experts.c), as text and JSON. */
#include "base/quantity.h"
#include "plan/show.h"

#include <jansson.h>
#include <math.h>

static const char *const ways[] = {"ring", "heads"}; /* as LayoutRule.compared */

static Axes axes_of(const LayoutRule *r, int way)
{
    return way ? r->heads : r->ring;
}

static const char *seconds(const Plan *p, double s)
{
    return isinf(s)
               ? "cannot be planned"
               : arena_printf(p->module->arena, "%s a step", text_seconds(p->module->arena, s));
}

void plan_print_context(const Plan *p, FILE *out)
{
    static const char *const does[] = {"keys go round", "heads are exchanged on"};
    const Module *m = p->module;
    const char *title = "context";
    for (size_t k = 0; k < m->layout.rules.n; k++) {
        const LayoutRule *r = &m->layout.rules.data[k];
        for (int way = 0; way < 2; way++) {
            if (!axes_of(r, way))
                continue;
            const bool compared = r->compared[way] > 0;
            fprintf(out, "%-12s %s: %s %s", title, name_str(m->names, r->dim), does[way],
                    mesh_axes_text(m, axes_of(r, way)));
            if (compared)
                fprintf(out, ", by plans %s; %s: %s", seconds(p, r->compared[way]),
                        way ? "a ring" : "an exchange of heads", seconds(p, r->compared[1 - way]));
            fputc('\n', out);
            title = "";
        }
    }
}

/* "experts.home", whose rule stands before that of experts (passes/spmd/send_rows.c). */
static int64_t places_of(const Module *m, const LayoutRule *home)
{
    for (size_t v = 1; v < m->values.n; v++) {
        const Ins *i = m->values.data[v].def;
        if (i && i->op == OP_slots && i->attrs.each && i->attrs.dim.name == home->dim)
            return i->attrs.to.size;
    }
    return 0;
}

/* Is there something to say of where rows and matrices meet? Of homes their experts' rule says it.
 */
static bool tells_of_experts(const Module *m, const LayoutRule *r)
{
    const bool once = r->once && !places_of(m, r);
    return r->rows || once || (r->gather && r->sent[0] > 0);
}

void plan_print_experts(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    const char *title = "experts";
    for (size_t k = 0; k < m->layout.rules.n; k++) {
        const LayoutRule *r = &m->layout.rules.data[k];
        if (!tells_of_experts(m, r))
            continue;
        fprintf(out, "%-12s %s: ", title, name_str(m->names, r->dim));
        if (r->once)
            fprintf(out, "rows are sent once on %s%s", mesh_axes_text(m, r->once),
                    r->rows ? ", and " : "");
        if (r->rows | r->gather)
            fprintf(out, "%s %s", r->rows ? "rows are sent on" : "matrices are gathered on",
                    mesh_axes_text(m, r->rows | r->gather));
        if (r->rows && k && places_of(m, r - 1))
            fprintf(out, ", %lld places of a group on each rank, %s",
                    (long long)places_of(m, r - 1),
                    r->bound > 0 ? "others are dropped" : "as many as it may send there");
        if (r->sent[0] > 0)
            fprintf(out, ", by plans %s; %s: %s", seconds(p, r->sent[r->rows != 0]),
                    r->rows ? "matrices gathered" : "rows sent", seconds(p, r->sent[!r->rows]));
        fputc('\n', out);
        title = "";
    }
}

void plan_experts_json(const Module *m, struct json_t *to)
{
    json_t *all = json_array();
    for (size_t k = 0; k < m->layout.rules.n; k++) {
        const LayoutRule *r = &m->layout.rules.data[k];
        if (!tells_of_experts(m, r))
            continue;
        json_t *o = json_pack("{s:s, s:s, s:s}", "dim", name_str(m->names, r->dim), "axes",
                              mesh_axes_text(m, r->rows | r->gather | r->once), "moves",
                              r->rows | r->once ? "rows" : "matrices");
        if (r->once)
            json_object_set_new(o, "once", json_string(mesh_axes_text(m, r->once)));
        if (r->bound > 0)
            json_object_set_new(o, "bound", json_real(r->bound));
        for (int way = 0; way < 2; way++)
            if (r->sent[way] > 0 && !isinf(r->sent[way]))
                json_object_set_new(o, way ? "rows_ms" : "matrices_ms",
                                    json_real(r->sent[way] * 1e3));
        json_array_append_new(all, o);
    }
    if (json_array_size(all))
        json_object_set_new(to, "experts", all);
    else
        json_decref(all);
}

void plan_context_json(const Module *m, struct json_t *to)
{
    json_t *all = json_array();
    for (size_t k = 0; k < m->layout.rules.n; k++) {
        const LayoutRule *r = &m->layout.rules.data[k];
        for (int way = 0; way < 2; way++) {
            if (!axes_of(r, way))
                continue;
            json_t *o = json_pack("{s:s, s:s, s:s}", "dim", name_str(m->names, r->dim), "axes",
                                  mesh_axes_text(m, axes_of(r, way)), "attention", ways[way]);
            for (int other = 0; other < 2; other++)
                if (r->compared[other] > 0 && !isinf(r->compared[other]))
                    json_object_set_new(o, other ? "heads_ms" : "ring_ms",
                                        json_real(r->compared[other] * 1e3));
            json_array_append_new(all, o);
        }
    }
    if (json_array_size(all))
        json_object_set_new(to, "context", all);
    else
        json_decref(all);
}
