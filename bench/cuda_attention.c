/* cuda_attention.c - attention in bf16 on a GPU, forward and its gradients, by the kernels for
 * sm_90 where there are such tensor cores and by those for sm_80: milliseconds and TFLOP/s, a line
 * of JSON each.
 *
 *     cuda_attention          shapes of GPT-2 124M, Llamas of 1 B and 3 B, Nemotron 340B
 *     cuda_attention small    one small shape, to see that it runs
 *     cuda_attention once N   the shape of that number once, for a profiler
 *
 * FLOPs as is usual (Dao, FlashAttention-2, 2023): 4 for a pair of query and key, channel and head
 * forward, 10 backward, and half of the pairs if causal. What is computed again is not counted. */
#include "runtime/cuda/cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char mg_cuda_image[];

enum { RUNS = 20, WARM = 3, SMALL = 16 << 20 };
#define ARENA ((int64_t)2 << 30)

static const mg_action action = {.name = "bench", .kind = "bench", .where = "here"};
const mg_program mg_main = {.abi = MG_ABI,
                            .name = "cuda_attention",
                            .compiler = "",
                            .layout = "",
                            .config = "",
                            .optimizer = "",
                            .cpu_features = "",
                            .compute = MG_F32,
                            .arena_bytes = ARENA,
                            .actions = &action,
                            .nactions = 1,
                            .cuda_image = mg_cuda_image};
static mg_program small_program;

typedef struct Shape {
    int64_t batch, seq, kv, group, head;
    bool causal;
} Shape;

static const Shape shapes[] = {
    {8, 1024, 12, 1, 64, true},  {4, 4096, 8, 4, 64, true},   {4, 4096, 8, 3, 128, true},
    {4, 4096, 8, 3, 128, false}, {1, 16384, 8, 4, 128, true}, {4, 1024, 8, 4, 128, true},
    {64, 1024, 12, 1, 64, true}, {1, 4096, 8, 4, 64, true},   {2, 4096, 32, 1, 128, true},
    {2, 4096, 1, 12, 192, true}, {4, 4096, 8, 2, 192, true}};
static const Shape small_shape = {1, 300, 2, 2, 64, true};

typedef struct Tensors {
    char *q, *k, *v, *o, *dout, *dq, *dk, *dv, *lse, *delta;
} Tensors;

/* Numbers in [-1, 1) as bf16. */
static void fill(mg_run *r, char *to, int64_t n, uint64_t seed)
{
    uint16_t *x = rt_alloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const float f = (float)(int32_t)(seed >> 32) * 0x1p-31f;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        x[i] = (uint16_t)(bits >> 16);
    }
    rt_put(r, to - r->arena, x, 2 * n);
    rt_device_wait(r);
    free(x);
}

/* Dense [batch, seq, kv, group, head]. */
static mg_attention_desc describe(const Shape *s)
{
    mg_attention_desc d = {.dtype = MG_BF16,
                           .batch = s->batch,
                           .queries = s->seq,
                           .keys = s->seq,
                           .kv = s->kv,
                           .group = s->group,
                           .head = s->head,
                           .vhead = s->head,
                           .causal = s->causal,
                           .scale = 1 / sqrt((double)s->head)};
    const int64_t heads = s->kv * s->group;
    const int64_t q[] = {s->seq * heads * s->head, heads * s->head, s->group * s->head, s->head};
    const int64_t k[] = {s->seq * s->kv * s->head, s->kv * s->head, s->head};
    const int64_t lse[] = {heads * s->seq, 1, s->group * s->seq, s->seq};
    memcpy(d.q, q, sizeof q), memcpy(d.o, q, sizeof q), memcpy(d.dq, q, sizeof q);
    memcpy(d.k, k, sizeof k), memcpy(d.v, k, sizeof k);
    memcpy(d.dk, k, sizeof k), memcpy(d.dv, k, sizeof k);
    memcpy(d.lse, lse, sizeof lse);
    return d;
}

