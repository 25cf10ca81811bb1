/* test_disk.c - transfers between a GPU and a disk (runtime/cuda/disk.c), by the shim: whatever the
 * order of streams, in graphs and out of them, a fetch gives what was offloaded last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "runtime/cuda/cuda.h"
#include "runtime/cuda/disk.h"

static const int64_t LONG = 9 * MG_DISK_PIECE + 12288; /* more pieces than there are, and a part */

typedef struct bench {
    mg_program program;
    rt_options options;
    rt_cuda cuda;
    mg_run run;
    char *pinned, *device[2];
    cudaStream_t stream[2];
    cudaEvent_t event;
    rt_gpu_disk *disk;
} bench;

static bench *open_bench(void)
{
    bench *b = calloc(1, sizeof *b);
    void *p;
    b->program.level_bytes[MG_LEVEL_DISK] = 2 * LONG;
    b->options.offload_dir = ".";
    b->run.program = &b->program;
    b->run.options = &b->options;
    b->run.cuda = &b->cuda;
    b->pinned =
        mmap(NULL, MG_DISK_PINNED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(b->pinned != MAP_FAILED);
    assert_int_equal(cudaHostRegister(b->pinned, MG_DISK_PINNED, 0), cudaSuccess);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cudaMalloc(&p, (size_t)LONG), cudaSuccess);
        b->device[i] = p;
        assert_int_equal(cudaStreamCreateWithFlags(&b->stream[i], 0), cudaSuccess);
    }
    assert_int_equal(cudaEventCreateWithFlags(&b->event, 0), cudaSuccess);
    b->disk = rt_gpu_disk_open(&b->run, b->pinned);
    return b;
}

static void close_bench(bench *b)
{
    for (int i = 0; i < 2; i++)
        cudaStreamSynchronize(b->stream[i]);
    rt_gpu_disk_close(b->disk);
    for (int i = 0; i < 2; i++) {
        cudaStreamDestroy(b->stream[i]);
        cudaFree(b->device[i]);
    }
    cudaEventDestroy(b->event);
    cudaHostUnregister(b->pinned);
    munmap(b->pinned, MG_DISK_PINNED);
    free(b);
}

/* The stream of the next transfer: 0 fetches, 1 offloads. */
static void in_stream(bench *b, int s)
{
    b->cuda.stream = b->stream[s];
    b->cuda.at = s ? MG_STREAM_OFFLOADS : MG_STREAM_FETCHES;
}

/* Stream s goes on when the other has done what it has. */
static void meet(bench *b, int s)
{
    assert_int_equal(cudaEventRecord(b->event, b->stream[!s]), cudaSuccess);
    assert_int_equal(cudaStreamWaitEvent(b->stream[s], b->event, 0), cudaSuccess);
}

static void offload(bench *b, int64_t to, const char *from, int64_t bytes)
{
    in_stream(b, 1);
    rt_gpu_disk_offload(&b->run, b->disk, 1, MG_FAR(MG_LEVEL_DISK, to), from, bytes);
}

static void fetch(bench *b, char *to, int64_t from, int64_t bytes)
{
    in_stream(b, 0);
    rt_gpu_disk_fetch(&b->run, b->disk, 2, to, MG_FAR(MG_LEVEL_DISK, from), bytes);
}

static void fill(char *p, int64_t bytes, unsigned seed)
{
    for (int64_t i = 0; i < bytes / 4; i++)
        ((unsigned *)p)[i] = (seed + (unsigned)i) * 2654435761u;
}

static bool holds(const char *p, int64_t bytes, unsigned seed)
{
    bool same = true;
    for (int64_t i = 0; i < bytes / 4; i++)
        same &= ((const unsigned *)p)[i] == (seed + (unsigned)i) * 2654435761u;
    return same;
}

static void synchronize(bench *b)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(cudaStreamSynchronize(b->stream[i]), cudaSuccess);
}

static void there_and_back(void **state)
{
    bench *b = open_bench();
    static const int64_t sizes[] = {4, 4096, MG_DISK_PIECE, MG_DISK_PIECE + 4, LONG};
    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        fill(b->device[0], sizes[k], (unsigned)k);
        memset(b->device[1], 0, (size_t)sizes[k]);
        offload(b, k * 4096, b->device[0], sizes[k]);
        meet(b, 0);
        fetch(b, b->device[1], k * 4096, sizes[k]);
        synchronize(b);
        assert_true(holds(b->device[1], sizes[k], (unsigned)k));
    }
    close_bench(b);
}

/* Parts that are written and read at once, in no order but that of what touches the same bytes. */
static void beside_each_other(void **state)
{
    bench *b = open_bench();
    const int64_t part = 3 * MG_DISK_PIECE + 8192;
    (void)state;
    for (int round = 0; round < 4; round++) {
        fill(b->device[0], part, (unsigned)round);
        fill(b->device[0] + part, part, 100 + (unsigned)round);
        offload(b, 0, b->device[0], part);
        meet(b, 0);
        offload(b, part, b->device[0] + part, part); /* while the first comes back */
        fetch(b, b->device[1], 0, part);
        meet(b, 0);
        fetch(b, b->device[1] + part, part, part);
        synchronize(b);
        assert_true(holds(b->device[1], part, (unsigned)round));
        assert_true(holds(b->device[1] + part, part, 100 + (unsigned)round));
    }
    close_bench(b);
}

/* Launched twice before anybody waits, and again with other bytes. */
static void captured(void **state)
{
    bench *b = open_bench();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    const int64_t bytes = 6 * MG_DISK_PIECE;
    (void)state;
    assert_int_equal(cudaStreamBeginCapture(b->stream[1], cudaStreamCaptureModeThreadLocal),
                     cudaSuccess);
    offload(b, 4096, b->device[0], bytes);
    meet(b, 0);
    fetch(b, b->device[1], 4096, bytes);
    meet(b, 1);
    assert_int_equal(cudaStreamEndCapture(b->stream[1], &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (unsigned round = 0; round < 3; round++) {
        fill(b->device[0], bytes, round);
        for (int twice = 0; twice < 2; twice++)
            assert_int_equal(cudaGraphLaunch(exec, b->stream[1]), cudaSuccess);
        synchronize(b);
        assert_true(holds(b->device[1], bytes, round));
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    close_bench(b);
}

/* The host puts bytes there, and gets them. */
static void by_the_host(void **state)
{
    bench *b = open_bench();
    char *memory = malloc((size_t)LONG);
    (void)state;
    fill(memory, LONG, 7);
    rt_gpu_disk_copy(b->disk, false, MG_FAR(MG_LEVEL_DISK, LONG), memory, LONG);
    fetch(b, b->device[0], LONG, LONG);
    synchronize(b);
    assert_true(holds(b->device[0], LONG, 7));
    fill(b->device[0], LONG, 8);
    offload(b, LONG, b->device[0], LONG);
    synchronize(b);
    rt_gpu_disk_copy(b->disk, true, MG_FAR(MG_LEVEL_DISK, LONG), memory, LONG);
    assert_true(holds(memory, LONG, 8));
    free(memory);
    close_bench(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(beside_each_other),
        cmocka_unit_test(captured),
        cmocka_unit_test(by_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
