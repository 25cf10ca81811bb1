/* guard.c - pass guard: with `update as_ready` the guard, and what the loss needs, come first.
 *
 *   before:  forward | backward | updates | guard loss ...       as pass update wrote it
 *   after:   forward | guard loss | backward | updates
 *
 * Nothing is written to a parameter before the guard has passed. One that looks at loss and norm
 * stays behind all gradients; one that looks at the loss alone comes as soon as that is known, and
 * then each update is free to run once its own gradient is there, beside the reductions of others.
 * Both parts keep their order.
 *
 * why here: after the last microbatch stands by itself (buckets.c), and the head is one call, which
 * gives its gradients with the loss; before fusion, which nothing crosses the guard in. */
#include "passes/passes.h"
#include "passes/walk.h"

#include <string.h>

static Ins *guard_of(const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->op == OP_guard)
            return r->ins.data[k];
    return NULL;
}

static void note_need(void *ctx, Value *use)
{
    ((bool *)ctx)[*use] = true;
}

/* Whether each instruction is the guard, or the guard depends on it. */
static bool *needed(const Module *m, const Region *r, const Ins *guard, Arena *tmp)
{
    bool *value = NEW_ARRAY(tmp, bool, m->values.n), *ins = NEW_ARRAY(tmp, bool, r->ins.n);
    for (size_t k = r->ins.n; k-- > 0;) {
        Ins *i = r->ins.data[k];
        ins[k] = i == guard;
        for (uint32_t n = 0; n < i->nout; n++)
            ins[k] |= value[i->out[n]];
        if (ins[k])
            each_use(i, note_need, value);
    }
    return ins;
}

static void move_first(Region *r, const bool *first, Arena *tmp)
{
    Ins **was = NEW_ARRAY(tmp, Ins *, r->ins.n);
    size_t n = 0;
    memcpy(was, r->ins.data, r->ins.n * sizeof *was);
    for (int rest = 0; rest < 2; rest++)
        for (size_t k = 0; k < r->ins.n; k++)
            if (first[k] == !rest)
                r->ins.data[n++] = was[k];
}

PassStatus pass_guard(Job *j)
{
    const Fn *fn = module_fn(j->m, "train");
    const Ins *guard = fn ? guard_of(fn->body) : NULL;
    if (guard && guard->nin == 1)
        move_first(fn->body, needed(j->m, fn->body, guard, j->tmp), j->tmp);
    return PASS_ok;
}
