/* main.cc - record-check: checks a recording of tests/record.
 *
 *   record-check RECORDING [--capability N] [--kernels FILE] [--buffers FILE]
 *
 * RECORDING: a file, or - for the standard input. --kernels: of kernel_text.py. --buffers: of
 * mgc --memory. Prints what it found, and last a line of counts. Exit code 1: it found something; 2:
 * it cannot read what it was given. */
#include "tests/record/check/check.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/abi.h"
#include "runtime/sizes.h"

namespace check
{

uint64_t Line::u(size_t k) const
{
    return k < field.size() ? strtoull(field[k].c_str(), NULL, 10) : 0;
}

int64_t Line::i(size_t k) const
{
    return k < field.size() ? strtoll(field[k].c_str(), NULL, 10) : 0;
}

static bool read_line(FILE *f, Line *l)
{
    static char *text;
    static size_t room;
    if (getline(&text, &room, f) < 0)
        return false;
    l->number++;
    l->field.clear();
    l->word.clear();
    char *rest = text;
    for (int k = 0; char *word = strsep(&rest, " \n"); k++)
        if (!*word)
            continue;
        else if (k == 0)
            l->word = word;
        else if (k == 1)
            l->action = atoi(word);
        else
            l->field.push_back(word);
    return true;
}

static std::string bytes_of(const std::string &hex)
{
    std::string all;
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        all += (char)(digit(hex[i]) * 16 + digit(hex[i + 1]));
    return all;
}

/* All of what is known while a recording is read. */
struct Check {
    Memory memory;
    Order order;
    Limits limits = {90, {}};
    std::map<std::string, bool> kernels; /* those that the program asked for */
    std::map<uint64_t, bool> comms;
    std::map<std::string, uint64_t> planned;
    std::map<uint64_t, bool> exchanged; /* pinned blocks that other ranks fill, not this one's host */
    std::map<uint64_t, int> ranks; /* of a communicator, where known */
    bool in_step = false, done = false;
    long launches = 0, groups = 0;
    std::string program;
    long nodes_before = 0;
    Call group = {};
    int depth = 0;

