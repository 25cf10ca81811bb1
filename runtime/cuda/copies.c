/* copies.c - collectives by copies through the memory of the host, for GPUs of one machine that are
 * connected through it alone. The engines that copy move the bytes, both ways at once. Nothing of
 * the multiprocessors is taken but by the kernel that adds up.
 *
 * The ranks of a machine share memory (net/ranks.c), which each has registered with its GPU. Of
 * each rank there are lanes in it, one for each other rank and one for what all of them take, in
 * MG_COPY_SETS sets; and of each set a word for each rank that takes from it: 0, or 1 while there
 * is something to take. A collective is a row of messages, message m in set m % MG_COPY_SETS:
 *
 *   out   wait until the words of the set are 0; copy a piece into the lane; write 1
 *   in    wait until the word of the other rank is 1; copy the piece out of its lane; write 0
 *
 * in two streams of their own, which begin after the stream of the collective and which it then
 * waits for. Values are constants and all words are 0 again at the end, so a graph that has all of
 * this can be launched any number of times, and a lane is free for whatever collective comes next.
 *
 * The driver does not see what such waits order, and may execute what it takes for independent in
 * any order. So whatever order is needed is said by events, too: a message is taken after the one
 * of the same number was put, and put after the one MG_COPY_SETS before was taken. Then no rank
 * waits for ever, however each executes its streams: let a rank have put a messages and taken b,
 * b <= a <= b + MG_COPY_SETS. It stands at a put only if some rank has taken fewer than b, and at a
 * take only if some rank has put at most b, less than a. Of ranks that all stand, one with the
 * least b, and of these with the least a, has neither. And as collectives are in one order on all
 * ranks, what a collective needs is before it everywhere. (Of pipelines that does not hold: their
 * ranks have different orders, and their collectives are made by NCCL.)
 *
 * Sums are made in the order of ranks, or in that of the tree, from a piece of each rank that lie
 * side by side. So their bits depend on neither pieces nor times. */
#include "runtime/cuda/copies.h"
#include "runtime/machine.h"
#include "runtime/room.h"

#include <cuda.h>
#include <inttypes.h>
#include <stdlib.h>

enum { SETS = MG_COPY_SETS };

/* Of the driver's library, which is not linked. CUresult has the numbers of cudaError_t. */
typedef CUresult words_call(CUstream s, unsigned count, CUstreamBatchMemOpParams *all,
                            unsigned flags);

struct rt_copies {
    char *memory; /* as this process has it; the copies are by these addresses */
    char *words;  /* as the GPU has it */
    int64_t bytes;
    int here;                 /* ranks of this machine */
    int number[MG_RANKS_MAX]; /* by rank: its number among them, or -1 */
    cudaStream_t out, in;
    cudaEvent_t before, put[SETS], taken[SETS], done;
    words_call *words_of_stream;
};

/* ---- the start and the end ---------------------------------------------------------------- */

static words_call *entry(void)
{
    static const char name[] = "cuStreamBatchMemOp";
    enum cudaDriverEntryPointQueryResult found;
    void *at = NULL;
    rt_cuda_must(
        cudaGetDriverEntryPointByVersion(name, &at, RT_CUDA_LEAST, cudaEnableDefault, &found),
        name);
    if (!at || found != cudaDriverEntryPointSuccess)
        rt_die(RT_FAILED,
               "the driver has no %s, by which ranks wait for each other in collectives by copies: "
               "install one for CUDA %d.%d or later, or compile with --collectives=nccl",
               name, RT_CUDA_LEAST / 1000, RT_CUDA_LEAST % 1000 / 10);
    return (words_call *)at;
}

static cudaEvent_t new_event(void)
{
    cudaEvent_t e;
    rt_cuda_must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "making an event");
    return e;
}

static int number_ranks(const mg_run *r, rt_copies *c)
{
    int n = 0;
    for (int i = 0; i < r->ranks->n; i++)
        c->number[i] = rt_is_here(r, i) ? n++ : -1;
    return n;
}

/* A group that communicates by copies is on one machine. */
static void check_places(const mg_run *r)
{
    const mg_program *p = r->program;
    for (int g = 0; g < p->ngroups; g++)
        for (int i = 0; p->by_copies >> g & 1 && i < r->ranks->n; i++)
            if (rt_place_of(p, i, ~p->groups[g]) == rt_place_of(p, r->rank, ~p->groups[g]) &&
                !rt_is_here(r, i))
                rt_die(RT_MISFIT,
                       "ranks %d and %d exchange through the memory of their host, and are on "
                       "different machines (this one has %d of %d ranks): start neighbours on one "
                       "machine, as the device's node_ranks say, or compile with "
                       "--collectives=nccl",
                       r->rank, i, rt_ranks_here(r), r->ranks->n);
}

