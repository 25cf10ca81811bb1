/* operation.cc - calls of a group as messages between ranks.
 *
 * Every rank sends what another needs of it as it is, and sums what it gets. A message is a header
 * that says what its sender does, then bytes; who gets another one than it expects ends the
 * program. All messages of an operation go on at once, those between two ranks in rounds: NCCL gives
 * the n-th send to a rank and the n-th receive from it to one piece of work, and those of one kernel
 * go one after the other (scheduleP2pTasksToPlan). So the second send waits for the first receive. */
#include "tests/cuda_shim/operation.h"

#include <algorithm>
#include <deque>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LATE_MAX = 24, TEXT = 160 };

struct Header {
    uint32_t kind, type, op;
    uint32_t zero;
    uint64_t bytes;
    uint64_t number; /* of a collective in its communicator; of others between the two ranks */
};

struct Message {
    Header header, got; /* `got`: of one that is taken */
    char *bytes;
    size_t done;  /* of header and bytes */
    size_t round; /* of the messages of an operation to one rank, and of those from it: its number */
};

/* The other ranks' terms of a sum. */
struct Terms {
    const ShimCall *call;
    std::vector<std::vector<char>> of; /* by rank */
};

struct Operation {
    Operation(std::shared_ptr<ShimComm> comm, std::vector<ShimCall> its)
        : c(comm), turn(comm->turns.launched++), calls(its)
    {
    }
    ShimState poll();
    void begin();
    void add(const ShimCall &call);
    void send(int to, const ShimCall &call, const char *from, size_t bytes, uint64_t number);
    void take(int from, const ShimCall &call, char *to, size_t bytes, uint64_t number);
    void put_on(int to);
    void take_on(int from);
    void check(int from, const Message &m) const;
    void add_up(const Terms &terms) const;
    bool through() const;

    std::shared_ptr<ShimComm> c;
    const uint64_t turn;
    const std::vector<ShimCall> calls;
    bool begun = false, until_taken = false;
    unsigned late = 0;                        /* how often it is not there yet */
    std::vector<std::deque<Message>> out, in; /* by peer */
    std::vector<size_t> rounds_out, rounds_in;
    std::deque<Terms> sums;
};

/* ---- words -------------------------------------------------------------------------------- */

