/* `reduce = tree` in the interpreter: gradients are added up in the order of the tree and in no
 * other; programs of 1, 2, 4, 8 ranks give the same bits; and what would break that is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/passes.h"
#include "passes/walk.h"
#include "tests/plan/tree_run.h"

#define SIZES "layers=2", "hidden=32", "head=8", "ffn=64", "vocab=64", "seq=4", "batch=16"
static const Small models[] = {
    {"llama7b.mg", 0, {SIZES, "kv_heads=2", "group=2"}},
    {"gpt2_124m.mg", 0, {SIZES, "heads=4"}},
    {"qwen3_0_6b.mg", 0, {SIZES, "kv_heads=2", "group=2"}},
};

/* ---- the order --------------------------------------------------------------------------------
 */

/* The results of the program of sequences [first, first + n) alone, as parts of a batch of 16. A
 * mean over 16 is that over n, scaled by a power of two: exactly. */
static Tensor64 *leaf(Model *t, const Small *s, const Tensor64 *whole, int64_t first, int64_t n)
{
    Small part = *s;
    char *batch = malloc(32);
    snprintf(batch, 32, "batch=%lld", (long long)n);
    part.define[6] = batch;
    open_gradients(t, &part, n, false);
    free(batch);
    const Fn *fn = module_fn(t->m, "train");
    Tensor64 *args = NEW_ARRAY(t->a, Tensor64, fn->args.n);
    for (size_t k = 0; k < fn->args.n; k++) {
        args[k] = (Tensor64){*type_of(t->m, fn->body->args.data[k]), whole[k].data};
        if (fn->args.data[k].role == ARG_tokens)
            args[k].data += first * (type_elements(&args[k].type) / n);
    }
    Tensor64 *got = run_fn(t, fn, args);
    for (size_t k = 0; k < fn->results.n; k++)
        for (int64_t e = 0; e < type_elements(&got[k].type); e++)
            got[k].data[e] *= (double)n / 16;
    return got;
}

static double pairs(double *x, int n)
{
    return n == 1 ? 0.0 + x[0] : pairs(x, n / 2) + pairs(x + n / 2, n / 2);
}

static void order(void **state)
{
    (void)state;
    enum { MICROBATCHES = 8, EACH = 2 };
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        Model t, part[MICROBATCHES];
        Tensor64 *of[MICROBATCHES];
        int64_t other = 0, plain = 0, all = 0;
        open_gradients(&t, &models[k], EACH, true);
        const Fn *fn = module_fn(t.m, "train");
        Tensor64 *args = inputs_for(&t, fn, 3, -1, 1), *got = run_fn(&t, fn, args);
        for (int r = 0; r < MICROBATCHES; r++)
            of[r] = leaf(&part[r], &models[k], args, r * EACH, EACH);
        for (size_t i = 0; i < fn->results.n; i++)
            for (int64_t e = 0; e < type_elements(&got[i].type); e++, all++) {
                double x[MICROBATCHES], in_turn = 0;
                for (int r = 0; r < MICROBATCHES; r++)
                    in_turn += x[r] = of[r][i].data[e];
                other += got[i].data[e] != pairs(x, MICROBATCHES);
                plain += got[i].data[e] != in_turn;
            }
        assert_int_equal(other, 0);   /* every bit is that of the tree */
        assert_true(plain > all / 8); /* and a sum in turn has others */
        for (int r = 0; r < MICROBATCHES; r++)
            model_close(&part[r]);
        model_close(&t);
    }
}

/* ---- the same bits on any number of ranks -----------------------------------------------------
 */

static void compare(const TreeRun *a, const TreeRun *b, const Small *s, const char *spec)
{
    assert_int_equal(a->fn->results.n, b->fn->results.n);
    for (size_t k = 0; k < a->fn->results.n; k++) {
        const Tensor64 *x = &a->whole[k], *y = &b->whole[k];
        assert_int_equal(type_elements(&x->type), type_elements(&y->type));
        for (int64_t e = 0; e < type_elements(&x->type); e++)
            if (memcmp(&x->data[e], &y->data[e], sizeof(double)))
                fail_msg("%s, layout %s: %s, element %lld: %.17g on one rank, %.17g here", s->file,
                         spec, result_role_names[a->fn->results.data[k].role], (long long)e,
                         x->data[e], y->data[e]);
    }
}

static void same_as(const TreeRun *one, const Small *s, const char *spec, int64_t microbatch)
{
    for (int local = 0; local < 2; local++) {
        TreeRun many;
        run_tree(&many, s, spec, microbatch, local);
        if (!many.ran)
            fail_msg("%s, layout %s: %s", s->file, spec, model_messages(&many.t));
        compare(one, &many, s, spec);
        model_close(&many.t);
    }
}

