/* test_composites.c - the ops that have kernels, against the same in primitive ops; their
 * derivatives against differences; gather and scatter_add as transposes of one another; loops and
 * kernels against what they stand for. All by the interpreter, on drawn numbers. */
#include "tests/ir/program.h"

#include <math.h>

typedef struct Pair {
    const char *what, *args[MAX_ARGS + 1];
    const char *one, *other; /* two bodies that mean the same */
    int results;
} Pair;

/* ---- attention ------------------------------------------------------------------------------- */

#define Q "f64[b=2, s=3, kv=2, g=2, h=4]"
#define K "f64[b=2, t=3, kv=2, h=4]"
#define S "f64[b=2, s=3, kv=2, g=2, t=3]"
#define L "f64[b=2, s=3, kv=2, g=2]"

/* o and lse, where `hide` says which scores count: softmax(scale q k) v over all keys t. */
#define ATTENTION_LONG(hide)                                                                       \
    "%k2: " K " = rename %k {dim=s=3, to=t=3}\n%v2: " K " = rename %v {dim=s=3, to=t=3}\n"         \
    "%raw: " S " = dot %q, %k2 {over=[h=4]}\n%scale: f64[] = const {value=0.3}\n"                  \
    "%x: " S " = mul %raw, %scale\n" hide "%top: " L " = rmax %y {over=[t=3]}\n"                   \
    "%c: " S " = sub %y, %top\n%e: " S " = exp %c\n%n: " L " = sum %e {over=[t=3]}\n"              \
    "%p: " S " = div %e, %n\n%o: " Q " = dot %p, %v2 {over=[t=3]}\n%ln: " L " = log %n\n"          \
    "%lse: " L " = add %top, %ln\ngive %o, %lse"
#define ALL "%y: " S " = copy %x\n"
#define PAST                                                                                       \
    "%i: f64[s=3] = iota {dim=s=3}\n%j: f64[t=3] = iota {dim=t=3}\n"                               \
    "%see: bool[s=3, t=3] = ge %i, %j\n%never: f64[] = const {value=-inf}\n"                       \
    "%y: " S " = select %see, %x, %never\n"
#define ATTENTION(causal)                                                                          \
    "%o: " Q ", %lse: " L " = attention %q, %k, %v "                                               \
    "{over=[h=4], along=s=3, scale=0.3, causal=" causal "}\ngive %o, %lse"
#define QKV {"q: " Q, "k: f64[b=2, s=3, kv=2, h=4]", "v: f64[b=2, s=3, kv=2, h=4]"}
/* The same numbers, lying in other orders. */
#define MIXED                                                                                      \
    "%q2: f64[h=4, g=2, b=2, kv=2, s=3] = copy %q\n%k2: f64[s=3, h=4, b=2, kv=2] = copy %k\n"      \
    "%v2: f64[kv=2, b=2, h=4, s=3] = copy %v\n"                                                    \
    "%o2: f64[g=2, h=4, kv=2, b=2, s=3], %l2: f64[kv=2, g=2, s=3, b=2] = attention %q2, %k2, %v2 " \
    "{over=[h=4], along=s=3, scale=0.3, causal=yes}\n%o: " Q " = copy %o2\n%lse: " L               \
    " = copy %l2\n"                                                                                \
    "give %o, %lse"

/* Of the capped scores those of the last two keys, and of none before the first of its document:
 * position 2 begins one in the second sequence alone. Values have a head of their own. */
#define O5 "f64[b=2, s=3, kv=2, g=2, e=5]"
#define FIRST                                                                                      \
    "%si: i32[s=3] = iota {dim=s=3}\n%two: i32[] = const {value=2}\n"                              \
    "%zero: i32[] = const {value=0}\n%begins: bool[s=3] = ge %si, %two\n"                          \
    "%f1: i32[s=3] = select %begins, %two, %zero\n%bi: i32[b=2] = iota {dim=b=2}\n"                \
    "%f: i32[b=2, s=3] = mul %bi, %f1\n"
