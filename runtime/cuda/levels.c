/* levels.c - pinned memory of a GPU's host: what a program offloads, and what a disk's bytes go
 * through (disk.c). Pinned, because copies of other memory wait for the host and go through a
 * buffer of the driver.
 *
 * The driver would take the pages one by one, on one core, and somebody would have to zero them. So
 * all threads touch them here, large ones where the kernel has them, and the driver pins what is
 * there: a program with 72 GB on a host of 16 cores was at its first step after 93 seconds instead
 * of 122, with the copies below. */
#include "runtime/levels.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/disk.h"
#include "runtime/disk.h"
#include "runtime/net/ranks.h"
#include "runtime/room.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct rt_levels {
    char *host; /* the arena, and behind it the pieces of the disk */
    int64_t bytes;
    rt_gpu_disk *disk; /* NULL: nothing is there */
};

static char *place(const mg_run *r, int64_t offset)
{
    return r->levels->host + (offset - MG_FAR(MG_LEVEL_HOST, 0));
}

void *rt_level_place(const mg_run *r, int64_t offset)
{
    return place(r, offset);
}

static int64_t arena_bytes(const mg_run *r)
{
    return rt_whole_pages(r->program->level_bytes[MG_LEVEL_HOST]);
}

/* Of the host, of one rank. */
static int64_t host_bytes(const mg_run *r)
{
    return arena_bytes(r) + (r->program->level_bytes[MG_LEVEL_DISK] ? MG_DISK_PINNED : 0);
}

