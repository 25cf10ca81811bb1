/* stream.cc - streams, events and graphs of the shim.
 *
 * Nothing runs before somebody waits for a stream, and then in an order that the seed decides: one
 * stream has precedence over another whenever it can go on, or each piece of work is of any. What
 * other streams still hold may stay there. So of two pieces of work that no event orders each comes
 * first under some seed. Captured streams become a graph: when its turn in a stream comes, its own
 * streams stand in the place of that one, beside all others.
 *
 * Work that waits for other processes has its stream stand still once it has begun; the others go
 * on, and it is asked before each of their pieces of work. */
#include "tests/cuda_shim/stream.h"

#include <deque>
#include <map>
#include <memory>
#include <sched.h>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <vector>

/* A record of an event: what a wait for it refers to. */
struct Point {
    CUevent_st *event;
    uint64_t number;
    bool operator<(const Point &p) const
    {
        return event != p.event ? event < p.event : number < p.number;
    }
};

struct Running;

struct Item {
    enum Kind { WORK, RECORD, WAIT, OPERATION, GRAPH } kind;
    std::function<void()> work;
    Point point;
    /* Of operations and graphs: makes what runs of what was captured. */
    std::function<void(Item &)> launch;
    uint64_t order; /* of launch within a graph */
    ShimPoll poll;
    ShimState state;
    std::shared_ptr<Running> running;
    bool begun;
};

typedef std::deque<Item> Queue;
typedef std::map<int, Queue> Queues; /* by the number of the stream */

/* A launch of a graph. */
struct Running {
    Queues queues;
    std::set<Point> reached;
    std::shared_ptr<ShimTurns> turns; /* of all launches of the graph: none overtakes another */
    uint64_t turn;
};

struct CUevent_st {
    uint64_t recorded;    /* the number of its last record; 0: none */
    CUgraph_st *captured; /* the last of them was in this graph, or NULL */
};

struct CUgraph_st {
    CUstream_st *origin;
    bool invalid; /* something was called that a capture forbids */
    Queues queues;
    std::map<int, std::map<int, size_t>> knows; /* work of each stream that it waited for */
    std::map<Point, std::map<int, size_t>> at;  /* the same of a point */
    std::shared_ptr<ShimTurns> turns;
};

struct CUstream_st {
    int number;
    Queue items;
    CUgraph_st *captured; /* what is not done but taken down */
};

static std::vector<CUstream_st *> streams; /* by number */
static std::set<Point> reached;            /* outside of graphs */
static uint64_t turns, rank_of_process;

void shim_set_rank(int rank)
{
    rank_of_process = (uint64_t)rank;
}

static uint64_t draw()
{
    return shim_mix(shim_mix(shim_mix(shim_seed()) + rank_of_process) + ++turns);
}

/* ---- running ------------------------------------------------------------------------------ */

/* The first items of a queue, which go on by themselves, and the points that count for it. */
struct Lane {
    int stream;
    Queue *queue;
    std::set<Point> *reached;
};

static bool all_empty(const Queues &all)
{
    for (const auto &q : all)
        if (!q.second.empty())
            return false;
    return true;
}

/* Asks what has begun; true if any of it is done. */
static bool poll(Queue &q)
{
    if (q.empty() || !q.front().begun)
        return false;
    Item &item = q.front();
    bool any = false, done;
    if (item.kind == Item::GRAPH) {
        for (auto &inner : item.running->queues)
            any |= poll(inner.second);
        done = all_empty(item.running->queues);
        if (done)
            item.running->turns->done++;
    } else {
        item.state = item.poll();
        done = item.state == SHIM_DONE;
    }
    if (done)
        q.pop_front();
    return any || done;
}

static void add_lanes(int stream, Queue &q, std::set<Point> &reached_here, std::vector<Lane> &lanes)
{
    if (q.empty())
        return;
    Item &item = q.front();
    if (item.kind == Item::GRAPH && item.begun)
        for (auto &inner : item.running->queues)
            add_lanes(inner.first, inner.second, item.running->reached, lanes);
    else
        lanes.push_back(Lane{stream, &q, &reached_here});
}

