/* schedule_gradients.c - buffers of gradients are called after their parameters.
 *
 * The gradient is what a parameter's update reads, by way of as few values as possible, that has
 * its dims. Where something is offloaded the update is done slice by slice in a loop, and reads
 * what the loop takes in. Of numbers nothing is followed: the norm is made of all gradients. */
#include "plan/schedule/schedule.h"

enum { FOLLOWED = 64 };

/* Values on the way back from the update, in order of their distance. */
typedef struct Trail {
    Value v[FOLLOWED];
    int n;
} Trail;

static void follow(const Sched *s, Trail *t, Value v)
{
    for (int k = 0; k < t->n; k++)
        if (t->v[k] == v)
            return;
    if (t->n < FOLLOWED && type_of(s->m, v)->rank)
        t->v[t->n++] = v;
}

/* Goes on to the values that one is made of, or, as an argument of a loop, to what it takes in. */
static void follow_back(const Sched *s, Trail *t, Value v)
{
    const ValueInfo *info = &s->m->values.data[v];
    const Ins *def = info->def, *loop = info->home->owner;
    for (uint32_t k = 0; def && def->op == OP_repeat && k < def->nout; k++)
        if (def->out[k] == v)
            follow(s, t, def->body->results.data[k]);
    for (uint32_t k = 0; def && def->op != OP_repeat && k < def->nin; k++)
        follow(s, t, def->in[k]);
    for (uint32_t k = 0; !def && loop && loop->op == OP_repeat && k < loop->nin; k++)
        if (info->home->args.data[k] == v)
            follow(s, t, loop->in[k]);
}

static bool is_gradient(const Sched *s, Value v, const Tensor *of)
{
    const Loc *l = loc_of(s, v);
    const Type *t = type_of(s->m, v);
    return l->known && s->p->buffers.data[l->at.buffer].owner == OWN_grads &&
           t->rank == of->type.rank && type_same_dims(t, &of->type);
}

void name_gradients(Sched *s, const Fn *f)
{
    for (size_t k = 0; k < f->results.n; k++) {
        const FnResult r = f->results.data[k];
        const Tensor *of = r.role == RES_update ? &s->m->tensors.data[r.tensor] : NULL;
        Trail t = {.n = 0};
        if (!of || of->slot)
            continue;
        follow(s, &t, f->body->results.data[k]);
        for (int at = 0; at < t.n; at++) {
            if (at && is_gradient(s, t.v[at], of)) {
                Buffer *b = &s->p->buffers.data[loc_of(s, t.v[at])->at.buffer];
                b->name = of->name;
                b->span = of->span;
                break;
            }
            follow_back(s, &t, t.v[at]);
        }
    }
}
