/* best.c - which evaluations of a run were the best, by the loss or by a metric: --best-by,
 * --keep-best and --patience.
 *
 * A criterion is the name of a number in metrics.jsonl and the way in which it gets better:
 * "val_accuracy:max". It is kept in the state with the best value, so that a resumed run goes on
 * as the run that was not interrupted. The checkpoint of one of the best evaluations is saved at
 * once, and never pruned as long as there are not as many better ones as are kept. A value that is
 * not finite is never the best. */
#include "runtime/json.h"
#include "runtime/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char by_loss[] = "val_loss:min";

/* The number of a criterion: -1 is the loss, from 0 on metrics; -2: there is none of that name. */
static int number_of(const mg_program *p, const char *by)
{
    size_t n = strcspn(by, ":");
    if (n == 8 && memcmp(by, "val_loss", n) == 0)
        return -1;
    for (int64_t i = 0; n > 4 && memcmp(by, "val_", 4) == 0 && i < p->eval.nmetrics; i++)
        if (strlen(p->eval.metric[i].name) == n - 4 &&
            memcmp(p->eval.metric[i].name, by + 4, n - 4) == 0)
            return (int)i;
    return -2;
}

char *rt_metrics_text(const mg_program *p)
{
    char *names = rt_printf("%s", p->eval.present ? "val_loss" : "nothing");
    for (int64_t i = 0; i < p->eval.nmetrics; i++) {
        char *more = rt_printf("%s, val_%s", names, p->eval.metric[i].name);
        free(names);
        names = more;
    }
    return names;
}

char *rt_best_wrong(const mg_program *p, const char *by)
{
    int n = (int)strcspn(by, ":");
    const char *way = by + n;
    if (number_of(p, by) == -2) {
        char *names = rt_metrics_text(p);
        char *why = rt_printf("there is no such number; evaluation gives %s", names);
        free(names);
        return why;
    }
    if (!*way && number_of(p, by) >= 0)
        return rt_printf("which is better? %s:max, or %s:min", by, by);
    if (*way && strcmp(way, ":min") != 0 && strcmp(way, ":max") != 0)
        return rt_printf("after the name comes :min or :max, not '%s'", way);
    return NULL;
}

void rt_best_settle(mg_run *r, bool resumed)
{
    const rt_options *o = r->options;
    rt_best *b = &r->state.best;
    const bool asked = o->best_by || o->patience != RT_UNSET || o->keep_best != RT_UNSET,
               was = resumed && *b->by;
    char *by = o->best_by ? rt_printf("%s%s", o->best_by, strchr(o->best_by, ':') ? "" : ":min")
               : was      ? rt_printf("%s", b->by)
                          : rt_printf("%s", asked ? by_loss : "");
    if (was && number_of(r->program, by) == -2) { /* of a program with other metrics */
        rt_warn("the resumed run chose its best evaluation by %s, which this program has not", by);
        *by = 0;
    }
    if (!was || strcmp(by, b->by)) {
        if (was && *by)
            rt_note("--best-by %s: the resumed run chose by %s; the best is looked for anew", by,
                    b->by);
        *b = (rt_best){.step = -1, .patience = b->patience, .keep = was ? b->keep : 1};
        snprintf(b->by, sizeof b->by, "%s", by);
    }
    if (o->patience != RT_UNSET)
        b->patience = o->patience;
    if (b->keep < 1) { /* of an older checkpoint, which had the best alone */
        b->keep = 1;
        b->ntop = b->step >= 0;
        b->top[0] = (rt_ranked){b->value, b->step};
    }
    if (o->keep_best != RT_UNSET)
        b->keep = o->keep_best;
    if (b->ntop > b->keep)
        b->ntop = (int)b->keep;
    free(by);
}

/* Behind all that are as good, if there is room. */
static void rank(rt_best *b, double value, int64_t step, bool larger)
{
    int at = 0;
    while (at < b->ntop && (larger ? b->top[at].value >= value : b->top[at].value <= value))
        at++;
    if (at >= b->keep)
        return;
    if (b->ntop < b->keep)
        b->ntop++;
    memmove(b->top + at + 1, b->top + at, (size_t)(b->ntop - at - 1) * sizeof *b->top);
    b->top[at] = (rt_ranked){value, step};
}