    void line(const Line &l);
    void launch(const Line &l);
    void copy(const Line &l);
    void words(const Line &l);
    void nccl(const Line &l);
    void put(const Call &c);
    void end_program(const Line &l);
    void end(const Line &l);
};

void Check::put(const Call &c)
{
    overlap(c);
    memory.check(c, in_step);
    order.call(c);
}

void Check::launch(const Line &l)
{
    Launch x;
    x.kernel = l.field[1];
    for (size_t i = 0; i < 3; i++) {
        x.grid[i] = l.u(2 + i);
        x.block[i] = l.u(5 + i);
    }
    x.shared = l.u(8);
    x.parameters = bytes_of(l.field[9]);
    launches++;
    if (!kernels.count(x.kernel))
        found("lifetime", l.number, l.action, "%s was not asked for", x.kernel.c_str());
    limits.launch(x, l.number, l.action);
    Call c = {l.number, l.action, l.u(0), x.kernel, {}, false};
    if (!pieces_of(x, l.number, l.action, &c.pieces))
        found("unknown", l.number, l.action, "%s: there is no contract of it", x.kernel.c_str());
    put(c);
}

/* Of rows, too: CUDA takes pitches of less than 2 GiB, which are no shorter than the rows. */
void Check::copy(const Line &l)
{
    const bool rows = l.word == "rows";
    const int kind = (int)l.i(rows ? 7 : 4);
    const uint64_t bytes = l.u(rows ? 5 : 3), height = rows ? l.u(6) : 1;
    const uint64_t to_pitch = rows ? l.u(2) : 0, from_pitch = rows ? l.u(4) : 0;
    Call c = {l.number, l.action, l.u(0), "a copy", {}, kind != 3};
    if (!bytes || !height || bytes > (uint64_t)1 << 47)
        found("launch", l.number, l.action, "a copy of %" PRIu64 " bytes", bytes);
    for (uint64_t pitch : {to_pitch, from_pitch})
        if (rows && (pitch < bytes || pitch >> 31))
            found("launch", l.number, l.action,
                  "a copy of rows of %" PRIu64 " bytes, %" PRIu64 " apart", bytes, pitch);
    const uint64_t to = l.u(1), from = l.u(rows ? 3 : 2);
    const bool device_to = kind == 1 || kind == 3, device_from = kind == 2 || kind == 3;
    if (device_to || memory.block_of(to))
        c.pieces.push_back({"to", to, bytes, height, to_pitch, false, true, 1, false});
    if (device_from || memory.block_of(from))
        c.pieces.push_back({"from", from, bytes, height, from_pitch, true, false, 1, false});
    for (const Piece &p : c.pieces) {
        const Memory::Block *b = memory.block_of(p.at);
        const bool device = p.writes ? device_to : device_from;
        if (b && exchanged.count(b->at))
            c.host = false;
        if (!b || b->pinned == device)
            found("bounds", l.number, l.action, "a copy of kind %d: %s is no such memory", kind, p.name);
    }
    put(c);
}

/* In place NCCL allows a part of an all-gather, of a reduce-scatter, and an all-reduce. */
void Check::nccl(const Line &l)
{
    const uint64_t comm = l.u(1), from = l.u(3), to = l.u(4), count = l.u(5), width = l.u(6);
    const std::string &what = l.field[2];
    const uint64_t bytes = count * width;
    if (!comms.count(comm) || !comms[comm])
        found("lifetime", l.number, l.action, "%s: communicator %" PRIu64 " is not there",
              what.c_str(), comm);
    if (!count)
        found("launch", l.number, l.action, "%s of nothing", what.c_str());
    if (ranks.count(comm) && (l.i(7) < 0 || l.i(7) >= ranks[comm]))
        found("launch", l.number, l.action, "%s: rank %" PRId64 " of %d", what.c_str(), l.i(7),
              ranks[comm]);
    Call c = {l.number, l.action, l.u(0), what, {}, false};
    const uint64_t n = ranks.count(comm) ? (uint64_t)ranks[comm] : 1;
    if (from)
        c.pieces.push_back({"from", from, bytes * (what == "reducescatter" ? n : 1), 1, 0, true,
                            false, width, what == "allreduce" || what == "broadcast"});
    if (to)
        c.pieces.push_back({"to", to, bytes * (what == "allgather" ? n : 1), 1, 0, false, true,
                            width, what == "allreduce" || what == "broadcast"});
    if (!depth) {
        put(c);
        return;
    }
    if (!group.pieces.empty() && group.stream != c.stream)
        found("group", l.number, l.action, "a group in two streams");
    for (Piece p : c.pieces) {
        p.in_place = false;
        group.pieces.push_back(p);
    }
    group.stream = c.stream;
    group.line = l.number;
    group.action = l.action;
    group.what = "a group of " + what;
}

void Check::end_program(const Line &l)
{
    const Order::Nodes all = order.nodes();
    const long nodes = all.all - all.apart - nodes_before; /* the plan counts no others */
    nodes_before = all.all - all.apart;
    if (planned.count("nodes." + program) && nodes > (long)planned["nodes." + program])
        found("plan", l.number, -1, "%s has %ld nodes, and %" PRIu64 " were planned", program.c_str(),
              nodes, planned["nodes." + program]);
}

/* A batch of waits for words and writes of them: CUDA takes fewer than 256. */
void Check::words(const Line &l)
{
    Call c = {l.number, l.action, l.u(0), "words", {}, false};
    const int64_t n = l.i(1);
    if (n < 1 || n > 255)
        found("launch", l.number, l.action, "a batch of %" PRId64 " words", n);
    for (int k = 0; k < (int)n; k++) {
        const bool writes = l.i(2 + 2 * k);
        c.pieces.push_back({"word", l.u(3 + 2 * k), 4, 1, 0, !writes, writes, 4, false});
    }
    put(c);
}

void Check::line(const Line &l)
{
    order.line(l);
    if (l.word == "action") {
        name_action(l.action, l.field.empty() ? "" : l.field.back());
    } else if (l.word == "planned") {
        planned[l.field[0]] = l.u(1);
        memory.arena_bytes = planned["arena"];
    } else if (l.word == "shared_pin") {
        exchanged[l.u(0)] = true;
    } else if (l.word == "ranks") {
        ranks[l.u(0)] = (int)l.i(1);
    } else if (l.word == "malloc" || l.word == "pin") {
        memory.allocate(l, l.word == "pin");
    } else if (l.word == "free" || l.word == "unpin") {
        const Memory::Block *b = memory.free(l);
        if (b)
            order.freed(*b, l);
    } else if (l.word == "program") {
        end_program(l);
        program = l.field[0];
        in_step = program == "step";
    } else if (l.word == "kernel") {
        kernels[l.field[0]] = true;
    } else if (l.word == "shared") {
        limits.set_shared(l);
    } else if (l.word == "launch") {
        launch(l);
    } else if (l.word == "set") {
        put({l.number, l.action, l.u(0), "a memset",
             {{"to", l.u(1), l.u(2), 1, 0, false, true, 1, false}}, false});
    } else if (l.word == "copy" || l.word == "rows") {
        copy(l);
    } else if (l.word == "words") {
        words(l);
    } else if (l.word == "product") {
        Call c = {l.number, l.action, l.u(0), "a product", {}, false};
        product(l, &c);
        put(c);
    } else if (l.word == "comm" || l.word == "split") {
        comms[l.u(0)] = true;
        if (l.word == "comm")
            ranks[l.u(0)] = (int)l.i(1);
    } else if (l.word == "commend") {
        if (!comms[l.u(0)])
            found("lifetime", l.number, l.action, "a communicator ends twice");
        comms[l.u(0)] = false;
    } else if (l.word == "group") {
        depth++;
    } else if (l.word == "groupend") {
        if (--depth < 0)
            found("group", l.number, l.action, "the end of a group that did not begin");
        if (!depth && !group.pieces.empty())
            groups++, put(group);
        if (!depth)
            group = Call();
    } else if (l.word == "nccl") {
        nccl(l);
    } else if (l.word == "done") {
        done = true;
    }
}

void Check::end(const Line &l)
{
    end_program(l);
    order.end(l.number);
    if (!done)
        found("left", l.number, -1, "the recording does not end");
    if (depth)
        found("group", l.number, -1, "a group did not end");
    for (const auto &b : memory.blocks)
        if (b.second.live)
            found("left", l.number, -1, "%" PRIu64 " bytes are left", b.second.bytes);
    for (const auto &c : comms)
        if (c.second)
            found("left", l.number, -1, "communicator %" PRIu64 " is left", c.first);
    const uint64_t room = planned["arena"] + planned["work_space_of_products"];
    if (memory.most > room)
        found("plan", l.number, -1, "%" PRIu64 " bytes are allocated at once, and %" PRIu64
              " were planned", memory.most, room);
    /* The library may make two of a product. */
    const Order::Nodes nodes = order.nodes();
    const uint64_t graphs = (uint64_t)(nodes.all + nodes.products) * MG_NODE_BYTES;
    if (graphs > planned["CUDA_graphs"])
        found("plan", l.number, -1, "%ld nodes of graphs and %ld products take %" PRIu64
              " bytes, and %" PRIu64 " were planned", nodes.all, nodes.products, graphs,
              planned["CUDA_graphs"]);
    printf("%ld lines, %ld launches, %ld calls on the device, %ld nodes, %ld findings\n", l.number,
           launches, order.calls(), nodes.all, findings());
}

} // namespace check

static int usage()
{
    fprintf(stderr,
            "usage: record-check RECORDING [--capability N] [--kernels FILE] [--buffers FILE]\n");
    return 2;
}

int main(int argc, char **argv)
{
    check::Check c;
    if (argc < 2 || argc % 2)
        return usage();
    for (int i = 2; i < argc; i += 2)
        if (!strcmp(argv[i], "--capability"))
            c.limits.capability = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--kernels"))
            check::read_generated(argv[i + 1]);
        else if (!strcmp(argv[i], "--buffers"))
            c.memory.read_buffers(argv[i + 1]);
        else
            return usage();
    FILE *f = strcmp(argv[1], "-") ? fopen(argv[1], "r") : stdin;
    if (!f)
        return usage();
    check::Line l = {};
    while (check::read_line(f, &l))
        c.line(l);
    c.end(l);
    return check::findings() != 0;
}
