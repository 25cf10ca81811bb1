/* test_nccl_faults.cc - what the shim's NCCL has to catch: mistakes of programs of several ranks,
 * each planted once, and what it refuses. */
#include "tests/cuda_shim/together.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <thread>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
}

enum { SEEDS = 12 };

/* ---- waits that are missing --------------------------------------------------------------- */

/* The producer of a collective's input is in another stream, and so is the reader of its output. */
enum Missing { NOTHING, BEFORE, AFTER };

static void step(Missing missing, int time, cudaStream_t *s, cudaEvent_t *e, Device<int> &in,
                 Device<int> &sum, Device<int> &copy)
{
    OK(cudaMemsetAsync(in.at, time, in.n * 4, s[0]));
    OK(cudaEventRecord(e[0], s[0]));
    if (missing != BEFORE)
        OK(cudaStreamWaitEvent(s[1], e[0], 0));
    OK(ncclAllReduce(in.at, sum.at, in.n, ncclInt32, ncclSum, world, s[1]));
    OK(cudaEventRecord(e[1], s[1]));
    if (missing != AFTER)
        OK(cudaStreamWaitEvent(s[0], e[1], 0));
    OK(cudaMemcpyAsync(copy.at, sum.at, in.n * 4, cudaMemcpyDeviceToDevice, s[0]));
}

/* Tells how many of the steps were wrong. */
static void steps(Missing missing)
{
    cudaStream_t s[] = {new_stream(), new_stream()};
    cudaEvent_t e[] = {new_event(), new_event()};
    Device<int> in(100), sum(100), copy(100);
    for (int time = 1; time <= 3; time++) {
        step(missing, time, s, e, in, sum, copy);
        told[rank] += copy.get(s[0])[99] != 0x01010101 * time * ranks;
        OK(cudaStreamSynchronize(s[1]));
    }
}

/* The same in graphs. What the missing wait would have joined is joined at the end. */
static void captured_steps(Missing missing)
{
    cudaStream_t s[] = {new_stream(), new_stream()};
    cudaEvent_t e[] = {new_event(), new_event()}, fork = new_event(), join = new_event();
    Device<int> in(100), sum(100), copy(100);
    for (int time = 1; time <= 3; time++) {
        cudaGraph_t g;
        cudaGraphExec_t x;
        OK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeThreadLocal));
        OK(cudaEventRecord(fork, s[0]));
        OK(cudaStreamWaitEvent(s[1], fork, 0));
        step(missing, time, s, e, in, sum, copy);
        OK(cudaEventRecord(join, s[1]));
        OK(cudaStreamWaitEvent(s[0], join, 0));
        OK(cudaStreamEndCapture(s[0], &g));
        OK(cudaGraphInstantiate(&x, g, 0));
        OK(cudaGraphLaunch(x, s[0]));
        told[rank] += copy.get(s[0])[99] != 0x01010101 * time * ranks;
        OK(cudaGraphDestroy(g));
        OK(cudaGraphExecDestroy(x));
    }
}

static int wrong_seeds(void (*body)(Missing), Missing missing)
{
    int wrong = 0;
    for (uint64_t s = 0; s < SEEDS; s++) {
        assert_int_equal(with_world(2, s, [=] { body(missing); }), 0);
        wrong += told[0] || told[1];
    }
    return wrong;
}

static void missing_waits(void **)
{
    for (void (*body)(Missing) : {steps, captured_steps}) {
        assert_int_equal(wrong_seeds(body, NOTHING), 0);
        assert_in_range(wrong_seeds(body, BEFORE), 3, SEEDS);
        assert_in_range(wrong_seeds(body, AFTER), 3, SEEDS);
    }
}

/* While a collective waits for another rank, nothing good is where its output will be; what is in
 * place stays. */
