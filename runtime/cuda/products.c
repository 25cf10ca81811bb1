/* products.c - runs matrix products with cuBLASLt.
 *
 * cuBLASLt is column-major, so a product of row-major matrices is computed as C' = B' A'. The state
 * of a product (layouts, the algorithm) is made at its first call and kept; a product whose
 * operands are at other multiples of bytes is another one. The algorithm is the first of the
 * heuristic that computes the product, or, with --products, the fastest measured one of the first
 * few (algos.c): the library's heuristic also gives algorithms that the library then refuses, such
 * as those that sum the columns of an operand that is stored the other way. */
#include "runtime/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = MG_PRODUCT_WORK, TRIED = 8 /* algorithms */, LEAST_OF_TILES = 120900 };

typedef struct product {
    rt_product_key key;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c; /* of B', A' and C' */
    bool ready;                     /* there is an algorithm that has computed this product */
    rt_algo chosen;
    cublasStatus_t said[2]; /* by the library: with the epilogue, and without it */
} product;

/* The addresses of a product's matrices; of the epilogue's vector and matrix, or NULL. */
typedef struct operands {
    const void *a, *b;
    void *c, *extra, *aux;
} operands;

struct rt_products {
    cublasLtHandle_t lt;
    void *workspace[RT_STREAMS]; /* allocated at the first product of a stream */
    cublasComputeType_t f32;     /* compute type of f32 products */
    rt_algos *pinned;            /* with --products, else NULL */
    product *item;
    int n;
};

static void must(cublasStatus_t s, const char *what)
{
    if (s != CUBLAS_STATUS_SUCCESS)
        rt_die(RT_FAILED, "cuBLASLt: %s: status %d", what, (int)s);
}

static const char *type_text(mg_dtype t)
{
    return t == MG_F64    ? "f64"
           : t == MG_BF16 ? "bf16"
           : t == MG_F16  ? "f16"
           : t == MG_E4M3 ? "e4m3"
           : t == MG_E5M2 ? "e5m2"
                          : "f32";
}

static mg_dtype second_of(const mg_gemm_desc *d)
{
    return d->other ? d->other : d->dtype;
}

static char *product_text(const rt_product_key *k)
{
    const mg_gemm_desc *d = &k->d;
    return rt_printf(
        "%lld x %lld x %lld (m, n, k) of %s%s%s to %s, %lld of them, epilogue %d, A, B, "
        "C and the epilogue's matrix at multiples of %d, %d, %d, %d bytes%s",
        (long long)d->m, (long long)d->n, (long long)d->k, type_text(d->dtype),
        d->other ? " and " : "", d->other ? type_text(d->other) : "", type_text(d->out),
        (long long)d->batch, d->epilogue, k->a, k->b, k->c, k->aux,
        d->tiles ? ", with scales of tiles" : "");
}

