/* interp_rounding.c - rounded results, against numbers worked out by hand: to the nearest, by drawn
 * bits, with scales of tiles, and as a shaken run is off. Cases of test_interp.c. */
#include "tests/ir/interp_rounding.h"

#include "tests/ir/program.h"

#include <math.h>

/* 1 + k / 2^9 lies k / 4 of the way from 1 to the next bf16: the share of the bits with which it
 * goes up. What is a bf16 stays one. In double nothing is rounded. */
void stochastic_rounding(void **state)
{
    (void)state;
    World w;
    world_open(&w);
    const char *args[] = {"x: f32[i=3]", "r: i32[i=3]", "c: i32[]", "s: i64[]", "t: i64[]", NULL};
    /* A program of f64 keeps nothing in bf16: none that the verifier lets pass. */
    Module *m = world_read(
        &w, program_text(w.a, args,
                         "%y: bf16[i=3] = stochastic_round %x, %r, %c, %s, %t {at=0, key=\"w\"}\n"
                         "give %y",
                         1));
    assert_non_null(m);
    for (int k = 0; k <= 4; k++) {
        int up = 0;
        for (int c = 0; c < 1000; c++) {
            const char *x = arena_printf(w.a, "%.17g %.17g -0", 1 + k / 512.0, -1 - k / 512.0);
            const char *col = arena_printf(w.a, "%d", c);
            Tensor64 *r = run_program(&w, m, (const char *[]){x, "0 1 2", col, "42", "7"}, true);
            up += r[0].data[0] != 1;
            up += r[0].data[1] != -1;
            assert_true(r[0].data[0] == 1 || r[0].data[0] == 1 + 1 / 128.0);
            assert_true(r[0].data[1] == -1 || r[0].data[1] == -1 - 1 / 128.0);
            assert_true(r[0].data[2] == 0);
        }
        assert_true(abs(up - 500 * k) <= (k % 4 ? 90 : 0)); /* four deviations */
        Tensor64 *r =
            run_program(&w, m, (const char *[]){"1.001 2 3", "0 1 2", "5", "1", "0"}, false);
        assert_true(r[0].data[0] == (double)1.001f || r[0].data[0] == 1.001);
    }
    interp_covers(OP_stochastic_round);
    world_close(&w);
}

/* Two rows of 64 elements, of which the second 32 are larger; scales that are powers of two, in a
 * block of 128 rows and 4 tiles, of which the rest is the least. */
static void rounded_powers(World *w)
{
    const char *args[] = {"a: bf16[i=2, k=64]", "b: bf16[n=1, k=64]", NULL};
    Module *m = world_read(
        w, program_text(w->a, args,
                        "%q: e4m3[i=2, k=64], %f: e8m0[r=1, t=512] = round_tiles %a {over=[k=64], "
                        "dim=t=512, to=r=1, at=1, every=32, value=448, power}\n"
                        "%p: e4m3[n=1, k=64], %g: e8m0[s=1, u=512] = round_tiles %b {over=[k=64], "
                        "dim=u=512, to=s=1, at=1, every=32, value=448, power}\n"
                        "%y: f32[i=2, n=1] = dot_scaled %q, %p, %f, %g {over=[k=64], tiles=4}\n"
                        "give %f, %y",
                        2));
    assert_non_null(m);
    char *a = arena_alloc(w->a, 4096), *b = arena_alloc(w->a, 4096);
    *a = *b = 0;
    for (int e = 0; e < 128; e++)
        strcat(a, e < 64 ? e < 32 ? "1 " : "448 " : e < 96 ? "449 " : "0 ");
    for (int e = 0; e < 64; e++)
        strcat(b, "2 ");
    Tensor64 *r = run_program(w, m, (const char *[]){a, b}, true);
    static const struct {
        int at;
        double is;
    } want[] = {{0, 0x1p-8}, {1, 1}, {16, 2}, {17, 0x1p-127}, {2, 0x1p-127}, {4, 0x1p-127}};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
        assert_true(r[0].data[want[k].at] == want[k].is);
    /* 449 is halved and then rounded to 224. */
    assert_true(r[1].data[0] == 32 * 2 + 32 * 896 && r[1].data[1] == 32 * 896);
}

/* Two rows of 130 elements that are summed, counted as k, j; scales of rows, then of a square. */
static void rounded_tiles(World *w)
{
    const char *args[] = {"a: bf16[j=2, i=2, k=65]", "b: bf16[n=1, k=65, j=2]", NULL};
    Module *m = world_read(
        w, program_text(
               w->a, args,
               "%q: e4m3[i=2, k=65, j=2], %f: f32[t=2, r=2] = round_tiles %a {over=[k=65, j=2], "
               "dim=t=2, to=r=2, at=1, every=128, value=448}\n"
               "%p: e4m3[n=1, k=65, j=2], %g: f32[s=1, u=4] = round_tiles %b {over=[k=65, j=2], "
               "dim=u=4, to=s=1, at=128, every=128, value=448}\n"
               "%y: f32[i=2, n=1] = dot_scaled %q, %p, %f, %g {over=[k=65, j=2], tiles=3}\n"
               "%z: f32[i=2, n=1] = dot_scaled %q, %p, %f, %g, %y {over=[k=65, j=2], tiles=3}\n"
               "give %f, %g, %y, %z",
               4));
    assert_non_null(m);
    char *a = arena_alloc(w->a, 4096), *b = arena_alloc(w->a, 4096);
    *a = *b = 0;
    for (int j = 0; j < 2;
         j++) /* rows are 1 and 2, and 8 and 16 where k is 64, elements 128, 129 */
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < 65; k++)
                strcat(a, k < 64 ? i ? "2 " : "1 " : i ? "16 " : "8 ");
    for (int e = 0; e < 130; e++)
        strcat(b, e < 128 ? "4 " : "1 ");
    Tensor64 *r = run_program(w, m, (const char *[]){a, b}, true);
    assert_numbers(&r[0],
                   "0.00223214295692741870880126953125 0.0044642859138548374176025390625 "
                   "0.0178571436554193496704101562 0.0357142873108386993408203125",
                   "scales of rows");
    assert_numbers(&r[1], "0.0089285718277096748352050781 0.00223214295692741870880126953125 0 0",
                   "scales of squares");
    assert_true(fabs(r[2].data[0] - 528) < 1e-3 && fabs(r[2].data[1] - 1056) < 1e-3);
    assert_true(fabs(r[3].data[0] - 1056) < 1e-3 && fabs(r[3].data[1] - 2112) < 1e-3);
    interp_covers(OP_round_tiles);
    rounded_powers(w);
}

