/* kernels.c - how fast the hand-written kernels and the library's products are, beside the limit
 * measured on the same processor in the same run: multiply-adds for what computes, memory
 * bandwidth for what moves.
 *
 *   bench_kernels [THREADS [FILTER]]        one thread and THREADS (2); cases that contain FILTER
 *   bench_kernels --products FILE THREADS TYPE
 *                                           the limits, and the products of FILE, in f32 or bf16,
 * by every library there is: numbers alone (bench/products.h)
 *
 * Each figure is the best of many runs: on a shared machine that is the one that repeats. */
#include "bench/blas.h"
#include "bench/products.h"
#include "kernels/isa.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MGK_BODY "bench/peak_body.h"
#include "kernels/each_isa.h"
#include "runtime/sizes.h"

#undef T
#undef V

typedef double Peak(int64_t, double *);
static Peak *const peaks[][MGK_FLOATS] = MGK_TABLE(peak);

/* ---- a small pool ------------------------------------------------------------------------- */

enum { LIMIT = 64, HUGE_PAGE = 2 << 20 };

struct mg_run {
    int threads;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    int round, left;
    int64_t units, grain;
    mg_task *fn;
    void *ctx;
    char *scratch[LIMIT];
};

static void share(mg_run *r, int i)
{
    int64_t max = (r->units + r->grain - 1) / r->grain;
    int64_t n = max < r->threads ? (max > 0 ? max : 1) : r->threads;
    if (i < n && r->units > 0)
        r->fn(r->ctx, r->units * i / n, r->units * (i + 1) / n, r->scratch[i]);
}

typedef struct Seat {
    mg_run *run;
    int i;
} Seat;

static _Noreturn void *serve(void *p)
{
    Seat s = *(Seat *)p;
    mg_run *r = s.run;
    free(p);
    for (int seen = 0;;) {
        pthread_mutex_lock(&r->lock);
        while (r->round == seen)
            pthread_cond_wait(&r->wake, &r->lock);
        seen = r->round;
        pthread_mutex_unlock(&r->lock);
        share(r, s.i);
        pthread_mutex_lock(&r->lock);
        if (--r->left == 0)
            pthread_cond_signal(&r->done);
        pthread_mutex_unlock(&r->lock);
    }
}

static mg_run *pool_new(int threads, size_t scratch)
{
    mg_run *r = calloc(1, sizeof *r);
    r->threads = threads;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    pthread_cond_init(&r->done, NULL);
    for (int i = 0; i < threads; i++) {
        pthread_t t;
        Seat *s = malloc(sizeof *s);
        *s = (Seat){r, i};
        r->scratch[i] = aligned_alloc(HUGE_PAGE, scratch); /* on large pages, as the runtime's */
        madvise(r->scratch[i], scratch, MADV_HUGEPAGE);
        memset(r->scratch[i], 0, scratch);
        if (i == 0)
            free(s);
        else if (pthread_create(&t, NULL, serve, s))
            exit(1);
    }
    return r;
}

void mg_look(mg_run *r, const void *scratch)
{
    (void)r, (void)scratch;
}

