/* Collectives of real ranks, against their definition in abi.h: random shapes on a mesh of three
 * axes, along each set of them. */
#include "wire_unit.h"

#include "collective.h"
#include "runtime/net/ranks.h"
#include "runtime/sizes.h"

enum { RANKS = 8, CASES = 300, LIMIT = 1 << 16, SPACE = LIMIT * RANKS * 8 };

static const mg_action nothing = {"collective", "communication", "", 0, 0, 0, 0, {{0, 0, 0}}};

/* Run by all ranks. */
static void run_cases(mg_run *r)
{
    uint64_t seed = 12345;
    char *x = mg_arena(r), *y = x + SPACE;
    for (int c = 0; c < CASES; c++) {
        mg_comm_desc d = random_desc(&seed, 3);
        int member[RANKS], n = 0, me = rt_place_of(r->program, r->rank, d.axes);
        uint32_t others = ~d.axes & 7;
        for (int k = 0; k < RANKS; k++)
            if (rt_place_of(r->program, k, others) == rt_place_of(r->program, r->rank, others))
                member[n++] = k;
        assert_int_equal(n, d.n);
        for (int64_t i = 0; i < d.outer * d.size * d.inner; i++)
            put(d.dtype, x, i, value(r->rank, i));
        mg_comm(r, 0, &d, x, y, NULL);
        for (int64_t i = 0; i < mg_comm_elements(&d); i++)
            if (get(d.dtype, y, i) != expected(&d, member, me, i)) {
                rt_note("case %d, kind %d, rank %d, element %lld: %g for %g", c, (int)d.kind,
                        r->rank, (long long)i, get(d.dtype, y, i), expected(&d, member, me, i));
                _exit(3); /* the others end with it */
            }
    }
}

static const mg_program program = {.name = "",
                                   .compiler = "",
                                   .layout = "",
                                   .config = "",
                                   .cpu_features = "",
                                   .arena_bytes = 2 * SPACE,
                                   .actions = &nothing,
                                   .nactions = 1,
                                   .naxes = 3,
                                   .axes = {{"a", 2}, {"b", 2}, {"c", 2}}};

static void run_ranks(void (*step)(mg_run *), int64_t hang_after)
{
    rt_options options = {.hang_after = hang_after};
    mg_run r = {.program = &program, .options = &options, .threads = 1, .action = -1, .step = step};
    rt_ranks_start(&r);
    r.pool = rt_pool_new(1, false);
    rt_arena_map(&r);
    rt_run(&r, RT_STEP);
    rt_ranks_end(&r);
    rt_pool_free(r.pool);
}

static void collectives(void **state)
{
    (void)state;
    run_ranks(run_cases, 60);
}

/* ---- over TCP -------------------------------------------------------------------------------- */

/* A rank of those on so many pretended machines, as torchrun would start it. */
static process start_rank(int rank, int hosts, int port, void (*step)(mg_run *))
{
    process p;
    int pipe_of[2];
    assert_int_equal(pipe2(pipe_of, O_CLOEXEC), 0);
    fflush(NULL);
    p.pid = fork();
    if (!p.pid) {
        rt_options options = {.hang_after = 20};
        mg_run r = {.program = &program,
                    .options = &options,
                    .threads = 1,
                    .action = -1,
                    .step = step,
                    .world = {RT_TORCHRUN, rank, RANKS, rank, RANKS, "test", hosts}};
        char text[16];
        snprintf(text, sizeof text, "%d", port);
        setenv("MGC_PORT", text, 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MGC_SECRET", SECRET, 1);
        dup2(pipe_of[1], STDERR_FILENO);
        rt_speak_for(rank);
        rt_ranks_join(&r);
        if (rank)
            rt_ranks_follow(&r);
        r.pool = rt_pool_new(1, false);
        rt_arena_map(&r);
        rt_run(&r, RT_STEP);
        rt_ranks_end(&r);
        _exit(0);
    }
    close(pipe_of[1]);
    p.said = pipe_of[0];
    return p;
}

static void start_ranks(process p[RANKS], int hosts, void (*step)(mg_run *))
{
    int port = unit_port();
    for (int i = 0; i < RANKS; i++)
        p[i] = start_rank(i, hosts, port, step);
}

static void collectives_by_tcp(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= RANKS; hosts *= 2) {
        process p[RANKS];
        start_ranks(p, hosts, run_cases);
        for (int i = 0; i < RANKS; i++)
            unit_ends(p[i], 0, NULL);
    }
}

