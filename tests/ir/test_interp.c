/* test_interp.c - the interpreter against numbers worked out by hand: a case for every op, more
 * where order of dims, broadcasting or ends matter; what is rounded is in interp_rounding.c. An op
 * without a case fails the test, but for those whose value is text in ops.def:
 * tests/codegen/test_math.c has all of them. */
#include "tests/ir/interp_rounding.h"
#include "tests/ir/program.h"

#include <math.h>

typedef struct Case {
    Op op;
    const char *args[MAX_ARGS], *data[MAX_ARGS];
    const char *body;
    const char *want[MAX_RESULTS];
} Case;

#define A6 {"a: f64[i=2, j=3]"}, {"1 2 3 4 5 6"}
#define UNARY(op, in, out)                                                                         \
    {                                                                                              \
        OP_##op, {"a: f64[i=2]"}, {in}, "%r: f64[i=2] = " #op " %a\ngive %r",                      \
        {                                                                                          \
            out                                                                                    \
        }                                                                                          \
    }
#define BINARY(op, x, y, out)                                                                      \
    {                                                                                              \
        OP_##op, {"a: f64[i=3]", "b: f64[i=3]"}, {x, y}, "%r: f64[i=3] = " #op " %a, %b\ngive %r", \
        {                                                                                          \
            out                                                                                    \
        }                                                                                          \
    }
#define COMPARE(op, out)                                                                           \
    {                                                                                              \
        OP_##op, {"a: f64[i=4]", "b: f64[i=4]"}, {"1 2 3 nan", "2 2 2 2"},                         \
            "%c: bool[i=4] = " #op " %a, %b\n%r: f64[i=4] = cast %c\ngive %r",                     \
        {                                                                                          \
            out                                                                                    \
        }                                                                                          \
    }

static const Case pointwise[] = {
    {OP_copy, A6, "%r: f64[j=3, k=2, i=2] = copy %a\ngive %r", {"1 4 1 4 2 5 2 5 3 6 3 6"}},
    UNARY(neg, "1 -2", "-1 2"),
    UNARY(abs, "1 -2", "1 2"),
    UNARY(exp, "0 1", "1 2.718281828459045"),
    UNARY(log, "1 2", "0 0.6931471805599453"),
    UNARY(sqrt, "4 2", "2 1.4142135623730951"),
    UNARY(sign, "-0.5 0", "-1 0"),
    UNARY(rsqrt, "4 2", "0.5 0.7071067811865476"),
    UNARY(tanh, "0 1", "0 0.7615941559557649"),
    UNARY(erf, "0 0.5", "0 0.5204998778130465"),
    UNARY(gelu_tanh, "-1 2", "-0.15880800939172324 1.954597694087775"),
    UNARY(gelu_tanh_slope, "-1 2", "-0.08296408384578255 1.0860992566236183"),
    UNARY(sigmoid, "0 1", "0.5 0.7310585786300049"),
    UNARY(sin, "0 1", "0 0.8414709848078965"),
    UNARY(cos, "0 1", "1 0.5403023058681398"),
    BINARY(add, "1 2 3", "10 20 30", "11 22 33"),
    BINARY(sub, "1 2 3", "10 20 30", "-9 -18 -27"),
    BINARY(mul, "1 2 3", "10 20 30", "10 40 90"),
    BINARY(div, "1 2 3", "10 20 2", "0.1 0.1 1.5"),
    BINARY(max, "1 5 3", "2 4 3", "2 5 3"),
    BINARY(min, "1 5 3", "2 4 3", "1 4 3"),
    BINARY(max, "1 nan nan", "nan 2 nan", "nan 2 nan"), /* the comparison fails: b */
    BINARY(pow, "2 9 2", "10 0.5 -1", "1024 3 0.5"),
    COMPARE(lt, "1 0 0 0"),
    COMPARE(le, "1 1 0 0"),
    COMPARE(gt, "0 0 1 0"),
    COMPARE(ge, "0 1 1 0"),
    COMPARE(eq, "0 1 0 0"),
    COMPARE(ne, "1 0 1 1"),
    {OP_select,
     {"a: bool[i=2]", "b: f64[j=2]", "c: f64[]"},
     {"1 0", "3 4", "9"},
     "%r: f64[i=2, j=2] = select %a, %b, %c\ngive %r",
     {"3 4 9 9"}},
    {OP_nf4,
     {"a: f64[i=4]", "b: f64[j=2]"},
     {"0 7 112 255", "0 1"},
     "%r: f64[i=4, j=2] = nf4 %a, %b\ngive %r",
     {"-1 -1 -1 0 0 -1 1 1"}},
    /* dims of both, then in the order that is asked for; a dim of both in another order */
    {OP_add,
     {"a: f64[i=2]", "b: f64[j=3]"},
     {"1 2", "10 20 30"},
     "%r: f64[i=2, j=3] = add %a, %b\n%s: f64[j=3, i=2] = add %a, %b\ngive %r, %s",
     {"11 21 31 12 22 32", "11 12 21 22 31 32"}},
    {OP_sub,
     {"a: f64[i=2, j=2]", "b: f64[j=2, i=2]"},
     {"1 2 3 4", "10 20 30 40"},
     "%r: f64[i=2, j=2] = sub %a, %b\ngive %r",
     {"-9 -28 -17 -36"}},
};

