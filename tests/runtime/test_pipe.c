/* Messages between stages by real ranks: tables of several schedules, each message looked at by who
 * needs it, with collectives of another axis between; on one machine, and over TCP between several
 * that are pretended. */
#include "wire_unit.h"

#include "runtime/net/pipe.h"
#include "runtime/net/ranks.h"
#include "stage_table.h"

enum { SMALL = 64, REDUCED = 1 << 13, STEPS = 3, SPACE = 24 << 20, RANKS_MAX = 8 };

/* The table and the pipe of the run; a program has no argument. */
static stage_table *table;
static mg_pipe pipe_of;
static int hang_at; /* of rank 1, the operation before which it hangs, or -1 */
static bool dies;   /* there instead */

static const mg_action actions[] = {{"layers.send", "send", "", 0, 0, 0, 0, {{0, 0, 0}}},
                                    {"layers.receive", "receive", "", 0, 0, 0, 0, {{0, 0, 0}}},
                                    {"layers.send_back", "send", "", 0, 0, 0, 0, {{0, 0, 0}}},
                                    {"layers.receive_back", "receive", "", 0, 0, 0, 0, {{0, 0, 0}}},
                                    {"sum", "communication", "", 0, 0, 0, 0, {{0, 0, 0}}}};

static mg_program program = {.name = "",
                             .compiler = "",
                             .layout = "",
                             .config = "",
                             .cpu_features = "",
                             .arena_bytes = SPACE,
                             .actions = actions,
                             .nactions = 5,
                             .naxes = 2};

#define EXPECT(x, ...)                                                                             \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            rt_note(__VA_ARGS__);                                                                  \
            _exit(3);                                                                              \
        }                                                                                          \
    } while (0)

/* Runs a collective along the other axis meanwhile, of all sizes, so that all ways of comm.c are
 * taken. */
static void reduce(mg_run *r, int number, int64_t at)
{
    uint32_t other = 3 & ~pipe_of.axis;
    int64_t n = number % 5 ? SMALL : 5 * REDUCED;
    int32_t *x = (int32_t *)(mg_arena(r) + at), *y = x + 5 * REDUCED;
    mg_comm_desc d = {.kind = number % 3 == 2 ? MG_ALL_GATHER : MG_ALL_REDUCE,
                      .dtype = MG_I32,
                      .axes = other,
                      .n = rt_ranks_of(r->program, other),
                      .outer = 1,
                      .size = n,
                      .inner = 1};
    if (d.n == 1)
        return;
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)(i + number + mg_place(r, other));
    mg_comm(r, 4, &d, x, y, NULL);
    for (int64_t i = 0; i < n * (d.kind == MG_ALL_GATHER ? d.n : 1); i++) {
        int64_t sum = d.kind == MG_ALL_GATHER ? i % n + number + i / n
                                              : d.n * (i + number) + d.n * (d.n - 1) / 2;
        EXPECT(y[i] == sum, "collective %d: element %lld", number, (long long)i);
    }
}

static void compute(mg_run *r, const mg_pipe_op *o, int step)
{
    const int way = o->step != MG_PIPE_F, from = way ? o->stage + 1 : o->stage - 1;
    char *arena = mg_arena(r);
    uint32_t *in = (uint32_t *)(arena + pipe_of.receive[way] + o->in * pipe_of.stride[way]);
    uint32_t *out = (uint32_t *)(arena + pipe_of.send[way] + o->out * pipe_of.stride[way]);
    for (int64_t i = 0; i < pipe_of.bytes[way] / 4 && table_takes(table, o); i++) {
        EXPECT(in[i] == table_word(way, from, o->microbatch, step, i),
               "step %d, stage %d, microbatch %d, way %d: word %lld of what came", step, o->stage,
               o->microbatch, way, (long long)i);
        in[i] = 0xffffffff;
    }
    for (int64_t i = 0; i < pipe_of.bytes[way] / 4 && table_makes(table, o); i++)
        out[i] = table_word(way, o->stage, o->microbatch, step, i);
}

