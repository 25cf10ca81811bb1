/* blas.cc - cuBLASLt of the shim: columns first, summed in double.
 *
 * An algorithm is for the product that was asked for, and for operands at multiples of the bytes
 * that the preference says (256, unless it says so); any other use is CUBLAS_STATUS_INVALID_VALUE.
 * Half of the shapes have no algorithm with an epilogue. That is said in one of the four ways in
 * which the real library may say it, by the shape: not supported, an invalid value, no result, or
 * results whose state is not success. Of the others the library may give an algorithm and then refuse
 * it, as cuBLASLt 13.1 does on an H100: all that sum an operand that is stored transposed, and the
 * first of some shapes. Of fp8 it has what the library's documentation says of sm_89, sm_90 and
 * sm_120, and no more: scales of 128 numbers of a row, or of 128 rows of A or of B, too, on sm_90
 * alone, and of 32 numbers from sm_100 on. Where $SHIM_NO_PRODUCTS is set no shape has any. */
#include "tests/cuda_shim/cuda_shim.h"
#include "tests/cuda_shim/include/cublasLt.h"
#include "tests/cuda_shim/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

enum { BIAS = 4, GELU = 32, SLOPE = 64, AUX = 128 }; /* what epilogues are made of */

struct ShimMatmul {
    cublasOperation_t a, b;
    bool tf32;
    cublasLtEpilogue_t epilogue;
    void *extra, *aux;
    int64_t ldx;
    const void *scale[2]; /* on the device, of A and of B; NULL: 1 */
    int32_t mode[2];       /* of what they are */
};
struct ShimLayout {
    cudaDataType_t type;
    int64_t rows, columns, ld;
    int32_t batch;
    int64_t stride;
};
struct ShimPreference {
    size_t workspace;
    uint32_t alignment[4]; /* of A, B, C, D */
};