static const Case others[] = {
    {OP_const, {0}, {0}, "%r: f64[] = const {value=2.5}\ngive %r", {"2.5"}},
    {OP_iota, {0}, {0}, "%r: f64[i=4] = iota {dim=i=4}\ngive %r", {"0 1 2 3"}},
    {OP_cast,
     {"a: f64[i=4]"},
     {"1.9 -1.9 0 0.5"},
     "%n: i32[i=4] = cast %a\n%r: f64[i=4] = cast %n\n%b: bool[i=4] = cast %a\n"
     "%s: f64[i=4] = cast %b\ngive %r, %s",
     {"1 -1 0 0", "1 1 0 1"}},
    {OP_transfer,
     {"a: f64[i=4]"},
     {"1.5 -1.5 0 0.5"},
     "%f: f64[i=4] on host = transfer %a {level=1}\n%r: f64[i=4] = transfer %f {level=0}\ngive %r",
     {"1.5 -1.5 0 0.5"}},
    {OP_rename,
     A6,
     "%r: f64[k=2, j=3] = rename %a {dim=i=2, to=k=2}\n"
     "%s: f64[j=3, k=2] = rename %a {dim=i=2, to=k=2}\ngive %r, %s",
     {"1 2 3 4 5 6", "1 4 2 5 3 6"}},
    {OP_pick,
     A6,
     "%r: f64[i=2] = pick %a {dim=j=3, at=2}\n%s: f64[j=3] = pick %a {dim=i=2, at=1}\ngive %r, %s",
     {"3 6", "4 5 6"}},
    {OP_window,
     A6,
     "%r: f64[i=2, j=2] = window %a {along=j=2, at=1}\n"
     "%s: f64[j=3, i=1] = window %a {along=i=1, at=1}\ngive %r, %s",
     {"2 3 5 6", "4 5 6"}},
    {OP_split,
     {"a: f64[j=2, i=6]"},
     {"1 2 3 4 5 6 7 8 9 10 11 12"},
     "%r: f64[j=2, n=2, i=3] = split %a {dim=i=3, to=n=2}\n"
     "%s: f64[n=1, j=2, i=6] = split %a {dim=j=2, to=n=1}\n"
     "%t: f64[j=2, i=3] = pick %r {dim=n=2, at=1}\ngive %r, %s, %t",
     {"1 2 3 4 5 6 7 8 9 10 11 12", "1 2 3 4 5 6 7 8 9 10 11 12", "4 5 6 10 11 12"}},
    {OP_merge,
     {"a: f64[j=2, n=2, i=3]"},
     {"1 2 3 4 5 6 7 8 9 10 11 12"},
     "%r: f64[j=2, i=6] = merge %a {dim=i=3, to=n=2}\n%s: f64[j=2] = pick %r {dim=i=6, at=3}\n"
     "give %r, %s",
     {"1 2 3 4 5 6 7 8 9 10 11 12", "4 10"}},
    {OP_join,
     {"a: f64[i=2, j=2]", "b: f64[i=1, j=2]"},
     {"1 2 3 4", "5 6"},
     "%r: f64[i=5, j=2] = join %a, %b, %a {dim=i=5}\n%s: f64[i=2, j=2] = join %a {dim=i=2}\n"
     "%t: f64[j=2, i=2] = copy %a\n%u: f64[j=2, i=4] = join %a, %t {dim=i=4}\n"
     "%v: f64[i=2, k=2, j=2] = join %t, %a {dim=k=2}\ngive %r, %s, %u, %v",
     {"1 2 3 4 5 6 1 2 3 4", "1 2 3 4", "1 3 1 3 2 4 2 4", "1 2 1 2 3 4 3 4"}},
    {OP_reindex,
     {"a: f64[i=4, j=2]"},
     {"1 2 3 4 5 6 7 8"},
     "%r: f64[i=4, j=2] = reindex %a {over=[i=4], dim=i=4, at=-1, factors=[1], every=1}\n"
     "%s: f64[n=2, t=2, j=2] = reindex %a {over=[n=2, t=2], dim=i=4, at=1, factors=[2, -1], "
     "every=1}\n"
     "%t: f64[i=6, j=2] = reindex %a {over=[i=6], dim=i=4, at=0, factors=[1], every=2}\n"
     "%u: f64[i=4] = reindex %a {over=[i=4], dim=j=2, at=0, factors=[1], every=1}\n"
     "give %r, %s, %t, %u",
     {"0 0 1 2 3 4 5 6", "3 4 1 2 7 8 5 6", "1 2 0 0 3 4 0 0 5 6 0 0", "1 4 0 0"}},
    {OP_rotate,
     {"a: f64[i=4, j=2]"},
     {"1 2 3 4 5 6 7 8"},
     "%r: f64[i=4, j=2] = rotate %a {dim=i=4}\n%s: f64[i=4, j=2] = rotate %a {dim=j=2}\ngive %r, "
     "%s",
     {"-5 -6 -7 -8 1 2 3 4", "-2 1 -4 3 -6 5 -8 7"}},
    {OP_sum,
     A6,
     "%r: f64[i=2] = sum %a {over=[j=3]}\n%s: f64[] = sum %a {over=[j=3, i=2]}\ngive %r, %s",
     {"6 15", "21"}},
    {OP_sum, A6, "%r: f64[j=3, i=2] = sum %a {over=[]}\ngive %r", {"1 4 2 5 3 6"}},
    {OP_rmax,
     {"a: f64[i=2, j=3]"},
     {"-1 -2 -3 1 nan 7"},
     "%r: f64[i=2] = rmax %a {over=[j=3]}\ngive %r",
     {"-1 nan"}},
    {OP_dot,
     {"a: f64[i=2, k=2]", "b: f64[k=2, j=2]", "c: f64[j=2, i=2]"},
     {"1 2 3 4", "5 6 7 8", "100 200 300 400"},
     "%r: f64[i=2, j=2] = dot %a, %b {over=[k=2]}\n"
     "%s: f64[i=2, j=2] = dot %a, %b, %c {over=[k=2]}\n"
     "%t: f64[i=2, k=2, j=2] = dot %a, %b {over=[]}\ngive %r, %s, %t",
     {"19 22 43 50", "119 322 243 450", "5 6 14 16 15 18 28 32"}},
    {OP_dot_scaled,
     {"a: e4m3[i=2, k=2]", "b: e5m2[k=2, j=2]", "s: f32[]", "t: f32[]", "c: f32[j=2, i=2]"},
     {"1 2 3 4", "5 6 7 8", "2", "0.5", "100 200 300 400"},
     "%r: f32[i=2, j=2] = dot_scaled %a, %b, %s, %s {over=[k=2]}\n"
     "%u: f32[i=2, j=2] = dot_scaled %a, %b, %s, %t, %c {over=[k=2]}\ngive %r, %u",
     {"76 88 172 200", "119 322 243 450"}},
    {OP_conv, /* [0 1 2 3] as taps see it: 0 0, 1 2, 3 0; then every second sum alone has one */
     {"x: f64[r=4]", "w: f64[t=2]", "c: f64[p=3]"},
     {"0 1 2 3", "1 10", "100 200 300"},
     "%r: f64[p=3] = conv %x, %w {over=[t=2], taps=[r=4 at 2 p=3, 1 t=2, -1 every 1]}\n"
     "%s: f64[p=3] = conv %x, %w, %c {over=[t=2], taps=[r=4 at 2 p=3, 1 t=2, -1 every 1]}\n"
     "%u: f64[p=3] = conv %x, %w {over=[t=2], taps=[r=4 at 1 p=3, 1 t=2, 0 every 2]}\n"
     "give %r, %s, %u",
     {"0 21 3", "100 221 303", "0 10 1"}},
    {OP_dot_bias,
     {"a: f64[i=2, k=2]", "b: f64[k=2, j=2]", "c: f64[j=2]"},
     {"1 2 3 4", "5 6 7 8", "100 200"},
     "%r: f64[i=2, j=2] = dot_bias %a, %b, %c {over=[k=2]}\ngive %r",
     {"119 222 143 250"}},
    {OP_dot_sum,
     {"a: f64[k=2, j=2]", "b: f64[k=2, i=2]", "c: f64[i=2, j=2]"},
     {"5 6 7 8", "1 3 2 4", "100 200 300 400"},
     "%r: f64[i=2, j=2], %s: f64[j=2] = dot_sum %a, %b {over=[k=2]}\n"
     "%t: f64[i=2, j=2], %u: f64[j=2] = dot_sum %a, %b, %c {over=[k=2]}\ngive %r, %s, %t",
     {"19 22 43 50", "12 14", "119 222 343 450"}},
    {OP_dot_gelu,
     {"a: f64[i=2, k=2]", "b: f64[k=2, j=2]", "c: f64[j=2]"},
     {"1 0 0 1", "1 2 0 -1", "0 -1"},
     "%r: f64[i=2, j=2] = dot_gelu %a, %b {over=[k=2]}\n"
     "%s: f64[i=2, j=2] = dot_gelu %a, %b, %c {over=[k=2]}\ngive %r, %s",
     {"0.8411919906082768 1.954597694087775 0 -0.15880800939172324",
      "0.8411919906082768 0.8411919906082768 0 -0.04540230591222494"}},
    {OP_dot_gelu_aux,
     {"a: f64[i=2, k=2]", "b: f64[k=2, j=2]", "c: f64[j=2]"},
     {"1 0 0 1", "1 2 0 -1", "0 1"},
     "%r: f64[i=2, j=2], %z: f64[j=2, i=2] = dot_gelu_aux %a, %b, %c {over=[k=2]}\n"
     "%s: f64[i=2, j=2], %y: f64[i=2, j=2] = dot_gelu_aux %a, %b {over=[k=2]}\n"
     "give %r, %z, %s, %y",
     {"0.8411919906082768 2.996362607918227 0 0", "1 0 3 0",
      "0.8411919906082768 1.954597694087775 0 -0.15880800939172324", "1 2 0 -1"}},
    {OP_dot_gelu_grad,
     {"a: f64[i=2, k=2]", "b: f64[k=2, j=2]", "z: f64[j=2, i=2]"},
     {"1 2 3 4", "5 6 7 8", "0 2 -1 0"},
     "%r: f64[i=2, j=2] = dot_gelu_grad %a, %b, %z {over=[k=2]}\ngive %r",
     {"9.5 -1.825209844607216 46.70226803481559 25"}},
    {OP_dot, /* n goes along; two dims are summed */
     {"a: f64[n=2, k=2, l=2]", "b: f64[l=2, n=2, k=2]"},
     {"1 2 3 4 5 6 7 8", "1 0 0 1 0 1 1 0"},
     "%r: f64[n=2] = dot %a, %b {over=[k=2, l=2]}\ngive %r",
     {"5 13"}},
    {OP_gather,
     {"a: f64[h=2, v=3]", "i: i32[s=4]"},
     {"1 2 3 4 5 6", "2 0 2 5"},
     "%r: f64[s=4, h=2] = gather %a, %i {dim=v=3}\ngive %r",
     {"3 6 1 4 3 6 nan nan"}},
    {OP_gather, /* a table for each b */
     {"a: f64[v=3, b=2, h=2]", "i: i32[s=2, b=2]"},
     {"1 2 3 4 5 6 7 8 9 10 11 12", "2 0 1 1"},
     "%r: f64[s=2, b=2, h=2] = gather %a, %i {dim=v=3}\ngive %r",
     {"9 10 3 4 5 6 7 8"}},
    {OP_scatter_add,
     {"g: f64[s=4, h=2]", "i: i32[s=4]", "c: f64[h=2, v=3]"},
     {"1 2 3 4 5 6 7 8", "2 0 2 9", "10 20 30 40 50 60"},
     "%r: f64[v=3, h=2] = scatter_add %g, %i {over=[s=4], dim=v=3}\n"
     "%t: f64[v=3, h=2] = scatter_add %g, %i, %c {over=[s=4], dim=v=3}\ngive %r, %t",
     {"3 4 0 0 6 8", "13 44 20 50 36 68"}},
    {OP_scatter_add, /* b stays */
     {"g: f64[s=3, b=2]", "i: i32[b=2, s=3]"},
     {"1 2 3 4 5 6", "1 0 1 0 0 0"},
     "%r: f64[v=2, b=2] = scatter_add %g, %i {over=[s=3], dim=v=2}\ngive %r",
     {"3 12 6 0"}},
    {OP_put, /* in the places of a table each; -1 is nowhere */
     {"g: f64[s=3, b=2]", "i: i32[b=2, s=3]", "c: f64[b=2, v=4]"},
     {"1 2 3 4 5 6", "1 0 -1 3 -1 0", "10 20 30 40 50 60 70 80"},
     "%r: f64[b=2, v=4] = put %g, %i, %c {dim=v=4}\ngive %r",
     {"3 1 30 40 6 60 70 2"}},
    {OP_top, /* of equal ones the first, NaN last */
     {"x: f64[c=4, s=2]"},
     {"3 nan 9 2 9 nan 1 5"},
     "%r: i32[s=2, b=3](c) = top %x {dim=c=4, to=b=3}\n%f: f64[s=2, b=3] = cast %r\ngive %f",
     {"1 2 0 3 1 0"}},
    {OP_slots, /* two slots a group for each of three experts */
     {"i: i32[g=2, s=3, k=2]"},
     {"0 1 0 2 0 1 1 1 1 0 2 3"},
     "%r: i32[g=2, s=3, k=2](t) = slots %i {over=[k=2], along=s=3, dim=e=3, to=t=2}\n"
     "%f: f64[g=2, s=3, k=2] = cast %r\ngive %f",
     {"0 0 1 0 -1 1 0 1 -1 0 0 -1"}},
    {OP_slots, /* sorted: behind those of the experts before it */
     {"i: i32[g=2, s=3, k=2]"},
     {"0 1 0 2 0 1 1 1 1 0 2 1"},
     "%r: i32[g=2, s=3, k=2](t) = slots %i {over=[k=2], along=s=3, dim=e=3, to=t=6, sorted}\n"
     "%f: f64[g=2, s=3, k=2] = cast %r\ngive %f",
     {"0 3 1 5 2 4 1 2 3 0 5 4"}},
    {OP_slots, /* sent to two homes of two experts, of three slots a group */
     {"i: i32[g=2, s=3, k=2]"},
     {"0 1 2 3 1 0 3 3 2 2 3 0"},
     "%r: i32[g=2, s=3, k=2](t) = slots %i {over=[k=2], along=s=3, dim=m=2, to=t=3, each=2}\n"
     "%f: f64[g=2, s=3, k=2] = cast %r\ngive %f",
     {"0 2 0 1 -1 1 2 -1 0 1 -1 0"}},
    {OP_ends, /* of each home, as many as have slots */
     {"i: i32[g=2, s=3, k=2]"},
     {"0 1 2 3 1 0 3 3 2 2 3 0"},
     "%r: i32[m=2, g=2, c=2] = ends %i {over=[k=2], along=s=3, dim=c=2, to=t=3, keys=m=2}\n"
     "%f: f64[m=2, g=2, c=2] = cast %r\ngive %f",
     {"2 3 1 1 1 2 2 3"}},
    {OP_dispatch, /* the first choice of the second position has no slot of home 0 */
     {"x: f64[s=2, h=1]", "i: i32[s=2, k=2]", "j: i32[s=2, k=2]"},
     {"3 5", "1 2 0 3", "1 0 -1 1"},
     "%r: f64[m=2, t=2, h=1] = dispatch %x, %i, %j "
     "{over=[k=2], along=s=2, dim=m=2, to=t=2, each=2}\n"
     "%v: f64[s=2, h=1] = combine %r, %i, %j {over=[k=2], along=s=2, dim=m=2, to=t=2, each=2}\n"
     "give %r, %v",
     {"0 3 3 5", "6 5"}},
    {OP_grouped, /* each home has two of the matrices */
     {"z: f64[m=2, t=2, h=2]", "w: f64[e=4, h=2, f=1]", "n: i32[m=2, c=2]"},
     {"1 2 3 4 5 6 7 8", "1 10 2 20 3 30 4 40", "1 2 0 1"},
     "%r: f64[m=2, t=2, f=1] = grouped %z, %w, %n "
     "{over=[h=2], along=t=2, dim=e=4, to=c=2, keys=m=2}\ngive %r",
     {"21 86 260 0"}},
    {OP_grouped_weight,
     {"z: f64[m=2, t=2, h=2]", "y: f64[m=2, t=2, f=1]", "n: i32[m=2, c=2]"},
     {"1 2 3 4 5 6 7 8", "1 10 100 1000", "1 2 0 1"},
     "%r: f64[e=4, h=2, f=1] = grouped_weight %z, %y, %n {along=t=2, dim=e=4, to=c=2, keys=m=2}\n"
     "give %r",
     {"1 2 30 40 0 0 500 600"}},
    {OP_ends,
     {"i: i32[g=2, s=3, k=2]"},
     {"0 1 0 2 0 1 1 1 1 0 2 1"},
     "%r: i32[g=2, e=4] = ends %i {over=[k=2], along=s=3, dim=e=4, to=t=6}\n"
     "%f: f64[g=2, e=4] = cast %r\ngive %f",
     {"3 5 6 6 1 5 6 6"}},
    {OP_dispatch, /* sorted, and back */
     {"x: f64[s=2, h=2]", "i: i32[s=2, k=2]", "j: i32[s=2, k=2]", "w: f64[k=2, s=2]"},
     {"1 2 3 4", "1 0 0 1", "2 0 1 3", "2 5 3 7"},
     "%r: f64[t=4, h=2] = dispatch %x, %i, %j, %w "
     "{over=[k=2], along=s=2, dim=e=2, to=t=4, sorted}\n"
     "%v: f64[s=2, h=2] = combine %r, %i, %j {over=[k=2], along=s=2, dim=e=2, to=t=4, sorted}\n"
     "give %r, %v",
     {"3 6 15 20 2 4 21 28", "5 10 36 48"}},
    {OP_grouped, /* the second expert has no rows, and the last row no expert */
     {"z: f64[t=4, h=2]", "w: f64[e=3, h=2, f=1]", "n: i32[c=3]"},
     {"1 2 3 4 5 6 7 8", "1 10 2 20 3 30", "1 1 3"},
     "%r: f64[t=4, f=1] = grouped %z, %w, %n {over=[h=2], along=t=4, dim=e=3, to=c=3}\ngive %r",
     {"21 129 195 0"}},
    {OP_grouped_weight, /* of two groups */
     {"z: f64[g=2, t=2, h=2]", "y: f64[t=2, g=2]", "n: i32[g=2, c=3]", "c: f64[h=2, e=3]"},
     {"1 2 3 4 5 6 7 8", "1 100 10 1000", "1 1 2 0 0 1", "1 2 3 4 5 6"},
     "%f: f64[t=2, g=2, f=1] = copy %y\n"
     "%d: f64[h=2, e=3, f=1] = copy %c\n"
     "%r: f64[e=3, h=2, f=1] = grouped_weight %z, %f, %n {along=t=2, dim=e=3, to=c=3}\n"
     "%s: f64[h=2, e=3, f=1] = grouped_weight %z, %f, %n, %d {along=t=2, dim=e=3, to=c=3}\n"
     "give %r, %s",
     {"1 2 0 0 530 640", "2 2 533 6 5 646"}},
    {OP_dispatch,
     {"x: f64[s=2, h=2]", "i: i32[s=2, k=2]", "j: i32[s=2, k=2]", "w: f64[k=2, s=2]"},
     {"1 2 3 4", "0 1 1 1", "0 0 1 -1", "2 5 3 7"},
     "%r: f64[e=2, t=2, h=2] = dispatch %x, %i, %j "
     "{over=[k=2], along=s=2, dim=e=2, to=t=2}\n"
     "%v: f64[e=2, t=2, h=2] = dispatch %x, %i, %j, %w "
     "{over=[k=2], along=s=2, dim=e=2, to=t=2}\ngive %r, %v",
     {"1 2 0 0 1 2 3 4", "2 4 0 0 3 6 15 20"}},
    {OP_combine,
     {"z: f64[t=2, e=2, h=2]", "i: i32[s=2, k=2]", "j: i32[s=2, k=2]", "w: f64[k=2, s=2]"},
     {"1 2 5 6 3 4 7 8", "0 1 1 1", "0 0 1 -1", "2 5 3 7"},
     "%r: f64[s=2, h=2] = combine %z, %i, %j {over=[k=2], along=s=2, dim=e=2, to=t=2}\n"
     "%v: f64[s=2, h=2] = combine %z, %i, %j, %w {over=[k=2], along=s=2, dim=e=2, to=t=2}\n"
     "give %r, %v",
     {"6 8 7 8", "17 22 35 40"}},
    {OP_combine_weight,
     {"z: f64[t=2, e=2, h=2]", "y: f64[h=2, s=2]", "i: i32[s=2, k=2]", "j: i32[s=2, k=2]"},
     {"1 2 5 6 3 4 7 8", "1 2 1 3", "0 1 1 1", "0 0 1 -1"},
     "%r: f64[s=2, k=2] = combine_weight %z, %y, %i, %j "
     "{over=[k=2], along=s=2, dim=e=2, to=t=2}\ngive %r",
     {"3 11 38 0"}},
    {OP_attention, /* no query prefers a key: means of the values seen, lse = log(keys seen) */
     {"q: f64[s=2, h=1]", "k: f64[s=2, h=1]", "v: f64[s=2, h=1]"},
     {"0 0", "3 5", "10 20"},
     "%o: f64[s=2, h=1], %l: f64[s=2] = attention %q, %k, %v "
     "{over=[h=1], along=s=2, scale=1, causal=no}\n"
     "%p: f64[s=2, h=1], %m: f64[s=2] = attention %q, %k, %v "
     "{over=[h=1], along=s=2, scale=1, causal=yes}\ngive %o, %l, %p, %m",
     {"15 15", "0.6931471805599453 0.6931471805599453", "10 15", "0 0.6931471805599453"}},
    {OP_attention, /* so many keys as each query is said to see; none: 0, and a log far below all */
     {"q: f64[s=2, h=1]", "v: f64[s=2, h=1]", "n: i32[s=2]"},
     {"0 0", "10 20", "0 1"},
     "%o: f64[s=2, h=1], %l: f64[s=2] = attention %q, %q, %v, %n "
     "{over=[h=1], along=s=2, scale=1, causal=no, share=0.5}\ngive %o, %l",
     {"0 10", "-1e30 0"}},
    {OP_attention, /* a bias of log 3: three times the weight */
     {"q: f64[s=2, h=1]", "k: f64[t=2, h=1]", "v: f64[t=2, h=1]", "b: f64[t=2]"},
     {"0 0", "3 5", "10 20", "0 1.0986122886681098"},
     "%o: f64[s=2, h=1], %l: f64[s=2] = attention %q, %k, %v, %b "
     "{over=[h=1], along=s=2, scale=1, causal=no, keys=t=2, biased}\ngive %o, %l",
     {"17.5 17.5", "1.3862943611198906 1.3862943611198906"}},
    {OP_attention_bias_grad, /* two keys of equal weight: P (do v - D), over both queries */
     {"q: f64[s=2, h=1]", "k: f64[t=2, h=1]", "v: f64[t=2, h=1]", "o: f64[s=2, h=1]", "l: f64[s=2]",
      "d: f64[s=2, h=1]", "b: f64[t=2]"},
     {"0 0", "3 5", "10 20", "15 15", "0.6931471805599453 0.6931471805599453", "1 2", "0 0"},
     "%x: f64[t=2] = attention_bias_grad %q, %k, %v, %o, %l, %d, %b "
     "{over=[h=1], along=s=2, scale=1, causal=no, keys=t=2, biased}\ngive %x",
     {"-7.5 7.5"}},
    {OP_attention_grad,
     {"q: f64[s=2, h=1]", "v: f64[s=2, h=1]", "l: f64[s=2]", "d: f64[s=2, h=1]", "n: i32[s=2]"},
     {"0 0", "10 20", "0 0", "1 2", "0 1"},
     "%x: f64[s=2, h=1], %y: f64[s=2, h=1], %z: f64[s=2, h=1] = attention_grad %q, %q, %v, %v, %l, "
     "%d, %n {over=[h=1], along=s=2, scale=1, causal=no}\ngive %z",
     {"2 0"}},
    {OP_attention_grad, /* two keys of equal weight: P = 1/2, dS = P (do v - D) */
     {"q: f64[s=2, h=1]", "k: f64[s=2, h=1]", "v: f64[s=2, h=1]", "o: f64[s=2, h=1]", "l: f64[s=2]",
      "d: f64[s=2, h=1]"},
     {"0 0", "3 5", "10 20", "15 15", "0.6931471805599453 0.6931471805599453", "1 2"},
     "%x: f64[s=2, h=1], %y: f64[s=2, h=1], %z: f64[s=2, h=1] = attention_grad %q, %k, %v, %o, %l, "
     "%d {over=[h=1], along=s=2, scale=1, causal=no}\ngive %x, %y, %z",
     {"5 10", "0 0", "1.5 1.5"}},
    {OP_cross_entropy, /* the third class is padding */
     {"z: f64[c=3, t=3]", "y: i32[t=3]"},
     {"0 1 7 0 1 7 0 5 7", "1 0 2"},
     "%l: f64[t=3], %e: f64[t=3] = cross_entropy %z, %y {over=[c=3], valid=2}\ngive %l, %e",
     {"0.6931471805599453 0.6931471805599453 nan",
      "0.6931471805599453 1.6931471805599454 7.693147180559945"}},
    {OP_cross_entropy_grad,
     {"z: f64[t=2, c=3]", "y: i32[t=2]", "e: f64[t=2]", "d: f64[t=2]"},
     {"0 0 9 1 1 9", "1 0", "0.6931471805599453 1.6931471805599454", "2 4"},
     "%r: f64[c=3, t=2] = cross_entropy_grad %z, %y, %e, %d {over=[c=3], valid=2}\ngive %r",
     {"1 -2 -1 2 0 0"}},
    {OP_head, /* x . w is 3 for both classes: P = 1/2 */
     {"x: f64[t=1, h=2]", "w: f64[c=2, h=2]", "y: i32[t=1]", "d: f64[]", "c: f64[h=2, c=2]"},
     {"1 1", "1 2 2 1", "1", "1", "1 10 100 1000"},
     "%l: f64[t=1], %x1: f64[t=1, h=2], %w1: f64[c=2, h=2] = head %x, %w, %y, %d "
     "{over=[h=2], dim=c=2, valid=2}\n"
     "%m: f64[t=1], %x2: f64[h=2, t=1], %w2: f64[h=2, c=2] = head %x, %w, %y, %d, %c "
     "{over=[h=2], dim=c=2, valid=2}\ngive %l, %x1, %w1, %w2",
     {"0.6931471805599453", "-0.5 0.5", "0.5 0.5 -0.5 -0.5", "1.5 9.5 100.5 999.5"}},
    {OP_head_frozen,
     {"x: f64[t=1, h=2]", "w: f64[c=2, h=2]", "y: i32[t=1]", "d: f64[]"},
     {"1 1", "1 2 2 1", "1", "1"},
     "%l: f64[t=1], %r: f64[h=2, t=1] = head_frozen %x, %w, %y, %d {over=[h=2], dim=c=2, valid=2}\n"
     "give %l, %r",
     {"0.6931471805599453", "-0.5 0.5"}},
    {OP_head_loss,
     {"x: f64[t=1, h=2]", "w: f64[c=2, h=2]", "y: i32[t=1]"},
     {"1 1", "1 2 2 1", "1"},
     "%l: f64[t=1] = head_loss %x, %w, %y {over=[h=2], dim=c=2, valid=2}\n"
     "%m: f64[t=1] = head_loss %x, %w, %y {over=[h=2], dim=c=2, valid=1}\ngive %l, %m",
     {"0.6931471805599453", "nan"}},
    {OP_fused,
     A6,
     "%r: f64[i=2, j=3], %s: f64[i=2] = fused %a {kind=\"row\"} {\n  arg %b: f64[i=2, j=3]\n"
     "  %c: f64[i=2] = sum %b {over=[j=3]}\n  %d: f64[i=2, j=3] = sub %b, %c\n  give %d, %c\n}\n"
     "give %r, %s",
     {"-5 -4 -3 -11 -10 -9", "6 15"}},
    {OP_guard,
     {"a: f64[]"},
     {"nan"},
     "guard %a, %a\n%r: f64[] = copy %a\ngive %r", /* the interpreter goes on */
     {"nan"}},
};

