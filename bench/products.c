/* products.c - products of a given list, each alone, by every library there is: mgc's own kernels,
 * OpenBLAS cut over the pool, oneDNN with its own threads.
 *
 * bench/cpu.py holds a step against the best time that its products could take, so a library is
 * called as it is fastest: operands warm, nothing else between the calls. */
#include "bench/products.h"
#include "bench/blas.h"
#include "runtime/half.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    MAX_RUNS = 1000,
    STEP = 32, /* OpenBLAS's parts: whole micro-kernels */
};
static const double WINDOW = 0.15; /* seconds of a product by a library */

typedef int Dnnl(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
static Dnnl *dnnl; /* written once, before any product */

typedef struct Product {
    mg_run *run;
    int64_t m, n, k, lda, ldb;
    bool ta, tb;
    mg_dtype type;
    float *a, *b, *c; /* of MG_BF16 16 bits each */
} Product;

typedef void Way(const Product *p);

void products_open(int threads)
{
    char text[16];
    snprintf(text, sizeof text, "%d", threads);
    setenv("OMP_NUM_THREADS", text, 1); /* read when the library of OpenMP is loaded */
    static const char *const files[] = {"libdnnl.so.3", "libdnnl.so.2"};
    for (int i = 0; i < 2 && !dnnl; i++) {
        void *library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        void *f = library ? dlsym(library, "dnnl_sgemm") : NULL;
        memcpy(&dnnl, &f, sizeof dnnl);
    }
    mg_blas_open(); /* without it there is one library fewer */
}

static void own(const Product *p)
{
    const mg_gemm_desc d = {.dtype = p->type,
                            .out = p->type,
                            .ta = p->ta,
                            .tb = p->tb,
                            .m = p->m,
                            .n = p->n,
                            .k = p->k,
                            .lda = p->lda,
                            .ldb = p->ldb,
                            .ldc = p->n,
                            .alpha = 1,
                            .batch = 1};
    mg_gemm(p->run, 0, &d, p->a, p->b, p->c, NULL, NULL);
}

/* Rows or columns [begin, end) in steps, of the larger of m and n: one call a thread. */
static void openblas_part(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Product *p = ctx;
    const bool rows = p->m >= p->n;
    const int64_t all = rows ? p->m : p->n, from = begin * STEP;
    const int64_t size = (end * STEP < all ? end * STEP : all) - from;
    const float *a = p->a + (rows ? (p->ta ? from : from * p->lda) : 0);
    const float *b = p->b + (rows ? 0 : (p->tb ? from * p->ldb : from));
    mgk_blas_get()->sgemm(MGK_ROW_MAJOR, p->ta ? MGK_TRANS : MGK_NO_TRANS,
                          p->tb ? MGK_TRANS : MGK_NO_TRANS, (int)(rows ? size : p->m),
                          (int)(rows ? p->n : size), (int)p->k, 1, a, (int)p->lda, b, (int)p->ldb,
                          0, p->c + (rows ? from * p->n : from), (int)p->n);
}

static void openblas(const Product *p)
{
    const int64_t all = p->m >= p->n ? p->m : p->n;
    mg_parallel(p->run, (all + STEP - 1) / STEP, 1, openblas_part, (void *)p);
}

static void onednn(const Product *p)
{
    dnnl(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n, p->k, 1, p->a, p->lda, p->b, p->ldb, 0,
         p->c, p->n);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void measure(const Product *p, const char *name, Way *way)
{
    double times[MAX_RUNS], start = now();
    int n = 0;
    way(p); /* pages, packing buffers, the library's threads */
    while (n < MAX_RUNS && (n < 3 || now() - start < WINDOW)) {
        double t = now();
        way(p);
        times[n++] = now() - t;
    }
    qsort(times, (size_t)n, sizeof *times, by_size);
    printf("%d %d %ld %ld %ld %s %.9f %.9f\n", p->ta, p->tb, (long)p->m, (long)p->n, (long)p->k,
           name, (times[n / 2] + times[(n - 1) / 2]) / 2, times[0]);
    fflush(stdout);
}

/* On large pages, as an arena is. */
static float *numbers(int64_t n, mg_dtype type)
{
    enum { HUGE_PAGE = 2 << 20 };
    const size_t bytes = (size_t)(n * mg_dtype_bytes(type) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    float *p = aligned_alloc(HUGE_PAGE, bytes);
    if (!p)
        exit(1);
    madvise(p, bytes, MADV_HUGEPAGE);
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)(i % 251) * 0x1p-8f; /* a bf16 as it is */
        if (type == MG_F32)
            p[i] = x;
        else
            ((uint16_t *)p)[i] = mg_to_bf16(x);
    }
    return p;
}

static void product(mg_run *r, mg_dtype type, const int64_t of[5])
{
    Product p = {
        .run = r, .type = type, .ta = of[0], .tb = of[1], .m = of[2], .n = of[3], .k = of[4]};
    p.lda = p.ta ? p.m : p.k, p.ldb = p.tb ? p.k : p.n;
    p.a = numbers(p.m * p.k, type), p.b = numbers(p.k * p.n, type), p.c = numbers(p.m * p.n, type);
    measure(&p, "mgc", own);
    if (type == MG_F32 && !mg_blas_open())
        measure(&p, "OpenBLAS", openblas);
    if (type == MG_F32 && dnnl)
        measure(&p, "oneDNN", onednn);
    free(p.a);
    free(p.b);
    free(p.c);
}

int products_run(mg_run *r, mg_dtype type, const char *path)
{
    FILE *f = fopen(path, "r");
    char line[128];
    int number = 0, bad = f ? 0 : 1;
    while (!bad && fgets(line, sizeof line, f)) {
        long of[5];
        number++;
        if (sscanf(line, "%ld %ld %ld %ld %ld", &of[0], &of[1], &of[2], &of[3], &of[4]) != 5 ||
            of[2] < 1 || of[3] < 1 || of[4] < 1)
            bad = number;
        else
            product(r, type, (int64_t[]){of[0] != 0, of[1] != 0, of[2], of[3], of[4]});
    }
    if (f)
        fclose(f);
    return bad;
}
