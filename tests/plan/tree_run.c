/* tree_run.c - see tree_run.h. */
#include "tests/plan/tree_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "passes/passes.h"

void open_gradients(Model *t, const Small *s, int64_t microbatch, bool tree)
{
    open_step(t, s, DT_none, SCALES_tensor);
    t->m->layout.microbatch = microbatch;
    t->m->train.tree = tree;
    must_make(t, NULL, "evaluate", "microbatch");
}

/* The inputs of one rank, whose sequences follow each other, as those of all ranks. Their batch is
 * [microbatches, ranks * microbatch, ...], where rank r has them from r / ranks of the batch on,
 * microbatch by microbatch. */
static void deal_out(const Model *t, Tensor64 *x, const Type *type, int64_t microbatch)
{
    const Module *m = t->m;
    int64_t all = m->batch.size, ranks = mesh_batch_ranks(m),
            microbatches = all / ranks / microbatch;
    int64_t row = type_elements(type) / all;
    double *to = NEW_ARRAY(t->a, double, type_elements(type));
    for (int64_t b = 0; b < all; b++) {
        int64_t s = b / microbatch, at = s;
        if (!mesh_tree_each_microbatch(m))
            at = s % microbatches * ranks + s / microbatches;
        memcpy(to + (at * microbatch + b % microbatch) * row, x->data + b * row,
               (size_t)row * sizeof *to);
    }
    *x = (Tensor64){*type, to};
}

/* Puts a result together from the ranks' shards; all ranks with the same shard agree. */
static Tensor64 put_together(Model *t, const Type *type, const Tensor64 *got, size_t apart)
{
    const Module *m = t->m;
    Tensor64 whole = {.type = *type};
    for (int i = 0; i < type->rank; i++)
        whole.type.dims[i].size *= mesh_size(m, type->dims[i].axes);
    int64_t n = type_elements(&whole.type);
    whole.data = NEW_ARRAY(t->a, double, n);
    bool *known = NEW_ARRAY(t->a, bool, n);
    Tensor64 number = {.type = whole.type, .data = NEW_ARRAY(t->a, double, n)};
    for (int64_t e = 0; e < n; e++)
        number.data[e] = (double)e;
    for (int64_t r = 0; r < mesh_ranks(m); r++) {
        Tensor64 place = shard_of(m, &number, type, r, 0, t->a);
        for (int64_t e = 0; e < type_elements(type); e++) {
            int64_t at = (int64_t)place.data[e];
            double x = got[(size_t)r * apart].data[e];
            assert_true(!known[at] || !memcmp(&whole.data[at], &x, sizeof x));
            whole.data[at] = x;
            known[at] = true;
        }
    }
    return whole;
}

void run_tree(TreeRun *r, const Small *s, const char *spec, int64_t microbatch, bool local)
{
    Model *t = &r->t;
    *r = (TreeRun){0};
    open_step(t, s, DT_none, SCALES_tensor);
    lay_out(t, spec);
    t->m->layout.microbatch = microbatch;
    t->m->train.tree = true;
    t->m->train.goal[0].clip = 0.5;
    to_update(t, 0);
    r->fn = module_fn(t->m, "train");
    Tensor64 *args = step_arguments(t, r->fn);
    if (try_pass(t, pass_shard) != PASS_ok)
        return;
    must_pass(t, pass_simplify);
    Lies l = lies(t, "train");
    if (local)
        must_pass(t, pass_local);
    int64_t ranks = mesh_ranks(t->m);
    Tensor64 *parts = NEW_ARRAY(t->a, Tensor64, (size_t)ranks * r->fn->args.n);
    Tensor64 *got = NEW_ARRAY(t->a, Tensor64, (size_t)ranks * r->fn->results.n);
    for (size_t k = 0; k < l.args; k++)
        if (r->fn->args.data[k].role == ARG_tokens) {
            Type type = args[k].type;
            deal_out(t, &args[k], &type, microbatch);
        }
    for (int64_t k = 0; k < ranks; k++)
        for (size_t i = 0; i < r->fn->args.n; i++) {
            Tensor64 *to = &parts[(size_t)k * r->fn->args.n + i];
            if (i < l.args) {
                *to = shard_of(t->m, &args[i], &l.arg[i], k, 0, t->a);
                continue;
            }
            *to = (Tensor64){.type = {.dtype = DT_i32}, .data = NEW(t->a, double)};
            to->data[0] = (double)mesh_place(t->m, k, r->fn->args.data[i].tensor);
        }
    ir_interpret_ranks(t->m, r->fn, parts, got, t->a);
    r->whole = NEW_ARRAY(t->a, Tensor64, r->fn->results.n);
    for (size_t k = 0; k < r->fn->results.n; k++)
        r->whole[k] = put_together(t, &l.result[k], &got[k], r->fn->results.n);
    r->ran = true;
}
