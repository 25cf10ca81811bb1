/* test_nccl.cc - what ranks get of each other through the shim's NCCL, in orders of several seeds.
 */
#include "tests/cuda_shim/together.h"

#include "tests/cuda_shim/cuda_shim.h"

#include <math.h>
#include <stdlib.h>

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
}

enum { SEEDS = 4 };

/* Each body as 2, 3 and 4 ranks, under several seeds. */
static void everywhere(const std::function<void()> &body)
{
    for (int n = 2; n <= 4; n++)
        for (uint64_t s = 0; s < SEEDS; s++)
            assert_int_equal(with_world(n, s, body), 0);
}

/* ---- numbers of all types ----------------------------------------------------------------- */

static size_t width(ncclDataType_t t)
{
    return t == ncclInt8 || t == ncclUint8         ? 1
           : t == ncclFloat16 || t == ncclBfloat16 ? 2
           : t == ncclInt32 || t == ncclFloat32    ? 4
                                                   : 8;
}

template <class T> static void store(char *p, size_t i, T x)
{
    memcpy(p + i * sizeof x, &x, sizeof x);
}

static void set(std::vector<char> &to, size_t i, ncclDataType_t t, int x)
{
    char *p = to.data();
    switch (t) {
    case ncclInt8:
    case ncclUint8:
        return store(p, i, (char)x);
    case ncclInt32:
        return store(p, i, (int32_t)x);
    case ncclInt64:
        return store(p, i, (int64_t)x);
    case ncclFloat16:
        return store(p, i, shim_to_f16((float)x));
    case ncclBfloat16:
        return store(p, i, shim_to_bf16((float)x));
    case ncclFloat32:
        return store(p, i, (float)x);
    default:
        return store(p, i, (double)x);
    }
}

/* Element i of rank r: small, so that every sum is exact. */
static int value(ncclDataType_t t, int r, size_t i)
{
    return (r * 7 + (int)(i % 1000) * 3) % 11 - (t == ncclUint8 ? 0 : 5);
}

struct Case {
    ncclDataType_t t;
    size_t n;
    cudaStream_t s;
};

static std::vector<char> values_of(const Case &c, int r, size_t first, size_t n)
{
    std::vector<char> x(n * width(c.t));
    for (size_t i = 0; i < n; i++)
        set(x, i, c.t, value(c.t, r, first + i));
    return x;
}

static std::vector<char> reduced(const Case &c, ncclRedOp_t op, size_t first, size_t n)
{
    std::vector<char> x(n * width(c.t));
    for (size_t i = 0; i < n; i++) {
        int y = value(c.t, 0, first + i);
        for (int r = 1; r < ranks; r++) {
            const int z = value(c.t, r, first + i);
            y = op == ncclSum ? y + z : y > z ? y : z;
        }
        set(x, i, c.t, y);
    }
    return x;
}

static void check_all_reduce(const Case &c, ncclRedOp_t op)
{
    Device<char> in(c.n * width(c.t)), out(in.n);
    in.put(values_of(c, rank, 0, c.n), c.s);
    OK(ncclAllReduce(in.at, out.at, c.n, c.t, op, world, c.s));
    OK(ncclAllReduce(in.at, in.at, c.n, c.t, op, world, c.s));
    CHECK(out.get(c.s) == reduced(c, op, 0, c.n));
    CHECK(in.get(c.s) == reduced(c, op, 0, c.n));
}

static void check_reduce_scatter(const Case &c, ncclRedOp_t op)
{
    const size_t n = c.n * (size_t)ranks, mine = c.n * (size_t)rank;
    Device<char> in(n * width(c.t)), out(c.n * width(c.t));
    in.put(values_of(c, rank, 0, n), c.s);
    OK(ncclReduceScatter(in.at, out.at, c.n, c.t, op, world, c.s));
    char *place = in.at + mine * width(c.t);
    OK(ncclReduceScatter(in.at, place, c.n, c.t, op, world, c.s));
    OK(cudaMemsetAsync(in.at, 0, mine * width(c.t), c.s));
    CHECK(out.get(c.s) == reduced(c, op, mine, c.n));
    CHECK(memcmp(&in.get(c.s)[mine * width(c.t)], reduced(c, op, mine, c.n).data(), out.n) == 0);
}

