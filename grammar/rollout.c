/* rollout.c - `rollout groups(size = 8, tokens = 256)`: a model that learns answers which its
 * program generates itself.
 *
 *   model grpo(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks),
 *              advantage[batch, one][, old[batch, seq]]) {
 *       logits = ...    of the next token: what answers are drawn by
 *       likely = ...    [batch, seq]: the log probability of each target; with several updates an
 *                       answer has the input `old`, which is this before the first of them
 *       loss = ...
 *   }
 *
 * Rows are a prompt, the answer, and what fills them up; mask is 1 at the tokens of the answer. The
 * function that generates is elaborated from `logits` as that of a program that does nothing else
 * (elaborate.c), where tokens are the only input that has a value. */
#include "grammar/config.h"

#include <string.h>

enum { SIZE, TOKENS, UPDATES, SCALE, TEMPERATURE, TEXTS, SETTINGS };

void read_rollout(Elab *e, const Node *value, Rollout *o)
{
    static const char *const kinds[] = {"groups", NULL};
    static const char *const takes[] = {"size",        "tokens", "updates", "scale",
                                        "temperature", "texts",  NULL};
    static const char *const names[] = {"group", "batch", "none", NULL};
    const Node *slot[SETTINGS];
    Rollout r = {.updates = 1, .temperature = 1, .span = value->span};
    if (config_choice(e, value, "kind of rollouts", kinds, 307) < 0 ||
        !config_args(e, value, takes, slot, NULL, 308))
        return;
    if (!slot[SIZE] || !slot[TOKENS]) {
        fail(e, value->at, 594, "rollouts need `%s = ...`", slot[SIZE] ? "tokens" : "size");
        help(e, "rollout groups(size = 8, tokens = 256)");
        return;
    }
    const Node *scale = slot[SCALE];
    scale = scale && scale->kind == N_NAMED ? scale->a : scale;
    const int by = scale ? config_choice(e, scale, "scale of rewards", names, 307) : 0;
    if (by < 0 || !config_integer(e, slot[SIZE], 2, &r.size, 594) ||
        !config_integer(e, slot[TOKENS], 1, &r.tokens, 594) ||
        (slot[UPDATES] && !config_integer(e, slot[UPDATES], 1, &r.updates, 594)) ||
        (slot[TEXTS] && !config_integer(e, slot[TEXTS], 1, &r.texts, 594)) ||
        !config_within(e, slot[TEMPERATURE], "temperature", -1, 1e300, &r.temperature))
        return;
    r.scale = (RewardScale)by;
    *o = r;
}

/* ---- the inputs ------------------------------------------------------------------------------ */

static bool wrong_inputs(Elab *e, const Node *model, const Node *in, const char *why)
{
    const Rollout *o = &e->module->train.rollout;
    fail(e, in ? in->span : model->at, 595, "%s", why);
    note(e, o->span, "it learns what it generates");
    help(e,
         "model %s(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks), "
         "advantage[batch, one]%s)",
         text(e, model->name), o->updates > 1 ? ", old[batch, seq]" : "");
    return false;
}

static const Node *input_of(const Elab *e, const Node *model, const char *name)
{
    for (size_t i = 0; i < model->list.n; i++)
        if (!strcmp(text(e, model->list.data[i]->name), name))
            return model->list.data[i];
    return NULL;
}

static bool has_dims(const Node *in, Name first, Name second)
{
    return in->list.n == 2 && in->list.data[0]->name == first && in->list.data[1]->name == second;
}

