/* text_header.c - what a module's text begins with: training, layout, mesh, stages. */
#include <string.h>

#include "ir/initial.h"
#include "ir/optimizers.h"
#include "ir/text_reader.h"

/* The optimizer of a goal. A file's own is no more here than its name and its numbers': its
 * declaration is not in the text, so a module whose text is from before pass update has no rule. */
static void read_optimizer(Reader *r, Goal *t)
{
    const char *names[OPT_count];
    for (int i = 0; i < OPT_count; i++)
        names[i] = optimizers[i].name;
    if (!text_take_word(r, "declared")) {
        t->optimizer = &optimizers[text_want_choice(r, names, OPT_count)];
        return;
    }
    OptimizerInfo *o = NEW(r->m->arena, OptimizerInfo);
    *o = (OptimizerInfo){.name = text_want_text(r), .rest = o};
    t->optimizer = o;
    for (int n = 0; text_take_word(r, "own"); n++) {
        if (n == OWN_MAX)
            text_wrong(r, r->t.span, 403, "an optimizer has more than %s numbers", "16");
        o->own[n] = (OwnNumber){.name = text_want_text(r)};
        t->own[n] = text_want_real(r);
    }
}

static void read_goal(Reader *r, Goal *t)
{
    struct {
        const char *name;
        double *value;
    } reals[] = {
#define NUMBER(name, ...) {#name, &t->name},
#include "ir/optimizers.def"
        {"clip", &t->clip}, {"peak", &t->peak}, {"floor", &t->floor}};
    read_optimizer(r, t);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        text_want_word(r, reals[i].name);
        *reals[i].value = text_want_real(r);
    }
#define FLAG(name) t->name = text_take_word(r, #name);
#include "ir/optimizers.def"
    text_want_word(r, "lr");
    t->schedule = (Schedule)text_want_choice(r, schedule_names, LR_count);
    text_want_word(r, "warmup");
    t->warmup = text_want_int(r, 0, INT64_MAX);
    text_want_word(r, "steps");
    t->steps = text_want_int(r, 0, INT64_MAX);
    text_want_word(r, "last");
    t->last = text_want_int(r, 0, INT64_MAX);
    t->descent = (Descent)text_want_choice(r, descent_names, DESCENT_count);
    t->log = text_take_word(r, "log");
    if (text_take_word(r, "average")) {
        Span at = r->t.span;
        t->average = text_want_name(r);
        if (!step_formula_valid(name_str(r->m->names, t->average)))
            text_wrong(r, at, 402, "'%s' is expected here", "a formula of the step");
    }
    if (text_take_word(r, "state")) {
        t->state = text_read_dtype(r);
        t->nearest = text_take_word(r, "nearest");
        if (dtype_is_dynamic(t->state))
            text_want_word(r, "least"), t->state_least = text_want_int(r, 1, INT64_MAX);
    }
}

static void read_rollout(Reader *r, Rollout *o)
{
    o->size = text_want_int(r, 2, INT32_MAX);
    text_want_word(r, "tokens");
    o->tokens = text_want_int(r, 1, INT32_MAX);
    text_want_word(r, "updates");
    o->updates = text_want_int(r, 1, INT32_MAX);
    text_want_word(r, "texts");
    o->texts = text_want_int(r, 1, INT32_MAX);
    o->scale = (RewardScale)text_want_choice(r, reward_scale_names, REWARD_count);
    text_want_word(r, "temperature");
    o->temperature = text_want_real(r);
}