static void check_all_gather(const Case &c)
{
    Device<char> in(c.n * width(c.t)), out(in.n * (size_t)ranks), place(out.n);
    in.put(values_of(c, rank, 0, c.n), c.s);
    char *mine = place.at + in.n * (size_t)rank;
    OK(cudaMemcpyAsync(mine, in.at, in.n, cudaMemcpyDeviceToDevice, c.s));
    OK(ncclAllGather(in.at, out.at, c.n, c.t, world, c.s));
    OK(ncclAllGather(mine, place.at, c.n, c.t, world, c.s));
    std::vector<char> want;
    for (int r = 0; r < ranks; r++) {
        const std::vector<char> part = values_of(c, r, 0, c.n);
        want.insert(want.end(), part.begin(), part.end());
    }
    CHECK(out.get(c.s) == want);
    CHECK(place.get(c.s) == want);
}

/* Half of the types a seed. */
static void collectives(void **)
{
    static const ncclDataType_t types[] = {ncclInt8,    ncclInt32,    ncclFloat16, ncclFloat32,
                                           ncclFloat64, ncclBfloat16, ncclInt64,   ncclUint8};
    everywhere([] {
        cudaStream_t s = new_stream();
        for (size_t i = seed % 2 * 4; i < seed % 2 * 4 + 4; i++)
            for (size_t n : {1, 1000}) {
                const Case c = {types[i], n, s};
                for (ncclRedOp_t op : {ncclSum, ncclMax}) {
                    check_all_reduce(c, op);
                    check_reduce_scatter(c, op);
                }
                check_all_gather(c);
            }
        const Case large = {ncclFloat32, seed == 1 ? 100003u : 17011u, s};
        check_all_reduce(large, ncclSum);
        check_reduce_scatter(large, ncclMax);
        check_all_gather(large);
    });
}

/* ---- how sums are made -------------------------------------------------------------------- */

static uint64_t hash_of(const void *p, size_t bytes)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const unsigned char *)p)[i]) * 1099511628211u;
    return h;
}

/* The same bits on all ranks and each time; others under another seed, if there are orders to
 * choose from. */
static void order_of_sums(void **)
{
    for (int n = 2; n <= 4; n++) {
        uint64_t first = 0;
        bool differs = false;
        for (uint64_t s = 0; s < SEEDS; s++) {
            uint64_t got[2];
            for (int time = 0; time < 2; time++) {
                assert_int_equal(with_world(n, s,
                                            [] {
                                                cudaStream_t stream = new_stream();
                                                Device<float> x(5000);
                                                std::vector<float> mine(x.n);
                                                for (size_t i = 0; i < x.n; i++)
                                                    mine[i] = sinf((float)(i * 7 + rank * 1001));
                                                x.put(mine, stream);
                                                OK(ncclAllReduce(x.at, x.at, x.n, ncclFloat32,
                                                                 ncclSum, world, stream));
                                                mine = x.get(stream);
                                                told[rank] = hash_of(mine.data(), x.n * 4);
                                            }),
                                 0);
                got[time] = told[0];
                for (int r = 0; r < n; r++)
                    assert_true(told[r] == told[0]);
            }
            assert_true(got[0] == got[1]);
            first = s ? first : got[0];
            differs |= got[0] != first;
        }
        assert_int_equal(differs, n > 2);
    }
}

/* 1e8 + 1 - 1e8 is 0 or 1, as one adds; a call has both. */
static void order_by_range(void **)
{
    assert_int_equal(
        with_world(3, 1,
                   [] {
                       cudaStream_t s = new_stream();
                       Device<float> x(20000);
                       const float mine[] = {1e8f, 1, -1e8f};
                       x.put(std::vector<float>(x.n, mine[rank]), s);
                       OK(ncclAllReduce(x.at, x.at, x.n, ncclFloat32, ncclSum, world, s));
                       size_t ones = 0, changes = 0;
                       const std::vector<float> sum = x.get(s);
                       for (size_t i = 0; i < x.n; i++) {
                           CHECK(sum[i] == 0 || sum[i] == 1);
                           ones += sum[i] == 1;
                           changes += i && sum[i] != sum[i - 1];
                       }
                       CHECK(ones > x.n / 10 && ones < x.n - x.n / 10);
                       CHECK(changes > 10 && changes < x.n / 10);
                   }),
        0);
}

