/* statement.c - statements in order. */
#include "grammar/elab.h"

#include <string.h>

/* ---- values ------------------------------------------------------------------------------- */

/* Names what an assignment computed, for dumps and for the emitted program. */
void name_value(Elab *e, Val v, Name name)
{
    if (v.kind != VAL_TENSOR || e->rule || (e->frame->prelude && e->frame->block))
        return;
    ValueInfo *info = &e->module->values.data[v.value];
    const char *built =
        info->def ? op_info[info->def->op].name : ""; /* what the builder calls it */
    if (!strcmp(name_str(e->names, info->name), built))
        info->name = name;
}

/* `to`: an ASSIGN, or one NAME of a SEVERAL. */
static void assign(Elab *e, const Node *to, Val v)
{
    Sym *s = find_local(e->frame, to->name);
    if (s && s->kind == SYM_PARAM && !s->gone) {
        fail(e, to->at, 233, "parameter '%s' cannot be assigned", text(e, to->name));
        note(e, s->span, "declared here");
        return;
    }
    if (s && s->metric) {
        fail(e, to->at, 277, "metric '%s' cannot be assigned", text(e, to->name));
        note(e, s->span, "it is named here");
        return;
    }
    if (!s || s->kind != SYM_VALUE || s->gone)
        s = declare(e, SYM_VALUE, to->name, to->at);
    if (!s)
        return;
    note_given(e, s, to->at, false);
    s->val = v;
    s->ready = true;
    name_value(e, v, to->name);
}

/* As many values as there are names, each name once. */
static bool check_several(Elab *e, const Node *n, Val v)
{
    const NodeList *names = &n->list;
    for (size_t i = 0; i < names->n; i++)
        for (size_t k = 0; k < i; k++)
            if (names->data[k]->name == names->data[i]->name) {
                fail(e, names->data[i]->at, 258, "'%s' is named twice",
                     text(e, names->data[i]->name));
                return false;
            }
    const Node *call = node_bare(n->a);
    size_t count = v.kind == VAL_SEVERAL ? v.count : 1;
    if (v.kind == VAL_POISON || count == names->n)
        return v.kind != VAL_POISON;
    if (call->kind == N_CALL)
        fail(e, n->span, 258, "%zu names for the %zu value%s of '%s'", names->n, count,
             count == 1 ? "" : "s", text(e, call->name));
    else
        fail(e, n->span, 258, "%zu names for one value", names->n);
    const Sym *block = call->kind == N_CALL ? map_find(&e->blocks, call->name) : NULL;
    if (block)
        note(e, block->span, "'%s' is declared here", text(e, call->name));
    else
        help(e, "only a block that returns several values has one for each name");
    return false;
}

static void assign_several(Elab *e, const Node *n)
{
    Val v = several_expr(e, n->a);
    bool ok = check_several(e, n, v);
    for (size_t i = 0; i < n->list.n; i++)
        assign(e, n->list.data[i], ok ? v.several[i] : (Val){.kind = VAL_POISON});
}

/* The size of a dim in the function that is built, of which the batch has its own. */
static bool size_of(Elab *e, const Node *n, int64_t *size)
{
    if (!integer_of(e, n, size))
        return false;
    if (e->mode == MODE_EVAL && number_expr(e, n).number.rows == 1)
        *size = *size / e->module->batch.size * dim_info(e, e->batch)->size;
    return true;
}

/* `dim t = d` where d stands for other than one dim: as many, of their sizes. */
static bool local_list(Elab *e, const Node *b)
{
    const Node *same = node_bare(b->a);
    const Sym *as = same->kind == N_NAME ? find_local(e->frame, same->name) : NULL;
    if (!as || as->kind != SYM_DIM || as->dims.n == 1)
        return false;
    lookup(e, same->name); /* it is used */
    DimList made = {.n = as->dims.n};
    for (int i = 0; i < made.n; i++) {
        const DimInfo *like = dim_info(e, as->dims.dim[i].name);
        const int64_t size = like->size, valid = like->valid;
        made.dim[i] = local_dim(e, b->name, size, b->at, i);
        dim_info(e, made.dim[i].name)->valid = valid;
    }
    Sym *s = declare(e, SYM_DIM, b->name, b->at);
    if (s)
        s->dims = made, s->ready = true;
    return true;
}

