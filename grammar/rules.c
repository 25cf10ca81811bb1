/* rules.c - what the train block says of some parameters only.
 *
 *   decay 0 where "*.bias", vocab      rate 0.1 where "lm_head*"      frozen where rank < 2
 *
 * A rule holds for a parameter that any of its selectors names: a pattern of external names (* and
 * ?, the {} of a repeat as written, {2-5} for some of its layers), a dim, or a comparison of the
 * external rank. The last rule of a kind that holds wins; each selector has to name something. */
#include "grammar/config.h"
#include "ir/external.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static bool rank_holds(int rank, BinaryOp op, int64_t than)
{
    switch (op) {
    case B_LT:
        return rank < than;
    case B_LE:
        return rank <= than;
    case B_GT:
        return rank > than;
    case B_GE:
        return rank >= than;
    case B_EQ:
        return rank == than;
    case B_NE:
        return rank != than;
    case B_ADD:
    case B_SUB:
    case B_MUL:
    case B_DIV:
    case B_MOD:
        break;
    }
    return false; /* the grammar has comparisons alone here */
}

static bool has_dim(const Tensor *t, Name dim)
{
    for (int i = t->stacked; i < t->type.rank; i++)
        if (t->type.dims[i].name == dim)
            return true;
    return false;
}

static bool is_rank(const Elab *e, const Node *n)
{
    const Node *left = n->kind == N_BINARY ? node_bare(n->a) : NULL;
    return left && left->kind == N_NAME && strcmp(text(e, left->name), "rank") == 0 &&
           n->op >= B_LT && n->op <= B_NE;
}

/* An external name with the numbers of iterations as {}, as the repeat was written: {3+2i}, and the
 * number of a single iteration too. */
static const char *as_declared(const Elab *e, const char *name)
{
    char *out = NEW_ARRAY(e->arena, char, 2 * strlen(name) + 1);
    size_t n = 0;
    int64_t first, step;
    for (const char *s = name; *s;) {
        const char *behind = external_hole(s, &first, &step);
        size_t number = s == name || s[-1] == '.' ? strspn(s, "0123456789") : 0;
        number = s[number] == '.' || !s[number] ? number : 0;
        if (behind || number) {
            memcpy(out + n, "{}", 2);
            n += 2;
            s = behind ? behind : s + number;
        } else {
            out[n++] = *s++;
        }
    }
    return out;
}

/* `{2-5}` in a pattern, in the place of an index: the layers 2 to 5. */
typedef struct LayerRange {
    const char *pattern; /* with {} instead */
    int64_t first, last;
} LayerRange;

static bool read_range(Elab *e, const char *pattern, LayerRange *r)
{
    const char *open = strchr(pattern, '{');
    char *dash, *close;
    if (!open || !isdigit((unsigned char)open[1]))
        return false;
    r->first = strtoll(open + 1, &dash, 10);
    if (*dash != '-' || !isdigit((unsigned char)dash[1]))
        return false;
    r->last = strtoll(dash + 1, &close, 10);
    if (*close != '}')
        return false;
    r->pattern = arena_printf(e->arena, "%.*s{}%s", (int)(open - pattern), pattern, close + 1);
    return true;
}

/* How many of the layers of a parameter are in the range, and how many it has. */
static int64_t layers_in(const Elab *e, const Tensor *t, const LayerRange *r, int64_t *all)
{
    int64_t first = -1, step = 1, in = 0;
    const char *name = text(e, t->external);
    for (const char *s = name; *s && first < 0; s++) {
        const bool begins = s == name || s[-1] == '.';
        const size_t digits = begins ? strspn(s, "0123456789") : 0;
        if (!external_hole(s, &first, &step))
            first = digits && (s[digits] == '.' || !s[digits]) ? strtoll(s, NULL, 10) : -1;
    }
    *all = t->stacked ? t->valid[0] : 1;
    for (int64_t i = 0; i < *all; i++)
        in += first + i * step >= r->first && first + i * step <= r->last;
    return in;
}

static bool selects_layers(Elab *e, const Node *selector, const Tensor *t, const LayerRange *r)
{
    int64_t all;
    if (fnmatch(r->pattern, as_declared(e, text(e, t->external)), 0) != 0)
        return false;
    const int64_t in = layers_in(e, t, r, &all);
    if (!in || in == all)
        return in;
    if (e->cut_range == selector)
        return true;
    e->cut_range = selector;
    fail(e, selector->span, 619,
         "%lld of the %lld layers that '%s' stands for: they are stored as one", (long long)in,
         (long long)all, text(e, t->external));
    note(e, t->span, "declared here");
    help(e,
         "layers of two kinds are stored apart: `repeat layers at l`, and in its body "
         "`x = select(l < %lld, x, x)`",
         (long long)(r->first ? r->first : r->last + 1));
    return true;
}

