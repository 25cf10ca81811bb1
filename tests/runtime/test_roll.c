/* Words between members and their coordinator: they come whole and in order, and nothing else is
 * believed: other secrets, jobs, sizes and versions, words that were changed, said again or said by
 * this end itself, rubbish, and halves. */
#include "unit.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/elastic/roll.h"

static const rt_roll_party party = {
    .secret = "0123456789abcde", .job = 7, .member = 2, .members = 4};

/* Two ends of one connection; the second is the coordinator's. */
static void connect_them(int fd[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
}

/* Hears until there is a word, or nothing more. */
static int hear(rt_roll_line *l, const rt_roll_party *p, rt_roll_word *w, const char **why)
{
    int came = 0;
    for (int i = 0; i < 3 && !came; i++)
        came = rt_roll_hear(l, p, w, why);
    return came;
}

static rt_roll_word word_of(int64_t step)
{
    rt_roll_word w = {.kind = RT_ROLL_STATE, .step = step, .generation = 3, .cause = "a cause"};
    w.doors[MG_RANKS_MAX - 1].port = 99;
    return w;
}

static void words(void **state)
{
    int fd[2];
    rt_roll_line a, b;
    rt_roll_word w, want;
    const char *why;
    (void)state;
    connect_them(fd);
    rt_roll_open(&a, &party, fd[0], true);
    rt_roll_open(&b, &party, fd[1], false);
    want = word_of(1);
    assert_false(rt_roll_say(&a, &party, &want)); /* it does not know to whom */
    rt_roll_close(&a), rt_roll_close(&b);
    connect_them(fd);
    rt_roll_open(&a, &party, fd[0], true);
    rt_roll_open(&b, &party, fd[1], false);
    assert_int_equal(hear(&a, &party, &w, &why), 0);
    assert_int_equal(hear(&b, &party, &w, &why), 0);
    assert_int_equal(b.theirs.member, 2);
    for (int i = 0; i < 5; i++) {
        want = word_of(i);
        assert_true(rt_roll_say(i % 2 ? &b : &a, &party, &want));
        assert_int_equal(hear(i % 2 ? &a : &b, &party, &w, &why), 1);
        assert_memory_equal(&w, &want, sizeof w);
        assert_int_equal(hear(i % 2 ? &a : &b, &party, &w, &why), 0);
    }
    rt_roll_close(&a);
    assert_int_equal(hear(&b, &party, &w, &why), -1);
    assert_null(why);
    rt_roll_close(&b);
}

/* Ends that do not fit, and the reason that the coordinator's gives. */
static void misfits(void **state)
{
    rt_roll_party secret = party, job = party, size = party;
    const struct {
        const rt_roll_party *p;
        const char *why;
    } cases[] = {{&secret, "it has another MGC_SECRET"},
                 {&job, "it is of another job"},
                 {&size, "it is of a job of another number of ranks"}};
    (void)state;
    secret.secret[3] ^= 1;
    job.job++;
    size.members++;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd[2];
        rt_roll_line a, b;
        rt_roll_word w, mine = word_of(1);
        const char *why;
        connect_them(fd);
        rt_roll_open(&a, cases[i].p, fd[0], true);
        rt_roll_open(&b, &party, fd[1], false);
        hear(&a, &party, &w, &why); /* a stranger believes all */
        a.greeted = true;
        rt_roll_say(&a, cases[i].p, &mine);
        assert_int_equal(hear(&b, &party, &w, &why), -1);
        assert_string_equal(why, cases[i].why);
        rt_roll_close(&a), rt_roll_close(&b);
    }
}

/* Takes what an end has sent, all of it. */
static size_t tap(int fd, uint8_t *to, size_t size)
{
    const ssize_t n = recv(fd, to, size, MSG_DONTWAIT);
    return n < 0 ? 0 : (size_t)n;
}

