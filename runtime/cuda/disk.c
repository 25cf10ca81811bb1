/* disk.c - a disk below a GPU: its bytes go through pinned memory of the host, a piece at a time.
 *
 *   fetch     host   read 0 1 2 3, wait 0 |        | read 4, wait 1 |        | read 5, wait 2 | ...
 *             GPU                           copy 0                    copy 1
 *   offload   host   wait |        | write 0, wait |        | write 1, wait | ...
 *             GPU           copy 0                   copy 1
 *
 * The lanes of transfers.h read and write; what the host does here are functions in the stream
 * (nodes of its graph), which begin transfers of a lane and wait for them. A fetch ends when its
 * bytes are on the GPU. An offload ends when its bytes are in pieces whose writes have begun: a
 * read of bytes that are still being written is held until they are, and no piece is filled before
 * what was in it is written. Functions wait for lanes alone, never for each other, so that it does
 * not matter on which thread CUDA runs them.
 *
 * A way has two sets of pieces: of its own stream, and of stream 0, where its transfers run that
 * have no other. In each of them one transfer comes after the other. */
#include "runtime/cuda/disk.h"
#include "runtime/cuda/cuda.h"
#include "runtime/disk.h"
#include "runtime/transfers.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECES = MG_DISK_PIECES, SETS = MG_DISK_SETS };

/* Of the pinned memory. */
typedef struct piece {
    char *at;
    uint64_t number; /* of the last transfer from it or to it; 0: none */
} piece;

typedef struct range {
    int64_t at, end;
    uint64_t number;
} range;

typedef struct step step;

struct rt_gpu_disk {
    int file;
    rt_transfers *transfers;
    char *pinned;
    piece piece[RT_WAYS][SETS][PIECES];
    pthread_mutex_t lock;        /* of all below */
    range written[RT_TRANSFERS]; /* the last writes that have begun, by their number */
    uint64_t writes;
    step *captured; /* what nodes of graphs do */
};

/* A step of the host, between two copies of a transfer. */
struct step {
    rt_gpu_disk *disk;
    piece *set;
    int64_t at, bytes; /* of the whole transfer */
    int64_t k; /* fetch: the piece that it waits for; offload: the one that it writes, or -1 */
    int action;
    bool once; /* in no graph: freed behind it */
    bool all;  /* offload: waits until all is written */
    step *next;
};

static int64_t pieces_of(int64_t bytes)
{
    return (bytes + MG_DISK_PIECE - 1) / MG_DISK_PIECE;
}

static int64_t piece_bytes(int64_t bytes, int64_t k)
{
    const int64_t left = bytes - k * MG_DISK_PIECE;
    return left < MG_DISK_PIECE ? left : MG_DISK_PIECE;
}

/* Begins the transfer of a piece in its lane. A read is held until bytes of it that are being
 * written are there; a lane has no more under way than `written` knows. */
static void begin(const step *s, int way, int64_t k)
{
    rt_gpu_disk *d = s->disk;
    piece *p = &s->set[k % PIECES];
    rt_transfer x = {.memory = p->at,
                     .at = s->at + k * MG_DISK_PIECE,
                     .bytes = piece_bytes(s->bytes, k),
                     .action = s->action};
    pthread_mutex_lock(&d->lock);
    for (int i = 0; way == RT_IN && i < RT_TRANSFERS; i++) {
        const range *w = &d->written[i];
        if (w->at < x.at + x.bytes && x.at < w->end && w->number > x.after)
            x.after = w->number;
    }
    p->number = rt_transfers_begin(d->transfers, way, &x);
    if (way == RT_OUT)
        d->written[p->number % RT_TRANSFERS] = (range){x.at, x.at + x.bytes, p->number};
    pthread_mutex_unlock(&d->lock);
}

static void wait(const step *s, int way, int64_t k)
{
    rt_transfers_done(s->disk->transfers, way, s->set[k % PIECES].number, -1);
}

static void end(step *s)
{
    if (s->once)
        free(s);
}

static void fetch_step(void *ctx)
{
    step *s = ctx;
    const int64_t n = pieces_of(s->bytes), ahead = s->k + PIECES - 1;
    for (int64_t k = s->k ? ahead : 0; k <= ahead && k < n; k++)
        begin(s, RT_IN, k);
    wait(s, RT_IN, s->k);
    end(s);
}

