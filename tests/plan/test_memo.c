/* Results are remembered: found by their keys alone, also by processes that were begun before it
 * was kept; and regions that are fused from memory are those that are fused. */
#include "base/memo.h"
#include "passes/fuse/fuse.h"
#include "tests/plan/planned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 5000 };

enum { WORDS = 3 };

/* The words of a number's key, until the next is asked for. */
static MemoKey key_of(uint64_t number)
{
    static uint64_t words[WORDS];
    words[0] = 0x7e57;
    words[1] = number;
    words[2] = number ^ 1;
    return (MemoKey){words, WORDS};
}

static void keep_number(uint64_t number)
{
    const uint64_t bytes[] = {number, ~number};
    memo_keep(key_of(number), bytes, number % 2 ? sizeof bytes : 0);
}

static bool is_kept(uint64_t number)
{
    size_t n;
    const uint64_t *x = memo_find(key_of(number), &n);
    if (!x)
        return false;
    assert_int_equal(n, number % 2 ? 2 * sizeof *x : 0);
    assert_true(!n || (x[0] == number && x[1] == ~number));
    return true;
}

static void found_by_key(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < MANY; k++) {
        assert_false(is_kept(k));
        keep_number(k);
    }
    for (uint64_t k = 0; k < 2 * MANY; k++)
        assert_int_equal(is_kept(k), k < MANY);
}

/* Keys that differ in the order of words, their number or one bit find what was kept with them, and
 * nothing before. */
static void words_count(void **state)
{
    (void)state;
    enum { LONG = 4, BITS = 64 * LONG, KEYS = BITS + LONG + 2 };
    uint64_t key[KEYS][LONG] = {{0}};
    size_t length[KEYS];
    int n = 0;
    for (size_t k = 0; k <= LONG; k++)
        length[n++] = k;
    for (int k = 0; k < BITS; k++) {
        key[n][k / 64] = (uint64_t)1 << k % 64;
        length[n++] = LONG;
    }
    key[n][0] = 2;
    key[n][1] = 1;
    length[n++] = LONG;
    assert_int_equal(n, KEYS);
    for (int k = 0; k < n; k++) {
        size_t bytes;
        assert_null(memo_find((MemoKey){key[k], length[k]}, &bytes));
        memo_keep((MemoKey){key[k], length[k]}, &k, sizeof k);
    }
    for (int k = 0; k < n; k++) {
        size_t bytes;
        const int *found = memo_find((MemoKey){key[k], length[k]}, &bytes);
        assert_true(found && bytes == sizeof k && *found == k);
    }
}

/* Several keep at once, each its own numbers, and this process finds all of them. */
static void by_others(void **state)
{
    (void)state;
    enum { PROCESSES = 4 };
    memo_share();
    pid_t pid[PROCESSES];
    for (uint64_t p = 0; p < PROCESSES; p++) {
        pid[p] = fork();
        assert_true(pid[p] >= 0);
        for (uint64_t k = 0; !pid[p] && k < MANY; k++)
            keep_number(MANY * (10 + p) + k);
        if (!pid[p])
            _exit(0);
    }
    for (int p = 0; p < PROCESSES; p++)
        assert_int_equal(waitpid(pid[p], NULL, 0), pid[p]);
    for (uint64_t k = 0; k < PROCESSES * MANY; k++)
        assert_true(is_kept(MANY * 10 + k));
}

static void without_room(void **state)
{
    (void)state;
    const size_t large = (size_t)1 << 22;
    unsigned char *bytes = calloc(1, large);
    size_t n;
    int kept = 0;
    for (uint64_t k = 0; k < 64; k++) {
        memo_keep(key_of(~k), bytes, large);
        kept += memo_find(key_of(~k), &n) != NULL;
    }
    assert_true(kept > 2 && kept < 64);
    assert_true(is_kept(1));
    free(bytes);
}

static char *text_of(const Module *m)
{
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    ir_print(m, out);
    fclose(out);
    return text;
}

/* A program is fused, with what was decided told, for which nothing is remembered; and twice
 * without, the second time from memory. */
static void fused_alike(void **state)
{
    (void)state;
    for (int k = 0; k < small_model_count; k++) {
        Model t;
        open_model(&t, &small_models[k], k % 2 ? DT_bf16 : DT_f32);
        must_make(&t, NULL, "simplify", "assemble");
        FILE *nowhere = fopen("/dev/null", "w");
        char *text[3];
        for (int turn = 0; turn < 3; turn++) {
            Module *m = module_copy(t.m, NULL, t.m->diag, t.a);
            Arena *tmp = arena_new();
            fuse_module(m, tmp, turn ? NULL : nowhere);
            text[turn] = text_of(m);
            arena_free(tmp);
        }
        assert_string_equal(text[1], text[0]);
        assert_string_equal(text[2], text[0]);
        for (int turn = 0; turn < 3; turn++)
            free(text[turn]);
        fclose(nowhere);
        model_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] =
        {
            cmocka_unit_test(found_by_key), cmocka_unit_test(words_count),
            cmocka_unit_test(by_others),    cmocka_unit_test(fused_alike),
            cmocka_unit_test(without_room), /* the last: nothing is remembered behind it */
        };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
