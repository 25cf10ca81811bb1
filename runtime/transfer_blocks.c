/* transfer_blocks.c - one transfer of a lane, in blocks that go by the page cache.
 *
 * Bytes that begin and end on whole blocks of a disk are read and written directly (O_DIRECT):
 * pages of the system's cache would cost a copy and memory that the plan does not count, and a
 * write would take no time but that of a later one. Several blocks are under way at once (io_uring,
 * where the library and the system have it); memory that does not lie as direct transfers need it
 * is copied from and to a lane's own blocks meanwhile. Other bytes go through the cache. */
#include "runtime/run.h"
#include "runtime/sizes.h"
#include "runtime/transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef MGC_URING
#include <liburing.h>
#endif

enum { BLOCK = 1 << 18, DEPTH = 4, BESIDE = 1 << 16 };

/* A block under way. */
typedef struct block {
    char *own; /* BLOCK bytes */
    int64_t from, bytes, done;
    bool busy;
} block;

struct rt_blocks {
    int file, direct; /* the same file; -1: it cannot be opened so */
    const char *where;
    block block[DEPTH];
    const char *way; /* rt_blocks_way */
    bool rings;
#ifdef MGC_URING
    struct io_uring ring;
#endif
};

/* A transfer while it runs. */
typedef struct job {
    rt_blocks *b;
    int way;
    char *memory;
    int64_t at, bytes;
    bool lies; /* memory needs no blocks of the lane's own */
} job;

static _Noreturn void failed(const rt_blocks *b, int way, int error)
{
    rt_die(RT_IO, "%s what is offloaded %s '%s': %s", way == RT_IN ? "reading" : "writing",
           way == RT_IN ? "from" : "to", b->where,
           error ? strerror(error) : "the file is too short");
}

static int direct_file(int file)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return open(name, O_RDWR | O_DIRECT | O_CLOEXEC);
}

static bool can_read(const rt_blocks *b)
{
    return pread(b->direct, b->block[0].own, MG_DISK_BLOCK, 0) >= 0 || errno != EINVAL;
}

int64_t rt_blocks_bytes(void)
{
    return (int64_t)DEPTH * BLOCK + BESIDE;
}

const char *rt_blocks_way(const rt_blocks *b)
{
    return b->way;
}

/* Opens the ring, unless the person, the library or the system does without. */
static void open_ring(rt_blocks *b)
{
#ifdef MGC_URING
    const bool may = !getenv("MGC_NO_URING");
    b->rings = may && !io_uring_queue_init(DEPTH, &b->ring, 0);
    b->way = b->rings ? "several blocks at once, by io_uring"
             : may    ? "one block after the other: the system allows no io_uring"
                      : "one block after the other: MGC_NO_URING is set";
#else
    b->way = "one block after the other: made without liburing";
#endif
}

rt_blocks *rt_blocks_new(int file, const char *where)
{
    rt_blocks *b = rt_alloc(1, sizeof *b);
    *b = (rt_blocks){.file = file, .direct = direct_file(file), .where = where};
    for (int k = 0; k < DEPTH; k++) {
        b->block[k].own = aligned_alloc(MG_DISK_BLOCK, BLOCK);
        if (!b->block[k].own)
            rt_die(RT_FAILED, "no memory for blocks of transfers");
    }
    if (b->direct >= 0 && !can_read(b)) { /* its file system has other rules */
        close(b->direct);
        b->direct = -1;
    }
    if (b->direct >= 0)
        open_ring(b);
    else
        b->way = "through the page cache: the file system has no direct transfers";
    return b;
}

void rt_blocks_free(rt_blocks *b)
{
#ifdef MGC_URING
    if (b->rings)
        io_uring_queue_exit(&b->ring);
#endif
    for (int k = 0; k < DEPTH; k++)
        free(b->block[k].own);
    if (b->direct >= 0)
        close(b->direct);
    free(b);
}

/* ---- one block after the other --------------------------------------------------------------- */