static void check_room(const mg_run *r, int64_t bytes)
{
    const char *limit;
    const int64_t left = rt_room_memory(&limit);
    if (rt_is_first_here(r) && left >= 0 && bytes > left)
        rt_die(RT_FAILED,
               "collectives by copies take %" PRId64 " bytes (%s) of the host's memory for the "
               "ranks of this machine, where %" PRId64 " (%s) are free: %s; free some, or compile "
               "with --collectives=nccl",
               bytes, rt_bytes_text((double)bytes).text, left, rt_bytes_text((double)left).text,
               limit);
}

rt_copies *rt_copies_open(mg_run *r)
{
    const int64_t piece = r->program->piece;
    void *at;
    if (!piece)
        return NULL;
    rt_copies *c = rt_alloc(1, sizeof *c);
    c->here = number_ranks(r, c);
    c->bytes = mg_copies_bytes(c->here, piece);
    c->memory = r->ranks->copies;
    check_places(r);
    check_room(r, c->bytes);
    rt_meet(r, RT_ALL_AXES); /* nobody takes memory before it is known that there is enough */
    c->words_of_stream = entry();
    rt_cuda_must(cudaHostRegister(c->memory, (size_t)c->bytes, cudaHostRegisterMapped),
                 "pinning the memory that ranks exchange through");
    rt_cuda_must(cudaHostGetDevicePointer(&at, c->memory, 0), "pinning that memory");
    c->words = at;
    rt_cuda_must(cudaStreamCreateWithFlags(&c->out, cudaStreamNonBlocking), "making a stream");
    rt_cuda_must(cudaStreamCreateWithFlags(&c->in, cudaStreamNonBlocking), "making a stream");
    c->before = new_event();
    c->done = new_event();
    for (int i = 0; i < SETS; i++) {
        c->put[i] = new_event();
        c->taken[i] = new_event();
    }
    return c;
}

void rt_copies_close(rt_copies *c)
{
    if (!c)
        return;
    for (int i = 0; i < SETS; i++) {
        cudaEventDestroy(c->put[i]);
        cudaEventDestroy(c->taken[i]);
    }
    cudaEventDestroy(c->before);
    cudaEventDestroy(c->done);
    cudaStreamDestroy(c->out);
    cudaStreamDestroy(c->in);
    cudaHostUnregister(c->memory);
    free(c);
}

/* ---- words and lanes ---------------------------------------------------------------------- */

/* A collective under way. Ranks are numbers among those of the machine. */
typedef struct moving {
    mg_run *r;
    rt_copies *c;
    const mg_comm_desc *d;
    mg_share share;
    int me, place;                                   /* this rank; its place in the group */
    int peers, to[MG_RANKS_MAX], from[MG_RANKS_MAX]; /* places: who takes, and who gives */
    int number[MG_RANKS_MAX];                        /* by place */
    int64_t messages;                                /* begun */
} moving;

static CUdeviceptr word(const moving *m, int64_t set, int of, int taker)
{
    const int64_t here = m->c->here;
    return (uintptr_t)(m->c->words + ((of * SETS + set) * here + taker) * MG_COPY_LINE);
}

/* Of a rank: what one other takes, or, in the lane of its own number, what all others do. */
static char *lane(const moving *m, int64_t set, int of, int taker)
{
    const int64_t here = m->c->here, number = (of * SETS + set) * here + taker;
    return m->c->memory + mg_copies_words(here) + number * m->r->program->piece;
}

/* A stream waits until all of these words have the value, or writes it to all: one node of a graph.
 * A batch is what NCCL's own collectives by copies capture (src/ce_coll.cc). */
