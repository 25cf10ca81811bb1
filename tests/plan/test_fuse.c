/* Fusion by example: which instructions become one kernel, of which kind, with how many operands
 * and results; and that a decision can be asked for. That no number changes is the business of
 * test_physical. */
#include "passes/fuse/fuse.h"
#include "tests/passes/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TENSOR(name, at, type, valid, order, merge)                                                \
    "tensor \"" name "\" f32[" type "] external \"" name "\" slot \"\" of " at                     \
    " stacked 0 valid [" valid "] order [" order "] merge [" merge                                 \
    "] init const 0 0 decay 0 rate 1\n"
#define BSH "f32[b=16, s=64, h=128]"
#define BS  "f32[b=16, s=64]"

static const char head[] =
    "mgir 1\nmodel \"\" source \"\"\nbatch b=16 seq s=64 vocab 7\n"
    "train adamw beta1 0.9 beta2 0.95 eps 1e-08 momentum 0.9 power 0 threshold 0 clip 1 peak 0 "
    "floor 0 "
    "lr constant warmup 0 steps 0 last 0 linear compute f32\n"
    "layout \"\" device \"\" microbatch 16 recompute auto assert_peak 0\n" TENSOR(
        "x", "0", "b=16, s=64, h=128", "16, 64, 128", "0, 1, 2", "1, 1, 1")
        TENSOR("y", "1", "b=16, s=64, h=128", "16, 64, 128", "0, 1, 2", "1, 1, 1")
            TENSOR("g", "2", "h=128", "128", "0", "1") TENSOR("p", "3", "s=64", "64", "0", "1")
                TENSOR("w", "4", "h=128, k=128", "128, 128", "0, 1",
                       "1, 1") "fn @sample {\nrole param \"x\"\nrole param \"y\"\nrole param "
                               "\"g\"\nrole param \"p\"\n"
                               "role param \"w\"\n"
                               "arg %x: " BSH "\narg %y: " BSH
                               "\narg %g: f32[h=128]\narg %p: f32[s=64]\n"
                               "arg %w: f32[h=128, k=128]\n";

typedef struct Example {
    const char *what, *body;
    int results;
    const char *kernels; /* kind:operands>results of each, and other instructions by name */
} Example;

#define NORM                                                                                       \
    "%q: " BSH " = mul %a, %a\n%m: " BS " = sum %q {over=[h=128]}\n%e: f32[] = const {value=1}\n"  \
    "%v: " BS " = add %m, %e\n%r: " BS " = rsqrt %v\n%n: " BSH " = mul %a, %r\n"                   \
    "%o: " BSH " = mul %n, %g\n"

