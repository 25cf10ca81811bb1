/* levels.c - a file below the memory of a processor: what a program offloads.
 *
 * The file has no name, so that it is gone when the process is, however it ends; a run goes on from
 * its checkpoints, never from it. Each rank has its own. All bytes are taken from the disk at the
 * start: if it is too small for all ranks of the machine, the program ends there, before any of
 * them takes some, and not in a step. */
#include "runtime/levels.h"
#include "runtime/log/trace.h"
#include "runtime/machine.h"
#include "runtime/streams.h"
#include "runtime/transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct rt_levels {
    int file;
    rt_transfers *transfers;
    const char *where; /* its directory */
    char **open;       /* copies of tensors, by the number of the part; NULL: closed */
    int parts;
};

static int64_t size_of(const mg_run *r)
{
    return r->program->level_bytes[2];
}

static const char *directory(const mg_run *r)
{
    return r->options->offload_dir ? r->options->offload_dir : ".";
}

static int make_file(const mg_run *r)
{
    return open(directory(r), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

char *rt_levels_room(const mg_run *r, int ranks, rt_exit *code)
{
    const int64_t all = size_of(r) * ranks;
    struct statvfs s;
    *code = RT_DONE;
    if (!all)
        return NULL;
    const int file = make_file(r);
    if (file < 0 || fstatvfs(file, &s)) {
        *code = RT_IO;
        return rt_printf("no file to offload to can be made in '%s': %s; --offload-dir names "
                         "another directory",
                         directory(r), strerror(errno));
    }
    close(file);
    const int64_t left = (int64_t)s.f_bavail * (int64_t)s.f_frsize;
    char *who = ranks > 1 ? rt_printf("%d ranks of this machine offload", ranks)
                          : rt_printf("this program offloads");
    if (all > left)
        *code = RT_IO;
    char *text =
        rt_printf("%s %" PRId64 " bytes (%s) to %s in '%s', where %" PRId64 " (%s) are free%s", who,
                  all, rt_bytes_text((double)all).text, ranks > 1 ? "files" : "a file",
                  directory(r), left, rt_bytes_text((double)left).text,
                  all > left ? "; --offload-dir names another directory" : "");
    free(who);
    return text;
}

int64_t rt_levels_memory(const mg_run *r)
{
    return size_of(r) ? RT_WAYS * rt_blocks_bytes() : 0;
}

char *rt_levels_way(const mg_run *r)
{
    const int file = size_of(r) ? make_file(r) : -1;
    if (file < 0)
        return NULL;
    rt_blocks *b = rt_blocks_new(file, directory(r));
    char *way = rt_printf("%s", rt_blocks_way(b));
    rt_blocks_free(b);
    close(file);
    return way;
}

/* Of a rank of this machine. The file has no name; its process has it open. */
static int64_t file_bytes(const mg_run *r, int i)
{
    struct stat s;
    if (!r->ranks)
        return fstat(r->levels->file, &s) ? -1 : (int64_t)s.st_blocks * 512;
    const rt_slot *slot = &r->ranks->shared->slot[r->ranks->here[i]];
    char *path = rt_printf("/proc/%d/fd/%d", rt_ranks_pid(r, i), slot->file);
    const int wrong = stat(path, &s);
    free(path);
    return wrong ? -1 : (int64_t)s.st_blocks * 512;
}

/* The map of a file of which all blocks lie apart (ext4: 12 bytes for 4096), and what it begins
 * with. */
static int64_t map_bytes(int64_t file)
{
    return file / 256 + (1 << 16);
}

bool rt_levels_use(const mg_run *r, rt_level_use *u)
{
    const int ranks = r->ranks ? rt_ranks_here(r) : 1;
    if (!r->levels)
        return false;
    *u = (rt_level_use){"disk", size_of(r) * ranks, map_bytes(size_of(r)) * ranks, 0};
    for (int i = 0; i < ranks && u->used >= 0; i++) {
        const int64_t bytes = file_bytes(r, i);
        u->used = bytes < 0 ? -1 : u->used + bytes;
    }
    return true;
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

/* Ranks of this machine whose files are on the same file system, of which this is the first; 0: it
 * is not. */
static int alike(mg_run *r, int file)
{
    const struct rt_ranks *k = r->ranks;
    struct stat s = {0};
    int n = 0, first = -1;
    fstat(file, &s);
    k->shared->slot[r->rank].disk = 1 + (uint64_t)s.st_dev;
    k->shared->slot[r->rank].file = file;
    rt_meet(r, RT_ALL_AXES);
    for (int i = 0; i < k->nhere; i++)
        if (k->shared->slot[k->here[i]].disk == 1 + (uint64_t)s.st_dev) {
            first = n ? first : k->here[i];
            n++;
        }
    return first == r->rank ? n : 0;
}

static void check_room(const mg_run *r, int ranks)
{
    rt_exit code;
    char *text = rt_levels_room(r, ranks, &code);
    if (code != RT_DONE)
        rt_die(code, "%s", text);
    free(text);
}

void rt_levels_open(mg_run *r)
{
    const int64_t all = size_of(r);
    if (!all)
        return;
    const int file = make_file(r);
    if (file < 0 || !r->ranks)
        check_room(r, 1);
    const int ranks = r->ranks ? alike(r, file) : 0;
    if (ranks)
        check_room(r, ranks);
    if (r->ranks)
        rt_meet(r, RT_ALL_AXES);
    const int e = posix_fallocate(file, 0, (off_t)all); /* others may have taken it meanwhile */
    if (e)
        rt_die(RT_IO, "%" PRId64 " bytes (%s) of a file in '%s' to offload to: %s", all,
               rt_bytes_text((double)all).text, directory(r), strerror(e));
    r->levels = rt_alloc(1, sizeof *r->levels);
    r->levels->where = directory(r);
    r->levels->file = file;
    r->levels->transfers = rt_transfers_open(file, directory(r));
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

/* Of the file. */
static int64_t place(int64_t offset)
{
    return offset - MG_FAR(MG_LEVEL(offset), 0);
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
    const rt_transfer x = {.memory = memory, .at = place(offset), .bytes = bytes};
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
                           .at = place(offset),
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
