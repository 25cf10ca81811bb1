/* update.c - the rule of an optimizer: its declaration in prelude.mg or in the file, elaborated
 * where a pass has one parameter's gradient.
 *
 * The names that the rule reads are bound first, by what they are; the prelude lists them. A state
 * that this parameter does not have is the number 0, and its new value is not asked for. A number
 * as the condition of `select` decides here: what is not chosen is not written. What is made of the
 * rate and the step alone is computed in f64, and rounded where it meets a tensor (expr.c).
 *
 * A file's rule sees its blocks and constants. Padding of a parameter and of its states stays 0,
 * whatever the rule makes of zeros; those of the prelude make zeros of them by themselves. */
#include "grammar/grammar.h"
#include "grammar/elab.h"
#include "ir/optimizers.h"

#include <string.h>

static void know_dim(Elab *e, Dim d)
{
    if (!dim_info(e, d.name))
        new_dim(e, d.name, d.size, (Span){0});
}

/* Every dim that the module has: a dim of the block's own is to be none of them. */
static void know_dims(Elab *e)
{
    const Module *m = e->module;
    for (size_t t = 0; t < m->tensors.n; t++)
        for (int i = 0; i < m->tensors.data[t].type.rank; i++)
            know_dim(e, m->tensors.data[t].type.dims[i]);
    for (size_t r = 0; r < m->layout.rules.n; r++)
        if (m->layout.rules.data[r].dim && !dim_info(e, m->layout.rules.data[r].dim))
            new_dim(e, m->layout.rules.data[r].dim, 1, (Span){0});
}

static Val number(double d)
{
    return (Val){.kind = VAL_NUMBER, .number = number_real(d)};
}

