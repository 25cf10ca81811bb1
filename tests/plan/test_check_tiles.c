/* The proof of products of fp8 whose operands have scales of tiles: plans with a mistake in where
 * scales lie, or whose they are, are found. */
#include "tests/plan/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Of which a row of what is summed has one tile, or two. */
static void open_tiled(Trial *x, Device *d, bool mx)
{
    const Small small = {"llama_mini.mg",
                         0,
                         {"layers=2", "hidden=16", "kv_heads=2", "group=1", "head=8",
                          mx ? "ffn=160" : "ffn=144", "vocab=11", "seq=16", "batch=2"}};
    *d = test_device;
    d->flops_fp8 = 2e11;
    x->device = d;
    open_for(&x->t, &small, mx ? DT_e5m2 : DT_e4m3, d);
    trial_start(x);
}

static Action *rounding(Plan *p, int64_t rows)
{
    for (size_t i = 0; i < p->train->actions.n; i++) {
        Action *a = &p->train->actions.data[i];
        if (a->kind == ACT_round_tiles && a->round_tiles.tile_rows == rows &&
            a->round_tiles.columns > FP8_TILE)
            return a;
    }
    return NULL;
}

static Action *tiled(Plan *p)
{
    for (size_t i = 0; i < p->train->actions.n; i++) {
        Action *a = &p->train->actions.data[i];
        if (a->kind == ACT_gemm && a->gemm.tiles > MG_TILES_ROWS && a->gemm.k > FP8_TILE)
            return a;
    }
    return NULL;
}

static void turn(Operand *o)
{
    const Dim d = o->type.dims[0];
    o->type.dims[0] = o->type.dims[1];
    o->type.dims[1] = d;
    o->stride[0] = o->type.dims[1].size;
    o->stride[1] = 1;
}

static bool turned_rows(Plan *p)
{
    turn(&rounding(p, 1)->operand[2]);
    return true;
}

static bool turned_squares(Plan *p)
{
    turn(&rounding(p, FP8_TILE)->operand[2]);
    return true;
}

static void narrow(Type *t)
{
    t->dims[1].size = 2;
}

/* Of two tiles of a row, of which cuBLASLt reads four: the program says so, too, in all places. */
static bool too_few(Plan *p)
{
    const Value f = rounding(p, FP8_TILE)->operand[2].value;
    narrow(&p->module->values.data[f].type);
    for (size_t i = 0; i < p->train->actions.n; i++)
        for (int k = 0; k < p->train->actions.data[i].noperands; k++) {
            Operand *o = &p->train->actions.data[i].operand[k];
            if (o->value == f) {
                narrow(&o->type);
                o->stride[0] = 2;
            }
        }
    return true;
}

static bool in_each_other(Plan *p)
{
    rounding(p, 1)->operand[2].stride[0]--;
    return true;
}

static bool turned_operand(Plan *p)
{
    turn(&tiled(p)->operand[3]);
    return true;
}

static bool of_the_other(Plan *p)
{
    Action *a = tiled(p);
    const Operand first = a->operand[3];
    a->operand[3] = a->operand[4];
    a->operand[4] = first;
    return true;
}

static bool other_tiles(Plan *p)
{
    Action *a = tiled(p);
    a->gemm.tiles = a->gemm.tiles == MG_TILES_A    ? MG_TILES_B
                    : a->gemm.tiles == MG_TILES_MX ? MG_TILES_ROWS
                                                   : MG_TILES_A;
    return true;
}

static bool not_whole(Plan *p)
{
    Place *at = &tiled(p)->operand[4].at;
    at->offset += 4;
    p->buffers.data[at->buffer].bytes += 64;
    return true;
}

static void scales_of_tiles(void **state)
{
    (void)state;
    static const char is[] = "which its instruction has there";
    static const Said all[] = {{turned_rows, is},
                               {turned_squares, is},
                               {turned_operand, is},
                               {of_the_other, is},
                               {in_each_other, "where its scales lie"},
                               {not_whole, "where scales of tiles lie"},
                               {other_tiles, "whose tiles are which"}};
    static const Said last[] = {{too_few, "where its scales lie"},
                                {too_few, "where scales of tiles lie"}};
    Trial x = {0};
    Device d;
    open_tiled(&x, &d, false);
    assert_int_equal(trial_broken(x.p), 0);
    trial_each_is_said(&x, all, sizeof all / sizeof *all);
    trial_mutations(&x, "scales of tiles", 1, 40);
    trial_each_is_said(&x, last, sizeof last / sizeof *last); /* of x's program, too */
    model_close(&x.t);
}

static bool as_with_tiles(Plan *p)
{
    rounding(p, 1)->round_tiles.power = false;
    return true;
}

static void scales_of_mx(void **state)
{
    (void)state;
    static const char is[] = "which its instruction has there";
    static const Said all[] = {{turned_rows, is},
                               {turned_operand, is},
                               {of_the_other, is},
                               {as_with_tiles, "what tiles are"},
                               {other_tiles, "whose tiles are which"}};
    Trial x = {0};
    Device d;
    open_tiled(&x, &d, true);
    assert_int_equal(trial_broken(x.p), 0);
    assert_int_equal(tiled(x.p)->gemm.tiles, MG_TILES_MX);
    trial_each_is_said(&x, all, sizeof all / sizeof *all);
    trial_mutations(&x, "scales of mx", 1, 40);
    model_close(&x.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scales_of_tiles),
                                       cmocka_unit_test(scales_of_mx)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
