/* test_shim.cc - what the shim has to catch: mistakes that kernels make, each planted once; and what it
 * says of the machine. */
#include "tests/cuda_shim/cuda_shim.h"
#include "tests/cuda_shim/include/cuda_runtime_api.h"
#include "tests/sample.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "tests/cuda_shim/shim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
}

#include "kernels/cuda/device.h"
#include "kernels/cuda/numbers.h"

#include "kernels/cuda/mma.h"

enum { N = 64 };

/* out[i] = in[N - 1 - i], through shared memory; the barrier may be missing. */
template <bool GOOD> static void turn(const int *in, int *out)
{
    MG_SHARED(int, x, N);
    x[threadIdx.x] = in[threadIdx.x];
    if (GOOD)
        __syncthreads();
    out[threadIdx.x] = x[N - 1 - threadIdx.x];
}
extern "C" __global__ void turn_good(const int *in, int *out)
{
    turn<true>(in, out);
}
MG_EXPORT(turn_good)
extern "C" __global__ void turn_bad(const int *in, int *out)
{
    turn<false>(in, out);
}
MG_EXPORT(turn_bad)

/* A barrier that half of the threads pass by. */
extern "C" __global__ void diverged(int *out)
{
    if (threadIdx.x < N / 2)
        __syncthreads();
    out[threadIdx.x] = 1;
}
MG_EXPORT(diverged)

/* Lanes that ask others who are not there. */
extern "C" __global__ void lonely(int *out)
{
    int x = 0;
    if (threadIdx.x % 32 < 16)
        x = __shfl_xor_sync(MG_ALL, 1, 1);
    out[threadIdx.x] = x;
}
MG_EXPORT(lonely)

/* One element beyond the shared memory. */
extern "C" __global__ void overrun(int *out)
{
    MG_SHARED(int, x, N);
    x[threadIdx.x + 1] = 1;
    __syncthreads();
    out[threadIdx.x] = x[threadIdx.x];
}
MG_EXPORT(overrun)

extern "C" __global__ void sums(const double *in, double *out)
{
    double s = mg_block_sum<N>(in[threadIdx.x]), m = mg_block_max<N>(in[threadIdx.x]);
    out[threadIdx.x] = s;
    out[N + threadIdx.x] = m;
}
MG_EXPORT(sums)

/* A warp's product of tiles: out[16, 16] = a[16, 16] b[16, 16]', and a b; the wait may be missing. */
template <class T, bool GOOD> static void tiles(const T *a, const T *b, float *out)
{
    MG_SHARED(mg_chunk, as, 16 * 64 / 8);
    MG_SHARED(mg_chunk, bs, 16 * 64 / 8);
    mg_tile_load<64, 16, N>(as, a, 64, 16);
    mg_tile_load<64, 16, N>(bs, b, 64, 16);
    mg_copy_commit();
    if (GOOD)
        mg_copy_wait<0>();
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    float c[2][4], d[8][4] = {{0}};
    mg_tile_times_transposed<T, 64, 16>(c, as, 0, bs);
    mg_add_times<T, 64, 16>(d, c, bs);
    const int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++) {
            const int row = g + i / 2 * 8, column = 8 * j + 2 * t + i % 2;
            if (j < 2)
                out[row * 16 + column] = c[j][i];
            out[256 + row * 64 + column] = d[j][i];
        }
}
extern "C" __global__ void tiles_good(const mg_bf16 *a, const mg_bf16 *b, float *out)
{
    tiles<mg_bf16, true>(a, b, out);
}
MG_EXPORT(tiles_good)
extern "C" __global__ void tiles_f16(const mg_f16 *a, const mg_f16 *b, float *out)
{
    tiles<mg_f16, true>(a, b, out);
}
MG_EXPORT(tiles_f16)
extern "C" __global__ void tiles_bad(const mg_bf16 *a, const mg_bf16 *b, float *out)
{
    tiles<mg_bf16, false>(a, b, out);
}
MG_EXPORT(tiles_bad)

/* A vector of four that begins `off` elements behind its array, and a chunk that is copied from there. */
extern "C" __global__ void vectors(const float *in, float *out)
{
    ((mg_vec<float, 4> *)out)[threadIdx.x] = *(const mg_vec<float, 4> *)(in + 4 * threadIdx.x);
}
MG_EXPORT(vectors)
extern "C" __global__ void chunks(const float *in, float *out)
{
    MG_SHARED(mg_chunk, x, N);
    mg_copy_async(x + threadIdx.x, in + 4 * threadIdx.x, true);
    mg_copy_commit();
    mg_copy_wait<0>();
    memcpy(out + 4 * threadIdx.x, x + threadIdx.x, sizeof *x);
}
MG_EXPORT(chunks)

