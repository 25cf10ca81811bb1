/* test_fp8.cc - numbers of 8 bits on a GPU as PyTorch has them (tests/codegen/fp8.txt): those of
 * kernels/cuda/device.h, and the instruction that rounds to them as tests/ptx has it; and that the
 * shim's cuBLASLt takes of fp8 what the documentation lists, and nothing else. */
#include "tests/cuda_shim/cuda_shim.h"
#include "tests/cuda_shim/include/cublasLt.h"
#include "tests/ptx/launch.h"
#include "tests/ptx/memory.h"

#include "kernels/cuda/device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

extern "C" {
#include <cmocka.h>
}

struct Rounded {
    bool e5m2;
    uint32_t from;
    uint8_t code;
};
static std::vector<Rounded> rounded;
static uint32_t wide[2][256];

static int read_golden(void **)
{
    FILE *f = fopen(GOLDEN, "r");
    char kind[8], type[8];
    unsigned a, b, c;
    assert_non_null(f);
    while (fscanf(f, "%7s %7s %x %x", kind, type, &a, &b) == 4) {
        const bool e5m2 = !strcmp(type, "e5m2");
        if (!strcmp(kind, "bf16")) {
            assert_int_equal(fscanf(f, "%x", &c), 1);
            for (unsigned k = a; k <= b; k++)
                rounded.push_back({e5m2, k << 16, (uint8_t)c});
        } else if (!strcmp(kind, "f32")) {
            rounded.push_back({e5m2, a, (uint8_t)b});
        } else {
            wide[e5m2][a] = b;
        }
    }
    fclose(f);
    assert_true(rounded.size() > 130000);
    return 0;
}

static void conversions(void **)
{
    for (const Rounded &r : rounded) {
        const float x = __uint_as_float(r.from);
        const uint8_t code = r.e5m2 ? mg_narrow<mg_e5m2>(x).bits : mg_narrow<mg_e4m3>(x).bits;
        if (code != r.code)
            fail_msg("%a becomes %02x, not %02x", (double)x, code, r.code);
    }
    for (unsigned t = 0; t < 2; t++)
        for (unsigned k = 0; k < 256; k++) {
            const uint8_t bits = (uint8_t)k;
            const float x = t ? mg_wide(mg_e5m2{bits}) : mg_wide(mg_e4m3{bits});
            const float want = __uint_as_float(wide[t][k]);
            if (want != want ? x == x || shim_bits(x) >> 31 != k >> 7 : shim_bits(x) != wide[t][k])
                fail_msg("%02x is %a, not %a", k, (double)x, (double)want);
        }
}

/* e8m0: code k is 2^(k - 127), 255 none. Each float gives the least that is not below it, which is at
 * most the largest. */
static void powers(void **)
{
    for (unsigned k = 0; k < 255; k++) {
        const float power = ldexpf(1, (int)k - 127);
        const unsigned next = k < 254 ? k + 1 : 254;
        assert_true(mg_wide(mg_e8m0{(uint8_t)k}) == power);
        for (const float sign : {1.0f, -1.0f}) {
            assert_int_equal(mg_narrow<mg_e8m0>(sign * power).bits, k);
            assert_int_equal(mg_narrow<mg_e8m0>(sign * nextafterf(power, 0)).bits, k);
            assert_int_equal(mg_narrow<mg_e8m0>(sign * nextafterf(power, INFINITY)).bits, next);
            assert_int_equal(mg_narrow<mg_e8m0>(sign * 1.75f * power).bits, next);
        }
    }
    const float none = mg_wide(mg_e8m0{255});
    assert_true(none != none);
    assert_int_equal(mg_narrow<mg_e8m0>(0).bits, 0);
    for (const float x : {INFINITY, -INFINITY, NAN})
        assert_int_equal(mg_narrow<mg_e8m0>(x).bits, 255);
}