/* Everybody waits for the one that ends. */
static void wait_for_it(mg_run *r)
{
    const mg_comm_desc d = {.kind = MG_ALL_REDUCE,
                            .dtype = MG_F32,
                            .axes = 7,
                            .n = RANKS,
                            .outer = 1,
                            .size = 8,
                            .inner = 1};
    mg_comm(r, 0, &d, mg_arena(r), mg_arena(r) + SPACE, NULL);
}

static void rank_3_ends(mg_run *r)
{
    if (r->rank == 3)
        rt_die(RT_IO, "that was all");
    wait_for_it(r);
}

static void rank_0_ends(mg_run *r)
{
    if (r->rank == 0)
        rt_die(RT_BAD_DATA, "that was all");
    wait_for_it(r);
}

static void rank_6_is_killed(mg_run *r)
{
    if (r->rank == 6)
        raise(SIGKILL);
    wait_for_it(r);
}

/* All name the rank that ended first, and how it did; after rank 0 they end as it did, for it alone
 * says why. */
static void ends_by_tcp(void **state)
{
    (void)state;
    for (int hosts = 2; hosts <= RANKS; hosts *= 4) {
        process p[RANKS];
        start_ranks(p, hosts, rank_3_ends);
        for (int i = 0; i < RANKS; i++)
            unit_ends(p[i], i == 3 ? RT_IO : RT_LOST,
                      i == 3 ? "rank 3: error: that was all"
                             : "error: rank 3 is gone (exit 74): all ranks end here");
        start_ranks(p, hosts, rank_0_ends);
        for (int i = 0; i < RANKS; i++)
            unit_ends(p[i], RT_BAD_DATA, i == 0 ? "rank 0: error: that was all" : NULL);
        start_ranks(p, hosts, rank_6_is_killed);
        for (int i = 0; i < RANKS; i++)
            unit_ends(p[i], i == 6 ? 256 + SIGKILL : RT_LOST,
                      i == 6 ? NULL : "error: rank 6 is gone: all ranks end here");
    }
}

/* ---- a rank that hangs ----------------------------------------------------------------------- */

/* Rank 5 runs, and does not come to what the others wait in. */
static void never_come(mg_run *r)
{
    const mg_comm_desc d = {.kind = MG_ALL_REDUCE,
                            .dtype = MG_F32,
                            .axes = 7,
                            .n = RANKS,
                            .outer = 1,
                            .size = 8,
                            .inner = 1};
    for (mg_begin(r, 0); r->rank == 5;)
        usleep(1000);
    mg_comm(r, 0, &d, mg_arena(r), mg_arena(r) + SPACE, NULL);
}

static void a_rank_that_does_not_go_on(void **state)
{
    int pipe_of[2], status;
    char said[1000] = "";
    (void)state;
    assert_int_equal(pipe(pipe_of), 0);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        dup2(pipe_of[1], STDERR_FILENO);
        run_ranks(never_come, 1);
        _exit(0);
    }
    close(pipe_of[1]);
    for (size_t n = 0; n < sizeof said - 1;) {
        ssize_t more = read(pipe_of[0], said + n, sizeof said - 1 - n);
        if (more <= 0)
            break;
        n += (size_t)more;
    }
    close(pipe_of[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == RT_LOST);
    if (!strstr(said,
                "rank 5 hangs: for 1 s it has been in action 0, collective (communication)") ||
        !strstr(said, "; the others wait in action 0, collective (communication)"))
        fail_msg("it said: %s", said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives), cmocka_unit_test(collectives_by_tcp),
        cmocka_unit_test(ends_by_tcp), cmocka_unit_test(a_rank_that_does_not_go_on)};
    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
