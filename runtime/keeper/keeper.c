/* keeper.c - the process that has parts of in-memory checkpoints; see keeper.h.
 *
 * Each caller has a thread. A piece is read whole, and compared with its checksum, before it is
 * put into the memory of its set and into its list, so nobody sees half of one. The memory of a set
 * is a file in memory (memfd), which is freed as a whole. */
#include "runtime/keeper/keeper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/checkpoint/crc32c_parts.h"
#include "runtime/files.h"
#include "runtime/run.h"

enum { CALLERS = 1024, STACK = 256 << 10 };

typedef struct piece {
    rt_keep_word word;
    int64_t place; /* in the set's memory */
} piece;

typedef struct set {
    uint64_t id;
    int fd;
    int64_t used;
    piece *piece;
    int64_t n, cap, hint; /* readers ask in the order of the list: the one behind the last */
    int users;            /* threads that read or write its memory */
    bool dropped;
    struct set *next;
} set;

static struct {
    pthread_mutex_t lock;
    set *first;
    int callers;
    const uint8_t *key;
} keeper = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- sets: under the lock -------------------------------------------------------------------- */

static void release(set *s)
{
    if (--s->users || !s->dropped)
        return;
    close(s->fd);
    free(s->piece);
    free(s);
}

/* The caller releases it. NULL with errno. */
static set *find(uint64_t id, bool make)
{
    set *s = keeper.first;
    while (s && s->id != id)
        s = s->next;
    if (!s && make) {
        const int fd = memfd_create("mgc copies", MFD_CLOEXEC);
        if (fd < 0)
            return NULL;
        s = rt_alloc(1, sizeof *s);
        *s = (set){.id = id, .fd = fd, .next = keeper.first};
        keeper.first = s;
    }
    if (s)
        s->users++;
    else
        errno = ENOENT;
    return s;
}

static void drop_others(uint64_t id)
{
    for (set **at = &keeper.first; *at;) {
        set *s = *at;
        if (s->id == id) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        s->dropped = true;
        s->users++;
        release(s);
    }
}