#define MASKS_ONE                                                                                  \
    FIRST "%o: " O5 ", %lse: " L " = attention %q, %k, %v, %f {over=[h=4], along=s=3, scale=0.3, " \
          "causal=yes, window=2, cap=0.5, within}\ngive %o, %lse"
#define MASKS_LONG                                                                                 \
    FIRST "%k2: " K " = rename %k {dim=s=3, to=t=3}\n"                                             \
          "%v2: f64[b=2, t=3, kv=2, e=5] = rename %v {dim=s=3, to=t=3}\n"                          \
          "%raw: " S " = dot %q, %k2 {over=[h=4]}\n%scale: f64[] = const {value=0.6}\n"            \
          "%sc: " S " = mul %raw, %scale\n%th: " S                                                 \
          " = tanh %sc\n%cap: f64[] = const {value=0.5}\n"                                         \
          "%x: " S " = mul %th, %cap\n%tj: i32[t=3] = iota {dim=t=3}\n"                            \
          "%past: bool[s=3, t=3] = ge %si, %tj\n%minus: i32[s=3, t=3] = sub %si, %tj\n"            \
          "%near: bool[s=3, t=3] = lt %minus, %two\n%own: bool[b=2, s=3, t=3] = ge %tj, %f\n"      \
          "%never: f64[] = const {value=-inf}\n%a: " S " = select %past, %x, %never\n"             \
          "%b2: " S " = select %near, %a, %never\n%y: " S " = select %own, %b2, %never\n"          \
          "%top: " L " = rmax %y {over=[t=3]}\n%c: " S " = sub %y, %top\n%e: " S " = exp %c\n"     \
          "%n: " L " = sum %e {over=[t=3]}\n%p: " S " = div %e, %n\n"                              \
          "%o: " O5 " = dot %p, %v2 {over=[t=3]}\n%ln: " L " = log %n\n"                           \
          "%lse: " L " = add %top, %ln\ngive %o, %lse"
#define QKE {"q: " Q, "k: f64[b=2, s=3, kv=2, h=4]", "v: f64[b=2, s=3, kv=2, e=5]"}

/* ---- cross-entropy and head: the last two of five classes are padding ------------------------ */

#define MASKED(z)                                                                                  \
    "%i: f64[c=5] = iota {dim=c=5}\n%end: f64[] = const {value=3}\n%in: bool[c=5] = lt %i, %end\n" \
    "%no: f64[] = const {value=-inf}\n%m: f64[c=5, t=4] = select %in, " z ", %no\n"                \
    "%top: f64[t=4] = rmax %m {over=[c=5]}\n%df: f64[c=5, t=4] = sub %m, %top\n"                   \
    "%e: f64[c=5, t=4] = exp %df\n%n: f64[t=4] = sum %e {over=[c=5]}\n%ln: f64[t=4] = log %n\n"    \
    "%lse: f64[t=4] = add %ln, %top\n%ci: i32[c=5] = iota {dim=c=5}\n"                             \
    "%hit: bool[c=5, t=4] = eq %ci, %y\n%zero: f64[] = const {value=0}\n"                          \
    "%mine: f64[c=5, t=4] = select %hit, " z ", %zero\n%zt: f64[t=4] = sum %mine {over=[c=5]}\n"   \
    "%loss: f64[t=4] = sub %lse, %zt\n"
#define HEAD_ARGS                                                                                  \
    {"x: f64[t=4, h=2, k=3]", "w: f64[k=3, c=5, h=2]", "y: i32[t=4]", "d: f64[t=4]",               \
     "a: f64[k=3, c=5, h=2]"}
#define LOGITS "%z: f64[t=4, c=5] = dot %x, %w {over=[h=2, k=3]}\n"
#define HEAD_LOGITS(g)                                                                             \
    LOGITS "%l: f64[t=4], %lse: f64[t=4] = cross_entropy %z, %y {over=[c=5], valid=3}\n"           \
           "%dz: f64[t=4, c=5] = cross_entropy_grad %z, %y, %lse, " g " {over=[c=5], valid=3}\n"   \
           "%dx: f64[t=4, h=2, k=3] = dot %dz, %w {over=[c=5]}\n"
