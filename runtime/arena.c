/* arena.c - maps the one block of memory that a program computes in, and checks that the machine
 * has enough. */
#include "runtime/preflight/preflight.h"
#include "runtime/checkpoint/followers.h"
#include "runtime/checkpoint/base.h"
#include "runtime/levels.h"
#include "runtime/net/ranks.h"
#include "runtime/room.h"
#include "runtime/save.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };
/* Memory of a process outside arena and scratch: buffers of data, checkpoints and logs, stacks in
 * use. */
#define OTHER_BYTES ((int64_t)16 << 20) /* a process */

/* The most of a tensor of a file that is in memory together because it lies on another level. */
static int64_t copied(const rt_catalog *c)
{
    int64_t most = 0;
    for (int i = 0; i < c->n; i++) {
        const rt_form *x = c->item[i].form;
        const int64_t bytes = x->whole * mg_dtype_bytes(x->tensor->dtype);
        if (MG_LEVEL(x->tensor->offset) && bytes > most)
            most = bytes;
    }
    return most;
}

/* Memory of the leader: its lists of tensors, and the list of entries of a save or a resume: the
 * larger of the two files counts; what it copies of tensors that follow others. */
static int64_t lists(const mg_run *r)
{
    const rt_catalog *p = &r->params, *s = &r->slots;
    const int64_t a = copied(p), b = copied(s);
    return p->memory + s->memory + (p->entries > s->entries ? p->entries : s->entries) +
           rt_followers_bytes(r) + rt_base_bytes(r) + (a > b ? a : b);
}

rt_memory rt_memory_plan(const mg_run *r)
{
    const mg_program *p = r->program;
    const int ranks = rt_ranks_here(r);
    rt_memory m = {.arena = p->arena_bytes * ranks,
                   .scratch = p->scratch_bytes * r->threads * ranks,
                   .other =
                       (OTHER_BYTES + rt_comm_bytes(r) + rt_levels_memory(r)) * ranks + lists(r),
                   .limit = "unknown"};
    m.other += rt_saving_memory(r);
    m.total = m.arena + m.scratch + m.other;
    m.available = rt_room_memory(&m.limit);
    return m;
}

/* The peak memory of a process: its present memory, with each shared page divided among its
 * processes (so that the sum over all processes counts it once), plus how much more it once had. */
static int64_t used_by(int pid)
{
    char *status = rt_printf("/proc/%d/status", pid),
         *rollup = rt_printf("/proc/%d/smaps_rollup", pid);
    int64_t max = rt_room_number(status, "VmHWM:"), now = rt_room_number(status, "VmRSS:");
    int64_t share = rt_room_number(rollup, "Pss:");
    free(status);
    free(rollup);
    return max < 0 || now < 0 || share < 0 ? -1 : (share + max - now) * 1024;
}

int64_t rt_memory_used(const mg_run *r, int *processes)
{
    int64_t sum = 0;
    *processes = r->ranks ? rt_ranks_here(r) : 1;
    for (int i = 0; i < *processes && sum >= 0; i++) {
        int64_t used = used_by(r->ranks ? rt_ranks_pid(r, i) : (int)getpid());
        sum = used < 0 ? -1 : sum + used;
    }
    return sum;
}

char *rt_outside_text(const mg_run *r)
{
    (void)r; /* rt_memory_used measures all of it */
    return NULL;
}

static void touch(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const int64_t page = rt_page();
    (void)scratch;
    for (int64_t i = begin; i < end; i++)
        ((volatile char *)ctx)[i * page] = 0;
}

void rt_put_own(mg_run *r, int64_t offset, const void *from, int64_t bytes)
{
    if (MG_LEVEL(offset))
        rt_level_put(r, offset, from, bytes);
    else
        memcpy(r->arena + offset, from, (size_t)bytes);
}