/* 256 + 1 is 256 in bf16, 2048 + 1 is 2048 in f16; with another 1 it is not. A maximum is a number
 * if there is one. */
static void halves_and_nan(void **)
{
    everywhere([] {
        cudaStream_t s = new_stream();
        Device<uint16_t> b(300), h(300);
        Device<float> f(3);
        b.put(std::vector<uint16_t>(b.n, shim_to_bf16(rank ? 1 : 256)), s);
        h.put(std::vector<uint16_t>(h.n, shim_to_f16(rank ? 1 : 2048)), s);
        f.put({rank ? 1.0f : NAN, rank ? NAN : -2.0f, NAN}, s);
        OK(ncclAllReduce(b.at, b.at, b.n, ncclBfloat16, ncclSum, world, s));
        OK(ncclAllReduce(h.at, h.at, h.n, ncclFloat16, ncclSum, world, s));
        OK(ncclAllReduce(f.at, f.at, f.n, ncclFloat32, ncclMax, world, s));
        for (uint16_t x : b.get(s))
            CHECK(x == shim_to_bf16((float)(255 + ranks)));
        for (uint16_t x : h.get(s))
            CHECK(x == shim_to_f16((float)(2047 + ranks)));
        const std::vector<float> max = f.get(s);
        CHECK(max[0] == 1 && max[1] == -2 && max[2] != max[2]);
    });
}

/* ---- communicators ------------------------------------------------------------------------ */

/* The sum of what the ranks of a communicator have. */
static int sum(ncclComm_t c, int mine, cudaStream_t s)
{
    Device<int> x(1);
    x.put({mine}, s);
    OK(ncclAllReduce(x.at, x.at, 1, ncclInt32, ncclSum, c, s));
    return x.get(s)[0];
}

static void splits(void **)
{
    everywhere([] {
        cudaStream_t s = new_stream();
        ncclComm_t part, turned, first, again;
        int count, number;
        /* Odd and even ranks, from the last. */
        OK(ncclCommSplit(world, rank % 2, -rank, &part, NULL));
        OK(ncclCommCount(part, &count));
        OK(ncclCommUserRank(part, &number));
        CHECK(count == (ranks + 1 - rank % 2) / 2);
        CHECK(number == (ranks - 1 - rank) / 2);
        int others = 0;
        for (int r = rank % 2; r < ranks; r += 2)
            others += 1 << r;
        CHECK(sum(part, 1 << rank, s) == others);
        /* Alike keys: the order of the whole. Not all are in it. */
        OK(ncclCommSplit(world, rank ? 3 : NCCL_SPLIT_NOCOLOR, 0, &turned, NULL));
        CHECK((turned == NULL) == (rank == 0));
        if (turned) {
            OK(ncclCommUserRank(turned, &number));
            CHECK(number == rank - 1);
            CHECK(sum(turned, rank, s) == ranks * (ranks - 1) / 2);
            /* A part of a part. */
            OK(ncclCommSplit(turned, number ? NCCL_SPLIT_NOCOLOR : 0, 0, &first, NULL));
            CHECK((first != NULL) == (number == 0));
            if (first) {
                CHECK(sum(first, 17, s) == 17);
                OK(ncclCommDestroy(first));
            }
        }
        OK(ncclCommSplit(world, 0, rank, &again, NULL));
        CHECK(sum(again, 1, s) == ranks);
        CHECK(sum(world, 1, s) == ranks);
        OK(ncclCommDestroy(part));
        if (turned)
            OK(ncclCommDestroy(turned));
        OK(ncclCommDestroy(again));
    });
}

/* Ranks come to two communicators in opposite orders; host and streams have them wait for the one
 * that they launched last. */
