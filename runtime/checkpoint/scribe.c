/* scribe.c - the thread of each rank that writes its pieces of a checkpoint beside the steps.
 *
 * Pieces that begin and end on whole blocks of a disk are written directly (O_DIRECT), where the
 * file system has that: they cost no copy into the system's cache, and no page of it has to be
 * written before others. Other pieces go through the cache, and their writing begins at once. The
 * thread gives way to those that compute. */
#include "runtime/checkpoint/saving.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/checkpoint/crc32c_parts.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/files.h"
#include "runtime/sizes.h"

enum { NICE = 10 };

/* ---- pieces of one file ---------------------------------------------------------------------- */

typedef struct file {
    rt_saving *s;
    int number;
    int fd, direct; /* the same file; direct -1: the file system writes nothing directly */
    bool good;
} file;

/* In the cache, from where the system begins to write it now. */
static bool put_cached(const file *f, const char *p, int64_t n, int64_t at)
{
    if (!rt_write_at(f->fd, p, (size_t)n, at))
        return false;
    sync_file_range(f->fd, (off_t)at, (off_t)n, SYNC_FILE_RANGE_WRITE);
    return true;
}

static bool put_piece(file *f, int64_t at, int64_t n)
{
    const char *p = f->s->piece;
    if (f->direct >= 0 && at % MG_DISK_BLOCK == 0 && n % MG_DISK_BLOCK == 0) {
        if (rt_write_at(f->direct, p, (size_t)n, at))
            return true;
        if (errno != EINVAL)
            return false;
        close(f->direct); /* its rules are others */
        f->direct = -1;
    }
    return put_cached(f, p, n, at);
}

static bool write_piece(void *ctx, int64_t at, int64_t n)
{
    file *f = ctx;
    rt_saving *s = f->s;
    if (s->cancel) {
        f->good = false;
        errno = ECANCELED;
        return false;
    }
    rt_parts_get(s->parts[f->number], s->snapshot, at, n, s->piece);
    s->result.part[f->number] ^=
        rt_crc32c_part(s->piece, (size_t)n, rt_parts_file(s->parts[f->number]) - at - n);
    return f->good = put_piece(f, at, n);
}

/* Writes this rank's pieces of a file in the folder `dir`, and syncs them. */
static bool write_pieces(rt_saving *s, int dir, int number)
{
    const char *name = rt_checkpoint_file(s->run->program, number);
    file f = {.s = s,
              .number = number,
              .fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC),
              .direct = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_DIRECT),
              .good = true};
    s->result.file = number;
    s->u.file = name;
    /* Detects a full disk now, not after minutes of writing. Some file systems cannot tell. */
    if (f.fd >= 0 && !s->run->rank)
        f.good =
            fallocate(f.fd, 0, 0, (off_t)rt_parts_file(s->parts[number])) == 0 || errno != ENOSPC;
    if (f.fd < 0)
        f.good = false;
    else if (f.good)
        rt_parts_pieces(s->parts[number], write_piece, &f);
    f.good = f.good && fsync(f.fd) == 0;
    const int e = errno;
    if (f.direct >= 0)
        close(f.direct);
    if (f.fd >= 0 && close(f.fd) && f.good)
        return false;
    errno = e;
    return f.good;
}

static bool write_files(rt_saving *s, int dir)
{
    bool good = true;
    for (int i = 0; good && i < RT_TENSOR_FILES; i++)
        good = write_pieces(s, dir, i);
    return good;
}

/* ---- the leader ------------------------------------------------------------------------------ */

/* A file with its header alone; it is synced with the rest. */
static bool make_file(rt_saving *s, int number)
{
    mg_run *r = s->run;
    rt_writer w;
    size_t size;
    if (!rt_writer_open(&w, s->u.dir, s->u.file = rt_checkpoint_file(r->program, number)))
        return false;
    char *header = rt_tensors_header(number ? &r->slots : &r->saved, NULL, &size);
    const bool good = rt_writer_put(&w, header, size);
    s->result.part[number] =
        rt_crc32c_part(header, size, rt_parts_file(s->parts[number]) - (int64_t)size);
    const int e = errno;
    free(header);
    if (close(w.fd) && good)
        return false;
    errno = e;
    return good;
}