void mg_parallel(mg_run *r, int64_t units, int64_t grain, mg_task *fn, void *ctx)
{
    r->units = units, r->grain = grain, r->fn = fn, r->ctx = ctx;
    if (r->threads == 1 || units <= grain) {
        if (units > 0)
            fn(ctx, 0, units, r->scratch[0]);
        return;
    }
    pthread_mutex_lock(&r->lock);
    r->left = r->threads - 1;
    r->round++;
    pthread_cond_broadcast(&r->wake);
    pthread_mutex_unlock(&r->lock);
    share(r, 0);
    pthread_mutex_lock(&r->lock);
    while (r->left > 0)
        pthread_cond_wait(&r->done, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

int mg_threads(const mg_run *r)
{
    return r->threads;
}

void mg_begin(mg_run *r, int action)
{
    (void)r, (void)action;
}

void mg_end(mg_run *r, int action)
{
    (void)r, (void)action;
}

void mg_output(mg_run *r, int action, const void *p, int64_t elements, mg_dtype t)
{
    (void)r, (void)action, (void)p, (void)elements, (void)t;
}

bool mg_outputs(mg_run *r, int action, void *const *p, const void *c)
{
    (void)r, (void)action, (void)p, (void)c;
    return false;
}

/* ---- measuring ---------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct Bench {
    mg_run *run;
    const char *filter;
    double flops, bytes; /* limits a second, of all threads */
} Bench;

typedef void Work(mg_run *r, void *ctx);

/* Best of the runs that fit in `window` seconds, at least three. */
static double best_within(mg_run *r, double window, Work *work, void *ctx)
{
    double best = 1e30, start = now();
    for (int i = 0; i < 3 || now() - start < window; i++) {
        double t = now();
        work(r, ctx);
        t = now() - t;
        best = t < best ? t : best;
    }
    return best;
}

static void peak_task(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    double *done = ctx;
    for (int64_t i = begin; i < end; i++)
        done[8 * i] = peaks[mgk_isa()][0](100000, scratch);
}

static void peak_work(mg_run *r, void *ctx)
{
    mg_parallel(r, r->threads, 1, peak_task, ctx);
}

/* The limit is measured again beside each case, since clocks move: the best of before and after. */
static double peak_of(mg_run *r)
{
    double done[8 * LIMIT] = {0}, seconds = best_within(r, 0.03, peak_work, done);
    return done[0] * r->threads / seconds;
}

static double best_of(Bench *b, Work *work, void *ctx)
{
    double before = peak_of(b->run), best = best_within(b->run, 0.5, work, ctx);
    double after = peak_of(b->run);
    b->flops = before > after ? before : after;
    return best;
}

static void report(const Bench *b, const char *name, double seconds, double flops, double bytes)
{
    double rate = (flops > 0 ? flops : bytes) / seconds;
    double limit = flops > 0 ? b->flops : b->bytes;
    printf("%-54s %9.3f ms %8.1f %s %5.1f %% of %.0f\n", name, seconds * 1e3, rate * 1e-9,
           flops > 0 ? "GF/s" : "GB/s", 100 * rate / limit, limit * 1e-9);
    fflush(stdout);
}

static bool wanted(const Bench *b, const char *name)
{
    return !b->filter || strstr(name, b->filter);
}

/* On large pages, as an arena is. */
static float *numbers(int64_t n, float scale)
{
    const size_t bytes = (size_t)(n * 4 + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    float *p = aligned_alloc(HUGE_PAGE, bytes);
    madvise(p, bytes, MADV_HUGEPAGE);
    uint32_t s = 1;
    for (int64_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        p[i] = scale * ((float)(s >> 8) * 0x1p-23f - 1);
    }
    return p;
}

typedef struct Move {
    float *to, *from;
    int64_t bytes;
} Move;

static void move_work(mg_run *r, void *ctx)
{
    const Move *m = ctx;
    mg_copy(r, 0, m->to, m->from, m->bytes);
}

static void limits(Bench *b)
{
    Move m = {.bytes = (int64_t)256 << 20};
    m.to = numbers(m.bytes / 4, 1), m.from = numbers(m.bytes / 4, 1);
    b->bytes = 2 * (double)m.bytes / best_of(b, move_work, &m); /* read and written */
    free(m.to);
    free(m.from);
    printf("%d thread%s: %.1f GF/s of f32 multiply-adds, %.1f GB/s copied\n", b->run->threads,
           b->run->threads > 1 ? "s" : "", b->flops * 1e-9, b->bytes * 1e-9);
}

/* ---- products ----------------------------------------------------------------------------- */

typedef struct Product {
    mg_gemm_desc d;
    float *a, *b, *c;
} Product;

static void product_work(mg_run *r, void *ctx)
{
    const Product *p = ctx;
    mg_gemm(r, 0, &p->d, p->a, p->b, p->c, NULL, NULL);
}

/* count: products, one after the other in memory. */
static void products_of(Bench *b, const char *name, int64_t count, int64_t m, int64_t n, int64_t k,
                        bool ta, bool tb)
{
    if (!wanted(b, name))
        return;
    Product p = {
        .d = {
            .dtype = MG_F32, .out = MG_F32, .ta = ta, .tb = tb, .m = m, .n = n, .k = k, .ldc = n}};
    p.d.lda = ta ? m : k, p.d.ldb = tb ? k : n, p.d.alpha = 1, p.d.batch = count;
    p.d.sa = m * k, p.d.sb = k * n, p.d.sc = m * n;
    p.a = numbers(count * m * k, 1), p.b = numbers(count * k * n, 1);
    p.c = numbers(count * m * n, 1);
    report(b, name, best_of(b, product_work, &p),
           2.0 * (double)m * (double)n * (double)k * (double)count, 0);
    free(p.a);
    free(p.b);
    free(p.c);
}

static void product(Bench *b, const char *what, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    char name[64];
    snprintf(name, sizeof name, "gemm %s %ldx%ldx%ld", what, (long)m, (long)n, (long)k);
    products_of(b, name, 1, m, n, k, ta, tb);
}

/* Products of a linear recurrence's chunks, more than a cache holds. */
static void chunks(Bench *b, int64_t m, int64_t n, int64_t k)
{
    static const char *const order[] = {"x w", "x wT", "xT w", "xT wT"};
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "gemm chunks %s %ldx%ldx%ld", order[i], (long)m, (long)n,
                 (long)k);
        products_of(b, name, ((int64_t)1 << 24) / (m * k + k * n + m * n), m, n, k, i & 2, i & 1);
    }
}