const char *mg_products_name(void)
{
    static char name[64];
    size_t v = cublasLtGetVersion();
    snprintf(name, sizeof name, "cuBLASLt %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    return name;
}

rt_products *rt_products_new(const mg_run *r)
{
    rt_products *p = rt_alloc(1, sizeof *p);
    if (r->options && r->options->products)
        p->pinned = rt_algos_open(r->options->products, r->cuda->name);
    p->f32 = r->program->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
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
    rt_algos_free(p->pinned);
    free(p->item);
    free(p);
}

static cudaDataType_t type_of(mg_dtype t)
{
    return t == MG_F64    ? CUDA_R_64F
           : t == MG_BF16 ? CUDA_R_16BF
           : t == MG_F16  ? CUDA_R_16F
           : t == MG_E4M3 ? CUDA_R_8F_E4M3
           : t == MG_E5M2 ? CUDA_R_8F_E5M2
                          : CUDA_R_32F;
}

/* The layout of a row-major matrix of rows x columns: in column-major order it is the transpose. */
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

/* cuBLASLt's epilogue. In column-major order our B is the first operand, so its sums are BGRADA. */
static cublasLtEpilogue_t epilogue(int e)
{
    switch (e) {
    case MG_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case MG_SUM:
        return CUBLASLT_EPILOGUE_BGRADA;
    case MG_GELU:
        return CUBLASLT_EPILOGUE_GELU;
    case MG_GELU | MG_BIAS:
        return CUBLASLT_EPILOGUE_GELU_BIAS;
    case MG_GELU | MG_AUX:
        return CUBLASLT_EPILOGUE_GELU_AUX;
    case MG_GELU | MG_AUX | MG_BIAS:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case MG_GELU_GRAD:
        return CUBLASLT_EPILOGUE_DGELU;
    default:
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/* Says which tiles of A' and B' have the scales. */
static void set_tiles(product *x)
{
#if CUDART_VERSION >= 12090
    const mg_tiles tiles = (mg_tiles)x->key.d.tiles;
    const int32_t rows = tiles == MG_TILES_MX ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0
                                              : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                  squares = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    const int32_t a = tiles == MG_TILES_B ? squares : rows;
    const int32_t b = tiles == MG_TILES_A ? squares : rows;
    if (cublasLtGetVersion() >= LEAST_OF_TILES) {
        set(x, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &a, sizeof a);
        set(x, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &b, sizeof b);
        return;
    }
#endif
    rt_die(RT_FAILED,
           "products of fp8 with scales of tiles need cuBLASLt 12.9 or later, in the toolkit that "
           "mgc was made with (CUDA %d.%d), too; this is %s",
           CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100, mg_products_name());
}

/* Sets the addresses of the epilogue's vector and matrix; NULL for a product without it. Of fp8
 * those of the numbers that A' and B' are multiplied by. */
static void point(product *x, const operands *o)
{
    if (x->key.d.epilogue & MG_SCALES) {
        set(x, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &o->aux, sizeof o->aux);
        set(x, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &o->extra, sizeof o->extra);
    }
    if (x->key.d.epilogue & (MG_BIAS | MG_SUM))
        set(x, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->extra, sizeof o->extra);
    if (x->key.d.epilogue & (MG_AUX | MG_GELU_GRAD))
        set(x, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &o->aux, sizeof o->aux);
}

static void want_bytes(cublasLtMatmulPreference_t want, cublasLtMatmulPreferenceAttributes_t what,
                       int bytes)
{
    const uint32_t least = (uint32_t)bytes;
    must(cublasLtMatmulPreferenceSetAttribute(want, what, &least, sizeof least), "an alignment");
}

/* Our B is the library's first operand. Without these wishes it takes all operands to be at
 * multiples of 256 bytes, and may give an algorithm that needs that. */
static cublasLtMatmulPreference_t wishes(const rt_product_key *k)
{
    cublasLtMatmulPreference_t want;
    size_t workspace = WORKSPACE;
    must(cublasLtMatmulPreferenceCreate(&want), "a preference");
    must(cublasLtMatmulPreferenceSetAttribute(want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                              &workspace, sizeof workspace),
         "the work space");
    want_bytes(want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, k->b);
    want_bytes(want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, k->a);
    want_bytes(want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, k->c);
    want_bytes(want, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, k->c);
    return want;
}

/* The first algorithms of the heuristic, at most TRIED; 0: none, and *said is why. Whatever the
 * library answers but success means that it has none. */
static int candidates(const rt_products *p, const product *x, cublasLtMatmulAlgo_t *algo,
                      cublasStatus_t *said)
{
    cublasLtMatmulPreference_t want = wishes(&x->key);
    cublasLtMatmulHeuristicResult_t best[TRIED];
    int found = 0, good = 0;
    *said = cublasLtMatmulAlgoGetHeuristic(p->lt, x->op, x->a, x->b, x->c, x->c, want, TRIED, best,
                                           &found);
    cublasLtMatmulPreferenceDestroy(want);
    for (int i = 0; i < found && *said == CUBLAS_STATUS_SUCCESS; i++)
        if (best[i].state == CUBLAS_STATUS_SUCCESS && best[i].workspaceSize <= WORKSPACE)
            algo[good++] = best[i].algo;
    if (!good && *said == CUBLAS_STATUS_SUCCESS)
        *said = found && best[0].state != CUBLAS_STATUS_SUCCESS ? best[0].state
                                                                : CUBLAS_STATUS_NOT_SUPPORTED;
    return good;
}

static cublasStatus_t multiply(mg_run *r, const product *x, const cublasLtMatmulAlgo_t *algo,
                               double beta, const operands *o)
{
    const mg_gemm_desc *d = &x->key.d;
    const float alpha32 = (float)d->alpha, beta32 = (float)beta;
    const bool f64 = d->dtype == MG_F64;
    rt_products *p = r->cuda->products;
    return cublasLtMatmul(p->lt, x->op, f64 ? (const void *)&d->alpha : &alpha32, o->b, x->a, o->a,
                          x->b, f64 ? (const void *)&beta : &beta32, o->c, x->c, o->c, x->c, algo,
                          p->workspace[r->cuda->at], WORKSPACE, r->cuda->stream);
}

/* ---- measuring ---------------------------------------------------------------------------- */

/* Milliseconds, or less than 0: the library refuses this algorithm. */
static float time_of(mg_run *r, const product *x, const cublasLtMatmulAlgo_t *algo,
                     const operands *o)
{
    enum { TIMES = 5 };
    cudaEvent_t begin, end;
    float ms;
    /* The first is not counted: it may load code. */
    bool good = multiply(r, x, algo, 0, o) == CUBLAS_STATUS_SUCCESS;
    if (!good)
        return -1;
    rt_cuda_must(cudaEventCreateWithFlags(&begin, 0), "an event");
    rt_cuda_must(cudaEventCreateWithFlags(&end, 0), "an event");
    rt_cuda_must(cudaEventRecord(begin, r->cuda->stream), "an event");
    for (int i = 0; i < TIMES && good; i++)
        good = multiply(r, x, algo, 0, o) == CUBLAS_STATUS_SUCCESS;
    rt_cuda_must(cudaEventRecord(end, r->cuda->stream), "an event");
    rt_cuda_must(cudaEventSynchronize(end), "measuring a product");
    rt_cuda_must(cudaEventElapsedTime(&ms, begin, end), "measuring a product");
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return good ? ms : -1;
}

/* Puts the fastest algorithm first. The measurement uses temporary memory for C and for the
 * epilogue's results, so it does not change the real ones. */
static void fastest_first(mg_run *r, product *x, cublasLtMatmulAlgo_t *algo, int n,
                          const operands *o)
{
    const mg_gemm_desc *d = &x->key.d;
    operands apart = *o;
    void *vector, *matrix;
    int winner = 0;
    float least = -1;
    int64_t elements = (d->batch - 1) * d->sc + d->m * d->ldc;
    rt_cuda_must(cudaMalloc(&apart.c, (size_t)(elements * mg_dtype_bytes(d->out))),
                 "measuring a product");
    rt_cuda_must(cudaMalloc(&vector, (size_t)(d->n * 8)), "measuring a product");
    rt_cuda_must(cudaMalloc(&matrix, (size_t)(d->m * d->ldx * mg_dtype_bytes(d->out) + 1)),
                 "measuring a product");
    apart.extra = d->epilogue & MG_SUM ? vector : o->extra;
    apart.aux = d->epilogue & MG_AUX ? matrix : o->aux;
    if (!x->chosen.apart)
        point(x, &apart);
    for (int i = 0; i < n; i++) {
        float ms = time_of(r, x, &algo[i], &apart);
        if (ms >= 0 && (least < 0 || ms < least)) {
            least = ms;
            winner = i;
        }
    }
    rt_cuda_must(cudaStreamSynchronize(r->cuda->stream), "measuring a product");
    cudaFree(apart.c);
    cudaFree(vector);
    cudaFree(matrix);
    const cublasLtMatmulAlgo_t first = algo[winner];
    algo[winner] = algo[0];
    algo[0] = first;
}

/* ---- epilogues by separate kernels ----------------------------------------------------------- */

/* True if rows of `n` halves that are `ld` apart are whole words of 16 bytes, at multiples of
 * that. */
static bool in_words(const void *p, int64_t n, int64_t ld)
{
    return (uintptr_t)p % 16 == 0 && n % 8 == 0 && ld % 8 == 0;
}

/* Launches a kernel for the words of C: a thread has four of them, or more. */
static void by_word(mg_run *r, const mg_gemm_desc *d, int fixed, int wide, void **args)
{
    enum { EACH = 4, GRID_MAX = 1 << 16 };
    const int64_t words = d->m * (d->n / (wide ? 8 : 1)), threads = (words + EACH - 1) / EACH;
    const int64_t blocks = (threads + MG_ROWS_BLOCK - 1) / MG_ROWS_BLOCK;
    rt_cuda_call(r, fixed, blocks < GRID_MAX ? blocks : GRID_MAX, 1, MG_ROWS_BLOCK, args);
}

/* Sums the k rows of op(B) (kernels/cuda/rows.h): in parts of so many rows that there are some
 * BUSY blocks, whose sums lie in `work` until they are added up. */
static void sum_rows(mg_run *r, const mg_gemm_desc *d, const void *b, void *sum, void *work)
{
    enum { BUSY = 1024, LEAST = 64, LEAST_TURNED = 2048 /* rows of a part */ };
    const int f16 = d->dtype == MG_F16, strip = d->tb ? 1 : 32;
    int wide = in_words(b, d->tb ? d->k : d->n, d->ldb);
    const int64_t strips =
        (d->n + (wide && !d->tb ? 8 * strip : strip) - 1) / (wide && !d->tb ? 8 * strip : strip);
    const int64_t room = WORKSPACE / ((int64_t)sizeof(float) * d->n),
                  least = d->tb ? LEAST_TURNED : LEAST;
    int64_t parts = (BUSY + strips - 1) / strips;
    parts = parts < room ? parts : room;
    int64_t each = parts > 1 ? (d->k + parts - 1) / parts : d->k;
    each = (each < least ? least : (each + LEAST - 1) / LEAST * LEAST);
    parts = d->k > each ? (d->k + each - 1) / each : 1;
    int n = (int)each, count = (int)parts;
    void *part = parts > 1 ? work : sum;
    rt_cuda_call(r, FIXED_sum_rows + f16, strips, parts, MG_SUM_BLOCK,
                 (void *[]){(void *)d, &wide, &n, &b, &part});
    if (parts > 1)
        rt_cuda_call(r, FIXED_sum_parts, (d->n + 31) / 32, 1, MG_SUM_BLOCK,
                     (void *[]){(void *)&d->n, &count, &part, &sum});
}

/* Computes the part of the epilogue that precedes the product: the bias goes into C, so that the
 * product adds to it and rounds once; and sums. */
static void do_before(mg_run *r, const mg_gemm_desc *d, const operands *o, void *work)
{
    int wide = in_words(o->c, d->n, d->ldc) && in_words(o->extra, d->n, 8);
    if (d->epilogue & MG_BIAS)
        by_word(r, d, FIXED_fill_rows + (d->dtype == MG_F16), wide,
                (void *[]){(void *)d, &wide, (void *)&o->extra, (void *)&o->c});
    if (d->epilogue & MG_SUM)
        sum_rows(r, d, o->b, o->extra, work);
}

/* Computes the part that follows the product, from its rounded result. */
static void do_after(mg_run *r, const mg_gemm_desc *d, const operands *o)
{
    const int f16 = d->dtype == MG_F16;
    const bool reads = d->epilogue & (MG_AUX | MG_GELU_GRAD);
    int wide = in_words(o->c, d->n, d->ldc) && (!reads || in_words(o->aux, d->n, d->ldx));
    void *given = d->epilogue & MG_AUX ? o->aux : NULL;
    if (d->epilogue & MG_GELU)
        by_word(r, d, FIXED_gelu + f16, wide, (void *[]){(void *)d, &wide, (void *)&o->c, &given});
    if (d->epilogue & MG_GELU_GRAD)
        by_word(r, d, FIXED_gelu_grad + f16, wide,
                (void *[]){(void *)d, &wide, (void *)&o->c, (void *)&o->aux});
}

/* ---- choosing ----------------------------------------------------------------------------- */

static void with_epilogue(product *x, bool apart)
{
    const mg_gemm_desc *d = &x->key.d;
    cublasLtEpilogue_t e = apart ? CUBLASLT_EPILOGUE_DEFAULT : epilogue(d->epilogue);
    const operands none = {0};
    set(x, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e);
    if (d->ldx)
        set(x, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &d->ldx, sizeof d->ldx);
    if (apart) /* the library refuses a vector that its epilogue does not have */
        point(x, &none);
    x->chosen.apart = apart;
}

static void none(const mg_run *r, const product *x)
{
    const char *name = r->program->actions[r->action].name;
    const int with = (int)x->said[0], without = (int)x->said[1];
    if (!(x->key.d.epilogue & ~MG_SCALES))
        rt_die(RT_FAILED, "%s has no algorithm for %s: %s; its status is %d", mg_products_name(),
               name, product_text(&x->key), with);
    rt_die(RT_FAILED,
           "%s has no algorithm for %s: %s; its status is %d, and %d without the epilogue",
           mg_products_name(), name, product_text(&x->key), with, without);
}

/* Computes a product by its chosen algorithm, and what of the epilogue is apart from it. The
 * descriptor is that of the call: products that differ in beta alone share an algorithm. */
static cublasStatus_t compute(mg_run *r, product *x, const mg_gemm_desc *d, const operands *o)
{
    const bool apart = x->chosen.apart;
    if (apart)
        do_before(r, d, o, r->cuda->products->workspace[r->cuda->at]);
    else
        point(x, o);
    const cublasStatus_t said =
        multiply(r, x, &x->chosen.algo, apart && d->epilogue & MG_BIAS ? 1 : d->beta, o);
    if (apart && said == CUBLAS_STATUS_SUCCESS)
        do_after(r, d, o);
    return said;
}

/* Chooses the algorithm of a product: the first that computes it, with the epilogue if the library
 * has one that does, otherwise without it. An algorithm that the library refuses changes nothing.
 */
static void choose(mg_run *r, product *x, const mg_gemm_desc *d, const operands *o)
{
    rt_products *p = r->cuda->products;
    cublasLtMatmulAlgo_t algo[TRIED];
    const rt_algo *known = p->pinned ? rt_algos_find(p->pinned, &x->key) : NULL;
    if (known) {
        with_epilogue(x, known->apart);
        x->chosen = *known;
        x->ready = compute(r, x, d, o) == CUBLAS_STATUS_SUCCESS;
        if (x->ready)
            return;
    }
    const bool ends = d->epilogue & ~MG_SCALES; /* with what a kernel could do instead */
    for (int apart = 0; apart <= ends && !x->ready; apart++) {
        with_epilogue(x, apart);
        if (!apart)
            point(x, o);
        const int n = candidates(p, x, algo, &x->said[apart]);
        if (n > 1 && p->pinned)
            fastest_first(r, x, algo, n, o);
        for (int i = 0; i < n && !x->ready; i++) {
            x->chosen.algo = algo[i];
            x->said[apart] = compute(r, x, d, o);
            x->ready = x->said[apart] == CUBLAS_STATUS_SUCCESS;
        }
    }
    if (!x->ready)
        none(r, x);
    if (p->pinned)
        rt_algos_add(p->pinned, &x->key, &x->chosen);
}

void rt_products_save(rt_products *p)
{
    rt_algos_save(p->pinned);
}

/* The greatest power of two, at most `most`, of which an address is a multiple. */
static int multiple(const void *p, int most)
{
    const uintptr_t at = (uintptr_t)p | (uintptr_t)most;
    return (int)(at & -at);
}

static product *find(mg_run *r, const mg_gemm_desc *d, const operands *o)
{
    enum { MOST = 256, AUX_MOST = 16 };
    rt_products *p = r->cuda->products;
    const bool matrix = d->epilogue & (MG_AUX | MG_GELU_GRAD);
    const rt_product_key key = {*d, multiple(o->a, MOST), multiple(o->b, MOST),
                                multiple(o->c, MOST), multiple(matrix ? o->aux : NULL, AUX_MOST)};
    for (int i = 0; i < p->n; i++)
        if (rt_same_product(&p->item[i].key, &key))
            return &p->item[i];
    bool f64 = d->dtype == MG_F64;
    p->item = rt_grow(p->item, (size_t)p->n + 1, sizeof *p->item);
    product *x = &p->item[p->n++];
    *x = (product){.key = key};
    cublasOperation_t first = d->tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                      second = d->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasComputeType_t sums = d->dtype == MG_F32 ? p->f32 : CUBLAS_COMPUTE_32F;
    must(cublasLtMatmulDescCreate(&x->op, f64 ? CUBLAS_COMPUTE_64F : sums,
                                  f64 ? CUDA_R_64F : CUDA_R_32F),
         "a product");
    set(x, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    set(x, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    if (d->tiles)
        set_tiles(x);
    x->a = layout(d, second_of(d), d->tb ? d->n : d->k, d->tb ? d->k : d->n, d->ldb, d->sb);
    x->b = layout(d, d->dtype, d->ta ? d->k : d->m, d->ta ? d->m : d->k, d->lda, d->sa);
    x->c = layout(d, d->out, d->m, d->n, d->ldc, d->sc);
    return x;
}

void rt_product(mg_run *r, const mg_gemm_desc *d, const void *a, const void *b, void *c,
                void *extra, void *aux)
{
    const operands o = {a, b, c, extra, aux};
    rt_products *p = r->cuda->products;
    if (d->m < 1 || d->n < 1 || d->batch < 1)
        return;
    void **work = &p->workspace[r->cuda->at];
    if (!*work)
        rt_cuda_must(cudaMalloc(work, WORKSPACE), "work space of products");
    product *x = find(r, d, &o);
    if (!x->ready) {
        choose(r, x, d, &o);
        return;
    }
    const cublasStatus_t said = compute(r, x, d, &o);
    if (said != CUBLAS_STATUS_SUCCESS)
        rt_die(RT_FAILED, "%s refuses %s: %s; its status is %d", mg_products_name(),
               r->program->actions[r->action].name, product_text(&x->key), (int)said);
}
