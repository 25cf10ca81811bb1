/* rules.c - what the train block says of some parameters only.
 *
 *   decay 0 where "*.bias", vocab      rate 0.1 where "lm_head*"      frozen where rank < 2
 *
 * A rule holds for a parameter that any of its selectors names: a pattern of external names (* and
 * ?, the {} of a repeat as written), a dim, or a comparison of the external rank. The last rule of
 * a kind that holds wins; each selector has to name something. */
#include "grammar/config.h"
#include "ir/external.h"

#include <fnmatch.h>
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

static bool selects(Elab *e, const Node *selector, const Tensor *t)
{
    const Node *n = node_bare(selector);
    int64_t than;
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
    if (r->kind == RULE_decay)
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

/* The optimizer's own decay first, wherever it was written. */
void apply_rules(Elab *e, Tensor *t)
{
    t->rate = 1;
    for (int general = 1; general >= 0; general--)
        for (size_t i = 0; i < e->rules.n; i++)
            if (e->rules.data[i].general == general)
                apply_one(e, &e->rules.data[i], t);
}

/* Before any parameter is declared: is it a selector at all? */
static bool check_selector(Elab *e, const Node *selector)
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

void add_rule(Elab *e, RuleKind kind, double value, const NodeList *where)
{
    TrainRule r = {.kind = kind, .value = value, .where = where};
    for (size_t i = 0; i < where->n; i++)
        if (!check_selector(e, where->data[i]))
            return;
    r.used = NEW_ARRAY(e->arena, bool, where->n + 1);
    vec_push(e->arena, &e->rules, r);
}

void all_rules_used(Elab *e)
{
    const Module *m = e->module;
    bool trained = !m->tensors.n;
    for (size_t i = 0; i < e->rules.n; i++) {
        const TrainRule *r = &e->rules.data[i];
        for (size_t k = 0; k < r->where->n; k++)
            if (!r->used[k] && !r->general)
                fail(e, r->where->data[k]->span, 315, "this names no parameter of the model");
    }
    for (size_t i = 0; i < m->tensors.n; i++)
        trained |= !m->tensors.data[i].frozen;
    if (!trained)
        fail(e, e->frozen_at, 315, "all parameters are frozen: there is nothing to train");
}