/* Of the two floats of the instruction the first is the upper byte. A NaN has no sign there. */
static void instruction(void **)
{
    enum { LANES = 32 };
    static uint32_t memory[2 * LANES];
    ptx::global_ranges().add(memory, sizeof memory);
    for (const char *type : {"e4m3", "e5m2"}) {
        ptx::Module m(std::string(".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n"
                                  ".reg .b32 %r<4>; .reg .f32 %f<2>; .reg .b64 %rd<4>; .reg .b16 %h<2>;\n"
                                  "ld.param.u64 %rd0, [a]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4;"
                                  "add.s64 %rd1, %rd1, %rd0;\nld.global.f32 %f0, [%rd1]; mov.b32 %r2, 0; mov.b32 %f1, %r2;\n"
                                  "cvt.rn.satfinite.") +
                      type + "x2.f32 %h0, %f1, %f0; cvt.u32.u16 %r1, %h0; st.global.u32 [%rd1+128], %r1;\nret;\n}\n");
        std::vector<Rounded> all;
        for (const Rounded &r : rounded)
            if (r.e5m2 == !strcmp(type, "e5m2"))
                all.push_back(r);
        for (size_t at = 0; at + LANES <= all.size(); at += 7 * LANES) {
            for (size_t i = 0; i < LANES; i++)
                memory[i] = all[at + i].from;
            void *a = memory, *args[] = {&a};
            ptx::Launch l;
            l.grid = ptx::Dim{1, 1, 1};
            l.block = ptx::Dim{LANES, 1, 1};
            l.args = args;
            l.seed = at;
            assert_string_equal(ptx::launch(*m.find("k"), l).c_str(), "");
            for (size_t i = 0; i < LANES; i++) {
                const bool nan = (all[at + i].from & 0x7fffffff) > 0x7f800000;
                assert_int_equal(memory[LANES + i], nan ? 0x7f : all[at + i].code);
            }
        }
    }
    ptx::global_ranges().remove(memory);
}

struct Ask {
    cublasOperation_t ta, tb;
    cudaDataType_t a, b, c;
    int64_t m, n, k, lda, ldb, ldc;
    uint32_t multiple;
    int32_t mode[2]; /* of scales, of which there are none where both are 0 */
};

static int found(const Ask &q)
{
    cublasLtMatmulDesc_t d;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t p;
    cublasLtMatmulHeuristicResult_t r[4];
    int n = 0;
    cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &q.ta, sizeof q.ta);
    cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &q.tb, sizeof q.tb);
    alignas(16) static const float scales[4] = {};
    const float *const at = scales;
    for (int i = 0; i < 2 && (q.mode[0] || q.mode[1]); i++) {
        cublasLtMatmulDescSetAttribute(d, (cublasLtMatmulDescAttributes_t)(CUBLASLT_MATMUL_DESC_A_SCALE_MODE + i), &q.mode[i],
                                       sizeof q.mode[i]);
        cublasLtMatmulDescSetAttribute(d, (cublasLtMatmulDescAttributes_t)(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER + i), &at,
                                       sizeof at);
    }
    const bool ta = q.ta == CUBLAS_OP_T, tb = q.tb == CUBLAS_OP_T;
    cublasLtMatrixLayoutCreate(&a, q.a, (uint64_t)(ta ? q.k : q.m), (uint64_t)(ta ? q.m : q.k), q.lda);
    cublasLtMatrixLayoutCreate(&b, q.b, (uint64_t)(tb ? q.n : q.k), (uint64_t)(tb ? q.k : q.n), q.ldb);
    cublasLtMatrixLayoutCreate(&c, q.c, (uint64_t)q.m, (uint64_t)q.n, q.ldc);
    cublasLtMatmulPreferenceCreate(&p);
    for (int i = 0; i < 4; i++)
        cublasLtMatmulPreferenceSetAttribute(p, (cublasLtMatmulPreferenceAttributes_t)(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i),
                                             &q.multiple, sizeof q.multiple);
    const cublasStatus_t said = cublasLtMatmulAlgoGetHeuristic(NULL, d, a, b, c, c, p, 4, r, &n);
    cublasLtMatmulPreferenceDestroy(p);
    cublasLtMatmulDescDestroy(d);
    for (cublasLtMatrixLayout_t l : {a, b, c})
        cublasLtMatrixLayoutDestroy(l);
    return said == CUBLAS_STATUS_SUCCESS && n > 0 && r[0].state == CUBLAS_STATUS_SUCCESS;
}