#define ROUNDS(reverse)                                                                            \
    "%last: f64[], %all: f64[l=3] = repeat %a, %x {dim=l=3, carried=1, reverse=" reverse "} {\n"   \
    "  arg %acc: f64[]\n  arg %xi: f64[]\n  arg %i: i32[]\n  %f: f64[] = cast %i\n"                \
    "  %b: f64[] = add %acc, %acc\n  %c: f64[] = add %b, %xi\n  %d: f64[] = add %c, %f\n"          \
    "  give %d, %d\n}\ngive %last, %all"

static const Case loops[] = {
    /* acc = 2 acc + x + index */
    {OP_repeat, {"a: f64[]", "x: f64[l=3]"}, {"10", "1 2 3"}, ROUNDS("no"), {"95", "21 45 95"}},
    {OP_repeat, {"a: f64[]", "x: f64[l=3]"}, {"10", "1 2 3"}, ROUNDS("yes"), {"107", "107 53 25"}},
    /* next values are taken together: a, b = b, a + b, and one of the outside */
    {OP_repeat,
     {"a: f64[]", "b: f64[]", "o: f64[]"},
     {"0", "1", "100"},
     "%p: f64[], %q: f64[] = repeat %a, %b {dim=l=6, carried=2, reverse=no} {\n"
     "  arg %x: f64[]\n  arg %y: f64[]\n  arg %i: i32[]\n  %z: f64[] = add %x, %y\n"
     "  %w: f64[] = add %z, %o\n  give %y, %w\n}\ngive %p, %q",
     {"1208", "2013"}},
    /* a loop in a loop; nothing is carried */
    {OP_repeat,
     {"x: f64[l=2, n=2, i=2]"},
     {"1 2 3 4 5 6 7 8"},
     "%r: f64[l=2, n=2] = repeat %x {dim=l=2, carried=0, reverse=no} {\n"
     "  arg %y: f64[n=2, i=2]\n  arg %i: i32[]\n"
     "  %s: f64[n=2] = repeat %y {dim=n=2, carried=0, reverse=yes} {\n"
     "    arg %z: f64[i=2]\n    arg %k: i32[]\n    %t: f64[] = sum %z {over=[i=2]}\n"
     "    %u: f64[] = cast %i\n    %v: f64[] = mul %t, %u\n    give %v\n  }\n  give %s\n}\ngive %r",
     {"0 0 11 15"}},
};

