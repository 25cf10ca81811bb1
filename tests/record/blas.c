/* blas.c - the calls of cuBLASLt, written down: a product with all that its description, its
 * layouts and its algorithm say. An algorithm is for the alignments that were asked for and for the
 * shapes of its question, which its data name; it wants all the work space that it may have.
 * Environment: RECORD_APART=1: there is no algorithm with an epilogue. */
#include "tests/record/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

struct ShimMatmul {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t ta, tb;
    cublasLtEpilogue_t epilogue;
    const void *bias, *aux;
    int64_t aux_ld;
    const void *given[2]; /* scales of A and B */
    int32_t mode[2];      /* and of what they are */
};
struct ShimLayout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld, stride;
    int32_t batch;
};
struct ShimPreference {
    uint64_t work;
    uint32_t multiple[4]; /* of A, B, C, D */
};

size_t cublasLtGetVersion(void)
{
    return 130200;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = (cublasLtHandle_t)record_number();
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *d = rt_alloc(1, sizeof **d);
    **d = (struct ShimMatmul){
        .compute = compute, .scale = scale, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, const void *v,
                                              size_t n)
{
    void *const to[] = {[CUBLASLT_MATMUL_DESC_TRANSA] = &d->ta,
                        [CUBLASLT_MATMUL_DESC_TRANSB] = &d->tb,
                        [CUBLASLT_MATMUL_DESC_EPILOGUE] = &d->epilogue,
                        [CUBLASLT_MATMUL_DESC_BIAS_POINTER] = &d->bias,
                        [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER] = &d->aux,
                        [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD] = &d->aux_ld,
                        [CUBLASLT_MATMUL_DESC_A_SCALE_POINTER] = &d->given[0],
                        [CUBLASLT_MATMUL_DESC_B_SCALE_POINTER] = &d->given[1],
                        [CUBLASLT_MATMUL_DESC_A_SCALE_MODE] = &d->mode[0],
                        [CUBLASLT_MATMUL_DESC_B_SCALE_MODE] = &d->mode[1]};
    if ((size_t)a >= sizeof to / sizeof *to || !to[a])
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to[a], v, n);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t t,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    *l = rt_alloc(1, sizeof **l);
    **l = (struct ShimLayout){.type = t, .rows = rows, .columns = columns, .ld = ld, .batch = 1};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t a, const void *v,
                                                size_t n)
{
    if (a == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        memcpy(&l->batch, v, n);
    else
        memcpy(&l->stride, v, n);
    return CUBLAS_STATUS_SUCCESS;
}

/* The library takes operands to be at multiples of 256 bytes unless it is told otherwise. */
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = rt_alloc(1, sizeof **p);
    **p = (struct ShimPreference){.multiple = {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    const void *v, size_t n)
{
    if (a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&p->work, v, n);
    else
        memcpy(&p->multiple[a - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], v, n);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t key, const struct ShimLayout *l)
{
    const uint64_t all[] = {(uint64_t)l->type,   l->rows,           l->columns, (uint64_t)l->ld,
                            (uint64_t)l->stride, (uint64_t)l->batch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        key = rt_mix64(key ^ all[i]);
    return key;
}

/* The shapes of a product, all that an algorithm depends on but for alignments. */
static uint64_t shapes(const struct ShimMatmul *d, const struct ShimLayout *a,
                       const struct ShimLayout *b, const struct ShimLayout *c)
{
    const uint64_t key = (uint64_t)d->mode[0] << 56 | (uint64_t)d->mode[1] << 48 |
                         (uint64_t)d->epilogue << 32 | (uint64_t)d->compute << 8 |
                         (uint64_t)d->ta << 4 | (uint64_t)d->tb;
    return mix(mix(mix(rt_mix64(key ^ (uint64_t)d->aux_ld), a), b), c);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
                                              cublasLtMatmulPreference_t p, int max,
                                              cublasLtMatmulHeuristicResult_t *r, int *found)
{
    memset(r, 0, sizeof *r);
    for (int i = 0; i < 4; i++)
        r->algo.data[i] = p->multiple[i];
    r->algo.data[4] = shapes(d, a, b, c);
    r->algo.data[5] = r->workspaceSize = p->work;
    *found = !getenv("RECORD_APART") || d->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}

static double number_at(const void *at, cudaDataType_t type)
{
    return type == CUDA_R_64F ? *(const double *)at : (double)*(const float *)at;
}

static char *matrix(const void *p, const struct ShimLayout *l)
{
    return rt_printf("%" PRIuPTR " %d %" PRIu64 " %" PRIu64 " %" PRId64 " %d %" PRId64,
                     (uintptr_t)p, (int)l->type, l->rows, l->columns, l->ld, l->batch, l->stride);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *to, cublasLtMatrixLayout_t lto,
                              const cublasLtMatmulAlgo_t *algo, void *work, size_t work_bytes,
                              cudaStream_t s)
{
    char *const all[] = {matrix(a, la), matrix(b, lb), matrix(c, lc), matrix(to, lto)};
    const uint64_t *const x = algo->data;
    record_line("product",
                "%" PRIuPTR " %d %d %d %g %s %s %s %s %d %" PRIuPTR " %" PRIuPTR " %" PRId64
                " %" PRIuPTR " %zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %" PRIu64
                " %" PRIuPTR " %" PRIuPTR " %d %d",
                (uintptr_t)s, (int)d->ta, (int)d->tb, (int)d->compute, number_at(beta, d->scale),
                all[0], all[1], all[2], all[3], (int)d->epilogue, (uintptr_t)d->bias,
                (uintptr_t)d->aux, d->aux_ld, (uintptr_t)work, work_bytes, x[0], x[1], x[2], x[3],
                x[4] == shapes(d, la, lb, lc), x[5], (uintptr_t)d->given[0], (uintptr_t)d->given[1],
                (int)d->mode[0], (int)d->mode[1]);
    for (int i = 0; i < 4; i++)
        free(all[i]);
    return CUBLAS_STATUS_SUCCESS;
}
