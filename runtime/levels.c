/* levels.c - the level of memory below that of a processor: a disk (disk.h). */
#include "runtime/levels.h"
#include "runtime/disk.h"
#include "runtime/log/trace.h"
#include "runtime/streams.h"
#include "runtime/transfers.h"

#include <stdlib.h>
#include <unistd.h>

struct rt_levels {
    int file;
    rt_transfers *transfers;
    char **open; /* copies of tensors, by the number of the part; NULL: closed */
    int parts;
};

static int64_t size_of(const mg_run *r)
{
    return r->program->level_bytes[MG_LEVEL_DISK];
}

char *rt_levels_room(const mg_run *r, int level, int ranks, rt_exit *code)
{
    *code = RT_DONE;
    return level == MG_LEVEL_DISK && size_of(r) ? rt_disk_room(r, ranks, code) : NULL;
}

char *rt_levels_way(const mg_run *r, int level)
{
    return level == MG_LEVEL_DISK && size_of(r) ? rt_disk_way(r) : NULL;
}

bool rt_levels_use(const mg_run *r, int level, rt_level_use *u)
{
    if (level != MG_LEVEL_DISK || !r->levels)
        return false;
    *u = rt_disk_use(r, r->levels->file);
    return true;
}

int64_t rt_levels_memory(const mg_run *r)
{
    return size_of(r) ? RT_WAYS * rt_blocks_bytes() : 0;
}

void rt_levels_trace(mg_run *r)
{
    for (int way = 0; r->levels && way < RT_WAYS; way++) {
        rt_lane_time *all;
        const int64_t n = rt_transfers_notes(r->levels->transfers, way, &all);
        for (int64_t k = 0; k < n; k++)
            rt_trace_transfer(r->trace, way, all[k].action, all[k].begin, all[k].end);
        free(all);
    }
}

void rt_levels_open(mg_run *r)
{
    if (!size_of(r))
        return;
    const int file = rt_disk_open(r);
    r->levels = rt_alloc(1, sizeof *r->levels);
    r->levels->file = file;
    r->levels->transfers = rt_transfers_open(file, rt_disk_directory(r));
    rt_streams_open(r);
}

void rt_levels_close(mg_run *r)
{
    if (r->levels) {
        rt_transfers_close(r->levels->transfers);
        close(r->levels->file);
    }
    free(r->levels ? r->levels->open : NULL);
    free(r->levels);
    r->levels = NULL;
}

uint64_t rt_levels_begun(const mg_run *r, int way)
{
    return r->levels ? rt_transfers_begun(r->levels->transfers, way) : 0;
}

bool rt_levels_done(mg_run *r, int way, uint64_t number, int64_t ns)
{
    return !r->levels || rt_transfers_done(r->levels->transfers, way, number, ns);
}

int rt_levels_action(const mg_run *r, int way, uint64_t number)
{
    return rt_transfers_action(r->levels->transfers, way, number);
}

/* In the lane, but at once. */
static void transfer(const mg_run *r, int way, int64_t offset, char *memory, int64_t bytes)
{
    rt_transfers *t = r->levels->transfers;
    const rt_transfer x = {.memory = memory, .at = rt_disk_place(offset), .bytes = bytes};
    rt_transfers_done(t, way, rt_transfers_begin(t, way, &x), -1);
}

void rt_level_put(mg_run *r, int64_t offset, const void *from, int64_t bytes)
{
    transfer(r, RT_OUT, offset, (char *)from, bytes);
}

void rt_level_get(const mg_run *r, int64_t offset, void *to, int64_t bytes)
{
    transfer(r, RT_IN, offset, to, bytes);
}

char *rt_level_open(mg_run *r, const rt_external *x, bool read)
{
    rt_levels *l = r->levels;
    int64_t offset;
    const int64_t bytes = rt_stored_bytes(x, &offset);
    if (x->part >= l->parts) {
        l->open = rt_grow(l->open, (size_t)x->part + 1, sizeof *l->open);
        l->parts = x->part + 1;
    }
    char *copy = l->open[x->part] = rt_alloc(1, (size_t)bytes);
    if (read)
        rt_level_get(r, offset, copy, bytes);
    return copy;
}

void rt_level_close(mg_run *r, const rt_external *x, bool changed)
{
    int64_t offset;
    const int64_t bytes = rt_stored_bytes(x, &offset);
    if (changed)
        rt_level_put(r, offset, r->levels->open[x->part], bytes);
    free(r->levels->open[x->part]);
}

/* Begins a transfer in its stream, or, where it has none, does it. */
static void begin(mg_run *r, int action, int way, int64_t offset, char *memory, int64_t bytes)
{
    mg_begin(r, action);
    const rt_transfer x = {.memory = memory,
                           .at = rt_disk_place(offset),
                           .bytes = bytes,
                           .after = rt_streams_held(r, way),
                           .action = action,
                           .noted = r->watch & RT_WATCH_TIME};
    const uint64_t number = rt_transfers_begin(r->levels->transfers, way, &x);
    const bool watched = r->watch & ~(unsigned)(RT_WATCH_TIME | RT_WATCH_COST);
    if (watched || rt_stream(r) == MG_STREAM_REST)
        rt_streams_transferred(r, way, number);
    mg_end(r, action);
}

void mg_fetch(mg_run *r, int action, void *to, int64_t from, int64_t bytes)
{
    begin(r, action, RT_IN, from, to, bytes);
}

void mg_offload(mg_run *r, int action, int64_t to, const void *from, int64_t bytes)
{
    begin(r, action, RT_OUT, to, (char *)from, bytes);
}
