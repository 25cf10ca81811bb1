/* products.cc - what cuBLASLt requires of a product, by its documentation: matrices that fit each
 * other, leading dimensions, types, alignments of the chosen algorithm, its work space, and those
 * of an epilogue's vector and matrix. Matrices are column-major here, as the library has them. */
#include "tests/record/check/check.h"

#include <cinttypes>
#include <cublasLt.h>

namespace check
{

struct Matrix {
    uint64_t at;
    int type;
    uint64_t rows, columns;
    int64_t ld;
    int batch;
    int64_t stride;
};

static uint64_t bytes_of(int type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : type >= CUDA_R_8F_E4M3 ? 1 : 2;
}

static Matrix matrix_of(const Line &l, size_t from)
{
    return Matrix{l.u(from),     (int)l.i(from + 1), l.u(from + 2), l.u(from + 3),
                  l.i(from + 4), (int)l.i(from + 5), l.i(from + 6)};
}

static void legal(const Line &l, const char *name, const Matrix &m, bool written)
{
    if (!m.rows || !m.columns || m.batch < 1 || m.rows > INT32_MAX || m.columns > INT32_MAX)
        found("product", l.number, l.action, "%s has %" PRIu64 " rows, %" PRIu64 " columns, %d times",
              name, m.rows, m.columns, m.batch);
    if (m.ld < (int64_t)m.rows)
        found("product", l.number, l.action, "%s has a leading dimension of %" PRId64
              " for %" PRIu64 " rows", name, m.ld, m.rows);
    const int64_t each = (int64_t)(m.columns - 1) * m.ld + (int64_t)m.rows;
    /* Products of a batch may lie between each other's columns, or read the same. */
    if (m.batch > 1 && (m.stride < 0 || (written && m.stride < (int64_t)m.rows)))
        found("product", l.number, l.action, "%s: %d products are %" PRId64 " elements apart, each "
              "has %" PRId64, name, m.batch, m.stride, each);
}

/* The columns of all products of a batch: rows of one pitch if they follow each other in it, or lie
 * between each other's columns. */
static Piece piece(const char *name, const Matrix &m, bool reads, bool writes)
{
    const uint64_t b = bytes_of(m.type), ld = (uint64_t)m.ld * b, row = m.rows * b;
    const uint64_t apart = (uint64_t)m.stride * b, each = (m.columns - 1) * ld + row;
    Piece p = {name, m.at, row, m.columns, ld, reads, writes, 1, false};
    if (m.batch > 1 && apart == m.columns * ld)
        p.rows = m.columns * (uint64_t)m.batch;
    else if (m.batch > 1 && apart * (uint64_t)m.batch <= ld && apart >= row)
        p.row = apart * (uint64_t)(m.batch - 1) + row;
    else if (m.batch > 1)
        p = {name, m.at, apart * (uint64_t)(m.batch - 1) + each, 1, 0, reads, writes, 1, false};
    if (p.rows > 1 && p.row == p.pitch)
        p.row *= p.rows, p.rows = 1;
    return p;
}

static void fits(const Line &l, const Matrix &a, const Matrix &b, const Matrix &d, bool ta, bool tb)
{
    const uint64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns;
    const uint64_t kb = tb ? b.columns : b.rows, n = tb ? b.rows : b.columns;
    if (m != d.rows || n != d.columns || k != kb)
        found("product", l.number, l.action,
              "%" PRIu64 " x %" PRIu64 " times %" PRIu64 " x %" PRIu64 " is not %" PRIu64
              " x %" PRIu64, m, k, kb, n, d.rows, d.columns);
    if (a.batch != d.batch || b.batch != d.batch)
        found("product", l.number, l.action, "batches of %d, %d and %d", a.batch, b.batch, d.batch);
}

static void types(const Line &l, const Matrix &a, const Matrix &b, const Matrix &d, int compute)
{
    const bool f64 = a.type == CUDA_R_64F, halves = bytes_of(a.type) == 2;
    const bool fast = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    const bool good = a.type == b.type && (d.type == a.type || (halves && d.type == CUDA_R_32F)) &&
                      f64 == (compute == CUBLAS_COMPUTE_64F) && (!fast || a.type == CUDA_R_32F);
    if (!good)
        found("product", l.number, l.action, "types %d, %d, %d computed as %d", a.type, b.type,
              d.type, compute);
}

/* What sm_89, sm_90 and sm_120 take of fp8: A transposed and B not, not both of e5m2, a result of bf16
 * or f32, sums in f32, and all in whole words of 16 bytes. */
static void eights(const Line &l, const Matrix &a, const Matrix &b, const Matrix &d, int compute)
{
    if (l.i(1) != CUBLAS_OP_T || l.i(2) != CUBLAS_OP_N)
        found("product", l.number, l.action, "fp8 is multiplied with A as it is, or B transposed");
    if (bytes_of(b.type) != 1 || (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2) ||
        (d.type != CUDA_R_16BF && d.type != CUDA_R_32F) || compute != CUBLAS_COMPUTE_32F)
        found("product", l.number, l.action, "types %d, %d, %d computed as %d", a.type, b.type,
              d.type, compute);
    static const char *const names[] = {"A", "B", "D"};
    const Matrix *const all[] = {&a, &b, &d};
    for (int i = 0; i < 3; i++) {
        const Matrix &m = *all[i];
        const uint64_t width = bytes_of(m.type);
        if (m.at % 16 || m.rows * width % 16 || (uint64_t)m.ld * width % 16 ||
            (m.batch > 1 && (uint64_t)m.stride * width % 16))
            found("alignment", l.number, l.action, "%s of fp8 is at %#" PRIx64 ", with %" PRIu64
                  " rows and a leading dimension of %" PRId64, names[i], m.at, m.rows, m.ld);
    }
}

/* Scales of tiles, which sm_90 alone has: of 128 numbers of a row, one behind the other for all rows,
 * or of squares of one operand, along what is summed, in columns of a multiple of 4. From sm_100 on:
 * of both operands, of whole tiles of 32 numbers, in blocks of 128 rows and 4 tiles. */
static Piece scales(const Line &l, size_t operand, uint64_t rows, uint64_t k)
{
    const int64_t mode = l.i(47 + operand), other = l.i(48 - operand);
    const bool row = mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    const bool square = mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    const uint64_t tiles = (k + 127) / 128, down = (rows + 127) / 128;
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F && mode == other)
        return {"scale", l.u(45 + operand), 4, 1, 0, true, false, 4, false};
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 && mode == other) {
        if (k % 32)
            found("product", l.number, l.action, "sums of %" PRIu64 " in tiles of 32", k);
        return {"scales", l.u(45 + operand), down * tiles * 512, 1, 0, true, false, 16, false};
    }
    if ((!row && !square) || (square && mode == other) ||
        other == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F)
        found("product", l.number, l.action,
              "scales of mode %" PRId64 " beside those of mode %" PRId64, mode, other);
    if (rows % 4)
        found("product", l.number, l.action, "scales of tiles of %" PRIu64 " rows", rows);
    const uint64_t count = square ? down * ((tiles + 3) / 4 * 4) : tiles * rows;
    return {"scales", l.u(45 + operand), count * 4, 1, 0, true, false, 16, false};
}

