/* train.c - the train block: optimizer, learning rate, clipping, precision. */
#include "grammar/config.h"

#include <string.h>

/* A number in [low, high), or above 0 where low is -1. */
static bool bounded(Elab *e, const Node *n, const char *what, double low, double high, double *d)
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

/* decay = 0.1 where rank >= 2 */
static bool decay(Elab *e, const Node *n, Train *t)
{
    if (!n)
        return true;
    if (!bounded(e, n, "decay", 0, 1e300, &t->decay))
        return false;
    const Node *c = n->kind == N_NAMED ? node_bare(n->b) : NULL;
    if (!c)
        return true;
    const Node *left = c->kind == N_BINARY ? node_bare(c->a) : NULL;
    if (!left || left->kind != N_NAME || strcmp(text(e, left->name), "rank") != 0 ||
        (c->op != B_GE && c->op != B_GT)) {
        fail(e, c->span, 306, "the condition of decay compares the rank of a parameter");
        help(e, "decay = ... where rank >= 2");
        return false;
    }
    int64_t rank;
    if (!config_integer(e, c->b, 0, &rank, 306))
        return false;
    t->decay_rank = rank > MAX_RANK ? MAX_RANK + 1 : (int)rank + (c->op == B_GT);
    return true;
}

static bool betas(Elab *e, const Node *n, Train *t)
{
    if (!n)
        return true;
    const Node *pair = n->kind == N_NAMED ? n->a : n;
    if (pair->kind != N_TUPLE || pair->list.n != 2) {
        fail(e, pair->span, 303, "betas are two numbers");
        help(e, "betas = (0.9, 0.95)");
        return false;
    }
    return bounded(e, pair->list.data[0], "the first beta", 0, 1, &t->beta1) &&
           bounded(e, pair->list.data[1], "the second beta", 0, 1, &t->beta2);
}

static void optimizer(Elab *e, const Node *value, Train *t)
{
    static const char *const names[] = {"adamw", "sgd", NULL};
    static const char *const adamw[] = {"betas", "eps", "decay", NULL};
    static const char *const sgd[] = {"momentum", "decay", NULL};
    const Node *slot[3];
    int which = config_choice(e, value, "optimizer", names, 307);
    t->optimizer = which == 1 ? OPT_sgd : OPT_adamw;
    if (which < 0 || !config_args(e, value, which ? sgd : adamw, slot, "decay", 308))
        return;
    if (which == 0)
        (void)(betas(e, slot[0], t) && bounded(e, slot[1], "eps", -1, 1, &t->eps) &&
               decay(e, slot[2], t));
    else
        (void)(bounded(e, slot[0], "momentum", 0, 1, &t->momentum) && decay(e, slot[1], t));
}

static void check_schedule(Elab *e, const Node *value, const Node *const *slot, const Train *t)
{
    if (t->floor > t->peak) {
        fail(e, slot[3]->span, 309, "floor %g is above peak %g", t->floor, t->peak);
    } else if (t->schedule != LR_constant && !slot[2]) {
        fail(e, value->at, 309, "'%s' needs `steps = ...`", text(e, value->name));
        help(e, "the number of steps after which it has come down to its floor");
    } else if (slot[2] && t->warmup > t->steps) {
        fail(e, slot[1]->span, 309, "warmup %lld is longer than all %lld steps",
             (long long)t->warmup, (long long)t->steps);
    }
}

static void learning_rate(Elab *e, const Node *value, Train *t)
{
    static const char *const names[] = {"constant", "linear", "cosine", NULL};
    static const char *const args[] = {"peak", "warmup", "steps", "floor", NULL};
    static const char *const constant_args[] = {"peak", "warmup", "steps", NULL};
    const Node *slot[4] = {NULL};
    if (value->kind != N_CALL && value->kind != N_NAME) { /* lr 3e-4 */
        t->schedule = LR_constant;
        bounded(e, value, "the learning rate", -1, 1e300, &t->peak);
        return;
    }
    int which = config_choice(e, value, "schedule", names, 307);
    if (which < 0 || !config_args(e, value, which ? args : constant_args, slot, NULL, 308))
        return;
    t->schedule = which == 0 ? LR_constant : which == 1 ? LR_linear : LR_cosine;
    if (!slot[0]) {
        fail(e, value->at, 309, "'%s' needs `peak = ...`", names[which]);
        return;
    }
    bool ok = bounded(e, slot[0], "peak", -1, 1e300, &t->peak);
    ok &= !slot[1] || config_integer(e, slot[1], 0, &t->warmup, 303);
    ok &= !slot[2] || config_integer(e, slot[2], 1, &t->steps, 303);
    ok &= bounded(e, slot[3], "floor", 0, 1e300, &t->floor);
    if (ok)
        check_schedule(e, value, slot, t);
}