static void opposite_orders(void **)
{
    everywhere([] {
        ncclComm_t c[2] = {world, NULL};
        cudaStream_t s[2] = {new_stream(), new_stream()};
        Device<int> x(20000), y(20000);
        Device<int> *of[2] = {&x, &y};
        OK(ncclCommSplit(world, 0, rank, &c[1], NULL));
        for (int time = 0; time < 4; time++) {
            x.put(std::vector<int>(x.n, rank), s[0]);
            y.put(std::vector<int>(y.n, rank * time), s[1]);
            for (int k = 0; k < 2; k++) {
                const int i = (k + rank) % 2;
                OK(ncclAllReduce(of[i]->at, of[i]->at, x.n, ncclInt32, ncclSum, c[i], s[i]));
            }
            OK(cudaStreamSynchronize(s[(1 + rank) % 2]));
            OK(cudaStreamSynchronize(s[rank % 2]));
            const int all = ranks * (ranks - 1) / 2;
            CHECK(x.get(s[0]) == std::vector<int>(x.n, all));
            CHECK(y.get(s[1]) == std::vector<int>(y.n, all * time));
        }
        OK(ncclCommDestroy(c[1]));
    });
}

/* One communicator in two streams: its operations are one after another, as NCCL has it. */
static void one_in_two_streams(void **)
{
    everywhere([] {
        cudaStream_t s[2] = {new_stream(), new_stream()};
        Device<int> x(2), y(2);
        x.put({rank, 1}, s[0]);
        y.put({1, rank}, s[1]);
        OK(ncclAllReduce(x.at, x.at, 2, ncclInt32, ncclSum, world, s[0]));
        OK(ncclAllReduce(y.at, y.at, 2, ncclInt32, ncclMax, world, s[1]));
        CHECK((y.get(s[1]) == std::vector<int>{1, ranks - 1}));
        CHECK((x.get(s[0]) == std::vector<int>{ranks * (ranks - 1) / 2, ranks}));
    });
}

/* ---- messages ----------------------------------------------------------------------------- */

static void ring_shift(void **)
{
    everywhere([] {
        cudaStream_t s = new_stream();
        const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
        for (size_t n : {1, 17000, 300000}) {
            Device<int> out(n), in(n);
            out.put(std::vector<int>(n, rank), s);
            OK(ncclGroupStart());
            OK(ncclRecv(in.at, n, ncclInt32, last, world, s));
            OK(ncclSend(out.at, n, ncclInt32, next, world, s));
            OK(ncclGroupEnd());
            CHECK(in.get(s) == std::vector<int>(n, last));
        }
    });
}

/* Each sends each, itself too, two messages, and between them comes a collective that some call
 * first and some last: it is before them. */
static void all_to_all(void **)
{
    everywhere([] {
        enum { LIMIT = 30000 };
        cudaStream_t s = new_stream();
        Device<int> out(2 * ranks * LIMIT), in(2 * ranks * LIMIT), all(1);
        std::vector<int> x(out.n);
        for (size_t i = 0; i < x.size(); i++)
            x[i] = rank * 100 + (int)(i / LIMIT);
        out.put(x, s);
        all.put({rank}, s);
        OK(ncclGroupStart());
        for (int k = 0; k <= 2 * ranks; k++) {
            if (k == rank)
                OK(ncclAllReduce(all.at, all.at, 1, ncclInt32, ncclMax, world, s));
            if (k == 2 * ranks)
                break;
            OK(ncclSend(out.at + k * LIMIT, LIMIT - (size_t)k, ncclInt32, k / 2, world, s));
            OK(ncclRecv(in.at + k * LIMIT, LIMIT - (size_t)(2 * rank + k % 2), ncclInt32, k / 2,
                        world, s));
        }
        OK(ncclGroupEnd());
        const std::vector<int> got = in.get(s);
        for (int k = 0; k < 2 * ranks; k++)
            for (int i = 0; i < LIMIT - (2 * rank + k % 2); i += 97)
                CHECK(got[k * LIMIT + i] == k / 2 * 100 + 2 * rank + k % 2);
        CHECK(all.get(s)[0] == ranks - 1);
    });
}

/* A pipeline: messages of nothing too, in their order, without the other ranks; what is larger than
 * a mailbox waits for its taker. */