void text_read_train(Reader *r)
{
    Train *t = &r->m->train;
    text_want_word(r, "train");
    t->goal[0].loss = name_intern(r->m->names, "loss");
    read_goal(r, &t->goal[0]);
    text_want_word(r, "compute");
    t->compute = text_read_dtype(r);
    t->tf32 = text_take_word(r, "tf32");
    t->tree = text_take_word(r, "tree");
    t->as_ready = text_take_word(r, "as_ready");
    if (text_take_word(r, "half"))
        t->half = text_read_dtype(r);
    if (text_take_word(r, "fp8")) {
        t->fp8 = text_read_dtype(r);
        t->fp8_gradients = text_read_dtype(r);
        for (int i = SCALES_tensor + 1; i < SCALES_count; i++)
            if (text_take_word(r, scales_names[i]))
                t->fp8_scales = (Scales)i;
        t->fp8_products = text_take_word(r, "products");
    }
    if (text_take_word(r, "master"))
        t->master = text_read_dtype(r);
    if (text_take_word(r, "base"))
        t->base = (FrozenBase)text_want_choice(r, base_names, BASE_count);
    if (text_take_word(r, "sums"))
        t->sums = text_read_dtype(r);
    t->sums_nearest = text_take_word(r, "nearest");
    t->wide_partials = text_take_word(r, "wide_partials");
    if (text_take_word(r, "scale")) {
        t->scale = text_want_real(r);
        text_want_word(r, "least");
        t->scale_least = text_want_real(r);
        text_want_word(r, "window");
        t->scale_window = text_want_int(r, 1, INT64_MAX);
        text_want_word(r, "hysteresis");
        t->scale_hysteresis = text_want_int(r, 1, INT64_MAX);
    }
    if (text_take_word(r, "rollout"))
        read_rollout(r, &t->rollout);
    for (t->goals = 1; text_take_word(r, "goal"); t->goals++) {
        if (t->goals == MAX_GOALS)
            text_wrong(r, r->t.span, 403, "there are more than %s losses", "8");
        Goal *g = &t->goal[t->goals];
        g->loss = text_want_name(r);
        read_goal(r, g);
    }
}

/* Reads an assertion, which a layout need not have. */
static void read_offload(Reader *r, Layout *l)
{
    const bool open = text_take_word(r, "offload_auto");
    l->offloads = open ? OFFLOADS_auto : OFFLOADS_if_needed;
    while (text_take_word(r, "offload")) {
        const int what = text_want_choice(r, offload_names, OFFLOAD_count);
        l->offload[what] = (Level)text_want_choice(r, level_names, LEVEL_count);
        l->offloads = OFFLOADS_as_given;
    }
    if (text_take_word(r, "offload_none"))
        l->offloads = OFFLOADS_as_given;
    if (text_take_word(r, "optimizer"))
        l->optimizer = (OptimizerAt)text_want_choice(r, optimizer_at_names, OPTIMIZER_count);
}

static void read_assert(Reader *r, const char *word, double *limit, Span *span)
{
    if (text_take_word(r, word)) {
        *limit = text_want_real(r);
        *span = text_read_place(r);
    }
}

void text_read_layout(Reader *r)
{
    Layout *l = &r->m->layout;
    text_want_word(r, "layout");
    l->name = text_want_name(r);
    text_want_word(r, "device");
    l->device = text_want_name(r);
    text_want_word(r, "microbatch");
    l->microbatch = text_want_int(r, 0, INT64_MAX);
    text_want_word(r, "recompute");
    l->recompute = (Recompute)text_want_choice(r, recompute_names, RECOMPUTE_count);
    while (l->recompute == RECOMPUTE_keep && r->t.kind == TOK_string)
        vec_push(r->m->arena, &l->keep, ((KeptName){.name = text_want_name(r)}));
    if (text_take_word(r, "chunk"))
        l->chunk = text_want_int(r, 1, INT64_MAX);
    for (int k = 0; k < 2; k++)
        if (text_take_word(r, k ? "back" : "pieces")) {
            l->pieces[k].n = text_want_int(r, 1, MAX_PIECES);
            l->pieces[k].turns = text_take_word(r, "turns");
        }
    l->once = text_take_word(r, "once");
    l->overlap = text_take_word(r, "overlap");
    l->one_line = text_take_word(r, "one_line");
    if (text_take_word(r, "send_flops"))
        l->send_flops = text_want_real(r);
    read_offload(r, l);
    text_want_word(r, "assert_peak");
    l->assert_peak = text_want_real(r);
    l->assert_span = text_read_place(r);
    read_assert(r, "assert_step", &l->assert_step, &l->assert_step_span);
    read_assert(r, "assert_exposed", &l->assert_exposed, &l->assert_exposed_span);
    read_assert(r, "assert_host", &l->assert_level[LEVEL_host], &l->assert_level_span[LEVEL_host]);
    read_assert(r, "assert_disk", &l->assert_level[LEVEL_disk], &l->assert_level_span[LEVEL_disk]);
}