#define TP "; kv_heads tp; heads tp; ffn tp; vocab tp"
static const char *const layouts[] = {
    "dp=2; batch dp",
    "dp=4; batch dp",
    "dp=8; batch dp",
    "dp=2; batch dp; state dp",
    "dp=8; batch dp; state dp",
    "dp=4; batch dp; state dp; grads dp",
    "dp=2; batch dp; state dp; grads dp; params dp",
    "dp=4; batch dp; state dp; grads dp; params dp",
    "dp=8; batch dp; state dp; grads dp; params dp",
};
static const char *const with_tp[] = {
    "dp=2 tp=2; batch dp" TP,
    "tp=2 dp=4; batch dp" TP "; state dp",
    "dp=4 tp=2; batch dp" TP "; seq tp; state dp; grads dp; params dp",
    "tp=2 dp=2; batch dp" TP "; seq tp; state dp; grads dp",
};

static void bits(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        for (int64_t microbatch = 1; microbatch <= 2; microbatch++) {
            TreeRun one;
            run_tree(&one, &models[k], "dp=1", microbatch, false);
            assert_true(one.ran);
            for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++, n++)
                if (sampled(n, SANITIZED ? 4 : 2))
                    same_as(&one, &models[k], layouts[l], microbatch);
            model_close(&one.t);
        }
}

/* Over tensor parallelism sums are other ones: the same on any dp at the same tp. */
static void bits_beside_others(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        for (size_t l = 0; l < sizeof with_tp / sizeof *with_tp; l++) {
            TreeRun one;
            if (!sampled(4 * k + l, SANITIZED ? 4 : 2))
                continue;
            bool seq = strstr(with_tp[l], "seq") != NULL;
            run_tree(&one, &models[k], seq ? "tp=2" TP "; seq tp" : "tp=2" TP, 1, false);
            assert_true(one.ran);
            same_as(&one, &models[k], with_tp[l], 1);
            model_close(&one.t);
        }
}

/* The tree is within rounding what sums in turn are. */
static void close_to_plain(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        Model t, u;
        open_gradients(&t, &models[k], 1, true);
        open_gradients(&u, &models[k], 1, false);
        const Fn *fn = module_fn(t.m, "train");
        Tensor64 *args = inputs_for(&t, fn, 3, -1, 1);
        Tensor64 *got = run_fn(&t, fn, args), *want = run_fn(&u, module_fn(u.m, "train"), args);
        for (size_t i = 0; i < fn->results.n; i++)
            assert_true(difference(&want[i], &got[i]) < 1e-13);
        model_close(&t);
        model_close(&u);
    }
}

/* ---- what breaks it is no program -------------------------------------------------------------
 */

typedef enum Fault { UNMARKED, PARTS, FAULTS } Fault;

/* The instruction that sums v of all ranks in order; NULL: there is none. */
static Ins *whole_sum(const Region *r, Value v)
{
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->op == OP_sum && r->ins.data[k]->attrs.whole &&
            r->ins.data[k]->in[0] == v)
            return r->ins.data[k];
    return NULL;
}

static bool plant(Region *r, Fault f, int *nth)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k], *sum = NULL;
        if (f == PARTS && i->op == OP_all_gather)
            sum = whole_sum(r, i->out[0]);
        bool here = sum || (f == UNMARKED && op_is(i->op, COMM) && i->attrs.tree);
        if (here && (*nth)-- == 0) {
            if (sum)
                sum->in[0] = i->in[0]; /* each rank sums its part of the norm */
            else
                i->attrs.tree = false;
            return true;
        }
        if (i->body && plant(i->body, f, nth))
            return true;
    }
    return false;
}

static void faults(void **state)
{
    (void)state;
    static const char *const spec = "dp=2; batch dp; state dp; grads dp";
    FILE *nowhere = fopen("/dev/null", "w");
    int planted = 0;
    for (int f = 0; f < FAULTS; f++)
        for (int n = 0;; n++) {
            TreeRun r;
            int at = n;
            run_tree(&r, &models[0], spec, 2, false);
            assert_true(r.ran);
            bool there = plant(r.fn->body, (Fault)f, &at);
            if (there && !ir_verify(r.t.m, nowhere))
                fail_msg("fault %d, number %d, is a program", f, n);
            model_close(&r.t);
            planted += there;
            if (!there)
                break;
        }
    fclose(nowhere);
    print_message("%d faults are found by the types\n", planted);
    assert_true(planted >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order),
        cmocka_unit_test(bits),
        cmocka_unit_test(bits_beside_others),
        cmocka_unit_test(close_to_plain),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