static const Example examples[] = {
    {"a chain is one kernel",
     "%a: " BSH " = tanh %x\n%b: " BSH " = mul %a, %y\n%c: " BSH " = add %b, %g\ngive %c\n", 1,
     "map:3>1 "},
    {"what is needed outside is stored on the way",
     "%a: " BSH " = tanh %x\n%b: " BSH " = mul %a, %y\ngive %a, %b\n", 2, "map:2>2 "},
    {"a residual and its norm", "%a: " BSH " = add %x, %y\n" NORM "give %a, %o\n", 2, "row:3>2 "},
    {"softmax",
     "%m: " BS " = rmax %x {over=[h=128]}\n%d: " BSH " = sub %x, %m\n%e: " BSH " = exp %d\n"
     "%s: " BS " = sum %e {over=[h=128]}\n%r: " BSH " = div %e, %s\ngive %r\n",
     1, "row:1>1 "},
    {"the gradient of a gain: a norm in one kernel, the sum over rows computes again what it sums",
     "%a: " BSH " = copy %x\n" NORM "%t: " BSH " = mul %n, %y\n"
     "%c: f32[h=128] = sum %t {over=[b=16, s=64]}\ngive %o, %c\n",
     2, "row:2>2 col:3>1 "},
    {"two sums over the same rows read them once",
     "%t: " BSH " = mul %x, %y\n%a: f32[h=128] = sum %t {over=[b=16, s=64]}\n"
     "%b: f32[h=128] = sum %y {over=[b=16, s=64]}\ngive %a, %b\n",
     2, "col:2>2 "},
    {"a sum of everything",
     "%a: " BSH " = mul %x, %x\n%b: f64[b=16, s=64, h=128] = cast %a\n"
     "%c: f64[] = sum %b {over=[b=16, s=64, h=128]}\ngive %c\n",
     1, "col:1>1 "},
    {"what costs much and has fewer dims is a kernel of its own",
     "%a: f32[s=64] = exp %p\n%b: " BSH " = mul %x, %a\ngive %b\n", 1, "map:1>1 map:2>1 "},
    {"what costs little and has fewer dims is not",
     "%a: f32[s=64] = add %p, %p\n%b: " BSH " = mul %x, %a\ngive %b\n", 1, "map:2>1 "},
    {"nothing is fused around a product",
     "%a: " BSH " = tanh %x\n%d: f32[b=16, s=64, k=128] = dot %a, %w {over=[h=128]}\n"
     "%c: f32[b=16, s=64, k=128] = neg %d\n%s: " BSH " = mul %a, %y\ngive %c, %s\n",
     2, "map:2>2 dot map:1>1 "},
    {"a sum between two kernels keeps them apart; what is cheap is computed in both",
     "%a: " BSH " = abs %x\n%s: f32[h=128] = sum %a {over=[b=16, s=64]}\n%b: " BSH
     " = mul %a, %s\ngive %b\n",
     1, "col:1>1 map:2>1 "},
    {"and what is not is stored",
     "%a: " BSH " = tanh %x\n%s: f32[h=128] = sum %a {over=[b=16, s=64]}\n%b: " BSH
     " = mul %a, %s\ngive %b\n",
     1, "map:1>1 col:1>1 map:2>1 "},
    {"a cheap value is computed by both who need it",
     "%a: " BSH " = add %x, %g\n%b: " BSH " = mul %a, %y\n"
     "%d: f32[b=16, s=64, k=128] = dot %b, %w {over=[h=128]}\n"
     "%n: f32[b=16, s=64, k=128] = tanh %d\n%e: " BSH " = dot %n, %w {over=[k=128]}\n"
     "%c: " BSH " = mul %a, %e\ngive %c\n",
     1, "map:3>1 dot map:1>1 dot map:3>1 "},
    {"rotary angles",
     "%i: f32[s=64] = iota {dim=s=64}\n%j: f32[h=128] = iota {dim=h=128}\n"
     "%t: f32[s=64, h=128] = mul %i, %j\n%c: f32[s=64, h=128] = cos %t\n%n: f32[s=64, h=128] = sin "
     "%t\n%a: " BSH " = mul %x, %c\n%r: " BSH " = rotate %x {dim=h=128}\n%b: " BSH
     " = mul %r, %n\n%q: " BSH " = add %a, %b\ngive %q\n",
     1, "map:0>2 map:3>1 "},
    {"a sum over rows and elements is two",
     "%a: f32[s=64] = sum %x {over=[b=16, h=128]}\ngive %a\n", 1, "row:1>1 col:1>1 "},
    {"a maximum along an outer dim is of a turned copy",
     "%a: f32[s=64, h=128] = rmax %x {over=[b=16]}\ngive %a\n", 1, "map:1>1 row:1>1 "},
    {"constants that a product reads are in memory",
     "%z: f32[] = const {value=0.5}\n%c: f32[h=128] = copy %z\n"
     "%d: " BS " = dot %x, %c {over=[h=128]}\ngive %d\n",
     1, "map:0>1 dot "},
    {"a view stands between its operand and its readers",
     "%a: " BSH " = tanh %x\n%v: f32[b=16, s=64] = pick %a {dim=h=128, at=3}\n%b: " BS
     " = exp %v\ngive %b\n",
     1, "map:1>1 pick map:1>1 "},
    {"the same is computed once",
     "%a: " BSH " = tanh %x\n%b: " BSH " = tanh %x\n%c: " BSH " = mul %a, %y\n%d: " BSH
     " = mul %b, %y\ngive %c, %d\n",
     2, "map:2>1 "},
};