static void poisoned(void **)
{
    for (uint64_t s = 0; s < SEEDS; s++)
        assert_int_equal(
            with_world(
                2, s,
                [] {
                    cudaStream_t stream = new_stream(), other = new_stream();
                    Device<int> in(4), out(8);
                    in.put({1, 1, 1, 1}, stream);
                    out.put({2, 2, 2, 2, 3, 3, 3, 3}, stream);
                    OK(cudaStreamSynchronize(stream));
                    std::vector<int> got = {3}, bad = {2, 2, 2, 2, -1, -1, -1, -1};
                    if (seed % 2)
                        bad = {-1, -1, -1, -1, 3, 3, 3, 3};
                    while (rank && !*(volatile uint64_t *)told)
                        usleep(100);
                    if (seed % 2)
                        OK(ncclAllReduce(in.at, out.at, 4, ncclInt32, ncclSum, world, stream));
                    else
                        OK(ncclAllGather(out.at + 4 * rank, out.at, 4, ncclInt32, world, stream));
                    for (int time = 0; !rank && got != bad; time++) {
                        CHECK(time < 1000);
                        CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
                        got = out.get(other);
                    }
                    told[rank] = 1;
                    got = out.get(stream);
                    CHECK(got[0] == 2 && got[7] == 3);
                }),
            0);
}

/* ---- ranks that do not do the same -------------------------------------------------------- */

/* A rank says all of these words and ends with 99. */
static void says(int how_many, const std::function<void()> &body,
                 const std::vector<const char *> &words, uint64_t its_seed = 1)
{
    std::string text;
    const int end = with_world(how_many, its_seed, body, &text);
    bool all = end == 99;
    for (const char *w : words)
        all &= text.find(w) != std::string::npos;
    if (!all)
        fprintf(stderr, "ended with %d: %s\n", end, text.c_str());
    assert_true(all);
}

static void mismatches(void **)
{
    static char *buffer;
    auto pair = [](std::function<void(cudaStream_t)> first,
                   std::function<void(cudaStream_t)> second,
                   const std::vector<const char *> &words) {
        says(
            2,
            [=] {
                cudaStream_t s = new_stream();
                Device<char> memory(1 << 20);
                buffer = memory.at;
                (rank ? second : first)(s);
                OK(cudaStreamSynchronize(s));
            },
            words);
    };
    auto reduce = [](size_t n, ncclDataType_t t, ncclRedOp_t op) {
        return [=](cudaStream_t s) { OK(ncclAllReduce(buffer, buffer, n, t, op, world, s)); };
    };
    auto gather = [](cudaStream_t s) {
        OK(ncclAllGather(buffer, buffer + 512, 10, ncclFloat32, world, s));
    };
    auto scatter = [](cudaStream_t s) {
        OK(ncclReduceScatter(buffer, buffer + 512, 10, ncclFloat32, ncclSum, world, s));
    };
    auto send = [](size_t n) {
        return [=](cudaStream_t s) { OK(ncclSend(buffer, n, ncclInt8, 1 - rank, world, s)); };
    };
    auto take = [](size_t n) {
        return [=](cudaStream_t s) { OK(ncclRecv(buffer, n, ncclInt8, 1 - rank, world, s)); };
    };
    const auto sum = reduce(10, ncclFloat32, ncclSum);
    pair(sum, gather, {"rank 0", "rank 1", "ncclAllReduce (ncclSum)", "ncclAllGather", "40 bytes"});
    pair(gather, scatter, {"rank 0", "rank 1", "ncclAllGather", "ncclReduceScatter (ncclSum)"});
    pair(sum, reduce(11, ncclFloat32, ncclSum), {"rank 0", "rank 1", "40 bytes", "44 bytes"});
    pair(sum, reduce(10, ncclInt32, ncclSum), {"rank 0", "rank 1", "ncclFloat32", "ncclInt32"});
    pair(sum, reduce(10, ncclFloat32, ncclMax), {"rank 0", "rank 1", "ncclSum", "ncclMax"});
    pair(send(100), take(101),
         {"rank 1 is at ncclRecv", "101 bytes", "rank 0 at ncclSend", "100 bytes"});
    pair(send(1 << 20), take(1 << 19), {"ncclRecv", "524288 bytes", "ncclSend", "1048576 bytes"});
    pair(send(0), take(1), {"rank 0", "rank 1", "0 bytes", "1 bytes"});
    pair(sum, take(40), {"ncclRecv", "ncclAllReduce"});
    pair([=](cudaStream_t s) { sum(s), sum(s), gather(s); },
         [=](cudaStream_t s) { sum(s), gather(s); },
         {"number 1", "ncclAllGather", "ncclAllReduce"});
}