/* Tiles of two sides, the dims of a side counted as one, the last tiles smaller. Scales are powers
 * of two that bring the largest number, or a little more than it, to 448 at most. */
void scales_of_tiles(void **state)
{
    (void)state;
    World w;
    world_open(&w);
    const char *args[] = {"a: bf16[i=2, j=3, k=3]", "b: bf16[j=2, i=2, k=2]", NULL};
    Module *m = world_read(&w, program_text(w.a, args,
                                            "%r: f32[i=2, j=3, k=3] = tile_scale %a {over=[i=2, "
                                            "j=3, k=3], at=2, every=2, value=448}\n"
                                            "%p: f32[j=2, i=2, k=2] = tile_scale %b {over=[k=2, "
                                            "j=2], at=2, every=3, value=448, power}\n"
                                            "give %r, %p",
                                            2));
    assert_non_null(m);
    Tensor64 *r = run_program(
        &w, m,
        (const char *[]){"0 1 2  4 -8 0  0 0 0  64 1 1  2 4 8  -448 0 0", "448 0 0 450  1 0 0 0"},
        true);
    assert_numbers(&r[0], "56 56 224  56 56 224  7 7 448  7 7 448  1 1 56  1 1 56", "sides");
    /* i = 0: k, j count 448, 1, 0 | 0; i = 1: 0, 0, 450 | 0 */
    assert_numbers(&r[1],
                   "1 1 0.5 0.5  1 170141183460469231731687303715884105728 "
                   "0.5 170141183460469231731687303715884105728",
                   "powers");
    interp_covers(OP_tile_scale);
    rounded_tiles(&w);
    world_close(&w);
}

/* round: results are of their dtype, ties to even; without it they are exact. */
void rounding(void **state)
{
    (void)state;
    World w;
    world_open(&w);
    const char *args[] = {"a: f64[i=6]", NULL};
    const char *data[] = {"1.00390625 1.01171875 1e39 65519.9 65520 1e-45"};
    /* Two kinds of halves: no program that the verifier lets pass. */
    Module *m = world_read(
        &w, program_text(w.a, args,
                         "%s: f32[i=6] = cast %a\n%h: f16[i=6] = cast %a\n"
                         "%b: bf16[i=6] = cast %a\n%d: f32[i=6] = mul %s, %s\ngive %s, %h, %b, %d",
                         4));
    assert_non_null(m);
    Tensor64 *r = run_program(&w, m, data, false);
    for (int k = 0; k < 3; k++)
        assert_numbers(&r[k], data[0], "exact");
    r = run_program(&w, m, data, true);
    assert_numbers(&r[0], "1.00390625 1.01171875 inf 65519.8984375 65520 1.4012984643248171e-45",
                   "f32");
    assert_numbers(&r[1], "1.00390625 1.01171875 inf 65504 inf 0", "f16");
    assert_numbers(&r[2], "1 1.015625 inf 65536 65536 0", "bf16");
    assert_true(r[3].data[3] == (double)(65519.8984375f * 65519.8984375f));
    world_close(&w);
}

/* A shaken run is off by rounding and no more, by another seed otherwise; a maximum is still one of
 * what it is of; what is computed twice is the same twice; and whole numbers stay whole. */
void shaking(void **state)
{
    (void)state;
    World w;
    world_open(&w);
    const char *args[] = {"a: f64[i=3]", NULL};
    const char *data[] = {"0.1 -0.7 0.3"};
    Module *m = must_read(&w, args,
                          "%t: f64[i=3] = exp %a\n%u: f64[i=3] = exp %a\n"
                          "%d: f64[i=3] = sub %t, %u\n"
                          "%x: f64[] = rmax %t {over=[i=3]}\n%c: bool[i=3] = eq %t, %x\n"
                          "%e: f64[i=3] = cast %c\n%n: f64[] = sum %e {over=[i=3]}\n"
                          "give %t, %d, %n",
                          3);
    const Fn *fn = module_fn(m, "f");
    Tensor64 got[2][3];
    const Tensor64 *exact = run_program(&w, m, data, false);
    for (uint64_t k = 0; k < 2; k++) {
        ir_interpret_shaken(m, fn, program_args(&w, m, data), got[k], w.a, k + 1);
        assert_close(&exact[0], &got[k][0], 3e-16, "shaken");
        assert_memory_not_equal(exact[0].data, got[k][0].data, 3 * sizeof(double));
        assert_numbers(&got[k][1], "0 0 0", "computed twice");
        assert_numbers(&got[k][2], "1", "the largest");
    }
    assert_memory_not_equal(got[0][0].data, got[1][0].data, 3 * sizeof(double));
    world_close(&w);
}