#define HEAD_LONG(g, c)                                                                            \
    HEAD_LOGITS(g) "%dw: f64[k=3, c=5, h=2] = dot %dz, %x" c " {over=[t=4]}\ngive %l, %dx, %dw"
#define HEAD(more)                                                                                 \
    "%l: f64[t=4], %dx: f64[t=4, h=2, k=3], %dw: f64[k=3, c=5, h=2] = head %x, %w, %y, " more      \
    " {over=[k=3, h=2], dim=c=5, valid=3}\ngive %l, %dx, %dw"

/* ---- loops and kernels ----------------------------------------------------------------------- */

#define STEP(to, from, i)                                                                          \
    "%w" i ": f64[h=2, k=2] = pick %w {dim=l=2, at=" i "}\n"                                       \
    "%d" i ": f64[k=2] = dot %" from ", %w" i " {over=[h=2]}\n"                                    \
    "%r" i ": f64[h=2] = rename %d" i " {dim=k=2, to=h=2}\n%" to ": f64[h=2] = tanh %r" i "\n"

static const Pair pairs[] = {
    {"attention", QKV, ATTENTION("no"), ATTENTION_LONG(ALL), 2},
    {"causal attention", QKV, ATTENTION("yes"), ATTENTION_LONG(PAST), 2},
    {"attention in other orders", QKV, MIXED, ATTENTION_LONG(PAST), 2},
    {"attention with a window, a cap, documents and values of another size", QKE, MASKS_ONE,
     MASKS_LONG, 2},
    {"cross_entropy",
     {"z: f64[t=4, c=5]", "y: i32[t=4]"},
     "%loss: f64[t=4], %lse: f64[t=4] = cross_entropy %z, %y {over=[c=5], valid=3}\n"
     "give %loss, %lse",
     MASKED("%z") "give %loss, %lse",
     2},
    {"head_loss", HEAD_ARGS,
     "%loss: f64[t=4] = head_loss %x, %w, %y {over=[h=2, k=3], dim=c=5, valid=3}\ngive %loss",
     LOGITS MASKED("%z") "give %loss", 1},
    {"head", HEAD_ARGS, HEAD("%d"), HEAD_LONG("%d", ""), 3},
    {"head that adds", HEAD_ARGS, HEAD("%d, %a"), HEAD_LONG("%d", ", %a"), 3},
    {"head whose weight is frozen", HEAD_ARGS,
     "%l: f64[t=4], %dx: f64[t=4, h=2, k=3] = head_frozen %x, %w, %y, %d "
     "{over=[k=3, h=2], dim=c=5, valid=3}\ngive %l, %dx",
     HEAD_LOGITS("%d") "give %l, %dx", 2},
    {"head with one cotangent", HEAD_ARGS, "%one: f64[] = const {value=0.25}\n" HEAD("%one"),
     "%one: f64[] = const {value=0.25}\n" HEAD_LONG("%one", ""), 3},
    {"gather is a product with rows that are one at the index",
     {"a: f64[h=2, v=3]", "i: i32[b=2, s=4]"},
     "%r: f64[b=2, s=4, h=2] = gather %a, %i {dim=v=3}\ngive %r",
     "%v: i32[v=3] = iota {dim=v=3}\n%is: bool[b=2, s=4, v=3] = eq %i, %v\n"
     "%one: f64[b=2, s=4, v=3] = cast %is\n%r: f64[b=2, s=4, h=2] = dot %one, %a {over=[v=3]}\n"
     "give %r",
     1},
    {"a table for each b",
     {"a: f64[h=2, b=2, v=3]", "i: i32[s=4, b=2]"},
     "%r: f64[s=4, b=2, h=2] = gather %a, %i {dim=v=3}\ngive %r",
     "%v: i32[v=3] = iota {dim=v=3}\n%is: bool[s=4, b=2, v=3] = eq %i, %v\n"
     "%one: f64[s=4, b=2, v=3] = cast %is\n%r: f64[s=4, b=2, h=2] = dot %one, %a {over=[v=3]}\n"
     "give %r",
     1},
    {"and its transpose",
     {"g: f64[b=2, h=2, s=4]", "i: i32[b=2, s=4]", "c: f64[v=3, h=2, b=2]"},
     "%r: f64[v=3, b=2, h=2] = scatter_add %g, %i {over=[s=4], dim=v=3}\n"
     "%t: f64[v=3, b=2, h=2] = scatter_add %g, %i, %c {over=[s=4], dim=v=3}\ngive %r, %t",
     "%v: i32[v=3] = iota {dim=v=3}\n%is: bool[b=2, s=4, v=3] = eq %i, %v\n"
     "%one: f64[b=2, s=4, v=3] = cast %is\n"
     "%r: f64[v=3, b=2, h=2] = dot %one, %g {over=[s=4]}\n%t: f64[v=3, b=2, h=2] = add %r, %c\n"
     "give %r, %t",
     2},
    {"scatter_add is that product's transpose",
     {"g: f64[b=2, h=2, s=4]", "i: i32[b=2, s=4]", "c: f64[v=3, h=2]"},
     "%r: f64[h=2, v=3] = scatter_add %g, %i {over=[b=2, s=4], dim=v=3}\n"
     "%t: f64[h=2, v=3] = scatter_add %g, %i, %c {over=[b=2, s=4], dim=v=3}\ngive %r, %t",
     "%v: i32[v=3] = iota {dim=v=3}\n%is: bool[b=2, s=4, v=3] = eq %i, %v\n"
     "%one: f64[b=2, s=4, v=3] = cast %is\n"
     "%r: f64[h=2, v=3] = dot %g, %one {over=[b=2, s=4]}\n%t: f64[h=2, v=3] = add %r, %c\n"
     "give %r, %t",
     2},
    {"a loop is its iterations",
     {"x: f64[h=2]", "w: f64[l=2, h=2, k=2]"},
     "%y: f64[h=2] = repeat %x, %w {dim=l=2, carried=1, reverse=no} {\n"
     "arg %z: f64[h=2]\narg %m: f64[h=2, k=2]\narg %i: i32[]\n%d: f64[k=2] = dot %z, %m "
     "{over=[h=2]}\n%r: f64[h=2] = rename %d {dim=k=2, to=h=2}\n%t: f64[h=2] = tanh %r\ngive "
     "%t\n}\n"
     "give %y",
     STEP("y", "x", "0") STEP("z", "y", "1") "give %z",
     1},
    {"a kernel is its body",
     {"x: f64[b=2, h=2]", "g: f64[h=2]"},
     "%y: f64[b=2, h=2] = fused %x, %g {kind=\"row\"} {\narg %a: f64[b=2, h=2]\narg %c: f64[h=2]\n"
     "%q: f64[b=2, h=2] = mul %a, %a\n%s: f64[b=2] = sum %q {over=[h=2]}\n%r: f64[b=2] = rsqrt %s\n"
     "%n: f64[b=2, h=2] = mul %a, %r\n%m: f64[b=2, h=2] = mul %n, %c\ngive %m\n}\ngive %y",
     "%q: f64[b=2, h=2] = mul %x, %x\n%s: f64[b=2] = sum %q {over=[h=2]}\n%r: f64[b=2] = rsqrt %s\n"
     "%n: f64[b=2, h=2] = mul %x, %r\n%m: f64[b=2, h=2] = mul %n, %g\ngive %m",
     1},
};