static void words(const moving *m, cudaStream_t s, CUstreamBatchMemOpType what, int n,
                  const CUdeviceptr *at, uint32_t value)
{
    /* CUDA takes fewer than 256, and a group has fewer others. */
    CUstreamBatchMemOpParams all[MG_RANKS_MAX - 1];
    for (int i = 0; i < n; i++)
        if (what == CU_STREAM_MEM_OP_WAIT_VALUE_32)
            all[i] = (CUstreamBatchMemOpParams){.waitValue = {.operation = what,
                                                              .address = at[i],
                                                              .value = value,
                                                              .flags = CU_STREAM_WAIT_VALUE_EQ}};
        else
            all[i] =
                (CUstreamBatchMemOpParams){.writeValue = {.operation = what,
                                                          .address = at[i],
                                                          .value = value,
                                                          .flags = CU_STREAM_WRITE_VALUE_DEFAULT}};
    rt_cuda_must((cudaError_t)m->c->words_of_stream(s, (unsigned)n, all, 0),
                 "waiting for another rank, or telling it");
}

static void await_word(const moving *m, cudaStream_t s, CUdeviceptr at, uint32_t value)
{
    words(m, s, CU_STREAM_MEM_OP_WAIT_VALUE_32, 1, &at, value);
}

static void write_word(const moving *m, cudaStream_t s, CUdeviceptr at, uint32_t value)
{
    words(m, s, CU_STREAM_MEM_OP_WRITE_VALUE_32, 1, &at, value);
}

/* The words of a set of this rank, of all that take from it. */
static void words_of_takers(const moving *m, CUstreamBatchMemOpType what, int64_t set,
                            uint32_t value)
{
    CUdeviceptr at[MG_RANKS_MAX - 1];
    for (int i = 0; i < m->peers; i++)
        at[i] = word(m, set, m->me, m->number[m->to[i]]);
    words(m, m->c->out, what, m->peers, at, value);
}

static void record(cudaEvent_t e, cudaStream_t s)
{
    rt_cuda_must(cudaEventRecord(e, s), "recording an event");
}

static void await(cudaStream_t s, cudaEvent_t e)
{
    rt_cuda_must(cudaStreamWaitEvent(s, e, 0), "waiting for an event");
}

/* `height` rows of `width` bytes, which are `pitch` apart on either side. */
static void copy(char *to, int64_t to_pitch, const char *from, int64_t from_pitch, int64_t width,
                 int64_t height, enum cudaMemcpyKind kind, cudaStream_t s)
{
    const bool whole = height == 1 || (to_pitch == width && from_pitch == width);
    rt_cuda_must(whole ? cudaMemcpyAsync(to, from, (size_t)(width * height), kind, s)
                       : cudaMemcpy2DAsync(to, (size_t)to_pitch, from, (size_t)from_pitch,
                                           (size_t)width, (size_t)height, kind, s),
                 "copying a share");
}

/* ---- pieces ------------------------------------------------------------------------------- */

/* Rows [row, row + rows) of a share, of each `width` bytes from byte `at` on. */
typedef struct piece {
    int64_t row, rows, at, width;
} piece;

static piece piece_of(const moving *m, int64_t k)
{
    const int64_t most = m->d->piece, row = m->share.row, parts = (row + most - 1) / most;
    const int64_t rows = mg_piece_rows(m->d), first = k / parts * rows, at = k % parts * most;
    return (piece){.row = first,
                   .rows = m->share.rows - first < rows ? m->share.rows - first : rows,
                   .at = at,
                   .width = row - at < most ? row - at : most};
}

static int64_t bytes_of(const piece *p)
{
    return p->rows * p->width;
}

/* The place of its first byte in a share that lies by itself; and in the share of a rank among
 * those of all, row by row. */
static int64_t in_share(const moving *m, const piece *p)
{
    return p->row * m->share.row + p->at;
}

static int64_t among_all(const moving *m, const piece *p, int place)
{
    return (p->row * m->d->n + place) * m->share.row + p->at;
}

static int64_t pitch_of_all(const moving *m)
{
    return m->d->n * m->share.row;
}

/* ---- messages ----------------------------------------------------------------------------- */

static void begin(moving *m, mg_run *r, const mg_comm_desc *d)
{
    const mg_program *p = r->program;
    rt_copies *c = r->cuda->copies;
    *m = (moving){.r = r, .c = c, .d = d, .share = mg_copies_share(d), .me = c->number[r->rank]};
    m->place = rt_place_of(p, r->rank, d->axes);
    for (int i = 0; i < r->ranks->n; i++)
        if (rt_place_of(p, i, ~d->axes) == rt_place_of(p, r->rank, ~d->axes))
            m->number[rt_place_of(p, i, d->axes)] = c->number[i];
    /* Each begins with another, so that not all copy from one at once. */
    for (int i = 1; i < (int)d->n; i++) {
        m->to[m->peers] = (m->place + i) % (int)d->n;
        m->from[m->peers++] = (m->place + (int)d->n - i) % (int)d->n;
    }
    record(c->before, r->cuda->stream);
    await(c->out, c->before);
    await(c->in, c->before);
}

