/* stream.cc - streams, events and graphs of the shim.
 *
 * Nothing runs before somebody waits for a stream, and then in an order that the seed decides: the
 * streams as numbered, or from the last, each as far as it comes, or one piece of work of any. What
 * other streams still hold may stay there. So a program in which an event is not waited for runs in
 * another order under some seed. Captured streams become a graph whose own streams are run so. */
#include "tests/cuda_shim/stream.h"

#include <deque>
#include <map>
#include <set>
#include <stdio.h>
#include <stdlib.h>
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

struct Item {
    enum { WORK, RECORD, WAIT } kind;
    std::function<void()> work;
    Point point;
};

typedef std::deque<Item> Queue;

struct CUevent_st {
    uint64_t recorded;    /* the number of its last record; 0: none */
    CUgraph_st *captured; /* the last of them was in this graph, or NULL */
};

struct CUgraph_st {
    CUstream_st *origin;
    std::map<CUstream_st *, Queue> streams;
    std::map<CUstream_st *, std::map<CUstream_st *, size_t>> knows; /* work of each that it waited for */
    std::map<Point, std::map<CUstream_st *, size_t>> at;            /* the same of a point */
};

struct CUstream_st {
    int number;
    Queue items;
    CUgraph_st *captured; /* what is not done but taken down */
};

static std::vector<CUstream_st *> streams; /* by number */
static std::set<Point> reached;            /* outside of graphs */
static uint64_t turns;

static uint64_t draw()
{
    uint64_t x = (shim_seed() + 1) * 0x9e3779b97f4a7c15u + ++turns * 0xbf58476d1ce4e5b9u;
    x ^= x >> 31;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 29;
}

static bool blocked(const Queue &q, const std::set<Point> &reached_here)
{
    return q.front().kind == Item::WAIT && !reached_here.count(q.front().point);
}

static void one(Queue &q, std::set<Point> &reached_here)
{
    Item item = q.front();
    q.pop_front();
    if (item.kind == Item::RECORD)
        reached_here.insert(item.point);
    else if (item.kind == Item::WORK)
        item.work();
}

/* Until `want` is empty, or with NULL all are. */
static void run(std::vector<Queue *> &all, const Queue *want, std::set<Point> &reached_here)
{
    uint64_t order = draw() % 3;
    for (;;) {
        std::vector<Queue *> ready;
        bool left = false;
        for (Queue *q : all) {
            left |= !q->empty();
            if (!q->empty() && !blocked(*q, reached_here))
                ready.push_back(q);
        }
        if (want ? want->empty() : !left)
            return;
        if (ready.empty()) {
            fprintf(stderr, "shim: streams wait for each other\n");
            exit(99);
        }
        Queue *q = order == 0   ? ready.front()
                   : order == 1 ? ready.back()
                                : ready[draw() % ready.size()];
        do
            one(*q, reached_here);
        while (order < 2 && !q->empty() && !blocked(*q, reached_here) && (!want || !want->empty()));
    }
}

/* ---- streams ------------------------------------------------------------------------------ */

static void put(cudaStream_t s, const Item &item)
{
    if (!s->captured) {
        s->items.push_back(item);
        return;
    }
    s->captured->streams[s].push_back(item);
    if (item.kind == Item::WORK)
        s->captured->knows[s][s]++;
}

void shim_later(cudaStream_t s, std::function<void()> work)
{
    put(s, Item{Item::WORK, work, Point{NULL, 0}});
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned)
{
    *s = new CUstream_st{(int)streams.size(), Queue(), NULL};
    streams.push_back(*s);
    return cudaSuccess;
}

static void run_until_empty(cudaStream_t s)
{
    std::vector<Queue *> all;
    for (CUstream_st *x : streams)
        if (x)
            all.push_back(&x->items);
    run(all, &s->items, reached);
}

/* As in CUDA nobody may wait for a stream that is being captured. */
cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    if (s->captured)
        return cudaErrorInvalidValue;
    run_until_empty(s);
    return cudaSuccess;
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
    e->recorded = ++records;
    Point p = {e, e->recorded};
    e->captured = s->captured;
    put(s, Item{Item::RECORD, NULL, p});
    if (s->captured)
        s->captured->at[p] = s->captured->knows[s];
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    if (e->captured)
        return cudaErrorInvalidValue;
    for (CUstream_st *s : streams)
        if (s && !reached.count(Point{e, e->recorded}))
            run_until_empty(s);
    return cudaSuccess;
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
    if (e->captured != s->captured)
        return cudaErrorInvalidValue; /* a graph cannot wait for what is outside of it */
    put(s, Item{Item::WAIT, NULL, p});
    if (s->captured)
        for (const auto &known : s->captured->at[p]) {
            size_t &mine = s->captured->knows[s][known.first];
            mine = mine > known.second ? mine : known.second;
        }
    return cudaSuccess;
}

/* ---- graphs ------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode)
{
    if (s->captured)
        return cudaErrorInvalidValue;
    s->captured = new CUgraph_st;
    s->captured->origin = s;
    s->captured->streams[s];
    return cudaSuccess;
}

/* All work of the other streams has to be waited for by the first. */
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    bool joined = true;
    *g = s->captured;
    if (!*g || (*g)->origin != s)
        return cudaErrorInvalidValue;
    for (CUstream_st *x : streams)
        if (x && x->captured == *g) {
            joined &= (*g)->knows[s][x] == (*g)->knows[x][x];
            x->captured = NULL;
        }
    return joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long)
{
    *e = new CUgraph_st(*g);
    return cudaSuccess;
}

/* A graph begins when what is before it in its stream is done, and ends when all of it is. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s)
{
    std::map<CUstream_st *, Queue> copy = e->streams;
    shim_later(s, [copy] {
        std::map<CUstream_st *, Queue> mine = copy;
        std::vector<Queue *> all;
        std::set<Point> here;
        for (CUstream_st *x : streams)
            if (x && mine.count(x))
                all.push_back(&mine[x]);
        run(all, NULL, here);
    });
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    delete g;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e)
{
    return cudaGraphDestroy(e);
}
