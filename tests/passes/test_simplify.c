/* simplify, rule by rule: the body of a function before and after, as text. That no number changes
 * is the business of test_gradient. */
#include "tests/passes/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TENSOR(name, at, dims, rank, order, merge)                                                 \
    "tensor \"" name "\" f32[" dims "] external \"" name "\" slot \"\" of " at                     \
    " stacked 0 valid [" rank "] order [" order "] merge [" merge                                  \
    "] init const 0 0 decay 0 rate 1\n"

static const char head[] =
    "mgir 1\nmodel \"\" source \"\"\nbatch b=2 seq s=2 vocab 7\n"
    "train adamw beta1 0.9 beta2 0.95 eps 1e-08 momentum 0.9 power 0 threshold 0 clip 1 peak 0 "
    "floor 0 "
    "lr constant warmup 0 steps 0 last 0 linear compute f32\n"
    "layout \"\" device \"\" microbatch 2 recompute auto assert_peak 0\n" TENSOR(
        "x", "0", "i=4, j=3", "4, 3", "0, 1", "1, 1") TENSOR("y", "1", "j=3", "3", "0", "1")
        TENSOR("w", "2", "l=2, i=4, j=3", "2, 4, 3", "0, 1, 2",
               "1, 1, 1") "fn @sample {\n"
                          "role param \"x\"\nrole param \"y\"\nrole param \"w\"\n"
                          "arg %x: f32[i=4, j=3]\narg %y: f32[j=3]\narg %w: f32[l=2, i=4, j=3]\n";

#define X "f32[i=4, j=3]"