static Tensors place(mg_run *r, const mg_attention_desc *d)
{
    const int64_t q = d->batch * d->q[0], k = d->batch * d->k[0], rows = d->batch * d->lse[0];
    const int64_t n[] = {2 * q, 2 * k, 2 * k, 2 * q,    2 * q,
                         2 * q, 2 * k, 2 * k, 4 * rows, 4 * rows};
    char *at = r->arena, *p[10];
    for (int i = 0; i < 10; i++) {
        p[i] = at;
        at += (n[i] + 255) / 256 * 256;
    }
    if (at - r->arena > r->program->arena_bytes)
        rt_die(RT_FAILED, "the arena is too small for this shape");
    fill(r, p[0], q, 1), fill(r, p[1], k, 2), fill(r, p[2], k, 3), fill(r, p[4], q, 4);
    return (Tensors){p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9]};
}

static void run_once(mg_run *r, const mg_attention_desc *d, const Tensors *t, bool backward)
{
    if (backward)
        mg_attention_grad(r, 0, d, t->q, t->k, t->v, t->o, t->lse, t->dout, t->dq, t->dk, t->dv,
                          t->delta);
    else
        mg_attention(r, 0, d, t->q, t->k, t->v, t->o, t->lse);
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The median of so many runs, milliseconds. */
static double time_of(mg_run *r, const mg_attention_desc *d, const Tensors *t, bool backward,
                      int runs)
{
    float ms[RUNS];
    cudaEvent_t begin, end;
    rt_cuda_must(cudaEventCreateWithFlags(&begin, 0), "an event");
    rt_cuda_must(cudaEventCreateWithFlags(&end, 0), "an event");
    for (int i = runs < RUNS ? 0 : -WARM; i < runs; i++) {
        rt_cuda_must(cudaEventRecord(begin, r->cuda->stream), "an event");
        run_once(r, d, t, backward);
        rt_cuda_must(cudaEventRecord(end, r->cuda->stream), "an event");
        rt_cuda_must(cudaEventSynchronize(end), "attention");
        rt_cuda_must(cudaEventElapsedTime(&ms[i < 0 ? 0 : i], begin, end), "an event");
    }
    rt_cuda_must(cudaEventDestroy(begin), "an event");
    rt_cuda_must(cudaEventDestroy(end), "an event");
    qsort(ms, (size_t)runs, sizeof *ms, by_size);
    return ms[runs / 2];
}

static void measure(mg_run *r, const Shape *s, const char *way, int runs)
{
    const mg_attention_desc d = describe(s);
    const Tensors t = place(r, &d);
    const double pairs = (double)s->seq * (double)s->seq * (s->causal ? 0.5 : 1);
    const double flops = pairs * (double)s->head * (double)(s->batch * s->kv * s->group);
    for (int backward = 0; backward < 2; backward++) {
        const double ms = time_of(r, &d, &t, backward, runs);
        printf("{\"what\": \"attention\", \"way\": \"%s\", \"backward\": %s, \"batch\": %lld, "
               "\"seq\": %lld, \"kv_heads\": %lld, \"group\": %lld, \"head\": %lld, "
               "\"causal\": %s, \"ms\": %.4f, \"tflops\": %.1f}\n",
               way, backward ? "true" : "false", (long long)s->batch, (long long)s->seq,
               (long long)s->kv, (long long)s->group, (long long)s->head,
               s->causal ? "true" : "false", ms, flops * (backward ? 10 : 4) / ms * 1e-9);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    mg_run r = {.program = &mg_main, .threads = 1};
    if (small) {
        small_program = mg_main;
        small_program.arena_bytes = SMALL;
        r.program = &small_program;
    }
    rt_device_open(&r);
    rt_arena_map(&r);
    const bool once = argc > 2 && strcmp(argv[1], "once") == 0;
    const int all = small ? 1 : (int)(sizeof shapes / sizeof *shapes);
    const int first = once ? atoi(argv[2]) : 0, n = once ? first + 1 : all;
    const int runs = small || once ? 1 : RUNS;
    if (first < 0 || n > all)
        rt_die(RT_USAGE, "there are %d shapes", all);
    for (int i = first; i < n; i++) {
        const Shape *s = small ? &small_shape : &shapes[i];
        const bool warpgroups = r.cuda->warpgroups;
        if (warpgroups)
            measure(&r, s, "sm_90", runs);
        r.cuda->warpgroups = false;
        measure(&r, s, "sm_80", runs);
        r.cuda->warpgroups = warpgroups;
    }
    rt_device_close(&r);
    return 0;
}
