/* Transfers in two lanes: whatever their places and sizes, by several blocks at once or one after
 * the other, a file and memory are as if each transfer were done when it is begun, as long as those
 * that touch the same bytes are in one lane, or one is held behind the other. */
#include "unit.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/abi.h"
#include "runtime/transfers.h"

enum { BYTES = 3 << 20, TRANSFERS = 60 };

typedef struct range {
    int64_t memory, at, bytes;
} range;

static int file_of(int64_t bytes)
{
    const char *dir = getenv("TMPDIR");
    const int f = open(dir ? dir : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_true(f >= 0);
    assert_int_equal(ftruncate(f, bytes), 0);
    return f;
}

/* A third on whole blocks of the file, of those a half in memory too. */
static range random_range(uint64_t *seed)
{
    const int64_t whole = unit_random(seed) % 3 ? MG_DISK_BLOCK : 1;
    const int64_t lies = unit_random(seed) % 2 ? MG_DISK_BLOCK : 64;
    const int64_t most = unit_random(seed) % 2 ? BYTES : 20000;
    range r = {.bytes = (1 + (int64_t)(unit_random(seed) % (uint64_t)most)) / whole * whole};
    r.at = (int64_t)(unit_random(seed) % (uint64_t)(BYTES - r.bytes + 1)) / whole * whole;
    r.memory = (int64_t)(unit_random(seed) % (uint64_t)(BYTES - r.bytes + 1)) / lies * lies;
    return r;
}

static bool meet(int64_t a, int64_t b, const range *x, const range *y)
{
    return a < b + y->bytes && b < a + x->bytes;
}

/* Of the first `n` transfers of a lane every other one was noted: once, one after the other. */
static void check_notes(rt_transfers *t, int way, int n)
{
    rt_lane_time *all;
    int64_t end = 0;
    assert_true(rt_transfers_done(t, way, (uint64_t)n, -1));
    const int64_t noted = rt_transfers_notes(t, way, &all);
    assert_int_equal(noted, (n + 1) / 2);
    for (int64_t k = 0; k < noted; k++) {
        assert_int_equal(all[k].action, 2 * k + 1);
        assert_true(all[k].begin >= end && all[k].end >= all[k].begin);
        end = all[k].end;
    }
    free(all);
    assert_int_equal(rt_transfers_notes(t, way, &all), 0);
    free(all);
}

static void run_case(uint64_t seed)
{
    static char want_file[BYTES], want[BYTES], got[BYTES];
    char *memory = aligned_alloc(MG_DISK_BLOCK, BYTES);
    range done[RT_WAYS][TRANSFERS];
    int n[RT_WAYS] = {0};
    const int file = file_of(BYTES);
    rt_transfers *t = rt_transfers_open(file, ".");
    assert_non_null(memory);
    memset(want_file, 0, BYTES);
    for (int64_t i = 0; i < BYTES; i++)
        want[i] = memory[i] = (char)unit_random(&seed);
    for (int k = 0; k < TRANSFERS; k++) {
        const int way = (int)(unit_random(&seed) % RT_WAYS);
        const range r = random_range(&seed);
        uint64_t after = 0;
        for (int i = 0; i < n[!way]; i++) {
            const range *x = &done[!way][i];
            if (meet(r.at, x->at, &r, x) || meet(r.memory, x->memory, &r, x))
                after = (uint64_t)i + 1;
        }
        done[way][n[way]++] = r;
        const rt_transfer x = {memory + r.memory, r.at, r.bytes, after, n[way], n[way] % 2};
        assert_int_equal(rt_transfers_begin(t, way, &x), n[way]);
        assert_int_equal(rt_transfers_action(t, way, (uint64_t)n[way]), n[way]);
        assert_int_equal(rt_transfers_begun(t, way), n[way]);
        if (way == RT_IN)
            memcpy(want + r.memory, want_file + r.at, (size_t)r.bytes);
        else
            memcpy(want_file + r.at, want + r.memory, (size_t)r.bytes);
        if (unit_random(&seed) % 8 == 0)
            assert_true(rt_transfers_done(t, way, (uint64_t)n[way], -1));
    }
    for (int way = 0; way < RT_WAYS; way++)
        check_notes(t, way, n[way]);
    assert_int_equal(memcmp(memory, want, BYTES), 0);
    assert_int_equal(pread(file, got, BYTES, 0), BYTES);
    assert_int_equal(memcmp(got, want_file, BYTES), 0);
    rt_transfers_close(t);
    close(file);
    free(memory);
}

static void follow(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        if (seed % 2)
            setenv("MGC_NO_URING", "1", 1);
        else
            unsetenv("MGC_NO_URING");
        run_case(seed);
    }
    unsetenv("MGC_NO_URING");
}

/* A lane has room for so many; who begins more waits. Looking does not. */
static void many(void **state)
{
    (void)state;
    static char memory[64];
    const int file = file_of(64);
    rt_transfers *t = rt_transfers_open(file, ".");
    assert_true(rt_transfers_done(t, RT_IN, 0, 0));
    assert_false(rt_transfers_done(t, RT_IN, 1, 1000));
    for (uint64_t k = 1; k <= 1000; k++)
        assert_int_equal(
            rt_transfers_begin(t, RT_OUT, &(rt_transfer){.memory = memory, .bytes = 64}), k);
    assert_true(rt_transfers_done(t, RT_OUT, 1000, -1));
    assert_true(rt_transfers_done(t, RT_OUT, 1, 0));
    rt_transfers_close(t);
    close(file);
}

/* Bytes that a file has not: the program ends, in either way to read. */
static void short_file(void **state)
{
    (void)state;
    static const int64_t bytes[] = {64, MG_DISK_BLOCK};
    for (int k = 0; k < 2; k++) {
        int code;
        const pid_t child = fork();
        if (!child) {
            char *memory = aligned_alloc(MG_DISK_BLOCK, MG_DISK_BLOCK);
            rt_transfers *t = rt_transfers_open(file_of(2 * MG_DISK_BLOCK), "somewhere");
            fclose(stderr);
            const rt_transfer behind = {
                .memory = memory, .at = 2 * MG_DISK_BLOCK, .bytes = bytes[k]};
            rt_transfers_done(t, RT_IN, rt_transfers_begin(t, RT_IN, &behind), -1);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFEXITED(code));
        assert_int_equal(WEXITSTATUS(code), RT_IO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follow),
        cmocka_unit_test(many),
        cmocka_unit_test(short_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