/* Waits until the lanes of message `number` are free: it was taken by all. */
static void await_taken(const moving *m, int64_t number)
{
    words_of_takers(m, CU_STREAM_MEM_OP_WAIT_VALUE_32, number % SETS, 0);
}

/* The set of the next message, whose lanes are free then. after: it is put when message `after` was
 * taken, too; -1: none. */
static int64_t open_message(moving *m, int64_t after)
{
    const int64_t last = m->messages - SETS;
    if (last > after)
        after = last;
    if (after >= 0)
        await(m->c->out, m->c->taken[after % SETS]);
    if (last >= 0)
        await_taken(m, last);
    return m->messages % SETS;
}

/* Puts another piece for each that takes: that of their place in x. */
static void put_each(const moving *m, int64_t set, const piece *p, const char *x)
{
    rt_copies *c = m->c;
    for (int i = 0; i < m->peers; i++) {
        const int taker = m->number[m->to[i]];
        copy(lane(m, set, m->me, taker), p->width, x + among_all(m, p, m->to[i]), pitch_of_all(m),
             p->width, p->rows, cudaMemcpyDeviceToHost, c->out);
        write_word(m, c->out, word(m, set, m->me, taker), 1);
    }
}

/* Puts one for all. */
static void put_all(const moving *m, int64_t set, int64_t bytes, const char *x)
{
    rt_copies *c = m->c;
    copy(lane(m, set, m->me, m->me), bytes, x, bytes, bytes, 1, cudaMemcpyDeviceToHost, c->out);
    words_of_takers(m, CU_STREAM_MEM_OP_WRITE_VALUE_32, set, 1);
}

/* The message is put; what follows takes it. */
static void turn(const moving *m, int64_t set)
{
    record(m->c->put[set], m->c->out);
    await(m->c->in, m->c->put[set]);
}

/* Takes what a place has put, for this rank or for all. */
static void take(const moving *m, int64_t set, int place, bool all, const piece *p, char *to,
                 int64_t pitch)
{
    rt_copies *c = m->c;
    const int of = m->number[place];
    await_word(m, c->in, word(m, set, of, m->me), 1);
    copy(to, pitch, lane(m, set, of, all ? of : m->me), p->width, p->width, p->rows,
         cudaMemcpyHostToDevice, c->in);
    write_word(m, c->in, word(m, set, of, m->me), 0);
}

static void close_message(moving *m, int64_t set)
{
    record(m->c->taken[set], m->c->in);
    m->messages++;
}

/* All was taken, of this rank too: the lanes are free, and what was put from may change. */
static void end(const moving *m)
{
    rt_copies *c = m->c;
    await(c->out, c->taken[(m->messages - 1) % SETS]);
    for (int64_t k = m->messages < SETS ? 0 : m->messages - SETS; k < m->messages; k++)
        await_taken(m, k);
    record(c->done, c->out);
    await(m->r->cuda->stream, c->done);
}

/* ---- collectives -------------------------------------------------------------------------- */

/* The piece of all shares, side by side in `came`, added up. */
static void sum(const moving *m, const piece *p, const char *came, char *y)
{
    enum { BLOCK = 256, GRID = 1 << 16 };
    const mg_comm_desc *d = m->d;
    rt_cuda *cuda = m->r->cuda;
    cudaStream_t mine = cuda->stream;
    int64_t n = d->n, elements = bytes_of(p) / mg_dtype_bytes(d->dtype);
    const int64_t blocks = (elements + BLOCK - 1) / BLOCK;
    const int of_type = d->dtype == MG_F64    ? 1
                        : d->dtype == MG_BF16 ? 2
                        : d->dtype == MG_F16  ? 3
                                              : 0;
    cuda->stream = m->c->in;
    rt_cuda_call(m->r, (d->tree ? FIXED_sum_shares : FIXED_add_shares) + of_type,
                 blocks < GRID ? blocks : GRID, 1, BLOCK,
                 (void *[]){&n, &elements, &elements, &came, &y});
    cuda->stream = mine;
}