bool selects(Elab *e, const Node *selector, const Tensor *t)
{
    const Node *n = node_bare(selector);
    LayerRange range;
    int64_t than;
    if (n->kind == N_STRING && read_range(e, n->text, &range))
        return selects_layers(e, selector, t, &range);
    if (n->kind == N_STRING)
        return fnmatch(n->text, text(e, t->external), 0) == 0 ||
               fnmatch(n->text, as_declared(e, text(e, t->external)), 0) == 0;
    if (n->kind == N_NAME)
        return has_dim(t, n->name);
    return is_rank(e, n) && config_integer(e, n->b, 0, &than, 306) &&
           rank_holds(t->external_rank, n->op, than);
}

static void apply(const TrainRule *r, Tensor *t)
{
    if (r->kind == RULE_goal)
        t->goal = (uint8_t)r->goal;
    else if (r->kind == RULE_decay)
        t->decay = r->value;
    else if (r->kind == RULE_rate)
        t->rate = r->value;
    else
        t->frozen = true;
}

static void apply_one(Elab *e, TrainRule *r, Tensor *t)
{
    bool holds = !r->where->n;
    for (size_t k = 0; k < r->where->n; k++)
        if (selects(e, r->where->data[k], t))
            r->used[k] = holds = true;
    if (holds)
        apply(r, t);
}

/* The loss that a parameter follows: the first one, if no other has it. */
static void choose_goal(Elab *e, Tensor *t)
{
    const TrainRule *by = NULL;
    for (size_t i = 0; i < e->rules.n; i++) {
        TrainRule *r = &e->rules.data[i];
        if (r->kind != RULE_goal)
            continue;
        Tensor one = {.external = t->external, .stacked = t->stacked, .type = t->type};
        one.external_rank = t->external_rank;
        apply_one(e, r, &one);
        if (!one.goal)
            continue;
        if (by) {
            fail(e, t->span, 317, "'%s' is to follow two losses: '%s' and '%s'",
                 text(e, t->external), text(e, e->module->train.goal[by->goal].loss),
                 text(e, e->module->train.goal[r->goal].loss));
            note(e, by->where->data[0]->span, "the parameters of the one");
            note(e, r->where->data[0]->span, "and those of the other");
            return;
        }
        by = r;
        t->goal = one.goal;
    }
}

/* The optimizer's own decay first, wherever it was written. A rule is for the parameters that
 * follow the loss of its train block. */
void apply_rules(Elab *e, Tensor *t)
{
    t->rate = 1;
    choose_goal(e, t);
    for (int general = 1; general >= 0; general--)
        for (size_t i = 0; i < e->rules.n; i++)
            if (e->rules.data[i].general == general && e->rules.data[i].kind != RULE_goal &&
                e->rules.data[i].goal == t->goal)
                apply_one(e, &e->rules.data[i], t);
}

/* Before any parameter is declared: is it a selector at all? */
bool check_selector(Elab *e, const Node *selector)
{
    const Node *n = node_bare(selector);
    if (n->kind == N_STRING || is_rank(e, n))
        return true;
    if (n->kind == N_NAME) {
        Dim d;
        return resolve_dim(e, n, &d);
    }
    fail(e, selector->span, 306, "this selects no parameters");
    help(e, "by name, dim or rank: where \"*.bias\", vocab, rank >= 2");
    return false;
}

void add_rule(Elab *e, RuleKind kind, double value, const NodeList *where, int goal)
{
    TrainRule r = {.kind = kind, .value = value, .where = where, .goal = goal};
    for (size_t i = 0; i < where->n; i++)
        if (!check_selector(e, where->data[i]))
            return;
    r.used = NEW_ARRAY(e->arena, bool, where->n + 1);
    vec_push(e->arena, &e->rules, r);
}

/* Does a goal train anything? */
static void check_trained(Elab *e, int goal)
{
    const Module *m = e->module;
    const Goal *g = &m->train.goal[goal];
    size_t all = 0;
    for (size_t i = 0; i < m->tensors.n; i++) {
        all += m->tensors.data[i].goal == goal;
        if (m->tensors.data[i].goal == goal && !m->tensors.data[i].frozen)
            return;
    }
    if (goal && all)
        fail(e, g->span, 315, "all parameters that follow '%s' are frozen", text(e, g->loss));
    else if (!goal && m->tensors.n && !all)
        fail(e, m->train.goal[1].span, 317,
             "no parameter is left for `loss`: others follow all of "
             "them");
    else if (!goal && all)
        fail(e, e->frozen_at, 315, "all parameters are frozen: there is nothing to train");
}

void all_rules_used(Elab *e)
{
    for (size_t i = 0; i < e->rules.n; i++) {
        const TrainRule *r = &e->rules.data[i];
        for (size_t k = 0; k < r->where->n; k++)
            if (!r->used[k] && !r->general)
                fail(e, r->where->data[k]->span, 315,
                     e->module->train.goals > 1 && r->kind != RULE_goal
                         ? "this names no parameter that follows '%s'"
                         : "this names no parameter of the model",
                     text(e, e->module->train.goal[r->goal].loss));
    }
    for (int k = 0; k < e->module->train.goals; k++)
        check_trained(e, k);
}
