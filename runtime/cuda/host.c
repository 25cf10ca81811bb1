/* host.c - kernels of the processor in the program of a GPU: what updates bytes of the host's arena
 * runs there, a function in its stream (a node of its graph).
 *
 * The function is called on a thread of the driver and may call nothing of CUDA. It runs all units
 * on a pool of its own, because the thread that runs the program may be using the other one. Such
 * kernels are in one stream, but for those that found no place there: a lock lets one run at a
 * time.
 *
 * Places on the host are known when a launch is captured, so a node keeps them. */
#include "runtime/cuda/cuda.h"
#include "runtime/levels.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct launch launch;
struct launch {
    rt_host *host;
    mg_kernel *kernel;
    int64_t units, grain;
    bool once; /* in no graph: freed behind it */
    launch *next;
    void *p[];
};

struct rt_host {
    rt_pool *pool;
    pthread_mutex_t lock; /* one launch is run at a time */
    launch *captured;     /* what nodes of graphs do */
};

static void run_units(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const launch *l = ctx;
    (void)scratch;
    l->kernel(l->p, begin, end);
}

static void run(void *ctx)
{
    launch *l = ctx;
    pthread_mutex_lock(&l->host->lock);
    rt_pool_run(l->host->pool, l->units, l->grain, run_units, l);
    pthread_mutex_unlock(&l->host->lock);
    if (l->once)
        free(l);
}

/* Threads begin with the first launch, which no graph captures. */
static rt_host *host_of(mg_run *r)
{
    if (!r->cuda->host) {
        r->cuda->host = rt_alloc(1, sizeof *r->cuda->host);
        r->cuda->host->pool = rt_pool_new(r->threads, false);
        pthread_mutex_init(&r->cuda->host->lock, NULL);
    }
    return r->cuda->host;
}

void mg_host_launch(mg_run *r, int action, mg_kernel *k, int64_t units, int64_t grain, int n,
                    const int64_t *places)
{
    rt_host *h = host_of(r);
    launch *l = rt_alloc(1, sizeof *l + (size_t)n * sizeof *l->p);
    enum cudaStreamCaptureStatus captured;
    void *outputs[256]; /* as places of the arena, where those who look on find them */
    mg_begin(r, action);
    rt_cuda_must(cudaStreamIsCapturing(r->cuda->stream, &captured), "a kernel of the host");
    *l = (launch){.host = h,
                  .kernel = k,
                  .units = units,
                  .grain = grain,
                  .once = captured == cudaStreamCaptureStatusNone};
    for (int i = 0; i < n; i++) {
        l->p[i] = rt_level_place(r, places[i]);
        outputs[i] = r->arena + places[i];
    }
    if (!l->once) {
        l->next = h->captured;
        h->captured = l;
    }
    rt_cuda_must(cudaLaunchHostFunc(r->cuda->stream, run, l), "a kernel of the host");
    mg_end(r, action);
    rt_watch_outputs(r, action, outputs);
}

void rt_host_close(rt_cuda *c)
{
    if (!c->host)
        return;
    for (launch *l = c->host->captured, *next; l; l = next) {
        next = l->next;
        free(l);
    }
    rt_pool_free(c->host->pool);
    pthread_mutex_destroy(&c->host->lock);
    free(c->host);
    c->host = NULL;
}
