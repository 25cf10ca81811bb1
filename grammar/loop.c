/* loop.c - `repeat` and `scan`: one region whatever the depth or the length.
 *
 * A repeat counts; its parameters come slice by slice. A scan goes along a dim of tensors: a value
 * from outside that has the dim is read at the current index, which is one more slice of the loop,
 * and a name that is new in the body becomes one more value that the loop stacks. */
#include "grammar/elab.h"

#include <string.h>

/* ---- repeat ------------------------------------------------------------------------------- */

typedef struct Carried {
    Sym *sym;
    Value initial;
} Carried;

typedef VEC(Carried) CarriedList;
typedef VEC(Sym *) SymList;

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
        if (n->kind == N_REPEAT || n->kind == N_SCAN)
            find_carried(e, &n->more, out);
        else if (n->kind == N_ASSIGN)
            add_carried(e, n->name, out);
        for (size_t k = 0; n->kind == N_SEVERAL && k < n->list.n; k++)
            add_carried(e, n->list.data[k]->name, out);
    }
}

static const char *word_of(const Node *n)
{
    return n->kind == N_SCAN ? "scan" : "repeat";
}

/* The place of the statement that gave a value. */
static void note_value(Elab *e, Value v)
{
    const Ins *def = e->module->values.data[v].def;
    if (def)
        note(e, def->span, "this value");
}

/* The values that a scan carries are of one index. */
static bool check_start(Elab *e, const Node *n, const Sym *s, const Loop *loop, Value start)
{
    const char *dim = text(e, loop->dim.name), *name = text(e, s->name);
    if (!loop->scan || type_find(type_of(e->module, start), loop->dim.name) < 0)
        return true;
    fail(e, n->at, 268, "'%s', which this scan changes, is %s before it: of all '%s' together",
         name, type_text(e, start), dim);
    note(e, s->span, "assigned here");
    help(e, "give what the scan computes another name: it has the dim '%s' after the scan", dim);
    return false;
}

/* A carried value is an argument of the loop's body. False after an error. */
static bool carry(Elab *e, const Node *n, Carried *c, Loop *loop)
{
    c->initial = as_tensor(e, c->sym->val, e->compute);
    Type t = *type_of(e->module, c->initial);
    if (t.indexes) {
        fail(e, n->at, 234, "indices '%s' cannot change from iteration to iteration",
             text(e, c->sym->name));
        return false;
    }
    if (!check_start(e, n, c->sym, loop, c->initial))
        return false;
    Value arg = region_arg(e->module, loop->region, t, c->sym->name);
    vec_push(e->arena, &loop->carried, arg);
    c->sym->val = tensor_val(arg);
    c->sym->fresh = false; /* the first iteration has it */
    return true;
}

/* The body is elaborated after an error, too, and may ask for its index. */
static bool open_loop(Elab *e, const Node *n, CarriedList *carried, Loop *loop)
{
    bool known = true, fine = true;
    loop->region = region_new(e->module, e->b.region);
    for (size_t i = 0; i < carried->n && fine; i++) {
        const bool poison = carried->data[i].sym->val.kind == VAL_POISON;
        known &= !poison;
        fine = poison || carry(e, n, &carried->data[i], loop);
    }
    loop->index = region_arg(e->module, loop->region, (Type){.dtype = DT_i32}, loop->dim.name);
    return known && fine;
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
        fail(e, n->at, 235, "'%s' is %s before this %s and %s after an iteration",
             text(e, c->sym->name), type_text(e, arg), word_of(n), type_text(e, v));
        help(e, "what a %s carries keeps its dims", word_of(n));
        return false;
    }
    Type t = *want;
    *next = build_as(&e->b, build_cast(&e->b, v, t.dtype), t);
    return true;
}