bool rt_best_keeps(const rt_best *b, int64_t step)
{
    bool kept = *b->by && b->step == step;
    for (int i = 0; *b->by && i < b->ntop; i++)
        kept |= b->top[i].step == step;
    return kept;
}

bool rt_best_observe(mg_run *r, const rt_scores *s)
{
    rt_best *b = &r->state.best;
    if (!*b->by)
        return false;
    int n = number_of(r->program, b->by);
    double value = n < 0 ? s->loss : s->metric[n];
    bool larger = strcmp(strchr(b->by, ':'), ":max") == 0;
    if (isfinite(value))
        rank(b, value, r->state.step, larger);
    if (!isfinite(value) || (b->step >= 0 && (larger ? value <= b->value : value >= b->value))) {
        b->waited++;
        return false;
    }
    b->value = value;
    b->step = r->state.step;
    b->waited = 0;
    return true;
}

bool rt_best_waited(const mg_run *r)
{
    const rt_best *b = &r->state.best;
    return *b->by && b->patience && b->waited >= b->patience;
}

/* ---- state.json ------------------------------------------------------------------------------ */

void rt_best_print(FILE *f, const rt_best *k)
{
    if (!*k->by)
        return;
    fprintf(f, "\"best\":[\"%s\",%s,%" PRId64 ",%" PRId64 ",%" PRId64 "],\n", k->by,
            rt_double_text(k->value).text, k->step, k->waited, k->patience);
    fprintf(f, "\"best_kept\":[%" PRId64, k->keep);
    for (int i = 0; i < k->ntop; i++)
        fprintf(f, ",%s,%" PRId64, rt_double_text(k->top[i].value).text, k->top[i].step);
    fputs("],\n", f);
}

/* The criterion has one of two endings: rt_best_observe relies on it. */
bool rt_best_parse(rt_json *j, rt_best *b)
{
    int64_t *counts[] = {&b->step, &b->waited, &b->patience};
    if (!rt_json_enter(j, '[') || !rt_json_item(j) || !rt_json_string(j))
        return rt_json_fail(j, "a criterion is expected");
    const char *way = strchr(j->text, ':');
    if (!way || j->length >= sizeof b->by || strlen(j->text) != j->length ||
        (strcmp(way, ":min") != 0 && strcmp(way, ":max") != 0))
        return rt_json_fail(j, "no criterion of a best evaluation");
    memcpy(b->by, j->text, j->length + 1);
    for (int i = 0; i < 4; i++) {
        if (!rt_json_item(j))
            return rt_json_fail(j, "a criterion and four numbers are expected");
        if (!(i ? rt_json_int(j, counts[i - 1]) : rt_json_number(j, &b->value)))
            return false;
    }
    if (b->step < -1 || b->waited < 0 || b->patience < 0)
        return rt_json_fail(j, "a count is negative");
    return !rt_json_item(j) && !j->error;
}

/* How many best evaluations are kept, then value and step of each, the best first. */
bool rt_best_parse_kept(rt_json *j, rt_best *b)
{
    if (!rt_json_enter(j, '[') || !rt_json_item(j) || !rt_json_int(j, &b->keep))
        return rt_json_fail(j, "a number of best evaluations is expected");
    while (rt_json_item(j)) {
        rt_ranked *t = &b->top[b->ntop];
        if (b->ntop >= b->keep || b->ntop >= RT_TOP_MAX)
            return rt_json_fail(j, "more best evaluations than are kept");
        if (!rt_json_number(j, &t->value) || !rt_json_item(j) || !rt_json_int(j, &t->step))
            return rt_json_fail(j, "value and step of an evaluation are expected");
        if (t->step < 1)
            return rt_json_fail(j, "no step of an evaluation");
        b->ntop++;
    }
    return !j->error && (b->keep >= 1 && b->keep <= RT_TOP_MAX
                             ? true
                             : rt_json_fail(j, "no number of best evaluations"));
}