static void walk(mg_run *r, int step)
{
    const int64_t free_bytes = SPACE - 16 * REDUCED * (int64_t)sizeof(int32_t) * 8;
    int number = 0;
    for (const mg_pipe_op *o = mg_pipe_ops(r, &pipe_of); o->step; o++) {
        while (r->rank == 1 && hang_at >= 0 && o - table->ops[mg_place(r, pipe_of.axis)] >= hang_at)
            dies ? (void)raise(SIGKILL) : (void)usleep(1000);
        if (o->step > MG_PIPE_W) {
            mg_pass(r, &pipe_of, o);
            continue;
        }
        compute(r, o, step);
        reduce(r, number++, free_bytes);
        r->action = -1;
    }
    /* Then something along the axis itself. */
    int64_t *x = (int64_t *)(mg_arena(r) + free_bytes), *y = x + SMALL;
    const int n = table->ranks;
    mg_comm_desc d = {MG_BROADCAST, MG_I64,        .axes = pipe_of.axis, .n = n,
                      .outer = 1,   .size = SMALL, .inner = 1,           .root = step % n};
    for (int i = 0; i < SMALL; i++)
        x[i] = mg_place(r, pipe_of.axis) * 100 + i + step;
    mg_comm(r, 4, &d, x, y, NULL);
    for (int i = 0; i < SMALL; i++)
        EXPECT(y[i] == d.root * 100 + i + step, "broadcast: element %d", i);
}

static void steps(mg_run *r)
{
    for (int i = 0; i < STEPS; i++)
        walk(r, i);
}

/* ---- cases ----------------------------------------------------------------------------------- */

typedef struct example {
    int pp, other;  /* ranks along the axes */
    bool pp_inside; /* the axis of stages is the last one */
    stage_order order;
    int chunks, microbatches;
    int64_t bytes[2];
    int hosts; /* 0: one machine, by a bare start */
} example;

static void prepare(const example *e)
{
    static const int32_t none[64];
    program.axes[e->pp_inside] = (mg_axis){"pp", e->pp};
    program.axes[!e->pp_inside] = (mg_axis){"tp", e->other};
    program.stages = (mg_stages){1u << e->pp_inside, e->chunks, 1, none};
    table = table_new(e->pp, e->chunks, e->microbatches, e->order, 77);
    pipe_of = (mg_pipe){.axis = program.stages.axis, .action = {0, 1, 2, 3}, .ops = table->ops};
    for (int64_t way = 0, at = 0; way < 2; way++) {
        pipe_of.bytes[way] = e->bytes[way];
        pipe_of.stride[way] = (e->bytes[way] + 63) / 64 * 64;
        pipe_of.send[way] = at;
        at += table->buffers * pipe_of.stride[way];
        pipe_of.receive[way] = at;
        at += table->buffers * pipe_of.stride[way];
        assert_true(at < SPACE / 2);
    }
}

static void run_here(int64_t hang_after)
{
    rt_options options = {.hang_after = hang_after};
    mg_run r = {
        .program = &program, .options = &options, .threads = 1, .action = -1, .step = steps};
    rt_ranks_start(&r);
    r.pool = rt_pool_new(1, false);
    rt_arena_map(&r);
    rt_run(&r, RT_STEP);
    rt_ranks_end(&r);
    rt_pool_free(r.pool);
}

