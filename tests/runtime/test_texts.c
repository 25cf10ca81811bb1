/* A text that becomes another one: what the caches hold of it stays where it is how the new one
 * begins, and where some of that is left to be computed. */
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

/* It becomes n tokens, as they were but for number `changed`. */
static void becomes(int64_t from, int64_t known, int64_t n, int64_t changed, int64_t stays)
{
    rt_text t = text(10, from, known);
    int32_t next[32];
    for (int64_t i = 0; i < n; i++)
        next[i] = (int32_t)(i == changed ? 99 : i);
    rt_text_become(&t, next, n);
    assert_int_equal(t.n, n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(t.token[i], next[i]);
    assert_int_equal(t.known, stays);
    assert_int_equal(t.from, stays ? from : 0);
    assert_false(t.done);
    rt_text_free(&t);
}

static void test_becomes(void **state)
{
    (void)state;
    becomes(0, 9, 20, -1, 9); /* goes on */
    becomes(0, 9, 20, 9, 9);  /* the last one was chosen, and is not in the caches */
    becomes(0, 9, 20, 8, 0);  /* rewritten */
    becomes(0, 9, 20, 0, 0);
    becomes(0, 9, 10, -1, 9); /* the same: its last token is computed */
    becomes(0, 9, 9, -1, 0);  /* nothing would be left to compute */
    becomes(0, 9, 5, -1, 0);  /* shorter */
    becomes(0, 0, 4, -1, 0);  /* nothing is in the caches */
    becomes(4, 5, 20, -1, 5); /* the first ones were lost for want of room */
    becomes(4, 5, 20, 2, 0);  /* and one of them is another */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_becomes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
