/* update.c - the rule of an optimizer: its declaration in prelude.mg, elaborated where a pass has
 * one parameter's gradient.
 *
 * The names that the rule reads are bound first, by what they are; the prelude lists them. A state
 * that this parameter does not have is the number 0, and its new value is not asked for. A number
 * as the condition of `select` decides here: what is not chosen is not written. What is computed in
 * f64 is rounded to the parameter's dtype where the rule says `rounded`. */
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

static bool given_number(const RuleCall *c, const char *name, Val *v)
{
    const int number_id = optimizer_number(name);
    if (number_id >= 0)
        *v = number(train_number_of(c->goal, number_id));
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

/* The nth state that the optimizer declares, or NULL. */
static const Node *nth_state(const Node *optimizer, size_t n)
{
    for (size_t i = 0; i < optimizer->more.n; i++) {
        const Node *s = optimizer->more.data[i];
        if (s->kind == N_STATE && n < s->list.n)
            return s->list.data[n];
        n -= s->kind == N_STATE ? s->list.n : 0;
    }
    return NULL;
}

static bool given_state(const Elab *e, const RuleCall *c, Name name, Value *x)
{
    const Node *s;
    for (size_t i = 0; (s = nth_state(e->frame->block, i)); i++)
        if (s->name == name) {
            *x = c->states[i];
            return true;
        }
    return false;
}

static bool given_value(const Elab *e, const RuleCall *c, Name name, Val *v)
{
    const char *word = text(e, name);
    Value x = 0;
    if (!strcmp(word, "p"))
        x = c->p;
    else if (!strcmp(word, "g"))
        x = c->g;
    else if (!strcmp(word, "lr"))
        x = c->lr;
    else if (!strcmp(word, "step"))
        x = c->step(c->ctx);
    else if (!given_state(e, c, name, &x))
        return false;
    *v = x ? tensor_val(x) : number(0);
    return true;
}

/* A name that the rule reads: what it is given of that name, if it is given it. */
static void bind_name(Elab *e, const RuleCall *c, const Node *n)
{
    Sym given = {.ready = true};
    if (find_local(e->frame, n->name))
        return;
    if (given_value(e, c, n->name, &given.val))
        given.kind = SYM_VALUE;
    else if (given_number(c, text(e, n->name), &given.val))
        given.kind = SYM_CONST;
    else if (given_dims(c, text(e, n->name), &given.dims))
        given.kind = SYM_DIM;
    else
        return;
    Sym *s = declare(e, given.kind, n->name, n->at);
    if (!s)
        return;
    s->ready = given.ready;
    s->val = given.val;
    s->dims = given.dims;
}

static void bind_names(Elab *e, const RuleCall *c, const Node *n)
{
    if (!n || n->kind == N_STATE)
        return;
    if (n->kind == N_NAME)
        bind_name(e, c, n);
    bind_names(e, c, n->a);
    bind_names(e, c, n->b);
    for (size_t i = 0; i < n->list.n; i++)
        bind_names(e, c, n->list.data[i]);
    for (size_t i = 0; i < n->more.n; i++)
        bind_names(e, c, n->more.data[i]);
}

/* The value that the rule has made of a name: of the type that it was given. */
static bool take_result(Elab *e, const Node *optimizer, Name name, Value old, Value *out)
{
    const Sym *s = find_local(e->frame, name);
    const Type *want = type_of(e->module, old);
    const Type *have = s && s->val.kind == VAL_TENSOR ? type_of(e->module, s->val.value) : NULL;
    if (s && s->val.kind == VAL_POISON)
        return false;
    if (!have || have->dtype != want->dtype || !type_same_dims(have, want)) {
        fail(e, optimizer->at, 258, "the rule of '%s' makes of '%s' what it was not",
             text(e, optimizer->name), text(e, name));
        return false;
    }
    *out = s->val.value;
    return true;
}

/* The new parameter, and each state that there is. */
static bool take_results(Elab *e, const Node *optimizer, const RuleCall *c, Value *out)
{
    const Node *s;
    bool ok = take_result(e, optimizer, name_intern(e->names, "p"), c->p, &out[0]);
    for (size_t i = 0; ok && (s = nth_state(optimizer, i)); i++)
        ok = !c->states[i] || take_result(e, optimizer, s->name, c->states[i], &out[i + 1]);
    return ok;
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
    e->prelude = m->prelude ? m->prelude : read_prelude(e);
    if (!e->prelude)
        return NULL;
    declare_prelude(e);
    know_dims(e);
    return e;
}

static const Node *declaration(const Elab *e, Optimizer o)
{
    for (size_t i = 0; i < e->prelude->items.n; i++) {
        const Node *n = e->prelude->items.data[i];
        if (n->kind == N_OPTIMIZER && !strcmp(text(e, n->name), optimizers[o].name))
            return n;
    }
    return NULL;
}

bool mg_update_rule(Builder *b, const RuleCall *c, Value *out)
{
    Module *m = b->m;
    Elab *e = *c->kept ? *c->kept : open_rules(m);
    *c->kept = e;
    const Node *optimizer = e ? declaration(e, c->optimizer) : NULL;
    if (!optimizer)
        return false;
    e->b = *b;
    e->work = 0;
    e->compute = type_of(m, c->p)->dtype;
    Frame f = {.block = optimizer, .path = "", .external = "", .prelude = true};
    const int errors = diag_errors(e->diag);
    Val none = {.kind = VAL_POISON};
    e->frame = &f;
    bind_names(e, c, optimizer);
    statements(e, &optimizer->more, &none);
    const bool ok = diag_errors(e->diag) == errors && take_results(e, optimizer, c, out);
    free_dims(e, &f);
    e->frame = NULL;
    return ok;
}
