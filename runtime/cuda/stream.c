/* stream.c - several streams: the stream of the next launch, and waits of one stream for another.
 *
 * Streams and events are created at their first use. A program's first run is not captured, so a
 * graph finds all of them. Outside of a program all work is in stream 0, which has then waited for
 * the other streams. */
#include "runtime/cuda/cuda.h"

static cudaStream_t stream(rt_cuda *c, int s)
{
    if (!c->streams[s])
        rt_cuda_must(cudaStreamCreateWithFlags(&c->streams[s], cudaStreamNonBlocking),
                     "making a stream");
    return c->streams[s];
}

void rt_streams_open(rt_cuda *c)
{
    c->stream = stream(c, 0);
}

void rt_streams_wait(rt_cuda *c)
{
    for (int s = 0; s < RT_STREAMS; s++)
        if (c->streams[s])
            rt_cuda_must(cudaStreamSynchronize(c->streams[s]), "waiting");
}

void rt_streams_close(rt_cuda *c)
{
    for (int e = 0; e < RT_POINTS; e++)
        if (c->point[e])
            cudaEventDestroy(c->point[e]);
    for (int s = 0; s < RT_STREAMS; s++)
        if (c->streams[s])
            cudaStreamDestroy(c->streams[s]);
}

/* With --poison everything runs in stream 0: poison is written in program order, and other streams
 * would break that order. */
void mg_stream(mg_run *r, int s)
{
    if (r->watch & RT_WATCH_POISON)
        s = 0;
    r->cuda->at = s;
    r->cuda->stream = stream(r->cuda, s);
}

void mg_record(mg_run *r, int point)
{
    cudaEvent_t *e = &r->cuda->point[point];
    if (!*e)
        rt_cuda_must(cudaEventCreateWithFlags(e, cudaEventDisableTiming), "making an event");
    rt_cuda_must(cudaEventRecord(*e, r->cuda->stream), "recording an event");
}

void mg_wait(mg_run *r, int point)
{
    rt_cuda_must(cudaStreamWaitEvent(r->cuda->stream, r->cuda->point[point], 0),
                 "waiting for an event");
}