/* Whether the sender waits for its taker or not. */
static void sent_and_not_taken(void **)
{
    for (uint64_t s = 0; s < 4; s++)
        says(
            3,
            [] {
                Device<int> x(4);
                if (rank == 2)
                    OK(ncclSend(x.at, 4, ncclInt32, 1, world, new_stream()));
                OK(ncclCommDestroy(world));
                _exit(0);
            },
            {"rank 1 never took what rank 2 sent it: ncclSend", "16 bytes of ncclInt32"}, s);
}

static void races(void **)
{
    says(2,
         [] {
             Device<int> x(8);
             ncclAllReduce(x.at, x.at + 2, 4, ncclInt32, ncclSum, world, new_stream());
         },
         {"ncclAllReduce", "writes what", "reads"});
    says(2,
         [] {
             cudaStream_t s = new_stream();
             Device<int> x(8);
             ncclGroupStart();
             ncclRecv(x.at, 4, ncclInt32, 1 - rank, world, s);
             ncclAllGather(x.at + 7, x.at + 3, 1, ncclInt32, world, s);
             ncclGroupEnd();
         },
         {"ncclRecv", "ncclAllGather", "writes too"});
}

static void graphs_after_the_end(void **)
{
    says(2,
         [] {
             cudaStream_t s = new_stream();
             Device<int> x(1);
             cudaGraph_t g;
             OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
             OK(ncclAllReduce(x.at, x.at, 1, ncclInt32, ncclSum, world, s));
             OK(cudaStreamEndCapture(s, &g));
             if (rank)
                 OK(cudaGraphDestroy(g));
             OK(ncclCommDestroy(world));
             CHECK(ncclAllReduce(x.at, x.at, 1, ncclInt32, ncclSum, world, s) ==
                   ncclInvalidArgument);
             _exit(0);
         },
         {"rank 0 destroys it before a graph that uses it"});
}

/* ---- what is refused ---------------------------------------------------------------------- */

static void refused(void **)
{
    assert_int_equal(
        with_world(2, 1,
                   [] {
                       cudaStream_t s = new_stream(), other = new_stream();
                       Device<int> x(4);
                       int *p = x.at, version;
                       OK(ncclGetVersion(&version));
                       CHECK(version == NCCL_VERSION_CODE && version == NCCL_VERSION(2, 28, 9));
                       CHECK(ncclAllReduce(p, p, 4, ncclInt32, ncclAvg, world, s) ==
                             ncclInvalidArgument);
                       CHECK(strstr(ncclGetLastError(world), "operation 4"));
                       CHECK(ncclAllReduce(p, p, 4, ncclFloat8e4m3, ncclSum, world, s) ==
                             ncclInvalidArgument);
                       CHECK(ncclAllReduce(p, p, 4, ncclNumTypes, ncclSum, world, s) ==
                             ncclInvalidArgument);
                       CHECK(ncclAllGather(NULL, p, 4, ncclInt32, world, s) == ncclInvalidArgument);
                       CHECK(ncclSend(p, 4, ncclInt32, 2, world, s) == ncclInvalidArgument);
                       CHECK(ncclSend(p, 4, ncclInt32, -1, world, s) == ncclInvalidArgument);
                       CHECK(ncclSend(p, 4, ncclInt32, 0, NULL, s) == ncclInvalidArgument);
                       CHECK(ncclSend(p, 4, ncclInt32, 0, world, NULL) == ncclInvalidArgument);
                       CHECK(ncclSend(p, 4, ncclInt32, rank, world, s) == ncclInvalidUsage);
                       CHECK(ncclGroupEnd() == ncclInvalidUsage);
                       /* A collective of nothing is none, here only. */
                       if (rank)
                           OK(ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum, world, s));
                       /* Of a group with something wrong nothing is done; the next one is good. */
                       OK(ncclGroupStart());
                       OK(ncclGroupStart());
                       OK(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, world, s));
                       CHECK(ncclAllReduce(p + 1, p + 1, 1, ncclInt32, ncclSum, world, other) ==
                             ncclInvalidUsage);
                       CHECK(ncclCommSplit(world, 0, 0, &world, NULL) == ncclInvalidUsage);
                       OK(ncclGroupEnd());
                       CHECK(ncclGroupEnd() == ncclInvalidUsage);
                       x.put({1, 1, 1, 1}, s);
                       OK(ncclGroupStart());
                       OK(ncclAllReduce(p, p, 1, ncclInt32, ncclSum, world, s));
                       OK(ncclGroupEnd());
                       CHECK((x.get(s) == std::vector<int>{2, 1, 1, 1}));
                       ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                       config.magic++;
                       ncclComm_t part;
                       CHECK(ncclCommSplit(world, 0, 0, &part, &config) == ncclInvalidArgument);
                       CHECK(ncclCommSplit(world, -2, 0, &part, NULL) == ncclInvalidArgument);
                   }),
        0);
}