static const piece *piece_of(set *s, const rt_keep_word *w)
{
    for (int64_t i = 0; i < s->n; i++) {
        const piece *p = &s->piece[(s->hint + i) % s->n];
        if (p->word.file == w->file && p->word.at == w->at) {
            s->hint = (s->hint + i + 1) % s->n;
            return p;
        }
    }
    return NULL;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static bool is_good(const rt_keep_word *w, const char *data)
{
    return rt_crc32c_part(data, (size_t)w->bytes, w->behind) == w->part;
}

/* 0, or errno. */
static int keep(const rt_keep_word *w, const char *data)
{
    if (!is_good(w, data))
        return EBADMSG;
    pthread_mutex_lock(&keeper.lock);
    set *s = find(w->set, true);
    const int64_t place = s ? s->used : 0;
    if (s)
        s->used += w->bytes;
    pthread_mutex_unlock(&keeper.lock);
    if (!s)
        return errno;
    const int error = rt_write_at(s->fd, data, (size_t)w->bytes, place) ? 0 : errno;
    pthread_mutex_lock(&keeper.lock);
    if (!error && s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->piece = rt_grow(s->piece, (size_t)s->cap, sizeof *s->piece);
    }
    if (!error)
        s->piece[s->n++] = (piece){*w, place};
    release(s);
    pthread_mutex_unlock(&keeper.lock);
    return error;
}

/* Bytes of the first piece that the word names, checked; false: *error says why. */
static bool fetch(const rt_keep_word *w, rt_keep_word *found, char *data, int *error)
{
    int64_t place = -1;
    pthread_mutex_lock(&keeper.lock);
    set *s = find(w->set, false);
    const piece *p = s ? piece_of(s, w) : NULL;
    if (p) {
        *found = p->word;
        place = p->place;
    }
    pthread_mutex_unlock(&keeper.lock);
    const bool read = place >= 0 && rt_read_at(s->fd, data, (size_t)found->bytes, place);
    *error = place < 0 ? ENOENT : !read ? EIO : !is_good(found, data) ? EBADMSG : 0;
    if (s) {
        pthread_mutex_lock(&keeper.lock);
        release(s);
        pthread_mutex_unlock(&keeper.lock);
    }
    return !*error;
}

static bool give(int fd, const rt_keep_word *w, char *data)
{
    rt_keep_word answer = *w;
    int error;
    if (!fetch(w, &answer, data, &error))
        answer.bytes = 0;
    answer.error = error;
    return rt_keep_send(fd, &answer, sizeof answer) &&
           (!answer.bytes || rt_keep_send(fd, data, (size_t)answer.bytes));
}

/* The words of all pieces, each of which is compared with its checksum first. */
static bool list(int fd, char *data)
{
    rt_keep_word *all = NULL, answer = {.kind = RT_KEEP_LIST};
    int64_t n = 0, cap = 0, good = 0;
    pthread_mutex_lock(&keeper.lock);
    for (const set *s = keeper.first; s; s = s->next)
        for (int64_t i = 0; i < s->n; i++) {
            if (n == cap)
                all = rt_grow(all, (size_t)(cap = cap ? 2 * cap : 64), sizeof *all);
            all[n++] = s->piece[i].word;
        }
    pthread_mutex_unlock(&keeper.lock);
    for (int64_t i = 0; i < n; i++) {
        rt_keep_word found;
        int error;
        if (fetch(&all[i], &found, data, &error))
            all[good++] = found;
    }
    answer.at = n - good;
    answer.bytes = good * (int64_t)sizeof *all;
    const bool sent = rt_keep_send(fd, &answer, sizeof answer) &&
                      (!good || rt_keep_send(fd, all, (size_t)answer.bytes));
    free(all);
    return sent;
}

/* ---- callers --------------------------------------------------------------------------------- */

static bool obey(int fd, const rt_keep_word *w, char *data, int *error)
{
    int wrong;
    switch ((rt_keep_kind)w->kind) {
    case RT_KEEP_PUT:
        if (w->bytes < 1 || w->bytes > RT_KEEP_MOST || w->behind < 0 || w->at < 0 ||
            w->file > RT_KEEP_STATE || !w->set || !rt_keep_take(fd, data, (size_t)w->bytes))
            return false;
        wrong = keep(w, data);
        *error = *error ? *error : wrong;
        return true;
    case RT_KEEP_SYNC:
        wrong = *error;
        *error = 0;
        return rt_keep_send(fd, &(rt_keep_word){.kind = RT_KEEP_SYNC, .error = wrong},
                            sizeof(rt_keep_word));
    case RT_KEEP_DROP:
        pthread_mutex_lock(&keeper.lock);
        drop_others(w->set);
        pthread_mutex_unlock(&keeper.lock);
        return true;
    case RT_KEEP_LIST:
        return list(fd, data);
    case RT_KEEP_GET:
        return give(fd, w, data);
    }
    return false;
}

static void *serve(void *ctx)
{
    const int fd = (int)(intptr_t)ctx;
    char *data = malloc(RT_KEEP_MOST);
    rt_keep_word w;
    int error = 0;
    if (data && rt_keep_admits(fd, keeper.key))
        while (rt_keep_take(fd, &w, sizeof w) && obey(fd, &w, data, &error))
            ;
    free(data);
    close(fd);
    pthread_mutex_lock(&keeper.lock);
    keeper.callers--;
    pthread_mutex_unlock(&keeper.lock);
    return NULL;
}

/* False: there are too many. */
static bool admit(int fd, const pthread_attr_t *how)
{
    pthread_t thread;
    pthread_mutex_lock(&keeper.lock);
    const bool room = keeper.callers < CALLERS;
    keeper.callers += room;
    pthread_mutex_unlock(&keeper.lock);
    if (!room)
        return false;
    if (pthread_create(&thread, how, serve, (void *)(intptr_t)fd) == 0)
        return true;
    pthread_mutex_lock(&keeper.lock);
    keeper.callers--;
    pthread_mutex_unlock(&keeper.lock);
    return false;
}

void rt_keeper_run(int door, const uint8_t key[RT_KEY_BYTES])
{
    enum { NAP_US = 10000 };
    pthread_attr_t how;
    prctl(PR_SET_NAME, "mgc keeper");
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, STACK);
    keeper.key = key;
    fcntl(door, F_SETFL, fcntl(door, F_GETFL) & ~O_NONBLOCK);
    for (;;) {
        const int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            usleep(NAP_US); /* of descriptors that are short, say */
        else if (!admit(fd, &how))
            close(fd);
    }
}
