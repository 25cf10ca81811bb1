/* watched.c - follows metrics.jsonl, the lock and the checkpoints of a run; see watched.h.
 *
 * A line counts once its newline is there. A program that resumes a run writes metrics.jsonl anew
 * and renames it: another inode, so all is read again. */
#include "compiler/watch/watched.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct WatchFile {
    int fd; /* or -1 */
    dev_t device;
    ino_t inode;
    off_t at;       /* bytes read */
    size_t partial; /* bytes of a line whose newline is not there yet */
    bool over;      /* that line is too long: it is passed over */
    char *line;     /* that line; room for cap bytes */
    size_t cap;
} WatchFile;

Watched *watched_open(Arena *a, const char *path, const char *name)
{
    Watched *w = NEW(a, Watched);
    WatchFile *f = NEW(a, WatchFile);
    f->fd = -1;
    *w = (Watched){.path = path, .name = name, .a = arena_new(), .file = f, .saved = {.step = -1}};
    watched_clear(w);
    return w;
}

void watched_close(Watched *w)
{
    if (w->file->fd >= 0)
        close(w->file->fd);
    free(w->file->line);
    arena_free(w->a);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int open_inside(const Watched *w, const char *name, struct stat *st)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", w->path, name) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    free(path);
    if (fd >= 0 && (fstat(fd, st) || !S_ISREG(st->st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Takes metrics.jsonl as it is now: the same file, another one, or none. True if all begins anew.
 */
static bool reopen(Watched *w)
{
    WatchFile *f = w->file;
    struct stat st;
    int fd = open_inside(w, "metrics.jsonl", &st);
    const bool same = fd >= 0 && f->fd >= 0 && st.st_dev == f->device && st.st_ino == f->inode &&
                      st.st_size >= f->at;
    if (same || (fd < 0 && f->fd < 0)) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (f->fd >= 0)
        close(f->fd);
    f->fd = fd;
    f->at = 0;
    f->partial = 0;
    f->over = false;
    if (fd >= 0) {
        f->device = st.st_dev;
        f->inode = st.st_ino;
    }
    watched_clear(w);
    return true;
}

/* Adds to the line that is not whole yet; false: it is too long. */
static bool add_part(WatchFile *f, const char *bytes, size_t n)
{
    const size_t size = f->partial + n;
    if (size > WATCH_LINE)
        return false;
    if (size > f->cap) {
        const size_t cap = size < 4096 ? 8192 : 2 * size;
        char *more = realloc(f->line, cap);
        if (!more)
            return false;
        f->line = more;
        f->cap = cap;
    }
    memcpy(f->line + f->partial, bytes, n);
    f->partial = size;
    return true;
}

static void take(Watched *w, const char *bytes, size_t n)
{
    WatchFile *f = w->file;
    while (n) {
        const char *newline = memchr(bytes, '\n', n);
        const size_t part = newline ? (size_t)(newline - bytes) : n;
        f->over = f->over || (part && !add_part(f, bytes, part));
        if (!newline)
            return;
        if (f->over)
            w->lines++, w->unread++, w->version++;
        else if (f->partial)
            watched_line(w, f->line, f->partial);
        f->partial = 0;
        f->over = false;
        bytes += part + 1;
        n -= part + 1;
    }
}

static bool read_lines(Watched *w)
{
    WatchFile *f = w->file;
    char bytes[65536];
    const uint64_t before = w->version;
    ssize_t n;
    if (f->fd < 0)
        return false;
    const off_t most = f->at + WATCH_ONCE;
    while (f->at < most &&
           ((n = pread(f->fd, bytes, sizeof bytes, f->at)) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0) {
            f->at += n;
            take(w, bytes, (size_t)n);
        }
    w->behind = f->at >= most;
    return w->version != before;
}

/* ---- lock and checkpoints ---------------------------------------------------------------------
 */

/* Whether a program writes here: it holds the lock alone. To ask is to hold it for a moment; a
 * program that begins just then tries again. */
static bool is_locked(const Watched *w)
{
    struct stat st;
    int fd = open_inside(w, ".lock", &st);
    if (fd < 0)
        return false;
    const bool locked = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}

/* Bytes of the files of a checkpoint, and when its last one was written. */
static void measure(int ckpt, const char *name, WatchSaved *s)
{
    int fd = openat(ckpt, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    struct stat st;
    if (!dir && fd >= 0)
        close(fd);
    while (dir && (e = readdir(dir)))
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
            s->bytes += (double)st.st_size;
            s->time = fmax(s->time, (double)st.st_mtim.tv_sec);
        }
    if (dir)
        closedir(dir);
}

static WatchSaved find_saved(const Watched *w)
{
    WatchSaved s = {.step = -1};
    char *path = NULL, newest[64] = "";
    if (asprintf(&path, "%s/ckpt", w->path) < 0)
        return s;
    DIR *dir = opendir(path);
    struct dirent *e;
    free(path);
    while (dir && (e = readdir(dir))) {
        char *end = "";
        const long long step =
            strncmp(e->d_name, "step-", 5) ? -1 : strtoll(e->d_name + 5, &end, 10);
        if (step < 0 || *end || strlen(e->d_name) >= sizeof newest)
            continue;
        s.count++;
        if ((double)step > s.step) {
            s.step = (double)step;
            strcpy(newest, e->d_name);
        }
    }
    if (s.count)
        measure(dirfd(dir), newest, &s);
    if (dir)
        closedir(dir);
    return s;
}

bool watched_read(Watched *w)
{
    const uint64_t before = w->version;
    const WatchSaved saved = find_saved(w), *had = &w->saved;
    const bool locked = is_locked(w);
    reopen(w);
    read_lines(w);
    if (locked != w->locked || saved.step != had->step || saved.count != had->count ||
        saved.bytes != had->bytes)
        w->version++;
    w->locked = locked;
    w->saved = saved;
    return w->version != before;
}

/* ---- what follows -----------------------------------------------------------------------------
 */

/* A supervisor's restart is a line of its own before the start that it makes. */
int64_t watched_starts(const Watched *w)
{
    const int64_t told = w->restarts ? w->restarts + 1 : 0;
    return w->starts > told ? w->starts : told;
}

WatchState watched_state(const Watched *w)
{
    if (w->locked)
        return WATCH_running;
    if (w->file->fd < 0)
        return WATCH_awaited;
    if (w->ended)
        return !w->why || !strcmp(w->why, "done") ? WATCH_done
               : !strcmp(w->why, "stopped")       ? WATCH_stopped
                                                  : WATCH_failed;
    return w->started ? WATCH_died : WATCH_ended;
}

const char *watched_state_text(WatchState s)
{
    static const char *const text[] = {
        [WATCH_awaited] = "not begun", [WATCH_running] = "running", [WATCH_done] = "done",
        [WATCH_stopped] = "stopped",   [WATCH_failed] = "failed",   [WATCH_died] = "died",
        [WATCH_ended] = "ended"};
    return text[s];
}

double watched_pace(const Watched *w)
{
    enum { BACK = 64 };
    const Series *t = watched_series(w, "time");
    const size_t n = t ? t->bins.n : 0;
    if (n < 2)
        return NAN;
    const Bin *last = &t->bins.data[n - 1], *first = last;
    for (size_t i = n - 1; i-- > 0 && n - 1 - i <= BACK;)
        if (!isfinite(w->start.step) || t->bins.data[i].first > w->start.step)
            first = &t->bins.data[i];
    const double steps = (last->first + last->last - first->first - first->last) / 2,
                 seconds = bin_mean(last) - bin_mean(first);
    return steps > 0 && seconds >= 0 ? seconds / steps : NAN;
}

double watched_eta(const Watched *w)
{
    const double left = w->start.steps - w->step;
    return left < 0 ? 0 : left * watched_pace(w);
}