static const char *type_name(uint32_t t)
{
    static const char *const names[ncclNumTypes] = {
        "ncclInt8",    "ncclUint8",    "ncclInt32",      "ncclUint32",
        "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
        "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
    return t < ncclNumTypes ? names[t] : "no type";
}

static bool is_collective(uint32_t kind)
{
    return kind < SHIM_SEND;
}

static bool is_sum(uint32_t kind)
{
    return kind <= SHIM_REDUCE_SCATTER;
}

/* "ncclAllReduce (ncclSum), number 3, of 40 bytes of ncclFloat32" */
static void describe(char text[TEXT], uint32_t kind, const Header &h)
{
    static const char *const names[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather",
                                        "ncclBroadcast", "ncclSend",          "ncclRecv"};
    const char *op = !is_sum(kind) ? "" : h.op == ncclSum ? " (ncclSum)" : " (ncclMax)";
    snprintf(text, TEXT, "%s%s, number %llu%s, of %llu bytes of %s",
             kind <= SHIM_RECV ? names[kind] : "no call", op, (unsigned long long)h.number,
             is_collective(kind) ? "" : " between the two", (unsigned long long)h.bytes,
             type_name(h.type));
}

/* ---- messages ----------------------------------------------------------------------------- */

static Header header_of(const ShimCall &call, size_t bytes, uint64_t number)
{
    /* To the one who takes it it is what was sent. */
    const ShimCallKind kind = call.kind == SHIM_RECV ? SHIM_SEND : call.kind;
    return Header{kind, call.type, is_collective(kind) ? (uint32_t)call.op : 0, 0, bytes, number};
}

void Operation::send(int to, const ShimCall &call, const char *from, size_t bytes, uint64_t number)
{
    out[to].push_back(Message{header_of(call, bytes, number), Header{}, (char *)(uintptr_t)from, 0,
                              rounds_out[to]++});
}

void Operation::take(int from, const ShimCall &call, char *to, size_t bytes, uint64_t number)
{
    in[from].push_back(
        Message{header_of(call, bytes, number), Header{}, to, 0, rounds_in[from]++});
}

void Operation::check(int from, const Message &m) const
{
    if (!memcmp(&m.got, &m.header, sizeof m.got))
        return;
    char mine[TEXT], theirs[TEXT];
    describe(mine, m.header.kind == SHIM_SEND ? (uint32_t)SHIM_RECV : m.header.kind, m.header);
    describe(theirs, m.got.kind, m.got);
    fprintf(stderr, "shim: %s: rank %d is at %s, rank %d at %s\n", c->name.c_str(), c->rank, mine,
            from, theirs);
    exit(99);
}

/* Puts or takes as much of a message as goes; true if that is all of it. */
template <class Go> static bool go_on(Message &m, Header &header, Go go)
{
    if (m.done < sizeof header)
        m.done += go((char *)&header + m.done, sizeof header - m.done);
    if (m.done < sizeof header)
        return false;
    const size_t done = m.done - sizeof header;
    m.done += go(m.bytes + done, m.header.bytes - done);
    return m.done == sizeof header + m.header.bytes;
}

/* Is something of an earlier round under way? */
static bool earlier(const std::deque<Message> &others, const Message &m)
{
    return !others.empty() && others.front().round < m.round;
}

void Operation::put_on(int to)
{
    ShimRing *ring = c->shared.ring(c->rank, to);
    auto put = [ring](char *from, size_t bytes) { return shim_ring_put(ring, from, bytes); };
    while (!out[to].empty() && !earlier(in[to], out[to].front()) &&
           go_on(out[to].front(), out[to].front().header, put))
        out[to].pop_front();
}

void Operation::take_on(int from)
{
    ShimRing *ring = c->shared.ring(from, c->rank);
    while (!in[from].empty()) {
        Message &m = in[from].front();
        if (earlier(out[from], m))
            return;
        auto take = [&](char *to, size_t bytes) {
            if (m.done >= sizeof m.got)
                check(from, m);
            return shim_ring_take(ring, to, bytes);
        };
        if (!go_on(m, m.got, take))
            return;
        in[from].pop_front();
    }
}

/* ---- calls -------------------------------------------------------------------------------- */

struct Bytes {
    const char *at;
    size_t n;
    bool meets(const Bytes &b) const
    {
        return n && b.n && at < b.at + b.n && b.at < at + n;
    }
};

static Bytes input_of(const ShimComm &c, const ShimCall &call)
{
    const size_t n = call.count * shim_type_bytes(call.type);
    const bool unread =
        call.kind == SHIM_RECV || (call.kind == SHIM_BROADCAST && call.peer != c.rank);
    return Bytes{call.in, unread ? 0 : call.kind == SHIM_REDUCE_SCATTER ? n * (size_t)c.ranks : n};
}

static Bytes output_of(const ShimComm &c, const ShimCall &call)
{
    const size_t n = call.count * shim_type_bytes(call.type);
    return Bytes{call.out, call.kind == SHIM_SEND         ? 0
                           : call.kind == SHIM_ALL_GATHER ? n * (size_t)c.ranks
                                                          : n};
}

/* Its output lies where NCCL lets it lie in its input, or the other way round. */
static bool in_place(const ShimComm &c, const ShimCall &call)
{
    const size_t block = call.count * shim_type_bytes(call.type) * (size_t)c.rank;
    return call.kind == SHIM_ALL_GATHER       ? call.in == call.out + block
           : call.kind == SHIM_REDUCE_SCATTER ? call.out == call.in + block
           : call.kind == SHIM_BROADCAST      ? call.in == call.out && call.peer == c.rank
                                              : call.kind == SHIM_ALL_REDUCE && call.in == call.out;
}

void shim_check_buffers(const ShimComm &c, const std::vector<ShimCall> &calls)
{
    for (size_t i = 0; i < calls.size(); i++)
        for (size_t j = 0; j < calls.size(); j++) {
            const Bytes to = output_of(c, calls[i]), in = input_of(c, calls[j]);
            const Bytes out = output_of(c, calls[j]);
            const bool read = to.meets(in) && (i != j || !in_place(c, calls[i]));
            if (!read && (i == j || !to.meets(out)))
                continue;
            char a[TEXT], b[TEXT];
            describe(a, calls[i].kind, header_of(calls[i], to.n, i));
            describe(b, calls[j].kind, header_of(calls[j], read ? in.n : out.n, j));
            fprintf(stderr, "shim: %s: rank %d: %s, writes what %s, %s\n", c.name.c_str(), c.rank,
                    a, b, read ? "reads" : "writes too");
            exit(99);
        }
}

/* Fills the output, so that a read too early sees bytes that nobody put there. */
static void poison(const ShimComm &c, const ShimCall &call)
{
    const Bytes out = output_of(c, call);
    const size_t block = out.n / (size_t)c.ranks;
    if (!in_place(c, call))
        memset(call.out, 0xff, out.n);
    else if (call.kind == SHIM_ALL_GATHER)
        for (int i = 0; i < c.ranks; i++)
            if (i != c.rank)
                memset(call.out + block * (size_t)i, 0xff, block);
}

void Operation::add(const ShimCall &call)
{
    const size_t n = call.count * shim_type_bytes(call.type);
    if (call.kind == SHIM_SEND)
        return send(call.peer, call, call.in, n, c->sent[call.peer]++);
    if (call.kind == SHIM_RECV)
        return take(call.peer, call, call.out, n, c->taken[call.peer]++);
    const uint64_t number = c->collectives++;
    if (is_sum(call.kind))
        sums.push_back(Terms{&call, std::vector<std::vector<char>>((size_t)c->ranks)});
    for (int i = 0; i < c->ranks; i++) {
        if (i == c->rank)
            continue;
        const size_t block = n * (size_t)i;
        char *to = call.out + block;
        if (is_sum(call.kind)) {
            sums.back().of[i].resize(n);
            to = sums.back().of[i].data();
        }
        if (call.kind == SHIM_BROADCAST)
            to = call.out;
        if (call.kind != SHIM_BROADCAST || call.peer == c->rank)
            send(i, call, call.kind == SHIM_REDUCE_SCATTER ? call.in + block : call.in, n, number);
        if (call.kind != SHIM_BROADCAST || call.peer == i)
            take(i, call, to, n, number);
    }
}

void Operation::begin()
{
    const uint64_t drawn = shim_mix(shim_mix(shim_mix(shim_seed()) + (uint64_t)c->rank) + turn);
    late = drawn % 2 ? 0 : (unsigned)(drawn >> 8) % LATE_MAX;
    until_taken = drawn >> 32 & 1;
    out.resize((size_t)c->ranks);
    in.resize((size_t)c->ranks);
    rounds_out.resize((size_t)c->ranks);
    rounds_in.resize((size_t)c->ranks);
    for (const ShimCall &call : calls)
        if (call.kind != SHIM_SEND && call.count)
            poison(*c, call);
    for (const ShimCall &call : calls)
        add(call);
    begun = true;
}

void Operation::add_up(const Terms &terms) const
{
    const ShimCall &call = *terms.call;
    const bool scatter = call.kind == SHIM_REDUCE_SCATTER;
    const size_t first = scatter ? call.count * (size_t)c->rank : 0;
    const uint64_t key = shim_mix(shim_mix(c->shared.seed() + (uint64_t)call.kind) + call.count);
    std::vector<const char *> part;
    for (const std::vector<char> &of : terms.of)
        part.push_back(of.data());
    part[c->rank] = call.in + first * shim_type_bytes(call.type);
    shim_reduce(call.out, part, first, call.count, call.type, call.op, key);
}

bool Operation::through() const
{
    for (int i = 0; i < c->ranks; i++) {
        if (!out[i].empty() || !in[i].empty())
            return false;
        const ShimRing *ring = c->shared.ring(c->rank, i);
        if (until_taken && ring->put.load() != ring->taken.load())
            return false;
    }
    return true;
}

ShimState Operation::poll()
{
    if (c->aborted)
        return SHIM_DONE;
    if (c->turns.done != turn)
        return SHIM_TURN;
    if (!begun)
        begin();
    if (late) {
        late--;
        return SHIM_PEERS;
    }
    for (int i = 0; i < c->ranks; i++) {
        put_on(i);
        take_on(i);
    }
    if (!through())
        return SHIM_PEERS;
    for (const Terms &terms : sums)
        add_up(terms);
    for (const ShimCall &call : calls) {
        const size_t n = call.count * shim_type_bytes(call.type);
        if (call.kind == SHIM_ALL_GATHER && !in_place(*c, call))
            memcpy(call.out + n * (size_t)c->rank, call.in, n);
        if (call.kind == SHIM_BROADCAST && call.peer == c->rank && !in_place(*c, call))
            memcpy(call.out, call.in, n);
    }
    c->turns.done++;
    return SHIM_DONE;
}

void shim_launch_calls(std::shared_ptr<ShimComm> c, std::vector<ShimCall> calls, cudaStream_t s)
{
    std::stable_sort(calls.begin(), calls.end(), [](const ShimCall &a, const ShimCall &b) {
        return is_collective(a.kind) && !is_collective(b.kind);
    });
    const std::shared_ptr<char> launch = c->launch;
    shim_operation(s, [c, calls, launch]() -> ShimPoll {
        auto operation = std::make_shared<Operation>(c, calls);
        return [operation] { return operation->poll(); };
    });
}

void shim_check_nothing_left(const ShimComm &c)
{
    for (int i = 0; i < c.ranks; i++) {
        Header h;
        char text[TEXT];
        ShimRing *ring = c.shared.ring(i, c.rank);
        if (ring->put.load() - ring->taken.load() < sizeof h)
            continue;
        shim_ring_take(ring, (char *)&h, sizeof h);
        describe(text, h.kind, h);
        fprintf(stderr, "shim: %s: rank %d never took what rank %d sent it: %s\n", c.name.c_str(),
                c.rank, i, text);
        exit(99);
    }
}