static void summarize(const Module *m, const Region *r, FILE *out)
{
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        if (ins->op == OP_fused)
            fprintf(out, "%s:%u>%u ", name_str(m->names, ins->attrs.kind), ins->nin, ins->nout);
        else
            fprintf(out, "%s ", op_info[ins->op].name);
    }
}

static void read_example(Model *t, const Example *e)
{
    char end[256] = "";
    for (int i = 0; i < e->results; i++)
        strcat(end, "result logits\n");
    model_open(t);
    read_text(t, head, e->body, end);
}

static void kernels(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t k = 0; k < sizeof examples / sizeof *examples; k++) {
        Model t;
        char *text;
        size_t size;
        read_example(&t, &examples[k]);
        must_pass(&t, pass_fuse);
        FILE *out = open_memstream(&text, &size);
        summarize(t.m, t.fn->body, out);
        fclose(out);
        if (strcmp(text, examples[k].kernels)) {
            print_error("%s:\n  wanted %s\n  got    %s\n", examples[k].what, examples[k].kernels,
                        text);
            wrong++;
        }
        free(text);
        model_close(&t);
    }
    assert_int_equal(wrong, 0);
}

/* Why two instructions are not one kernel can be read. */
static void reasons(void **state)
{
    (void)state;
    Model t;
    char *text;
    size_t size;
    const Example e = {.body = "%a: f32[s=64] = exp %p\n%b: " BSH " = mul %x, %a\n%c: " BSH
                               " = add %b, %y\ngive %c\n",
                       .results = 1};
    read_example(&t, &e);
    FILE *out = open_memstream(&text, &size);
    Arena *tmp = arena_new();
    fuse_module(t.m, tmp, out);
    fclose(out);
    assert_non_null(strstr(text, "apart: a value that costs something would be computed again"));
    assert_non_null(strstr(text, "): map\n"));
    free(text);
    arena_free(tmp);
    model_close(&t);
}

/* The update of a parameter reads and writes each tensor once, after the guard. */
static void optimizer(void **state)
{
    (void)state;
    Model t;
    model_open(&t);
    Dim i = dim_of(&t, "i", 300), j = dim_of(&t, "j", 200);
    Value x = add_param(&t, "x", TYPE(DT_f32, i, j), 0), y = add_param(&t, "y", TYPE(DT_f32, j), 0);
    Value z = build1(&t.b, OP_tanh, build2(&t.b, OP_mul, x, y));
    add_loss(&t, build_cast(&t.b, sum_all(&t.b, z), DT_f64));
    PassRun *const passes[] = {pass_precision, pass_recompute, pass_differentiate, pass_microbatch,
                               pass_update,    pass_simplify,  pass_products,      pass_fuse};
    for (size_t k = 0; k < sizeof passes / sizeof *passes; k++)
        must_pass(&t, passes[k]);
    bool guarded = false;
    int updates = 0;
    for (size_t k = 0; k < t.fn->body->ins.n; k++) {
        const Ins *ins = t.fn->body->ins.data[k];
        guarded |= ins->op == OP_guard;
        for (size_t r = 0; r < t.fn->results.n; r++)
            if (t.fn->results.data[r].role == RES_update &&
                t.fn->body->results.data[r] == ins->out[0]) {
                assert_true(guarded);
                assert_int_equal(ins->nout, 3); /* parameter and both moments */
                updates++;
            }
    }
    assert_int_equal(updates, 2);
    model_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels), cmocka_unit_test(reasons),
                                       cmocka_unit_test(optimizer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
