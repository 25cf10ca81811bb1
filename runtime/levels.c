/* levels.c - a file below the memory of a processor: what a program offloads.
 *
 * The file has no name, so that it is gone when the process is, however it ends; a run goes on from
 * its checkpoints, never from it. All its bytes are taken from the disk at the start: if the disk
 * is too small, the program ends there, and not in a step. */
#include "runtime/levels.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct rt_levels {
    int file;
    const char *where; /* its directory */
    char **open;       /* copies of tensors, by the number of the part; NULL: closed */
    int parts;
};

static int64_t size_of(const mg_run *r)
{
    return r->program->level_bytes[2];
}

static _Noreturn void no_room(const mg_run *r, const char *where, const char *why)
{
    struct statvfs s;
    const int64_t all = size_of(r);
    const int64_t left = statvfs(where, &s) ? -1 : (int64_t)s.f_bavail * (int64_t)s.f_frsize;
    rt_die(RT_IO,
           "this program offloads %" PRId64 " bytes (%s) to a file in '%s', where %" PRId64
           " (%s) are free: %s; --offload-dir names another directory",
           all, rt_bytes_text((double)all).text, where, left, rt_bytes_text((double)left).text,
           why);
}

void rt_levels_open(mg_run *r)
{
    const int64_t all = size_of(r);
    if (!all)
        return;
    rt_levels *l = r->levels = rt_alloc(1, sizeof *l);
    l->where = r->options->offload_dir ? r->options->offload_dir : ".";
    l->file = open(l->where, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (l->file < 0)
        rt_die(RT_IO,
               "no file to offload to can be made in '%s': %s; --offload-dir names another "
               "directory",
               l->where, strerror(errno));
    const int e = posix_fallocate(l->file, 0, (off_t)all);
    if (e)
        no_room(r, l->where, strerror(e));
}

void rt_levels_close(mg_run *r)
{
    if (r->levels)
        close(r->levels->file);
    free(r->levels ? r->levels->open : NULL);
    free(r->levels);
    r->levels = NULL;
}

static off_t place(int64_t offset)
{
    return (off_t)(offset - MG_FAR(MG_LEVEL(offset), 0));
}

void rt_level_put(mg_run *r, int64_t offset, const void *from, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(r->levels->file, (const char *)from + done, (size_t)(bytes - done),
                           place(offset + done));
        if (n < 0 && errno != EINTR)
            rt_die(RT_IO, "writing what is offloaded to '%s': %s", r->levels->where,
                   strerror(errno));
        done += n > 0 ? n : 0;
    }
}

void rt_level_get(const mg_run *r, int64_t offset, void *to, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n =
            pread(r->levels->file, (char *)to + done, (size_t)(bytes - done), place(offset + done));
        if (n == 0 || (n < 0 && errno != EINTR))
            rt_die(RT_IO, "reading what is offloaded to '%s': %s", r->levels->where,
                   n ? strerror(errno) : "the file is too short");
        done += n > 0 ? n : 0;
    }
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

void mg_fetch(mg_run *r, int action, void *to, int64_t from, int64_t bytes)
{
    mg_begin(r, action);
    rt_level_get(r, from, to, bytes);
    mg_end(r, action);
}

void mg_offload(mg_run *r, int action, int64_t to, const void *from, int64_t bytes)
{
    mg_begin(r, action);
    rt_level_put(r, to, from, bytes);
    mg_end(r, action);
}
