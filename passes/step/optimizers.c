/* optimizers.c - what the rule of an optimizer is given, by its row (ir/optimizers.h). The rules
 * themselves are declared in grammar/prelude.mg or in the file; Module.update_rule writes them out
 * here, for each parameter where its gradient is known.
 *
 * A parameter of a repeat is its layers' matrices side by side: what looks at a whole matrix takes
 * each by itself, in its external form. What is one number for all parameters is computed in f64
 * and rounded once; simplify makes one of the copies that the rules have of it. */
#include "passes/step/blocks.h"
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

/* A parameter whose states of each element are kept in 8 bits: in its blocks the whole update is
 * computed, so that one kernel makes the new states, rounds them and moves the parameter. */
typedef struct InBlocks {
    bool are;
    Blocks blocks;
    BlockState state[STATES_MAX];
} InBlocks;

static bool of_elements(const StateInfo *s)
{
    return s->shape == WHOLE || s->shape == VECTOR;
}

/* The arguments of the states that there are. */
static void add_states(Update *u, uint32_t tensor, RuleCall *c, uint32_t *state, InBlocks *l)
{
    const StateInfo *s = c->optimizer->states;
    for (int i = 0; i < STATES_MAX && s[i].slot; i++) {
        const DimList *lacks = s[i].shape == ROWS   ? &c->cols
                               : s[i].shape == COLS ? &c->rows
                               : s[i].shape == ONE  ? &c->all
                                                    : NULL;
        if (!has_state(u, c->optimizer, &s[i], c->matrix))
            continue;
        if (l->are && of_elements(&s[i])) {
            l->state[i] = blocks_state(u, tensor, &s[i], &l->blocks);
            c->states[i] = l->state[i].wide;
        } else {
            c->states[i] = up_state(u, tensor, &s[i], lacks, &state[i]);
        }
    }
}

/* States that are never below 0 need no sign. */
static void choose_types(Update *u, InBlocks *l, const Value *new)
{
    Module *m = u->m;
    bool which[STATES_MAX];
    blocks_signs(m, l->state, new, which, STATES_MAX);
    for (int i = 0; i < STATES_MAX; i++) {
        if (!which[i])
            continue;
        const Value codes = l->state[i].codes;
        m->tensors.data[l->state[i].tensor].type.dtype = DT_udynamic8;
        m->values.data[codes].type.dtype = DT_udynamic8;
        for (size_t k = u->fn->body->ins.n; k-- > 0;) { /* its view, if it has one */
            const Ins *view = u->fn->body->ins.data[k];
            if (view->op == OP_split && view->in[0] == codes)
                m->values.data[view->out[0]].type.dtype = DT_udynamic8;
        }
    }
}

/* The new value of the parameter, which was computed in blocks. */
static void give_parameter(Update *u, uint32_t tensor, const InBlocks *l, Value old, Value v)
{
    v = up_finite(u, build_as(&u->b, v, *type_of(u->m, old)), old);
    up_give(u, tensor, blocks_merged(&u->b, &l->blocks, v));
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
    InBlocks l = {.are = blocks_fit(u->goal, t)};
    if (l.are) {
        l.blocks = blocks_of(u->m, t);
        c.outer = l.blocks.outer;
        c.inner = l.blocks.inner;
        c.p = blocks_split(&u->b, &l.blocks, p);
        c.g = blocks_split(&u->b, &l.blocks, g);
    }
    c.g = up_clipped(u, c.g);
    add_states(u, tensor, &c, state, &l);
    if (!u->m->update_rule || !u->m->update_rule(&u->b, &c, new))
        return false;
    if (l.are) {
        choose_types(u, &l, &new[1]);
        give_parameter(u, tensor, &l, c.p, new[0]);
    } else {
        up_new_value(u, tensor, new[0]);
    }
    for (int i = 0; i < STATES_MAX; i++) {
        if (l.state[i].wide)
            blocks_new_value(u, &l.state[i], &l.blocks, new[i + 1]);
        else if (c.states[i])
            up_new_value(u, state[i], new[i + 1]);
    }
    return true;
}