char *rt_levels_room(const mg_run *r, int level, int ranks, rt_exit *code)
{
    const char *limit;
    const int64_t all = host_bytes(r) * ranks, left = rt_room_memory(&limit);
    *code = RT_DONE;
    if (level == MG_LEVEL_DISK)
        return rt_disk_room(r, ranks, code);
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

static void touch(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const int64_t page = rt_page();
    char *p = ctx;
    (void)scratch;
    for (int64_t i = begin; i < end; i++)
        ((volatile char *)p)[i * page] = 0;
}

void rt_levels_open(mg_run *r)
{
    enum { GRAIN = 4096 }; /* pages */
    const int64_t bytes = host_bytes(r);
    if (!bytes)
        return;
    if (!r->ranks || rt_is_first_here(r)) {
        rt_exit code;
        char *text = rt_levels_room(r, MG_LEVEL_HOST, r->ranks ? rt_ranks_here(r) : 1, &code);
        if (code != RT_DONE)
            rt_die(code, "%s", text);
        free(text);
    }
    if (r->ranks)
        rt_meet(r, RT_ALL_AXES);
    char *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        rt_die(RT_FAILED, "%" PRId64 " bytes (%s) of the host's memory to offload to: %s", bytes,
               rt_bytes_text((double)bytes).text, strerror(errno));
    madvise(p, (size_t)bytes, MADV_HUGEPAGE); /* a kernel without them has small ones */
    rt_pool_run(r->pool, bytes / rt_page(), GRAIN, touch, p);
    rt_cuda_must(cudaHostRegister(p, (size_t)bytes, cudaHostRegisterDefault),
                 "pinning the memory to offload to");
    r->levels = rt_alloc(1, sizeof *r->levels);
    *r->levels = (rt_levels){p, bytes, NULL};
    if (r->program->level_bytes[MG_LEVEL_DISK])
        r->levels->disk = rt_gpu_disk_open(r, p + arena_bytes(r));
}

char *rt_levels_way(const mg_run *r, int level)
{
    if (level == MG_LEVEL_DISK)
        return rt_disk_way(r);
    return host_bytes(r) ? rt_printf("from and to pinned memory, by the GPU's engines") : NULL;
}

/* Of the pages from p on, those that are in memory; -1: unknown. */
static int64_t resident(char *p, int64_t bytes)
{
    enum { PAGES = 4096 };
    static unsigned char in[PAGES];
    const int64_t page = rt_page();
    int64_t all = 0;
    for (int64_t at = 0; at < bytes; at += PAGES * page) {
        const int64_t n = bytes - at < PAGES * page ? bytes - at : PAGES * page;
        if (mincore(p + at, (size_t)n, in))
            return -1;
        for (int64_t k = 0; k < n / page; k++)
            all += in[k] & 1;
    }
    return all * page;
}

bool rt_levels_use(const mg_run *r, int level, rt_level_use *u)
{
    if (!r->levels || (level == MG_LEVEL_DISK && !r->levels->disk))
        return false;
    if (level == MG_LEVEL_DISK)
        *u = rt_gpu_disk_use(r, r->levels->disk);
    else /* beside the arena: the pieces of the disk, and the last page */
        *u = (rt_level_use){.name = "host",
                            .planned = r->program->level_bytes[MG_LEVEL_HOST],
                            .own = r->levels->bytes - r->program->level_bytes[MG_LEVEL_HOST],
                            .used = resident(r->levels->host, r->levels->bytes)};
    return true;
}

/* While a step is traced each action is waited for, so that its event is the transfer's. */
void rt_levels_trace(mg_run *r)
{
    (void)r;
}

void rt_levels_close(mg_run *r)
{
    if (r->levels && r->levels->disk)
        rt_gpu_disk_close(r->levels->disk);
    if (r->levels) {
        cudaHostUnregister(r->levels->host);
        munmap(r->levels->host, (size_t)r->levels->bytes);
    }
    free(r->levels);
    r->levels = NULL;
}

typedef struct copying {
    char *to;
    const char *from;
} copying;

static void copy_some(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const copying *c = ctx;
    (void)scratch;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

/* By all threads: one copies a tensor of a large model for a second. The GPU may still be reading
 * or writing what lies there. */
static void copy(const mg_run *r, char *to, const char *from, int64_t bytes)
{
    enum { GRAIN = 1 << 20 };
    copying c = {to, from};
    rt_pool_run(r->pool, bytes, GRAIN, copy_some, &c);
}

void rt_level_put(mg_run *r, int64_t offset, const void *from, int64_t bytes)
{
    rt_streams_wait(r->cuda);
    if (MG_LEVEL(offset) == MG_LEVEL_DISK)
        rt_gpu_disk_copy(r->levels->disk, false, offset, (char *)from, bytes);
    else
        copy(r, place(r, offset), from, bytes);
}

void rt_level_get(const mg_run *r, int64_t offset, void *to, int64_t bytes)
{
    rt_streams_wait(r->cuda);
    if (MG_LEVEL(offset) == MG_LEVEL_DISK)
        rt_gpu_disk_copy(r->levels->disk, true, offset, to, bytes);
    else
        copy(r, to, place(r, offset), bytes);
}

void mg_fetch(mg_run *r, int action, void *to, int64_t from, int64_t bytes)
{
    mg_begin(r, action);
    if (MG_LEVEL(from) == MG_LEVEL_DISK)
        rt_gpu_disk_fetch(r, r->levels->disk, action, to, from, bytes);
    else
        rt_cuda_must(cudaMemcpyAsync(to, place(r, from), (size_t)bytes, cudaMemcpyHostToDevice,
                                     r->cuda->stream),
                     "fetching");
    mg_end(r, action);
}

void mg_offload(mg_run *r, int action, int64_t to, const void *from, int64_t bytes)
{
    mg_begin(r, action);
    if (MG_LEVEL(to) == MG_LEVEL_DISK)
        rt_gpu_disk_offload(r, r->levels->disk, action, to, from, bytes);
    else
        rt_cuda_must(cudaMemcpyAsync(place(r, to), from, (size_t)bytes, cudaMemcpyDeviceToHost,
                                     r->cuda->stream),
                     "offloading");
    mg_end(r, action);
}