static void equal_meaning(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const Pair *p = &pairs[i];
        World w;
        world_open(&w);
        Module *one = must_read(&w, p->args, p->one, p->results);
        Module *other = must_read(&w, p->args, p->other, p->results);
        Tensor64 *x = run_program(&w, one, NULL, false), *y = run_program(&w, other, NULL, false);
        for (int k = 0; k < p->results; k++)
            assert_close(&x[k], &y[k], 1e-13, p->what);
        world_close(&w);
    }
}

/* ---- derivatives ----------------------------------------------------------------------------- */

typedef struct Slope {
    const char *what, *args[MAX_ARGS + 1];
    const char *forward;  /* one result: a number that depends on the first `n` arguments */
    const char *backward; /* its derivatives by them */
    int n;
} Slope;

#define WHOLE      "{over=[b=2, s=3, kv=2, g=2, h=4]}"
#define HOW        "{over=[h=4], along=s=3, scale=0.3, causal=yes}"
#define MASKED_HOW "{over=[h=4], along=s=3, scale=0.3, causal=yes, window=2, cap=0.5, within}"
static const Slope slopes[] = {
    {"attention_grad",
     {"q: " Q, "k: f64[b=2, s=3, kv=2, h=4]", "v: f64[b=2, s=3, kv=2, h=4]", "d: " Q},
     "%o: " Q ", %l: " L " = attention %q, %k, %v " HOW "\n%p: f64[] = dot %o, %d " WHOLE
     "\ngive %p",
     "%o: " Q ", %l: " L " = attention %q, %k, %v " HOW "\n"
     "%dq: " Q ", %dk: f64[b=2, s=3, kv=2, h=4], %dv: f64[b=2, s=3, kv=2, h=4] = "
     "attention_grad %q, %k, %v, %o, %l, %d " HOW "\ngive %dq, %dk, %dv",
     3},
    {"attention_grad with a window, a cap, documents and values of another size",
     {"q: " Q, "k: f64[b=2, s=3, kv=2, h=4]", "v: f64[b=2, s=3, kv=2, e=5]", "d: " O5},
     FIRST "%o: " O5 ", %l: " L " = attention %q, %k, %v, %f " MASKED_HOW
           "\n%p: f64[] = dot %o, %d {over=[b=2, s=3, kv=2, g=2, e=5]}\ngive %p",
     FIRST "%o: " O5 ", %l: " L " = attention %q, %k, %v, %f " MASKED_HOW "\n"
           "%dq: " Q ", %dk: f64[b=2, s=3, kv=2, h=4], %dv: f64[b=2, s=3, kv=2, e=5] = "
           "attention_grad %q, %k, %v, %o, %l, %d, %f " MASKED_HOW "\ngive %dq, %dk, %dv",
     3},
    {"cross_entropy_grad",
     {"z: f64[t=4, c=5]", "y: i32[t=4]", "d: f64[t=4]"},
     "%l: f64[t=4], %e: f64[t=4] = cross_entropy %z, %y {over=[c=5], valid=3}\n"
     "%p: f64[] = dot %l, %d {over=[t=4]}\ngive %p",
     "%l: f64[t=4], %e: f64[t=4] = cross_entropy %z, %y {over=[c=5], valid=3}\n"
     "%r: f64[t=4, c=5] = cross_entropy_grad %z, %y, %e, %d {over=[c=5], valid=3}\ngive %r",
     1},
};

