/* statement.c - statements in order; `repeat` becomes one region whatever the depth. */
#include "grammar/elab.h"

#include <string.h>

/* ---- values ------------------------------------------------------------------------------- */

/* Names what an assignment computed, for dumps and for the emitted program. */
static void name_value(Elab *e, Val v, Name name)
{
    if (v.kind != VAL_TENSOR || (e->frame->prelude && e->frame->block))
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
        made.dim[i] = new_dim(e, b->name, size, b->at, true);
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
        Dim d = new_dim(e, b->name, size, b->at, true);
        if (as && as->kind == SYM_DIM && as->dims.n == 1) { /* padding and all */
            DimInfo *info = dim_info(e, d.name);
            info->valid = dim_info(e, as->dims.dim[0].name)->valid;
            info->size = d.size = as->dims.dim[0].size;
        }
        s->dims = (DimList){1, {d}};
        s->ready = true;
    }
}

/* ---- repeat ------------------------------------------------------------------------------- */

typedef struct Carried {
    Sym *sym;
    Value initial;
} Carried;

typedef VEC(Carried) CarriedList;

static void add_carried(Elab *e, Name assigned, CarriedList *out)
{
    Sym *s = find_local(e->frame, assigned);
    bool known = !s || s->kind != SYM_VALUE || s->gone;
    for (size_t k = 0; k < out->n; k++)
        known |= out->data[k].sym == s;
    if (!known)
        vec_push(e->arena, out, (Carried){s, 0});
}

/* Names that have a value before the loop and get another in it, in the order of the text. */
static void find_carried(Elab *e, const NodeList *body, CarriedList *out)
{
    for (size_t i = 0; i < body->n; i++) {
        const Node *n = body->data[i];
        if (n->kind == N_REPEAT)
            find_carried(e, &n->more, out);
        else if (n->kind == N_ASSIGN)
            add_carried(e, n->name, out);
        for (size_t k = 0; n->kind == N_SEVERAL && k < n->list.n; k++)
            add_carried(e, n->list.data[k]->name, out);
    }
}

static bool open_loop(Elab *e, const Node *n, CarriedList *carried, Loop *loop)
{
    bool ok = true;
    loop->region = region_new(e->module, e->b.region);
    for (size_t i = 0; i < carried->n; i++) {
        Carried *c = &carried->data[i];
        if (c->sym->val.kind == VAL_POISON) {
            ok = false;
            continue;
        }
        c->initial = as_tensor(e, c->sym->val, e->compute);
        Type t = *type_of(e->module, c->initial);
        if (t.indexes) {
            fail(e, n->at, 234, "indices '%s' cannot change from iteration to iteration",
                 text(e, c->sym->name));
            return false;
        }
        Value arg = region_arg(e->module, loop->region, t, c->sym->name);
        vec_push(e->arena, &loop->carried, arg);
        c->sym->val = tensor_val(arg);
        c->sym->fresh = false; /* the first iteration has it */
    }
    loop->index = region_arg(e->module, loop->region, (Type){.dtype = DT_i32}, loop->dim.name);
    return ok;
}

/* The value an iteration hands on must be of the type it received. */
static bool close_iteration(Elab *e, const Node *n, const Carried *c, Value arg, Value *next)
{
    if (c->sym->val.kind == VAL_POISON)
        return false;
    const Type *want = type_of(e->module, arg);
    Value v = as_tensor(e, c->sym->val, want->dtype);
    const Type *have = type_of(e->module, v);
    if (!type_same_dims(want, have) || !dtype_is_float(have->dtype)) {
        fail(e, n->at, 235, "'%s' is %s before this repeat and %s after an iteration",
             text(e, c->sym->name), type_text(e, arg), type_text(e, v));
        help(e, "what a repeat carries keeps its dims");
        return false;
    }
    Type t = *want;
    *next = build_as(&e->b, build_cast(&e->b, v, t.dtype), t);
    return true;
}

/* Names that were new in the body are not known after it. */
static void forget(Elab *e, const Node *n, size_t before)
{
    Frame *f = e->frame;
    warn_unused_names(e, f, before);
    for (size_t i = before; i < f->order.n; i++) {
        f->order.data[i]->gone = true;
        f->order.data[i]->span = n->at;
    }
}