static bool blocked(const Lane &lane)
{
    const Item &item = lane.queue->front();
    switch (item.kind) {
    case Item::WAIT:
        return !lane.reached->count(item.point);
    case Item::OPERATION:
        return item.begun;
    case Item::GRAPH:
        return item.begun || item.running->turns->done != item.running->turn;
    case Item::WORK:
    case Item::RECORD:
        break;
    }
    return false;
}

/* True if it was the beginning of a graph. */
static bool one(const Lane &lane)
{
    Item &item = lane.queue->front();
    const bool graph = item.kind == Item::GRAPH;
    if (graph || item.kind == Item::OPERATION) {
        item.begun = true;
        poll(*lane.queue);
        return graph;
    }
    Item mine = std::move(item);
    lane.queue->pop_front();
    if (mine.kind == Item::RECORD)
        lane.reached->insert(mine.point);
    else if (mine.kind == Item::WORK)
        mine.work();
    return false;
}

/* The rule by which one of the streams that can goes on. */
struct Order {
    bool any;
    uint64_t key; /* else: of their ranks */
};

static Order any_order()
{
    const uint64_t key = draw();
    return Order{key % 4 == 0, key};
}

static const Lane &chosen(const Order &order, const std::vector<Lane> &ready)
{
    if (order.any)
        return ready[draw() % ready.size()];
    const Lane *first = &ready[0];
    for (const Lane &lane : ready)
        if (shim_mix(order.key + (uint64_t)lane.stream) <
            shim_mix(order.key + (uint64_t)first->stream))
            first = &lane;
    return *first;
}

enum Went { ON, ON_IN_GRAPH, WAITS, STUCK };

/* A piece of work, unless it is enough when what waits was asked. */
static Went go(const Order &order, const std::function<bool()> &enough)
{
    std::vector<Lane> lanes, ready;
    for (bool again = true; again;) {
        again = false;
        for (CUstream_st *s : streams)
            again |= s && poll(s->items);
    }
    if (enough())
        return ON;
    for (CUstream_st *s : streams)
        if (s)
            add_lanes(s->number, s->items, reached, lanes);
    Went none = STUCK;
    for (const Lane &lane : lanes) {
        const Item &item = lane.queue->front();
        if (!blocked(lane))
            ready.push_back(lane);
        else if (item.kind == Item::OPERATION && item.state == SHIM_PEERS)
            none = WAITS;
    }
    if (ready.empty())
        return none;
    return one(chosen(order, ready)) ? ON_IN_GRAPH : ON;
}

/* The longer nobody comes, the more of the processor is for others. */
static void rest(unsigned times)
{
    if (times < 200)
        sched_yield();
    else
        usleep(times < 1000 ? 20 : 200);
}

static void run_until(const std::function<bool()> &enough)
{
    Order order = any_order();
    unsigned rests = 0;
    while (!enough())
        switch (go(order, enough)) {
        case ON_IN_GRAPH: /* each has an order of its own */
            order = any_order();
            rests = 0;
            break;
        case ON:
            rests = 0;
            break;
        case WAITS:
            rest(rests++);
            break;
        case STUCK:
            fprintf(stderr, "shim: streams wait for each other\n");
            exit(99);
        }
}

/* True if it is already enough, or after one piece of work. */
static bool run_once(const std::function<bool()> &enough)
{
    static unsigned rests;
    if (!enough()) {
        rests = go(Order{true, 0}, enough) >= WAITS ? rests + 1 : 0;
        if (rests)
            rest(rests);
    }
    return enough();
}

void shim_go_on()
{
    run_once([] { return false; });
}

/* ---- streams ------------------------------------------------------------------------------ */