static void offload_step(void *ctx)
{
    step *s = ctx;
    const int64_t n = pieces_of(s->bytes);
    if (s->k >= 0)
        begin(s, RT_OUT, s->k);
    if (s->k + 1 < n)
        wait(s, RT_OUT, s->k + 1);
    for (int64_t k = n > PIECES ? n - PIECES : 0; s->all && k < n; k++)
        wait(s, RT_OUT, k);
    end(s);
}

/* Puts a step of a transfer into the stream. */
static void put(mg_run *r, cudaHostFn_t what, step s)
{
    rt_gpu_disk *d = s.disk;
    step *own = rt_alloc(1, sizeof *own);
    enum cudaStreamCaptureStatus captured;
    rt_cuda_must(cudaStreamIsCapturing(r->cuda->stream, &captured), "a transfer of the disk");
    *own = s;
    own->once = captured == cudaStreamCaptureStatusNone;
    if (!own->once) {
        own->next = d->captured;
        d->captured = own;
    }
    rt_cuda_must(cudaLaunchHostFunc(r->cuda->stream, what, own), "a transfer of the disk");
}

static step first_step(const mg_run *r, rt_gpu_disk *d, int way, int action, int64_t offset,
                       int64_t bytes)
{
    return (step){.disk = d,
                  .set = d->piece[way][r->cuda->at != MG_STREAM_REST],
                  .at = rt_disk_place(offset),
                  .bytes = bytes,
                  .action = action};
}

void rt_gpu_disk_fetch(mg_run *r, rt_gpu_disk *d, int action, char *to, int64_t from, int64_t bytes)
{
    step s = first_step(r, d, RT_IN, action, from, bytes);
    for (s.k = 0; s.k < pieces_of(bytes); s.k++) {
        put(r, fetch_step, s);
        rt_cuda_must(cudaMemcpyAsync(to + s.k * MG_DISK_PIECE, s.set[s.k % PIECES].at,
                                     (size_t)piece_bytes(bytes, s.k), cudaMemcpyHostToDevice,
                                     r->cuda->stream),
                     "fetching");
    }
}

void rt_gpu_disk_offload(mg_run *r, rt_gpu_disk *d, int action, int64_t to, const char *from,
                         int64_t bytes)
{
    step s = first_step(r, d, RT_OUT, action, to, bytes);
    s.k = -1;
    put(r, offload_step, s);
    for (s.k = 0; s.k < pieces_of(bytes); s.k++) {
        rt_cuda_must(cudaMemcpyAsync(s.set[s.k % PIECES].at, from + s.k * MG_DISK_PIECE,
                                     (size_t)piece_bytes(bytes, s.k), cudaMemcpyDeviceToHost,
                                     r->cuda->stream),
                     "offloading");
        s.all = r->watch && s.k + 1 == pieces_of(bytes); /* so that its end is seen */
        put(r, offload_step, s);
    }
}

rt_gpu_disk *rt_gpu_disk_open(mg_run *r, char *pinned)
{
    rt_gpu_disk *d = rt_alloc(1, sizeof *d);
    d->file = rt_disk_open(r);
    d->transfers = rt_transfers_open(d->file, rt_disk_directory(r));
    d->pinned = pinned;
    pthread_mutex_init(&d->lock, NULL);
    for (int way = 0; way < RT_WAYS; way++)
        for (int set = 0; set < SETS; set++)
            for (int k = 0; k < PIECES; k++, pinned += MG_DISK_PIECE)
                d->piece[way][set][k].at = pinned;
    return d;
}

void rt_gpu_disk_close(rt_gpu_disk *d)
{
    rt_transfers_done(d->transfers, RT_OUT, rt_transfers_begun(d->transfers, RT_OUT), -1);
    rt_transfers_close(d->transfers);
    pthread_mutex_destroy(&d->lock);
    for (step *s = d->captured, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    close(d->file);
    free(d);
}

void rt_gpu_disk_copy(rt_gpu_disk *d, bool in, int64_t offset, char *memory, int64_t bytes)
{
    const rt_transfer x = {.memory = memory, .at = rt_disk_place(offset), .bytes = bytes};
    const int way = in ? RT_IN : RT_OUT;
    rt_transfers_done(d->transfers, RT_OUT, rt_transfers_begun(d->transfers, RT_OUT), -1);
    rt_transfers_done(d->transfers, way, rt_transfers_begin(d->transfers, way, &x), -1);
}

rt_level_use rt_gpu_disk_use(const mg_run *r, const rt_gpu_disk *d)
{
    return rt_disk_use(r, d->file);
}
