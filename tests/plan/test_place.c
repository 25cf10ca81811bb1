/* Placement: how near the packing comes to what must be alive at once, and what is said when it
 * does not fit. */
#include "plan/place/place.h"
#include "plan/order/streams.h"
#include "tests/plan/planned.h"
#include "plan/check/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const Small models[] = {
    {"llama_mini.mg", 16, {"layers=4"}},
    {"llama_mini.mg", 4, {"layers=12"}},
    {"gpt2_124m.mg", 4, {"layers=12", "batch=8"}},
    {"llama7b.mg", 1, {"layers=32", "batch=4"}},
};
enum { MODELS = sizeof models / sizeof *models };

static Device device_with(int64_t memory)
{
    Device d = test_device;
    d.memory = memory;
    return d;
}

static Plan *ordered(Model *t, const Small *s, const Device *d)
{
    open_model(t, s, DT_f32);
    lower_physical(t);
    return must_make(t, d, "fuse", "order");
}

/* Within a hundredth of the largest live set, which nothing can beat. */
static void near_the_bound(void **state)
{
    (void)state;
    Device d = device_with((int64_t)1 << 50);
    for (int k = 0; k < MODELS; k++) {
        Model t;
        Plan *p = ordered(&t, &models[k], &d);
        assert_true(plan_place(p));
        Program *const *const all = p->programs;
        for (int n = 0; n < PLAN_PROGRAMS; n++) {
            if (!all[n])
                continue;
            assert_true(all[n]->peak >= all[n]->live_bound);
            if ((double)all[n]->peak > 1.01 * (double)all[n]->live_bound)
                fail_msg("%s, program %d: %lld bytes for %lld", models[k].file, n,
                         (long long)all[n]->peak, (long long)all[n]->live_bound);
        }
        assert_int_equal(plan_check(p, stderr), 0);
        model_close(&t);
    }
}

/* An operand of a GPU's product begins at a multiple of 256 bytes; a plan with less is refused. */
static void for_products_of_gpus(void **state)
{
    (void)state;
    Device d = device_with((int64_t)1 << 50);
    d.target = TARGET_cuda;
    Model t;
    Plan *p = ordered(&t, &models[0], &d);
    assert_true(plan_place(p));
    char *said;
    size_t n;
    FILE *told = open_memstream(&said, &n);
    assert_int_equal(plan_check(p, told), 0);
    size_t moved = p->buffers.n;
    for (size_t i = 0; i < p->buffers.n; i++) {
        assert_int_equal(p->buffers.data[i].offset % 256, 0);
        if (!p->buffers.data[i].persistent && p->buffers.data[i].bytes > 256)
            moved = i;
    }
    assert_true(moved < p->buffers.n);
    p->buffers.data[moved].offset += 64;
    p->buffers.data[moved].bytes -= 256;
    assert_true(plan_check(p, told) > 0);
    fclose(told);
    assert_non_null(strstr(said, "is not in whole pieces of 256"));
    free(said);
    model_close(&t);
}

/* A GPU sorts the indices of a scatter: a plan with less space for that is refused. */
static void to_sort_on_gpus(void **state)
{
    (void)state;
    Device d = device_with((int64_t)1 << 50);
    d.target = TARGET_cuda;
    Model t;
    Plan *p = ordered(&t, &models[0], &d);
    assert_true(plan_place(p));
    Action *scatter = NULL;
    for (size_t i = 0; i < p->train->actions.n; i++)
        if (p->train->actions.data[i].kind == ACT_scatter_add)
            scatter = &p->train->actions.data[i];
    assert_non_null(scatter);
    assert_int_equal(scatter->noperands, 4);
    char *said;
    size_t n;
    FILE *told = open_memstream(&said, &n);
    assert_int_equal(plan_check(p, told), 0);
    scatter->operand[3].type.dims[0].size -= 1;
    assert_true(plan_check(p, told) > 0);
    fclose(told);
    assert_non_null(strstr(said, "too little work space"));
    free(said);
    model_close(&t);
}

/* The bytes by owner add up to the whole plan. */
static void owners(void **state)
{
    (void)state;
    Device d = device_with((int64_t)1 << 50);
    Model t;
    Plan *p = ordered(&t, &models[0], &d);
    assert_true(plan_place(p));
    int64_t sum = 0, params = 0;
    for (int o = 0; o < OWN_count; o++)
        sum += p->memory[o];
    for (size_t i = 0; i < t.m->tensors.n; i++)
        if (!t.m->tensors.data[i].slot)
            params += (type_bytes(&t.m->tensors.data[i].type) + 63) / 64 * 64;
    assert_int_equal(p->memory[OWN_params], params);
    assert_int_equal(p->memory[OWN_optimizer], 2 * params);
    assert_int_equal(sum, p->live_bound_bytes);
    assert_true(p->memory[OWN_grads] >= params / 2 && p->memory[OWN_grads] <= params);
    model_close(&t);
}

/* Too little memory is told with both numbers, what is alive, and what would help. */
static void too_little(void **state)
{
    (void)state;
    Device much = device_with((int64_t)1 << 50);
    Model t;
    Plan *p = ordered(&t, &models[0], &much);
    assert_true(plan_place(p));
    int64_t need = p->arena_bytes + p->scratch_bytes * much.threads;
    model_close(&t);

    Device exact = device_with(need), less = device_with(need - 1);
    assert_true(plan_place(ordered(&t, &models[0], &exact)));
    model_close(&t);
    assert_false(plan_place(ordered(&t, &models[0], &less)));
    const char *said = model_messages(&t);
    char numbers[96];
    snprintf(numbers, sizeof numbers, "needs %lld bytes", (long long)need);
    assert_non_null(strstr(said, "error[MG0550]"));
    assert_non_null(strstr(said, numbers));
    snprintf(numbers, sizeof numbers, "the device has %lld", (long long)need - 1);
    assert_non_null(strstr(said, numbers));
    assert_non_null(strstr(said, "llama_mini.mg:")); /* a live tensor's line */
    model_close(&t);
}

/* A kernel right behind a product that needs nothing of it may run beside it: it is not given the
 * product's bytes, but where the program is at its peak. */
static void kernels_beside_products(void **state)
{
    (void)state;
    const Device d = device_with((int64_t)1 << 50);
    int free = 0, kept = 0;
    for (int k = 0; k < MODELS; k++) {
        Model t;
        open_model(&t, &models[k], DT_f32);
        lower_physical(&t);
        const Plan *p = plan_for(&t, &d);
        const Program *g = p->train;
        for (size_t i = 0; i + 1 < g->actions.n; i++) {
            const Action *a = &g->actions.data[i], *b = a + 1;
            if (a->kind != ACT_gemm || b->kind != ACT_kernel || conflict(p, g, a, b, false))
                continue;
            free++;
            kept += !conflict(p, g, a, b, true);
        }
        model_close(&t);
    }
    print_message("%d of %d kernels are not given the bytes of the product before\n", kept, free);
    assert_true(free > 10 && kept * 10 > free * 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_bound),  cmocka_unit_test(for_products_of_gpus),
        cmocka_unit_test(to_sort_on_gpus), cmocka_unit_test(owners),
        cmocka_unit_test(too_little),      cmocka_unit_test(kernels_beside_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
