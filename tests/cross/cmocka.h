/* cmocka.h - the part of cmocka that the tests of kernels and runtime use, as one header. Debian
 * has cmocka for another architecture only together with that architecture's package lists; a cross
 * build therefore includes this file in its place. Its users include <setjmp.h> and others first,
 * as cmocka's do. */
#ifndef TEST_CROSS_CMOCKA_H
#define TEST_CROSS_CMOCKA_H

#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

enum { CROSS_FAILED = 1, CROSS_SKIPPED };
static jmp_buf cross_leave;
static const char *cross_only, *cross_without;

#define cmocka_unit_test(f)          {#f, f}
#define cmocka_set_test_filter(glob) (cross_only = (glob))
#define cmocka_set_skip_filter(glob) (cross_without = (glob))
#define cmocka_run_group_tests(t, setup, teardown)                                                 \
    cross_run_all(t, sizeof(t) / sizeof *(t), setup, teardown)
#define cmocka_run_group_tests_name(name, t, setup, teardown)                                      \
    cmocka_run_group_tests(t, setup, teardown)

#define print_message(...) ((void)printf(__VA_ARGS__), (void)fflush(stdout))
#define skip()             longjmp(cross_leave, CROSS_SKIPPED)
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        printf("%s:%d: ", __FILE__, __LINE__);                                                     \
        printf(__VA_ARGS__);                                                                       \
        putchar('\n');                                                                             \
        longjmp(cross_leave, CROSS_FAILED);                                                        \
    } while (0)
#define fail() fail_msg("failed")

#define cross_must(good, text)                                                                     \
    do {                                                                                           \
        if (!(good))                                                                               \
            fail_msg("%s", text);                                                                  \
    } while (0)
#define assert_true(x)                   cross_must(x, "is false: " #x)
#define assert_false(x)                  cross_must(!(x), "is true: " #x)
#define assert_null(p)                   cross_must((p) == NULL, "is not NULL: " #p)
#define assert_non_null(p)               cross_must((p) != NULL, "is NULL: " #p)
#define assert_ptr_equal(a, b)           cross_must((const void *)(a) == (const void *)(b), #a " is not " #b)
#define assert_string_equal(a, b)        cross_same_text(__FILE__, __LINE__, a, b)
#define assert_memory_equal(a, b, n)     cross_must(!memcmp(a, b, n), #a " differs from " #b)
#define assert_memory_not_equal(a, b, n) cross_must(memcmp(a, b, n), #a " is like " #b)
#define assert_in_range(x, least, most)                                                            \
    cross_must((uintmax_t)(x) >= (uintmax_t)(least) && (uintmax_t)(x) <= (uintmax_t)(most),        \
               #x " is outside")
#define assert_float_equal(a, b, by)                                                               \
    do {                                                                                           \
        const double cross_a = (double)(a), cross_b = (double)(b);                                 \
        if (!(cross_a - cross_b <= (double)(by) && cross_b - cross_a <= (double)(by)))             \
            fail_msg("%s is %.9g, not %.9g", #a, cross_a, cross_b);                                \
    } while (0)
#define assert_int_equal(a, b)                                                                     \
    do {                                                                                           \
        const long long cross_a = (long long)(a), cross_b = (long long)(b);                        \
        if (cross_a != cross_b)                                                                    \
            fail_msg("%s is %lld (0x%llx), not %lld (0x%llx)", #a, cross_a,                        \
                     (unsigned long long)cross_a, cross_b, (unsigned long long)cross_b);           \
    } while (0)

static inline void cross_same_text(const char *file, int line, const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return;
    printf("%s:%d: \"%s\" is not \"%s\"\n", file, line, a, b);
    longjmp(cross_leave, CROSS_FAILED);
}

static inline int cross_run(const struct CMUnitTest *t, void **state)
{
    const int left = setjmp(cross_leave);
    if (!left)
        t->run(state);
    printf("%s %s\n", left == CROSS_FAILED ? "FAILED" : left ? "SKIPPED" : "OK", t->name);
    fflush(stdout);
    return left == CROSS_FAILED;
}

/* Returns the number of tests that failed, or 255 if no test ran. */
static inline int cross_run_all(const struct CMUnitTest *t, size_t n, int (*setup)(void **state),
                                int (*teardown)(void **state))
{
    void *state = NULL;
    int failed = 0, ran = 0;
    if (setup && setup(&state)) {
        printf("the tests could not be set up\n");
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        if ((cross_only && fnmatch(cross_only, t[i].name, 0)) ||
            (cross_without && !fnmatch(cross_without, t[i].name, 0)))
            continue;
        failed += cross_run(&t[i], &state);
        ran++;
    }
    if (teardown && teardown(&state))
        failed++;
    printf("%d tests, %d failed\n", ran, failed);
    return ran ? failed : 255;
}

#endif
