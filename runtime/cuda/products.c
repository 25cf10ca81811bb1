/* products.c - matrix products by cuBLASLt.
 *
 * It knows columns first, so a product of row-major matrices is asked for as C' = B' A'. What a
 * description needs (layouts, the algorithm that the heuristic puts first) is made when it is met
 * for the first time and kept. */
#include "runtime/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 32 << 20 };

typedef struct product {
    mg_gemm_desc d;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c; /* of B', A' and C' */
    cublasLtMatmulAlgo_t algo;
    bool apart; /* the library has no algorithm for its epilogue: a kernel does it */
} product;

struct rt_products {
    cublasLtHandle_t lt;
    void *workspace[RT_STREAMS]; /* made when a stream has its first product */
    cublasComputeType_t f32;     /* how products of floats are computed */
    product *item;
    int n;
};

static void must(cublasStatus_t s, const char *what)
{
    if (s != CUBLAS_STATUS_SUCCESS)
        rt_die(RT_FAILED, "cuBLASLt: %s: status %d", what, (int)s);
}

const char *mg_blas_open(void)
{
    return NULL; /* linked */
}

const char *mg_blas_name(void)
{
    static char name[64];
    size_t v = cublasLtGetVersion();
    snprintf(name, sizeof name, "cuBLASLt %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    return name;
}

rt_products *rt_products_new(bool tf32)
{
    rt_products *p = rt_alloc(1, sizeof *p);
    p->f32 = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    must(cublasLtCreate(&p->lt), "opening");
    return p;
}

void rt_products_free(rt_products *p)
{
    for (int i = 0; i < p->n; i++) {
        cublasLtMatmulDescDestroy(p->item[i].op);
        cublasLtMatrixLayoutDestroy(p->item[i].a);
        cublasLtMatrixLayoutDestroy(p->item[i].b);
        cublasLtMatrixLayoutDestroy(p->item[i].c);
    }
    for (int s = 0; s < RT_STREAMS; s++)
        cudaFree(p->workspace[s]);
    cublasLtDestroy(p->lt);
    free(p->item);
    free(p);
}

static cudaDataType_t type_of(mg_dtype t)
{
    return t == MG_F64    ? CUDA_R_64F
           : t == MG_BF16 ? CUDA_R_16BF
           : t == MG_F16  ? CUDA_R_16F
                          : CUDA_R_32F;
}

/* A matrix of rows x columns in memory, row by row: as columns first it is its transpose. */
static cublasLtMatrixLayout_t layout(const mg_gemm_desc *d, mg_dtype t, int64_t rows,
                                     int64_t columns, int64_t ld, int64_t stride)
{
    cublasLtMatrixLayout_t l;
    int32_t batch = (int32_t)d->batch;
    must(cublasLtMatrixLayoutCreate(&l, type_of(t), (uint64_t)columns, (uint64_t)rows, ld),
         "a layout");
    must(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                          sizeof batch),
         "a batch");
    must(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                          sizeof stride),
         "a batch's stride");
    return l;
}

static void set(product *x, cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes)
{
    must(cublasLtMatmulDescSetAttribute(x->op, what, value, bytes), "a description");
}

/* Columns first, our B is the first factor: its sums are A's. */
static cublasLtEpilogue_t epilogue(mg_epilogue e)
{
    return e == MG_BIAS  ? CUBLASLT_EPILOGUE_BIAS
           : e == MG_SUM ? CUBLASLT_EPILOGUE_BGRADA
                         : CUBLASLT_EPILOGUE_DEFAULT;
}

/* False: there is none. */
static bool choose(rt_products *p, product *x)
{
    cublasLtMatmulPreference_t want;
    cublasLtMatmulHeuristicResult_t best;
    size_t workspace = WORKSPACE;
    int found = 0;
    cublasStatus_t status;
    must(cublasLtMatmulPreferenceCreate(&want), "a preference");
    must(cublasLtMatmulPreferenceSetAttribute(want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace, sizeof workspace),
         "the work space");
    status = cublasLtMatmulAlgoGetHeuristic(p->lt, x->op, x->a, x->b, x->c, x->c, want, 1, &best,
                                            &found);
    cublasLtMatmulPreferenceDestroy(want);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED)
        must(status, "choosing an algorithm");
    if (status == CUBLAS_STATUS_SUCCESS && found)
        x->algo = best.algo;
    return status == CUBLAS_STATUS_SUCCESS && found;
}