/* Names that were new in the body are not known after it; but what a scan gives is. */
static void forget(Elab *e, const Node *n, size_t before)
{
    if (n->kind == N_REPEAT)
        warn_unused_names(e, e->frame, before);
    hide_names(e, n, before);
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

/* Is the loop's dim its own? */
static bool check_iterations(Elab *e, const Node *n, const Loop *loop)
{
    const Value v = with_dim(e->module, loop->region, loop->dim.name);
    if (!v)
        return true;
    if (loop->scan) {
        fail(e, n->at, 268, "a scan along '%s', which %s in it has", text(e, loop->dim.name),
             type_text(e, v));
        note_value(e, v);
        help(e, "compute what has '%s' before the scan: its body is of one index",
             text(e, loop->dim.name));
        return false;
    }
    fail(e, n->at, 237, "a repeat over '%s', which %s in it has", text(e, loop->dim.name),
         type_text(e, v));
    note_value(e, v);
    Span name;
    if (word_place(e, n->at, text(e, loop->dim.name), &name)) {
        const char *dim =
            arena_printf(e->arena, "dim iterations = %lld\n", (long long)loop->dim.size);
        remedies(e, &(Remedy){2, {{{name.file, 0, 0}, dim}, {name, "iterations"}}},
                 "count the iterations by a dim of their own: `dim iterations = %lld`, and `repeat "
                 "iterations`",
                 (long long)loop->dim.size);
    }
    if (!n->a)
        help(e, "the part of an iteration: `repeat %s at l`, and in it `x[%s = l]`",
             text(e, loop->dim.name), text(e, loop->dim.name));
    return false;
}

/* There is no loop: what its body made of the names that it carries is nothing outside of it. */
static void abandon_loop(const CarriedList *carried)
{
    for (size_t i = 0; i < carried->n; i++)
        carried->data[i].sym->val = (Val){.kind = VAL_POISON};
}

/* Adds what a scan makes of its new names to what the loop stacks. */
static bool stack_names(Elab *e, const Node *n, const Loop *loop, const SymList *names)
{
    for (size_t i = 0; i < names->n; i++) {
        const Sym *s = names->data[i];
        const ValueInfo *info = &e->module->values.data[s->val.value];
        Value v = s->val.value;
        const Type t = info->type;
        if (t.rank == MAX_RANK) {
            fail(e, n->at, 206, "'%s' would have more than %d dims after this scan",
                 text(e, s->name), MAX_RANK);
            return false;
        }
        bool taken = info->home != loop->region || !info->def;
        for (size_t k = 0; k < loop->region->results.n; k++)
            taken |= loop->region->results.data[k] == v;
        if (taken) /* what the loop stacks is its own, and each once */
            v = build_typed(&e->b, OP_copy, NULL, 1, &v, 1, &t, NULL)->out[0];
        vec_push(e->arena, &loop->region->results, v);
    }
    return true;
}

static Type stacked_type(const Type *t, Dim d)
{
    Type all = *t;
    memmove(&all.dims[1], &all.dims[0], (size_t)t->rank * sizeof(Dim));
    all.dims[0] = d;
    all.rank++;
    return all;
}

/* names: those of a scan that are new in it. False: what is carried is not what it was. */
static bool finish_loop(Elab *e, const Node *n, CarriedList *carried, Loop *loop,
                        const SymList *names, Builder *outer)
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
    if (!stack_names(e, n, loop, names))
        return false;
    for (size_t i = 0; i < names->n; i++) {
        const Value v = loop->region->results.data[carried->n + i];
        vec_push(e->arena, &types, stacked_type(type_of(e->module, v), loop->dim));
        if (!fits(e, n->at, &types.data[carried->n + i]))
            return false;
    }
    for (size_t i = 0; i < loop->slices.n; i++) {
        vec_push(e->arena, &in, loop->stacked.data[i]);
        vec_push(e->arena, &args, loop->slices.data[i]);
    }
    vec_push(e->arena, &args, loop->index);
    for (size_t i = 0; i < args.n; i++)
        loop->region->args.data[i] = args.data[i];
    Attrs attrs = {.dim = loop->dim,
                   .carried = (int64_t)carried->n,
                   .reverse = loop->scan && n->a,
                   .scan = loop->scan};
    Ins *i = build_typed(outer, OP_repeat, &attrs, (int)in.n, in.data, (int)types.n, types.data,
                         loop->region);
    for (size_t k = 0; k < carried->n; k++) {
        Sym *s = carried->data[k].sym;
        s->val = tensor_val(i->out[k]);
        s->fresh = false; /* the next iteration has it */
        if (!feeds_others(e, loop->region, k))
            note_given(e, s, s->given, true);
        name_value(e, s->val, s->name);
    }
    for (size_t k = 0; k < names->n; k++) {
        names->data[k]->val = tensor_val(i->out[carried->n + k]);
        name_value(e, names->data[k]->val, names->data[k]->name);
    }
    return true;
}

static bool check_name(Elab *e, const Node *n)
{
    const char *hole = n->text ? strstr(n->text, "{}") : NULL;
    if (!n->text || (hole && !strstr(hole + 2, "{}")))
        return true;
    fail(e, n->span, 236, "the name of a repeat holds one {}, for the number of the iteration");
    Span at;
    if (text_place(e, n->span, arena_printf(e->arena, "\"%s\"", n->text), &at)) {
        const char *with = arena_printf(e->arena, "\"%s.{}\"", text(e, n->name));
        remedy(e, at, with, "as %s", with);
    }
    return false;
}

