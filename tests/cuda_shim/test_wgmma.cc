/* test_wgmma.cc - products of a warpgroup through the shim: what they compute, of each form that
 * kernels use, and the mistakes that a GPU answers with wrong numbers, each planted once. */
#include "tests/cuda_shim/cuda_shim.h"
#include "tests/cuda_shim/include/cuda_runtime_api.h"

#include <stdlib.h>
#include <vector>

extern "C" {
#include "tests/cuda_shim/shim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
}

#include "runtime/launches.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/numbers.h"

#include "kernels/cuda/mma.h"

#include "kernels/cuda/wgmma.h"

enum { THREADS = 128, M = 64 };

/* The step that is left out or done too early. */
enum Mistake { NONE, NO_FENCE, NO_WAIT, READ_EARLY, WRITTEN_EARLY, NO_ARRIVAL, NO_BARRIER, BESIDE, NO_END };

template <int N> static void put(float *out, const float (*c)[4])
{
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    for (int j = 0; j < N / 8; j++)
        for (int i = 0; i < 4; i++)
            out[(16 * warp + g + i / 2 * 8) * N + 8 * j + 2 * t + i % 2] = c[j][i];
}

/* x[M, D], y[N, D]: out gets x y' [M, N] twice, of tiles and of registers, then (x y') y [M, D]. */
template <class T, int D, int N, Mistake MISTAKE>
static void products(const T *x, const T *y, float *out)
{
    MG_SHARED_ALL(area);
    mg_chunk *xs = area, *ys = xs + M * D / 8;
    uint32_t a[D / 16][4], again[N / 16][4];
    float c[N / 8][4], by_registers[N / 8][4], d[D / 8][4] = {{0}};
    mg_panel_load<D, M, THREADS>(xs, x, D, M);
    mg_panel_load<D, N, THREADS>(ys, y, D, N);
    mg_copy_commit();
    if (MISTAKE != NO_ARRIVAL)
        mg_copy_arrived<0>();
    if (MISTAKE != NO_BARRIER)
        __syncthreads();
    for (int i = 0; i < D / 16; i++)
        mg_panel_a<M>(a[i], xs, 16 * ((int)threadIdx.x / 32), 16 * i);
    if (MISTAKE != NO_FENCE)
        mg_group_begin();
    mg_group_tiles_transposed<T, D, N, M, N>(c, xs, 0, MISTAKE == BESIDE ? ys + 8 : ys);
    mg_group_commit();
    mg_group_transposed<T, D, N, N>(by_registers, a, ys);
    mg_group_commit();
    if (MISTAKE == NO_END)
        return;
    if (MISTAKE == WRITTEN_EARLY) { /* rows that other threads read, too */
        __syncthreads();
        for (int i = (int)threadIdx.x; i < N * D / 8; i += THREADS)
            memset(&ys[i], 0, sizeof *ys);
    }
    if (MISTAKE != NO_WAIT && MISTAKE != READ_EARLY)
        mg_group_wait<1>();
    if (MISTAKE != READ_EARLY)
        mg_settle(c);
    put<N>(out, c);
    mg_pack_columns<T, N>(again, c);
    mg_group_wait<0>();
    mg_settle(by_registers);
    put<N>(out + M * N, by_registers);
    mg_group_begin();
    mg_group_add<T, N, D, N>(d, again, ys);
    mg_group_commit();
    mg_group_wait<0>();
    mg_settle(d);
    put<D>(out + 2 * M * N, d);
}

#define PRODUCTS(name, T, D, N, MISTAKE)                                                           \
    extern "C" __global__ void name(const T *x, const T *y, float *out)                            \
    {                                                                                              \
        products<T, D, N, MISTAKE>(x, y, out);                                                     \
    }                                                                                              \
    MG_EXPORT(name)
PRODUCTS(bf16_64_32, mg_bf16, 64, 32, NONE)
PRODUCTS(bf16_64_64, mg_bf16, 64, 64, NONE)
PRODUCTS(bf16_64_128, mg_bf16, 64, 128, NONE)
PRODUCTS(f16_128_64, mg_f16, 128, 64, NONE)
PRODUCTS(f16_128_128, mg_f16, 128, 128, NONE)
PRODUCTS(no_fence, mg_bf16, 64, 64, NO_FENCE)
PRODUCTS(no_wait, mg_bf16, 64, 64, NO_WAIT)
PRODUCTS(read_early, mg_bf16, 64, 64, READ_EARLY)
PRODUCTS(written_early, mg_bf16, 64, 64, WRITTEN_EARLY)
PRODUCTS(no_arrival, mg_bf16, 64, 64, NO_ARRIVAL)
PRODUCTS(no_barrier, mg_bf16, 64, 64, NO_BARRIER)
PRODUCTS(beside, mg_bf16, 64, 64, BESIDE)
PRODUCTS(no_end, mg_bf16, 64, 64, NO_END)

template <class T> static double dot(const T *x, const T *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)mg_wide(x[i]) * mg_wide(y[i]);
    return sum;
}

