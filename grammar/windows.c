/* windows.c - the tokens of a sequence and those behind them: next(tokens, by = n).
 *
 *   tokens[batch, seq + n]   the argument of @train and @eval, n the furthest that either asks for
 *   weight[batch, seq + n - 1]   what the token after each position counts; next(weight) is further
 * on ids[batch, ..., dec + n]     likewise an input by name that has indices, along its last dim
 *
 *   documents[batch, seq + n]    documents.c
 *
 * A window is a view of an argument. How far the source asks is known when all of it is elaborated,
 * as `by` may be the number of an iteration: the windows are made where they are asked for, put at
 * the beginning of the function at its end, and the arguments get their sizes when both functions
 * are there. @sample has seq tokens alone. */
#include "grammar/builtin.h"

#include <string.h>

static const Val poison = {.kind = VAL_POISON};

/* ---- is it asked for? --------------------------------------------------------------------- */

/* next: anywhere; further: of anything but the token input, or with `by`. */
static void find_calls(Elab *e, const Node *n, Name tokens)
{
    if (n->kind == N_CALL && strcmp(text(e, n->name), "next") == 0) {
        const Node *of = n->list.n ? n->list.data[0] : NULL;
        e->reads_next = true;
        e->reads_further |= n->list.n > 1 || (of && of->kind == N_NAME && of->name != tokens);
    }
    if (n->a)
        find_calls(e, n->a, tokens);
    if (n->b)
        find_calls(e, n->b, tokens);
    for (size_t i = 0; i < n->list.n; i++)
        find_calls(e, n->list.data[i], tokens);
    for (size_t i = 0; i < n->more.n; i++)
        find_calls(e, n->more.data[i], tokens);
}

void find_next(Elab *e, const Node *model)
{
    const Name tokens = model && model->list.n ? model->list.data[0]->name : 0;
    e->furthest = 1;
    for (size_t i = 0; i < e->ast->items.n; i++)
        find_calls(e, e->ast->items.data[i], tokens);
}

/* ---- windows ------------------------------------------------------------------------------ */

/* The window of an argument that begins `by` further on, a view at the beginning of the function.
 */
Value window_at(Elab *e, Windows *w, int64_t by)
{
    Module *m = e->module;
    while (w->at.n <= (size_t)by)
        vec_push(e->arena, &w->at, 0);
    if (w->at.data[by])
        return w->at.data[by];
    Builder b = {.m = m, .region = e->fn->body, .span = w->span};
    Type t = *type_of(m, w->arg);
    Attrs attrs = {.along = w->along, .at = by};
    t.dims[t.rank - 1] = w->along;
    Value v = build_typed(&b, OP_window, &attrs, 1, &w->arg, 1, &t, NULL)->out[0];
    vec_push(e->arena, &e->windows, b.region->ins.data[--b.region->ins.n]);
    const char *name = text(e, w->name);
    name = by == 0   ? name
           : by == 1 ? arena_printf(e->arena, "next_%s", name)
                     : arena_printf(e->arena, "next_%s_%lld", name, (long long)by);
    m->values.data[v].name = name_intern(e->names, name);
    return w->at.data[by] = v;
}

void begin_windows(Elab *e)
{
    e->tokens = e->next = e->weight = 0;
    e->token_windows = e->weight_windows = e->document_windows = (Windows){0};
    memset(e->input_windows, 0, sizeof e->input_windows);
    e->windows.n = e->begins.n = 0;
}

static Windows windows_of_input(Value arg, const Node *in, Dim along)
{
    return (Windows){.arg = arg, .name = in->name, .span = in->span, .along = along};
}

void token_windows(Elab *e, const Node *input, int64_t batch)
{
    Module *m = e->module;
    Dim vocab;
    resolve_dim(e, input->a, &vocab);
    Type t = {.dtype = DT_i32,
              .rank = 2,
              .dims = {{m->batch.name, batch}, m->seq},
              .indexes = vocab.name};
    e->tokens = fn_arg(e, ARG_tokens, 0, t, text(e, input->name));
    if (!e->reads_next || e->mode == MODE_SAMPLE)
        return;
    e->token_windows = windows_of_input(e->tokens, input, m->seq);
    e->tokens = window_at(e, &e->token_windows, 0);
    e->next = window_at(e, &e->token_windows, 1);
}

