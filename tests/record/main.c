/* main.c - runs a program alone, as one rank of its mesh, and writes down all that it calls of CUDA
 * (record.h).
 *
 *   record OUT RANK RUNS
 *
 * RUNS: how often each of its programs runs. The first run of a program is plain, the second is
 * captured, later ones are graphs. 0: one plain step, and no end, for scripts/gpu-bounds. What the
 * other ranks say (the name of their meeting, the leader's decisions) is bytes of 1. */
#include "tests/record/record.h"

#include "runtime/cuda/nccl_comms.h"
#include "runtime/machine.h"
#include "runtime/sizes.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const unsigned char mg_cuda_image[1];

/* ---- the other ranks ------------------------------------------------------------------------- */

static void *hear(void *link)
{
    char some[4096];
    while (recv((int)(intptr_t)link, some, sizeof some, 0) > 0)
        ;
    return NULL;
}

static void *tell(void *link)
{
    char some[4096];
    memset(some, 1, sizeof some);
    while (send((int)(intptr_t)link, some, sizeof some, MSG_NOSIGNAL) > 0)
        ;
    return NULL;
}

/* Makes this process a rank that is alone on its machine: it meets itself at barriers. */
static void stand_alone(mg_run *r, int rank)
{
    const mg_program *p = r->program;
    const int n = rt_ranks_of(p, RT_ALL_AXES);
    if (rank < 0 || rank >= n)
        rt_die(RT_USAGE, "there is no rank %d of %d", rank, n);
    r->rank = rank;
    if (n == 1)
        return;
    struct rt_ranks *k = r->ranks = rt_alloc(1, sizeof *k);
    int link[2];
    pthread_t others;
    k->n = n;
    k->here[k->nhere++] = rank;
    k->is_here[rank] = true;
    k->first = rt_alloc((size_t)1 << p->naxes, sizeof *k->first);
    k->shared = rt_alloc(1, sizeof *k->shared + (size_t)n * sizeof *k->shared->barrier);
    if (p->piece)
        k->copies = rt_alloc(1, (size_t)mg_copies_bytes(n, p->piece));
    for (int i = 0; i < n; i++)
        k->shared->barrier[i].members = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) ||
        pthread_create(&others, NULL, rank ? tell : hear, (void *)(intptr_t)link[1]))
        rt_die(RT_FAILED, "the other ranks cannot be made");
    for (int i = 0; i < n; i++) {
        k->is_here[i] = true; /* what is said goes over a link */
        k->link[i] = link[0];
    }
}

/* ---- the plan
 * ------------------------------------------------------------------------------------ */

/* planned NAME BYTES, and nodes.PROGRAM; ranks COMMUNICATOR N */
static void put_plan(const mg_program *p)
{
    record_line("planned", "arena %lld", (long long)p->arena_bytes);
    record_line("planned", "nodes.step %lld", (long long)p->step.nodes);
    record_line("planned", "nodes.eval %lld", (long long)p->eval.nodes);
    record_line("planned", "nodes.sample %lld", (long long)p->sample.nodes);
    record_line("planned", "nodes.round %lld", (long long)p->round.nodes);
    for (int i = 0; i < p->noutside; i++) {
        char *name = rt_printf("%s", p->outside[i].name);
        for (char *c = name; (c = strchr(c, ' '));)
            *c = '_';
        record_line("planned", "%s %lld", name, (long long)p->outside[i].bytes);
        free(name);
    }
}

/* How many ranks a communicator has, which its own rank knows alone of the whole mesh's. */
static void put_ranks(const mg_run *r)
{
    const rt_comms *c = r->cuda->comms;
    for (int i = 0; c && i < r->program->ngroups; i++)
        record_line("ranks", "%" PRIuPTR " %d", (uintptr_t)c->of[i],
                    rt_ranks_of(r->program, r->program->groups[i]));
}

/* ---- programs -------------------------------------------------------------------------------- */

static void put(mg_run *r, int64_t offset, int64_t bytes)
{
    if (offset < 0 || bytes <= 0)
        return;
    char *zeros = rt_alloc(1, (size_t)bytes);
    rt_put_own(r, offset, zeros, bytes);
    free(zeros);
}

/* Inputs of a run, all 0. */
static void feed(mg_run *r, const mg_entry *e)
{
    const int64_t rows = e->batch / rt_ranks_of(r->program, e->batch_axes);
    const int64_t scalars[] = {e->lr, e->step, e->seed, e->scale, e->filled, e->before};
    put(r, e->ninputs ? -1 : e->tokens, rows * e->window * 4);
    put(r, e->weights, rows * r->program->seq * mg_dtype_bytes(r->program->compute));
    for (int i = 0; i < e->ninputs; i++)
        put(r, e->inputs[i].offset,
            rows * e->inputs[i].elements * mg_dtype_bytes(e->inputs[i].dtype));
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        put(r, scalars[i], 8);
    put(r, e->pos, 4);
}

static void run(mg_run *r, rt_program which, const mg_entry *e, int runs)
{
    static const char *const names[] = {"step", "eval", "sample", "round"};
    if (e->nodes > MG_NODES_MAX) /* it is never captured: the first run, and one after another */
        runs = runs < 2 ? runs : 2;
    for (int i = 0; i < runs && e->present; i++) {
        record_line("program", "%s %d", names[which], i);
        feed(r, e);
        rt_device_run(r, which);
        r->action = -1;
        rt_device_wait(r);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        rt_die(RT_USAGE, "usage: record OUT RANK RUNS");
    const int runs = atoi(argv[3]);
    FILE *f = fopen(argv[1], "w");
    if (!f)
        rt_die(RT_FAILED, "cannot write %s", argv[1]);
    static const rt_options options; /* the guard asks what to do about spikes: nothing */
    mg_run r = {.program = &mg_main,
                .step = mg_step,
                .eval = mg_eval,
                .sample = mg_sample,
                .round = mg_round,
                .threads = 1,
                .options = &options,
                .action = -1};
    record_run = &r;
    record_to(f);
    stand_alone(&r, atoi(argv[2]));
    r.pool = rt_pool_new(1, false);
    for (int i = 0; i < mg_main.nactions; i++)
        fprintf(f, "action %d %s %s\n", i, mg_main.actions[i].kind, mg_main.actions[i].name);
    put_plan(r.program);
    rt_device_open(&r);
    rt_arena_map(&r);
    put_ranks(&r);
    if (runs) {
        run(&r, RT_ROUND, &mg_main.round, runs);
        run(&r, RT_STEP, &mg_main.step, runs);
        run(&r, RT_EVAL, &mg_main.eval, runs);
        run(&r, RT_SAMPLE, &mg_main.sample, runs);
        rt_device_close(&r);
        record_line("done", "+");
    } else {
        record_line("program", "step 0");
        mg_step(&r);
    }
    return fclose(f) != 0;
}
