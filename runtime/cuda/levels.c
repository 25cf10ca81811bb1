/* levels.c - pinned memory of a GPU's host: what a program offloads. Pinned, because copies of
 * other memory wait for the host and go through a buffer of the driver. */
#include "runtime/levels.h"
#include "runtime/cuda/cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rt_levels {
    char *host;
};

static char *place(const mg_run *r, int64_t offset)
{
    return r->levels->host + (offset - MG_FAR(1, 0));
}

void rt_levels_open(mg_run *r)
{
    const int64_t all = r->program->level_bytes[1];
    const int64_t has = (int64_t)sysconf(_SC_AVPHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
    void *p;
    if (!all)
        return;
    if (all > has)
        rt_die(RT_FAILED,
               "this program offloads %" PRId64
               " bytes (%s) to the memory of the host, where %" PRId64 " (%s) are free",
               all, rt_bytes_text((double)all).text, has, rt_bytes_text((double)has).text);
    r->levels = rt_alloc(1, sizeof *r->levels);
    rt_cuda_must(cudaMallocHost(&p, (size_t)all), "pinned memory for what is offloaded");
    r->levels->host = memset(p, 0, (size_t)all);
}

void rt_levels_close(mg_run *r)
{
    if (r->levels)
        cudaFreeHost(r->levels->host);
    free(r->levels);
    r->levels = NULL;
}

/* The GPU may still be reading or writing it. */
void rt_level_put(mg_run *r, int64_t offset, const void *from, int64_t bytes)
{
    rt_streams_wait(r->cuda);
    memcpy(place(r, offset), from, (size_t)bytes);
}

void rt_level_get(const mg_run *r, int64_t offset, void *to, int64_t bytes)
{
    rt_streams_wait(r->cuda);
    memcpy(to, place(r, offset), (size_t)bytes);
}

void mg_fetch(mg_run *r, int action, void *to, int64_t from, int64_t bytes)
{
    mg_begin(r, action);
    rt_cuda_must(
        cudaMemcpyAsync(to, place(r, from), (size_t)bytes, cudaMemcpyHostToDevice, r->cuda->stream),
        "fetching");
    mg_end(r, action);
}

void mg_offload(mg_run *r, int action, int64_t to, const void *from, int64_t bytes)
{
    mg_begin(r, action);
    rt_cuda_must(
        cudaMemcpyAsync(place(r, to), from, (size_t)bytes, cudaMemcpyDeviceToHost, r->cuda->stream),
        "offloading");
    mg_end(r, action);
}