void product(const Line &l, Call *call)
{
    const bool ta = l.i(1) == CUBLAS_OP_T, tb = l.i(2) == CUBLAS_OP_T;
    const Matrix a = matrix_of(l, 5), b = matrix_of(l, 12), c = matrix_of(l, 19),
                 d = matrix_of(l, 26);
    const int epilogue = (int)l.i(33);
    const uint64_t bias = l.u(34), aux = l.u(35), work = l.u(37), room = l.u(38);
    const int64_t aux_ld = l.i(36);
    legal(l, "A", a, false);
    legal(l, "B", b, false);
    legal(l, "D", d, true);
    fits(l, a, b, d, ta, tb);
    const bool fp8 = bytes_of(a.type) == 1;
    if (fp8)
        eights(l, a, b, d, (int)l.i(3));
    else
        types(l, a, b, d, (int)l.i(3));
    for (size_t k = 0; k < 2; k++)
        if ((l.u(45 + k) || l.i(47 + k)) && !fp8)
            found("product", l.number, l.action, "numbers of type %d have a scale", a.type);
        else if (l.u(45 + k))
            call->pieces.push_back(scales(l, k, k ? d.columns : d.rows, ta ? a.rows : a.columns));
        else if (l.i(47 + k))
            found("product", l.number, l.action, "scales of tiles are NULL");
    if (c.at != d.at)
        found("product", l.number, l.action, "C is not D");
    if (!l.i(43))
        found("product", l.number, l.action, "the algorithm is of other shapes");
    if (room < l.u(44))
        found("product", l.number, l.action, "the algorithm needs %" PRIu64
              " bytes of work space, and has %" PRIu64, l.u(44), room);
    const bool adds = l.field[4] != "0";
    const uint64_t multiple[] = {l.u(39), l.u(40), l.u(42)};
    const Matrix *const all[] = {&a, &b, &d};
    static const char *const names[] = {"A", "B", "D"};
    for (int i = 0; i < 3; i++) {
        call->pieces.push_back(piece(names[i], *all[i], i < 2 || adds, i == 2));
        if (all[i]->at % multiple[i])
            found("alignment", l.number, l.action,
                  "%s is at %#" PRIx64 ", and the algorithm is for multiples of %" PRIu64, names[i],
                  all[i]->at, multiple[i]);
    }
    if (room)
        call->pieces.push_back({"work space", work, room, 1, 0, true, true, 256, false});
    const uint64_t width = bytes_of(d.type);
    if (epilogue & CUBLASLT_EPILOGUE_BIAS)
        call->pieces.push_back({"bias", bias, d.rows * width, 1, 0, true, false, width, false});
    if (epilogue & CUBLASLT_EPILOGUE_BGRADA)
        call->pieces.push_back({"sums", bias, d.rows * width, 1, 0, false, true, width, false});
    if (!(epilogue & 128))
        return;
    const bool grad = epilogue == CUBLASLT_EPILOGUE_DGELU;
    if (aux_ld % 8 || aux_ld < (int64_t)d.rows)
        found("product", l.number, l.action, "the epilogue's matrix has a leading dimension of %"
              PRId64 " for %" PRIu64 " rows", aux_ld, d.rows);
    Matrix x = d;
    x.at = aux;
    x.ld = aux_ld;
    call->pieces.push_back(piece("epilogue's matrix", x, grad, !grad));
    call->pieces.back().multiple = 16;
    if (call->pieces.back().rows == 1)
        call->pieces.back().pitch = 0;
}

} // namespace check
