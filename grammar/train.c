/* train.c - the train block: optimizer, learning rate, clipping, precision; rules.c has what holds
 * for some parameters only. */
#include "grammar/config.h"
#include "grammar/tokens.h"
#include "ir/optimizers.h"

#include <string.h>

/* A number in [low, high), or above 0 where low is -1. */
bool config_within(Elab *e, const Node *n, const char *what, double low, double high, double *d)
{
    if (!n)
        return true;
    if (!config_real(e, n, d))
        return false;
    if ((low < 0 ? *d > 0 : *d >= low) && *d < high)
        return true;
    const char *below = high < 1e300 ? arena_printf(e->arena, " and below %g", high) : "";
    fail(e, n->kind == N_NAMED ? n->a->span : n->span, 303, "%s is %g; it must be %s %g%s", what,
         *d, low < 0 ? "above" : "at least", low < 0 ? 0 : low, below);
    return false;
}

static int goal_number(const Elab *e, const Goal *g)
{
    return (int)(g - e->module->train.goal);
}

/* decay = 0.1 where rank >= 2: the first rule, for what no later one names */
static bool decay(Elab *e, const Node *n, const Goal *g)
{
    double value = 0;
    if (!n)
        return true;
    if (!config_within(e, n, "decay", 0, 1e300, &value))
        return false;
    const Node *condition = n->kind == N_NAMED ? n->b : NULL;
    NodeList *where = NEW(e->arena, NodeList);
    if (condition)
        vec_push(e->arena, where, (Node *)(uintptr_t)condition);
    size_t rules = e->rules.n;
    add_rule(e, RULE_decay, value, where, goal_number(e, g));
    if (e->rules.n == rules)
        return false;
    e->rules.data[rules].general = true;
    return true;
}

static bool betas(Elab *e, const Node *n, Goal *t)
{
    if (!n)
        return true;
    const Node *pair = n->kind == N_NAMED ? n->a : n;
    if (pair->kind != N_TUPLE || pair->list.n != 2) {
        fail(e, pair->span, 303, "betas are two numbers");
        help(e, "betas = (0.9, 0.95)");
        return false;
    }
    const OptionInfo *first = &optimizer_options[OPTION_beta1];
    const OptionInfo *second = &optimizer_options[OPTION_beta2];
    return config_within(e, pair->list.data[0], "the first beta", first->low, first->high,
                         &t->beta1) &&
           config_within(e, pair->list.data[1], "the second beta", second->low, second->high,
                         &t->beta2);
}

bool config_flag(Elab *e, const Node *n, const char *what, bool *yes)
{
    double d = 0;
    if (!n)
        return true;
    if (!config_real(e, n, &d))
        return false;
    *yes = d == 1;
    if (d == 0 || d == 1)
        return true;
    fail(e, n->kind == N_NAMED ? n->a->span : n->span, 303, "%s is 1 or 0", what);
    return false;
}

/* A number that a file's optimizer names itself. */
static bool own_number(Elab *e, const Node *n, const OwnNumber *o, double *d)
{
    bool yes = *d != 0;
    if (o->flag) {
        const bool good = config_flag(e, n, o->name, &yes);
        *d = yes;
        return good;
    }
    if (!n)
        return true;
    if (!config_real(e, n, d))
        return false;
    if ((o->above ? *d > o->low : *d >= o->low) && *d < o->high)
        return true;
    fail(e, n->kind == N_NAMED ? n->a->span : n->span, 303, "%s is %g; it must be %s %g%s", o->name,
         *d, o->above ? "above" : "at least", o->low,
         o->high < 1e300 ? arena_printf(e->arena, " and below %g", o->high) : "");
    return false;
}

/* One option of an optimizer; n is NULL where it is not given. */
static bool option_of(Elab *e, int which, const Node *n, Goal *t)
{
    if (which >= OPTION_own)
        return own_number(e, n, &t->optimizer->own[which - OPTION_own],
                          &t->own[which - OPTION_own]);
    const OptionInfo *o = &optimizer_options[which];
    const int number = optimizer_number(t->optimizer, o->name);
    bool yes = false;
    switch (o->kind) {
    case KIND_PAIR:
        return betas(e, n, t);
    case KIND_DECAY:
        return decay(e, n, t);
    case KIND_FLAG:
        if (!config_flag(e, n, o->name, &yes))
            return false;
        if (n)
            *train_number(t, number) = yes;
        return true;
    case KIND_NUMBER:
        return config_within(e, n, o->name, o->low, o->high, train_number(t, number));
    }
    return false;
}