static void precision(Elab *e, const Node *value, Train *t)
{
    static const char *const names[] = {"f32", "f64", "bf16", "f16", NULL};
    static const char *const args[] = {"master", "reduce", NULL};
    const Node *slot[2];
    int which = config_choice(e, value, "precision", names, 307);
    if (which < 0 || !config_args(e, value, args, slot, NULL, 308))
        return;
    if (which > 1) {
        fail(e, value->at, 311, "precision %s is not built for this target", names[which]);
        help(e, "precision f32");
        return;
    }
    t->compute = which ? DT_f64 : DT_f32;
    for (int i = 0; i < 2; i++) {
        const Node *v = slot[i] ? slot[i]->kind == N_NAMED ? slot[i]->a : slot[i] : NULL;
        int same = v ? config_choice(e, v, "precision", names, 307) : which;
        if (same >= 0 && same != which)
            fail(e, v->span, 311, "%s = %s beside precision %s", args[i], names[same],
                 names[which]);
    }
}

static void setting(Elab *e, const Node *n, int which, Train *t)
{
    const Node *value = config_value(e, n);
    if (!value)
        return;
    if (which == 0)
        optimizer(e, value, t);
    else if (which == 1)
        learning_rate(e, value, t);
    else if (which == 2)
        bounded(e, value, "clip", -1, 1e300, &t->clip);
    else
        precision(e, value, t);
}

static void settings(Elab *e, const Node *train, Train *t)
{
    static const char *const names[] = {"optimizer", "lr", "clip", "precision", NULL};
    const Node *seen[4] = {NULL};
    bool unknown = false;
    for (size_t i = 0; i < train->more.n; i++) {
        const Node *n = train->more.data[i];
        if (n->kind == N_RULE) {
            fail(e, n->at, 301, "a sharding rule in the train block");
            help(e, "rules belong to a layout");
            continue;
        }
        int which = config_choice(e, &(Node){.kind = N_NAME, .name = n->name, .at = n->at},
                                  "setting", names, 301);
        if (which < 0) {
            unknown = true; /* what is missing may be what was misspelt */
            continue;
        }
        if (seen[which]) {
            fail(e, n->at, 302, "'%s' is set twice", names[which]);
            note(e, seen[which]->at, "here first");
            continue;
        }
        seen[which] = n;
        setting(e, n, which, t);
    }
    for (int i = 0; i < 2; i++)
        if (!seen[i] && !unknown) {
            fail(e, train->at, 312, "the train block sets no %s",
                 i ? "learning rate" : "optimizer");
            help(e, i ? "lr cosine(peak = 3e-4, warmup = 100, steps = 1000, floor = 3e-5)"
                      : "optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank "
                        ">= 2)");
        }
}

void read_train(Elab *e)
{
    Train *t = &e->module->train;
    *t = (Train){.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .compute = DT_f32};
    const Node *train = NULL;
    for (size_t i = 0; i < e->ast->items.n; i++) {
        const Node *n = e->ast->items.data[i];
        if (n->kind != N_TRAIN)
            continue;
        if (train) {
            fail(e, n->at, 313, "a second train block");
            note(e, train->at, "the first one");
            return;
        }
        train = n;
    }
    if (train) {
        settings(e, train, t);
        return;
    }
    fail(e, (Span){e->ast->file, 0, 0}, 313, "there is no train block");
    help(e, "train { optimizer adamw()  lr 3e-4 }");
}
