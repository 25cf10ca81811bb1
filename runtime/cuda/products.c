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

static void choose(rt_products *p, product *x)
{
    cublasLtMatmulPreference_t want;
    cublasLtMatmulHeuristicResult_t best;
    size_t workspace = WORKSPACE;
    int found = 0;
    must(cublasLtMatmulPreferenceCreate(&want), "a preference");
    must(cublasLtMatmulPreferenceSetAttribute(want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace, sizeof workspace),
         "the work space");
    must(cublasLtMatmulAlgoGetHeuristic(p->lt, x->op, x->a, x->b, x->c, x->c, want, 1, &best,
                                        &found),
         "choosing an algorithm");
    cublasLtMatmulPreferenceDestroy(want);
    if (!found)
        rt_die(RT_FAILED, "cuBLASLt has no algorithm for a product of %lld x %lld x %lld",
               (long long)x->d.m, (long long)x->d.n, (long long)x->d.k);
    x->algo = best.algo;
}

static bool same(const mg_gemm_desc *a, const mg_gemm_desc *b)
{
    return a->dtype == b->dtype && a->out == b->out && a->ta == b->ta && a->tb == b->tb &&
           a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb &&
           a->ldc == b->ldc && a->batch == b->batch && a->sa == b->sa && a->sb == b->sb &&
           a->sc == b->sc;
}

static const product *find(rt_products *p, const mg_gemm_desc *d)
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
    must(cublasLtMatmulDescSetAttribute(x->op, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
         "a transposition");
    must(cublasLtMatmulDescSetAttribute(x->op, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
         "a transposition");
    x->a = layout(d, d->dtype, d->tb ? d->n : d->k, d->tb ? d->k : d->n, d->ldb, d->sb);
    x->b = layout(d, d->dtype, d->ta ? d->k : d->m, d->ta ? d->m : d->k, d->lda, d->sa);
    x->c = layout(d, d->out, d->m, d->n, d->ldc, d->sc);
    choose(p, x);
    return x;
}

void rt_product(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c)
{
    rt_products *p = r->cuda->products;
    if (d->m < 1 || d->n < 1 || d->batch < 1)
        return;
    const product *x = find(p, d);
    void **work = &p->workspace[r->cuda->at];
    if (!*work)
        rt_cuda_must(cudaMalloc(work, WORKSPACE), "work space of products");
    float alpha = (float)d->alpha, beta = (float)d->beta;
    bool f64 = d->dtype == MG_F64;
    must(cublasLtMatmul(p->lt, x->op, f64 ? (const void *)&d->alpha : &alpha, b, x->a, a, x->b,
                        f64 ? (const void *)&d->beta : &beta, c, x->c, c, x->c, &x->algo, *work,
                        WORKSPACE, r->cuda->stream),
         r->program->actions[r->action].name);
}
