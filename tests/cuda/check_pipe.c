/* check_pipe.c - messages between stages by real ranks with a GPU each (runtime/cuda/pipe.c):
 * tables of several schedules, as they are, captured and replayed, with sums along another axis
 * between. On the shim here; scripts/gpu-check runs it on GPUs.
 *
 *   check_pipe STAGES [OTHER [SEED]]    ranks along the axis of stages, and along another one
 *
 * A rank does not compute: it copies what came into a log, overwrites it, and copies what it sends
 * out of a list: all on the device, without the host. The log is compared afterwards. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"
#include "runtime/net/ranks.h"
#include "tests/runtime/stage_table.h"
#include "tests/sample.h"

enum { ITERATIONS = 4, GRAPHS = 2, SUMMED = 3000, LAUNCH = 5 };

extern const unsigned char mg_cuda_image[];
static const mg_action actions[] = {{"send", "send", "", 0, 0, 0, 0, {{0, 0, 0}}},
                                    {"receive", "receive", "", 0, 0, 0, 0, {{0, 0, 0}}},
                                    {"send_back", "send", "", 0, 0, 0, 0, {{0, 0, 0}}},
                                    {"receive_back", "receive", "", 0, 0, 0, 0, {{0, 0, 0}}},
                                    {"sum", "communication", "", 0, 0, 0, 0, {{0, 0, 0}}},
                                    {"copy", "copy", "", 0, 0, 0, 0, {{0, 0, 0}}}};

/* A program has no argument. */
static struct {
    stage_table *table;
    mg_pipe pipe;
    int64_t list[2], log[2], sums; /* bytes of the arena: a message for each stage and microbatch */
} of;