static int open_files()
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static bool is_mapped()
{
    char line[512];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    CHECK(f);
    while (fgets(line, sizeof line, f))
        found |= strstr(line, "shim-nccl") != NULL;
    fclose(f);
    return found;
}

/* Ids that mean nothing; and what is left of good ones, which is nothing. */
static void ids(void **)
{
    assert_int_equal(together(
                         2, 1,
                         [] {
                             const int files = open_files();
                             ncclUniqueId good = common_id(), bad = good;
                             ncclComm_t part;
                             memset(&bad, 0, sizeof bad);
                             CHECK(init(&world, bad, 1) == ncclInvalidArgument);
                             bad = good;
                             bad.internal[25] ^= 1; /* of the nonce */
                             CHECK(init(&world, bad, 1) == ncclInvalidArgument);
                             CHECK(strstr(ncclGetLastError(NULL), "gone"));
                             rank += ranks;
                             CHECK(init(&world, good, 1) == ncclInvalidArgument);
                             rank -= ranks;
                             OK(init(&world, good, 1));
                             if (rank ==
                                 0) { /* the same place twice, and more ranks than there are */
                                 CHECK(init(&part, good, 1) == ncclInvalidArgument);
                             }
                             OK(ncclCommSplit(world, rank, 0, &part, NULL));
                             CHECK(open_files() == files && is_mapped());
                             OK(ncclCommDestroy(part));
                             OK(ncclCommDestroy(world));
                             CHECK(!is_mapped());
                         },
                         NULL),
                     0);
}

/* Two ranks on one GPU, which all are told; on another machine it is another GPU. */
static void same_gpu(void **)
{
    for (int machines = 1; machines <= 2; machines++)
        assert_int_equal(together(
                             3, 1,
                             [machines] {
                                 ncclComm_t c;
                                 const ncclUniqueId id = common_id();
                                 OK(cudaSetDevice(rank / 2));
                                 if (machines == 2)
                                     setenv("NCCL_HOSTID", rank == 1 ? "b" : "a", 1);
                                 const ncclResult_t got = init(&c, id, 1);
                                 CHECK(got == (machines == 1 ? ncclInvalidUsage : ncclSuccess));
                                 if (machines == 1)
                                     CHECK(strstr(ncclGetLastError(NULL), "ranks 0 and 1"));
                                 else
                                     OK(ncclCommDestroy(c));
                             },
                             NULL),
                         0);
}

/* A watchdog gives up for a host that waits for a rank that does not come. */
static void aborted(void **)
{
    assert_int_equal(with_world(2, 1,
                                [] {
                                    ncclComm_t c;
                                    cudaStream_t s = new_stream();
                                    Device<int> x(1);
                                    OK(ncclCommSplit(world, 0, 0, &c, NULL));
                                    if (rank == 0) {
                                        OK(ncclAllReduce(x.at, x.at, 1, ncclInt32, ncclSum, c, s));
                                        std::thread watchdog([c] {
                                            usleep(20000);
                                            OK(ncclCommAbort(c));
                                        });
                                        OK(cudaStreamSynchronize(s));
                                        watchdog.join();
                                        CHECK(ncclAllReduce(x.at, x.at, 1, ncclInt32, ncclSum, c,
                                                            s) == ncclInvalidArgument);
                                    }
                                    x.put({3}, s);
                                    OK(ncclAllReduce(x.at, x.at, 1, ncclInt32, ncclSum, world, s));
                                    CHECK(x.get(s)[0] == 6);
                                    if (rank)
                                        OK(ncclCommAbort(c));
                                }),
                     0);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_waits), cmocka_unit_test(poisoned),
        cmocka_unit_test(mismatches),    cmocka_unit_test(sent_and_not_taken),
        cmocka_unit_test(races),         cmocka_unit_test(graphs_after_the_end),
        cmocka_unit_test(refused),       cmocka_unit_test(ids),
        cmocka_unit_test(same_gpu),      cmocka_unit_test(aborted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
