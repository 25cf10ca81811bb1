/* call.c - calls: arguments are matched with parameters, and a block's body is elaborated in a
 * frame of its own, once per call. */
#include "grammar/elab.h"

#include <string.h>

static const Val poison = {.kind = VAL_POISON};

static void sort_args(Elab *e, const Node *n, Args *a)
{
    a->call = n;
    for (size_t i = 0; i < n->list.n; i++) {
        const Node *arg = n->list.data[i];
        if (arg->kind == N_ALONG)
            vec_push(e->arena, &a->along, arg);
        else if (arg->kind == N_OVER)
            vec_push(e->arena, &a->over, arg);
        else if (arg->kind == N_NAMED)
            vec_push(e->arena, &a->named, arg);
        else if (arg->kind == N_RENAME)
            vec_push(e->arena, &a->arrows, arg);
        else
            vec_push(e->arena, &a->positional, arg);
    }
}

/* ---- matching ----------------------------------------------------------------------------- */

/* A bare name after a dim or a constant is a flag. */
static NodeKind kind_of(const Node *block, size_t i)
{
    const Node *p = block->list.data[i];
    if (p->kind != N_TENSOR || p->flag || p->a)
        return p->kind;
    for (size_t k = 0; k < i; k++)
        if (block->list.data[k]->kind != N_TENSOR)
            return N_FLAG;
    return N_TENSOR;
}

static const Node *find_parameter(const Node *block, NodeKind kind, Name name)
{
    for (size_t i = 0; i < block->list.n; i++)
        if (kind_of(block, i) == kind && block->list.data[i]->name == name)
            return block->list.data[i];
    return NULL;
}

static int count_parameters(const Node *block, NodeKind kind)
{
    int n = 0;
    for (size_t i = 0; i < block->list.n; i++)
        n += kind_of(block, i) == kind;
    return n;
}

/* The arguments, in the order of the parameters. */
typedef struct Given {
    const Node *node; /* the argument; NULL: not given */
    Val val;
    DimList dims;
} Given;

static const Node *argument(const Node *block, const Args *a, size_t i)
{
    const Node *p = block->list.data[i];
    NodeKind kind = kind_of(block, i);
    if (kind == N_OPTION || kind == N_FLAG) {
        for (size_t k = 0; k < a->named.n; k++)
            if (a->named.data[k]->name == p->name)
                return a->named.data[k];
        for (size_t k = 0; kind == N_FLAG && k < a->positional.n; k++)
            if (a->positional.data[k]->kind == N_NAME && a->positional.data[k]->name == p->name)
                return a->positional.data[k];
        return NULL;
    }
    size_t nth = 0;
    for (size_t k = 0; k < i; k++)
        nth += kind_of(block, k) == kind;
    if (kind == N_ALONG)
        return nth < a->along.n ? a->along.data[nth] : NULL;
    if (kind == N_OVER)
        return nth < a->over.n ? a->over.data[nth] : NULL;
    for (size_t k = 0; k < a->positional.n; k++) {
        const Node *arg = a->positional.data[k];
        bool flag = arg->kind == N_NAME && find_parameter(block, N_FLAG, arg->name);
        if (!flag && nth-- == 0)
            return arg;
    }
    return NULL;
}

static void declared_here(Elab *e, const Node *block)
{
    note(e, block->at, "'%s' is declared here", text(e, block->name));
}

/* Of a block of the prelude, the one with its name that has such an option; NULL: none has. */
static const Node *other_with(Elab *e, const Node *block, Name option)
{
    const Node *other = NULL;
    bool prelude = false;
    for (const Sym *s = map_find(&e->builtin_blocks, block->name); s; s = s->other) {
        prelude |= s->node == block;
        if (find_parameter(s->node, N_OPTION, option))
            other = s->node;
    }
    return prelude ? other : NULL;
}