static const Rewrite rewrites[] = {
    {"constants are folded",
     "%a: f32[] = const {value=2}\n%b: f32[] = const {value=3}\n%c: f32[] = mul %a, %b\n"
     "%d: f32[] = exp %c\n%e: f32[] = log %d\n%f: " X " = mul %x, %e\ngive %f\n",
     "%const: f32[] = const {value=6}\n%f: " X " = mul %x, %const\ngive %f\n"},
    {"x * 1, x + 0, x - 0, x / 1, x ^ 1",
     "%o: f32[] = const {value=1}\n%z: f32[] = const {value=0}\n%zz: " X " = copy %z\n"
     "%a: " X " = mul %o, %x\n%b: " X " = add %a, %zz\n%c: " X " = sub %b, %z\n"
     "%d: " X " = div %c, %o\n%e: " X " = pow %d, %o\n%f: " X " = exp %e\ngive %f\n",
     "%f: " X " = exp %x\ngive %f\n"},
    {"x * 0 is not 0", "%z: f32[] = const {value=0}\n%a: " X " = mul %x, %z\ngive %a\n",
     "%z: f32[] = const {value=0}\n%a: " X " = mul %x, %z\ngive %a\n"},
    {"signs",
     "%m: f32[] = const {value=-1}\n%a: " X " = mul %x, %m\n%b: " X " = neg %a\n"
     "%c: " X " = neg %b\n%d: " X " = add %b, %c\n%e: " X " = sub %d, %c\ngive %e\n",
     "%d: " X " = sub %x, %x\n%e: " X " = add %d, %x\ngive %e\n"},
    {"a sum of negatives", "%a: " X " = neg %x\n%b: f32[i=4] = sum %a {over=[j=3]}\ngive %b\n",
     "%sum: f32[i=4] = sum %x {over=[j=3]}\n%b: f32[i=4] = neg %sum\ngive %b\n"},
    {"a broadcast that nothing else makes stays a copy",
     "%z: f32[] = const {value=0}\n%zz: " X " = copy %z\n%a: " X " = add %y, %zz\ngive %a\n",
     "%a: " X " = copy %y\ngive %a\n"},
    {"copies are read through",
     "%a: " X " = copy %y\n%b: f32[j=3, i=4] = copy %a\n%c: " X " = mul %x, %b\ngive %c\n",
     "%c: " X " = mul %x, %y\ngive %c\n"},
    {"casts there and back",
     "%a: f64[i=4, j=3] = cast %x\n%b: " X " = cast %a\n%c: " X " = exp %b\ngive %c\n",
     "%c: " X " = exp %x\ngive %c\n"},
    {"a cast that loses bits stays",
     "%a: f64[i=4, j=3] = cast %x\n%p: f64[i=4, j=3] = exp %a\n%b: " X " = cast %p\n"
     "%c: f64[i=4, j=3] = cast %b\ngive %c\n",
     "%a: f64[i=4, j=3] = cast %x\n%p: f64[i=4, j=3] = exp %a\n%b: " X " = cast %p\n"
     "%c: f64[i=4, j=3] = cast %b\ngive %c\n"},
    {"the same is computed once",
     "%a: " X " = exp %x\n%b: " X " = exp %x\n%c: " X " = add %a, %b\ngive %c\n",
     "%a: " X " = exp %x\n%c: " X " = add %a, %a\ngive %c\n"},
    {"but not in forward and backward",
     "%a: " X " = exp %x\n%b: " X " = exp %x backward\n%d: " X " = exp %x backward\n"
     "%c: " X " = add %a, %b\n%e: " X " = add %c, %d\ngive %e\n",
     "%a: " X " = exp %x\n%b: " X " = exp %x backward\n%c: " X " = add %a, %b\n"
     "%e: " X " = add %c, %b\ngive %e\n"},
    {"attributes count",
     "%a: f32[i=4] = pick %x {dim=j=3, at=0}\n%b: f32[i=4] = pick %x {dim=j=3, at=1}\n"
     "%c: f32[i=4] = add %a, %b\ngive %c\n",
     "%a: f32[i=4] = pick %x {dim=j=3, at=0}\n%b: f32[i=4] = pick %x {dim=j=3, at=1}\n"
     "%c: f32[i=4] = add %a, %b\ngive %c\n"},
    {"random numbers are told apart by their key",
     "%s: i64[] = const {value=1}\n%k: i32[] = const {value=0}\n"
     "%a: f32[j=3] = random %s, %s, %k {key=\"a\"}\n%b: f32[j=3] = random %s, %s, %k {key=\"b\"}\n"
     "%d: f32[j=3] = random %s, %s, %k {key=\"a\"}\n%c: f32[j=3] = add %a, %b\n"
     "%e: f32[j=3] = add %c, %d\ngive %e\n",
     "%s: i64[] = const {value=1}\n%k: i32[] = const {value=0}\n"
     "%a: f32[j=3] = random %s, %s, %k {key=\"a\"}\n"
     "%b: f32[j=3] = random %s, %s, %k {key=\"b\"}\n"
     "%c: f32[j=3] = add %a, %b\n%e: f32[j=3] = add %c, %a\n"
     "give %e\n"},
    {"what is carried round unchanged is an outer value; unused results go",
     "%r: " X ", %u: f32[j=3], %q: f32[l=2, i=4, j=3] = repeat %x, %y, %w "
     "{dim=l=2, carried=2, reverse=no} {\n"
     "arg %a: " X "\narg %b: f32[j=3]\narg %s: " X "\narg %n: i32[]\n"
     "%c: " X " = add %a, %b\n%t: " X " = exp %s\ngive %c, %b, %t\n}\ngive %r\n",
     "%r: " X " = repeat %x {dim=l=2, carried=1, reverse=no} {\n"
     "arg %a: " X "\narg %n: i32[]\n%c: " X " = add %a, %y\ngive %c\n}\ngive %r\n"},
    {"sums are made in place",
     "%a: f32[j=3] = exp %y backward\n%p: f32[j=3] = dot %x, %x {over=[i=4]} backward\n"
     "%b: f32[j=3] = add %a, %p backward\ngive %b\n",
     "%a: f32[j=3] = exp %y backward\n%p: f32[j=3] = dot %x, %x, %a {over=[i=4]} backward\n"
     "give %p\n"},
    {"but not forward, and not if the sum comes first",
     "%p: f32[j=3] = dot %x, %x {over=[i=4]} backward\n%a: f32[j=3] = exp %y backward\n"
     "%b: f32[j=3] = add %a, %p backward\n%c: f32[j=3] = add %y, %b\ngive %c\n",
     "%p: f32[j=3] = dot %x, %x {over=[i=4]} backward\n%a: f32[j=3] = exp %y backward\n"
     "%b: f32[j=3] = add %a, %p backward\n%c: f32[j=3] = add %y, %b\ngive %c\n"},
    {"nor if the product is wanted by itself",
     "%a: f32[j=3] = exp %y backward\n%p: f32[j=3] = dot %x, %x {over=[i=4]} backward\n"
     "%b: f32[j=3] = add %a, %p backward\n%c: f32[j=3] = mul %b, %p\ngive %c\n",
     "%a: f32[j=3] = exp %y backward\n%p: f32[j=3] = dot %x, %x {over=[i=4]} backward\n"
     "%b: f32[j=3] = add %a, %p backward\n%c: f32[j=3] = mul %b, %p\ngive %c\n"},
    {"nor if what it is added to lives on",
     "%a: f32[j=3] = exp %y backward\n%p: f32[j=3] = dot %x, %x {over=[i=4]} backward\n"
     "%b: f32[j=3] = add %a, %p backward\n%c: f32[j=3] = mul %b, %a\ngive %c\n",
     "%a: f32[j=3] = exp %y backward\n%p: f32[j=3] = dot %x, %x {over=[i=4]} backward\n"
     "%b: f32[j=3] = add %a, %p backward\n%c: f32[j=3] = mul %b, %a\ngive %c\n"},
    {"the sum of a loop starts from what it is added to",
     "%e: " X " = exp %x backward\n%z: f32[] = const {value=0}\n%f: " X " = copy %z backward\n"
     "%r: " X " = repeat %f, %w {dim=l=2, carried=1, reverse=yes} backward {\n"
     "arg %a: " X "\narg %s: " X "\narg %n: i32[]\n"
     "%o: " X " = add %a, %s backward\ngive %o\n}\n"
     "%b: " X " = add %e, %r backward\ngive %b\n",
     "%e: " X " = exp %x backward\n"
     "%r: " X " = repeat %e, %w {dim=l=2, carried=1, reverse=yes} backward {\n"
     "arg %a: " X "\narg %s: " X "\narg %n: i32[]\n"
     "%o: " X " = add %a, %s backward\ngive %o\n}\ngive %r\n"},
    {"but not if the loop looks at the sum",
     "%e: " X " = exp %x backward\n%z: f32[] = const {value=0}\n%f: " X " = copy %z backward\n"
     "%r: " X " = repeat %f, %w {dim=l=2, carried=1, reverse=yes} backward {\n"
     "arg %a: " X "\narg %s: " X "\narg %n: i32[]\n%t: " X " = mul %s, %a backward\n"
     "%o: " X " = add %a, %t backward\ngive %o\n}\n"
     "%b: " X " = add %e, %r backward\ngive %b\n",
     "%e: " X " = exp %x backward\n%z: f32[] = const {value=0}\n%f: " X " = copy %z backward\n"
     "%r: " X " = repeat %f, %w {dim=l=2, carried=1, reverse=yes} backward {\n"
     "arg %a: " X "\narg %s: " X "\narg %n: i32[]\n%t: " X " = mul %s, %a backward\n"
     "%o: " X " = add %a, %t backward\ngive %o\n}\n"
     "%b: " X " = add %e, %r backward\ngive %b\n"},
    {"what a loop stacks is added to slice by slice",
     "%e: f32[l=2, i=4, j=3] = exp %w backward\n"
     "%r: f32[l=2, i=4, j=3] = repeat %w {dim=l=2, carried=0, reverse=yes} backward {\n"
     "arg %s: " X "\narg %n: i32[]\n%o: " X " = sin %s backward\ngive %o\n}\n"
     "%b: f32[l=2, i=4, j=3] = add %r, %e backward\ngive %b\n",
     "%e: f32[l=2, i=4, j=3] = exp %w backward\n"
     "%r: f32[l=2, i=4, j=3] = repeat %w, %e {dim=l=2, carried=0, reverse=yes} backward {\n"
     "arg %s: " X "\narg %e.1: " X "\narg %n: i32[]\n%o: " X " = sin %s backward\n"
     "%add: " X " = add %e.1, %o backward\ngive %add\n}\ngive %r\n"},
    {"fills are not shared",
     "%z: f32[] = const {value=0}\n%a: f32[j=3] = copy %z\n%b: f32[j=3] = copy %z\ngive %a, %b\n",

     "%z: f32[] = const {value=0}\n"
     "%a: f32[j=3] = copy %z\n"
     "%b: f32[j=3] = copy %z\n"
     "give %a, %b\n"},
};