static void local_dims(Elab *e, const Node *n)
{
    for (size_t i = 0; i < n->list.n; i++) {
        const Node *b = n->list.data[i];
        int64_t size;
        if (local_list(e, b))
            continue;
        if (!size_of(e, b->a, &size))
            continue;
        if (size < 1) {
            fail(e, b->a->span, 209, "dim '%s' would be %lld; a dim is from 1 to 2^62",
                 text(e, b->name), (long long)size);
            continue;
        }
        Sym *s = declare(e, SYM_DIM, b->name, b->at);
        if (!s)
            continue;
        const Node *same = node_bare(b->a);
        const Sym *as = same->kind == N_NAME ? lookup(e, same->name) : NULL;
        Dim d = local_dim(e, b->name, size, b->at, 0);
        if (as && as->kind == SYM_DIM && as->dims.n == 1) { /* padding and all */
            DimInfo *info = dim_info(e, d.name);
            info->valid = dim_info(e, as->dims.dim[0].name)->valid;
            info->size = d.size = as->dims.dim[0].size;
        }
        s->dims = (DimList){1, {d}};
        s->ready = true;
    }
}

/* ---- statements --------------------------------------------------------------------------- */

/* The result of a block: one value, or several. */
static Val returned(Elab *e, const Node *n)
{
    const size_t count = n->list.n;
    if (count == 1)
        return expr(e, n->list.data[0]);
    Val *v = NEW_ARRAY(e->arena, Val, count);
    bool ok = true;
    for (size_t i = 0; i < count; i++) {
        v[i] = expr(e, n->list.data[i]);
        ok &= v[i].kind != VAL_POISON;
    }
    return ok ? (Val){.kind = VAL_SEVERAL, .several = v, .count = count}
              : (Val){.kind = VAL_POISON};
}

static void statement(Elab *e, const Node *n, Val *result, bool last)
{
    bool block = e->frame->block->kind == N_BLOCK;
    if (e->rule && n->kind != N_ASSIGN && n->kind != N_SEVERAL && n->kind != N_DIMS &&
        n->kind != N_STATE && n->kind != N_REST && n->kind != N_RETURN) {
        fail(e, n->at, 110, "%s in the rule of an optimizer",
             n->kind == N_PARAM || n->kind == N_INSTANCE ? "a parameter"
             : n->kind == N_METRIC                       ? "a metric"
                                                         : "a loop");
        help(e, "a rule is arithmetic on the parameter, its gradient and its states");
        if (n->kind == N_PARAM)
            assign(e, n, (Val){.kind = VAL_POISON});
    } else if (n->kind == N_ASSIGN) {
        assign(e, n, expr(e, n->a));
    } else if (n->kind == N_SEVERAL) {
        assign_several(e, n);
    } else if (n->kind == N_PARAM) {
        param(e, n);
    } else if (n->kind == N_INSTANCE) {
        declare_instance(e, n);
    } else if (n->kind == N_METRIC) {
        metric(e, n);
    } else if (n->kind == N_REPEAT) {
        repeat(e, n);
    } else if (n->kind == N_SCAN) {
        scan(e, n);
    } else if (n->kind == N_DIMS) {
        local_dims(e, n);
    } else if (n->kind == N_STATE || n->kind == N_REST) {
        return; /* declarations of an optimizer, which its row has */
    } else if (!block || e->loop != e->frame->loop) {
        fail(e, n->at, 239,
             block ? "return inside of a repeat or scan" : "a model returns nothing");
        if (!block)
            help(e, "assign the loss: loss = ...");
    } else if (!last) {
        fail(e, n->at, 239, "statements after return");
    } else {
        *result = returned(e, n);
    }
}

void statements(Elab *e, const NodeList *list, Val *result)
{
    for (size_t i = 0; i < list->n && !diag_enough(e->diag) && !e->stopped; i++) {
        Span span = e->b.span;
        if (!e->frame->prelude && !e->rule)
            e->b.span = list->data[i]->at;
        statement(e, list->data[i], result, i + 1 == list->n);
        e->b.span = span;
    }
}