static void copy_bytes(const rt_blocks *b, int file, int way, char *memory, int64_t at,
                       int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        char *m = memory + done;
        const size_t left = (size_t)(bytes - done);
        const ssize_t n = way == RT_IN ? pread(file, m, left, (off_t)(at + done))
                                       : pwrite(file, m, left, (off_t)(at + done));
        if (n < 0 && errno != EINTR)
            failed(b, way, errno);
        if (n == 0 && way == RT_IN)
            failed(b, way, 0);
        done += n > 0 ? n : 0;
    }
}

static void copy_in_turn(const job *j)
{
    char *own = j->b->block[0].own;
    if (j->lies) {
        copy_bytes(j->b, j->b->direct, j->way, j->memory, j->at, j->bytes);
        return;
    }
    for (int64_t from = 0; from < j->bytes; from += BLOCK) {
        const int64_t n = j->bytes - from < BLOCK ? j->bytes - from : BLOCK;
        if (j->way == RT_OUT)
            memcpy(own, j->memory + from, (size_t)n);
        copy_bytes(j->b, j->b->direct, j->way, own, j->at + from, n);
        if (j->way == RT_IN)
            memcpy(j->memory + from, own, (size_t)n);
    }
}

/* ---- several at once ------------------------------------------------------------------------- */

#ifdef MGC_URING
static void submit(const job *j, block *k)
{
    struct io_uring_sqe *e = io_uring_get_sqe(&j->b->ring); /* there is one for each block */
    char *memory = (j->lies ? j->memory + k->from : k->own) + k->done;
    const unsigned left = (unsigned)(k->bytes - k->done);
    const uint64_t at = (uint64_t)(j->at + k->from + k->done);
    if (j->way == RT_IN)
        io_uring_prep_read(e, j->b->direct, memory, left, at);
    else
        io_uring_prep_write(e, j->b->direct, memory, left, at);
    io_uring_sqe_set_data(e, k);
}

static void begin_block(const job *j, block *k, int64_t from)
{
    k->busy = true;
    k->from = from;
    k->done = 0;
    k->bytes = j->bytes - from < BLOCK ? j->bytes - from : BLOCK;
    if (j->way == RT_OUT && !j->lies)
        memcpy(k->own, j->memory + from, (size_t)k->bytes);
    submit(j, k);
}

/* Bytes that have arrived. */
static int64_t end_block(const job *j, block *k, int result)
{
    if (result < 0 && result != -EINTR && result != -EAGAIN)
        failed(j->b, j->way, -result);
    if (result == 0)
        failed(j->b, j->way, 0);
    k->done += result > 0 ? result : 0;
    if (k->done < k->bytes) {
        submit(j, k);
        return 0;
    }
    if (j->way == RT_IN && !j->lies)
        memcpy(j->memory + k->from, k->own, (size_t)k->bytes);
    k->busy = false;
    return k->bytes;
}

static void copy_at_once(const job *j)
{
    rt_blocks *b = j->b;
    for (int64_t begun = 0, done = 0; done < j->bytes;) {
        for (int k = 0; k < DEPTH && begun < j->bytes; k++)
            if (!b->block[k].busy) {
                begin_block(j, &b->block[k], begun);
                begun += b->block[k].bytes;
            }
        const int wrong = io_uring_submit_and_wait(&b->ring, 1);
        if (wrong < 0 && wrong != -EINTR)
            failed(b, j->way, -wrong);
        struct io_uring_cqe *c;
        while (!io_uring_peek_cqe(&b->ring, &c)) {
            block *k = io_uring_cqe_get_data(c);
            const int result = c->res;
            io_uring_cqe_seen(&b->ring, c);
            done += end_block(j, k, result);
        }
    }
}
#else
#define copy_at_once copy_in_turn
#endif

void rt_blocks_copy(rt_blocks *b, int way, char *memory, int64_t at, int64_t bytes)
{
    const job j = {b, way, memory, at, bytes, (uintptr_t)memory % MG_DISK_BLOCK == 0};
    if (b->direct < 0 || at % MG_DISK_BLOCK || bytes % MG_DISK_BLOCK)
        copy_bytes(b, b->file, way, memory, at, bytes);
    else if (b->rings)
        copy_at_once(&j);
    else
        copy_in_turn(&j);
}