/* The default of an option. */
static void default_of(Goal *t, int which, const double *without)
{
    if (which >= OPTION_own) {
        t->own[which - OPTION_own] = without[0];
        return;
    }
    const OptionInfo *o = &optimizer_options[which];
    if (o->kind == KIND_PAIR) {
        t->beta1 = without[0];
        t->beta2 = without[1];
    } else if (o->kind != KIND_DECAY) {
        *train_number(t, optimizer_number(t->optimizer, o->name)) = without[0];
    }
}

static bool takes_option(const OptimizerInfo *o, int option)
{
    for (int i = 0; i < OPTIONS_MAX && o->takes[i].option; i++)
        if (o->takes[i].option == option)
            return true;
    return false;
}

/* A decay that no rule reads would say nothing. */
static void check_decays(Elab *e, const Node *train, const Goal *g)
{
    for (size_t i = 0; i < train->more.n && g->optimizer; i++) {
        const Node *n = train->more.data[i];
        if (n->kind != N_SETTING || strcmp(text(e, n->name), "decay") != 0 ||
            takes_option(g->optimizer, OPTION_decay))
            continue;
        fail(e, n->at, 302, "the rule of '%s' has no decay", g->optimizer->name);
        help(e, "declare it: `optimizer %s(..., decay = 0)`, whose rule reads `decay`",
             g->optimizer->name);
    }
}

/* One that the file declares, though not as it has to be: that was reported. */
static bool declared_wrong(const Elab *e, const Node *value)
{
    for (size_t i = 0; i < e->ast->items.n; i++) {
        const Node *n = e->ast->items.data[i];
        if (n->kind == N_OPTIMIZER && n->name == value->name)
            return !e->optimizers.n;
    }
    return false;
}

/* dynamic8, or dynamic8(least = 4096): tensors of fewer elements keep f32. */
static bool state_least(Elab *e, const Node *value, Goal *t)
{
    static const char *const takes[] = {"least", NULL};
    const Node *slot[1];
    t->state_least = STATE_LEAST;
    return value->kind != N_CALL ||
           (config_args(e, value, takes, slot, NULL, 308) &&
            (!slot[0] || config_integer(e, slot[0], 1, &t->state_least, 303)));
}

/* bf16, or bf16(nearest) */
static bool state_way(Elab *e, const Node *value, Goal *t)
{
    static const char *const ways[] = {"nearest", NULL};
    if (value->kind != N_CALL)
        return true;
    const Node *way = value->list.n == 1 ? value->list.data[0] : NULL;
    if (!t->state || !way) {
        fail(e, value->span, 308, t->state ? "one way to round is wanted" : "f32 is not rounded");
        help(e, t->state ? "state = bf16(nearest); without it numbers are rounded at random"
                         : "state = f32");
        return false;
    }
    t->nearest = config_choice(e, way, "way to round", ways, 307) == 0;
    return t->nearest;
}

/* state = f32, bf16 or dynamic8: what each element of the optimizer's state is kept in. */
static bool state_type(Elab *e, const Node *n, Goal *t)
{
    static const char *const types[] = {"f32", "bf16", "dynamic8", NULL};
    static const DType kept[] = {DT_none, DT_bf16, DT_dynamic8};
    const Node *value = n && n->kind == N_NAMED ? n->a : n;
    const int which = value ? config_choice(e, value, "type of state", types, 307) : 0;
    if (which < 0)
        return false;
    t->state = kept[which];
    t->state_span = value ? value->span : (Span){0};
    t->nearest = false;
    if (!value)
        return true;
    return t->state == DT_dynamic8 ? state_least(e, value, t) : state_way(e, value, t);
}