/* With its epilogue if the library can, else without. */
static void choose_any(rt_products *p, product *x, const void *extra)
{
    cublasLtEpilogue_t e = epilogue(x->d.epilogue), plain = CUBLASLT_EPILOGUE_DEFAULT;
    if (e != plain) {
        set(x, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e);
        set(x, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &extra, sizeof extra);
        if (choose(p, x))
            return;
        set(x, CUBLASLT_MATMUL_DESC_EPILOGUE, &plain, sizeof plain);
        x->apart = true;
    }
    if (!choose(p, x))
        rt_die(RT_FAILED, "cuBLASLt has no algorithm for a product of %lld x %lld x %lld",
               (long long)x->d.m, (long long)x->d.n, (long long)x->d.k);
}

static bool same(const mg_gemm_desc *a, const mg_gemm_desc *b)
{
    return a->dtype == b->dtype && a->out == b->out && a->epilogue == b->epilogue &&
           a->ta == b->ta && a->tb == b->tb && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc && a->batch == b->batch &&
           a->sa == b->sa && a->sb == b->sb && a->sc == b->sc;
}

static product *find(rt_products *p, const mg_gemm_desc *d, const void *extra)
{
    for (int i = 0; i < p->n; i++)
        if (same(&p->item[i].d, d))
            return &p->item[i];
    bool f64 = d->dtype == MG_F64;
    p->item = rt_grow(p->item, (size_t)p->n + 1, sizeof *p->item);
    product *x = &p->item[p->n++];
    *x = (product){.d = *d};
    cublasOperation_t first = d->tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                      second = d->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasComputeType_t compute = d->dtype == MG_F32 ? p->f32 : CUBLAS_COMPUTE_32F;
    must(cublasLtMatmulDescCreate(&x->op, f64 ? CUBLAS_COMPUTE_64F : compute,
                                  f64 ? CUDA_R_64F : CUDA_R_32F),
         "a product");
    set(x, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    set(x, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    x->a = layout(d, d->dtype, d->tb ? d->n : d->k, d->tb ? d->k : d->n, d->ldb, d->sb);
    x->b = layout(d, d->dtype, d->ta ? d->k : d->m, d->ta ? d->m : d->k, d->lda, d->sa);
    x->c = layout(d, d->out, d->m, d->n, d->ldc, d->sc);
    choose_any(p, x, extra);
    return x;
}

/* The epilogue by a kernel of its own: a bias before the product, which adds to it and rounds once.
 */
static void do_apart(mg_run *r, const mg_gemm_desc *d, const void *b, void *c, void *extra)
{
    enum { BLOCK = 256, GRID_MOST = 1 << 20 };
    const int f16 = d->dtype == MG_F16;
    const int64_t blocks = (d->m * d->n + BLOCK - 1) / BLOCK;
    if (d->epilogue == MG_BIAS)
        rt_cuda_call(r, FIXED_fill_rows + f16, blocks < GRID_MOST ? blocks : GRID_MOST, 1, BLOCK,
                     (void *[]){(void *)d, &extra, &c});
    else
        rt_cuda_call(r, FIXED_sum_rows + f16, (d->n + 31) / 32, 1, MG_SUM_BLOCK,
                     (void *[]){(void *)d, &b, &extra});
}

void rt_product(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c,
                void *extra)
{
    rt_products *p = r->cuda->products;
    if (d->m < 1 || d->n < 1 || d->batch < 1)
        return;
    product *x = find(p, d, extra);
    void **work = &p->workspace[r->cuda->at];
    if (!*work)
        rt_cuda_must(cudaMalloc(work, WORKSPACE), "work space of products");
    if (x->apart)
        do_apart(r, d, b, c, extra);
    else if (d->epilogue != MG_PLAIN)
        set(x, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &extra, sizeof extra);
    const double beta = x->apart && d->epilogue == MG_BIAS ? 1 : d->beta;
    const float alpha32 = (float)d->alpha, beta32 = (float)beta;
    const bool f64 = d->dtype == MG_F64;
    must(cublasLtMatmul(p->lt, x->op, f64 ? (const void *)&d->alpha : &alpha32, b, x->a, a, x->b,
                        f64 ? (const void *)&beta : &beta32, c, x->c, c, x->c, &x->algo, *work,
                        WORKSPACE, r->cuda->stream),
         r->program->actions[r->action].name);
}
