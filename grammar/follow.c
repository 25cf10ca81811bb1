/* follow.c - `target : block encoder as "target" follows online by 0.99`: an instance whose
 * parameters are averages of another's over the steps, or copies from time to time. No loss trains
 * them.
 *
 * Each parameter of the one follows the parameter of the other that has the same name inside of it.
 * An instance follows one that was declared before, so that no two follow each other.
 *
 * `by 1` makes a copy of what the other began as. With an adapter, which trains nothing of the
 * other itself, the copy is that: calls have the other's parameters, and products in them no
 * adapter. */
#include "grammar/elab.h"
#include "ir/initial.h"

#include <string.h>

/* The instance of the name, which must be of the same block and in the same repeat. */
static const Instance *followed(Elab *e, const Node *n, const Instance *i)
{
    const Instance *of = find_instance(e, n->name);
    if (!of) {
        VEC(const char *) near = {0};
        for (size_t k = 0; k < e->frame->order.n; k++)
            if (e->frame->order.data[k]->kind == SYM_INSTANCE && e->frame->order.data[k]->instance)
                vec_push(e->arena, &near, text(e, e->frame->order.data[k]->name));
        fail(e, n->at, 279, "no instance '%s' is declared before", text(e, n->name));
        suggest(e, text(e, n->name), near.data, near.n);
        return NULL;
    }
    if (!of->block || !i->block)
        return NULL;
    if (of->block == i->block && of->loop == i->loop)
        return of;
    if (of->block != i->block)
        fail(e, n->at, 279, "'%s' is an instance of '%s', and this one of '%s'", text(e, n->name),
             text(e, of->block->name), text(e, i->block->name));
    else
        fail(e, n->at, 279, "'%s' is declared in another repeat", text(e, n->name));
    note(e, of->node->at, "declared here");
    return NULL;
}

bool follow_instance(Elab *e, const Node *n, Instance *i)
{
    const char *how = text(e, n->a->name);
    const Instance *of = followed(e, n, i);
    const bool every = !strcmp(how, "every");
    if (e->frame->follower) {
        fail(e, n->at, 279, "an instance that follows another is in a block of one that does, too");
        note(e, e->frame->follower->node->at, "which is declared here");
        return false;
    }
    i->every = 1;
    if (!every && strcmp(how, "by") != 0) {
        fail(e, n->a->at, 279, "'%s' says not how it follows", how);
        help(e,
             "`by 0.99`: it keeps 0.99 of itself in each step; `every 1000`: it becomes the other "
             "in each 1000th");
        return false;
    }
    if (every && !integer_of(e, n->b, &i->every))
        return false;
    if (i->every < 1) {
        fail(e, n->b->span, 279, "every %lld steps; it must be at least 1", (long long)i->every);
        return false;
    }
    if (every)
        i->beta = name_intern(e->names, "0");
    else if (!step_formula(e, n->b, &i->beta))
        return false;
    while (of && is_unadapted(e, of))
        of = of->follows;
    i->follows = of;
    return of != NULL;
}

bool is_unadapted(const Elab *e, const Instance *i)
{
    return i->follows && e->adapters.n && formula_is_one(name_str(e->names, i->beta));
}

void add_follower(Elab *e, Tensor *t)
{
    const Instance *i = e->frame->follower;
    t->rate = 1;
    t->frozen = true;
    t->beta = i->beta;
    t->every = i->every;
    const Frame *f = e->frame;
    while (f->caller->follower)
        f = f->caller;
    vec_push(e->arena, &e->followers, ((Follower){i, (uint32_t)e->module->tensors.n, f->call}));
}

/* The name that the parameter has inside of its instance. */
static const char *inside(const Elab *e, const Follower *f)
{
    const char *name = text(e, e->module->tensors.data[f->tensor].external);
    const size_t n = strlen(f->instance->external);
    return name + n + (n && name[n] == '.');
}

static bool same_form(const Tensor *a, const Tensor *b)
{
    return type_equal(&a->type, &b->type) && a->stacked == b->stacked &&
           a->numbered == b->numbered && a->external_rank == b->external_rank &&
           !memcmp(a->order, b->order, sizeof a->order) &&
           !memcmp(a->merge, b->merge, sizeof a->merge) && !a->part_of == !b->part_of;
}

static void find_one(Elab *e, const Follower *f)
{
    Module *m = e->module;
    Tensor *t = &m->tensors.data[f->tensor];
    const Instance *of = f->instance->follows;
    const char *name = path_join(e, of->external, inside(e, f));
    const size_t found = external_tensor(e, name_intern(e->names, name), t);
    const Tensor *other = found ? &m->tensors.data[found - 1] : NULL;
    if (other && same_form(t, other)) {
        t->follows = (uint32_t)found;
        t->goal = other->goal;
        t->init = INIT_const; /* it begins as the other */
        t->formula = 0;
        t->a = t->b = 0;
        return;
    }
    fail(e, f->call, 279,
         other ? "'%s' has other dims, or another external order, than '%s'"
               : "'%s' follows nothing: there is no parameter '%s'",
         text(e, t->external), name);
    note(e, t->span, "the parameter is declared here");
    note(e, of->node->at, other ? "'%s' is called with other dims" : "'%s' makes none in any call",
         text(e, of->node->name));
}

void find_followed(Elab *e)
{
    for (size_t i = 0; i < e->followers.n; i++)
        find_one(e, &e->followers.data[i]);
}