/* May a loop run along d here? */
static bool check_dim(Elab *e, const Node *n, Dim d)
{
    const bool scans = n->kind == N_SCAN;
    const int code = scans ? 266 : 237;
    for (const Loop *l = e->loop; l; l = l->outer)
        if (l->dim.name == d.name) {
            fail(e, n->at, code, "a %s over '%s' inside another", word_of(n), text(e, d.name));
            return false;
        }
    const DimInfo *info = dim_info(e, d.name);
    if (info->size != info->valid) {
        fail(e, n->at, code,
             scans ? "'%s' is padded: it cannot be scanned"
                   : "'%s' is padded: it cannot be repeated over",
             text(e, d.name));
        return false;
    }
    if (d.name == e->module->batch.name || d.size > INT32_MAX) {
        fail(e, n->at, code,
             d.size > INT32_MAX ? "a %s of more than 2^31 - 1 iterations" : "a %s over the batch",
             word_of(n));
        if (d.name == e->module->batch.name)
            help(e, "rows of the batch are computed at once: a %s goes along another dim",
                 word_of(n));
        return false;
    }
    return true;
}

static bool check_repeat(Elab *e, const Node *n, Dim d, const CarriedList *carried)
{
    if (!check_name(e, n) || !check_dim(e, n, d))
        return false;
    if (!carried->n) {
        fail(e, n->at, 238, "this repeat changes no value that was assigned before it");
        help(e, "assign it before: x = ...  repeat %s { x = f(x) }", text(e, n->name));
        return false;
    }
    return true;
}

static bool check_scan(Elab *e, const Node *n, Dim d)
{
    if (n->a && strcmp(text(e, n->a->name), "reverse") != 0) {
        fail(e, n->a->at, 266, "a scan has no option '%s'", text(e, n->a->name));
        remedy(e, n->a->at, "reverse", "`reverse` runs it from the last index to the first");
        return false;
    }
    return check_dim(e, n, d);
}

/* Tensors that a scan is the first to give a name. */
static SymList new_names(const Elab *e, size_t before, bool *known)
{
    SymList all = {0};
    for (size_t i = before; i < e->frame->order.n; i++) {
        Sym *s = e->frame->order.data[i];
        if (s->kind != SYM_VALUE || s->gone)
            continue;
        *known &= s->val.kind != VAL_POISON;
        if (s->val.kind == VAL_TENSOR)
            vec_push(e->arena, &all, s);
    }
    return all;
}

/* Is a carried value unknown behind the body? An error was told, or a sample leaves out what reads
 * the next tokens. */
static bool lost(const CarriedList *carried)
{
    for (size_t i = 0; i < carried->n; i++)
        if (carried->data[i].sym->val.kind == VAL_POISON)
            return true;
    return false;
}

/* Does a scan read something at its index, and give something? */
static bool check_effect(Elab *e, const Node *n, const Loop *loop, const CarriedList *carried,
                         const SymList *names)
{
    if (!carried->n && !names->n) {
        fail(e, n->at, 238, "this scan assigns nothing");
        return false;
    }
    if (loop->slices.n || loop->counted)
        return true;
    if (lost(carried))
        return false;
    fail(e, n->at, 266, "nothing that is read in this scan has the dim '%s'",
         text(e, loop->dim.name));
    help(e, "`repeat` runs a body as often as a dim says");
    return false;
}

static void abandon_names(const SymList *names)
{
    for (size_t i = 0; i < names->n; i++)
        names->data[i]->val = (Val){.kind = VAL_POISON};
}

static bool run_loop(Elab *e, const Node *n, Loop *loop, CarriedList *carried, const Run *r,
                     Copies *c)
{
    Builder outer = e->b;
    size_t before = e->frame->order.n;
    bool ok = open_loop(e, n, carried, loop);
    e->b.region = loop->region;
    e->loop = loop;
    write_body(e, n, r, c);
    SymList names = {0};
    if (loop->scan)
        names = new_names(e, before, &ok);
    outer.span = n->at;
    ok = ok && (!loop->scan || check_effect(e, n, loop, carried, &names));
    if (ok && check_iterations(e, n, loop))
        ok = finish_loop(e, n, carried, loop, &names, &outer);
    else if (loop->scan)
        ok = false;
    if (!ok)
        abandon_names(&names);
    e->loop = loop->outer;
    e->b = outer;
    return ok;
}

/* A run of one iteration: no loop is around it. */
static bool run_once(Elab *e, const Node *n, CarriedList *carried, const Run *r, Copies *copies)
{
    Name path = e->b.path;
    for (size_t i = 0; i < carried->n; i++) {
        Carried *c = &carried->data[i];
        if (c->sym->val.kind == VAL_POISON)
            return false;
        c->initial = as_tensor(e, c->sym->val, e->compute);
        c->sym->val = tensor_val(c->initial);
    }
    write_body(e, n, r, copies);
    e->b.path = path;
    bool ok = true;
    for (size_t i = 0; i < carried->n; i++) {
        Carried *c = &carried->data[i];
        Value next;
        ok = ok && close_iteration(e, n, c, c->initial, &next);
        if (ok)
            c->sym->val = tensor_val(next);
    }
    return ok;
}

