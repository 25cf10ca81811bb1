/* fuzz_layouts.c - random layouts of a model against one rank: fuzz-layouts N SEED F.mg
 * [NAME=VALUE]...; or one that is given, as it was printed: fuzz-layouts "dp=2; batch dp" AT_ONCE
 * ..., and precision=bf16, f16, e4m3 or e5m2 beside the sizes.
 *
 * The model is made small, and easy to split: every dim that its file gives as a number
 * above 3 is a power of 2, at most 8, or 3 where it counts the iterations of a repeat; NAME=VALUE
 * sizes one otherwise. Prints each layout that follows, or is refused, and ends at the first that
 * does not follow. A model of which nothing could differ fails: its gradients are zero, or its loss
 * depends on no parameter or on no data, or no layout of several ranks follows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/ast.h"
#include "tests/plan/random_layout.h"

typedef struct Fuzz {
    const char *layout; /* NULL: drawn */
    int layouts;
    uint64_t seed;
    Small small;
    DType half;
} Fuzz;

static bool repeats(const NodeList *l, Name dim)
{
    for (size_t k = 0; k < l->n; k++)
        if ((l->data[k]->kind == N_REPEAT && l->data[k]->name == dim) ||
            repeats(&l->data[k]->more, dim))
            return true;
    return false;
}

/* Definitions that make the model small, before those that are there. */
static void make_small(Model *t, Small *s)
{
    Small given = *s;
    Ast *ast = parse_small(t, s);
    int n = 0;
    for (size_t k = 0; k < ast->items.n; k++)
        for (size_t d = 0; ast->items.data[k]->kind == N_DIMS && d < ast->items.data[k]->list.n;
             d++) {
            const Node *bind = ast->items.data[k]->list.data[d];
            int max = repeats(&ast->items, bind->name) ? 3 : 8;
            if (bind->a->kind != N_NUMBER || bind->a->number <= 3 || n == SMALL_DEFINES)
                continue;
            while (max > bind->a->number && max > 1)
                max /= 2;
            s->define[n++] = arena_printf(t->a, "%s=%d", name_str(ast->names, bind->name), max);
        }
    for (int k = 0; k < SMALL_DEFINES && given.define[k]; k++) {
        assert_true(n < SMALL_DEFINES);
        s->define[n++] = given.define[k];
    }
}

/* ---- whether anything could differ --------------------------------------------------------- */

static double result_of(const Reference *r, const Tensor64 *results, ResultRole role)
{
    const Fn *fn = module_fn(r->t.m, "train");
    for (size_t k = 0; k < fn->results.n; k++)
        if (fn->results.data[k].role == role)
            return results[k].data[0];
    return NAN;
}

/* The loss of a step with other parameters, or with other data. */
static double loss_with(Reference *r, bool parameters)
{
    const Fn *fn = module_fn(r->t.m, "train");
    Tensor64 *args = NEW_ARRAY(r->t.a, Tensor64, fn->args.n);
    const Tensor64 *other = inputs_for(&r->t, fn, 6, -1, 1);
    for (size_t k = 0; k < fn->args.n; k++) {
        ArgRole role = fn->args.data[k].role;
        bool data =
            role == ARG_tokens || role == ARG_input || role == ARG_weight || role == ARG_documents;
        args[k] = (parameters ? role == ARG_param : data) ? other[k] : r->args[0][k];
    }
    return result_of(r, run_fn(&r->t, fn, args), RES_loss);
}

/* Layouts of a model whose loss is always the same, or that learns nothing, all agree. */
static void must_matter(Reference *r)
{
    double loss = result_of(r, r->want[0], RES_loss), norm = result_of(r, r->want[0], RES_norm);
    if (!isfinite(loss) || !isfinite(norm))
        fail_msg("nothing can differ: the loss of one rank is %g, its gradients' norm %g", loss,
                 norm);
    if (norm == 0)
        fail_msg("nothing can differ: all gradients of one rank are zero");
    if (loss_with(r, true) == loss)
        fail_msg("nothing can differ: the loss is %g, whatever the parameters", loss);
    if (loss_with(r, false) == loss)
        fail_msg("nothing can differ: the loss is %g, whatever the data", loss);
    printf("one rank: loss %.6g, gradients' norm %.6g\n", loss, norm);
}

/* "dp=2 tp=4; ...": 8. */
static int ranks_of(const char *spec)
{
    int ranks = 1;
    for (const char *s = spec; *s && *s != ';'; s++)
        if (*s == '=')
            ranks *= atoi(s + 1);
    return ranks;
}

static void fuzz(void **state)
{
    Fuzz *job = *state;
    Model t;
    Reference r;
    int follow = 0, had[WAY_count] = {0};
    uint64_t rng = job->seed;
    model_open(&t);
    make_small(&t, &job->small);
    for (int k = 0; k < SMALL_DEFINES && job->small.define[k]; k++)
        printf("%s-D %s", k ? " " : "", job->small.define[k]);
    printf("\n");
    Model whole;
    open_elaborated(&whole, &job->small);
    int64_t batch = whole.m->batch.size;
    model_close(&whole);
    open_reference_in(&r, &job->small, job->layout ? (int64_t)job->seed : batch, job->half);
    must_matter(&r);
    for (int k = 0; k < job->layouts; k++) {
        Drawn d = {.r = r, .spec = job->layout, .ways = ~(WAY(bound) | WAY(ahead))};
        if (!d.spec)
            d.spec = random_layout(&r, r.t.a, &rng, &d.ways);
        if (d.ways & WAY(bound)) /* which one rank has only where it is told */
            continue;
        printf("%s", d.spec);
        fflush(stdout);
        bool follows = follow_layout(&d, &test_device, &rng);
        follow += follows && ranks_of(d.spec) > 1;
        for (int w = 0; w < WAY_count && follows; w++)
            had[w] += (int)(d.ways >> w & 1);
        printf("%s\n", follows ? "" : ": refused");
    }
    for (int w = 0; w < WAY_count; w++)
        if (had[w])
            printf("%6d  %s\n", had[w], way_says[w]);
    printf("fuzz-layouts: %d follow, %d refused\n", follow, job->layouts - follow);
    model_close(&r.t);
    model_close(&t);
    if (!follow)
        fail_msg("nothing could differ: no layout of several ranks follows");
}

static DType half_named(const char *name)
{
    static const DType all[] = {DT_bf16, DT_f16, DT_e4m3, DT_e5m2};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (!strcmp(dtype_name(all[k]), name))
            return all[k];
    return DT_none;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: fuzz-layouts N SEED F.mg [NAME=VALUE]...\n");
        return 64;
    }
    const bool given = strchr(argv[1], '=') != NULL;
    Fuzz job = {.layout = given ? argv[1] : NULL,
                .layouts = given ? 1 : atoi(argv[1]),
                .seed = strtoull(argv[2], NULL, 10),
                .small = {.file = argv[3]}};
    for (int k = 4, n = 0; k < argc && n < SMALL_DEFINES; k++)
        if (!strncmp(argv[k], "precision=", 10))
            job.half = half_named(argv[k] + 10);
        else
            job.small.define[n++] = argv[k];
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(fuzz, &job)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
