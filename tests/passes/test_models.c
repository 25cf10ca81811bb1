/* The shipped models, made small: their gradients against differences of the loss, against those
 * of the same program with composites written out, and the whole pipeline in microbatches. */
#include "tests/passes/model.h"

#include "grammar/grammar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Small {
    const char *file;
    int64_t microbatch; /* as in the file: it has to divide the batch */
    const char *define[10];
} Small;

static const Small models[] = {
    {"mlp.mg", 256, {"seq=3", "embed=4", "hidden=5", "vocab=7"}},
    {"gpt2_124m.mg",
     1,
     {"layers=2", "hidden=6", "heads=2", "head=4", "ffn=8", "vocab=11", "seq=4", "batch=4"}},
    {"llama_mini.mg",
     16,
     {"layers=3", "hidden=4", "kv_heads=2", "head=2", "ffn=5", "vocab=7", "seq=3", "batch=16"}},
    {"llama7b.mg",
     1,
     {"layers=2", "hidden=6", "kv_heads=2", "group=2", "head=4", "ffn=5", "vocab=7", "seq=3",
      "batch=4"}},
};
enum { MODELS = sizeof models / sizeof *models };

static void open_small(Model *t, const Small *s, bool inline_composites)
{
    model_open(t);
    const char *path = arena_printf(t->a, "%s/%s", MODELS_DIR, s->file);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot read %s", path);
    char *text = arena_alloc(t->a, 1 << 16);
    size_t size = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    uint32_t file = diag_add_file(t->m->diag, path, text, size);
    ElaborateOptions o = {.define = s->define, .inline_composites = inline_composites};
    while (o.ndefine < 10 && s->define[o.ndefine])
        o.ndefine++;
    Diag *d = t->m->diag;
    Names *names = names_new(t->a);
    Ast *ast = mg_parse(t->a, names, d, file);
    t->m = ast ? mg_elaborate(t->a, names, d, ast, &o) : NULL;
    if (!t->m)
        fail_msg("%s", model_messages(t));
    t->fn = module_fn(t->m, "train");
    t->m->train.goal[0].eps = 1e-3; /* so that tiny gradients compare after the update */
    must_pass(t, pass_precision);
}

static void gradients(void **state)
{
    (void)state;
    for (int k = 0; k < MODELS; k++) {
        Model t, u;
        open_small(&t, &models[k], false);
        open_small(&u, &models[k], true);
        must_pass(&t, pass_recompute);
        must_pass(&t, pass_differentiate);
        must_pass(&u, pass_recompute);
        must_pass(&u, pass_differentiate);
        Tensor64 *args = inputs_for(&t, t.fn, 1, -1, 1);
        Tensor64 *x = run_fn(&t, t.fn, args);
        Tensor64 *y = run_fn(&u, u.fn, inputs_for(&u, u.fn, 1, -1, 1));
        assert_int_equal(t.fn->results.n, u.fn->results.n);
        for (size_t r = 0; r < t.fn->results.n; r++)
            assert_true(difference(&x[r], &y[r]) < 1e-11);
        double error = gradient_error(&t, t.fn, args, 2, 9);
        if (error > 1e-6)
            fail_msg("%s: gradient is off by %.1e", models[k].file, error);
        model_close(&t);
        model_close(&u);
    }
}

/* The program of a whole step, in microbatches of `microbatch`. */
static Tensor64 *run_step(Model *t, const Small *s, int64_t microbatch, bool simplify)
{
    open_small(t, s, false);
    t->m->layout.microbatch = microbatch;
    must_pass(t, pass_recompute);
    must_pass(t, pass_differentiate);
    must_pass(t, pass_microbatch);
    must_pass(t, pass_update);
    if (simplify)
        must_pass(t, pass_simplify);
    return run_fn(t, t->fn, inputs_for(t, t->fn, 1, -1, 1));
}

static void steps(void **state)
{
    (void)state;
    for (int k = 0; k < MODELS; k++) {
        Model t, u;
        open_small(&t, &models[k], false);
        int64_t batch = t.m->batch.size;
        model_close(&t);
        Tensor64 *x = run_step(&t, &models[k], batch, false);
        for (int64_t micro = batch; micro >= batch / 4; micro /= 2) {
            Tensor64 *y = run_step(&u, &models[k], micro, true);
            for (size_t r = 0; r < t.fn->results.n; r++)
                if (difference(&x[r], &y[r]) > 1e-10)
                    fail_msg("%s, microbatch %d: result %d is off by %.1e", models[k].file,
                             (int)micro, (int)r, difference(&x[r], &y[r]));
            model_close(&u);
        }
        model_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients), cmocka_unit_test(steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