static const char *run(const char *name, void **args, uint64_t seed)
{
    const ShimKernel *k = shim_find(name);
    assert_non_null(k);
    return shim_launch(k, ShimDim{1, 1, 1}, ShimDim{N, 1, 1}, 0, args, seed);
}

static int wrong_turns(const char *name)
{
    int wrong = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        int in[N], out[N];
        const int *from = in;
        int *to = out;
        void *args[] = {&from, &to};
        for (int i = 0; i < N; i++)
            in[i] = i;
        assert_null(run(name, args, seed));
        bool good = true;
        for (int i = 0; i < N; i++)
            good &= out[i] == N - 1 - i;
        wrong += !good;
    }
    return wrong;
}

static void missing_barrier(void **)
{
    assert_int_equal(wrong_turns("turn_good"), 0);
    assert_true(wrong_turns("turn_bad") > 15);
}

static void barrier_not_for_all(void **)
{
    int out[N], *to = out;
    void *args[] = {&to};
    const char *why = run("diverged", args, 1);
    assert_non_null(why);
    assert_non_null(strstr(why, "32 threads are at the barrier"));
    assert_non_null(strstr(why, "32 have ended"));
}

static void shuffle_with_nobody(void **)
{
    int out[N], *to = out;
    void *args[] = {&to};
    const char *why = run("lonely", args, 1);
    assert_non_null(why);
    assert_non_null(strstr(why, "lanes wait for others of their warp"));
}

/* True if a kernel that reads 16 bytes at a time runs through where its numbers begin `off` numbers
 * behind a multiple of that; a fault ends the child. */
