/* fuzz_layouts.c - random layouts of a model against one rank: fuzz-layouts N SEED F.mg
 * [NAME=VALUE]...
 *
 * The model is made small, and easy to split: every dim that its file gives as a number
 * above 3 is a power of 2, at most 8, or 3 where it counts the rounds of a repeat; NAME=VALUE sizes
 * one otherwise. Prints each layout that follows, or is refused, and ends at the
 * first that does not follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grammar/ast.h"
#include "tests/plan/sharded.h"

typedef struct Fuzz {
    int layouts;
    uint64_t seed;
    Small small;
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
            int most = repeats(&ast->items, bind->name) ? 3 : 8;
            if (bind->a->kind != N_NUMBER || bind->a->number <= 3 || n == SMALL_DEFINES)
                continue;
            while (most > bind->a->number && most > 1)
                most /= 2;
            s->define[n++] = arena_printf(t->a, "%s=%d", name_str(ast->names, bind->name), most);
        }
    for (int k = 0; k < SMALL_DEFINES && given.define[k]; k++) {
        assert_true(n < SMALL_DEFINES);
        s->define[n++] = given.define[k];
    }
}

static void fuzz(void **state)
{
    Fuzz *job = *state;
    Model t;
    Reference r;
    int follow = 0;
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
    open_reference(&r, &job->small, batch);
    for (int k = 0; k < job->layouts; k++) {
        const char *spec = random_layout(&r, r.t.a, &rng);
        printf("%s", spec);
        fflush(stdout);
        bool follows = layout_follows(&r, spec);
        follow += follows;
        printf("%s\n", follows ? "" : ": refused");
    }
    printf("fuzz-layouts: %d follow, %d refused\n", follow, job->layouts - follow);
    model_close(&r.t);
    model_close(&t);
    assert_true(follow > 0);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: fuzz-layouts N SEED F.mg [NAME=VALUE]...\n");
        return 64;
    }
    Fuzz job = {atoi(argv[1]), strtoull(argv[2], NULL, 10), {.file = argv[3]}};
    for (int k = 4; k < argc && k - 4 < SMALL_DEFINES; k++)
        job.small.define[k - 4] = argv[k];
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(fuzz, &job)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
