/* metric.c - `metric NAME = expression`: a number that evaluation reports beside the loss.
 *
 * @eval alone has metrics, so that no step of training computes one. Training has the loss without
 * them: what only a metric reads is swept away, and there is nothing to differentiate. In @train
 * the expression is built all the same, since the messages of a source are those of @train. While
 * sampling there are no targets, and a metric is nothing.
 *
 * Sums that stand in the expression itself are made in double, as those of a loss are
 * (builtin.c). */
#include "grammar/elab.h"

#include <string.h>

enum { METRIC_NAME_MAX = 64 }; /* of a tag of TensorBoard (runtime/log/tfevents.c) */

static const char *const where = "metric NAME = expression is a statement of the model";

/* May a metric of this name stand here? */
static bool check_metric(Elab *e, const Node *n)
{
    if (e->frame->block->kind != N_MODEL || e->loop) {
        fail(e, n->at, 277, e->loop ? "a metric inside of a repeat" : "a metric inside of a block");
        help(e, "%s%s", where,
             e->loop ? ": assign a value before the repeat, and use it after it"
                     : ": return the value from the block");
        return false;
    }
    if (!strcmp(text(e, n->name), "loss")) {
        fail(e, n->at, 277, "the loss is no metric: it is reported anyway");
        help(e, "loss = ...");
        return false;
    }
    if (strlen(text(e, n->name)) > METRIC_NAME_MAX) {
        fail(e, n->at, 277, "the name of a metric has at most %d bytes", METRIC_NAME_MAX);
        return false;
    }
    if (e->metrics.n == MAX_METRICS) {
        fail(e, n->at, 277, "more than %d metrics", MAX_METRICS);
        return false;
    }
    return true;
}

/* One number of the data; else 0, after an error. */
static Value number_of(Elab *e, const Node *n, Val v)
{
    if (v.kind == VAL_POISON)
        return 0;
    if (v.kind == VAL_NUMBER) {
        fail(e, n->at, 277, "metric '%s' is the number %s: it depends on no data", text(e, n->name),
             number_text(e->arena, v.number));
        return 0;
    }
    const Type *t = type_of(e->module, v.value);
    if (t->rank || !dtype_is_float(t->dtype)) {
        fail(e, n->at, 277, "metric '%s' must be one number; this is %s", text(e, n->name),
             dtype_is_float(t->dtype) ? type_text(e, v.value) : "indices or a condition");
        help(e, "metric %s = mean(select(condition, 1, 0))", text(e, n->name));
        return 0;
    }
    return build_cast(&e->b, v.value, DT_f64);
}

void metric(Elab *e, const Node *n)
{
    if (!check_metric(e, n))
        return;
    const bool reads = e->mode != MODE_SAMPLE;
    e->in_metric = true;
    Val v = reads ? expr(e, n->a) : (Val){.kind = VAL_POISON};
    e->in_metric = false;
    Value result = reads ? number_of(e, n, v) : 0;
    Sym *s = declare(e, SYM_VALUE, n->name, n->at);
    if (!s)
        return;
    s->val = result ? v : (Val){.kind = VAL_POISON};
    s->ready = s->used = s->metric = true;
    vec_push(e->arena, &e->metrics, result);
    if (e->mode == MODE_TRAIN)
        vec_push(e->module->arena, &e->module->metrics, n->name);
}
