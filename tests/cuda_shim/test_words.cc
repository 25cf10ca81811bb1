/* test_words.cc - streams of several processes that wait for words of shared memory and write them:
 * in any order of streams, captured and replayed; and what is refused. */
#include "tests/cuda_shim/include/cuda.h"
#include "tests/cuda_shim/together.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <vector>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
}

enum { SEEDS = 20, BYTES = 1 << 16 };
typedef CUresult Batch(CUstream s, unsigned count, CUstreamBatchMemOpParams *all, unsigned flags);

static char *memory;

static Batch *entry()
{
    void *at;
    enum cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", &at, 12080, cudaEnableDefault,
                                        &found));
    CHECK(at && found == cudaDriverEntryPointSuccess);
    return (Batch *)at;
}

static CUstreamBatchMemOpParams waits(unsigned long long at, uint32_t value,
                                      unsigned flags = CU_STREAM_WAIT_VALUE_EQ)
{
    CUstreamBatchMemOpParams o = {};
    o.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    o.waitValue.address = at;
    o.waitValue.value = value;
    o.waitValue.flags = flags;
    return o;
}

static CUstreamBatchMemOpParams writes(unsigned long long at, uint32_t value, unsigned flags = 0)
{
    CUstreamBatchMemOpParams o = {};
    o.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    o.writeValue.address = at;
    o.writeValue.value = value;
    o.writeValue.flags = flags;
    return o;
}

static CUresult one(cudaStream_t s, CUstreamBatchMemOpParams o)
{
    return entry()(s, 1, &o, 0);
}

static unsigned long long word(int i)
{
    return (uintptr_t)(memory + 64 * i);
}

static char *lane(int i)
{
    return memory + 4096 + 4096 * i;
}

/* Each gives the next one numbers and takes those of the one before, through one lane. */
static void pass_on(cudaStream_t out, cudaStream_t in, const Device<int> &mine, Device<int> &theirs)
{
    const int last = (rank + ranks - 1) % ranks;
    const size_t bytes = mine.n * sizeof(int);
    OK(one(out, waits(word(rank), 0)));
    OK(cudaMemcpyAsync(lane(rank), mine.at, bytes, cudaMemcpyDeviceToHost, out));
    OK(one(out, writes(word(rank), 1)));
    OK(one(in, waits(word(last), 1)));
    OK(cudaMemcpy2DAsync(theirs.at, bytes / 2, lane(last), bytes / 2, bytes / 2, 2,
                         cudaMemcpyHostToDevice, in));
    OK(one(in, writes(word(last), 0)));
}

static void check(const Device<int> &theirs, cudaStream_t s, int add)
{
    const int last = (rank + ranks - 1) % ranks;
    CHECK(theirs.get(s) == std::vector<int>(theirs.n, 100 * last + add));
}