/* The numbers of layers of stages; returns the largest. */
static int64_t read_cut(Reader *r, Pipeline *p)
{
    int64_t max = 0;
    text_want_mark(r, '[');
    do {
        int64_t n = text_want_int(r, 0, INT32_MAX);
        vec_push(r->m->arena, &p->layers, n);
        max = n > max ? n : max;
    } while (text_take_mark(r, ','));
    text_want_mark(r, ']');
    return max;
}

static void read_pipeline(Reader *r)
{
    Pipeline *p = &r->m->layout.pipeline;
    if (!text_take_word(r, "pipeline"))
        return;
    p->dim = text_want_name(r);
    text_want_word(r, "on");
    Span s = r->t.span;
    const char *axis = text_want_text(r);
    p->axis = (Axes)1 << text_read_axis(r, axis, strlen(axis), s);
    text_want_word(r, "schedule");
    p->schedule = text_want_name(r);
    if (text_take_word(r, "table"))
        p->table = text_want_text(r);
    text_want_word(r, "chunks");
    p->chunks = (int)text_want_int(r, 1, MAX_STAGES);
    text_want_word(r, "group");
    p->group = (int)text_want_int(r, 0, MAX_STAGES);
    if (text_take_word(r, "pairs")) {
        p->pairs = text_take_word(r, "all") ? PAIRS_all : PAIRS_none;
        if (p->pairs == PAIRS_none)
            text_want_word(r, "none");
    }
    s = r->t.span;
    const bool cut = text_take_word(r, "layers");
    if (cut || text_take_word(r, "stages")) {
        const int64_t max = read_cut(r, p);
        p->max_layers = cut ? max : 0;
        if (p->layers.n != (size_t)mesh_stages(r->m) || !max)
            text_wrong(r, s, 403, "there are not %s of layers as there are stages",
                       "as many numbers");
    }
    p->span = text_read_place(r);
}

void text_read_mesh(Reader *r)
{
    Layout *l = &r->m->layout;
    while (text_take_word(r, "axis")) {
        if (l->mesh.n == MAX_AXES)
            text_wrong(r, r->t.span, 403, "there are more than %s axes", "16");
        Axis a = {.name = text_want_name(r)};
        a.size = text_want_int(r, 2, 1 << 20);
        a.apart = text_take_word(r, "apart");
        a.span = text_read_place(r);
        vec_push(r->m->arena, &l->mesh, a);
    }
    while (text_take_word(r, "rule")) {
        LayoutRule rule = {0};
        if (text_take_word(r, "class"))
            rule.of = (TensorClass)text_want_choice(r, class_names, CLASS_count);
        else
            rule.dim = text_want_name(r);
        while (text_take_word(r, "on")) {
            if (rule.n == MAX_AXES)
                text_wrong(r, r->t.span, 403, "there are more than %s axes", "16");
            Span s = r->t.span;
            const char *name = text_want_text(r);
            rule.axis[rule.n] = (uint8_t)text_read_axis(r, name, strlen(name), s);
            if (text_take_word(r, "zigzag"))
                rule.zigzag |= (Axes)1 << rule.axis[rule.n];
            if (text_take_word(r, "heads"))
                rule.heads |= (Axes)1 << rule.axis[rule.n];
            if (text_take_word(r, "ring"))
                rule.ring |= (Axes)1 << rule.axis[rule.n];
            if (text_take_word(r, "rows"))
                rule.rows |= (Axes)1 << rule.axis[rule.n];
            if (text_take_word(r, "gather"))
                rule.gather |= (Axes)1 << rule.axis[rule.n];
            if (text_take_word(r, "once"))
                rule.once |= (Axes)1 << rule.axis[rule.n];
            rule.n++;
        }
        if (text_take_word(r, "bound"))
            rule.bound = text_want_real(r);
        if (text_take_word(r, "blocks"))
            rule.blocks = (uint16_t)text_want_int(r, 2, MAX_BLOCKS);
        rule.span = text_read_place(r);
        vec_push(r->m->arena, &l->rules, rule);
    }
    read_pipeline(r);
    r->m->local = text_take_word(r, "local");
}