static void optimizer(Elab *e, const Node *value, Goal *t)
{
    const size_t all = OPT_count + e->optimizers.n;
    const char **names = NEW_ARRAY(e->arena, const char *, all + 1),
               *takes[OPTIONS_MAX + 2] = {NULL};
    const Node *slot[OPTIONS_MAX + 1];
    for (size_t i = 0; i < all; i++)
        names[i] = i < OPT_count ? optimizers[i].name : e->optimizers.data[i - OPT_count]->name;
    if (declared_wrong(e, value))
        return;
    int which = config_choice(e, value, "optimizer", names, 307), n = 0;
    if (which < 0 && value->name && map_find(&e->blocks, value->name))
        help(e,
             "'%s' is a block of this file; an optimizer is declared as `optimizer %s(...) { "
             "... }`",
             text(e, value->name), text(e, value->name));
    if (which < 0)
        return;
    const OptimizerInfo *row =
        which < OPT_count ? &optimizers[which] : e->optimizers.data[which - OPT_count];
    t->optimizer = row;
    t->optimizer_span = value->span;
    for (; n < OPTIONS_MAX && row->takes[n].option; n++) {
        const int option = row->takes[n].option;
        takes[n] = option < OPTION_own ? optimizer_options[option].name
                                       : row->own[option - OPTION_own].name;
        default_of(t, row->takes[n].option, row->takes[n].without);
    }
    bool kept = true; /* `state` is a setting of all that have none of that name */
    for (int i = 0; i < n; i++)
        kept &= strcmp(takes[i], "state") != 0;
    takes[n] = kept ? "state" : NULL;
    if (!config_args(e, value, takes, slot, "decay", 308) ||
        !state_type(e, kept ? slot[n] : NULL, t))
        return;
    bool nesterov = false;
    for (int i = 0; i < n; i++) {
        nesterov |= row->takes[i].option == OPTION_nesterov && slot[i];
        if (!option_of(e, row->takes[i].option, slot[i], t))
            return;
    }
    if (nesterov && t->nesterov != 0 && t->momentum == 0 && !row->declaration)
        fail(e, value->span, 303, "nesterov needs a momentum");
}

typedef enum Time { PEAK, WARMUP, STEPS, FLOOR, LAST, SHAPE, LOG, TIMES } Time;
static const char *const time_names[TIMES] = {"peak", "warmup", "steps", "floor",
                                              "last", "shape",  "log"};
static const struct {
    bool steps;   /* needs them */
    double floor; /* of the peak, unless told */
    int n;
    Time takes[6];
} schedule_of[LR_count] = {
    [LR_constant] = {false, 0, 3, {PEAK, WARMUP, STEPS}},
    [LR_linear] = {true, 0, 4, {PEAK, WARMUP, STEPS, FLOOR}},
    [LR_cosine] = {true, 0, 4, {PEAK, WARMUP, STEPS, FLOOR}},
    [LR_wsd] = {true, 0, 6, {PEAK, WARMUP, STEPS, LAST, FLOOR, SHAPE}},
    [LR_inverse_sqrt] = {false, 0, 4, {PEAK, WARMUP, STEPS, FLOOR}},
    [LR_warmup] = {false, 0, 5, {PEAK, WARMUP, STEPS, FLOOR, LOG}},
    [LR_warmup_cosine] = {true, 1e-4, 5, {PEAK, WARMUP, STEPS, FLOOR, LOG}},
};

const char *mg_schedule(size_t n)
{
    return n < LR_count ? schedule_names[n] : NULL;
}

const char *mg_schedule_option(size_t schedule, size_t n)
{
    return (int)n < schedule_of[schedule].n ? time_names[schedule_of[schedule].takes[n]] : NULL;
}

static bool time_of(Elab *e, Time which, const Node *n, Goal *t)
{
    static const char *const shapes[] = {"linear", "cosine", "sqrt", NULL};
    int shape;
    switch (which) {
    case PEAK:
        return config_within(e, n, "peak", -1, 1e300, &t->peak);
    case WARMUP:
        return !n || config_integer(e, n, 0, &t->warmup, 303);
    case STEPS:
        return !n || config_integer(e, n, 1, &t->steps, 303);
    case FLOOR:
        return config_within(e, n, "floor", 0, 1e300, &t->floor);
    case LAST:
        return !n || config_integer(e, n, 0, &t->last, 303);
    case LOG:
        return config_flag(e, n, "log", &t->log);
    case SHAPE:
        shape = n ? config_choice(e, n->kind == N_NAMED ? n->a : n, "shape", shapes, 307) : 0;
        t->descent = shape < 0 ? DESCENT_linear : (Descent)shape;
        return shape >= 0;
    case TIMES:
        break;
    }
    return false;
}