bool rt_scribe_make(rt_saving *s)
{
    bool good = rt_checkpoint_begin(s->run, s->step, &s->u);
    for (int i = 0; good && i < RT_TENSOR_FILES; i++)
        good = make_file(s, i);
    s->result.error = good ? 0 : errno;
    return good;
}

/* The leader has added the parts of other ranks to its own. */
static bool publish(rt_saving *s)
{
    mg_run *r = s->run;
    for (int f = 0; f < RT_TENSOR_FILES; f++) {
        const int64_t bytes = rt_parts_file(s->parts[f]);
        s->seals[f] = (rt_seal){rt_crc32c_whole(s->result.part[f], bytes), bytes};
    }
    rt_log_sync(r->log);
    s->published =
        rt_checkpoint_seal(r, &s->state, s->seals, &s->u) && rt_checkpoint_publish(&s->u);
    rt_checkpoint_leave(&s->u);
    const int e = errno;
    if (s->published)
        rt_checkpoint_prune(r, &s->state);
    errno = e;
    return s->published;
}

/* ---- each rank ------------------------------------------------------------------------------- */

static bool write_own(rt_saving *s)
{
    if (!s->run->rank) /* of one rank alone: it need not wait until the leader looks */
        return write_files(s, s->u.dir) && (s->run->ranks || publish(s));
    char *tmp = rt_printf(".tmp-%s", rt_checkpoint_name(s->step).text);
    const int root = rt_checkpoints_open(s->run->options->out);
    const int dir = root < 0 ? -1 : rt_folder_inside(root, tmp);
    const bool good = dir >= 0 && write_files(s, dir);
    const int e = errno;
    if (dir >= 0)
        close(dir);
    if (root >= 0)
        close(root);
    free(tmp);
    errno = e;
    return good;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void carry_out(rt_saving *s, rt_task task)
{
    bool good = true;
    errno = 0;
    if (task == RT_SEND)
        good = rt_keep_pieces(s);
    else if (task == RT_ALONE)
        rt_keep_alone(s, s->set);
    else if (task == RT_WRITE)
        good = write_own(s);
    else if (task == RT_PUBLISH)
        good = publish(s);
    else if (!s->keeps)
        rt_checkpoint_leave(&s->u);
    if (task != RT_DROP)
        s->result.error = good ? 0 : errno ? errno : EIO;
}

static void *work(void *ctx)
{
    rt_saving *s = ctx;
    pthread_setname_np(pthread_self(), "checkpoints");
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE); /* of this thread alone */
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->task == RT_REST)
            pthread_cond_wait(&s->more, &s->lock);
        const rt_task task = s->task;
        if (task == RT_QUIT)
            break;
        pthread_mutex_unlock(&s->lock);
        carry_out(s, task);
        pthread_mutex_lock(&s->lock);
        s->over_ns = rt_now_ns();
        s->task = RT_REST;
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void rt_scribe_start(rt_saving *s)
{
    sigset_t all, was;
    s->piece = aligned_alloc(MG_DISK_BLOCK, RT_PIECE);
    if (!s->piece)
        rt_die(RT_FAILED, "no memory for pieces of checkpoints");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &was);
    const int wrong = pthread_create(&s->thread, NULL, work, s);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (wrong)
        rt_die(RT_FAILED, "no thread can be made: %s", strerror(wrong));
    s->lives = true;
}

void rt_scribe_give(rt_saving *s, rt_task task)
{
    pthread_mutex_lock(&s->lock);
    s->task = task;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

bool rt_scribe_busy(rt_saving *s)
{
    pthread_mutex_lock(&s->lock);
    const bool busy = s->task != RT_REST;
    pthread_mutex_unlock(&s->lock);
    return busy;
}

void rt_scribe_end(rt_saving *s)
{
    if (!s->lives)
        return;
    rt_scribe_give(s, RT_QUIT);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
    free(s->piece);
    s->lives = false;
}