/* The loop of a run, over a dim of its own if it has not all iterations. */
static bool run_part(Elab *e, const Node *n, Dim d, CarriedList *carried, const Run *r, Copies *c)
{
    Loop loop = {.outer = e->loop, .outside = e->b.region, .dim = d, .scan = n->kind == N_SCAN};
    if (r->count < d.size) {
        loop.dim = local_dim(e, d.name, r->count, n->at, r->first);
        if (e->mode == MODE_TRAIN)
            vec_push(e->arena, &e->parts,
                     ((PartLoop){d.name, loop.dim.name, r->count * r->period}));
    }
    return run_loop(e, n, &loop, carried, r, c);
}

static void run_all(Elab *e, const Node *n, Dim d, CarriedList *carried)
{
    const bool kinds = n->kind == N_REPEAT && n->a;
    size_t before = e->frame->order.n;
    RunList runs = {0};
    Copies copies = {0};
    bool ok = true;
    if (kinds)
        ok = alike_runs(e, n, d.size, &runs);
    else
        vec_push(e->arena, &runs, ((Run){0, 1, d.size}));
    for (size_t i = 0; i < runs.n; i++)
        copies.all += runs.data[i].period;
    for (size_t i = 0; ok && i < runs.n; i++) {
        const Run *r = &runs.data[i];
        if (i)
            hide_names(e, n, before);
        ok = kinds && r->count == 1 ? run_once(e, n, carried, r, &copies)
                                    : run_part(e, n, d, carried, r, &copies);
    }
    if (!ok)
        abandon_loop(carried);
    forget(e, n, before);
}

void repeat(Elab *e, const Node *n)
{
    Node name = {.kind = N_NAME, .name = n->name, .at = n->at, .span = n->at};
    Dim d;
    CarriedList carried = {0};
    find_carried(e, &n->more, &carried);
    if (resolve_dim(e, &name, &d) && check_repeat(e, n, d, &carried))
        run_all(e, n, d, &carried);
}

void scan(Elab *e, const Node *n)
{
    Node name = {.kind = N_NAME, .name = n->name, .at = n->at, .span = n->at};
    Dim d;
    CarriedList carried = {0};
    find_carried(e, &n->more, &carried);
    if (resolve_dim(e, &name, &d) && check_scan(e, n, d))
        run_all(e, n, d, &carried);
}

/* ---- what the body of a scan reads --------------------------------------------------------- */

/* v at the index of the scan l, v being a value from around it. The loop takes slices along the
 * outermost dim: another order is made once, before the loop. */
static Value slice_at(Elab *e, Loop *l, Value v)
{
    for (size_t k = 0; k < l->sources.n; k++)
        if (l->sources.data[k].of == v)
            return l->sources.data[k].slice;
    Module *m = e->module;
    Type inner = *type_of(m, v);
    const int at = type_find(&inner, l->dim.name);
    memmove(&inner.dims[at], &inner.dims[at + 1], (size_t)(inner.rank - at - 1) * sizeof(Dim));
    inner.dims[--inner.rank] = (Dim){0};
    const Name hint = m->values.data[v].name;
    Builder b = e->b;
    b.region = l->outside;
    Value stacked = build_as(&b, v, stacked_type(&inner, l->dim));
    Value slice = region_arg(m, l->region, inner, hint);
    m->values.data[stacked].name = hint;
    vec_push(e->arena, &l->stacked, stacked);
    vec_push(e->arena, &l->slices, slice);
    vec_push(e->arena, &l->sources, (Slice){v, slice});
    return slice;
}

/* Is a value made in this loop's body, or in one within it? */
static bool made_inside(const Module *m, Value v, const Loop *l)
{
    const Region *r = m->values.data[v].home;
    while (r && r != l->region)
        r = r->parent;
    return r != NULL;
}

static Value current(Elab *e, Loop *l, Value v)
{
    if (!l)
        return v;
    v = current(e, l->outer, v);
    if (!l->scan || type_find(type_of(e->module, v), l->dim.name) < 0 ||
        made_inside(e->module, v, l)) /* which is told when the body ends */
        return v;
    return slice_at(e, l, v);
}

Value at_index(Elab *e, Value v)
{
    return current(e, e->loop, v);
}

Value index_of(Elab *e, Dim d, DType t)
{
    for (Loop *l = e->loop; l; l = l->outer)
        if (l->scan && l->dim.name == d.name) {
            l->counted = true;
            return build_cast(&e->b, l->index, t);
        }
    return build_iota(&e->b, t, d);
}

void help_scan(Elab *e, Name dim)
{
    for (const Loop *l = e->loop; l; l = l->outer)
        if (l->scan && l->dim.name == dim)
            help(e,
                 "a scan reads at its current '%s', without the dim: shift or sum along it before "
                 "the scan, under another name",
                 text(e, dim));
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
