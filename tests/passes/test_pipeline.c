/* The table of passes and its runner; precision. */
#include "tests/passes/model.h"
#include "grammar/grammar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct Seen {
    char text[256];
} Seen;

static void note(void *ctx, const char *pass, const Job *j)
{
    Seen *s = ctx;
    assert_non_null(j->m);
    strcat(strcat(s->text, pass), " ");
}

typedef struct Outcome {
    PassStatus status;
    char *log;
    size_t size;
    Seen seen;
} Outcome;

static Outcome run_range(Model *t, const char *from, const char *until)
{
    Outcome o = {0};
    Job j = {.m = t->m, .log = open_memstream(&o.log, &o.size)};
    PassRange range = {.from = from, .until = until, .after = note, .ctx = &o.seen};
    o.status = passes_run(&j, &range);
    fclose(j.log);
    return o;
}

static void whole(void **state)
{
    (void)state;
    Model t;
    model_open(&t);
    random_model(&t, 4);
    t.m->layout.microbatch = 2;
    Outcome o = run_range(&t, NULL, "simplify");
    assert_int_equal(o.status, PASS_ok);
    assert_string_equal(
        o.seen.text,
        "attention evaluate generate chunk precision weights_first pad_gradients send_rows "
        "recompute differentiate sink distribute microbatch pad_state update base narrow round "
        "weigh quantize shard simplify ");
    free(o.log);
    model_close(&t);
}

/* The module's text; or without the names of values, which a reader of text takes as they were made
 * unique. */
static char *printed(const Model *t, bool names)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    ir_print(t->m, f);
    fclose(f);
    char *to = text;
    for (const char *p = text; *p;) {
        *to++ = *p;
        p += *p == '%' && !names ? 1 + strcspn(p + 1, " :,\n") : 1;
    }
    *to = 0;
    return text;
}

/* Stopping after a pass and going on with the next gives the same program as not stopping. */
static void stop_and_go_on(void **state)
{
    (void)state;
    Model t, u;
    model_open(&t);
    random_model(&t, 5);
    free(run_range(&t, NULL, "simplify").log);
    model_open(&u);
    random_model(&u, 5);
    Outcome first = run_range(&u, NULL, "differentiate");
    char *half = printed(&u, true);
    uint32_t file = diag_add_file(u.m->diag, "half.mgir", half, strlen(half));
    u.m = ir_parse(u.a, u.m->names, u.m->diag, file);
    assert_non_null(u.m);
    u.m->update_rule = mg_update_rule;
    Outcome second = run_range(&u, "microbatch", "simplify");
    assert_int_equal(second.status, PASS_ok);
    assert_string_equal(
        second.seen.text,
        "microbatch pad_state update base narrow round weigh quantize shard simplify ");
    char *a = printed(&t, false), *b = printed(&u, false);
    assert_string_equal(a, b);
    free(a);
    free(b);
    free(half);
    free(first.log);
    free(second.log);
    model_close(&t);
    model_close(&u);
}

static void unknown(void **state)
{
    (void)state;
    Model t;
    model_open(&t);
    Outcome o = run_range(&t, "differenciate", NULL);
    assert_int_equal(o.status, PASS_broken);
    assert_non_null(strstr(o.log, "no pass is called 'differenciate'"));
    free(o.log);
    assert_int_equal(pass_find("simplify"), PASS_ID_simplify);
    assert_int_equal(pass_find("simplif"), -1);
    model_close(&t);
}

/* A module that breaks an invariant is reported as mgc's fault, with the pass's name. */
static void broken(void **state)
{
    (void)state;
    Model t;
    model_open(&t);
    random_model(&t, 6);
    const Ins *i = t.fn->body->ins.data[1];
    t.m->values.data[i->out[0]].type.dtype = DT_bool;
    Outcome o = run_range(&t, "precision", "precision");
    assert_int_equal(o.status, PASS_broken);
    assert_non_null(strstr(o.log, "do not hold after pass 'precision'"));
    assert_string_equal(o.seen.text, "");
    free(o.log);
    model_close(&t);
}

/* In the order of the table every pass finds what it needs, and each pass says what it does. */
static void table(void **state)
{
    (void)state;
    uint64_t holds = 0;
    for (int i = 0; i < PASS_count; i++) {
        assert_int_equal(pass_info[i].needs & ~holds, 0);
        holds = (holds & pass_info[i].keeps) | (uint64_t)1 << i;
        assert_true(strlen(pass_info[i].summary) > 10);
    }
}

/* The interpreter in double is f64: rounding to float after each op is all that differs. */
static void precision_means(void **state)
{
    (void)state;
    Model t, u;
    model_open(&t);
    model_open(&u);
    random_model(&t, 8);
    random_model(&u, 8);
    u.m->train.compute = DT_f64;
    must_pass(&t, pass_precision);
    must_pass(&u, pass_precision);
    Tensor64 *args = inputs_for(&t, t.fn, 1, -1, 1), *x = run_fn(&t, t.fn, args);
    Tensor64 *y = NEW_ARRAY(u.a, Tensor64, 1), *z = NEW_ARRAY(u.a, Tensor64, 1);
    Tensor64 *wide = inputs_for(&u, u.fn, 1, -1, 1);
    ir_interpret(u.m, u.fn, wide, y, u.a, true);
    ir_interpret(t.m, t.fn, args, z, u.a, true);
    assert_true(difference(x, y) == 0);
    double rounded = difference(x, z);
    assert_true(rounded > 0 && rounded < 1e-4);
    model_close(&t);
    model_close(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),   cmocka_unit_test(stop_and_go_on),
        cmocka_unit_test(unknown), cmocka_unit_test(broken),
        cmocka_unit_test(table),   cmocka_unit_test(precision_means)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