static void library(void **)
{
    const cudaDataType_t e4 = CUDA_R_8F_E4M3, e5 = CUDA_R_8F_E5M2, bf = CUDA_R_16BF;
    const Ask good = {CUBLAS_OP_T, CUBLAS_OP_N, e4, e5, bf, 32, 48, 64, 64, 64, 32, 16, {0, 0}};
    Ask q = good;
    assert_true(found(q));
    q.c = CUDA_R_32F, q.b = e4;
    assert_true(found(q));
    std::vector<Ask> bad(9, good);
    bad[0].ta = CUBLAS_OP_N, bad[0].lda = 32;
    bad[1].tb = CUBLAS_OP_T, bad[1].ldb = 48;
    bad[2].a = e5;
    bad[3].c = CUDA_R_64F;
    bad[4].k = 40;
    bad[5].lda = 72;
    bad[6].multiple = 8;
    bad[7].b = bf;
    bad[8].m = 36, bad[8].ldc = 36;
    for (const Ask &x : bad)
        assert_false(found(x));
    setenv("SHIM_SM", "86", 1);
    assert_false(found(good));
    unsetenv("SHIM_SM");
}

/* Scales of tiles: on sm_90 alone, of squares for one operand at most, and for both or none. */
static void tiles(void **)
{
    const int32_t rows = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, squares = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    Ask q = {CUBLAS_OP_T, CUBLAS_OP_N, CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, 32, 48, 64, 64, 64, 32, 16, {rows, rows}};
    const int32_t taken[][2] = {{rows, rows}, {rows, squares}, {squares, rows}};
    const int32_t refused[][2] = {{squares, squares}, {rows, 0}, {0, squares}, {2, 2}};
    setenv("SHIM_SM", "90", 1);
    for (const auto &mode : taken) {
        memcpy(q.mode, mode, sizeof mode);
        assert_true(found(q));
    }
    for (const auto &mode : refused) {
        memcpy(q.mode, mode, sizeof mode);
        assert_false(found(q));
    }
    memcpy(q.mode, taken[0], sizeof q.mode);
    q.n = 46;
    assert_false(found(q));
    q.n = 48;
    for (const char *sm : {"89", "100", "120"}) {
        setenv("SHIM_SM", sm, 1);
        assert_false(found(q));
    }
    unsetenv("SHIM_SM");
}

/* Of 32 numbers: from sm_100 on, of both operands, whose sums are of whole tiles. */
static void tiles_of_powers(void **)
{
    const int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    const Ask good = {CUBLAS_OP_T, CUBLAS_OP_N, CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_16BF, 32, 48, 96, 96, 96, 32, 16, {mode, mode}};
    Ask part = good, other = good;
    part.k = part.lda = part.ldb = 80;
    other.mode[1] = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    for (const char *sm : {"89", "90", "100", "120"}) {
        setenv("SHIM_SM", sm, 1);
        assert_true(found(good) == (atoi(sm) >= 100));
        assert_false(found(part));
        assert_false(found(other));
    }
    unsetenv("SHIM_SM");
}

int main()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(conversions), cmocka_unit_test(powers), cmocka_unit_test(instruction), cmocka_unit_test(library),
                                       cmocka_unit_test(tiles), cmocka_unit_test(tiles_of_powers)};
    return cmocka_run_group_tests(tests, read_golden, NULL);
}