typedef struct example {
    stage_order order;
    int chunks, microbatches; /* 0: twice as many as ranks */
    int64_t bytes[2];
} example;
static const example examples[] = {
    {ONE_ONE, 1, 6, {4096, 4096}}, {INTERLEAVED, 2, 0, {2048, 2048}},
    {GPIPE, 1, 5, {40, 70000}},    {INTERLEAVED, 3, 0, {300000, 12}},
    {DRAWN, 2, 5, {400, 4000}},    {DRAWN, 3, 6, {4000, 400}},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

static int64_t message(int way, const mg_pipe_op *o)
{
    return (o->stage * of.table->microbatches + o->microbatch) * of.pipe.stride[way];
}

static void compute(mg_run *r, const mg_pipe_op *o)
{
    const int way = o->step != MG_PIPE_F;
    const mg_pipe *p = &of.pipe;
    char *a = mg_arena(r), *in = a + p->receive[way] + o->in * p->stride[way];
    if (table_takes(of.table, o)) {
        mg_copy(r, LAUNCH, a + of.log[way] + message(way, o), in, p->bytes[way]);
        mg_zero(r, LAUNCH, in, p->bytes[way]);
    }
    if (table_makes(of.table, o))
        mg_copy(r, LAUNCH, a + p->send[way] + o->out * p->stride[way],
                a + of.list[way] + message(way, o), p->bytes[way]);
}

static void sum(mg_run *r)
{
    const uint32_t other = 3 & ~of.pipe.axis;
    char *x = mg_arena(r) + of.sums;
    const mg_comm_desc d = {.kind = MG_ALL_REDUCE,
                            .dtype = MG_F32,
                            .axes = other,
                            .n = rt_ranks_of(r->program, other),
                            .outer = 1,
                            .size = SUMMED,
                            .inner = 1};
    mg_comm(r, 4, &d, x, x + SUMMED * sizeof(float), NULL);
}

static void walk(mg_run *r)
{
    int computed = 0;
    for (const mg_pipe_op *o = mg_pipe_ops(r, &of.pipe); o->step; o++) {
        if (o->step > MG_PIPE_W) {
            mg_pass(r, &of.pipe, o);
            continue;
        }
        compute(r, o);
        if (r->program->naxes > 1 && computed++ % 3 == 0)
            sum(r);
    }
}

/* ---- the host's part ------------------------------------------------------------------------- */

/* Everything that is sent in this iteration, and a log that nobody has written. */
static void fill(mg_run *r, int salt)
{
    const stage_table *t = of.table;
    float ones[SUMMED];
    for (int way = 0; way < 2; way++) {
        const int64_t stride = of.pipe.stride[way];
        uint32_t *words = rt_alloc((size_t)stride, 1);
        for (int stage = 0; stage < t->stages; stage++)
            for (int mb = 0; mb < t->microbatches; mb++) {
                for (int64_t i = 0; i < stride / 4; i++)
                    words[i] = table_word(way, stage, mb, salt, i);
                rt_put_own(r, of.list[way] + (stage * t->microbatches + mb) * stride, words,
                           stride);
                rt_device_wait(r);
            }
        rt_device_fill(r, of.log[way], 0xff, t->stages * t->microbatches * stride);
        free(words);
    }
    for (int i = 0; i < SUMMED; i++)
        ones[i] = (float)(r->rank + i % 7);
    rt_put_own(r, of.sums, ones, sizeof ones);
    rt_device_wait(r);
}

/* Checks the messages received for each stage of this rank and each microbatch. */
static void compare(mg_run *r, int salt, const char *what)
{
    const stage_table *t = of.table;
    for (int way = 0; way < 2; way++) {
        const int64_t bytes = of.pipe.bytes[way];
        uint32_t *words = rt_alloc((size_t)bytes, 1);
        for (int stage = mg_place(r, of.pipe.axis); stage < t->stages; stage += t->ranks)
            for (int mb = 0; mb < t->microbatches; mb++) {
                const int from = way ? stage + 1 : stage - 1;
                if (from < 0 || from == t->stages)
                    continue;
                rt_get(r, of.log[way] + (stage * t->microbatches + mb) * of.pipe.stride[way], words,
                       bytes);
                for (int64_t i = 0; i < bytes / 4; i++)
                    if (words[i] != table_word(way, from, mb, salt, i))
                        rt_die(RT_FAILED,
                               "%s, iteration %d: way %d, stage %d, microbatch %d, word %lld", what,
                               salt, way, stage, mb, (long long)i);
            }
        free(words);
    }
}

/* Places of one example in the arena; returns where it ends. */
static int64_t place(const example *e, int ranks, uint64_t drawn)
{
    int64_t at = 0;
    of.table =
        table_new(ranks, e->chunks, e->microbatches ? e->microbatches : 2 * ranks, e->order, drawn);
    of.pipe.ops = of.table->ops;
    for (int i = 0; i < 4; i++)
        of.pipe.action[i] = i;
    for (int way = 0; way < 2; way++) {
        const int64_t stride = of.pipe.stride[way] = (e->bytes[way] + 255) / 256 * 256;
        const int64_t all = of.table->stages * of.table->microbatches * stride;
        of.pipe.bytes[way] = e->bytes[way];
        of.pipe.send[way] = at;
        of.pipe.receive[way] = at += of.table->buffers * stride;
        of.list[way] = at += of.table->buffers * stride;
        of.log[way] = at += all;
        at += all;
    }
    of.sums = at;
    return at + 2 * SUMMED * (int64_t)sizeof(float);
}

static uint64_t seed;

/* As it is, captured, and replayed twice: new numbers each time. */
static void run_all(mg_run *r)
{
    static const rt_program slot[] = {RT_EVAL, RT_SAMPLE};
    for (int k = 0; k < EXAMPLES; k++) {
        /* Those of other ranks are other ones. */
        if (!sampled((uint64_t)(k + EXAMPLES * r->world.size), SANITIZED ? 3 : 1))
            continue;
        char *what = rt_printf("example %d", k);
        place(&examples[k], rt_ranks_of(r->program, of.pipe.axis), seed + (uint64_t)k);
        r->eval = r->sample = walk;
        for (int i = 0; i < (k < GRAPHS ? ITERATIONS : ITERATIONS / 2); i++) {
            fill(r, i);
            if (k < GRAPHS) /* of each, one graph is kept */
                rt_device_run(r, slot[k]);
            else
                walk(r);
            rt_device_wait(r);
            compare(r, i, what);
        }
        table_free(of.table);
        free(what);
        if (r->rank == 0) /* ranks that take turns on one GPU need seconds for each */
            fprintf(stderr, "check_pipe: example %d of %d passed\n", k + 1, EXAMPLES);
    }
}

int main(int argc, char **argv)
{
    static const int32_t none[8 * 3];
    const int stages = argc > 1 ? atoi(argv[1]) : 2, other = argc > 2 ? atoi(argv[2]) : 1;
    seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 12345;
    mg_program p = {.name = "check_pipe",
                    .cpu_features = "",
                    .compiler = "",
                    .layout = "",
                    .config = "",
                    .actions = actions,
                    .nactions = 6,
                    .naxes = 1 + (other > 1),
                    .axes = {{"pp", stages}, {"tp", other}},
                    .stages = {.axis = 1, .chunks = 1, .max_layers = 1, .layers = none},
                    .cuda_image = mg_cuda_image,
                    .collectives = &mg_nccl,
                    .ngroups = other > 1,
                    .groups = {2}};
    rt_options options = {.hang_after = 30, .threads = 1};
    mg_run r = {.program = &p, .options = &options, .threads = 1, .action = -1, .step = run_all};
    char *why = rt_world_read(&r.world);
    if (why || stages < 2 || stages > TABLE_RANKS || other < 1 || stages * other > 8)
        rt_die(RT_USAGE, "%s", why ? why : "two to eight ranks");
    of.pipe.axis = 1;
    for (int k = 0; k < EXAMPLES; k++) {
        int64_t bytes = place(&examples[k], stages, seed + (uint64_t)k);
        p.arena_bytes = bytes > p.arena_bytes ? bytes : p.arena_bytes;
        table_free(of.table);
    }
    rt_device_open(&r);
    r.pool = rt_pool_new(1, false);
    rt_arena_map(&r);
    /* Not by rt_run: its programs run, and are captured, as a whole. */
    rt_run(&r, RT_STEP);
    rt_device_wait(&r);
    rt_device_close(&r);
    rt_pool_free(r.pool);
    rt_world_free(&r.world);
    printf("check_pipe: %d ranks, %d tables passed\n", stages * other, EXAMPLES);
    return 0;
}