/* Gives each other rank its piece of x, and adds up those for this one. */
static void exchange_and_sum(moving *m, const piece *p, const char *x, char *came, char *y)
{
    const int64_t bytes = bytes_of(p), set = open_message(m, -1);
    put_each(m, set, p, x);
    turn(m, set);
    for (int i = 0; i < m->peers; i++)
        take(m, set, m->from[i], false, p, came + m->from[i] * bytes, p->width);
    copy(came + m->place * bytes, p->width, x + among_all(m, p, m->place), pitch_of_all(m),
         p->width, p->rows, cudaMemcpyDeviceToDevice, m->c->in);
    sum(m, p, came, y);
    close_message(m, set);
}

/* Gives all others a piece, and takes theirs. */
static void show(moving *m, const piece *p, int64_t after, const char *x, char *y)
{
    const int64_t set = open_message(m, after);
    put_all(m, set, bytes_of(p), x);
    turn(m, set);
    for (int i = 0; i < m->peers; i++)
        take(m, set, m->from[i], true, p, y + among_all(m, p, m->from[i]), pitch_of_all(m));
    close_message(m, set);
}

static void own_share(const moving *m, char *to, int64_t to_pitch, const char *from)
{
    copy(to, to_pitch, from, m->share.row, m->share.row, m->share.rows, cudaMemcpyDeviceToDevice,
         m->r->cuda->stream);
}

void rt_copies_all_gather(mg_run *r, const mg_comm_desc *d, const char *x, char *y)
{
    moving m;
    begin(&m, r, d);
    own_share(&m, y + m.place * m.share.row, pitch_of_all(&m), x);
    for (int64_t k = 0; k < mg_pieces(d); k++) {
        const piece p = piece_of(&m, k);
        show(&m, &p, -1, x + in_share(&m, &p), y);
    }
    end(&m);
}

void rt_copies_reduce_scatter(mg_run *r, const mg_comm_desc *d, const char *x, char *y, char *came)
{
    moving m;
    begin(&m, r, d);
    for (int64_t k = 0; k < mg_pieces(d); k++) {
        const piece p = piece_of(&m, k);
        exchange_and_sum(&m, &p, x, came, y + in_share(&m, &p));
    }
    end(&m);
}

/* Each rank adds up its part, and shows the sums of a piece while the next ones are exchanged. */
void rt_copies_all_reduce(mg_run *r, const mg_comm_desc *d, const char *x, char *y, char *came)
{
    enum { AHEAD = SETS - 1 };
    const int64_t pieces = mg_pieces(d);
    int64_t summed[AHEAD + 1] = {0}; /* by which message, of the last pieces */
    moving m;
    begin(&m, r, d);
    for (int64_t k = 0; k < pieces + AHEAD; k++) {
        if (k < pieces) {
            const piece p = piece_of(&m, k);
            summed[k % (AHEAD + 1)] = m.messages;
            exchange_and_sum(&m, &p, x, came, y + among_all(&m, &p, m.place));
        }
        if (k >= AHEAD) {
            const piece p = piece_of(&m, k - AHEAD);
            show(&m, &p, summed[(k - AHEAD) % (AHEAD + 1)], y + among_all(&m, &p, m.place), y);
        }
    }
    end(&m);
}

void rt_copies_all_to_all(mg_run *r, const mg_comm_desc *d, const char *x, char *y)
{
    moving m;
    begin(&m, r, d);
    own_share(&m, y + m.place * m.share.row, m.share.row, x + m.place * m.share.row);
    for (int64_t k = 0; k < mg_pieces(d); k++) {
        const piece p = piece_of(&m, k);
        const int64_t set = open_message(&m, -1);
        put_each(&m, set, &p, x);
        turn(&m, set);
        for (int i = 0; i < m.peers; i++)
            take(&m, set, m.from[i], false, &p, y + among_all(&m, &p, m.from[i]), p.width);
        close_message(&m, set);
    }
    end(&m);
}

void rt_copies_ring_shift(mg_run *r, const mg_comm_desc *d, const char *x, char *y)
{
    moving m;
    begin(&m, r, d);
    m.peers = 1; /* the next one takes, and the last one gives */
    for (int64_t k = 0; k < mg_pieces(d); k++) {
        const piece p = piece_of(&m, k);
        const int64_t set = open_message(&m, -1);
        put_all(&m, set, bytes_of(&p), x + in_share(&m, &p));
        turn(&m, set);
        take(&m, set, m.from[0], true, &p, y + in_share(&m, &p), p.width);
        close_message(&m, set);
    }
    end(&m);
}