/* A value of an iteration that has the dim of the repeat, or 0: all iterations' together would have
 * it twice. */
static Value with_dim(const Module *m, const Region *r, Name dim)
{
    for (size_t i = 0; i < r->args.n; i++)
        if (type_find(type_of(m, r->args.data[i]), dim) >= 0)
            return r->args.data[i];
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        Value inner = ins->body ? with_dim(m, ins->body, dim) : 0;
        for (uint32_t k = 0; !inner && k < ins->nout; k++)
            if (type_find(type_of(m, ins->out[k]), dim) >= 0)
                inner = ins->out[k];
        if (inner)
            return inner;
    }
    return 0;
}

/* Is the repeat's dim its own? */
static bool check_iterations(Elab *e, const Node *n, const Loop *loop)
{
    const Value v = with_dim(e->module, loop->region, loop->dim.name);
    if (!v)
        return true;
    const Ins *def = e->module->values.data[v].def;
    fail(e, n->at, 237, "a repeat over '%s', which %s in it has", text(e, loop->dim.name),
         type_text(e, v));
    if (def)
        note(e, def->span, "this value");
    Span name;
    if (word_place(e, n->at, text(e, loop->dim.name), &name)) {
        const char *dim =
            arena_printf(e->arena, "dim iterations = %lld\n", (long long)loop->dim.size);
        remedies(e, &(Remedy){2, {{{name.file, 0, 0}, dim}, {name, "iterations"}}},
                 "count the iterations by a dim of their own: `dim iterations = %lld`, and `repeat "
                 "iterations`",
                 (long long)loop->dim.size);
    }
    return false;
}

/* There is no loop: what its body made of the names that it carries is nothing outside of it. */
static void abandon_loop(const CarriedList *carried)
{
    for (size_t i = 0; i < carried->n; i++)
        carried->data[i].sym->val = (Val){.kind = VAL_POISON};
}

/* False: what is carried is not what it was. */
static bool finish_loop(Elab *e, const Node *n, CarriedList *carried, Loop *loop, Builder *outer)
{
    VEC(Value) in = {0}, args = {0};
    VEC(Type) types = {0};
    for (size_t i = 0; i < carried->n; i++) {
        Value next;
        if (!close_iteration(e, n, &carried->data[i], loop->carried.data[i], &next))
            return false;
        vec_push(e->arena, &loop->region->results, next);
        vec_push(e->arena, &in, carried->data[i].initial);
        vec_push(e->arena, &args, loop->carried.data[i]);
        vec_push(e->arena, &types, *type_of(e->module, loop->carried.data[i]));
    }
    for (size_t i = 0; i < loop->slices.n; i++) {
        vec_push(e->arena, &in, loop->stacked.data[i]);
        vec_push(e->arena, &args, loop->slices.data[i]);
    }
    vec_push(e->arena, &args, loop->index);
    for (size_t i = 0; i < args.n; i++)
        loop->region->args.data[i] = args.data[i];
    Attrs attrs = {.dim = loop->dim, .carried = (int64_t)carried->n};
    Ins *i = build_typed(outer, OP_repeat, &attrs, (int)in.n, in.data, (int)types.n, types.data,
                         loop->region);
    for (size_t k = 0; k < carried->n; k++) {
        Sym *s = carried->data[k].sym;
        s->val = tensor_val(i->out[k]);
        s->fresh = false; /* the next iteration has it */
        if (!feeds_others(e, loop->region, k))
            note_given(e, s, s->given, true);
        name_value(e, tensor_val(i->out[k]), carried->data[k].sym->name);
    }
    return true;
}