static bool refuse_named(Elab *e, const Node *block, const Node *arg)
{
    if (find_parameter(block, N_OPTION, arg->name) || find_parameter(block, N_FLAG, arg->name))
        return false;
    VEC(const char *) near = {0};
    for (size_t i = 0; i < block->list.n; i++)
        if (kind_of(block, i) == N_OPTION || kind_of(block, i) == N_FLAG)
            vec_push(e->arena, &near, text(e, block->list.data[i]->name));
    fail(e, arg->at, 240, "'%s' has no argument '%s'", text(e, block->name), text(e, arg->name));
    const Node *other = other_with(e, block, arg->name);
    if (other)
        help(e, "the '%s' of %d values and %d `along` has it", text(e, block->name),
             count_parameters(other, N_TENSOR), count_parameters(other, N_ALONG));
    else
        suggest(e, text(e, arg->name), near.data, near.n);
    declared_here(e, block);
    return true;
}

static bool refuse_count(Elab *e, const Node *block, const Node *call, NodeKind kind, size_t given)
{
    int max = count_parameters(block, kind);
    if (given <= (size_t)max)
        return false;
    const char *what = kind == N_TENSOR   ? "value"
                       : kind == N_ALONG  ? "`along`"
                       : kind == N_RENAME ? "`->`"
                                          : "`over`";
    if (max == 0)
        fail(e, call->at, 241, "'%s' takes no %s", text(e, block->name), what);
    else
        fail(e, call->at, 241, "'%s' takes %d %s%s; %zu are given", text(e, block->name), max, what,
             max == 1 ? "" : "s", given);
    declared_here(e, block);
    return true;
}

/* The values among the arguments of a block: a flag of the block is none. */
static size_t count_values(const Node *block, const Args *a)
{
    size_t values = 0;
    for (size_t i = 0; i < a->positional.n; i++) {
        const Node *arg = a->positional.data[i];
        values += !(arg->kind == N_NAME && find_parameter(block, N_FLAG, arg->name));
    }
    return values;
}

static bool too_much(Elab *e, const Node *block, const Args *a)
{
    if (a->call->list.n > PARAMETERS_MAX)
        return refuse_count(e, block, a->call, N_TENSOR, a->call->list.n);
    const size_t values = count_values(block, a);
    for (size_t i = 0; i < a->named.n; i++) {
        const Node *arg = a->named.data[i];
        if (refuse_named(e, block, arg))
            return true;
        if (arg->b) {
            fail(e, arg->b->span, 222, "`where` has no place here");
            return true;
        }
        for (size_t k = 0; k < i; k++)
            if (a->named.data[k]->name == arg->name) {
                fail(e, arg->at, 242, "'%s' is given twice", text(e, arg->name));
                return true;
            }
    }
    return refuse_count(e, block, a->call, N_TENSOR, values) ||
           refuse_count(e, block, a->call, N_ALONG, a->along.n) ||
           refuse_count(e, block, a->call, N_OVER, a->over.n) ||
           refuse_count(e, block, a->call, N_RENAME, a->arrows.n);
}

static bool missing(Elab *e, const Node *block, const Node *call, const Node *p, NodeKind kind)
{
    if (kind == N_FLAG || (kind == N_OPTION && p->a))
        return false;
    const char *before = kind == N_ALONG ? "along " : kind == N_OVER ? "over " : "";
    fail(e, call->at, 243, "'%s' needs `%s%s%s`", text(e, block->name), before, text(e, p->name),
         kind == N_OPTION ? " = ..." : "");
    note(e, p->at, "declared here");
    return true;
}

/* Evaluates the arguments in the caller's frame. */
static bool evaluate(Elab *e, const Node *block, const Args *a, Given *given)
{
    bool ok = !too_much(e, block, a);
    for (size_t i = 0; ok && i < block->list.n; i++) {
        NodeKind kind = kind_of(block, i);
        Given *g = &given[i];
        g->node = argument(block, a, i);
        if (!g->node) {
            ok = !missing(e, block, a->call, block->list.data[i], kind);
            continue;
        }
        if (kind == N_ALONG || kind == N_OVER)
            ok = resolve_dims(e, &g->node->list, &g->dims);
        else if (kind == N_FLAG && g->node->kind == N_NAME)
            g->val = (Val){.kind = VAL_NUMBER, .number = number_int(1)};
        else
            g->val = kind == N_TENSOR            ? expr(e, g->node)
                     : block->list.data[i]->flag ? expr(e, g->node->a)
                                                 : number_expr(e, g->node->a);
        if (kind == N_ALONG && ok && g->dims.n != 1)
            ok = fail(e, g->node->at, 207, "`along` takes one dim").kind != VAL_POISON;
        ok &= kind == N_ALONG || kind == N_OVER || g->val.kind != VAL_POISON;
    }
    return ok;
}

