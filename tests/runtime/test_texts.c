/* A text that becomes another one: what the caches hold of it stays where it is how the new one
 * begins, and where some of that is left to be computed; or is cut back to what is the same. */
#include "unit.h"

#include "runtime/sample.h"

/* Tokens 0, 1, ..., of which the caches have some from `from` on. */
static rt_text text(int64_t n, int64_t from, int64_t known)
{
    rt_text t = {0};
    for (int64_t i = 0; i < n; i++)
        rt_text_push(&t, (int32_t)i);
    t.from = from;
    t.known = known;
    t.done = true;
    return t;
}

/* It becomes n tokens, as they were but for number `changed`, in a program whose caches can be cut
 * back to any of `cuts` tokens. */
static void becomes(int64_t cuts, int64_t from, int64_t known, int64_t n, int64_t changed,
                    int64_t stays)
{
    const mg_program program = {.cuts = cuts};
    rt_text t = text(10, from, known);
    int32_t next[32];
    for (int64_t i = 0; i < n; i++)
        next[i] = (int32_t)(i == changed ? 99 : i);
    rt_text_become(&t, &program, next, n);
    assert_int_equal(t.n, n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(t.token[i], next[i]);
    assert_int_equal(t.known, stays);
    assert_int_equal(t.from, stays ? from : 0);
    assert_false(t.done);
    rt_text_free(&t);
}

/* Of states, and of rings that are shorter than the text. */
static void test_all_or_nothing(void **state)
{
    (void)state;
    for (int64_t cuts = 0; cuts < 9; cuts += 4) {
        becomes(cuts, 0, 9, 20, -1, 9); /* goes on */
        becomes(cuts, 0, 9, 20, 9, 9);  /* the last one was chosen, and is not in the caches */
        becomes(cuts, 0, 9, 20, 8, 0);  /* rewritten */
        becomes(cuts, 0, 9, 20, 0, 0);
        becomes(cuts, 0, 9, 10, -1, 9); /* the same: its last token is computed */
        becomes(cuts, 0, 9, 9, -1, 0);  /* nothing would be left to compute */
        becomes(cuts, 0, 9, 5, -1, 0);  /* shorter */
        becomes(cuts, 0, 0, 4, -1, 0);  /* nothing is in the caches */
        becomes(cuts, 4, 5, 20, -1, 5); /* the first ones were lost for want of room */
        becomes(cuts, 4, 5, 20, 2, 0);  /* and one of them is another */
    }
}

static void test_cut(void **state)
{
    (void)state;
    for (int64_t cuts = 9; cuts < 99; cuts += 80) {
        becomes(cuts, 0, 9, 20, -1, 9);
        becomes(cuts, 0, 9, 20, 9, 9);
        becomes(cuts, 0, 9, 20, 8, 8); /* up to what is rewritten */
        becomes(cuts, 0, 9, 20, 1, 1);
        becomes(cuts, 0, 9, 20, 0, 0);
        becomes(cuts, 0, 9, 10, -1, 9);
        becomes(cuts, 0, 9, 9, -1, 8); /* its last token is computed again, for what follows it */
        becomes(cuts, 0, 9, 5, -1, 4);
        becomes(cuts, 0, 9, 1, -1, 0);
        becomes(cuts, 0, 0, 4, -1, 0);
        becomes(cuts, 4, 5, 20, -1, 5);
        becomes(cuts, 4, 5, 20, 2, 0);
        becomes(cuts, 4, 5, 20, 7, 0); /* positions do not begin at its first token */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_or_nothing),
                                       cmocka_unit_test(test_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