/* Somebody between the ends, who can read, change, hold back and repeat what they say. */
static void between(void **state)
{
    enum { CHANGED, REPEATED, REFLECTED, HALF, GOOD, CASES };
    static uint8_t bytes[1 << 15];
    (void)state;
    for (int c = 0; c < CASES; c++) {
        int left[2], right[2];
        rt_roll_line a, b;
        rt_roll_word w, mine = word_of(4);
        const char *why;
        connect_them(left);
        connect_them(right);
        rt_roll_open(&a, &party, left[0], true);
        rt_roll_open(&b, &party, right[1], false);
        size_t n = tap(left[1], bytes, sizeof bytes);
        assert_int_equal(n, sizeof(rt_roll_hello));
        assert_int_equal(send(right[0], bytes, n, 0), n);
        n = tap(right[0], bytes, sizeof bytes);
        assert_int_equal(send(left[1], bytes, n, 0), n);
        assert_int_equal(hear(&a, &party, &w, &why), 0);
        assert_int_equal(hear(&b, &party, &w, &why), 0);
        assert_true(rt_roll_say(&a, &party, &mine));
        n = tap(left[1], bytes, sizeof bytes);
        assert_int_equal(n, sizeof(rt_roll_word) + RT_MAC_BYTES);
        if (c == CHANGED)
            bytes[offsetof(rt_roll_word, step)] ^= 1;
        if (c == REFLECTED) { /* its own word, sent back */
            assert_int_equal(send(left[1], bytes, n, 0), n);
            assert_int_equal(hear(&a, &party, &w, &why), -1);
        }
        assert_int_equal(send(right[0], bytes, c == HALF ? n / 2 : n, 0), c == HALF ? n / 2 : n);
        const int came = hear(&b, &party, &w, &why);
        assert_int_equal(came, c == CHANGED ? -1 : c == HALF ? 0 : 1);
        if (c == REPEATED) {
            assert_int_equal(send(right[0], bytes, n, 0), n);
            assert_int_equal(hear(&b, &party, &w, &why), -1);
        }
        if (c == HALF) {
            assert_int_equal(send(right[0], bytes + n / 2, n - n / 2, 0), n - n / 2);
            assert_int_equal(hear(&b, &party, &w, &why), 1);
            assert_memory_equal(&w, &mine, sizeof w);
        }
        rt_roll_close(&a), rt_roll_close(&b);
        close(left[1]), close(right[0]);
    }
}

/* Bytes of any kind end a connection, or are waited for: no word comes of them. */
static void rubbish(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 400; seed++) {
        int fd[2];
        rt_roll_line b;
        rt_roll_word w;
        const char *why;
        static uint8_t bytes[3 * sizeof(rt_roll_word)];
        connect_them(fd);
        rt_roll_open(&b, &party, fd[1], false);
        const size_t n = rt_mix64(seed) % sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)rt_mix64(seed * 7919 + i);
        if (seed % 2 && n > sizeof(rt_roll_hello)) { /* behind a hello that fits */
            rt_roll_hello h = b.mine;
            h.member = (uint32_t)(seed % 4);
            memcpy(bytes, &h, sizeof h);
        }
        const ssize_t sent = send(fd[0], bytes, n, MSG_DONTWAIT);
        assert_true(sent >= 0 || !n);
        for (int i = 0; i < 4; i++) {
            const int came = rt_roll_hear(&b, &party, &w, &why);
            assert_true(came <= 0);
            if (came < 0)
                break;
        }
        rt_roll_close(&b);
        close(fd[0]);
    }
}

static void marks(void **state)
{
    char *out = rt_printf("roll-%d/a/b", (int)getpid());
    (void)state;
    assert_false(rt_mark_is_there(out, 5));
    rt_mark_leave(out, 0xfedcba9876543210u);
    assert_true(rt_mark_is_there(out, 0xfedcba9876543210u));
    assert_false(rt_mark_is_there(out, 5));
    rt_mark_leave(out, 5);
    assert_true(rt_mark_is_there(out, 5));
    char *command = rt_printf("rm -r roll-%d", (int)getpid());
    assert_int_equal(system(command), 0);
    free(command);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words), cmocka_unit_test(misfits),
                                       cmocka_unit_test(between), cmocka_unit_test(rubbish),
                                       cmocka_unit_test(marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