size_t cublasLtGetVersion(void)
{
    const char *version = getenv("SHIM_CUBLASLT");
    return version ? (size_t)atol(version) : 130200;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t)
{
    *d = new ShimMatmul{CUBLAS_OP_N, CUBLAS_OP_N, compute == CUBLAS_COMPUTE_32F_FAST_TF32,
                        CUBLASLT_EPILOGUE_DEFAULT, NULL, NULL, 0, {NULL, NULL},
                        {CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    delete d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t a, const void *v,
                                              size_t n)
{
    const struct {
        cublasLtMatmulDescAttributes_t name;
        void *at;
        size_t bytes;
    } known[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &d->a, sizeof d->a},
                 {CUBLASLT_MATMUL_DESC_TRANSB, &d->b, sizeof d->b},
                 {CUBLASLT_MATMUL_DESC_EPILOGUE, &d->epilogue, sizeof d->epilogue},
                 {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &d->extra, sizeof d->extra},
                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &d->aux, sizeof d->aux},
                 {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &d->ldx, sizeof d->ldx},
                 {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &d->scale[0], sizeof d->scale[0]},
                 {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &d->scale[1], sizeof d->scale[1]},
                 {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &d->mode[0], sizeof d->mode[0]},
                 {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &d->mode[1], sizeof d->mode[1]}};
    for (const auto &k : known)
        if (k.name == a && k.bytes == n) {
            memcpy(k.at, v, n);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t t,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    if (ld < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    *l = new ShimLayout{t, (int64_t)rows, (int64_t)columns, ld, 1, 0};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    delete l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t a, const void *v,
                                                size_t n)
{
    bool count = a == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    if (n != (count ? sizeof l->batch : sizeof l->stride))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(count ? (void *)&l->batch : &l->stride, v, n);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = new ShimPreference{0, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    const void *v, size_t n)
{
    const bool workspace = a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    if (n != (workspace ? sizeof p->workspace : sizeof *p->alignment))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace)
        memcpy(&p->workspace, v, n);
    else
        memcpy(&p->alignment[a - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], v, n);
    return CUBLAS_STATUS_SUCCESS;
}

/* A number for all of a product but its addresses. */
static uint64_t key_of(const ShimMatmul &d, const ShimLayout &a, const ShimLayout &b,
                       const ShimLayout &c)
{
    uint64_t key = shim_mix((uint64_t)d.a + 2 * (uint64_t)d.b + 4 * (uint64_t)d.epilogue) + d.tf32;
    for (const ShimLayout *l : {&a, &b, &c})
        for (int64_t x : {(int64_t)l->type, l->rows, l->columns, l->ld, (int64_t)l->batch, l->stride})
            key = shim_mix(key + (uint64_t)x);
    return shim_mix(key + (uint64_t)d.ldx + 64 * (uint64_t)d.mode[0] + 1024 * (uint64_t)d.mode[1]);
}

static bool is_fp8(cudaDataType_t t)
{
    return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2;
}

static int64_t bytes_of(cudaDataType_t t)
{
    return t == CUDA_R_64F ? 8 : t == CUDA_R_32F ? 4 : is_fp8(t) ? 1 : 2;
}

static bool in_words(const ShimLayout &l)
{
    const int64_t b = bytes_of(l.type);
    return l.rows * b % 16 == 0 && l.ld * b % 16 == 0 && (l.batch == 1 || l.stride * b % 16 == 0);
}

enum { TILE = 128 };

static bool of_rows(int32_t mode)
{
    return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
}

static bool of_squares(int32_t mode)
{
    return mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
}

static bool of_powers(int32_t mode)
{
    return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
}

static bool of_tiles(const ShimMatmul &d)
{
    return d.mode[0] != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F ||
           d.mode[1] != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

/* Scales of tiles: on Hopper, of either kind for A and for B but not of squares for both, where rows
 * of both are multiples of 4. Of 32 numbers, from Blackwell on, of both operands, of sums of whole
 * tiles. The documentation says nothing of several products at once. */
static bool takes_tiles(const ShimMatmul &d, const ShimLayout &c, int64_t k)
{
    const bool powers = of_powers(d.mode[0]);
    bool good = c.batch == 1 && (powers ? shim_capability() >= 100 && of_powers(d.mode[1]) && k % 32 == 0
                                        : shim_capability() == 90 && c.rows % 4 == 0 &&
                                              c.columns % 4 == 0 &&
                                              !(of_squares(d.mode[0]) && of_squares(d.mode[1])));
    for (int32_t mode : d.mode)
        good &= powers || of_rows(mode) || of_squares(mode);
    for (const void *scale : d.scale)
        good &= scale && (uintptr_t)scale % 16 == 0;
    return good;
}

/* Where the scale of a row's tile is, of `rows` rows: those of rows follow each other by row, those
 * of squares by tile, in columns of a multiple of 4; bytes of powers lie in blocks of 128 x 4, whose
 * rows are four apart from one to the 32nd after it. */
static int64_t scale_at(int32_t mode, int64_t row, int64_t rows, int64_t tile, int64_t k)
{
    const int64_t tiles = (k + TILE - 1) / TILE;
    if (of_powers(mode)) {
        const int64_t block = row / TILE * tiles + tile / 4, in = row % TILE;
        return ((block * 32 + in % 32) * 4 + in / 32) * 4 + tile % 4;
    }
    return of_rows(mode)      ? tile * rows + row
           : of_squares(mode) ? row / TILE * ((tiles + 3) / 4 * 4) + tile
                              : 0;
}

/* Bytes of all scales of an operand. */
static int64_t scale_bytes(int32_t mode, int64_t rows, int64_t k)
{
    if (of_powers(mode))
        return (rows + TILE - 1) / TILE * ((k + TILE - 1) / TILE) * 512;
    return (scale_at(mode, rows - 1, rows, (k - 1) / TILE, k) + 1) * (int64_t)sizeof(float);
}

static double scale_of(const void *scales, int32_t mode, int64_t at)
{
    if (!of_powers(mode))
        return (double)((const float *)scales)[at];
    const uint8_t code = ((const uint8_t *)scales)[at];
    return code == 255 ? NAN : ldexp(1, code - 127);
}

/* The table of fp8: A transposed, B not; not e5m2 with e5m2; summed in float; a result of halves or
 * floats, whose C is of the same type; all in whole words of 16 bytes. */
static bool takes_fp8(const ShimMatmul &d, const ShimLayout &a, const ShimLayout &b,
                      const ShimLayout &c, const uint32_t *alignment)
{
    bool good = is_fp8(a.type) && is_fp8(b.type) && d.a == CUBLAS_OP_T && d.b == CUBLAS_OP_N &&
                (a.type == CUDA_R_8F_E4M3 || b.type == CUDA_R_8F_E4M3) && !d.tf32 &&
                (c.type == CUDA_R_16BF || c.type == CUDA_R_32F) && in_words(a) && in_words(b) &&
                in_words(c) && d.epilogue == CUBLASLT_EPILOGUE_DEFAULT && shim_capability() >= 89;
    for (int i = 0; i < 4; i++)
        good &= alignment[i] >= 16;
    return good && (!of_tiles(d) || takes_tiles(d, c, a.rows));
}

enum Refusal { GIVEN, UNSUPPORTED, INVALID, NO_RESULT, BAD_STATE };

static Refusal refused(const ShimMatmul &d, const ShimLayout &c, int64_t m, int64_t n, int64_t k)
{
    if (getenv("SHIM_NO_PRODUCTS"))
        return INVALID;
    if (d.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
        return GIVEN;
    /* An auxiliary matrix has to lie as it says there. */
    if (d.epilogue & AUX && (d.ldx < c.rows || d.ldx % 8 || (uintptr_t)d.aux % 16))
        return UNSUPPORTED;
    return (m + n + k) % 2 ? (Refusal)(UNSUPPORTED + (m + n + k) / 2 % 4) : GIVEN;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t p, int max,
                                              cublasLtMatmulHeuristicResult_t *r, int *found)
{
    int64_t m = d->a == CUBLAS_OP_N ? a->rows : a->columns, k = d->a == CUBLAS_OP_N ? a->columns : a->rows;
    int64_t n = d->b == CUBLAS_OP_N ? b->columns : b->rows, l = d->b == CUBLAS_OP_N ? b->rows : b->columns;
    const bool fits = m == c->rows && n == c->columns && k == l && a->batch == c->batch && b->batch == c->batch;
    const bool fp8 = is_fp8(a->type) || is_fp8(b->type);
    const Refusal refusal = fp8 && !takes_fp8(*d, *a, *b, *c, p->alignment) ? UNSUPPORTED
                                                                           : refused(*d, *c, m, n, k);
    uint64_t places = 0;
    for (int i = 0; i < 4; i++)
        places |= (uint64_t)p->alignment[i] << 16 * i;
    *found = fits && refusal != NO_RESULT ? max < 3 ? max : 3 : 0;
    memset(r, 0, (size_t)max * sizeof *r);
    for (int i = 0; i < *found; i++) {
        r[i].state = refusal == BAD_STATE ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
        if (r[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        r[i].algo.data[0] = (uint64_t)i + 1; /* who multiplies with none has not asked */
        r[i].algo.data[1] = places;
        r[i].algo.data[2] = key_of(*d, *a, *b, *c);
    }
    return refusal == UNSUPPORTED ? CUBLAS_STATUS_NOT_SUPPORTED
           : refusal == INVALID   ? CUBLAS_STATUS_INVALID_VALUE
                                  : CUBLAS_STATUS_SUCCESS;
}

/* A float as the tensor cores take it: 10 bits behind the point, ties away from zero. */
static double rounded(float f)
{
    uint32_t bits = (shim_bits(f) + 0x1000) & ~0x1fffu;
    return __uint_as_float(bits);
}

/* A number of 8 bits with `bits` of mantissa. */
static double from_fp8(uint8_t code, int bits, int bias)
{
    const int e = (code & 0x7f) >> bits, f = code & ((1 << bits) - 1);
    const double x = (code & 0x7f) >= (bits == 3 ? 0x7f : 0x7d) ? NAN
                     : bits == 2 && e == 31                     ? INFINITY
                     : e ? ldexp((1 << bits) + f, e - bias - bits)
                         : ldexp(f, 1 - bias - bits);
    return code & 0x80 ? -x : x;
}

static double get(const void *p, int64_t i, cudaDataType_t t)
{
    switch (t) {
    case CUDA_R_8F_E4M3:
        return from_fp8(((const uint8_t *)p)[i], 3, 7);
    case CUDA_R_8F_E5M2:
        return from_fp8(((const uint8_t *)p)[i], 2, 15);
    case CUDA_R_64F:
        return ((const double *)p)[i];
    case CUDA_R_16F:
        return shim_from_f16(((const uint16_t *)p)[i]);
    case CUDA_R_16BF:
        return __uint_as_float((uint32_t)((const uint16_t *)p)[i] << 16);
    default:
        return ((const float *)p)[i];
    }
}

static void put(void *p, int64_t i, cudaDataType_t t, double x)
{
    switch (t) {
    case CUDA_R_64F:
        ((double *)p)[i] = x;
        break;
    case CUDA_R_16F: /* what was summed in float is rounded once more */
        ((uint16_t *)p)[i] = shim_to_f16((float)x);
        break;
    case CUDA_R_16BF:
        ((uint16_t *)p)[i] = shim_to_bf16((float)x);
        break;
    default:
        ((float *)p)[i] = (float)x;
    }
}

/* A matrix as op(it), row by row, in double. */
static std::vector<double> matrix(const ShimLayout &l, bool transposed, bool tf32, const void *p,
                                  int64_t from)
{
    std::vector<double> m((size_t)(l.rows * l.columns));
    for (int64_t c = 0; c < l.columns; c++)
        for (int64_t r = 0; r < l.rows; r++) {
            double x = get(p, from + r + c * l.ld, l.type);
            m[(size_t)(transposed ? c * l.rows + r : r * l.columns + c)] =
                tf32 ? rounded((float)x) : x;
        }
    return m;
}

/* The tanh form: as 1 / (1 + e^-2u), and its slope. */
static double gelu_u(double x)
{
    return sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

static double gelu(double x)
{
    return x / (1 + exp(-2 * gelu_u(x)));
}

static double gelu_slope(double x)
{
    const double s = 1 / (1 + exp(-2 * gelu_u(x))), du = sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return s + 2 * x * s * (1 - s) * du;
}

static void product(const ShimMatmul &d, const ShimLayout &a, const ShimLayout &b,
                    const ShimLayout &c, double alpha, double beta, const void *pa, const void *pb,
                    void *pc)
{
    const bool ta = d.a == CUBLAS_OP_T, tb = d.b == CUBLAS_OP_T;
    const int64_t k = ta ? a.rows : a.columns;
    const bool tiled = of_tiles(d);
    const int64_t wide = of_powers(d.mode[0]) ? 32 : TILE;
    for (int i = 0; i < 2 && !tiled; i++)
        alpha *= d.scale[i] ? *(const float *)d.scale[i] : 1;
    for (int64_t i = 0; i < c.batch; i++) {
        std::vector<double> x = matrix(a, ta, d.tf32, pa, i * a.stride);
        std::vector<double> y = matrix(b, !tb, d.tf32, pb, i * b.stride); /* column by column */
        for (int64_t col = 0; col < c.columns; col++)
            for (int64_t row = 0; row < c.rows; row++) {
                const double *u = &x[(size_t)(row * k)], *v = &y[(size_t)(col * k)];
                double sum = 0;
                for (int64_t n = 0; n < k && !tiled; n++)
                    sum += u[n] * v[n];
                for (int64_t tile = 0; tiled && tile * wide < k; tile++) {
                    double part = 0;
                    for (int64_t n = tile * wide; n < k && n < (tile + 1) * wide; n++)
                        part += u[n] * v[n];
                    sum += part *
                           scale_of(d.scale[0], d.mode[0], scale_at(d.mode[0], row, c.rows, tile, k)) *
                           scale_of(d.scale[1], d.mode[1], scale_at(d.mode[1], col, c.columns, tile, k));
                }
                const int64_t at = i * c.stride + row + col * c.ld;
                sum = alpha * sum + (beta != 0 ? beta * get(pc, at, c.type) : 0);
                if (d.epilogue & BIAS)
                    sum += get(d.extra, row, c.type);
                if (d.epilogue & SLOPE)
                    sum *= gelu_slope(get(d.aux, row + col * d.ldx, c.type));
                else if (d.epilogue & AUX)
                    put(d.aux, row + col * d.ldx, c.type, sum);
                put(pc, at, c.type, d.epilogue & GELU ? gelu(sum) : sum);
            }
        for (int64_t row = 0; d.epilogue == CUBLASLT_EPILOGUE_BGRADA && row < c.rows; row++) {
            double sum = 0;
            for (int64_t n = 0; n < k; n++)
                sum += x[(size_t)(row * k + n)];
            put(d.extra, row, c.type, sum);
        }
    }
}

/* Whether an algorithm that was given is refused when it is used: also where the description has the
 * address of a vector or a matrix that its epilogue does not have. */
static bool refused_later(const ShimMatmul &d, const cublasLtMatmulAlgo_t &algo)
{
    if (d.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
        return d.extra || d.aux;
    return (d.epilogue == CUBLASLT_EPILOGUE_BGRADA && d.a == CUBLAS_OP_T) ||
           (algo.data[0] == 1 && algo.data[2] % 3 == 0);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t, void *to, cublasLtMatrixLayout_t lto,
                              const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t s)
{
    const void *const at[] = {a, b, c, to};
    if (algo->data[0] < 1 || algo->data[0] > 3 || algo->data[2] != key_of(*d, *la, *lb, *lto))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (refused_later(*d, *algo))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)at[i] % (algo->data[1] >> 16 * i & 0xffff))
            return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 2; i++) {
        const int64_t n = scale_bytes(d->mode[i], i ? lto->columns : lto->rows, la->rows);
        if (d->scale[i] ? !is_fp8(la->type) || !shim_on_device(d->scale[i], (size_t)n)
                        : of_tiles(*d))
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (of_tiles(*d) && !takes_tiles(*d, *lto, la->rows))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (shim_takes(s) != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    ShimMatmul op = *d;
    ShimLayout A = *la, B = *lb, C = *lto;
    bool wide = A.type == CUDA_R_64F;
    double x = wide ? *(const double *)alpha : (double)*(const float *)alpha;
    double y = wide ? *(const double *)beta : (double)*(const float *)beta;
    shim_later(s, [=] {
        product(op, A, B, C, x, y, a, b, to);
    });
    return CUBLAS_STATUS_SUCCESS;
}
