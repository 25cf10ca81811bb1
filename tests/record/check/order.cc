/* order.cc - what may run at the same time: two calls that no stream, event, graph or wait of the
 * host orders do not touch the same bytes, unless both read.
 *
 * Each stream is a lane with a clock: of each lane, the calls that are done before its next call
 * begins (Lamport's vector clocks). A record keeps the clock of its stream, a wait joins it. The
 * streams of a graph are lanes of their own, which begin with the clock of the stream that launches
 * it; that stream goes on when all of them are done. For each range of bytes the last calls that
 * wrote and read it are known. */
#include "tests/record/check/check.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <memory>
#include <unordered_map>
#include <unordered_set>

namespace check
{

enum { STREAMS = 16, LANES = 2 * STREAMS };
typedef std::array<uint64_t, LANES> Clock;

static void join(Clock &a, const Clock &b)
{
    for (int i = 0; i < LANES; i++)
        a[i] = a[i] > b[i] ? a[i] : b[i];
}

/* ---- the history of bytes ---------------------------------------------------------------- */

struct Access {
    Piece piece;
    int lane, action;
    uint64_t turn;
    long line;
    const char *what;
};
struct Range {
    uint64_t end;
    std::vector<Access> writers, readers;
};
typedef std::map<uint64_t, Range> Ranges; /* by their first bytes; they do not overlap */

static bool alike(const Piece &a, const Piece &b)
{
    return a.at == b.at && a.row == b.row && a.rows == b.rows && a.pitch == b.pitch;
}

static void cut(Ranges &all, uint64_t at)
{
    auto r = all.upper_bound(at);
    if (r == all.begin())
        return;
    --r;
    if (r->first == at || r->second.end <= at)
        return;
    Range behind = r->second;
    r->second.end = at;
    all[at] = behind;
}

/* Ranges of exactly the bytes from..to. */
static void cover(Ranges &all, uint64_t from, uint64_t to)
{
    cut(all, from);
    cut(all, to);
    for (auto r = all.lower_bound(from); from < to; ++r) {
        const uint64_t next = r == all.end() || r->first > to ? to : r->first;
        if (from < next)
            r = all.emplace_hint(r, from, Range{next, {}, {}});
        from = r->second.end;
    }
}

/* ---- streams, events, graphs ------------------------------------------------------------- */

struct Item {
    enum { CALL, RECORD, WAIT } kind;
    int stream;
    Call call;
    uint64_t point; /* of a record, and of a wait for it */
};
struct Graph {
    int origin;
    std::vector<Item> items;
    std::unordered_map<int, bool> streams;
};
struct Event {
    bool live, recorded;
    const Graph *captured; /* its last record was in this graph */
    uint64_t point;        /* of that record */
    Clock clock;           /* of a record outside of graphs */
};

struct Order::State {
    std::map<uint64_t, int> number; /* of streams; -1: destroyed */
    int streams = 0;
    Clock clock[STREAMS] = {}, host = {};
    std::map<uint64_t, Event> events;
    std::shared_ptr<Graph> capture;
    std::map<uint64_t, std::shared_ptr<Graph>> graphs, execs;
    uint64_t points = 0;
    long nodes = 0, apart = 0, products = 0, calls = 0;
    Ranges ranges;
    std::unordered_set<std::string> names;

