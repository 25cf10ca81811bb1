/* Collectives of real ranks, against their definition in abi.h: random shapes on a mesh of three
 * axes, along each set of them. */
#include "unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "collective.h"
#include "runtime/ranks.h"
#include "runtime/sizes.h"

enum { RANKS = 8, CASES = 300, MOST = 1 << 16, SPACE = MOST * RANKS * 8 };

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

static void run_ranks(void (*step)(mg_run *), int64_t hang_after)
{
    static const mg_program p = {.name = "",
                                 .compiler = "",
                                 .layout = "",
                                 .config = "",
                                 .cpu_features = "",
                                 .arena_bytes = 2 * SPACE,
                                 .actions = &nothing,
                                 .nactions = 1,
                                 .naxes = 3,
                                 .axes = {{"a", 2}, {"b", 2}, {"c", 2}}};
    rt_options options = {.hang_after = hang_after};
    mg_run r = {.program = &p, .options = &options, .threads = 1, .action = -1, .step = step};
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(collectives),
                                       cmocka_unit_test(a_rank_that_does_not_go_on)};
    return cmocka_run_group_tests_name("comm", tests, NULL, NULL);
}
