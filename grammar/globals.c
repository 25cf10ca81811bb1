/* globals.c - dims, constants and blocks of a file, and -D. Dims and constants may be used before
 * they are declared; each is evaluated when it is first wanted. */
#include "grammar/elab.h"

#include <string.h>

/* ---- -D NAME=VALUE ------------------------------------------------------------------------ */

/* An expression outside of any block: numbers only. */
bool global_number(Elab *e, const Node *n, Number *result)
{
    Frame *frame = e->frame;
    bool constant = e->constant;
    e->frame = NULL;
    e->constant = true;
    Val v = number_expr(e, n);
    e->frame = frame;
    e->constant = constant;
    *result = v.number;
    return v.kind == VAL_NUMBER;
}

static void read_override(Elab *e, const char *definition)
{
    size_t length = strlen(definition);
    uint32_t file = diag_add_file(e->diag, "-D", definition, length);
    definition = diag_text(e->diag, file, &length); /* as a remedy that is tried has it */
    const char *equals = strchr(definition, '=');
    Span all = {file, 0, (uint32_t)length};
    if (!equals || equals == definition) {
        fail(e, all, 305, "-D takes NAME=VALUE");
        return;
    }
    size_t skip = (size_t)(equals + 1 - definition);
    const Node *n = parse_expression(e->arena, e->names, e->diag, file, skip);
    if (!n)
        return;
    Name name = name_intern_n(e->names, definition, (size_t)(equals - definition));
    for (size_t i = 0; i < e->overrides.n; i++)
        if (e->overrides.data[i].name == name)
            e->overrides.data[i].name = 0; /* the last one wins */
    vec_push(e->arena, &e->overrides, (Override){name, n, all, false});
}

void read_overrides(Elab *e)
{
    for (size_t i = 0; i < e->options->ndefine; i++)
        read_override(e, e->options->define[i]);
}

const Node *take_override(Elab *e, Name name)
{
    for (size_t i = 0; i < e->overrides.n; i++)
        if (e->overrides.data[i].name == name) {
            e->overrides.data[i].used = true;
            return e->overrides.data[i].node;
        }
    return NULL;
}

void check_overrides(Elab *e, const NodeList *axes)
{
    for (size_t i = 0; i < e->overrides.n; i++) {
        const Override *o = &e->overrides.data[i];
        if (!o->name || o->used || map_find(&e->globals, o->name))
            continue;
        fail(e, o->span, 304, "-D: there is no dim, constant or mesh axis '%s'", text(e, o->name));
        VEC(const char *) near = {0};
        for (size_t k = 0; k < e->global_order.n; k++)
            vec_push(e->arena, &near, text(e, e->global_order.data[k]->name));
        for (size_t k = 0; k < axes->n; k++)
            vec_push(e->arena, &near, text(e, axes->data[k]->name));
        suggest(e, text(e, o->name), near.data, near.n);
    }
}

/* ---- dims and constants ------------------------------------------------------------------- */

static bool dim_size(Elab *e, const Sym *s, Span at, Number n, int64_t *size)
{
    if (!number_integer(n, size)) {
        fail(e, at, 208, "dim '%s' would be %s, which is not an integer", text(e, s->name),
             number_text(e->arena, n));
        return false;
    }
    if (*size >= 1 && *size <= INT64_C(1) << 62)
        return true;
    fail(e, at, 209, "dim '%s' would be %lld; a dim is from 1 to 2^62", text(e, s->name),
         (long long)*size);
    return false;
}

bool force(Elab *e, Sym *s)
{
    if (s->ready || !s->node || (s->kind != SYM_DIM && s->kind != SYM_CONST))
        return s->kind != SYM_DIM || s->dims.n || e->rule; /* `all` of a number is no dim */
    if (s->busy) {
        fail(e, s->span, 210, "'%s' is defined by itself", text(e, s->name));
        s->ready = true;
        return false;
    }
    s->busy = true;
    const Node *given = take_override(e, s->name);
    given = given ? given : s->node;
    Number n;
    bool ok = global_number(e, given, &n);
    s->busy = false;
    s->ready = true;
    s->val = ok ? (Val){.kind = VAL_NUMBER, .number = n} : (Val){.kind = VAL_POISON};
    int64_t size;
    if (s->kind == SYM_CONST || !ok || !dim_size(e, s, given->span, n, &size))
        return s->kind == SYM_CONST && ok;
    s->dims = (DimList){1, {new_dim(e, s->name, size, s->span)}};
    return true;
}

/* ---- declarations ------------------------------------------------------------------------- */

static void declare_block(Elab *e, const Node *n)
{
    const Sym *old = map_find(&e->blocks, n->name);
    if (n->list.n > PARAMETERS_MAX) {
        fail(e, n->at, 255, "block '%s' has %zu parameters; the limit is %d", text(e, n->name),
             n->list.n, PARAMETERS_MAX);
        return;
    }
    if (is_builtin(text(e, n->name))) {
        fail(e, n->at, 202, "'%s' is a function of the language", text(e, n->name));
        help(e, "choose another name");
        return;
    }
    if (old) {
        fail(e, n->at, 202, "'%s' is the name of a block already", text(e, n->name));
        note(e, old->span, "declared here");
        return;
    }
    Sym *s = NEW(e->arena, Sym);
    *s = (Sym){.kind = SYM_BLOCK, .name = n->name, .span = n->at, .node = n};
    map_put(e->arena, &e->blocks, n->name, s);
    vec_push(e->arena, &e->block_order, s);
}

static void declare_bindings(Elab *e, const Node *n)
{
    for (size_t i = 0; i < n->list.n; i++) {
        const Node *b = n->list.data[i];
        Sym *s = declare(e, n->kind == N_DIMS ? SYM_DIM : SYM_CONST, b->name, b->at);
        if (s)
            s->node = b->a;
    }
}

void declare_prelude(Elab *e)
{
    for (size_t i = 0; i < e->prelude->items.n; i++) {
        const Node *n = e->prelude->items.data[i];
        if (n->kind != N_BLOCK)
            continue;
        Sym *s = NEW(e->arena, Sym);
        *s = (Sym){.kind = SYM_BLOCK, .name = n->name, .span = n->at, .node = n};
        Sym *last = map_find(&e->builtin_blocks, n->name);
        while (last && last->other)
            last = last->other;
        if (last)
            last->other = s;
        else
            map_put(e->arena, &e->builtin_blocks, n->name, s);
    }
}

void declare_globals(Elab *e)
{
    declare_prelude(e);
    for (size_t i = 0; i < e->ast->items.n; i++) {
        const Node *n = e->ast->items.data[i];
        if (n->kind == N_DIMS || n->kind == N_CONSTS)
            declare_bindings(e, n);
        else if (n->kind == N_BLOCK)
            declare_block(e, n);
    }
    read_overrides(e);
    for (size_t i = 0; i < e->global_order.n && !diag_enough(e->diag); i++)
        force(e, e->global_order.data[i]);
}