/* While sampling nobody knows what comes next, or what it counts. */
Val weight_windows(Elab *e, const Node *in, int64_t batch)
{
    const Module *m = e->module;
    if (e->mode == MODE_SAMPLE)
        return poison;
    Type t = {.dtype = e->compute, .rank = 2, .dims = {{m->batch.name, batch}, m->seq}};
    e->weight = fn_arg(e, ARG_weight, 0, t, text(e, in->name));
    e->weight_windows = windows_of_input(e->weight, in, m->seq);
    if (e->reads_further)
        e->weight = window_at(e, &e->weight_windows, 0);
    return tensor_val(e->weight);
}

Value input_windows(Elab *e, const Node *in, uint32_t number, Value arg)
{
    const Type *t = type_of(e->module, arg);
    if (!e->reads_next || !t->indexes || t->rank < 2)
        return arg;
    Windows *w = &e->input_windows[number];
    *w = windows_of_input(arg, in, t->dims[t->rank - 1]);
    return window_at(e, w, 0);
}

void end_windows(Elab *e)
{
    Region *body = e->fn->body;
    count_documents(e);
    const size_t n = body->ins.n, windows = e->windows.n, more = windows + e->begins.n;
    for (size_t k = 0; k < more; k++)
        vec_push(e->module->arena, &body->ins, NULL);
    if (!more)
        return;
    memmove(body->ins.data + more, body->ins.data, n * sizeof *body->ins.data);
    memcpy(body->ins.data, e->windows.data, windows * sizeof *body->ins.data);
    if (e->begins.n)
        memcpy(body->ins.data + windows, e->begins.data, e->begins.n * sizeof *body->ins.data);
}

void size_windows(Elab *e)
{
    Module *m = e->module;
    for (size_t f = 0; e->reads_next && f < m->fns.n; f++)
        for (size_t k = 0; k < m->fns.data[f]->args.n; k++) {
            const ArgRole role = m->fns.data[f]->args.data[k].role;
            const uint32_t number = m->fns.data[f]->args.data[k].tensor;
            Type *t = &m->values.data[m->fns.data[f]->body->args.data[k]].type;
            if (role == ARG_input)
                t->dims[t->rank - 1].size += e->input_furthest[number];
            if (role == ARG_tokens || role == ARG_documents)
                t->dims[1].size = m->seq.size + e->furthest;
            if (role == ARG_weight)
                t->dims[1].size = m->seq.size + e->furthest - 1;
        }
}

/* ---- next --------------------------------------------------------------------------------- */

/* The windows of the input that v is, and where it is kept how far they go; NULL: v is none. */
static Windows *windows_of(Elab *e, Value v, int64_t **furthest)
{
    *furthest = &e->furthest;
    if (e->tokens && v == at_index(e, e->tokens))
        return &e->token_windows;
    if (e->weight && v == at_index(e, e->weight))
        return &e->weight_windows;
    for (size_t k = 0; k < e->module->inputs.n; k++) {
        Windows *w = &e->input_windows[k];
        *furthest = &e->input_furthest[k];
        if (w->at.n && v == at_index(e, w->at.data[0]))
            return w;
    }
    return NULL;
}

Val builtin_next(Elab *e, const Call *c)
{
    int64_t by = 1, *furthest;
    Val v = expr(e, c->arg[0]);
    if (v.kind == VAL_POISON || (c->option && !integer_of(e, c->option->a, &by)))
        return poison;
    Windows *w = v.kind == VAL_TENSOR ? windows_of(e, v.value, &furthest) : NULL;
    if (!w) {
        fail(e, c->arg[0]->span, 254, "next takes %s",
             e->module->inputs.n ? "an input of the model that has indices, as it is given"
                                 : "the token input of the model itself");
        return poison;
    }
    const bool weight = w == &e->weight_windows; /* the first of which is of the next token */
    /* While sampling nobody knows what comes next. */
    const int64_t size = e->mode == MODE_SAMPLE ? e->module->seq.size : w->along.size;
    const int64_t most = size - weight;
    if (by < 1 || by > most)
        return fail(e, (c->option ? c->option : c->node)->span, 254,
                    "by = %lld; behind a sequence of %lld there are %s that far from 1 to %lld",
                    (long long)by, (long long)size, weight ? "weights" : "tokens", (long long)most);
    if (e->mode == MODE_SAMPLE)
        return poison;
    *furthest = by + weight > *furthest ? by + weight : *furthest;
    return tensor_val(at_index(e, window_at(e, w, by)));
}