/* A rank of those on so many pretended machines, as torchrun would start it. */
static process start_rank(int rank, int size, int hosts, int port, int64_t hang_after,
                          void (*what)(mg_run *))
{
    process p;
    int pipes[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    fflush(NULL);
    p.pid = fork();
    if (!p.pid) {
        rt_options options = {.hang_after = hang_after};
        mg_run r = {.program = &program,
                    .options = &options,
                    .threads = 1,
                    .action = -1,
                    .step = what,
                    .world = {RT_TORCHRUN, rank, size, rank, size, "test", hosts}};
        char text[16];
        snprintf(text, sizeof text, "%d", port);
        setenv("MGC_PORT", text, 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MGC_SECRET", SECRET, 1);
        dup2(pipes[1], STDERR_FILENO);
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
    close(pipes[1]);
    p.said = pipes[0];
    return p;
}

static void run_example(const example *e)
{
    const int ranks = e->pp * e->other;
    process p[RANKS_MAX];
    prepare(e);
    if (e->hosts) {
        int port = unit_port();
        for (int i = 0; i < ranks; i++)
            p[i] = start_rank(i, ranks, e->hosts, port, 60, steps);
        for (int i = 0; i < ranks; i++)
            unit_ends(p[i], 0, NULL);
    } else {
        run_here(60);
    }
    table_free(table);
}

static void one_machine(void **state)
{
    static const example all[] = {
        {2, 1, false, ONE_ONE, 1, 4, {4096, 4096}, 0},
        {2, 1, false, GPIPE, 1, 6, {64, 100000}, 0},
        {2, 1, false, INTERLEAVED, 2, 4, {4096, 64}, 0},
        {2, 2, false, INTERLEAVED, 3, 8, {8, 16}, 0},
        {4, 1, false, GPIPE, 1, 8, {40000, 40000}, 0},
        {4, 2, false, ONE_ONE, 1, 8, {40000, 12}, 0},
        {4, 2, true, ONE_ONE, 1, 3, {200000, 200000}, 0},
        {4, 2, true, INTERLEAVED, 2, 8, {4, 65536}, 0},
        {2, 2, true, ONE_ONE, 1, 2, {1 << 20, 1 << 20}, 0},
        {2, 2, false, ONE_ONE, 1, 200, {4, 4}, 0}, /* letters are used again */
        {2, 2, false, DRAWN, 3, 7, {400, 40}, 0},
        {4, 2, true, DRAWN, 2, 6, {4000, 40000}, 0},
        {3, 2, true, DRAWN, 2, 9, {400, 40}, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        run_example(&all[i]);
}

static void several_machines(void **state)
{
    static const example all[] = {
        {2, 1, false, ONE_ONE, 1, 4, {4096, 4096}, 2},
        {2, 2, false, INTERLEAVED, 2, 4, {1 << 18, 900000}, 2}, /* stages on two machines */
        {2, 2, true, ONE_ONE, 1, 4, {100000, 4096}, 2},         /* the other axis is */
        {2, 2, false, INTERLEAVED, 3, 6, {4, 200000}, 4},       /* everything is */
        {4, 2, false, ONE_ONE, 1, 8, {300000, 300000}, 4},
        {4, 2, true, DRAWN, 2, 5, {4000, 400000}, 8},
        {4, 2, false, DRAWN, 2, 5, {1 << 17, 40}, 8},
        {4, 2, false, GPIPE, 1, 6, {200000, 300000}, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        run_example(&all[i]);
}

/* ---- what goes on meanwhile -------------------------------------------------------------------
 */

/* More than the connections between two ranks hold: only who receives it ends its send. */
enum { LARGE = 16 << 20, SHORT = 64 };

static void let_be_large(void)
{
    pipe_of.bytes[0] = LARGE;
    pipe_of.bytes[1] = SHORT;
    pipe_of.send[0] = pipe_of.receive[0] = 0;
    pipe_of.send[1] = pipe_of.receive[1] = LARGE;
}

static void pass(mg_run *r, int step)
{
    mg_pass(r, &pipe_of, &(mg_pipe_op){.step = (uint8_t)step});
}

static void finish(mg_run *r, int of)
{
    mg_pass(r, &pipe_of, &(mg_pipe_op){.step = MG_PIPE_WAIT, .of = (uint8_t)of});
}

static void meet(mg_run *r, int number)
{
    reduce(r, number, LARGE + (2 << 20));
}

/* Ranks 0 and 1 are a stage, 2 and 3 the next: rank 0 waits in a collective for rank 1, and all
 * others for what rank 0 began to send before. */
static void sends_while_it_waits(mg_run *r)
{
    let_be_large();
    mg_pipe_ops(r, &pipe_of);
    if (r->rank == 0) {
        pass(r, MG_PIPE_SEND_F);
        meet(r, 1);
        finish(r, MG_PIPE_SEND_F);
    } else if (r->rank == 2) {
        pass(r, MG_PIPE_RECV_F);
        finish(r, MG_PIPE_RECV_F);
        meet(r, 1);
    } else {
        int step = r->rank == 3 ? MG_PIPE_SEND_B : MG_PIPE_RECV_B;
        if (r->rank == 3)
            meet(r, 1);
        pass(r, step);
        finish(r, step);
        if (r->rank == 1)
            meet(r, 1);
    }
}

/* Nobody receives what rank 0 sends before it is through two collectives. */
static void meets_while_it_sends(mg_run *r)
{
    let_be_large();
    mg_pipe_ops(r, &pipe_of);
    if (r->rank == 0)
        pass(r, MG_PIPE_SEND_F);
    if (r->rank < 2) {
        meet(r, 1);
        meet(r, 2);
    }
    if (r->rank == 1 || r->rank == 3) {
        /* The other two are between: so it goes back. */
        int step = r->rank == 1 ? MG_PIPE_SEND_B : MG_PIPE_RECV_B;
        pass(r, step);
        finish(r, step);
    }
    if (r->rank >= 2)
        meet(r, 3);
    if (r->rank == 2)
        pass(r, MG_PIPE_RECV_F);
    if (r->rank == 0 || r->rank == 2)
        finish(r, r->rank ? MG_PIPE_RECV_F : MG_PIPE_SEND_F);
}

static void goes_on(void **state)
{
    static void (*const what[])(mg_run *) = {sends_while_it_waits, meets_while_it_sends};
    (void)state;
    for (int hosts = 1; hosts <= 4; hosts *= 2)
        for (int i = 0; i < 2; i++) {
            const example e = {2, 2, false, ONE_ONE, 1, 2, {SHORT, SHORT}, hosts};
            int port = unit_port();
            process p[4];
            prepare(&e);
            for (int k = 0; k < 4; k++)
                p[k] = start_rank(k, 4, hosts, port, 10, what[i]);
            for (int k = 0; k < 4; k++)
                unit_ends(p[k], 0, NULL);
            table_free(table);
        }
}

/* ---- under a launcher ------------------------------------------------------------------------ */

/* This process is one of four that mpirun started: on one machine, or MGC_FAKE_HOSTS pretended
 * ones. What is usual, then both of the cases above. */
static int as_rank(void)
{
    static void (*const what[])(mg_run *) = {steps, sends_while_it_waits, meets_while_it_sends};
    const example e = {2, 2, false, INTERLEAVED, 2, 6, {SHORT, 70000}, 0};
    rt_options options = {.hang_after = 30};
    mg_run r = {.program = &program, .options = &options, .threads = 1, .action = -1};
    char *why = rt_world_read(&r.world);
    if (why || r.world.size != 4)
        rt_die(RT_USAGE, "%s", why ? why : "four ranks");
    prepare(&e);
    rt_speak_for(r.world.rank);
    rt_ranks_join(&r);
    r.step = what[0];
    r.eval = what[1];
    r.sample = what[2];
    if (r.rank)
        rt_ranks_follow(&r);
    r.pool = rt_pool_new(1, false);
    rt_arena_map(&r);
    rt_run(&r, RT_STEP);
    rt_run(&r, RT_EVAL);
    rt_run(&r, RT_SAMPLE);
    rt_ranks_end(&r);
    return 0;
}

/* ---- ranks that do not go on ----------------------------------------------------------------- */

/* Rank 1 hangs in the middle of a table: the others name it, and where they wait. */
static void one_that_hangs(void **state)
{
    (void)state;
    for (int hosts = 1; hosts <= 4; hosts *= 4) {
        const example e = {4, 1, false, ONE_ONE, 1, 8, {4096, 4096}, hosts};
        process p[4];
        int port = unit_port(), named = 0;
        prepare(&e);
        hang_at = 30;
        for (int i = 0; i < 4; i++)
            p[i] = start_rank(i, 4, hosts, port, 1, steps);
        for (int i = 0; i < 4; i++) {
            int code;
            char *said = unit_said(p[i], &code);
            named += strstr(said, "rank 1 hangs") && strstr(said, "layers.");
            if (code != RT_LOST && code != 256 + SIGKILL)
                fail_msg("it ended with %d: %s", code, said);
            free(said);
        }
        hang_at = -1;
        assert_true(named > 0);
        table_free(table);
    }
}

static void one_that_dies(void **state)
{
    (void)state;
    for (int hosts = 1; hosts <= 4; hosts *= 2) {
        const example e = {4, 1, false, ONE_ONE, 1, 8, {4096, 4096}, hosts};
        process p[4];
        int port = unit_port();
        prepare(&e);
        hang_at = 30;
        dies = true;
        for (int i = 0; i < 4; i++)
            p[i] = start_rank(i, 4, hosts, port, 20, steps);
        for (int i = 0; i < 4; i++)
            unit_ends(p[i], i == 1 ? 256 + SIGKILL : RT_LOST,
                      i == 1 ? NULL : "error: rank 1 is gone: all ranks end here");
        hang_at = -1;
        dies = false;
        table_free(table);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_machine),   cmocka_unit_test(several_machines),
        cmocka_unit_test(goes_on),       cmocka_unit_test(one_that_hangs),
        cmocka_unit_test(one_that_dies),
    };
    hang_at = -1;
    if (argc > 1 && strcmp(argv[1], "rank") == 0)
        return as_rank();
    return cmocka_run_group_tests_name("pipe", tests, NULL, NULL);
}