static bool given_number(const RuleCall *c, const char *name, Val *v)
{
    const int number_id = optimizer_number(c->goal->optimizer, name);
    if (number_id >= 0)
        *v = number(train_number_of(c->goal, number_id));
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

/* Only a matrix has rows and columns. */
static bool given_dims(const RuleCall *c, const char *name, DimList *dims)
{
    if (!c->matrix && strcmp(name, "all") != 0)
        return false;
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

/* The rate of this parameter. */
static Value own_rate(Elab *e, const RuleCall *c)
{
    return c->rate == 1 ? c->lr : build2(&e->b, OP_mul, c->lr, build_const(&e->b, DT_f64, c->rate));
}

static bool given_value(Elab *e, const RuleCall *c, Name name, Val *v)
{
    const char *word = text(e, name);
    Value x = 0;
    if (!strcmp(word, "p"))
        x = c->p;
    else if (!strcmp(word, "g"))
        x = c->g;
    else if (!strcmp(word, "lr"))
        x = own_rate(e, c);
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
    given.name = n->name;
    given.span = n->at;
    Sym *s = NEW(e->arena, Sym);
    *s = given;
    map_put(e->arena, &e->frame->syms, n->name, s); /* whatever the file calls so outside */
    vec_push(e->arena, &e->frame->order, s);
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
        fail(e, s && s->given.file ? s->given : optimizer->at, 258,
             "the rule of '%s' makes %s of '%s', which is %s", text(e, optimizer->name),
             have ? type_text(e, s->val.value) : "a number", text(e, name), type_text(e, old));
        return false;
    }
    *out = s->val.value;
    return true;
}

Value padded_with(Elab *e, Value x, const DimList *over, double fill)
{
    const DType t = type_of(e->module, x)->dtype;
    for (int i = 0; i < over->n; i++) {
        const DimInfo *d = dim_info(e, over->dim[i].name);
        if (!d || d->valid == d->size)
            continue;
        const Value end = build_const(&e->b, t, (double)d->valid);
        const Value in[] = {build2(&e->b, OP_lt, build_iota(&e->b, t, over->dim[i]), end), x,
                            build_const(&e->b, t, fill)};
        x = build(&e->b, OP_select, NULL, 3, in);
    }
    return x;
}

/* Of a dim whose parts are blocks: its index is that of the block, and that in the block. */
static Value without_padding_in_blocks(Elab *e, const RuleCall *c, Value x)
{
    const int at = type_find(&c->of->type, c->inner.name);
    if (c->outer.size <= 1 || c->of->valid[at] == c->of->type.dims[at].size)
        return x;
    const DType t = type_of(e->module, x)->dtype;
    const Value size = build_const(&e->b, t, (double)c->inner.size);
    const Value before = build2(&e->b, OP_mul, build_iota(&e->b, t, c->outer), size);
    const Value index = build2(&e->b, OP_add, before, build_iota(&e->b, t, c->inner));
    const Value end = build_const(&e->b, t, (double)c->of->valid[at]);
    const Value in[] = {build2(&e->b, OP_lt, index, end), x, build_const(&e->b, t, 0)};
    return build(&e->b, OP_select, NULL, 3, in);
}

static Value without_padding(Elab *e, const RuleCall *c, Value x)
{
    const Type *t = type_of(e->module, x);
    DimList all = {0};
    for (int i = 0; i < t->rank; i++)
        if (c->outer.size <= 1 ||
            (t->dims[i].name != c->inner.name && t->dims[i].name != c->outer.name))
            all.dim[all.n++] = t->dims[i];
    x = padded_with(e, x, &all, 0);
    return type_find(type_of(e->module, x), c->outer.name) < 0 ? x
                                                               : without_padding_in_blocks(e, c, x);
}

/* How much of each dim is no padding: a file's rule may make something of zeros. */
static void know_padding(Elab *e, const RuleCall *c, bool known)
{
    const Type *t = &c->of->type;
    for (int i = 0; c->optimizer->declaration && i < t->rank; i++)
        dim_info(e, t->dims[i].name)->valid = known ? c->of->valid[i] : t->dims[i].size;
}

/* The new parameter, and each state that there is. */
static bool take_results(Elab *e, const Node *optimizer, const RuleCall *c, Value *out)
{
    const Node *s;
    bool ok = take_result(e, optimizer, name_intern(e->names, "p"), c->p, &out[0]);
    for (size_t i = 0; ok && (s = nth_state(optimizer, i)); i++)
        ok = !c->states[i] || take_result(e, optimizer, s->name, c->states[i], &out[i + 1]);
    for (size_t i = 0; ok && c->optimizer->declaration && i <= STATES_MAX; i++)
        out[i] = out[i] ? without_padding(e, c, out[i]) : 0;
    return ok;
}

/* A file's blocks and constants. Its dims are those of its model, and no parameter's. */
static void know_source(Elab *e, const Elab *source)
{
    e->blocks = source->blocks;
    e->block_order.data = source->block_order.data;
    e->block_order.n = source->block_order.n;
    for (size_t i = 0; i < source->global_order.n; i++) {
        Sym *s = source->global_order.data[i];
        if (s->kind != SYM_CONST)
            continue;
        map_put(e->arena, &e->globals, s->name, s);
        vec_push(e->arena, &e->global_order, s);
    }
}

static Elab *open_rules(Module *m)
{
    const Elab *source = m->rules;
    static const ElaborateOptions none;
    Elab *e = NEW(m->arena, Elab);
    *e = (Elab){.arena = m->arena,
                .names = m->names,
                .diag = m->diag,
                .options = &none,
                .module = m,
                .rule = true};
    e->prelude = source ? source->prelude : read_prelude(e);
    if (!e->prelude)
        return NULL;
    declare_prelude(e);
    if (source)
        know_source(e, source);
    know_dims(e);
    return e;
}

static const Node *declaration(const Elab *e, const OptimizerInfo *o)
{
    if (o->declaration)
        return o->declaration;
    for (size_t i = 0; i < e->prelude->items.n; i++) {
        const Node *n = e->prelude->items.data[i];
        if (n->kind == N_OPTIMIZER && !strcmp(text(e, n->name), o->name))
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
    Frame f = {
        .block = optimizer, .path = "", .external = "", .prelude = !c->optimizer->declaration};
    const int errors = diag_errors(e->diag);
    Val none = {.kind = VAL_POISON};
    e->frame = &f;
    for (int i = 0; i < type_of(m, c->p)->rank; i++) /* blocks have a dim of their own */
        know_dim(e, type_of(m, c->p)->dims[i]);
    know_padding(e, c, true);
    bind_names(e, c, optimizer);
    statements(e, &optimizer->more, &none);
    const bool ok = diag_errors(e->diag) == errors && take_results(e, optimizer, c, out);
    if (diag_errors(e->diag) > errors && c->of->span.file)
        diag_note(e->diag, c->of->span, "where it updates this parameter, %s", type_text(e, c->p));
    know_padding(e, c, false);
    free_dims(e, &f);
    e->frame = NULL;
    return ok;
}