static void pipeline(void **)
{
    everywhere([] {
        cudaStream_t s = new_stream();
        Device<int> x(40000);
        for (int time = 0; time < 5; time++) {
            const size_t n = time == 2 ? 0 : (size_t)time * 9999 + 1;
            if (rank == 0)
                x.put(std::vector<int>(x.n, time), s);
            else
                OK(ncclRecv(x.at, n, ncclInt32, rank - 1, world, s));
            if (rank < ranks - 1)
                OK(ncclSend(x.at, n, ncclInt32, rank + 1, world, s));
            if (rank && n)
                CHECK(x.get(s)[n - 1] == time);
        }
        CHECK(sum(world, 1, s) == ranks);
    });
}

/* ---- graphs ------------------------------------------------------------------------------- */

/* A step over two streams, captured once and launched with other data each time; two launches may
 * be in their stream at once. */
static void graphs(void **)
{
    everywhere([] {
        cudaStream_t s[2] = {new_stream(), new_stream()};
        cudaEvent_t ready = new_event(), done = new_event();
        Device<int> in(1000), all(1000), last(1000);
        cudaGraph_t g;
        cudaGraphExec_t e;
        OK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeThreadLocal));
        OK(cudaEventRecord(ready, s[0]));
        OK(cudaStreamWaitEvent(s[1], ready, 0));
        OK(ncclAllReduce(in.at, all.at, all.n, ncclInt32, ncclSum, world, s[1]));
        OK(cudaEventRecord(done, s[1]));
        OK(cudaStreamWaitEvent(s[0], done, 0));
        OK(ncclGroupStart());
        OK(ncclSend(all.at, all.n, ncclInt32, (rank + 1) % ranks, world, s[0]));
        OK(ncclRecv(last.at, last.n, ncclInt32, (rank + ranks - 1) % ranks, world, s[0]));
        OK(ncclGroupEnd());
        OK(ncclAllReduce(last.at, in.at, last.n, ncclInt32, ncclMax, world, s[0]));
        OK(cudaStreamEndCapture(s[0], &g));
        OK(cudaGraphInstantiate(&e, g, 0));
        OK(cudaGraphDestroy(g));
        for (int time = 1; time < 6; time++) {
            in.put(std::vector<int>(in.n, time + rank), s[0]);
            OK(cudaGraphLaunch(e, s[0]));
            if (time % 2)
                OK(cudaGraphLaunch(e, s[0]));
            const int once = ranks * time + ranks * (ranks - 1) / 2;
            const int want = time % 2 ? once * ranks : once;
            CHECK(in.get(s[0]) == std::vector<int>(in.n, want));
            CHECK(sum(world, 1, s[1]) == ranks);
        }
        OK(cudaGraphExecDestroy(e));
    });
}

/* While a graph waits for another rank, other streams go on: that rank waits for one of them. */
static void beside_a_graph(void **)
{
    everywhere([] {
        ncclComm_t other;
        cudaStream_t s[2] = {new_stream(), new_stream()};
        OK(ncclCommSplit(world, 0, rank, &other, NULL));
        Device<int> x(1), y(1);
        cudaGraph_t g;
        cudaGraphExec_t e;
        x.put({1}, s[0]);
        OK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeThreadLocal));
        OK(ncclAllReduce(x.at, x.at, 1, ncclInt32, ncclSum, world, s[0]));
        OK(cudaStreamEndCapture(s[0], &g));
        OK(cudaGraphInstantiate(&e, g, 0));
        if (rank == 0) {
            OK(cudaGraphLaunch(e, s[0]));
            y.put({5}, s[1]);
        }
        OK(ncclAllReduce(y.at, y.at, 1, ncclInt32, ncclMax, other, s[1]));
        if (rank) {
            OK(cudaStreamSynchronize(s[1]));
            OK(cudaGraphLaunch(e, s[0]));
        }
        CHECK(x.get(s[0])[0] == ranks);
        OK(cudaStreamSynchronize(s[1]));
        OK(cudaGraphDestroy(g));
        OK(cudaGraphExecDestroy(e));
        OK(ncclCommDestroy(other));
    });
}