/* The rotary angles of a loop over layers, with a mask that is cheap. */
static const Rewrite table = {
    "tables leave the loop, masks stay",
    "%r: " X " = repeat %x, %w {dim=l=2, carried=1, reverse=no} {\n"
    "arg %a: " X "\narg %s: " X "\narg %n: i32[]\n"
    "%p: f32[i=4] = iota {dim=i=4}\n%c: f32[i=4] = cos %p\n%d: f32[i=4] = cos %p backward\n"
    "%h: f32[] = const {value=2}\n%m: bool[i=4] = lt %p, %h\n"
    "%t: " X " = mul %s, %c\n%u: " X " = add %t, %d\n%o: " X " = select %m, %u, %a\n"
    "give %o\n}\ngive %r\n",
    "%p: f32[i=4] = iota {dim=i=4}\n%c: f32[i=4] = cos %p\n"
    "%r: " X " = repeat %x, %w {dim=l=2, carried=1, reverse=no} {\n"
    "arg %a: " X "\narg %s: " X "\narg %n: i32[]\n"
    "%p.1: f32[i=4] = iota {dim=i=4}\n%h: f32[] = const {value=2}\n"
    "%m: bool[i=4] = lt %p.1, %h\n%t: " X " = mul %s, %c\n%u: " X " = add %t, %c\n"
    "%o: " X " = select %m, %u, %a\ngive %o\n}\ngive %r\n"};

/* `result logits` for each value the function gives. */
static const char *results_of(const char *body)
{
    const char *give = strstr(body, "\ngive %");
    for (const char *next = give; next; next = strstr(next + 1, "\ngive %"))
        give = next; /* the function's own is the last */
    return strchr(give, ',') ? "result logits\nresult logits\n" : "result logits\n";
}

static bool holds(const Rewrite *r)
{
    static PassRun *const passes[] = {pass_simplify, NULL};
    return rewrites_to(r, head, results_of(r->before), "arg %w", passes);
}

static void rules(void **state)
{
    (void)state;
    bool all = holds(&table);
    for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++)
        all &= holds(&rewrites[i]);
    assert_true(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
