/* The rounded copies of parameters: all ranks of a layout make, read and write them as one rank
 * does, masters lie as their state, and a copy that is not its parameter's rounding is not proved.
 */
#include "tests/plan/sharded.h"
#include "passes/passes.h"
#include "plan/check/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const Small models[] = {
    {"llama7b.mg",
     0,
     {"layers=4", "hidden=32", "kv_heads=4", "group=2", "head=4", "ffn=32", "vocab=32", "seq=8",
      "batch=16"}},
    {"gpt2_124m.mg", /* its table is looked up in f32, and multiplied by rounded */
     0,
     {"layers=4", "hidden=32", "heads=4", "head=8", "ffn=32", "vocab=32", "seq=8", "batch=16"}},
    {"mixtral_mini.mg",
     0,
     {"layers=2", "hidden=32", "kv_heads=2", "group=2", "head=4", "ffn=32", "experts=4", "vocab=32",
      "seq=8", "batch=16"}},
};
enum { MODELS = sizeof models / sizeof *models, AT_ONCE = 8 };

static const char *const layouts[] = {
    "dp=2; batch dp",
    "dp=2; batch dp; state dp",
    "dp=2; batch dp; state dp; grads dp",
    "dp=2; batch dp; state dp; grads dp; params dp",
    "dp=2; batch dp; params dp",
    "tp=2; kv_heads tp; heads tp; ffn tp; vocab tp",
    "dp=2 tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; state dp",
    "dp=2| tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp",
    "dp=2| ep=2| tp=2; experts ep; batch dp ep; kv_heads tp; heads tp; ffn tp; vocab tp",
    "replica=2 dp=2; batch replica dp; state dp; grads dp; params dp",
    "replica=2 dp=2; batch replica dp; state replica dp; params dp",
    "pp=2 dp=2; batch dp; layers pp; state dp",
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void follow(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (int k = 0; k < MODELS; k++) {
        Reference r;
        open_reference_in(&r, &models[k], AT_ONCE, k % 2 ? DT_f16 : DT_bf16);
        assert_non_null(r.want[3]);
        for (int l = 0; l < LAYOUTS; l++, n++)
            if (sampled(n, SANITIZED ? 3 : 1) && !layout_follows(&r, layouts[l]))
                fail_msg("%s, layout %s: refused", models[k].file, layouts[l]);
        model_close(&r.t);
    }
}

/* Layers' products of fp8: a scale is of the largest number of all ranks. */
static void fp8_follow(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (int k = 0; k < MODELS; k++) {
        Reference r;
        int products = 0;
        open_reference_in(&r, &models[k], AT_ONCE, k % 2 ? DT_e4m3 : DT_e5m2);
        for (size_t v = 1; v < r.t.m->values.n; v++)
            products += dtype_is_fp8(r.t.m->values.data[v].type.dtype);
        assert_true(products > 10);
        for (int l = 0; l < LAYOUTS; l++, n++)
            if (sampled(n, SANITIZED ? 4 : 2) && !layout_follows(&r, layouts[l]))
                fail_msg("%s, layout %s: refused", models[k].file, layouts[l]);
        model_close(&r.t);
    }
}

/* The same in tiles, of which ranks may have parts: their scales are those of whole tiles. */
static void tiles_follow(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (int k = 0; k < MODELS; k++) {
        Reference r;
        int products = 0;
        open_reference_scaled(&r, &models[k], AT_ONCE, DT_e4m3, k % 2 ? SCALES_tile : SCALES_mx);
        for (size_t v = 1; v < r.t.m->values.n; v++) {
            const Ins *def = r.t.m->values.data[v].def;
            products += def && def->op == OP_tile_scale;
        }
        assert_true(products > 10);
        for (int l = 0; l < LAYOUTS; l++, n++)
            if (sampled(n, SANITIZED ? 4 : 2) && !layout_follows(&r, layouts[l]))
                fail_msg("%s, layout %s: refused", models[k].file, layouts[l]);
        model_close(&r.t);
    }
}

/* ---- masters --------------------------------------------------------------------------------- */

static Axes axes_of(const Tensor *t)
{
    Axes all = 0;
    for (int i = 0; i < t->type.rank; i++)
        all |= t->type.dims[i].axes;
    return all;
}

/* Of a layer's tensor, as a rank has it. */
static int64_t elements(const Tensor *t)
{
    int64_t n = 1;
    for (int i = t->stacked; i < t->type.rank; i++)
        n *= t->type.dims[i].size;
    return n;
}

enum { LEAST = 256 }; /* elements of a part: what has fewer stays whole */

typedef struct Moved {
    int gathers, wide; /* of parameters; of f32 */
} Moved;

/* Gathers of new values of parameters. */
static Moved gathered(const Module *m)
{
    Moved moved = {0};
    const Fn *fn = module_fn(m, "train");
    for (size_t k = 0; k < fn->results.n; k++) {
        const Ins *def = m->values.data[fn->body->results.data[k]].def;
        if (fn->results.data[k].role != RES_update || !def || def->op != OP_all_gather)
            continue;
        moved.gathers++;
        moved.wide += type_of(m, def->out[0])->dtype == DT_f32;
    }
    return moved;
}

/* With ZeRO 1 a rank has the part of a master that it has the state of, and what is gathered is the
 * copy. A table that is looked up in f32 is no master. */
static void masters_lie_as_state(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        Reference r;
        Model t;
        int masters = 0, others = 0;
        open_reference_in(&r, &models[k], AT_ONCE, DT_bf16);
        assert_true(open_many(&t, &r, layouts[1]));
        for (size_t i = 0; i < t.m->tensors.n; i++) {
            const Tensor *copy = &t.m->tensors.data[i];
            const Tensor *of = &t.m->tensors.data[copy->parameter];
            if (!tensor_is_rounded(copy))
                continue;
            assert_int_equal(axes_of(copy), 0);
            if (elements(of) < LEAST) /* biases */
                continue;
            assert_int_equal(axes_of(of), of->master ? 1 : 0);
            masters += of->master;
            others += !of->master;
        }
        assert_true(masters > 0);
        assert_int_equal(others > 0, k == 1);
        const Moved moved = gathered(t.m);
        assert_true(moved.gathers >= masters);
        assert_true(moved.wide < masters); /* gains, and what is looked up */
        model_close(&t);
        model_close(&r.t);
    }
}

