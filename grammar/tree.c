/* tree.c - what `reduce = tree` asks of a layout: the microbatches of a step are a power of two,
 * over one axis, and no optimizer sums over what is split on it. */
#include "grammar/config.h"
#include "ir/optimizers.h"
#include "ir/propose.h"

#include <string.h>

static bool splits_batch(const Module *m, TensorClass of)
{
    Axes batch = mesh_batch_axes(m);
    for (size_t r = 0; r < m->layout.rules.n; r++)
        for (int k = 0; k < m->layout.rules.data[r].n; k++)
            if (m->layout.rules.data[r].of == of && batch >> m->layout.rules.data[r].axis[k] & 1)
                return true;
    return false;
}

static int64_t power_below(int64_t n)
{
    while (n & (n - 1))
        n &= n - 1;
    return n;
}

/* The microbatch nearest to the one given of which there is a power of two; 0: none. */
static int64_t legal_microbatch(const Layout *l, int64_t all, int64_t ranks)
{
    for (int64_t off = 1; off < all; off++)
        for (int64_t k = l->microbatch - off; k <= l->microbatch + off; k += 2 * off) {
            bool even = k > 0 && all % (k * ranks) == 0;
            if (even && (all / k & (all / k - 1)) == 0)
                return k;
        }
    return 0;
}

/* The batch on one of its axes, of all the ranks. */
static void one_axis(Elab *e, const Module *over, Axes axes)
{
    Remedy r = {0};
    const char *all = "";
    for (size_t i = 0; i < over->layout.mesh.n && r.n < REMEDY_EDITS; i++) {
        if (!(axes >> i & 1))
            continue;
        int64_t size = r.n ? 1 : mesh_size(over, axes);
        const char *option = arena_printf(e->arena, "-D %s=%lld",
                                          text(e, over->layout.mesh.data[i].name), (long long)size);
        r.edit[r.n++].with = option;
        all = arena_printf(e->arena, "%s%s%s", all, *all ? " " : "", option);
    }
    remedies(e, &r, "%s", all);
}

/* The rule that splits state, left out, where it says nothing else. */
static void whole_state(Elab *e, const Module *over, const char *axes)
{
    for (size_t r = 0; r < over->layout.rules.n; r++) {
        const LayoutRule *rule = &over->layout.rules.data[r];
        const char *written = arena_printf(e->arena, "state -> %s", axes);
        Span at = {rule->span.file, rule->span.begin, rule->span.begin + (uint32_t)strlen(written)};
        if (rule->of == CLASS_state && !strcmp(source_text(e, at), written))
            remedy(e, at, "", "without %s", written);
    }
}

void check_tree(Elab *e, const Layout *l, Span at)
{
    const Module over = {.layout = *l,
                         .batch = e->module->batch,
                         .seq = e->module->seq,
                         .arena = e->module->arena,
                         .names = e->names,
                         .train = e->module->train};
    const char *batch = text(e, over.batch.name);
    int64_t all = over.batch.size;
    if (!over.train.tree || l->microbatch < 1 || all < 1 || all % l->microbatch)
        return;
    Axes axes = mesh_batch_axes(&over);
    int64_t n = all / l->microbatch, below = power_below(n);
    if (axes & (axes - 1)) {
        fail(e, at, 336, "reduce = tree adds up over one axis, and '%s' is split on %s", batch,
             mesh_axes_text(&over, axes));
        one_axis(e, &over, axes);
    }
    for (int k = 0; k < over.train.goals; k++) {
        const OptimizerInfo *o = over.train.goal[k].optimizer;
        if (!o || o->of != MATRICES || !splits_batch(&over, CLASS_state))
            continue;
        fail(e, at, 336, "reduce = tree, and %s sums over state that is split on %s", o->name,
             mesh_axes_text(&over, axes));
        whole_state(e, &over, mesh_axes_text(&over, axes));
    }
    if (n == below)
        return;
    fail(e, at, 335, "reduce = tree adds up a power of two, and '%s' of %lld is %lld microbatches",
         batch, (long long)all, (long long)n);
    int64_t legal = legal_microbatch(l, all, mesh_size(&over, axes));
    if (e->quiet)
        return;
    if (legal)
        propose_microbatch(e->diag, l, legal);
    propose_size(e->diag, batch, below * l->microbatch);
    propose_size(e->diag, batch, 2 * below * l->microbatch);
}