void rt_get(const mg_run *r, int64_t offset, void *to, int64_t bytes)
{
    if (MG_LEVEL(offset))
        rt_level_get(r, offset, to, bytes);
    else
        memcpy(to, r->arena + offset, (size_t)bytes);
}

double rt_get_f64(const mg_run *r, int64_t offset)
{
    double x;
    rt_get(r, offset, &x, sizeof x);
    return x;
}

const bool rt_arenas_are_shared = true;

double rt_device_exchange(mg_run *r, int rank, int64_t bytes)
{
    if (!rt_is_here(r, rank))
        return 0;
    char *to = rt_alloc(1, (size_t)bytes);
    memset(to, 1, (size_t)bytes); /* its pages are there */
    const int64_t began = rt_now_ns();
    memcpy(to, rt_of_rank(r, r->arena, rank), (size_t)bytes);
    atomic_signal_fence(memory_order_seq_cst);
    const double seconds = 1e-9 * (double)(rt_now_ns() - began);
    free(to);
    return seconds;
}

char *rt_stored_open(mg_run *r, const rt_external *x, bool read)
{
    if (r->ranks)
        return rt_images_open(r, x, read);
    if (MG_LEVEL(x->form->tensor->offset))
        return rt_level_open(r, x, read);
    return r->arena + x->form->tensor->offset + x->offset * mg_dtype_bytes(x->form->tensor->dtype);
}

void rt_stored_close(mg_run *r, const rt_external *x, bool changed)
{
    if (r->ranks)
        rt_images_close(r, x, changed);
    else if (MG_LEVEL(x->form->tensor->offset))
        rt_level_close(r, x, changed);
}

static void check_memory(const mg_run *r)
{
    rt_memory m = rt_memory_plan(r);
    if (m.available >= 0 && m.total > m.available)
        rt_die(RT_FAILED,
               "this program needs %" PRId64 " bytes (%s: arena %s, scratch %s), but only %" PRId64
               " bytes (%s) are available: %s",
               m.total, rt_bytes_text((double)m.total).text, rt_bytes_text((double)m.arena).text,
               rt_bytes_text((double)m.scratch).text, m.available,
               rt_bytes_text((double)m.available).text, m.limit);
}

void rt_arena_map(mg_run *r)
{
    /* The arena begins on a huge page. The pages before and behind it are not accessible, so an
     * access out of bounds faults at once. */
    const int64_t page = rt_page(), bytes = rt_whole_pages(r->program->arena_bytes);
    if (r->ranks) {
        r->arena = rt_ranks_arena(r);
        if (rt_is_first_here(r))
            check_memory(r); /* one check for all ranks, before any rank takes memory */
        rt_meet(r, RT_ALL_AXES);
        rt_levels_open(r);
        rt_pool_run(r->pool, bytes / page, HUGE_PAGE / page, touch, r->arena);
        rt_pool_scratch(r->pool, r->program->scratch_bytes);
        rt_comm_open(r);
        if (r->rank && r->options->poison)
            rt_poison(r); /* before the leader writes: poison would overwrite its data */
        rt_places_tell(r, r->rank);
        rt_meet(r, RT_ALL_AXES); /* from here on the leader writes into all arenas */
        return;
    }
    check_memory(r);
    rt_levels_open(r);
    size_t size = (size_t)bytes;
    char *base = mmap(NULL, size + 2 * (size_t)HUGE_PAGE, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    r->arena = (char *)(((uintptr_t)base + (size_t)page + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if (base == MAP_FAILED || mprotect(r->arena, size, PROT_READ | PROT_WRITE))
        rt_die(RT_FAILED, "the arena of %" PRId64 " bytes could not be mapped: %s",
               r->program->arena_bytes, strerror(errno));
    madvise(r->arena, size, MADV_HUGEPAGE); /* without huge pages the kernel uses small ones */
    rt_pool_run(r->pool, bytes / page, HUGE_PAGE / page, touch, r->arena);
    rt_pool_scratch(r->pool, r->program->scratch_bytes);
}