/* y[m, n] = x[m, k] w[k, n] and its two gradients; and the same with w turned, as heads have it. */
static void linear(Bench *b, int64_t m, int64_t k, int64_t n)
{
    product(b, "y  = x w  ", m, n, k, false, false);
    product(b, "dx = dy wT", m, k, n, false, true);
    product(b, "dw = xT dy", k, n, m, true, false);
    product(b, "y = x wT  ", m, n, k, false, true);
    product(b, "dx = dy w ", m, k, n, false, false);
    product(b, "dw = dyT x", n, k, m, true, false);
}

/* ---- attention ---------------------------------------------------------------------------- */

typedef struct Attention {
    mg_attention_desc d;
    float *q, *k, *v, *o, *lse, *dout, *dq, *dk, *dv;
    int32_t *seen; /* a round of a ring: per query, how many keys it sees */
} Attention;

static void forward_work(mg_run *r, void *ctx)
{
    const Attention *a = ctx;
    mg_attention_part(r, 0, &a->d, a->q, a->k, a->v, a->o, a->lse, NULL, a->seen, NULL);
}

static void backward_work(mg_run *r, void *ctx)
{
    const Attention *a = ctx;
    mg_attention_part_grad(r, 0, &a->d, a->q, a->k, a->v, a->o, a->lse, a->dout, a->dq, a->dk,
                           a->dv, NULL, a->seen, NULL, NULL);
}

/* Tensors as the compiler lays them: [batch, seq, kv, group, head], and lse without head. ring:
 * keys of a rank between the two parts that this one has in zigzag order. */
static void attention(Bench *b, const char *what, int64_t batch, int64_t seq, int64_t kv,
                      int64_t group, int64_t head, bool ring)
{
    char name[64];
    snprintf(name, sizeof name, "attention %s", what);
    if (!wanted(b, name))
        return;
    const int64_t h = kv * group, rows = batch * seq;
    Attention a = {.d = {.dtype = MG_F32,
                         .causal = !ring,
                         .scale = 0.125,
                         .batch = batch,
                         .kv = kv,
                         .group = group,
                         .queries = seq,
                         .keys = seq,
                         .head = head,
                         .vhead = head,
                         .q = {seq * h * head, h * head, group * head, head},
                         .k = {seq * kv * head, kv * head, head},
                         .v = {seq * kv * head, kv * head, head},
                         .o = {seq * h * head, h * head, group * head, head},
                         .lse = {seq * h, h, group, 1},
                         .dq = {seq * h * head, h * head, group * head, head},
                         .dk = {seq * kv * head, kv * head, head},
                         .dv = {seq * kv * head, kv * head, head}}};
    float **wide[] = {&a.q, &a.o, &a.dout, &a.dq}, **thin[] = {&a.k, &a.v, &a.dk, &a.dv};
    for (int i = 0; i < 4; i++) {
        *wide[i] = numbers(rows * h * head, 1);
        *thin[i] = numbers(rows * kv * head, 1);
    }
    a.lse = numbers(rows * h, 1);
    a.seen = ring ? calloc((size_t)seq, sizeof *a.seen) : NULL;
    for (int64_t s = seq / 2; ring && s < seq; s++)
        a.seen[s] = (int32_t)seq;
    /* Two products over the pairs that are seen, t <= s; five in the backward pass. */
    const double pairs = (double)(batch * h) * (double)seq * (double)(seq + !ring) / 2;
    snprintf(name, sizeof name, "attention %s forward", what);
    report(b, name, best_of(b, forward_work, &a), 4 * pairs * (double)head, 0);
    snprintf(name, sizeof name, "attention %s backward", what);
    report(b, name, best_of(b, backward_work, &a), 10 * pairs * (double)head, 0);
    for (int i = 0; i < 4; i++) {
        free(*wide[i]);
        free(*thin[i]);
    }
    free(a.lse);
    free(a.seen);
}