/* ---- binding ------------------------------------------------------------------------------ */

/* x[hidden]: the argument has at least these dims. */
static bool has_dims(Elab *e, const Node *p, const Given *g)
{
    DimList want;
    if (!resolve_dims(e, &p->list, &want))
        return false;
    for (int i = 0; i < want.n; i++) {
        if (g->val.kind == VAL_TENSOR &&
            type_find(type_of(e->module, g->val.value), want.dim[i].name) >= 0)
            continue;
        Frame *callee = e->frame; /* the mistake is the caller's */
        e->frame = callee->caller;
        fail(e, g->node->span, 244, "'%s' needs dim '%s'; this has %s",
             text(e, callee->block->name), text(e, want.dim[i].name),
             g->val.kind == VAL_TENSOR ? type_text(e, g->val.value) : "none, being a number");
        note(e, p->at, "declared here");
        e->frame = callee;
        return false;
    }
    return true;
}

/* targets : token(c) names the dim that the argument indexes. */
static bool bind_indexed(Elab *e, const Node *p, const Given *g)
{
    if (strcmp(p->text, "token") != 0) {
        fail(e, p->span, 245, "'%s' is not a type of values", p->text);
        static const char *const types[] = {"token"};
        suggest(e, p->text, types, 1);
        return false;
    }
    const Type *t = g->val.kind == VAL_TENSOR ? type_of(e->module, g->val.value) : NULL;
    Name indexes = t && t->dtype == DT_i32 ? t->indexes : 0;
    const Sym *known = find_local(e->frame, p->a->name);
    if (!known && !e->frame->prelude)
        known = lookup(e, p->a->name);
    if (!indexes || (known && (known->kind != SYM_DIM || known->dims.dim[0].name != indexes))) {
        Frame *callee = e->frame;
        e->frame = callee->caller;
        fail(e, g->node->span, 246, "'%s' wants indices of %s here", text(e, callee->block->name),
             known ? arena_printf(e->arena, "'%s'", text(e, p->a->name)) : "a dim");
        help(e,
             indexes ? "these are of '%s'" : "as the tokens of a model are, or next(...) of them",
             text(e, indexes));
        e->frame = callee;
        return false;
    }
    if (known)
        return true;
    Sym *s = declare(e, SYM_DIM, p->a->name, p->a->at);
    if (s)
        s->used = true; /* its name had to be said */
    const DimInfo *d = dim_info(e, indexes);
    if (s)
        s->dims = (DimList){1, {{.name = d->name, .size = d->size}}};
    return s;
}

static bool bind(Elab *e, const Node *p, NodeKind kind, Given *g)
{
    if (kind == N_ALONG || kind == N_OVER) {
        Sym *s = declare(e, SYM_DIM, p->name, p->at);
        if (s)
            s->dims = g->dims;
        return s;
    }
    if (kind == N_OPTION && !g->node)
        g->val = number_expr(e, p->a);
    else if (kind == N_FLAG && !g->node)
        g->val = (Val){.kind = VAL_NUMBER, .number = number_int(0)};
    if (g->val.kind == VAL_POISON)
        return false;
    const bool value = kind == N_TENSOR || g->val.kind == VAL_TENSOR; /* given by name, too */
    Sym *s = declare(e, value ? SYM_VALUE : SYM_CONST, p->name, p->at);
    if (s) {
        s->val = g->val;
        s->ready = true;
    }
    return s && (!value || ((!p->flag || has_dims(e, p, g)) &&
                            (kind != N_TENSOR || !p->a || bind_indexed(e, p, g))));
}

