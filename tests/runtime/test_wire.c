/* Messages and words by TCP, and which carrier is chosen. */
#include "wire_unit.h"

/* Number i of what one rank sends to another as its message number m. */
static uint32_t value(int from, int to, int m, int64_t i)
{
    return (uint32_t)(rt_mix64((uint64_t)i ^ (uint64_t)m << 40) + (uint64_t)(from * 64 + to));
}

static void fill(uint32_t *at, int64_t n, int from, int to, int m)
{
    for (int64_t i = 0; i < n; i++)
        at[i] = value(from, to, m, i);
}

static bool is(const uint32_t *at, int64_t n, int from, int to, int m)
{
    for (int64_t i = 0; i < n; i++)
        if (at[i] != value(from, to, m, i))
            return false;
    return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static rt_ticket t; /* of all that a rank begins */

static void gathers(rt_wire *w, int rank, int size)
{
    int64_t mine = rank * 1000003, all[64];
    for (int turn = 0; turn < 3; turn++) {
        mine += turn;
        rt_wire_gather(w, &mine, all, sizeof mine);
        for (int i = 0; i < size; i++)
            CHECK(all[i] == i * 1000003 + (turn == 2 ? 3 : turn));
    }
}

/* Everybody sends to everybody, much more than a connection holds, and takes only then. */
static void crosses(rt_wire *w, int rank, int size)
{
    enum { N = 3 << 20 };
    uint32_t *out[64], *in[64];
    for (int i = 0; i < size; i++) {
        out[i] = malloc(N * sizeof **out);
        in[i] = calloc(N, sizeof **in);
        fill(out[i], N, rank, i, 0);
    }
    for (int i = 0; i < size; i++)
        if (i != rank)
            rt_wire_send(w, i, out[i], N * sizeof **out, &t);
    for (int i = 0; i < size; i++)
        if (i != rank)
            rt_wire_take(w, i, in[i], N * sizeof **in, &t);
    unit_wait(w, &t);
    for (int i = 0; i < size; i++)
        CHECK(i == rank || is(in[i], N, i, rank, 0));
}

/* As many as may be begun at once, of all sizes, nothing among them, in their order. */
static void many(rt_wire *w, int rank, int size)
{
    enum { LIMIT = 5000 };
    int each = RT_WIRE_PENDING / 2 / (size - 1);
    uint32_t *out = malloc((size_t)size * (size_t)each * LIMIT * 4);
    uint32_t *in = calloc((size_t)size * (size_t)each, LIMIT * 4);
    for (int turn = 0; turn < 3; turn++) {
        for (int m = 0; m < each; m++)
            for (int i = 0; i < size; i++) {
                int64_t n = (m * 37 + turn) % 5 ? m % 7 : (m * 1009) % LIMIT,
                        at = (i * each + m) * LIMIT;
                if (i == rank)
                    continue;
                fill(out + at, n, rank, i, m + turn);
                rt_wire_send(w, i, out + at, n * 4, &t);
                rt_wire_take(w, i, in + at, n * 4, &t);
            }
        unit_wait(w, &t);
        for (int m = 0; m < each; m++)
            for (int i = 0; i < size; i++) {
                int64_t n = (m * 37 + turn) % 5 ? m % 7 : (m * 1009) % LIMIT,
                        at = (i * each + m) * LIMIT;
                CHECK(i == rank || is(in + at, n, i, rank, m + turn));
            }
    }
}

/* One sends long before the other takes; who waits for it says for whom. */
static void waits(rt_wire *w, int rank, int size)
{
    enum { N = 4 << 20 };
    uint32_t *x = malloc(N * sizeof *x);
    int peer = 7;
    (void)size;
    if (rank == 0) {
        fill(x, N, 0, 1, 0);
        rt_wire_send(w, 1, x, N * sizeof *x, &t);
        CHECK(!rt_wire_done(w, &t, &peer) && peer == 1);
    } else {
        usleep(300000);
        rt_wire_take(w, 0, x, N * sizeof *x, &t);
    }
    unit_wait(w, &t);
    CHECK(rank == 0 || is(x, N, 0, 1, 0));
}

/* A ring: what a rank sends it has just been given. */
static void ring(rt_wire *w, int rank, int size)
{
    uint32_t x[1000];
    for (int m = 0; m < 200; m++) {
        if (rank == 0) {
            fill(x, 1000, 0, 0, m);
            rt_wire_send(w, 1, x, sizeof x, &t);
            unit_wait(w, &t);
        }
        rt_wire_take(w, (rank + size - 1) % size, x, sizeof x, &t);
        unit_wait(w, &t);
        CHECK(is(x, 1000, 0, 0, m));
        if (rank)
            rt_wire_send(w, (rank + 1) % size, x, sizeof x, &t);
        unit_wait(w, &t);
    }
}

static void messages(void **state)
{
    (void)state;
    void (*const fn[])(rt_wire *, int, int) = {gathers, crosses, many, ring};
    for (int size = 2; size <= 5; size += 3)
        for (size_t i = 0; i < sizeof fn / sizeof *fn; i++)
            unit_job(&(job){.size = size, .port = unit_port()}, fn[i]);
    unit_job(&(job){.size = 2, .port = unit_port()}, waits);
    unit_job(&(job){.size = 16, .port = unit_port()}, gathers);
}

static void six(void **state)
{
    int s = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    (void)state;
    bool there = s >= 0 && bind(s, (struct sockaddr *)&a, sizeof a) == 0;
    close(s);
    if (!there)
        skip();
    unit_job(&(job){.size = 3, .port = unit_port(), .host = "::1"}, many);
    unit_job(&(job){.size = 3, .port = unit_port(), .host = "localhost"}, many);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Until one comes. */
static rt_word word_of(rt_wire *w, int rank)
{
    rt_word word;
    struct pollfd p = {rt_wire_line(w, rank), POLLIN, 0};
    while (!rt_wire_hears(w, rank, &word))
        CHECK(poll(&p, 1, 10000) == 1 && !(p.revents & ~POLLIN));
    return word;
}

static void talks(rt_wire *w, int rank, int size)
{
    rt_word word;
    CHECK(rt_wire_speaks(w));

    for (int turn = 1; turn <= 100; turn++) {
        for (int i = 0; i < size; i++)
            if (i != rank)
                rt_wire_say(w, i, &(rt_word){.asks = turn, .action = rank * size + i});
        for (int i = 0; i < size; i++)
            if (i != rank) {
                word = word_of(w, i);
                CHECK(word.asks == turn && word.action == i * size + rank && !word.verdict);
            }
    }
}

/* The last words of a rank that ends come before its line breaks, whatever it has not heard itself,
 * and messages do not hide them. */
static void parts(rt_wire *w, int rank, int size)
{
    static char much[8 << 20];
    (void)size;
    if (rank == 0)
        rt_wire_say(w, 1, &(rt_word){.asks = 1});
    if (rank == 1) {
        CHECK(poll(&(struct pollfd){rt_wire_line(w, 0), POLLIN, 0}, 1, 10000) == 1);
        rt_wire_say(w, 0, &(rt_word){.verdict = 77});
        rt_wire_send(w, 0, much, sizeof much, &t);
        int peer;
        rt_wire_done(w, &t, &peer);
        rt_wire_abort(w, 5);
    }
    struct pollfd p = {rt_wire_line(w, 1), POLLRDHUP, 0};
    rt_word word;
    CHECK(poll(&p, 1, 10000) == 1);
    usleep(100000);
    CHECK(rt_wire_hears(w, 1, &word) && word.verdict == 77 && !word.parted);
    CHECK(rt_wire_hears(w, 1, &word) && word.parted == 6 && !word.verdict);
    CHECK(!rt_wire_hears(w, 1, &word));
    /* The peer's data never come, and the rank waits for them until the watchdog ends it. */
    int peer;
    rt_wire_take(w, 1, much, sizeof much, &t);
    rt_wire_take(w, 1, much, sizeof much, &t);
    int64_t began = rt_now_ns();
    for (int i = 0; i < 10; i++)
        CHECK(!rt_wire_done(w, &t, &peer) && peer == 1);
    CHECK(rt_now_ns() - began < (int64_t)2000000000);
    _exit(0);
}

static void words(void **state)
{
    (void)state;
    job j = {.size = 4, .port = unit_port()};
    unit_job(&j, talks);
    j = (job){.size = 2, .port = unit_port()};
    process a = unit_rank(&j, 0, parts), b = unit_rank(&j, 1, parts);
    unit_ends(a, 0, NULL);
    unit_ends(b, 5, NULL);
}

/* A rank that hears nothing more of another before there is a watchdog says so. */
static void goes(rt_wire *w, int rank, int size)
{
    int64_t mine = 0, all[64];
    (void)size;
    if (rank == 1)
        _exit(9);
    rt_wire_gather(w, &mine, all, sizeof mine);
}

static void hangs(rt_wire *w, int rank, int size)
{
    (void)size;
    if (rank == 1)
        sleep(4);
    goes(w, rank ? 1 : 0, 2);
}

static void before_the_watchdog(void **state)
{
    (void)state;
    job j = {.size = 2, .port = unit_port(), .limit = 1};
    process a = unit_rank(&j, 0, goes), b = unit_rank(&j, 1, goes);
    unit_ends(a, RT_LOST, "rank 1 is gone");
    unit_ends(b, 9, NULL);
    a = unit_rank(&j, 0, hangs), b = unit_rank(&j, 1, hangs);
    unit_ends(a, RT_LOST, "rank 1 has met all others, and then hangs: nothing comes from it");
    unit_ends(b, 9, NULL);
}

/* ---- which carrier --------------------------------------------------------------------------- */

static void carriers(void **state)
{
    static const struct {
        rt_launcher launcher;
        bool gpus;
        const char *variable; /* that is set */
        const rt_carrier *carrier;
    } cases[] = {
        {RT_OPENMPI, false, NULL, &rt_carrier_openmpi},
        {RT_OPENMPI, false, "MASTER_ADDR", &rt_carrier_openmpi},
        {RT_OPENMPI, true, NULL, &rt_carrier_tcp},
        {RT_HYDRA, false, NULL, &rt_carrier_mpich},
        {RT_HYDRA, true, NULL, &rt_carrier_tcp},
        {RT_TORCHRUN, false, "MASTER_ADDR", &rt_carrier_tcp},
        {RT_TORCHRUN, true, "MASTER_ADDR", &rt_carrier_tcp},
        {RT_SLURM, false, "PMIX_NAMESPACE", &rt_carrier_openmpi},
        {RT_SLURM, false, "PMI_RANK", &rt_carrier_mpich},
        {RT_SLURM, false, "MASTER_ADDR", &rt_carrier_tcp},
        {RT_SLURM, true, "PMIX_NAMESPACE", &rt_carrier_tcp},
        {RT_SLURM, true, NULL, &rt_carrier_tcp},
        {RT_SLURM, false, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_world w = {.launcher = cases[i].launcher, .size = 4, .local_size = 2};
        unsetenv("MASTER_ADDR");
        unsetenv("PMIX_NAMESPACE");
        unsetenv("PMI_RANK");
        if (cases[i].variable)
            setenv(cases[i].variable, "x", 1);
        if (cases[i].carrier)
            assert_ptr_equal(rt_carrier_of(&w, cases[i].gpus), cases[i].carrier);
    }
    unsetenv("MASTER_ADDR");
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        rt_carrier_of(&(rt_world){.launcher = RT_SLURM, .size = 4, .local_size = 2}, false);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == RT_MISFIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages), cmocka_unit_test(six), cmocka_unit_test(words),
        cmocka_unit_test(before_the_watchdog), cmocka_unit_test(carriers)};
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
