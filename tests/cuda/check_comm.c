/* check_comm.c - collectives of runtime/cuda/comm.c by real ranks, against their definition: random
 * shapes along each set of axes, once as they are and once in a captured graph. On the shim here;
 * scripts/gpu-check runs it on GPUs.
 *
 *   check_comm [AXES [SEED [PIECE]]]      2^AXES ranks: 1, 2 or 3; SEED: of what is drawn; PIECE:
 *                                         by copies, where they may be, of at most so many bytes */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"
#include "runtime/half.h"
#include "runtime/net/ranks.h"
#include "tests/runtime/collective.h"

enum { RANKS = 8, CASES = 60, LIMIT = 1 << 16, SPACE = LIMIT * RANKS * 8 };

extern const unsigned char mg_cuda_image[];
static const mg_action nothing = {"collective", "communication", "", 0, 0, 0, 0, {{0, 0, 0}}};
static const mg_axis axes[] = {{"a", 2}, {"b", 2}, {"c", 2}};

/* The random cases: all ranks draw the same ones, over the axes of the whole mesh. */
typedef struct cases {
    int axes;
    uint64_t seed;
    int64_t piece;
} cases;
static cases of; /* a program has no argument */
static int call_number;

/* By copies halves are added up, too; their sums are exact. */
static mg_comm_desc next(uint64_t *seed)
{
    mg_comm_desc d = random_desc(seed, of.axes), copied = d;
    const bool sums = d.kind == MG_ALL_REDUCE || d.kind == MG_REDUCE_SCATTER;
    if (sums && d.dtype == MG_I32)
        copied.dtype = d.n < 8 && d.outer % 2 ? MG_BF16 : MG_F16;
    if (!of.piece || !mg_copies_may(&copied))
        return d;
    copied.piece = of.piece;
    return copied;
}

static int by_copies;

static void fill(mg_run *r, const mg_comm_desc *d, char *host)
{
    int64_t n = d->outer * d->size * d->inner;
    for (int64_t i = 0; i < n; i++)
        put(d->dtype, host, i, value(r->rank + call_number, i));
    rt_put_own(r, 0, host, n * mg_dtype_bytes(d->dtype));
}

static void compare(mg_run *r, const mg_comm_desc *d, int number, char *host)
{
    int member[RANKS], n = 0, me = rt_place_of(r->program, r->rank, d->axes);
    uint32_t others = ~d->axes & ((1u << of.axes) - 1);
    for (int k = 0; k < 1 << of.axes; k++)
        if (rt_place_of(r->program, k, others) == rt_place_of(r->program, r->rank, others))
            member[n++] = k + call_number;
    rt_get(r, SPACE, host, mg_comm_elements(d) * mg_dtype_bytes(d->dtype));
    for (int64_t i = 0; i < mg_comm_elements(d); i++)
        if (get(d->dtype, host, i) != expected(d, member, me, i))
            rt_die(RT_FAILED,
                   "case %d, kind %d, along %u, zigzag %d, tree %d, element %lld: %g for %g",
                   number, (int)d->kind, d->axes, d->zigzag, d->tree, (long long)i,
                   get(d->dtype, host, i), expected(d, member, me, i));
}

/* Each case by itself, with numbers of this call. */
static void run_cases(mg_run *r)
{
    char *host = rt_alloc(SPACE, 1), *a = mg_arena(r);
    uint64_t seed = of.seed;
    for (int c = 0; c < CASES; c++) {
        mg_comm_desc d = next(&seed);
        by_copies += d.piece > 0;
        fill(r, &d, host);
        mg_comm(r, 0, &d, a, a + SPACE, mg_comm_work(&d) ? a + 2 * SPACE : NULL);
        compare(r, &d, c, host);
    }
    free(host);
}

/* One case as a program that may be captured. */
static mg_comm_desc graphed;
static void run_one(mg_run *r)
{
    char *a = mg_arena(r);
    mg_comm(r, 0, &graphed, a, a + SPACE, mg_comm_work(&graphed) ? a + 2 * SPACE : NULL);
}

/* The same program four times, with new numbers each time: as it is, captured, and replayed. */
static void run_graph(mg_run *r)
{
    char *host = rt_alloc(SPACE, 1);
    uint64_t seed = of.seed + 999;
    graphed = next(&seed);
    while (graphed.kind == MG_SHARD || (of.piece && !graphed.piece))
        graphed = next(&seed);
    r->eval = run_one;
    for (call_number = 0; call_number < 4; call_number++) {
        fill(r, &graphed, host);
        rt_device_run(r, RT_EVAL);
        compare(r, &graphed, -1, host);
    }
    call_number = 0;
    free(host);
}

static void both(mg_run *r)
{
    run_cases(r);
    run_graph(r);
}

int main(int argc, char **argv)
{
    of.axes = argc > 1 ? atoi(argv[1]) : 2;
    of.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 12345;
    of.piece = argc > 3 ? atoll(argv[3]) : 0;
    mg_program p = {.name = "check_comm",
                    .cpu_features = "",
                    .compiler = "",
                    .layout = "",
                    .config = "",
                    .arena_bytes = 4 * (int64_t)SPACE,
                    .actions = &nothing,
                    .nactions = 1,
                    .naxes = of.axes,
                    .cuda_image = mg_cuda_image,
                    .collectives = &mg_nccl,
                    .ngroups = (1 << of.axes) - 1,
                    .by_copies = of.piece ? ((uint64_t)1 << ((1 << of.axes) - 1)) - 1 : 0,
                    .piece = of.piece};
    for (int i = 0; i < of.axes; i++)
        p.axes[i] = axes[i];
    for (int i = 0; i < p.ngroups; i++)
        p.groups[i] = (uint32_t)i + 1;
    rt_options options = {.hang_after = 60, .threads = 1};
    mg_run r = {.program = &p, .options = &options, .threads = 1, .action = -1, .step = both};
    char *why = rt_world_read(&r.world);
    if (why || of.axes < 1 || of.axes > 3)
        rt_die(RT_USAGE, "%s", why ? why : "one to three axes");
    rt_device_open(&r);
    r.pool = rt_pool_new(1, false);
    rt_arena_map(&r);
    /* Not by rt_run: its program runs, and is captured, as a whole. */
    rt_run(&r, RT_STEP);
    rt_device_wait(&r);
    rt_device_close(&r);
    rt_pool_free(r.pool);
    rt_world_free(&r.world);
    printf("check_comm: %d ranks, %d cases (%d by copies) and a graph passed\n", 1 << of.axes,
           CASES, by_copies);
    return 0;
}