static void ranks_in_turn()
{
    OK(cudaHostRegister(memory, BYTES, cudaHostRegisterMapped));
    cudaStream_t out = new_stream(), in = new_stream();
    cudaEvent_t before = new_event(), after = new_event();
    Device<int> mine(256), theirs(256);
    for (int time = 0; time < 4; time++) {
        mine.put(std::vector<int>(mine.n, 100 * rank + time), out);
        pass_on(out, in, mine, theirs);
        check(theirs, in, time);
        OK(cudaStreamSynchronize(out));
    }
    /* As a graph, whose streams come together. */
    cudaGraph_t g;
    cudaGraphExec_t e;
    OK(cudaStreamBeginCapture(out, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(before, out));
    OK(cudaStreamWaitEvent(in, before, 0));
    pass_on(out, in, mine, theirs);
    CHECK(cudaHostUnregister(memory) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(out, &g) != cudaSuccess); /* by what it refused */
    OK(cudaStreamBeginCapture(out, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(before, out));
    OK(cudaStreamWaitEvent(in, before, 0));
    pass_on(out, in, mine, theirs);
    OK(cudaEventRecord(after, in));
    OK(cudaStreamWaitEvent(out, after, 0));
    OK(cudaStreamEndCapture(out, &g));
    size_t nodes;
    OK(cudaGraphGetNodes(g, NULL, &nodes));
    CHECK(nodes == 6);
    OK(cudaGraphInstantiate(&e, g, 0));
    for (int time = 4; time < 8; time++) {
        mine.put(std::vector<int>(mine.n, 100 * rank + time), out);
        OK(cudaGraphLaunch(e, out));
        check(theirs, out, time);
    }
}

static void in_any_order(void **)
{
    for (int n = 2; n <= 4; n += 2)
        for (uint64_t s = 0; s < SEEDS; s++) {
            memset(memory, 0, BYTES);
            assert_int_equal(together(n, s, ranks_in_turn, NULL), 0);
        }
}

/* Without the wait for what comes some order of streams and ranks shows it. */
static void planted(void **)
{
    bool seen = false;
    setenv("SHIM_SKIP_WAIT", "1", 1);
    for (uint64_t s = 0; s < SEEDS && !seen; s++) {
        std::string said;
        memset(memory, 0, BYTES);
        seen = together(2, s, ranks_in_turn, &said) != 0;
    }
    unsetenv("SHIM_SKIP_WAIT");
    assert_true(seen);
}

static void refused(void **)
{
    memset(memory, 0, BYTES);
    assert_int_equal(
        together(
            1, 1,
            [] {
                cudaStream_t s = new_stream();
                Device<int> x(64);
                void *at;
                enum cudaDriverEntryPointQueryResult found;
                CHECK(one(s, waits(word(0), 0)) == cudaErrorInvalidValue); /* not registered */
                CHECK(cudaMemcpy2DAsync(lane(0), 64, x.at, 64, 64, 2, cudaMemcpyDeviceToHost, s) ==
                      cudaErrorInvalidValue);
                OK(cudaHostRegister(memory, BYTES, cudaHostRegisterDefault));
                CHECK(one(s, writes(word(0), 1)) == cudaErrorInvalidValue); /* the GPU has it not */
                OK(cudaHostUnregister(memory));
                OK(cudaHostRegister(memory, BYTES, cudaHostRegisterMapped));
                CHECK(one(s, waits(word(0) + 2, 0)) == cudaErrorInvalidValue);
                CHECK(one(s, writes(word(0) + 1, 0)) == cudaErrorInvalidValue);
                CHECK(one(s, waits(word(0) + BYTES, 0)) == cudaErrorInvalidValue);
                CHECK(one(s, waits(word(0), 0, 7)) == cudaErrorInvalidValue);
                CHECK(one(s, writes(word(0), 0, 1)) == cudaErrorInvalidValue);
                std::vector<CUstreamBatchMemOpParams> many(256, writes(word(0), 0));
                CHECK(entry()(s, 256, many.data(), 0) == cudaErrorInvalidValue);
                CHECK(entry()(s, 0, many.data(), 0) == cudaErrorInvalidValue);
                CHECK(cudaMemcpy2DAsync(lane(0), 32, x.at, 64, 64, 2, cudaMemcpyDeviceToHost, s) ==
                      cudaErrorInvalidValue); /* rows that overlap */
                OK(cudaGetDriverEntryPointByVersion("cuStreamNothing", &at, 12080,
                                                    cudaEnableDefault, &found));
                CHECK(!at && found == cudaDriverEntryPointSymbolNotFound);
                CUstreamBatchMemOpParams some[] = {
                    writes(word(0), 5), waits(word(0), 5), writes(word(1), 9),
                    waits(word(1), 3, CU_STREAM_WAIT_VALUE_GEQ)}; /* in their order */
                OK(entry()(s, 4, some, 0));
                OK(cudaStreamSynchronize(s));
                CHECK(*(uint32_t *)memory == 5);
            },
            NULL),
        0);
}

int main()
{
    memory = (char *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_any_order), cmocka_unit_test(planted),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