static bool covered[OP_count];

void interp_covers(Op op)
{
    covered[op] = true;
}

static void run_case(const Case *c)
{
    World w;
    world_open(&w);
    int results = 0;
    while (results < MAX_RESULTS && c->want[results])
        results++;
    Module *m = must_read(&w, c->args, c->body, results);
    Tensor64 *r = run_program(&w, m, c->data, false);
    for (int k = 0; k < results; k++)
        assert_numbers(&r[k], c->want[k], op_info[c->op].name);
    interp_covers(c->op);
    world_close(&w);
}

static void by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++)
        run_case(&pointwise[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        run_case(&others[i]);
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        run_case(&loops[i]);
}

static uint64_t fnv(const char *s)
{
    uint64_t h = 14695981039346656037u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

/* The first words of Random123's vector for counter 0 under key 0; then the op by its definition:
 * element e of slot s is number s * elements + e of the key seed ^ name. */
static void random_numbers(void **state)
{
    (void)state;
    static const uint32_t words[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (uint64_t e = 0; e < 4; e++) {
        assert_true(ir_random(0, 0, 0, e) == (words[e] >> 8) * 0x1p-24);
        assert_true(ir_random(fnv("x"), 0, fnv("x"), e) == (words[e] >> 8) * 0x1p-24);
    }
    for (uint32_t c = 0; c < 40; c++) { /* the same words: their upper 24 bits */
        const uint64_t element = (uint64_t)5 << 34 | c;
        const uint32_t upper = (uint32_t)(ir_random(3, 9, fnv("w"), element) * 0x1p24);
        assert_int_equal(ir_round_bits(3, 9, fnv("w"), 5, c, 1), upper >> 8);
        assert_int_equal(ir_round_bits(3, 9, fnv("w"), 5, c, 0) >> 8, upper & 0xff);
    }
    World w;
    world_open(&w);
    Module *m =
        must_read(&w, (const char *[]){"a: i64[]", "b: i64[]", "c: i32[]", NULL},
                  "%r: f64[i=2, j=3] = random %a, %b, %c {key=\"layers.drop\"}\ngive %r", 1);
    Tensor64 *r = run_program(&w, m, (const char *[]){"42", "7", "3"}, false);
    for (uint64_t e = 0; e < 6; e++)
        assert_true(r[0].data[e] == ir_random(42, 7, fnv("layers.drop"), 3 * 6 + e));
    interp_covers(OP_random);
    world_close(&w);
}

static void none_missing(void **state)
{
    (void)state;
    for (int op = OP_none + 1; op < OP_count; op++)
        if (!covered[op] && !op_info[op].value && !op_is((Op)op, COMM)) /* those: test_mesh.c */
            fail_msg("%s has no case", op_info[op].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(stochastic_rounding),
        cmocka_unit_test(scales_of_tiles),
        cmocka_unit_test(none_missing),
        cmocka_unit_test(rounding),
        cmocka_unit_test(shaking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