/* A stream takes nothing more of a graph whose capture is invalid. */
cudaError_t shim_takes(cudaStream_t s)
{
    return s->captured && s->captured->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t shim_unsafe()
{
    cudaError_t e = cudaSuccess;
    for (CUstream_st *s : streams)
        if (s && s->captured) {
            s->captured->invalid = true;
            e = cudaErrorStreamCaptureUnsupported;
        }
    return e;
}

static void put(cudaStream_t s, Item item)
{
    static uint64_t puts;
    item.order = ++puts;
    if (!s->captured) {
        if (item.launch)
            item.launch(item);
        s->items.push_back(item);
        return;
    }
    s->captured->queues[s->number].push_back(item);
    if (item.kind != Item::RECORD && item.kind != Item::WAIT)
        s->captured->knows[s->number][s->number]++;
}

static Item item_of(Item::Kind kind, Point p)
{
    return Item{kind, NULL, p, NULL, 0, NULL, SHIM_TURN, NULL, false};
}

void shim_later(cudaStream_t s, std::function<void()> work)
{
    Item item = item_of(Item::WORK, Point{NULL, 0});
    item.work = work;
    put(s, item);
}

void shim_operation(cudaStream_t s, std::function<ShimPoll()> launch)
{
    Item item = item_of(Item::OPERATION, Point{NULL, 0});
    item.launch = [launch](Item &mine) { mine.poll = launch(); };
    put(s, item);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = new CUstream_st{(int)streams.size(), Queue(), NULL};
    streams.push_back(*s);
    return cudaSuccess;
}

static void run_until_empty(cudaStream_t s)
{
    run_until([s] { return s->items.empty(); });
}

/* As in CUDA nobody may wait for a stream that is being captured. */
static cudaError_t not_captured(cudaStream_t s)
{
    if (!s->captured)
        return cudaSuccess;
    s->captured->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    if (not_captured(s) != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    run_until_empty(s);
    return cudaSuccess;
}

/* A caller that asks again and again comes to the end, as with a GPU that works meanwhile. */
cudaError_t cudaStreamQuery(cudaStream_t s)
{
    if (not_captured(s) != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    return run_once([s] { return s->items.empty(); }) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    run_until_empty(s);
    streams[(size_t)s->number] = NULL;
    delete s;
    return cudaSuccess;
}

/* ---- events ------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    *e = new CUevent_st{0, NULL};
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    static uint64_t records; /* of all events: a new event may lie where an old one lay */
    if (shim_takes(s) != cudaSuccess)
        return cudaErrorStreamCaptureInvalidated;
    e->recorded = ++records;
    Point p = {e, e->recorded};
    e->captured = s->captured;
    put(s, item_of(Item::RECORD, p));
    if (s->captured)
        s->captured->at[p] = s->captured->knows[s->number];
    return cudaSuccess;
}

static std::function<bool()> is_reached(cudaEvent_t e)
{
    const Point p = {e, e->recorded};
    return [p] { return !p.number || reached.count(p) > 0; };
}

/* While anything is captured nobody may wait for an event or ask for it. */
static cudaError_t may_ask(cudaEvent_t e)
{
    return e->captured ? cudaErrorCapturedEvent : shim_unsafe();
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    const cudaError_t refused = may_ask(e);
    if (refused != cudaSuccess)
        return refused;
    run_until(is_reached(e));
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    const cudaError_t refused = may_ask(e);
    if (refused != cudaSuccess)
        return refused;
    return run_once(is_reached(e)) ? cudaSuccess : cudaErrorNotReady;
}

/* Any time: who measures has to live with what comes. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t)
{
    *ms = (float)(draw() % 1000) + 1;
    return cudaSuccess;
}

/* A stream that waits for a point in a graph becomes part of it. */
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    Point p = {e, e->recorded};
    if (!e->recorded)
        return cudaSuccess;
    if (e->captured && !s->captured)
        s->captured = e->captured;
    if (shim_takes(s) != cudaSuccess)
        return cudaErrorStreamCaptureInvalidated;
    if (e->captured != s->captured) {
        if (s->captured)
            s->captured->invalid = true; /* a graph cannot wait for what is outside of it */
        return s->captured ? cudaErrorStreamCaptureIsolation : cudaErrorCapturedEvent;
    }
    put(s, item_of(Item::WAIT, p));
    if (s->captured)
        for (const auto &known : s->captured->at[p]) {
            size_t &mine = s->captured->knows[s->number][known.first];
            mine = mine > known.second ? mine : known.second;
        }
    return cudaSuccess;
}

/* ---- graphs ------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode)
{
    if (s->captured)
        return cudaErrorInvalidValue;
    s->captured = new CUgraph_st();
    s->captured->origin = s;
    s->captured->queues[s->number];
    return cudaSuccess;
}

/* All work of the other streams has to be waited for by the first. Without an error there is a
 * graph. */
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    *status = !s->captured           ? cudaStreamCaptureStatusNone
              : s->captured->invalid ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    CUgraph_st *made = s->captured;
    bool joined = true;
    *g = NULL;
    if (!made || made->origin != s)
        return cudaErrorInvalidValue;
    for (CUstream_st *x : streams)
        if (x && x->captured == made) {
            joined &= made->knows[s->number][x->number] == made->knows[x->number][x->number];
            x->captured = NULL;
        }
    const cudaError_t e = made->invalid ? cudaErrorStreamCaptureInvalidated
                          : joined      ? cudaSuccess
                                        : cudaErrorStreamCaptureUnjoined;
    if (e == cudaSuccess)
        *g = made;
    else
        delete made;
    return e;
}

