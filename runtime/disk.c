/* disk.c - see disk.h. */
#include "runtime/disk.h"
#include "runtime/machine.h"
#include "runtime/transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int64_t size_of(const mg_run *r)
{
    return r->program->level_bytes[MG_LEVEL_DISK];
}

const char *rt_disk_directory(const mg_run *r)
{
    return r->options->offload_dir ? r->options->offload_dir : ".";
}

static int make_file(const mg_run *r)
{
    return open(rt_disk_directory(r), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

char *rt_disk_room(const mg_run *r, int ranks, rt_exit *code)
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
                         rt_disk_directory(r), strerror(errno));
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
                  rt_disk_directory(r), left, rt_bytes_text((double)left).text,
                  all > left ? "; --offload-dir names another directory" : "");
    free(who);
    return text;
}

char *rt_disk_way(const mg_run *r)
{
    const int file = size_of(r) ? make_file(r) : -1;
    if (file < 0)
        return NULL;
    rt_blocks *b = rt_blocks_new(file, rt_disk_directory(r));
    char *way = rt_printf("%s", rt_blocks_way(b));
    rt_blocks_free(b);
    close(file);
    return way;
}

/* Of a rank of this machine. The file has no name; its process has it open. */
static int64_t file_bytes(const mg_run *r, int file, int i)
{
    struct stat s;
    if (!r->ranks)
        return fstat(file, &s) ? -1 : (int64_t)s.st_blocks * 512;
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

rt_level_use rt_disk_use(const mg_run *r, int file)
{
    const int ranks = r->ranks ? rt_ranks_here(r) : 1;
    rt_level_use u = {"disk", size_of(r) * ranks, map_bytes(size_of(r)) * ranks, 0};
    for (int i = 0; i < ranks && u.used >= 0; i++) {
        const int64_t bytes = file_bytes(r, file, i);
        u.used = bytes < 0 ? -1 : u.used + bytes;
    }
    return u;
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
    char *text = rt_disk_room(r, ranks, &code);
    if (code != RT_DONE)
        rt_die(code, "%s", text);
    free(text);
}

int rt_disk_open(mg_run *r)
{
    const int64_t all = size_of(r);
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
               rt_bytes_text((double)all).text, rt_disk_directory(r), strerror(e));
    return file;
}

int64_t rt_disk_place(int64_t offset)
{
    return offset - MG_FAR(MG_LEVEL(offset), 0);
}
