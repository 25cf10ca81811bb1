/* optimizers.c - what the rule of an optimizer is given, by its row (ir/optimizers.h). The rules
 * themselves are declared in grammar/prelude.mg or in the file; Module.update_rule writes them out
 * here, for each parameter where its gradient is known.
 *
 * A parameter of a repeat is its layers' matrices side by side: what looks at a whole matrix takes
 * each by itself, in its external form. What is one number for all parameters is computed in f64
 * and rounded once; simplify makes one of the copies that the rules have of it. */
#include "passes/step/update.h"
#include "passes/walk.h"

/* The stored dims behind external dim `place`. */
static DimList external_dims(const Tensor *t, int place)
{
    DimList l = {0};
    int from = 0;
    for (int i = 0; i < place; i++)
        from += t->merge[i];
    for (int k = 0; k < t->merge[place]; k++)
        l.dim[l.n++] = t->type.dims[t->order[from + k]];
    return l;
}

/* Hidden matrices; embeddings and heads have the dim that tokens index. */
static bool hidden_matrix(const Update *u, const Tensor *t)
{
    for (size_t v = 1; v < u->m->values.n; v++) {
        Name indexed = u->m->values.data[v].type.indexes;
        if (indexed && type_find(&t->type, indexed) >= 0)
            return false;
    }
    return t->external_rank == 2;
}

/* The number by which a state depends is the chosen optimizer's, whose rest the row may be. */
static bool has_state(const Update *u, const OptimizerInfo *row, const StateInfo *s, bool matrix)
{
    const char *when = s->when == ALWAYS ? NULL : optimizer_number_name(row, s->when);
    if (when && train_number_of(u->goal, optimizer_number(u->goal->optimizer, when)) == 0)
        return false;
    return s->shape == WHOLE || s->shape == ONE || (s->shape == VECTOR) == !matrix;
}

/* The arguments of the states that there are. */
static void add_states(Update *u, uint32_t tensor, RuleCall *c, uint32_t *state)
{
    const StateInfo *s = c->optimizer->states;
    for (int i = 0; i < STATES_MAX && s[i].slot; i++) {
        const DimList *lacks = s[i].shape == ROWS   ? &c->cols
                               : s[i].shape == COLS ? &c->rows
                               : s[i].shape == ONE  ? &c->all
                                                    : NULL;
        if (has_state(u, c->optimizer, &s[i], c->matrix))
            c->states[i] = up_state(u, tensor, &s[i], lacks, &state[i]);
    }
}

static Value step_of(void *u)
{
    return up_time(u);
}

bool optimizer_update(Update *u, uint32_t tensor, Value p, Value g)
{
    const Tensor *t = &u->m->tensors.data[tensor];
    const OptimizerInfo *chosen = u->goal->optimizer, *rest = chosen->rest;
    RuleCall c = {.goal = u->goal,
                  .optimizer = rest != chosen && !hidden_matrix(u, t) ? rest : chosen,
                  .of = t,
                  .p = p,
                  .g = g,
                  .lr = u->lr,
                  .matrix = t->external_rank >= 2,
                  .step = step_of,
                  .ctx = u,
                  .rate = t->rate,
                  .decay = t->decay,
                  .kept = &u->rules};
    for (int i = t->stacked; i < t->type.rank; i++)
        c.all.dim[c.all.n++] = t->type.dims[i];
    if (c.matrix) {
        c.rows = external_dims(t, t->external_rank - 2);
        c.cols = external_dims(t, t->external_rank - 1);
    }
    uint32_t state[STATES_MAX] = {0};
    Value new[STATES_MAX + 1] = {0};
    add_states(u, tensor, &c, state);
    if (!u->m->update_rule || !u->m->update_rule(&u->b, &c, new))
        return false;
    up_new_value(u, tensor, new[0]);
    for (int i = 0; i < STATES_MAX; i++)
        if (c.states[i])
            up_new_value(u, state[i], new[i + 1]);
    return true;
}