static void check_schedule(Elab *e, const Node *value, const Node *const *given, const Goal *t)
{
    if (t->floor > t->peak) {
        fail(e, given[FLOOR] ? given[FLOOR]->span : value->span, 309, "floor %g is above peak %g",
             t->floor, t->peak);
    } else if (schedule_of[t->schedule].steps && !given[STEPS]) {
        fail(e, value->at, 309, "'%s' needs `steps = ...`", text(e, value->name));
        help(e, "the number of steps after which it has come down to its floor");
    } else if (given[STEPS] && t->warmup > t->steps) {
        fail(e, given[WARMUP]->span, 309, "warmup %lld is longer than all %lld steps",
             (long long)t->warmup, (long long)t->steps);
    } else if (t->schedule == LR_wsd && (!given[LAST] || t->last > t->steps - t->warmup)) {
        fail(e, given[LAST] ? given[LAST]->span : value->at, 309,
             "'wsd' needs `last = ...`, at most the %lld steps after the warm-up",
             (long long)(t->steps - t->warmup));
        help(e, "the number of steps of its descent at the end");
    } else if (t->schedule == LR_inverse_sqrt && t->warmup < 1) {
        fail(e, value->at, 309, "'inverse_sqrt' needs a warm-up: it falls as sqrt(warmup / step)");
    }
}

static void learning_rate(Elab *e, const Node *value, Goal *t)
{
    const char *names[LR_count + 1] = {NULL}, *takes[TIMES + 1] = {NULL};
    const Node *slot[TIMES], *given[TIMES] = {NULL};
    if (value->kind != N_CALL && value->kind != N_NAME) { /* lr 3e-4 */
        t->schedule = LR_constant;
        config_within(e, value, "the learning rate", -1, 1e300, &t->peak);
        return;
    }
    for (int i = 0; i < LR_count; i++)
        names[i] = schedule_names[i];
    int which = config_choice(e, value, "schedule", names, 307);
    if (which < 0)
        return;
    t->schedule = (Schedule)which;
    for (int i = 0; i < schedule_of[which].n; i++)
        takes[i] = time_names[schedule_of[which].takes[i]];
    if (!config_args(e, value, takes, slot, NULL, 308))
        return;
    if (!slot[0]) {
        fail(e, value->at, 309, "'%s' needs `peak = ...`", names[which]);
        return;
    }
    bool ok = true;
    t->log = which == LR_warmup || which == LR_warmup_cosine; /* DeepSpeed's default */
    for (int i = 0; i < schedule_of[which].n; i++) {
        given[schedule_of[which].takes[i]] = slot[i];
        ok &= time_of(e, schedule_of[which].takes[i], slot[i], t);
    }
    if (!given[FLOOR])
        t->floor = schedule_of[which].floor * t->peak;
    if (ok)
        check_schedule(e, value, given, t);
}

static void rule(Elab *e, const Node *n, RuleKind kind, const Goal *g)
{
    double value = 0;
    if (kind == RULE_frozen && n->list.n) {
        fail(e, n->list.data[0]->span, 302, "'frozen' takes no value");
        help(e, "frozen where \"model.embed*\"");
        return;
    }
    const Node *given = kind == RULE_frozen ? NULL : config_value(e, n);
    if (kind == RULE_frozen)
        e->frozen_at = n->at;
    else if (!given || !config_within(e, given, text(e, n->name), 0, 1e300, &value))
        return;
    if (!n->more.n) {
        fail(e, n->at, 302, "'%s' says not for which parameters", text(e, n->name));
        help(e, "%s %swhere \"*.bias\", vocab, rank >= 2", text(e, n->name), given ? "0.1 " : "");
        return;
    }
    add_rule(e, kind, value, &n->more, goal_number(e, g));
}

/* The settings of which there is one at most. */
enum {
    SET_optimizer,
    SET_lr,
    SET_clip,
    SET_average,
    SET_precision,
    SET_update,
    SET_rollout,
    SET_count
};

const char *const mg_update_times[] = {"together", "as_ready", NULL};

static void setting(Elab *e, const Node *n, int which, Goal *g)
{
    Train *t = &e->module->train;
    const Node *value = config_value(e, n);
    if (!value)
        return;
    if (n->more.n) {
        fail(e, n->more.data[0]->span, 302, "'%s' holds for all parameters", text(e, n->name));
        return;
    }
    if (which == SET_optimizer)
        optimizer(e, value, g);
    else if (which == SET_lr)
        learning_rate(e, value, g);
    else if (which == SET_clip)
        config_within(e, value, "clip", -1, 1e300, &g->clip);
    else if (which == SET_average)
        step_formula(e, value, &g->average);
    else if (which == SET_precision)
        read_precision(e, value, t);
    else if (which == SET_rollout)
        read_rollout(e, value, &t->rollout);
    else
        t->as_ready = config_choice(e, value, "time of updates", mg_update_times, 307) == 1;
}

/* Updates as their gradients are ready know nothing of the others': neither the norm of all, nor
 * whether one of them overflowed. */
