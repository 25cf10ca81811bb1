/* plan_file.c - see plan_file.h: what plan/show.c says of a plan, and what the driver knows beside
 * it: the format, how sure the numbers are, and the timeline of a step. */
#include "compiler/diff/plan_file.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/report/numbers.h"
#include "compiler/report/step_json.h"
#include "plan/show.h"

static json_t *step_of(const Plan *p)
{
    const Module *m = p->module;
    const double tokens = (double)m->batch.size * (double)m->seq.size;
    return json_pack("{s:I, s:I, s:I, s:f}", "sequences", (json_int_t)m->batch.size, "length",
                     (json_int_t)m->seq.size, "at_once", (json_int_t)m->layout.microbatch,
                     "tokens_per_second", tokens / p->train->seconds);
}

static json_t *kinds_of(const Plan *p)
{
    double by_kind[ACT_count] = {0};
    json_t *o = json_object();
    plan_seconds_by_kind(p->train, by_kind);
    for (int k = 0; k < ACT_count; k++)
        if (by_kind[k] > 0)
            json_object_set_new(o, action_info[k].name, json_real(by_kind[k] * 1e3));
    return o;
}

/* Bytes of a rank that lie on each other level, by owner: every buffer, whether its bytes are
 * shared or not. */
static json_t *offloaded_of(const Plan *p)
{
    json_t *all = json_object();
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++) {
        int64_t bytes[OWN_count] = {0};
        for (size_t i = 0; i < p->buffers.n; i++)
            if (plan_has_buffer(&p->buffers.data[i], (Level)l))
                bytes[p->buffers.data[i].owner] += p->buffers.data[i].bytes;
        json_t *o = json_object();
        for (int k = 0; k < OWN_count; k++)
            if (bytes[k])
                json_object_set_new(o, plan_owner((Owner)k), json_integer((json_int_t)bytes[k]));
        if (json_object_size(o))
            json_object_set(all, level_names[l], o);
        json_decref(o);
    }
    return all;
}

json_t *plan_file_json(Session *s, const Compiled *c)
{
    Plan *p = c->plan;
    if (c->module->adapter)
        p->unfrozen_bytes = unfrozen_bytes(s, p);
    json_t *o = json_pack("{s:i, s:s}", "plan", PLAN_FORMAT, "mgc", MGC_VERSION);
    json_t *rest = plan_json(p), *timeline = json_object();
    const Sure time = sure_time(p, s->arena);
    json_object_update(o, rest);
    json_decref(rest);
    json_object_set_new(o, "step", step_of(p));
    json_object_set_new(o, "kinds_ms", kinds_of(p));
    json_object_set_new(o, "offloaded", offloaded_of(p));
    json_object_set_new(o, "known", json_pack("{s:s, s:s}", "step", time.word, "by", time.why));
    json_object_set_new(o, "numbers", numbers_json(p, s->arena));
    /* Of ranks that do the same one's, two iterations of each loop: enough to draw a step, and
     * little beside the rest. */
    step_json(p, (TraceScope){.rank = TRACE_each, .iterations = 2, .phases = 2048}, false, s->arena,
              timeline);
    json_object_set_new(o, "timeline", timeline);
    return o;
}

void plan_file_write(const json_t *plan, FILE *out)
{
    const size_t flags = JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9);
    json_t *rest = json_copy((json_t *)plan);
    json_t *timeline = json_incref(json_object_get(rest, "timeline"));
    json_object_del(rest, "timeline");
    char *text = json_dumps(rest, flags | JSON_INDENT(2));
    const size_t n = text ? strlen(text) : 0;
    if (n > 2) /* without the brace that ends it, and the line before */
        fprintf(out, "%.*s,\n  \"timeline\": ", (int)(n - 2), text);
    json_dumpf(timeline, out, flags | JSON_COMPACT);
    fputs("\n}\n", out);
    free(text);
    json_decref(timeline);
    json_decref(rest);
}

Exit plan_file_read(Session *s, const char *path, json_t **plan)
{
    size_t size;
    json_error_t error;
    const uint32_t file = read_source(s, path);
    if (!file)
        return EXIT_usage;
    const char *text = diag_text(s->diag, file, &size);
    *plan = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    const char *wrong =
        *plan ? plan_file_wrong(*plan, s->arena)
              : arena_printf(s->arena, "no JSON: line %d: %s", error.line, error.text);
    if (!wrong)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 660, "'%s' is no plan: %s", path, wrong);
    diag_help(s->diag, "mgc F.mg --plan=json >plan.json writes one; a model's name ends in .mg");
    return EXIT_source;
}
