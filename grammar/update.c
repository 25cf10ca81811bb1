/* update.c - the rule of an optimizer: its block of prelude.mg, elaborated where a pass has one
 * parameter's gradient.
 *
 * The block's parameters are given by their kinds:
 *   values    by place: p, g, the states in the order of the optimizer's row; then by name: lr, and
 *             step, the number of the step from 1. Both are f64. A state that this parameter does
 *             not have is the number 0, and what the block returns for it is not asked for.
 *   over      rows, cols, all: the dims of a matrix's two sides, and all but those that number it
 *   options   numbers of the optimizer by name; rate, decay: the parameter's; rank: how many `all`
 * is flags     matrix A number as the condition of `select` decides here: what is not chosen is not
 * written. What is computed in f64 is rounded to the parameter's dtype where the block says
 * `rounded`. */
#include "grammar/grammar.h"
#include "grammar/elab.h"
#include "ir/optimizers.h"

#include <string.h>

/* Every dim that the module has: a dim of the block's own is to be none of them. */
static void know_dims(Elab *e)
{
    const Module *m = e->module;
    for (size_t t = 0; t < m->tensors.n; t++)
        for (int i = 0; i < m->tensors.data[t].type.rank; i++) {
            const Dim d = m->tensors.data[t].type.dims[i];
            if (!dim_info(e, d.name))
                new_dim(e, d.name, d.size, (Span){0}, false);
        }
    for (size_t r = 0; r < m->layout.rules.n; r++)
        if (m->layout.rules.data[r].dim && !dim_info(e, m->layout.rules.data[r].dim))
            new_dim(e, m->layout.rules.data[r].dim, 1, (Span){0}, false);
}

static Val number(double d)
{
    return (Val){.kind = VAL_NUMBER, .number = number_real(d)};
}

static bool given_number(const Elab *e, const RuleCall *c, const char *name, Val *v)
{
    const int number_id = optimizer_number(name);
    if (number_id >= 0)
        *v = number(train_number_of(&e->module->train, number_id));
    else if (!strcmp(name, "rate"))
        *v = number(c->rate);
    else if (!strcmp(name, "decay"))
        *v = number(c->decay);
    else if (!strcmp(name, "rank"))
        *v = number(c->all.n);
    else if (!strcmp(name, "matrix"))
        *v = number(c->matrix);
    else
        return false;
    return true;
}

static bool given_dims(const RuleCall *c, const char *name, DimList *dims)
{
    *dims = !strcmp(name, "rows") ? c->rows : !strcmp(name, "cols") ? c->cols : c->all;
    return !strcmp(name, "rows") || !strcmp(name, "cols") || !strcmp(name, "all");
}

/* The value at place `at`. */
static bool given_value(const RuleCall *c, int at, const char *name, Val *v)
{
    int states = 0;
    while (states < STATES_MAX && optimizers[c->optimizer].states[states].slot)
        states++;
    Value x = 0;
    if (at < 2)
        x = at ? c->g : c->p;
    else if (at < 2 + states)
        x = c->states[at - 2];
    else if (!strcmp(name, "lr"))
        x = c->lr;
    else if (!strcmp(name, "step"))
        x = c->step(c->ctx);
    else
        return false;
    *v = x ? tensor_val(x) : number(0);
    return true;
}

static bool bind_rule(Elab *e, const Node *block, const RuleCall *c)
{
    int values = 0;
    for (size_t i = 0; i < block->list.n; i++) {
        const Node *p = block->list.data[i];
        const char *name = text(e, p->name);
        bool dims = p->kind == N_OVER, known;
        bool value = p->kind == N_TENSOR && strcmp(name, "matrix") != 0;
        Sym *s = declare(e, dims ? SYM_DIM : value ? SYM_VALUE : SYM_CONST, p->name, p->at);
        if (!s)
            return false;
        if (dims)
            known = given_dims(c, name, &s->dims);
        else if (value)
            known = given_value(c, values++, name, &s->val);
        else
            known = given_number(e, c, name, &s->val);
        s->ready = true;
        if (!known) {
            fail(e, p->at, 243, "a rule is given no '%s'", name);
            return false;
        }
    }
    return true;
}

/* The results of the block: the new p, and each state that there is. */
static bool take_results(Elab *e, const Node *block, const RuleCall *c, Val result, Value *out)
{
    const size_t count = result.kind == VAL_SEVERAL ? result.count : 1;
    const Val *v = result.kind == VAL_SEVERAL ? result.several : &result;
    for (size_t i = 0; i <= STATES_MAX; i++) {
        const Value old = i == 0 ? c->p : c->states[i - 1];
        if (!old)
            continue;
        const Type *want = type_of(e->module, old);
        const Type *have =
            i < count && v[i].kind == VAL_TENSOR ? type_of(e->module, v[i].value) : NULL;
        if (!have || have->dtype != want->dtype || !type_same_dims(have, want)) {
            fail(e, block->at, 258, "result %zu of the rule '%s' is not what it was given", i + 1,
                 text(e, block->name));
            return false;
        }
        out[i] = v[i].value;
    }
    return true;
}

static Elab *open_rules(Module *m)
{
    static const ElaborateOptions none;
    Elab *e = NEW(m->arena, Elab);
    *e = (Elab){.arena = m->arena,
                .names = m->names,
                .diag = m->diag,
                .options = &none,
                .module = m,
                .rule = true};
    e->prelude = read_prelude(e);
    if (!e->prelude)
        return NULL;
    declare_prelude(e);
    know_dims(e);
    return e;
}

bool mg_update_rule(Builder *b, const RuleCall *c, Value *out)
{
    Module *m = b->m;
    Elab *e = *c->kept ? *c->kept : open_rules(m);
    *c->kept = e;
    if (!e)
        return false;
    e->b = *b;
    e->work = 0;
    e->compute = type_of(m, c->p)->dtype;
    const Name name = name_intern(m->names, optimizers[c->optimizer].name);
    const Sym *s = map_find(&e->builtin_blocks, name);
    if (!s)
        return false;
    Frame f = {.block = s->node, .path = "", .external = "", .prelude = true};
    e->frame = &f;
    Val result = {.kind = VAL_POISON};
    if (bind_rule(e, s->node, c))
        statements(e, &s->node->more, &result);
    free_dims(e, &f);
    e->frame = NULL;
    return result.kind != VAL_POISON && take_results(e, s->node, c, result, out);
}
