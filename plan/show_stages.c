/* show_stages.c - how many layers each stage of a pipeline has, and what the plans of decision
 * `stages` said of it (decide/stages.c), as text and JSON. */
#include "base/quantity.h"
#include "plan/show.h"

#include <jansson.h>

/* "3, 2, 3, 0"; of more than three equal ones "1 (126 times)". */
static const char *numbers(const Module *m)
{
    const Pipeline *l = &m->layout.pipeline;
    const char *all = "";
    for (size_t s = 0, run; s < l->layers.n; s += run) {
        const long long n = l->layers.data[s];
        for (run = 1; s + run < l->layers.n && l->layers.data[s + run] == n;)
            run++;
        run = run > 3 ? run : 1;
        all = arena_printf(m->arena, "%s%s%lld", all, s ? ", " : "", n);
        if (run > 1)
            all = arena_printf(m->arena, "%s (%zu times)", all, run);
    }
    return all;
}

/* Of a table with pairs: what they hide; and what plans said, where they were asked. */
static void print_pairs(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    const Pipeline *l = &m->layout.pipeline;
    const PipeJoin *join = p->train && p->train->pipe ? p->train->pipe->join : NULL;
    if (l->pairs != PAIRS_all && !(l->paired[1] > 0))
        return;
    fprintf(out, "%-12s ", "pairs");
    if (l->pairs != PAIRS_all)
        fputs("none", out);
    else if (join)
        fprintf(out, "a forward beside the backward behind it hides %s of a layer of both",
                text_seconds(m->arena, join->hides));
    else
        fputs("one after the other, as nothing would be hidden", out);
    if (l->paired[1] > 0)
        fprintf(out, "; by plans %s a step with pairs, %s without",
                text_seconds(m->arena, l->paired[1]), text_seconds(m->arena, l->paired[0]));
    fputc('\n', out);
}

void plan_print_stages(const Plan *p, FILE *out)
{
    const Module *m = p->module;
    const Pipeline *l = &m->layout.pipeline;
    if (!l->layers.n)
        return;
    fprintf(out, "%-12s %s: %s", "stages", name_str(m->names, l->dim), numbers(m));
    if (l->compared[1] > 0)
        fprintf(out, ", by plans %s a step; with no stage larger than it must be: %s a step",
                text_seconds(m->arena, l->compared[1]), text_seconds(m->arena, l->compared[0]));
    fputc('\n', out);
    print_pairs(p, out);
}

void plan_stages_json(const Plan *p, struct json_t *to)
{
    const Module *m = p->module;
    const Pipeline *l = &m->layout.pipeline;
    json_t *layers = json_array();
    for (size_t s = 0; s < l->layers.n; s++)
        json_array_append_new(layers, json_integer(l->layers.data[s]));
    if (!l->layers.n) {
        json_decref(layers);
        return;
    }
    json_t *o = json_pack("{s:s, s:o}", "dim", name_str(m->names, l->dim), "layers", layers);
    if (l->compared[1] > 0) {
        json_object_set_new(o, "ms", json_real(l->compared[1] * 1e3));
        json_object_set_new(o, "even_ms", json_real(l->compared[0] * 1e3));
    }
    if (p->train && p->train->pipe && p->train->pipe->join)
        json_object_set_new(o, "pair_hides_ms", json_real(p->train->pipe->join->hides * 1e3));
    json_object_set_new(to, "stages", o);
}
