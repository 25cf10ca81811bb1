/* levels.c - pinned memory of a GPU's host: what a program offloads. Pinned, because copies of
 * other memory wait for the host and go through a buffer of the driver. */
#include "runtime/levels.h"
#include "runtime/cuda/cuda.h"
#include "runtime/net/ranks.h"
#include "runtime/room.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct rt_levels {
    char *host;
};

static char *place(const mg_run *r, int64_t offset)
{
    return r->levels->host + (offset - MG_FAR(1, 0));
}

char *rt_levels_room(const mg_run *r, int ranks, rt_exit *code)
{
    const char *limit;
    const int64_t all = r->program->level_bytes[1] * ranks, left = rt_room_memory(&limit);
    *code = RT_DONE;
    if (!all)
        return NULL;
    char *who = ranks > 1 ? rt_printf("%d ranks of this machine offload", ranks)
                          : rt_printf("this program offloads");
    if (left >= 0 && all > left)
        *code = RT_FAILED;
    char *text = rt_printf(
        "%s %" PRId64 " bytes (%s) to the memory of the host, where %" PRId64 " (%s) are free: %s",
        who, all, rt_bytes_text((double)all).text, left, rt_bytes_text((double)left).text, limit);
    free(who);
    return text;
}

void rt_levels_open(mg_run *r)
{
    const int64_t all = r->program->level_bytes[1];
    void *p;
    if (!all)
        return;
    if (!r->ranks || rt_is_first_here(r)) {
        rt_exit code;
        char *text = rt_levels_room(r, r->ranks ? rt_ranks_here(r) : 1, &code);
        if (code != RT_DONE)
            rt_die(code, "%s", text);
        free(text);
    }
    if (r->ranks)
        rt_meet(r, RT_ALL_AXES);
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
