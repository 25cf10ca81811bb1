/* test_pieces.c - where loops are cut at the edges of what they count: by going through every
 * index. */
#include "plan/nest.h"
#include "tests/plan/planned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROUNDS = 3000, COUNTED = 3 };

/* A kernel that adds up some places of one dim each, along the dim `loop`. */
static Kernel places(Model *t, uint64_t *rng, Dim loop)
{
    static const int factors[] = {1, 1, -1, 2, -2, 3};
    Region *body = region_new(t->m, t->fn->body);
    Builder inner = {.m = t->m, .region = body};
    Value in[COUNTED], sum = 0;
    Kernel k = {.nin = COUNTED, .nout = 1, .noperands = COUNTED + 1};
    for (int i = 0; i < COUNTED; i++) {
        Dim d = dim_of(t, arena_printf(t->a, "d%d", i), 1 + draw_int(rng, 40));
        Type type = type_in(DT_f32, 1, &d);
        Attrs a = {.dim = d, .every = 1, .at = draw_int(rng, 90) - 45};
        a.over.dim[a.over.n++] = loop;
        a.factors.by[a.factors.n++] = factors[draw_int(rng, 6)];
        in[i] = value_new(t->m, t->fn->body, type, 0);
        Value arg = region_arg(t->m, body, type, 0);
        k.operand[i] = (Operand){.type = type, .read = true, .stride = {1}};
        Value x = build(&inner, OP_reindex, &a, 1, &arg);
        sum = sum ? build2(&inner, OP_add, sum, x) : x;
    }
    Type all = type_in(DT_f32, 1, &loop);
    vec_push(t->a, &body->results, sum);
    k.operand[COUNTED] = (Operand){.type = all, .write = true, .stride = {1}};
    for (int o = 0; o < k.noperands; o++)
        k.alias[o] = -1;
    Attrs a = {.kind = name_intern(t->m->names, "map")};
    k.ins = build_typed(&t->b, OP_fused, &a, COUNTED, in, 1, &all, body);
    kernel_nest(t->m, &k);
    return k;
}

/* Before the dim, in it, or behind it. */
static int side(const Attrs *a, int64_t i)
{
    int64_t at = a->at + a->factors.by[0] * i;
    return at < 0 ? -1 : at >= a->dim.size;
}

static void cuts(void **state)
{
    (void)state;
    uint64_t rng = 7;
    int cut_loops = 0;
    for (int round = 0; round < ROUNDS; round++) {
        Model t;
        model_open(&t);
        Dim loop = dim_of(&t, "i", 1 + draw_int(&rng, 60));
        Kernel k = places(&t, &rng, loop);
        const Region *body = k.ins->body;
        Nest n = nest_on_host(t.m, &k);
        int64_t cut[NEST_PIECES + 2];
        assert_int_equal(nest_pieces(&n, body, n.nouter, false, cut), 1);
        const int pieces = nest_pieces(&n, body, n.nouter, true, cut);
        assert_true(pieces <= 1 + 2 * COUNTED && cut[0] == 0 && cut[pieces] == loop.size);
        int p = 0;
        for (int64_t i = 1; i < loop.size; i++) {
            bool changes = false;
            for (size_t x = 0; x < body->ins.n; x++)
                if (body->ins.data[x]->op == OP_reindex)
                    changes |= side(&body->ins.data[x]->attrs, i) !=
                               side(&body->ins.data[x]->attrs, i - 1);
            p += p + 1 < pieces && cut[p + 1] == i;
            assert_int_equal(cut[p] == i, changes);
        }
        assert_int_equal(p, pieces - 1);
        cut_loops += pieces > 1;
        model_close(&t);
    }
    assert_true(cut_loops > ROUNDS / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