static bool reads_from(const char *name, int off)
{
    pid_t child = fork();
    if (child == 0) {
        alignas(16) static float in[4 * N + 4], out[4 * N];
        const float *from = in + off;
        float *to = out;
        void *args[] = {&from, &to};
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        _exit(run(name, args, 1) != NULL);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void vectors_beside_their_places(void **)
{
    for (int off = 0; off < 4; off++) {
        assert_int_equal(reads_from("vectors", off), off == 0);
        assert_int_equal(reads_from("chunks", off), off == 0);
    }
}

/* The address sanitizer ends a process that writes beside its shared memory. */
static void beside_shared_memory(void **)
{
    if (!SANITIZED)
        skip();
    pid_t child = fork();
    if (child == 0) {
        int out[N], *to = out;
        void *args[] = {&to};
        if (!freopen("/dev/null", "w", stderr))
            _exit(0);
        run("overrun", args, 1);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WIFSIGNALED(status));
}

/* The same bits under every seed; a NaN shows. */
static void reductions(void **)
{
    double in[N], out[2 * N], first = 0;
    const double *from = in;
    double *to = out;
    void *args[] = {&from, &to};
    for (uint64_t seed = 0; seed < 20; seed++) {
        for (int i = 0; i < N; i++)
            in[i] = 1.0 / (i + 3);
        assert_null(run("sums", args, seed));
        first = seed ? first : out[0];
        for (int i = 0; i < N; i++) {
            assert_memory_equal(&out[i], &first, sizeof first);
            assert_true(out[N + i] == 1.0 / 3);
        }
        in[17] = NAN;
        assert_null(run("sums", args, seed));
        for (int i = 0; i < 2 * N; i++)
            assert_true(out[i] != out[i]);
    }
}

/* Small whole numbers: every product and sum is exact. */
template <class T> static void check_tiles(const char *name)
{
    T a[16 * 64], b[16 * 64];
    float out[256 + 16 * 64];
    const T *pa = a, *pb = b;
    float *to = out;
    void *args[] = {&pa, &pb, &to};
    for (int i = 0; i < 16 * 64; i++) {
        a[i] = mg_narrow<T>((float)(i * 7 % 3 - 1));
        b[i] = mg_narrow<T>((float)(i * 5 % 3 - 1));
    }
    assert_null(run(name, args, 3));
    for (int i = 0; i < 16; i++) {
        float c[16];
        for (int j = 0; j < 16; j++) {
            c[j] = 0;
            for (int k = 0; k < 64; k++)
                c[j] += mg_wide(a[i * 64 + k]) * mg_wide(b[j * 64 + k]);
            assert_true(out[i * 16 + j] == c[j]);
        }
        for (int j = 0; j < 64; j++) {
            float d = 0;
            for (int k = 0; k < 16; k++)
                d += c[k] * mg_wide(b[k * 64 + j]);
            assert_true(out[256 + i * 64 + j] == d);
        }
    }
}

static void matrices(void **)
{
    check_tiles<mg_bf16>("tiles_good");
    check_tiles<mg_f16>("tiles_f16");
}

/* A result that was not waited for is NaN, under every seed. */
static void missing_wait(void **)
{
    mg_bf16 a[16 * 64] = {{0}};
    float out[256 + 16 * 64];
    const mg_bf16 *pa = a, *pb = a;
    float *to = out;
    void *args[] = {&pa, &pb, &to};
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_null(run("tiles_bad", args, seed));
        for (int i = 0; i < 256; i++)
            assert_true(out[i] != out[i]);
    }
}

/* All halves there and back; what lies between two goes to the even one. */
template <class T> static void check_halves(int infinity)
{
    for (int bits = 0; bits < infinity; bits++) {
        T h, next, even;
        h.bits = (uint16_t)bits;
        next.bits = (uint16_t)(bits + 1);
        even.bits = (uint16_t)(bits & 1 ? bits + 1 : bits);
        const float x = mg_wide(h), y = mg_wide(next);
        assert_int_equal(mg_narrow<T>(x).bits, bits);
        assert_int_equal(mg_narrow<T>(-x).bits, bits | 0x8000);
        if (y == (float)INFINITY)
            continue;
        const float middle = (float)(((double)x + y) / 2);
        assert_int_equal(mg_narrow<T>(middle).bits, even.bits);
        assert_int_equal(mg_narrow<T>(nextafterf(middle, y)).bits, next.bits);
        assert_int_equal(mg_narrow<T>(nextafterf(middle, x)).bits, h.bits);
    }
    T h = mg_narrow<T>(NAN);
    assert_true(mg_wide(h) != mg_wide(h));
    assert_int_equal(mg_narrow<T>(INFINITY).bits, infinity);
    assert_int_equal(mg_narrow<T>(-3e38f * 2).bits, infinity | 0x8000);
}

static void halves(void **)
{
    check_halves<mg_bf16>(0x7f80);
    check_halves<mg_f16>(0x7c00);
    assert_int_equal(mg_narrow<mg_f16>(65519.996f).bits, 0x7bff);
    assert_int_equal(mg_narrow<mg_f16>(65520).bits, 0x7c00);
}

/* ---- what is asked of the machine --------------------------------------------------------- */

static void devices(void **)
{
    struct cudaDeviceProp p, again;
    int n;
    assert_int_equal(cudaGetDeviceCount(&n), cudaSuccess);
    assert_int_equal(n, 1);
    assert_int_equal(cudaSetDevice(1), cudaErrorInvalidDevice);
    setenv("SHIM_GPUS", "3", 1);
    assert_int_equal(cudaGetDeviceCount(&n), cudaSuccess);
    assert_int_equal(n, 3);
    assert_int_equal(cudaSetDevice(2), cudaSuccess);
    assert_int_equal(cudaSetDevice(3), cudaErrorInvalidDevice);
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            assert_int_equal(cudaGetDeviceProperties(&p, i), cudaSuccess);
            assert_int_equal(cudaGetDeviceProperties(&again, j), cudaSuccess);
            assert_int_equal(memcmp(&p.uuid, &again.uuid, sizeof p.uuid) == 0, i == j);
            assert_int_equal(p.pciBusID == again.pciBusID, i == j);
        }
    assert_int_equal(cudaGetDeviceProperties(&p, 3), cudaErrorInvalidDevice);
    setenv("SHIM_GPUS", "0", 1);
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    unsetenv("SHIM_GPUS");
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
}

