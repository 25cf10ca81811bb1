/* goals.c - `train critic_loss where "critic.*" { ... }`: further losses, each with parameters, an
 * optimizer and a rate of its own. In @train they are results beside the loss; @eval reports them
 * as it does metrics. */
#include "grammar/config.h"
#include "ir/propose.h"

#include <string.h>

enum { LOSS_NAME_MAX = 48 }; /* of a tag of TensorBoard, with "_grad_norm" behind it */

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

/* Is it the key of something else in metrics.jsonl? */
static bool is_key(const char *name)
{
    static const char *const keys[] = {
        "step",   "lr",      "grad_norm", "step_ms", "tokens_per_s", "time",    "loss_scale",
        "tokens", "skipped", "overflow",  "dropped", "event",        "wait_ms", "memory_used"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(name, keys[i]))
            return true;
    return ends_with(name, "_lr") || ends_with(name, "_grad_norm");
}

static bool check_loss_name(Elab *e, const Node *n)
{
    const Train *t = &e->module->train;
    const char *name = text(e, n->name);
    if (strlen(name) > LOSS_NAME_MAX) {
        fail(e, n->at, 317, "the name of a loss has at most %d bytes", LOSS_NAME_MAX);
        return false;
    }
    if (!strcmp(name, "loss")) {
        fail(e, n->at, 317, "the parameters of `loss` are those that no other loss has");
        help(e, "its train block has no name: train { ... }");
        return false;
    }
    if (is_key(name)) {
        fail(e, n->at, 317, "'%s' is something else in metrics.jsonl: choose another name", name);
        return false;
    }
    for (int k = 1; k < t->goals; k++)
        if (t->goal[k].loss == n->name) {
            fail(e, n->at, 313, "a second train block of '%s'", name);
            note(e, t->goal[k].span, "the first one");
            return false;
        }
    if (t->goals < MAX_GOALS)
        return true;
    fail(e, n->at, 317, "more than %d losses", MAX_GOALS);
    return false;
}

Goal *add_goal(Elab *e, const Node *train)
{
    Train *t = &e->module->train;
    if (!check_loss_name(e, train))
        return NULL;
    Goal *g = &t->goal[t->goals];
    g->loss = train->name;
    g->span = train->at;
    add_rule(e, RULE_goal, 0, &train->list, t->goals++);
    return g;
}

void check_goals(Elab *e)
{
    const Train *t = &e->module->train;
    if (t->goals == 1)
        return;
    const Span at = t->goal[1].span;
    if (t->scale != 0) {
        fail(e, at, 317, "f16 scales one loss, and this is another");
        help(e, "train in bf16");
    }
}

/* The value that a train block is for: one number, which is no metric. 0 after an error. */
static Value loss_value(Elab *e, const Goal *g)
{
    Sym *s = find_local(e->frame, g->loss);
    const char *name = text(e, g->loss);
    if (!s || s->kind != SYM_VALUE || s->gone) {
        VEC(const char *) near = {0};
        for (size_t i = 0; i < e->frame->order.n; i++)
            if (e->frame->order.data[i]->kind == SYM_VALUE && !e->frame->order.data[i]->gone)
                vec_push(e->arena, &near, text(e, e->frame->order.data[i]->name));
        fail(e, g->span, 270, "the model assigns no '%s'", name);
        suggest(e, name, near.data, near.n);
        return 0;
    }
    s->used = true;
    s->fresh = false;
    if (s->val.kind == VAL_POISON)
        return 0;
    if (s->metric || s->val.kind != VAL_TENSOR) {
        fail(e, g->span, 271,
             s->metric ? "'%s' is a metric, and no loss"
                       : "'%s' is a number: it depends on no parameter",
             name);
        note(e, s->span, s->metric ? "it is named here" : "assigned here");
        return 0;
    }
    const Type *t = type_of(e->module, s->val.value);
    if (t->rank || !dtype_is_float(t->dtype)) {
        fail(e, g->span, 271, "a loss must be one number; '%s' is %s", name,
             type_text(e, s->val.value));
        note(e, s->span, "assigned here");
        help(e, "%s = mean(...)", name);
        return 0;
    }
    return build_cast(&e->b, s->val.value, DT_f64);
}

bool goal_results(Elab *e)
{
    Module *m = e->module;
    bool ok = true;
    for (int k = 1; k < m->train.goals; k++) {
        const Goal *g = &m->train.goal[k];
        const Value v = loss_value(e, g);
        ok &= v != 0;
        if (!v)
            continue;
        if (e->mode == MODE_TRAIN)
            add_result(e, (FnResult){RES_loss, (uint32_t)k}, v);
        if (e->metrics.n == MAX_METRICS) {
            fail(e, g->span, 277, "more than %d metrics and further losses", MAX_METRICS);
            return false;
        }
        vec_push(e->arena, &e->metrics, v);
        if (e->mode == MODE_TRAIN)
            vec_push(m->arena, &m->metrics, g->loss);
    }
    return ok;
}