/* Runs a kernel on small whole numbers, whose sums are exact. Returns how many of its results are
 * wrong; *why: what the shim says. */
template <class T, int D, int N>
static int wrong_results(const char *name, uint64_t seed, const char **why)
{
    std::vector<T> x(M * D), y(N * D);
    std::vector<float> out(2 * M * N + M * D, -1.0f);
    const T *px = x.data(), *py = y.data();
    float *to = out.data();
    void *args[] = {&px, &py, &to};
    for (int i = 0; i < M * D; i++)
        x[(size_t)i] = mg_narrow<T>((float)(i * 7 % 11 % 3 - 1));
    for (int i = 0; i < N * D; i++)
        y[(size_t)i] = mg_narrow<T>((float)(i * 5 % 13 % 3 - 1));
    const ShimKernel *k = shim_find(name);
    assert_non_null(k);
    *why = shim_launch(k, ShimDim{1, 1, 1}, ShimDim{THREADS, 1, 1}, (size_t)(M + N) * D * sizeof(T), args, seed);
    int wrong = 0;
    for (int r = 0; r < M; r++) {
        double row[N];
        for (int j = 0; j < N; j++) {
            row[j] = dot(px + r * D, py + j * D, D);
            wrong += !(out[(size_t)(r * N + j)] == row[j]);
            wrong += !(out[(size_t)(M * N + r * N + j)] == row[j]);
        }
        for (int e = 0; e < D; e++) {
            double sum = 0;
            for (int j = 0; j < N; j++)
                sum += row[j] * mg_wide(y[(size_t)(j * D + e)]);
            wrong += !(out[(size_t)(2 * M * N + r * D + e)] == sum);
        }
    }
    return wrong;
}

static void forms(void **)
{
    const char *why;
    for (uint64_t seed = 0; seed < 8; seed++) {
        assert_int_equal((wrong_results<mg_bf16, 64, 32>("bf16_64_32", seed, &why)), 0);
        assert_null(why);
        assert_int_equal((wrong_results<mg_bf16, 64, 64>("bf16_64_64", seed, &why)), 0);
        assert_null(why);
        assert_int_equal((wrong_results<mg_bf16, 64, 128>("bf16_64_128", seed, &why)), 0);
        assert_null(why);
        assert_int_equal((wrong_results<mg_f16, 128, 64>("f16_128_64", seed, &why)), 0);
        assert_null(why);
        assert_int_equal((wrong_results<mg_f16, 128, 128>("f16_128_128", seed, &why)), 0);
        assert_null(why);
    }
}

static void refused(const char *name, const char *says)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        const char *why;
        wrong_results<mg_bf16, 64, 64>(name, seed, &why);
        assert_non_null(why);
        assert_non_null(strstr(why, says));
    }
}

static void said(void **)
{
    refused("no_fence", "no fence is before");
    refused("no_wait", "before it is waited for");
    refused("beside", "beside its shared memory");
    refused("no_end", "ends before the products");
}

/* Of results that are read too early all are NaN; of what is written too early the products see
 * something, or not, as the seed says: under each seed some do. */
static void seen_by_results(void **)
{
    const char *why;
    for (uint64_t seed = 0; seed < 8; seed++) {
        assert_true((wrong_results<mg_bf16, 64, 64>("read_early", seed, &why) >= M * 64));
        assert_true((wrong_results<mg_bf16, 64, 64>("written_early", seed, &why) > 0));
        assert_true((wrong_results<mg_bf16, 64, 64>("no_arrival", seed, &why) > 0));
        assert_true((wrong_results<mg_bf16, 64, 64>("no_barrier", seed, &why) > 0));
    }
}

/* A launch gets 48 KiB, more if it was said before, and never more than sm_90 has. */
static void shared_memory(void **)
{
    const ShimKernel *k = shim_find("no_end");
    const cudaFuncAttribute size = cudaFuncAttributeMaxDynamicSharedMemorySize;
    cudaStream_t s;
    const void *none = NULL;
    void *args[] = {&none, &none, &none};
    assert_int_equal(cudaStreamCreateWithFlags(&s, 0), cudaSuccess);
    assert_int_equal(cudaLaunchKernel(k, dim3{1, 1, 1}, dim3{1, 1, 1}, args, (48 << 10) + 1, s), cudaErrorInvalidValue);
    assert_int_equal(cudaFuncSetAttribute(k, size, (227 << 10) + 1), cudaErrorInvalidValue);
    assert_int_equal(cudaFuncSetAttribute(k, size, 50 << 10), cudaSuccess);
    assert_int_equal(cudaLaunchKernel(k, dim3{1, 1, 1}, dim3{1, 1, 1}, args, (50 << 10) + 1, s), cudaErrorInvalidValue);
    assert_int_equal(cudaStreamDestroy(s), cudaSuccess);
}

int main()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms), cmocka_unit_test(said), cmocka_unit_test(seen_by_results),
                                       cmocka_unit_test(shared_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