static bool check_repeat(Elab *e, const Node *n, Dim d, const CarriedList *carried)
{
    const char *hole = n->text ? strstr(n->text, "{}") : NULL;
    if (n->text && (!hole || strstr(hole + 2, "{}"))) {
        fail(e, n->span, 236, "the name of a repeat holds one {}, for the number of the iteration");
        Span at;
        if (text_place(e, n->span, arena_printf(e->arena, "\"%s\"", n->text), &at)) {
            const char *with = arena_printf(e->arena, "\"%s.{}\"", text(e, n->name));
            remedy(e, at, with, "as %s", with);
        }
        return false;
    }
    for (const Loop *l = e->loop; l; l = l->outer)
        if (l->dim.name == d.name) {
            fail(e, n->at, 237, "a repeat over '%s' inside another", text(e, d.name));
            return false;
        }
    const DimInfo *info = dim_info(e, d.name);
    if (info->size != info->valid) {
        fail(e, n->at, 237, "'%s' is padded: it cannot be repeated over", text(e, d.name));
        return false;
    }
    if (d.name == e->module->batch.name || d.size > INT32_MAX) {
        fail(e, n->at, 237,
             d.size > INT32_MAX ? "a repeat of more than 2^31 - 1 iterations"
                                : "a repeat over the batch");
        return false;
    }
    if (!carried->n) {
        fail(e, n->at, 238, "this repeat changes no value that was assigned before it");
        help(e, "assign it before: x = ...  repeat %s { x = f(x) }", text(e, n->name));
        return false;
    }
    return true;
}

static void repeat(Elab *e, const Node *n)
{
    Node name = {.kind = N_NAME, .name = n->name, .at = n->at, .span = n->at};
    Loop loop = {.outer = e->loop};
    CarriedList carried = {0};
    find_carried(e, &n->more, &carried);
    if (!resolve_dim(e, &name, &loop.dim) || !check_repeat(e, n, loop.dim, &carried))
        return;
    Frame *f = e->frame;
    const char *path = f->path, *external = f->external;
    Builder outer = e->b;
    size_t before = f->order.n;
    f->path = path_join(e, path, text(e, n->name));
    const char *word = n->text ? n->text : arena_printf(e->arena, "%s.{}", text(e, n->name));
    f->external = path_join(e, external, word);
    bool long_path = strlen(f->path) > PATH_MAX_BYTES || strlen(f->external) > PATH_MAX_BYTES;
    if (long_path)
        fail(e, n->at, 256, "the path to this repeat is longer than %d bytes", PATH_MAX_BYTES);
    bool ok = open_loop(e, n, &carried, &loop) && !long_path;
    e->b.region = loop.region;
    e->b.path = name_intern(e->names, f->path);
    e->loop = &loop;
    Val none = {.kind = VAL_POISON};
    statements(e, &n->more, &none);
    outer.span = n->at;
    if (ok && check_iterations(e, n, &loop))
        ok = finish_loop(e, n, &carried, &loop, &outer);
    if (!ok)
        abandon_loop(&carried);
    forget(e, n, before);
    e->loop = loop.outer;
    e->b = outer;
    f->path = path;
    f->external = external;
}

Value loop_index(Elab *e)
{
    if (!e->loop)
        return build_const(&e->b, DT_i32, 0);
    Value index = e->loop->index;
    double iterations = (double)e->loop->dim.size;
    for (const Loop *l = e->loop->outer; l; l = l->outer) {
        Value scale = build_const(&e->b, DT_i32, iterations);
        index = build2(&e->b, OP_add, index, build2(&e->b, OP_mul, l->index, scale));
        iterations *= (double)l->dim.size;
    }
    return index;
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
    if (n->kind == N_ASSIGN) {
        assign(e, n, expr(e, n->a));
    } else if (n->kind == N_SEVERAL) {
        assign_several(e, n);
    } else if (n->kind == N_PARAM) {
        param(e, n);
    } else if (n->kind == N_METRIC) {
        metric(e, n);
    } else if (n->kind == N_REPEAT) {
        repeat(e, n);
    } else if (n->kind == N_DIMS) {
        local_dims(e, n);
    } else if (n->kind == N_STATE || n->kind == N_REST) {
        return; /* declarations of an optimizer, which its row has */
    } else if (!block || e->loop != e->frame->loop) {
        fail(e, n->at, 239, block ? "return inside of a repeat" : "a model returns nothing");
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
        if (!e->frame->prelude)
            e->b.span = list->data[i]->at;
        statement(e, list->data[i], result, i + 1 == list->n);
        e->b.span = span;
    }
}