/* ---- cross-entropy and the head ----------------------------------------------------------- */

typedef struct Loss {
    mg_head_desc d;
    float *x, *w, *z, *dz, *loss, *lse, *dx, *dw, *dloss;
    int32_t *target;
    void *work;
} Loss;

static void xent_work(mg_run *r, void *ctx)
{
    const Loss *l = ctx;
    mg_xent(r, 0, &l->d.xent, l->z, l->target, l->loss, l->lse);
}

static void xent_grad_work(mg_run *r, void *ctx)
{
    const Loss *l = ctx;
    mg_xent_grad(r, 0, &l->d.xent, l->z, l->target, l->lse, l->dloss, l->dz);
}

static void head_work(mg_run *r, void *ctx)
{
    const Loss *l = ctx;
    mg_head(r, 0, &l->d, l->x, l->w, l->target, l->dloss, l->loss, l->dx, l->dw, l->work);
}

static void losses(Bench *b, const char *what, int64_t rows, int64_t hidden, int64_t vocab,
                   int64_t chunk)
{
    char name[64];
    snprintf(name, sizeof name, "head xent %s", what);
    if (!wanted(b, name))
        return;
    Loss l = {.d = {.xent = {MG_F32, rows, vocab, vocab, 0, 1, 1},
                    .hidden = hidden,
                    .chunk = chunk,
                    .w_by_vocab = true,
                    .dw = MG_F32}};
    l.x = numbers(rows * hidden, 1), l.w = numbers(hidden * vocab, 0.02f);
    l.z = numbers(rows * vocab, 4), l.dz = numbers(rows * vocab, 1);
    l.loss = numbers(rows, 1), l.lse = numbers(rows, 1), l.dloss = numbers(1, 1);
    l.dx = numbers(rows * hidden, 1), l.dw = numbers(hidden * vocab, 1);
    l.target = calloc((size_t)rows, sizeof *l.target);
    l.work = aligned_alloc(64, (size_t)(mg_head_work(&l.d) + 63) / 64 * 64);
    memset(l.work, 0, (size_t)mg_head_work(&l.d));
    const double bytes = 4.0 * (double)rows * (double)vocab;
    snprintf(name, sizeof name, "xent %s forward", what);
    report(b, name, best_of(b, xent_work, &l), 0, bytes);
    snprintf(name, sizeof name, "xent %s backward", what);
    report(b, name, best_of(b, xent_grad_work, &l), 0, 2 * bytes);
    snprintf(name, sizeof name, "head %s chunk %ld", what, (long)chunk);
    report(b, name, best_of(b, head_work, &l), 6.0 * (double)rows * (double)hidden * (double)vocab,
           0);
    void *all[] = {l.x, l.w, l.z, l.dz, l.loss, l.lse, l.dloss, l.dx, l.dw, l.target, l.work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- what moves --------------------------------------------------------------------------- */

typedef struct Table {
    mg_gather_desc d;
    float *table, *rows;
    int32_t *index;
} Table;

static void gather_work(mg_run *r, void *ctx)
{
    const Table *t = ctx;
    mg_gather(r, 0, &t->d, t->table, t->index, t->rows);
}

static void scatter_work(mg_run *r, void *ctx)
{
    const Table *t = ctx;
    mg_scatter_add(r, 0, &t->d, t->rows, t->index, t->table, NULL);
}

static void random_work(mg_run *r, void *ctx)
{
    const int64_t seed = 1, step = 2;
    const int32_t slot = 0;
    mg_random_desc d = {.dtype = MG_F32, .key = 5, .elements = 1 << 20};
    mg_random(r, 0, &d, &seed, &step, &slot, ctx);
}

static void moves(Bench *b, int64_t indices, int64_t n, int64_t inner)
{
    if (!wanted(b, "gather scatter random"))
        return;
    Table t = {.d = {.dtype = MG_F32,
                     .indices = indices,
                     .tables = 1,
                     .outer = 1,
                     .n = n,
                     .inner = inner,
                     .index_inner = 1,
                     .index_outer = 1,
                     .accumulate = true}};
    t.table = numbers(n * inner, 1), t.rows = numbers(indices * inner, 1);
    t.index = malloc((size_t)indices * sizeof *t.index);
    for (int64_t i = 0; i < indices; i++)
        t.index[i] = (int32_t)(i * i % n);
    const double row = 4.0 * (double)(indices * inner);
    report(b, "gather", best_of(b, gather_work, &t), 0, 2 * row);
    report(b, "scatter_add", best_of(b, scatter_work, &t), 0, 3 * row);
    float *u = numbers(1 << 20, 1);
    report(b, "random", best_of(b, random_work, u), 0, 4.0 * (1 << 20));
    free(u);
    free(t.table);
    free(t.rows);
    free(t.index);
}

static void all(int threads, const char *filter)
{
    Bench b = {.run = pool_new(threads, 16 << 20), .filter = filter};
    limits(&b);
    attention(&b, "llama_56m (8x256, 4x2 heads of 64)", 8, 256, 4, 2, 64, false);
    attention(&b, "llama_mini (16x128, 4 heads of 32)", 16, 128, 4, 1, 32, false);
    attention(&b, "long (1x2048, 4 heads of 128)", 1, 2048, 4, 1, 128, false);
    attention(&b, "long, a round of a ring", 1, 2048, 4, 1, 128, true);
    linear(&b, 2048, 512, 512);
    linear(&b, 2048, 512, 1376);
    linear(&b, 2048, 512, 32000);
    linear(&b, 256, 768, 2304);
    linear(&b, 256, 768, 50257);
    linear(&b, 2048, 128, 128);
    linear(&b, 2048, 128, 384);
    linear(&b, 2048, 256, 1160);
    chunks(&b, 32, 64, 32);
    chunks(&b, 64, 64, 64);
    chunks(&b, 64, 512, 64);
    chunks(&b, 64, 64, 512);
    /* A step of a recurrence: few rows, and weights that no second-level cache holds. */
    product(&b, "h w ", 4, 3840, 1280, false, false);
    product(&b, "h wT", 4, 3840, 1280, false, true);
    for (int64_t c = 128; c <= 2048; c *= 2)
        losses(&b, "llama_56m", 2048, 512, 32000, c);
    losses(&b, "gpt2", 256, 768, 50257, 64);
    losses(&b, "gpt2", 256, 768, 50257, 256);
    losses(&b, "llama_mini", 2048, 128, 256, 2048);
    moves(&b, 2048, 32000, 512);
}

/* "limits", FLOP/s and bytes/s; "library" and its name; then products_run's lines. */
static int products(int threads, mg_dtype type, const char *path)
{
    Bench b = {.run = pool_new(threads, 16 << 20)};
    Move m = {.bytes = (int64_t)256 << 20};
    m.to = numbers(m.bytes / 4, 1), m.from = numbers(m.bytes / 4, 1);
    b.bytes = 2 * (double)m.bytes / best_of(&b, move_work, &m);
    free(m.to);
    free(m.from);
    printf("limits %.0f %.0f\nlibrary %s\n", b.flops, b.bytes, mg_blas_name());
    int bad = products_run(b.run, type, path);
    if (bad)
        fprintf(stderr, "bench_kernels: %s:%d: a line is ta tb m n k\n", path, bad);
    return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
    const bool list = argc == 5 && !strcmp(argv[1], "--products");
    const int threads = list ? atoi(argv[3]) : argc > 1 ? atoi(argv[1]) : 2;
    if (threads < 1 || threads > LIMIT) {
        fprintf(stderr, "bench_kernels: between 1 and 64 threads\n");
        return 1;
    }
    if (list) {
        products_open(threads);
        return products(threads, strcmp(argv[4], "bf16") ? MG_F32 : MG_BF16, argv[2]);
    }
    printf("products: %s\n", mg_products_name());
    all(1, argc > 2 ? argv[2] : NULL);
    if (threads > 1)
        all(threads, argc > 2 ? argv[2] : NULL);
    return 0;
}