static double value_at(World *w, const Module *m, const Tensor64 *args)
{
    Tensor64 result;
    ir_interpret(m, m->fns.data[0], args, &result, w->a, false);
    return result.data[0];
}

static void differences(void **state)
{
    (void)state;
    const double h = 1e-4;
    for (size_t i = 0; i < sizeof slopes / sizeof *slopes; i++) {
        const Slope *s = &slopes[i];
        World w;
        world_open(&w);
        Module *forward = must_read(&w, s->args, s->forward, 1);
        Module *backward = must_read(&w, s->args, s->backward, s->n);
        Tensor64 *args = program_args(&w, forward, NULL),
                 *d = run_program(&w, backward, NULL, false);
        for (int k = 0; k < s->n; k++) {
            Tensor64 found = {args[k].type, NEW_ARRAY(w.a, double, type_elements(&args[k].type))};
            for (int64_t e = 0; e < type_elements(&found.type); e++) {
                double x = args[k].data[e], sum = 0;
                for (int step = -2; step <= 2; step++) {
                    static const double weight[] = {1, -8, 0, 8, -1};
                    args[k].data[e] = x + step * h;
                    sum += weight[step + 2] * value_at(&w, forward, args);
                }
                args[k].data[e] = x;
                found.data[e] = sum / (12 * h);
            }
            assert_close(&d[k], &found, 1e-9, s->what);
        }
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_meaning),
        cmocka_unit_test(differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