    int stream_of(uint64_t id, long line, int action);
    void run(const Call &c, int lane, Clock &mine);
    void touch(const Access &a, const Clock &mine);
    void launch(const Graph &g, int stream, long line);
    void replay(const Graph &g, Clock *lane, bool runs);
    void record(const Line &l);
    void wait(const Line &l);
    void end_capture(const Line &l);
    bool unsafe(const Line &l);
};

Order::Order() : s(new State)
{
}

Order::~Order()
{
    delete s;
}

int Order::State::stream_of(uint64_t id, long line, int action)
{
    auto n = number.find(id);
    if (n != number.end() && n->second >= 0)
        return n->second;
    found("lifetime", line, action, n == number.end() ? "there is no stream %" PRIu64
                                                      : "stream %" PRIu64 " is destroyed", id);
    return 0;
}

static void report(const Access &a, const Access &b)
{
    found("race", a.line, a.action,
          "%s %s %s, which %s of line %ld (action %d) %s as %s, and nothing orders the two", a.what,
          a.piece.writes ? "writes" : "reads", a.piece.name, b.what, b.line, b.action,
          b.piece.writes ? "writes" : "reads", b.piece.name);
}

void Order::State::touch(const Access &a, const Clock &mine)
{
    const Piece &p = a.piece;
    const auto against = [&](const std::vector<Access> &others) {
        for (const Access &b : others)
            if (b.turn > mine[(size_t)b.lane] && !(b.lane == a.lane && b.turn == a.turn) &&
                meet(b.piece, p))
                report(a, b);
    };
    const auto drop = [&](std::vector<Access> &from, bool own) {
        from.erase(std::remove_if(from.begin(), from.end(),
                                  [&](const Access &b) {
                                      return (p.rows == 1 || alike(b.piece, p)) &&
                                             (!own || b.lane == a.lane);
                                  }),
                   from.end());
    };
    cover(ranges, p.at, p.end());
    for (auto r = ranges.find(p.at); r != ranges.end() && r->first < p.end(); ++r) {
        against(r->second.writers);
        if (!p.writes) {
            drop(r->second.readers, true);
            r->second.readers.push_back(a);
            continue;
        }
        against(r->second.readers);
        drop(r->second.readers, false);
        drop(r->second.writers, false);
        r->second.writers.push_back(a);
    }
}

void Order::State::run(const Call &c, int lane, Clock &mine)
{
    const char *what = names.insert(c.what).first->c_str();
    const uint64_t turn = ++mine[(size_t)lane];
    calls++;
    for (const Piece &p : c.pieces)
        touch(Access{p, lane, c.action, turn, c.line, what}, mine);
}

/* ---- graphs ------------------------------------------------------------------------------ */

/* Goes through a graph; `lane`: the clocks of its streams. */
void Order::State::replay(const Graph &g, Clock *lane, bool runs)
{
    std::unordered_map<uint64_t, Clock> at;
    for (const Item &i : g.items)
        if (i.kind == Item::RECORD)
            at[i.point] = lane[i.stream];
        else if (i.kind == Item::WAIT)
            join(lane[i.stream], at[i.point]);
        else if (runs)
            run(i.call, STREAMS + i.stream, lane[i.stream]);
        else
            lane[i.stream][(size_t)(STREAMS + i.stream)]++;
}

void Order::State::launch(const Graph &g, int stream, long)
{
    Clock lane[STREAMS];
    join(clock[stream], host);
    /* Earlier launches of graphs are done: all of them are in this stream. */
    for (Clock &l : lane)
        l = clock[stream];
    replay(g, lane, true);
    for (const Clock &l : lane)
        join(clock[stream], l);
    clock[stream][(size_t)stream]++;
}

/* Kernels that compute an epilogue where the library has none with it. */
static bool is_epilogue(const std::string &kernel)
{
    for (const char *name : {"mg_fill_rows_", "mg_sum_rows_", "mg_sum_parts", "mg_gelu_"})
        if (!kernel.compare(0, std::string(name).size(), name))
            return true;
    return false;
}

void Order::State::end_capture(const Line &l)
{
    const int stream = stream_of(l.u(0), l.number, l.action);
    if (!capture || capture->origin != stream) {
        found("capture", l.number, l.action, "the end of a capture that did not begin in this stream");
        return;
    }
    Clock lane[STREAMS] = {};
    replay(*capture, lane, false);
    for (const auto &x : capture->streams)
        if (lane[stream][(size_t)(STREAMS + x.first)] < lane[x.first][(size_t)(STREAMS + x.first)])
            found("capture", l.number, l.action, "a stream of the graph was not joined");
    for (const Item &i : capture->items) {
        nodes += i.kind == Item::CALL;
        products += i.kind == Item::CALL && i.call.what == "a product";
        apart += i.kind == Item::CALL && is_epilogue(i.call.what);
    }
    graphs[l.u(1)] = capture;
    capture = nullptr;
}

/* ---- events ------------------------------------------------------------------------------ */

void Order::State::record(const Line &l)
{
    auto e = events.find(l.u(0));
    const int stream = stream_of(l.u(1), l.number, l.action);
    if (e == events.end() || !e->second.live) {
        found("lifetime", l.number, l.action, "a record of an event that is not there");
        return;
    }
    Event &x = e->second;
    x.recorded = true;
    x.point = ++points;
    x.captured = capture && capture->streams.count(stream) ? capture.get() : nullptr;
    if (x.captured)
        capture->items.push_back(Item{Item::RECORD, stream, Call(), x.point});
    else
        x.clock = clock[stream];
}

void Order::State::wait(const Line &l)
{
    auto e = events.find(l.u(1));
    const int stream = stream_of(l.u(0), l.number, l.action);
    if (e == events.end() || !e->second.live) {
        found("lifetime", l.number, l.action, "a wait for an event that is not there");
        return;
    }
    const Event &x = e->second;
    if (!x.recorded) {
        found("event", l.number, l.action, "a wait for an event that was never recorded");
        return;
    }
    const bool captured = capture && capture->streams.count(stream);
    if (x.captured && x.captured != capture.get())
        found("event", l.number, l.action, "a wait for an event of a graph that is captured already");
    else if (!x.captured && captured)
        found("capture", l.number, l.action, "a graph waits for an event that is outside of it");
    else if (x.captured) {
        capture->streams[stream] = true;
        capture->items.push_back(Item{Item::WAIT, stream, Call(), x.point});
    } else
        join(clock[stream], x.clock);
}

/* ---- lines ------------------------------------------------------------------------------- */

/* Calls that CUDA forbids while anything is captured. */
bool Order::State::unsafe(const Line &l)
{
    static const char *const words[] = {"malloc", "free", "pin",     "unpin",  "sync",
                                        "eventsync", "library", "libraryend", "kernel", "shared"};
    for (const char *w : words)
        if (l.word == w)
            return true;
    return false;
}

static void destroy(std::map<uint64_t, std::shared_ptr<Graph>> &of, const Line &l)
{
    if (!of.erase(l.u(0)))
        found("lifetime", l.number, l.action, "%s of what is not there", l.word.c_str());
}

void Order::line(const Line &l)
{
    if (s->capture && s->unsafe(l))
        found("capture", l.number, l.action, "%s while a stream is captured", l.word.c_str());
    if (l.word == "stream") {
        if (s->streams == STREAMS)
            found("limits", l.number, l.action, "more than %d streams", (int)STREAMS);
        s->number[l.u(0)] = s->streams < STREAMS ? s->streams++ : STREAMS - 1;
    } else if (l.word == "streamend") {
        s->stream_of(l.u(0), l.number, l.action);
        s->number[l.u(0)] = -1;
    } else if (l.word == "event") {
        s->events[l.u(0)] = Event{true, false, nullptr, 0, {}};
    } else if (l.word == "eventend") {
        Event &e = s->events[l.u(0)];
        if (!e.live)
            found("lifetime", l.number, l.action, "an event is destroyed twice");
        e.live = false;
    } else if (l.word == "record") {
        s->record(l);
    } else if (l.word == "wait") {
        s->wait(l);
    } else if (l.word == "sync") {
        join(s->host, s->clock[s->stream_of(l.u(0), l.number, l.action)]);
    } else if (l.word == "eventsync") {
        const Event &e = s->events[l.u(0)];
        if (!e.live || !e.recorded || e.captured)
            found("event", l.number, l.action, "the host waits for an event that was not recorded");
        join(s->host, e.clock);
    } else if (l.word == "begin") {
        const int stream = s->stream_of(l.u(0), l.number, l.action);
        if (s->capture)
            found("capture", l.number, l.action, "a capture within a capture");
        s->capture.reset(new Graph{stream, {}, {{stream, true}}});
    } else if (l.word == "end") {
        s->end_capture(l);
    } else if (l.word == "instantiate") {
        if (!s->graphs.count(l.u(1)))
            found("lifetime", l.number, l.action, "a graph that is not there is instantiated");
        s->execs[l.u(0)] = s->graphs[l.u(1)];
    } else if (l.word == "graph") {
        const int stream = s->stream_of(l.u(1), l.number, l.action);
        auto e = s->execs.find(l.u(0));
        if (e == s->execs.end() || !e->second)
            found("lifetime", l.number, l.action, "a graph that is not there is launched");
        else if (s->capture)
            found("capture", l.number, l.action, "a graph is launched while a stream is captured");
        else
            s->launch(*e->second, stream, l.number);
    } else if (l.word == "graphend") {
        destroy(s->graphs, l);
    } else if (l.word == "execend") {
        destroy(s->execs, l);
    }
}

/* A copy from pinned memory: the host has written there just now, so an earlier one has to be done. */
static void refilled(const Ranges &ranges, const Clock &host, const Call &c)
{
    for (const Piece &p : c.pieces) {
        if (!c.host || !p.reads)
            continue;
        auto r = ranges.upper_bound(p.at);
        if (r != ranges.begin())
            --r;
        for (; r != ranges.end() && r->first < p.end(); ++r)
            for (const Access &a : r->second.readers)
                if (r->second.end > p.at && a.turn > host[(size_t)a.lane])
                    found("host", c.line, c.action,
                          "pinned memory is filled again before the copy of line %ld is done", a.line);
    }
}

void Order::call(const Call &c)
{
    const int stream = s->stream_of(c.stream, c.line, c.action);
    if (s->capture && s->capture->streams.count(stream)) {
        s->capture->items.push_back(Item{Item::CALL, stream, c, 0});
        return;
    }
    refilled(s->ranges, s->host, c);
    join(s->clock[stream], s->host);
    s->run(c, stream, s->clock[stream]);
}

bool Order::capturing() const
{
    return s->capture != nullptr;
}

void Order::freed(const Memory::Block &b, const Line &l)
{
    for (auto r = s->ranges.lower_bound(b.at); r != s->ranges.end() && r->first < b.at + b.bytes; ++r)
        for (const auto *all : {&r->second.writers, &r->second.readers})
            for (const Access &a : *all)
                if (a.turn > s->host[(size_t)a.lane]) {
                    found("lifetime", l.number, l.action,
                          "memory is freed while %s of line %ld may use it", a.what, a.line);
                    return;
                }
}

Order::Nodes Order::nodes() const
{
    return Nodes{s->nodes, s->products, s->apart};
}

long Order::calls() const
{
    return s->calls;
}

void Order::end(long line) const
{
    if (s->capture)
        found("left", line, -1, "a capture did not end");
    for (const auto &x : s->number)
        if (x.second >= 0)
            found("left", line, -1, "stream %" PRIu64 " is left", x.first);
    for (const auto &x : s->events)
        if (x.second.live)
            found("left", line, -1, "event %" PRIu64 " is left", x.first);
    if (!s->graphs.empty() || !s->execs.empty())
        found("left", line, -1, "%zu graphs are left", s->graphs.size() + s->execs.size());
}

} // namespace check
