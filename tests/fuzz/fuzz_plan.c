/* fuzz_plan.c - libFuzzer target: any bytes as a .mg file, through all passes to a plan. What the
 * front end accepts may not fit a device, or have no legal schedule; but no pass may break the IR,
 * and no plan may break the invariants that the checker knows. */
#include "decide/make.h"
#include "grammar/grammar.h"

#include <stdlib.h>

enum { SMALL = 1 << 16, TENSORS = 64 }; /* elements, number: larger programs only cost time */

static const Device device = {.name = "fuzz",
                              .memory = 1 << 30,
                              .flops_f32 = 1e11,
                              .flops_f64 = 5e10,
                              .flops_tf32 = 1e11,
                              .flops_bf16 = 1e11,
                              .flops_f16 = 1e11,
                              .product_share = 0.8,
                              .attention_share = 0.5,
                              .attention_grad_share = 0.6,
                              .weights_share = 1,
                              .exponentials = 1e9,
                              .operations = 1e10,
                              .bandwidth = 1e10,
                              .launch = 1e-6,
                              .link_bandwidth = 1e9,
                              .link_seconds = 1e-6,
                              .link_slowdown = 1,
                              .node_ranks = 256,
                              .node_bandwidth = 1e9,
                              .node_seconds = 1e-6,
                              .threads = 2};

static bool is_small(const Module *m)
{
    for (size_t i = 1; i < m->values.n; i++)
        if (type_elements(&m->values.data[i].type) > SMALL)
            return false;
    return m->tensors.n <= TENSORS && m->values.n < 2000;
}

static void go_on(Module *m, Arena *a)
{
    PlanJob job = {.m = m, .d = &device, .a = a, .decided = true, .log = stderr};
    if (plan_make(&job) == PASS_broken)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FILE *out = fopen("/dev/null", "w");
    if (!out)
        return 0;
    Arena *a = arena_new();
    Names *names = names_new(a);
    Diag *diag = diag_new(a, out, false);
    const char *text = arena_strndup(a, (const char *)data, size);
    const Ast *ast = mg_parse(a, names, diag, diag_add_file(diag, "fuzz.mg", text, size));
    Module *m = ast ? mg_elaborate(a, names, diag, ast, &(ElaborateOptions){0}) : NULL;
    if (m && !diag_errors(diag) && is_small(m))
        go_on(m, a);
    arena_free(a);
    fclose(out);
    return 0;
}
