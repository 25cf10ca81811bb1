/* streams.c - streams of a processor: what runs beside the thread that computes are collectives
 * (async_comm.c) and transfers (transfers.c), each numbered in the order in which they begin.
 *
 * A point is the last of its stream that had begun. Waiting for it in the rest is waiting for that
 * number. What is begun in the rest is done when it returns, so nothing else waits for the rest.
 * Between two streams the later one is held, where it can be: a collective behind another, a
 * transfer behind one of the other way. Where one is a collective and the other a transfer, the
 * thread that computes waits, for only it carries collectives on.
 *
 * A rank of a pipeline need not have the transfer that is held: what waits for its stream then
 * waits for what it would have waited for. So a point has both. */
#include "runtime/streams.h"
#include "runtime/levels.h"
#include "runtime/net/async_comm.h"
#include "runtime/transfers.h"

#include <stdlib.h>

typedef struct point {
    int stream;
    uint64_t number;
    uint64_t held; /* of a transfer's: the other way's that comes before the next one */
} point;

struct rt_streams {
    int now;
    uint64_t held[RT_WAYS]; /* the other way's that comes before the next one */
    point point[MG_POINTS_MAX];
};

void rt_streams_open(mg_run *r)
{
    if (!r->streams)
        r->streams = rt_alloc(1, sizeof *r->streams);
}

void rt_streams_close(mg_run *r)
{
    free(r->streams);
    r->streams = NULL;
}

int rt_stream(const mg_run *r)
{
    return r->streams ? r->streams->now : MG_STREAM_REST;
}

uint64_t rt_streams_held(const mg_run *r, int way)
{
    return r->streams->held[way];
}

static int way_of(int stream)
{
    return stream == MG_STREAM_FETCHES ? RT_IN : stream == MG_STREAM_OFFLOADS ? RT_OUT : -1;
}

void mg_stream(mg_run *r, int s)
{
    if (r->streams)
        r->streams->now = s;
}

void mg_record(mg_run *r, int point_number)
{
    if (!r->streams)
        return;
    point *p = &r->streams->point[point_number];
    const int way = way_of(p->stream = r->streams->now);
    p->number = way >= 0                             ? rt_levels_begun(r, way)
                : p->stream == MG_STREAM_COLLECTIVES ? rt_async_comm_begun(r)
                                                     : 0;
    p->held = way >= 0 ? r->streams->held[way] : 0;
}

void rt_streams_transferred(mg_run *r, int way, uint64_t number)
{
    const int64_t LOOK_NS = 200000;
    while (!rt_levels_done(r, way, number, rt_async_comm_begun(r) ? LOOK_NS : -1))
        mg_progress(r);
}

/* Waiting counts as time of the action that is waited for. */
static void await_transfer(mg_run *r, int way, uint64_t number)
{
    if (rt_levels_done(r, way, number, 0))
        return;
    const int action = rt_levels_action(r, way, number);
    mg_begin(r, action);
    rt_streams_transferred(r, way, number);
    mg_end(r, action);
}

void mg_wait(mg_run *r, int point_number)
{
    if (!r->streams)
        return;
    struct rt_streams *s = r->streams;
    const point p = s->point[point_number];
    const int way = way_of(p.stream), here = way_of(s->now);
    if (way >= 0 && here == !way) {
        s->held[here] = p.number > s->held[here] ? p.number : s->held[here];
    } else if (way >= 0 && here != way) {
        await_transfer(r, way, p.number);
        await_transfer(r, !way, p.held);
    } else if (p.stream == MG_STREAM_COLLECTIVES && s->now == MG_STREAM_COLLECTIVES) {
        rt_async_comm_hold(r, p.number);
    } else if (p.stream == MG_STREAM_COLLECTIVES) {
        rt_async_comm_finish(r, p.number);
    }
}
