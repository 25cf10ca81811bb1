/* test_shim.cc - what the shim has to catch: mistakes that kernels make, each planted once. */
#include "tests/cuda_shim/cuda_shim.h"

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

static const char *run(const char *name, void **args, uint64_t seed)
{
    const ShimKernel *k = shim_find(name);
    assert_non_null(k);
    return shim_launch(k, ShimDim{1, 1, 1}, ShimDim{N, 1, 1}, args, seed);
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

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

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

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_barrier), cmocka_unit_test(barrier_not_for_all),
        cmocka_unit_test(shuffle_with_nobody), cmocka_unit_test(beside_shared_memory), cmocka_unit_test(reductions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