/* ---- what is not proved ---------------------------------------------------------------------- */

static FnResult *result_of(Fn *fn, const Module *m, bool copy, size_t *at)
{
    for (*at = 0; *at < fn->results.n; ++*at) {
        FnResult *r = &fn->results.data[*at];
        const Tensor *t = &m->tensors.data[r->tensor];
        if (r->role == RES_update && tensor_is_rounded(t) == copy &&
            (copy || (!t->slot && t->master)))
            return r;
    }
    fail_msg("no such result");
    abort();
}

static void take_out(Fn *fn, size_t at)
{
    memmove(&fn->results.data[at], &fn->results.data[at + 1],
            (--fn->results.n - at) * sizeof *fn->results.data);
    memmove(&fn->body->results.data[at], &fn->body->results.data[at + 1],
            (--fn->body->results.n - at) * sizeof *fn->body->results.data);
}

static void no_new_copy(Module *m)
{
    size_t at;
    result_of(module_fn(m, "train"), m, true, &at);
    take_out(module_fn(m, "train"), at);
}
static void no_new_value(Module *m)
{
    size_t at;
    result_of(module_fn(m, "train"), m, false, &at);
    take_out(module_fn(m, "train"), at);
}
/* The copy as it was before the step. */
static void stale_copy(Module *m)
{
    size_t at;
    Fn *fn = module_fn(m, "train");
    const uint32_t copy = result_of(fn, m, true, &at)->tensor;
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == ARG_rounded && fn->args.data[k].tensor == copy)
            fn->body->results.data[at] = fn->body->args.data[k];
}
/* The rounding of the value before the step. */
static void copy_of_old(Module *m)
{
    size_t at;
    Fn *fn = module_fn(m, "train");
    const uint32_t of = m->tensors.data[result_of(fn, m, true, &at)->tensor].parameter;
    Builder b = {.m = m, .region = fn->body};
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == ARG_param && fn->args.data[k].tensor == of)
            fn->body->results.data[at] = build_cast(&b, fn->body->args.data[k], m->train.half);
}
static void copy_of_more(Module *m)
{
    size_t at;
    Fn *fn = module_fn(m, "train");
    result_of(fn, m, false, &at);
    Builder b = {.m = m, .region = fn->body};
    fn->body->results.data[at] = build1(&b, OP_neg, fn->body->results.data[at]);
}
static void never_made(Module *m)
{
    m->fns.n--;
    assert_null(module_fn(m, "round"));
}
static void not_made(Module *m)
{
    size_t at;
    result_of(module_fn(m, "round"), m, true, &at);
    take_out(module_fn(m, "round"), at);
}
static void made_of_another(Module *m)
{
    Fn *fn = module_fn(m, "round");
    Builder b = {.m = m, .region = fn->body};
    const Ins *cast = m->values.data[fn->body->results.data[0]].def;
    fn->body->results.data[0] = build_cast(&b, build1(&b, OP_neg, cast->in[0]), m->train.half);
}

static const struct {
    void (*damage)(Module *m);
    const char *says;
} damages[] = {
    {no_new_copy, "has a new value, and its copy has none in @train"},
    {no_new_value, "has a new copy, but no new value in @train"},
    {stale_copy, "is not what its copy is rounded from in @train"},
    {copy_of_old, "is not what its copy is rounded from in @train"},
    {copy_of_more, "is not what its copy is rounded from in @train"},
    {never_made, "has a copy, and there is no @round"},
    {not_made, "is not rounded in @round"},
    {made_of_another, "is not what its copy is rounded from in @round"},
};

static char *text_of(int (*check)(const void *, FILE *), const void *of, int *broken)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    *broken = check(of, f);
    fclose(f);
    return text;
}

static int verified(const void *m, FILE *out)
{
    return ir_verify(m, out);
}

static int proved(const void *p, FILE *out)
{
    return plan_check(p, out);
}

/* By the verifier, before fusion and behind it; and of a plan by its proof. */
static void is_noticed(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof damages / sizeof *damages; k++)
        for (int when = 0; when < 3; when++) {
            Model t;
            int broken;
            open_model(&t, &models[0], DT_bf16);
            Plan *p = NULL;
            if (when)
                lower_physical(&t);
            if (when == 2)
                p = plan_for(&t, &test_device);
            assert_int_equal(ir_verify(t.m, stderr), 0);
            damages[k].damage(t.m);
            char *text = p ? text_of(proved, p, &broken) : text_of(verified, t.m, &broken);
            if (!broken || !strstr(text, damages[k].says) ||
                !strstr(text, p ? "P10 is broken" : "I13"))
                fail_msg("%zu, %d: wanted '%s', got %d broken:\n%s", k, when, damages[k].says,
                         broken, text);
            free(text);
            model_close(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow), cmocka_unit_test(fp8_follow), cmocka_unit_test(tiles_follow),
        cmocka_unit_test(masters_lie_as_state), cmocka_unit_test(is_noticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