/* Dims first: defaults of constants may use them. */
static bool bind_all(Elab *e, const Node *block, Given *given)
{
    static const NodeKind order[] = {N_ALONG, N_OVER, N_TENSOR, N_OPTION, N_FLAG};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (size_t i = 0; i < block->list.n; i++)
            if (kind_of(block, i) == order[k] && !bind(e, block->list.data[i], order[k], &given[i]))
                return false;
    return true;
}

/* ---- the call ----------------------------------------------------------------------------- */

const char *path_word(Elab *e, const char *s)
{
    char *word = arena_strdup(e->arena, s);
    for (char *p = word; *p; p++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.", *p))
            *p = '_';
    return word;
}

const char *path_join(Elab *e, const char *path, const char *word)
{
    return !*path ? word : !*word ? path : arena_printf(e->arena, "%s.%s", path, word);
}

static bool recursive(Elab *e, const Node *block, const Node *n)
{
    for (const Frame *f = e->frame; f; f = f->caller)
        if (f->block == block) {
            fail(e, n->at, 232, "block '%s' calls itself", text(e, block->name));
            note(e, block->at, "declared here");
            help(e, "`repeat` runs a body several times");
            return true;
        }
    return false;
}

/* A local dim may not leave its block: nobody outside could name it. */
static bool one_escapes(Elab *e, Val v, const Node *block)
{
    const Type *t = v.kind == VAL_TENSOR ? type_of(e->module, v.value) : NULL;
    for (int i = 0; t && i < t->rank; i++) {
        const DimInfo *d = dim_info(e, t->dims[i].name);
        if (d->frame != e->frame)
            continue;
        fail(e, block->at, 247, "the result %s of '%s' has its own dim '%s'", type_text(e, v.value),
             text(e, block->name), text(e, d->name));
        note(e, d->span, "declared here");
        help(e, "sum over it, or rename it: `x[%s -> ...]`", text(e, d->name));
        return true;
    }
    return false;
}

static bool escapes(Elab *e, Val v, const Node *block)
{
    if (v.kind != VAL_SEVERAL)
        return one_escapes(e, v, block);
    for (size_t i = 0; i < v.count; i++)
        if (one_escapes(e, v.several[i], block))
            return true;
    return false;
}

static void leave(Elab *e, Frame *f)
{
    warn_unused_names(e, f, 0);
    free_dims(e, f);
    e->frame = f->caller;
}

static void body(Elab *e, const Node *block, Val *result)
{
    size_t n = block->more.n;
    if (!n || block->more.data[n - 1]->kind != N_RETURN) {
        Span brace = {block->span.file, block->span.end - 1, block->span.end};
        fail(e, brace, 239, "block '%s' ends without `return`", text(e, block->name));
        return;
    }
    statements(e, &block->more, result);
}

/* The frame of a call: of an instance its parameters are named, and lie, as it was declared. */
static Frame frame_of(Elab *e, const Node *block, const Node *n, const Instance *i, bool prelude)
{
    const bool bare = i && is_unadapted(e, i);
    i = bare ? i->follows : i;
    Frame f = {.caller = e->frame,
               .block = block,
               .call = n->at,
               .prelude = prelude,
               .loop = e->loop,
               .home = i ? i->loop : e->loop,
               .bare = bare || e->frame->bare,
               .instance = i != NULL,
               .shared = i || e->frame->shared,
               .follower = i && i->follows ? i : e->frame->follower};
    const char *word = prelude ? "" : n->text ? path_word(e, n->text) : text(e, block->name);
    f.path = i ? i->path : path_join(e, f.caller->path, word);
    f.external = i ? i->external : path_join(e, f.caller->external, external_text(e, n));
    if (f.shared)
        f.place = arena_printf(e->arena, "%s %u", f.caller->shared ? f.caller->place : "",
                               i ? i->node->at.begin : n->at.begin);
    return f;
}

static Val run_block(Elab *e, const Node *block, const Node *n, Given *given, const Instance *i,
                     bool prelude)
{
    Frame f = frame_of(e, block, n, i, prelude);
    if (strlen(f.path) > PATH_MAX_BYTES || strlen(f.external) > PATH_MAX_BYTES)
        return fail(e, n->at, 256, "the path to this call is longer than %d bytes", PATH_MAX_BYTES);
    Builder outer = e->b;
    e->frame = &f;
    if (!prelude && !e->rule) {
        e->b.path = name_intern(e->names, f.path);
        e->b.block = block->name;
    }
    Val result = poison;
    if (bind_all(e, block, given)) {
        bool done = false;
        if (prelude)
            result = call_composite(e, n, &done);
        if (!done)
            body(e, block, &result);
        if (prelude && result.kind == VAL_TENSOR && !strcmp(text(e, n->name), "document_start"))
            vec_push(e->arena, &e->documents, result.value);
        if (result.kind != VAL_POISON && escapes(e, result, block))
            result = poison;
    }
    leave(e, &f);
    e->b.path = outer.path;
    e->b.block = outer.block;
    return result;
}

static Val unknown_function(Elab *e, const Node *n)
{
    VEC(const char *) near = {0};
    for (size_t i = 0; builtin_name(i); i++)
        vec_push(e->arena, &near, builtin_name(i));
    for (size_t i = 0; i < e->prelude->items.n; i++)
        if (e->prelude->items.data[i]->kind == N_BLOCK)
            vec_push(e->arena, &near, text(e, e->prelude->items.data[i]->name));
    for (size_t i = 0; i < e->block_order.n; i++)
        vec_push(e->arena, &near, text(e, e->block_order.data[i]->name));
    fail(e, n->at, 248, "there is no block or function '%s'", text(e, n->name));
    suggest(e, text(e, n->name), near.data, near.n);
    return poison;
}

/* Blocks of the prelude may share a name if they take different numbers of values, or along. */
static Sym *prelude_block(Elab *e, Name name, const Args *a)
{
    Sym *s = map_find(&e->builtin_blocks, name);
    while (s && s->other &&
           ((size_t)count_parameters(s->node, N_TENSOR) < count_values(s->node, a) ||
            (size_t)count_parameters(s->node, N_ALONG) < a->along.n))
        s = s->other;
    return s;
}

/* `as ""`: names of parameters would begin with a dot, or stand for no scope. */
static Val nameless(Elab *e, const Node *n)
{
    Span at;
    fail(e, n->span, 275, "the name of a call is empty");
    if (text_place(e, n->span, " as \"\"", &at))
        remedy(e, at, "",
               "without `as \"\"` the parameters have the names that they have by themselves");
    return poison;
}

Val call(Elab *e, const Node *n)
{
    Args args = {0};
    sort_args(e, n, &args);
    Sym *named = e->frame && e->frame->prelude ? NULL : map_find(&e->blocks, n->name);
    const Instance *i = find_instance(e, n->name);
    bool prelude = !named && !i;
    if (is_builtin(text(e, n->name)))
        return call_builtin(e, &args);
    if (prelude)
        named = prelude_block(e, n->name, &args);
    if (i ? !check_instance_call(e, i, n) : !named)
        return i ? poison : unknown_function(e, n);
    const Node *block = i ? i->block : named->node;
    if (!i)
        named->used = true;
    if (e->constant)
        return fail(e, n->at, 223, "a block cannot be called outside of a model");
    if (prelude && n->text)
        return fail(e, n->span, 249, "'%s' has no parameters that `as` could name",
                    text(e, n->name));
    if (n->text && !*n->text)
        return nameless(e, n);
    if (recursive(e, block, n))
        return poison;
    Given *given = NEW_ARRAY(e->arena, Given, block->list.n);
    bool ok = evaluate(e, block, &args, given);
    if (e->mode == MODE_SAMPLE && n == e->sampled && given[0].val.kind == VAL_TENSOR)
        e->logits = given[0].val.value;
    return ok ? run_block(e, block, n, given, i, prelude) : poison;
}