/* ---- hosts that ask ----------------------------------------------------------------------- */

static void queries(void **)
{
    everywhere([] {
        cudaStream_t s = new_stream();
        cudaEvent_t e = new_event();
        Device<int> x(40000);
        OK(cudaEventQuery(e)); /* never recorded */
        OK(cudaStreamQuery(s));
        x.put(std::vector<int>(x.n, 1), s);
        OK(ncclAllReduce(x.at, x.at, x.n, ncclInt32, ncclSum, world, s));
        OK(cudaEventRecord(e, s));
        OK(cudaMemsetAsync(x.at, 0, 4, s));
        cudaError_t is;
        size_t times = 0;
        for (; (is = cudaEventQuery(e)) == cudaErrorNotReady; times++)
            ;
        CHECK(is == cudaSuccess && times > 0);
        for (times = 0; (is = cudaStreamQuery(s)) == cudaErrorNotReady; times++)
            ;
        CHECK(is == cudaSuccess);
        const std::vector<int> got = x.get(s);
        CHECK(got[0] == 0 && got[1] == ranks);
        /* An event that was reached is waited for without what comes after it. */
        OK(cudaEventRecord(e, s));
        if (rank == 0)
            OK(ncclSend(x.at, x.n, ncclInt32, 1, world, s));
        OK(cudaEventSynchronize(e));
        if (rank == 1)
            OK(ncclRecv(x.at, x.n, ncclInt32, 0, world, s));
        OK(cudaStreamSynchronize(s));
    });
}

/* A communicator that does not block is asked until it is there, and after each call. */
static void not_blocking(void **)
{
    for (uint64_t s = 0; s < SEEDS; s++)
        assert_int_equal(together(
                             3, s,
                             [] {
                                 auto ready = [](ncclComm_t c) {
                                     ncclResult_t state = ncclInProgress;
                                     while (state == ncclInProgress)
                                         OK(ncclCommGetAsyncError(c, &state));
                                     OK(state);
                                 };
                                 ncclComm_t c, part;
                                 cudaStream_t stream = new_stream();
                                 Device<int> x(1);
                                 const ncclUniqueId id = common_id();
                                 ncclResult_t state = init(&c, id, 0);
                                 CHECK(state == ncclInProgress || state == ncclSuccess);
                                 ready(c);
                                 x.put({rank}, stream);
                                 CHECK(ncclAllReduce(x.at, x.at, 1, ncclInt32, ncclSum, c,
                                                     stream) == ncclInProgress);
                                 CHECK(ncclAllReduce(x.at, x.at, 1, ncclInt32, ncclSum, c,
                                                     stream) == ncclInvalidArgument);
                                 ready(c);
                                 CHECK(x.get(stream)[0] == 3);
                                 for (int time = 0; time < 4; time++) {
                                     const int color = rank == time ? NCCL_SPLIT_NOCOLOR : 1;
                                     state = ncclCommSplit(c, color, -rank, &part, NULL);
                                     CHECK(state == ncclInProgress || state == ncclSuccess);
                                     CHECK((part == NULL) == (rank == time));
                                     if (part) {
                                         ready(part);
                                         int count;
                                         OK(ncclCommCount(part, &count));
                                         CHECK(count == (time < 3 ? 2 : 3));
                                         OK(ncclCommDestroy(part));
                                     }
                                     ready(c);
                                 }
                                 OK(ncclCommDestroy(c));
                             },
                             NULL),
                         0);
}

int main()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(collectives),
                                       cmocka_unit_test(order_of_sums),
                                       cmocka_unit_test(order_by_range),
                                       cmocka_unit_test(halves_and_nan),
                                       cmocka_unit_test(splits),
                                       cmocka_unit_test(opposite_orders),
                                       cmocka_unit_test(one_in_two_streams),
                                       cmocka_unit_test(ring_shift),
                                       cmocka_unit_test(all_to_all),
                                       cmocka_unit_test(pipeline),
                                       cmocka_unit_test(graphs),
                                       cmocka_unit_test(beside_a_graph),
                                       cmocka_unit_test(queries),
                                       cmocka_unit_test(not_blocking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
