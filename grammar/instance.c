/* instance.c - `tower : block encoder as "text_model"`: a block whose calls share their parameters.
 *
 * A parameter lies where the instance is declared: it has the repeats around the declaration, and
 * those of the block's own body, but not those around a call. So an instance that is declared
 * before a repeat and called in it has one set of weights for all iterations. The first call that
 * comes to a declaration makes the parameter; a later one comes to it by the same way through
 * blocks and instances, whatever the calls of instances on it, and finds it (Frame.place). */
#include "grammar/elab.h"

#include <string.h>

/* A block that is no operation of the language, by the name of a declaration; NULL after an error.
 */
static Sym *block_of(Elab *e, const Node *n)
{
    Sym *block = map_find(&e->blocks, n->a->name);
    if (block) {
        block->used = true;
        return block;
    }
    VEC(const char *) near = {0};
    for (size_t i = 0; i < e->block_order.n; i++)
        vec_push(e->arena, &near, text(e, e->block_order.data[i]->name));
    fail(e, n->a->at, 278, "there is no block '%s' in this file", text(e, n->a->name));
    suggest(e, text(e, n->a->name), near.data, near.n);
    return NULL;
}

static bool named_as_function(Elab *e, const Node *n)
{
    if (!is_builtin(text(e, n->name)))
        return false;
    fail(e, n->at, 202, "'%s' is a function of the language", text(e, n->name));
    help(e, "choose another name");
    return true;
}

void declare_instance(Elab *e, const Node *n)
{
    Sym *block = block_of(e, n), *s = NULL;
    if (!named_as_function(e, n))
        s = declare(e, SYM_INSTANCE, n->name, n->at);
    if (!s)
        return;
    s->ready = true;
    Span at;
    if (n->text && !*n->text) {
        fail(e, n->span, 275, "the name of an instance is empty");
        if (text_place(e, n->span, " as \"\"", &at))
            remedy(e, at, "",
                   "without `as \"\"` its parameters have the names that they have by "
                   "themselves");
        block = NULL;
    }
    Instance *i = NEW(e->arena, Instance);
    *i = (Instance){.node = n, .block = block ? block->node : NULL, .loop = e->loop};
    i->path = path_join(e, e->frame->path, n->text ? path_word(e, n->text) : text(e, n->name));
    i->external = path_join(e, e->frame->external, external_text(e, n));
    if (n->b && !follow_instance(e, n->b, i))
        i->block = NULL;
    s->instance = i;
}

const Instance *find_instance(Elab *e, Name name)
{
    Sym *s = find_local(e->frame, name);
    if (!s || s->gone || s->kind != SYM_INSTANCE)
        return NULL;
    s->used = true;
    return s->instance;
}

bool check_instance_call(Elab *e, const Instance *i, const Node *call)
{
    if (!i->block)
        return false;
    if (!call->text)
        return true;
    fail(e, call->span, 278,
         "calls of '%s' have the parameters of its declaration, whose names no "
         "call changes",
         text(e, call->name));
    note(e, i->node->at, "declared here");
    help(e, "%s : block %s as \"%s\"", text(e, call->name), text(e, i->block->name), call->text);
    return false;
}

void loops_of_parameters(Elab *e, LoopList *out)
{
    const Frame *f = e->frame;
    for (Loop *l = e->loop;; l = l->outer) {
        for (; f->caller && l == f->loop; f = f->caller)
            l = f->home;
        if (!l)
            return;
        vec_push(e->arena, out, l);
    }
}

/* ---- parameters that a call before made ------------------------------------------------------ */

/* The outermost call of an instance that the current place is in. */
static const Frame *outermost(const Elab *e)
{
    const Frame *f = e->frame;
    while (f->caller && f->caller->shared)
        f = f->caller;
    return f;
}

/* Several parts of a tensor have one external name. */
static Name shared_key(Elab *e, const Node *n, Name external)
{
    return name_intern(e->names, arena_printf(e->arena, "%s\1%u.%u\1%s", text(e, external),
                                              n->at.file, n->at.begin, e->frame->place));
}

Shared *find_shared(Elab *e, const Node *n)
{
    Name name;
    if (!e->frame->shared || !external_of(e, n, &name))
        return NULL;
    return map_find(&e->shared, shared_key(e, n, name));
}

void add_shared(Elab *e, const Node *n, uint32_t tensor, Value arg)
{
    Name name;
    if (!e->frame->shared || !external_of(e, n, &name))
        return;
    Shared *s = NEW(e->arena, Shared);
    *s = (Shared){n, e->frame->place, outermost(e)->call, tensor, arg};
    map_put(e->arena, &e->shared, shared_key(e, n, name), s);
}

/* The dims of a tensor, as people read them. */
static const char *shape_text(Elab *e, const Tensor *t)
{
    const char *s = "";
    for (int i = 0; i < t->type.rank; i++)
        s = arena_printf(e->arena, "%s%s%s = %lld", s, i ? ", " : "", text(e, t->type.dims[i].name),
                         (long long)t->type.dims[i].size);
    return arena_printf(e->arena, "[%s]", s);
}

static bool same_start(const Tensor *a, const Tensor *b)
{
    return a->init == b->init && a->a == b->a && a->b == b->b && a->formula == b->formula;
}

static bool same_order(const Tensor *a, const Tensor *b)
{
    return a->external_rank == b->external_rank && !memcmp(a->order, b->order, sizeof a->order) &&
           !memcmp(a->merge, b->merge, sizeof a->merge) && !a->part_of == !b->part_of &&
           a->part_dim == b->part_dim && a->part_at == b->part_at;
}

bool check_shared(Elab *e, const Node *n, const Shared *s, const Tensor *now)
{
    const Tensor *t = &e->module->tensors.data[s->tensor];
    const char *name = text(e, n->name);
    const Span here = outermost(e)->call;
    if (!type_equal(&t->type, &now->type))
        fail(e, here, 278,
             "'%s' is %s in this call, and %s in the first one: calls of an instance "
             "share it",
             name, shape_text(e, now), shape_text(e, t));
    else if (!same_start(t, now) || !same_order(t, now))
        fail(e, here, 278, "'%s' has another %s in this call than in the first one", name,
             same_start(t, now) ? "external order" : "initial value");
    else
        return true;
    note(e, s->call, "the first call");
    note(e, n->at, "'%s' is declared here", name);
    help(e, "calls whose parameters differ are of two instances, with a name each");
    return false;
}