/* The number of nodes: records and waits are edges between them. There is no list of nodes. */
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n)
{
    if (nodes)
        return cudaErrorInvalidValue;
    *n = 0;
    for (const auto &q : g->queues)
        for (const Item &item : q.second)
            *n += item.kind != Item::RECORD && item.kind != Item::WAIT;
    return cudaSuccess;
}

/* Says in the file $SHIM_NODES, a line for each graph, the rank and how many nodes it has. */
static void count_nodes(cudaGraph_t g)
{
    const char *path = getenv("SHIM_NODES");
    FILE *f = path ? fopen(path, "a") : NULL;
    size_t n;
    if (!f)
        return;
    cudaGraphGetNodes(g, NULL, &n);
    fprintf(f, "%d %zu\n", (int)rank_of_process, n);
    fclose(f);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long)
{
    count_nodes(g);
    size_t n;
    cudaGraphGetNodes(g, NULL, &n);
    shim_graph_takes((int64_t)n);
    *e = new CUgraph_st(*g);
    (*e)->turns = std::make_shared<ShimTurns>();
    return cudaSuccess;
}

static std::shared_ptr<Running> launched(const Queues &queues, std::shared_ptr<ShimTurns> turns)
{
    std::shared_ptr<Running> r(new Running{queues, std::set<Point>(), turns, turns->launched++});
    std::map<uint64_t, Item *> inner;
    for (auto &q : r->queues)
        for (Item &item : q.second)
            if (item.launch)
                inner[item.order] = &item;
    for (auto &item : inner)
        item.second->launch(*item.second);
    return r;
}

/* A graph begins when what is before it in its stream is done, and its stream goes on when all of
 * it is. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s)
{
    if (shim_takes(s) != cudaSuccess)
        return cudaErrorStreamCaptureInvalidated;
    std::shared_ptr<const Queues> queues(new Queues(e->queues)); /* the graph may be gone by then */
    std::shared_ptr<ShimTurns> turns = e->turns;
    Item item = item_of(Item::GRAPH, Point{NULL, 0});
    item.launch = [queues, turns](Item &mine) { mine.running = launched(*queues, turns); };
    put(s, item);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    delete g;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e)
{
    size_t n;
    cudaGraphGetNodes(e, NULL, &n);
    shim_graph_takes(-(int64_t)n);
    return cudaGraphDestroy(e);
}
