/* documents.c - documents of the data: document_start(tokens, along seq) without a separator.
 *
 *   documents[batch, seq + n]   an argument of @train and @eval that the runtime fills: where in
 * the window the document of each token begins. Tokens that fill a window up are documents of one
 * token
 *
 * A token of another document is no target. So each weight of a function that asks for documents is
 * 0 where the token that it weighs begins behind the position that predicts it:
 *
 *   next(weight, by = n)[s] becomes select(documents[s + n + 1] <= s, next(weight, by = n)[s], 0)
 *
 * The argument is made where the first call asks for it, and weights are changed at the end of the
 * function: a call that a number leaves out changes nothing. @sample continues one document. */
#include "grammar/elab.h"

#include <string.h>

static const Val poison = {.kind = VAL_POISON};

static void fill_documents(Elab *e, Span at)
{
    Module *m = e->module;
    Type t = {.dtype = DT_i32, .rank = 2, .dims = {type_of(m, e->tokens)->dims[0], m->seq}};
    e->document_windows = (Windows){.arg = fn_arg(e, ARG_documents, 0, t, "documents"),
                                    .name = name_intern(e->names, "document"),
                                    .span = at,
                                    .along = m->seq};
}

/* The position at which each token's document begins, as floating point. */
static Value starts(Elab *e, Span at)
{
    if (e->mode == MODE_SAMPLE) {
        Type t = *type_of(e->module, e->tokens);
        t.dtype = e->compute;
        t.indexes = 0;
        return build_as(&e->b, build_const(&e->b, e->compute, 0), t);
    }
    if (!e->document_windows.arg)
        fill_documents(e, at);
    return build_cast(&e->b, window_at(e, &e->document_windows, 0), e->compute);
}

/* The mistake is the caller's. */
static Val refuse(Elab *e, const Node *n, const char *what, const char *advice)
{
    Frame *callee = e->frame;
    e->frame = callee->caller;
    fail(e, n->at, 280, "%s", what);
    help(e, "%s", advice);
    e->frame = callee;
    return poison;
}

Val document_start_of_data(Elab *e, const Node *n, Val tokens, Dim along)
{
    if (!e->tokens || tokens.kind != VAL_TENSOR || tokens.value != e->tokens ||
        along.name != e->module->seq.name)
        return refuse(e, n,
                      "without a separator, document_start is of the model's tokens along their "
                      "sequence",
                      "of others write `separator = n`: the token n is the last one of a document");
    if (!e->weight && e->mode != MODE_SAMPLE)
        return refuse(e, n,
                      "the model takes no weights, so that the last token of a document would have "
                      "the next document's first one as its target",
                      "take weight[batch, seq] beside the tokens, and weigh the loss by it: "
                      "cross_entropy(logits, next(tokens), weight)");
    return tensor_val(starts(e, n->at));
}

/* The weights that begin `by` further on, where they are of the same document. */
static Value counted(Elab *e, Value weight, int64_t by, Ins **select)
{
    Module *m = e->module;
    Builder b = {.m = m, .region = e->fn->body, .span = e->weight_windows.span};
    const size_t before = b.region->ins.n;
    const Value own[] = {window_at(e, &e->document_windows, by + 1),
                         build_iota(&b, DT_i32, m->seq)};
    const Value in[] = {build(&b, OP_le, NULL, 2, own), weight, build_const(&b, e->compute, 0)};
    const Value v = build(&b, OP_select, NULL, 3, in);
    m->values.data[v].name = name_intern(e->names, "counted");
    *select = m->values.data[v].def;
    for (size_t k = before; k < b.region->ins.n; k++)
        vec_push(e->arena, &e->begins, b.region->ins.data[k]);
    b.region->ins.n = before;
    return v;
}

void count_documents(Elab *e)
{
    Windows *w = &e->weight_windows;
    const Value whole = w->arg;
    if (!e->document_windows.arg || !whole)
        return;
    const size_t n = w->at.n ? w->at.n : 1;
    Value *weight = NEW_ARRAY(e->arena, Value, n), *v = NEW_ARRAY(e->arena, Value, n);
    Ins **select = NEW_ARRAY(e->arena, Ins *, n);
    for (size_t k = 0; k < n; k++) {
        weight[k] = w->at.n ? w->at.data[k] : whole;
        v[k] = weight[k] ? counted(e, weight[k], (int64_t)k, &select[k]) : 0;
    }
    Value *map = NEW_ARRAY(e->arena, Value, e->module->values.n);
    for (size_t k = 0; k < n; k++)
        map[weight[k]] = v[k];
    map[0] = 0;
    ir_replace(e->fn->body, map); /* the new instructions are not yet among the others */
}
