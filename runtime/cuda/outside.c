/* outside.c - the memory that this program takes on the GPU beside the arena: planned, and
 * measured.
 *
 * The plan's bytes are those of NCCL's settings in sizes.h. A user who sets NCCL_BUFFSIZE or
 * NCCL_MAX_CTAS changes them. What is measured is the change of the GPU's free memory since the
 * arena was allocated; another process on the GPU makes it wrong. */
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/cuda/cuda.h"

static int64_t setting(const char *name, int64_t usual)
{
    const char *text = getenv(name);
    char *end;
    const long long x = text ? strtoll(text, &end, 0) : 0;
    return x > 0 ? (int64_t)x : usual;
}

static int64_t bytes_of(const mg_outside *o)
{
    if (!o->links.comms)
        return o->bytes;
    return mg_links_bytes(
        &o->links, setting("NCCL_MAX_CTAS", o->links.small ? MG_SMALL_CHANNELS : MG_NCCL_CHANNELS),
        setting("NCCL_BUFFSIZE", MG_NCCL_BUFFER));
}

int64_t rt_outside_bytes(const mg_program *p, bool early)
{
    int64_t all = 0;
    for (int i = 0; i < p->noutside; i++)
        all += p->outside[i].early == early ? bytes_of(&p->outside[i]) : 0;
    return all;
}

char *rt_outside_items(const mg_program *p)
{
    char *all = rt_printf("%s", "");
    for (int i = 0; i < p->noutside; i++) {
        const mg_outside *o = &p->outside[i];
        char *before = all;
        if (o->early)
            continue;
        all = rt_printf("%s%s%s %s", before, *before ? ", " : "", o->name,
                        rt_bytes_text((double)bytes_of(o)).text);
        free(before);
    }
    return all;
}

int64_t rt_outside_measured(const mg_run *r)
{
    size_t available, total;
    if (!r->cuda || !r->cuda->free_before || cudaMemGetInfo(&available, &total) != cudaSuccess)
        return -1;
    return r->cuda->free_before - r->program->arena_bytes - (int64_t)available;
}

char *rt_outside_text(const mg_run *r)
{
    const int64_t planned = rt_outside_bytes(r->program, false), took = rt_outside_measured(r);
    if (took < 0)
        return NULL;
    char *items = rt_outside_items(r->program);
    char *text = rt_printf("memory beside the arena: planned %" PRId64
                           " bytes (%s), measured %" PRId64 " (%s): %s",
                           planned, rt_bytes_text((double)planned).text, took,
                           rt_bytes_text((double)took).text, items);
    free(items);
    return text;
}

void rt_outside_warn(const mg_run *r)
{
    const int64_t planned = rt_outside_bytes(r->program, false), took = rt_outside_measured(r);
    if (took > planned)
        rt_warn("rank %d: the GPU's free memory is %" PRId64 " bytes (%s) less than before, beside "
                "the arena, where %" PRId64 " (%s) were planned",
                r->rank, took, rt_bytes_text((double)took).text, planned,
                rt_bytes_text((double)planned).text);
}