static bool check_inputs(Elab *e, const Node *model)
{
    const bool several = e->module->train.rollout.updates > 1;
    const Node *tokens = input_of(e, model, "tokens"), *mask = input_of(e, model, "mask"),
               *advantage = input_of(e, model, "advantage"), *old = input_of(e, model, "old");
    if (!tokens || !tokens->a || tokens->list.n != 2)
        return wrong_inputs(e, model, tokens,
                            "a model with rollouts has tokens[batch, seq] : token(vocab)");
    const Name batch = tokens->list.data[0]->name, seq = tokens->list.data[1]->name;
    if (!mask || !mask->a || !has_dims(mask, batch, seq))
        return wrong_inputs(e, model, mask,
                            "a model with rollouts has mask[batch, seq] : token(marks), which is 1 "
                            "at the tokens of the answer");
    if (!advantage || advantage->a || advantage->list.n != 2)
        return wrong_inputs(e, model, advantage,
                            "a model with rollouts has advantage[batch, one], a number each row");
    if (several && (!old || old->a || !has_dims(old, batch, seq)))
        return wrong_inputs(e, model, old,
                            "with several updates an answer a model has old[batch, seq], the log "
                            "probabilities before the first of them");
    if (old && !several)
        return wrong_inputs(e, model, old,
                            "with one update an answer the old log probabilities are `likely` "
                            "itself: stop(likely)");
    if (model->list.n != (several ? 4 : 3))
        return wrong_inputs(e, model, NULL, "nothing gives a model with rollouts more inputs");
    return true;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool check_sizes(Elab *e)
{
    const Module *m = e->module;
    Rollout *o = &e->module->train.rollout;
    const int64_t batch = m->batch.size;
    if (o->tokens > m->seq.size) {
        fail(e, o->span, 594, "answers of %lld tokens, and a row has %lld with its prompt",
             (long long)o->tokens, (long long)m->seq.size + 1);
        help(e, "tokens = %lld, or -D seq=%lld", (long long)m->seq.size / 2,
             (long long)o->tokens * 2);
        return false;
    }
    if (batch % o->size) {
        fail(e, o->span, 594, "groups of %lld answers, and a step has %lld rows",
             (long long)o->size, (long long)batch);
        help(e, "-D batch=%lld", (long long)((batch + o->size - 1) / o->size * o->size));
        return false;
    }
    if (!o->texts)
        o->texts = batch;
    if (batch % o->texts) {
        fail(e, o->span, 594, "%lld texts are generated at once, and a step has %lld rows",
             (long long)o->texts, (long long)batch);
        help(e, "texts = %lld, or leave it out: then all are", (long long)o->size);
        return false;
    }
    return layout_rolls_out(e);
}

bool rollout_begins(Elab *e, const Node *model)
{
    Module *m = e->module;
    Dim vocab;
    if (!m->train.rollout.size)
        return true;
    if (!check_inputs(e, model))
        return false;
    const Node *tokens = input_of(e, model, "tokens");
    if (!resolve_dim(e, tokens->list.data[1], &m->seq) || !resolve_dim(e, tokens->a, &vocab))
        return false;
    m->vocab = dim_info(e, vocab.name)->valid;
    return check_sizes(e);
}

/* ---- what the model says --------------------------------------------------------------------- */

static Value named(Elab *e, const char *name)
{
    const Sym *s = find_local(e->frame, name_intern(e->names, name));
    const bool there = s && s->kind == SYM_VALUE && !s->gone && s->val.kind == VAL_TENSOR;
    return there ? s->val.value : 0;
}

Value rollout_logits(Elab *e)
{
    return named(e, "logits");
}

/* Of @eval: what `old` is before the first of several updates. */
bool rollout_likely(Elab *e, const Node *model)
{
    const Module *m = e->module;
    if (m->train.rollout.updates < 2)
        return true;
    const Value v = named(e, "likely");
    const Type *t = v ? type_of(m, v) : NULL;
    if (t && t->rank == 2 && dtype_is_float(t->dtype) && type_find(t, m->batch.name) == 0 &&
        type_find(t, m->seq.name) == 1) {
        add_result(e, (FnResult){.role = RES_logits}, build_cast(&e->b, v, e->compute));
        return true;
    }
    fail(e, model->at, 596, "model '%s' has no likely[%s, %s], the log probability of each target",
         text(e, model->name), text(e, m->batch.name), text(e, m->seq.name));
    note(e, m->train.rollout.span, "of which `old` is made, for several updates an answer");
    return false;
}