static void host_memory(void **)
{
    static char x[8192];
    void *at = NULL, *own;
    const unsigned both = cudaHostRegisterMapped | cudaHostRegisterPortable;
    assert_int_equal(cudaHostGetDevicePointer(&at, x, 0), cudaErrorInvalidValue);
    assert_int_equal(cudaHostRegister(x, 0, both), cudaErrorInvalidValue);
    assert_int_equal(cudaHostRegister(x, 4096, 64), cudaErrorInvalidValue);
    assert_int_equal(cudaHostRegister(x, 4096, both), cudaSuccess);
    assert_int_equal(cudaHostRegister(x + 4095, 4096, both), cudaErrorHostMemoryAlreadyRegistered);
    assert_int_equal(cudaHostRegister(x + 4096, 4096, cudaHostRegisterDefault), cudaSuccess);
    assert_int_equal(cudaHostGetDevicePointer(&at, x + 4095, 0), cudaSuccess);
    assert_ptr_equal(at, x + 4095);
    assert_int_equal(cudaHostGetDevicePointer(&at, x + 4096, 0), cudaErrorInvalidValue); /* not mapped */
    assert_int_equal(cudaHostUnregister(x + 1), cudaErrorHostMemoryNotRegistered);
    assert_int_equal(cudaHostUnregister(x), cudaSuccess);
    assert_int_equal(cudaHostUnregister(x), cudaErrorHostMemoryNotRegistered);
    assert_int_equal(cudaHostGetDevicePointer(&at, x, 0), cudaErrorInvalidValue);
    assert_int_equal(cudaHostUnregister(x + 4096), cudaSuccess);
    assert_int_equal(cudaMallocHost(&own, 10), cudaSuccess);
    assert_int_equal(cudaHostUnregister(own), cudaErrorHostMemoryNotRegistered);
    assert_int_equal(cudaHostGetDevicePointer(&at, own, 0), cudaSuccess);
    assert_int_equal(cudaFreeHost(own), cudaSuccess);
    assert_int_equal(cudaFreeHost(x), cudaErrorInvalidValue);
}

/* ---- what a capture forbids --------------------------------------------------------------- */

static cudaStream_t first, second;
static cudaEvent_t event;
static void *memory;

static cudaError_t forbidden(int k)
{
    static char x[64];
    void *p;
    switch (k) {
    case 0:
        return cudaMalloc(&p, 64);
    case 1:
        return cudaFree(memory);
    case 2:
        return cudaMallocHost(&p, 64);
    case 3:
        return cudaFreeHost(NULL);
    case 4:
        return cudaHostRegister(x, sizeof x, cudaHostRegisterMapped);
    case 5:
        return cudaEventSynchronize(event);
    case 6:
        return cudaEventQuery(event);
    case 7:
        return cudaStreamSynchronize(first);
    default:
        return cudaStreamQuery(first);
    }
}

/* Each is refused, and so is all that follows, to the end of the capture, which gives no graph. */
static void captures(void **)
{
    cudaGraph_t g;
    assert_int_equal(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    assert_int_equal(cudaMalloc(&memory, 64), cudaSuccess);
    for (int k = 0; k < 9; k++) {
        assert_int_equal(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        assert_int_equal(cudaStreamSynchronize(second), cudaSuccess); /* it is not captured */
        assert_int_equal(cudaMemsetAsync(memory, 0, 64, first), cudaSuccess);
        assert_int_equal(forbidden(k), cudaErrorStreamCaptureUnsupported);
        assert_int_equal(cudaMemsetAsync(memory, 0, 64, first), cudaErrorStreamCaptureInvalidated);
        assert_int_equal(cudaEventRecord(event, first), cudaErrorStreamCaptureInvalidated);
        assert_int_equal(cudaStreamEndCapture(first, &g), cudaErrorStreamCaptureInvalidated);
        assert_null(g);
    }
    assert_int_equal(cudaMemsetAsync(memory, 7, 64, first), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(first), cudaSuccess);
    assert_int_equal(((char *)memory)[63], 7);
}

/* Launches are nodes, events are edges. */
static void nodes(void **)
{
    cudaGraph_t g;
    size_t n;
    assert_int_equal(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(cudaMemsetAsync(memory, 0, 64, first), cudaSuccess);
        assert_int_equal(cudaEventRecord(event, k ? second : first), cudaSuccess);
        assert_int_equal(cudaEventSynchronize(event), cudaErrorCapturedEvent);
        assert_int_equal(cudaStreamWaitEvent(k ? first : second, event, 0), cudaSuccess);
        if (!k)
            assert_int_equal(cudaMemsetAsync(memory, 1, 64, second), cudaSuccess);
    }
    assert_int_equal(cudaStreamEndCapture(first, &g), cudaSuccess);
    assert_int_equal(cudaGraphGetNodes(g, NULL, &n), cudaSuccess);
    assert_int_equal(n, 3);
    assert_int_equal(cudaGraphDestroy(g), cudaSuccess);
    cudaFree(memory);
    cudaEventDestroy(event);
    cudaStreamDestroy(second);
    cudaStreamDestroy(first);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_barrier), cmocka_unit_test(barrier_not_for_all),
        cmocka_unit_test(shuffle_with_nobody), cmocka_unit_test(beside_shared_memory), cmocka_unit_test(reductions),
        cmocka_unit_test(matrices), cmocka_unit_test(missing_wait), cmocka_unit_test(halves),
        cmocka_unit_test(vectors_beside_their_places), cmocka_unit_test(devices), cmocka_unit_test(host_memory),
        cmocka_unit_test(captures), cmocka_unit_test(nodes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