static void check_times(Elab *e, const Node *const *seen, const Goal *g)
{
    const Train *t = &e->module->train;
    const bool half = t->scale != 0 && seen[SET_update];
    if (!t->as_ready || (g->clip <= 0 && !half))
        return;
    const char *needs = g->clip > 0 ? "clipping needs the norm of all gradients"
                                    : "f16 leaves out a step of which any gradient overflows";
    fail(e, e->as_ready_at, 316, "updates as_ready do not wait for all gradients, but %s", needs);
    if (g->clip > 0)
        note(e, seen[SET_clip]->at, "clipped here");
    help(e, g->clip > 0 ? "leave out one of the two" : "leave it out, or train in bf16");
}

/* A setting that is one for the whole step. */
static void of_all(Elab *e, const Node *n, const Goal *g)
{
    fail(e, n->at, 317, "'%s' is the same for all losses", text(e, n->name));
    help(e, "set it in the train block without a name, not in that of '%s'", text(e, g->loss));
}

const char *const mg_train_settings[] = {"optimizer", "lr",     "clip",    "average",
                                         "precision", "update", "rollout", "decay",
                                         "frozen",    "rate",   NULL};

static void settings(Elab *e, const Node *train, Goal *g)
{
    static const RuleKind kinds[] = {RULE_decay, RULE_frozen, RULE_rate};
    const Node *seen[SET_count] = {NULL};
    bool unknown = false;
    for (size_t i = 0; i < train->more.n; i++) {
        const Node *n = train->more.data[i];
        if (n->kind == N_ADAPTER) {
            read_adapter(e, n, g);
            continue;
        }
        if (n->kind == N_RULE) {
            fail(e, n->at, 301, "a sharding rule in the train block");
            help(e, "rules belong to a layout");
            continue;
        }
        int which = config_choice(e, &(Node){.kind = N_NAME, .name = n->name, .at = n->at},
                                  "setting", mg_train_settings, 301);
        if (which < 0) {
            unknown = true; /* what is missing may be what was misspelt */
            continue;
        }
        if (which >= SET_count) {
            rule(e, n, kinds[which - SET_count], g);
            continue;
        }
        if (seen[which]) {
            fail(e, n->at, 302, "'%s' is set twice", mg_train_settings[which]);
            note(e, seen[which]->at, "here first");
            continue;
        }
        seen[which] = n;
        if (which == SET_update)
            e->as_ready_at = n->at;
        if (!train->name || which < SET_precision)
            setting(e, n, which, g);
        else
            of_all(e, n, g);
    }
    for (int i = SET_optimizer; i <= SET_lr; i++)
        if (!seen[i] && !unknown) {
            fail(e, train->at, 312, "the train block sets no %s",
                 i == SET_lr ? "learning rate" : "optimizer");
            help(e, i == SET_lr
                        ? "lr cosine(peak = 3e-4, warmup = 100, steps = 1000, floor = 3e-5)"
                        : "optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank "
                          ">= 2)");
        }
    if (!train->name && e->options->precision)
        override_precision(e->options->precision, &e->module->train);
    check_times(e, seen, g);
    check_decays(e, train, g);
}

/* The train block of `loss`, which has no name; NULL after an error. */
static const Node *first_block(Elab *e)
{
    const Node *train = NULL;
    for (size_t i = 0; i < e->ast->items.n; i++) {
        const Node *n = e->ast->items.data[i];
        if (n->kind != N_TRAIN || n->name)
            continue;
        if (train) {
            fail(e, n->at, 313, "a second train block");
            note(e, train->at, "the first one");
            help(e, "that of another loss says which, and for which parameters: train critic_loss "
                    "where \"critic.*\" { ... }");
            return NULL;
        }
        train = n;
    }
    if (!train) {
        fail(e, (Span){e->ast->file, 0, 0}, 313, "there is no train block");
        help(e, "train { optimizer adamw()  lr 3e-4 }");
        e->untrained = true;
    }
    return train;
}

void read_train(Elab *e)
{
    Train *t = &e->module->train;
    *t = (Train){.goals = 1, .compute = DT_f32, .precision_by = PRECISION_by_processor};
    t->goal[0].loss = name_intern(e->names, "loss");
    const Node *train = first_block(e);
    if (!train)
        return;
    settings(e, train, &t->goal[0]);
    for (size_t i = 0; i < e->ast->items.n; i++) {
        const Node *n = e->ast->items.data[i];
        Goal *g = n->kind == N_TRAIN && n->name ? add_goal(e, n) : NULL;
        if (g)
            settings(e, n, g);
    }
    choose_adapter(e);
}
