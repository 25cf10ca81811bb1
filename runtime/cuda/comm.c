/* comm.c - runs collectives of GPU ranks with NCCL: one communicator for each set of axes that a
 * collective uses, and another one for its small collectives, all made at the start, together with
 * that of pipe.c.
 *
 * NCCL sends contiguous memory. A share that is not contiguous in its tensor is packed before, or
 * unpacked after, in the action's work space (kernels/cuda/shares.h). Sums are made by NCCL, in an
 * order that is the same in every run. For `reduce = tree` each share is sent to the rank that sums
 * it, which moves as many bytes as a ring. What the plan has by copies goes through the memory of
 * the host (copies.c), with the same packing before and after.
 *
 * One host thread issues collectives in program order, the same on all ranks of a group: the plan
 * proves this order, and NCCL requires it. Around each collective the GPU writes a mark, from which
 * the watchdog knows the collective that the GPU waits in. */
#include <stdlib.h>

#include "runtime/cuda/copies.h"
#include "runtime/cuda/nccl_comms.h"
#include "runtime/machine.h"

void rt_nccl_must(ncclResult_t e, const char *what)
{
    if (e != ncclSuccess && e != ncclInProgress)
        rt_die(RT_BROKE, "NCCL: %s: %s (%s)", what, ncclGetErrorString(e), ncclGetLastError(NULL));
}

/* ---- the start and the end ---------------------------------------------------------------- */

/* Chooses a ring, which sums in a fixed order, even if NCCL finds another algorithm faster, but of
 * a program whose sums may have any order: its own are rings, trees and the links' switch. And what
 * memory the plan counts on (mg_links_bytes): buffers of a known size, none for algorithms that
 * nobody uses. A user who sets a variable has chosen. */
static void settle(const mg_program *p)
{
    char bytes[32];
    snprintf(bytes, sizeof bytes, "%lld", (long long)MG_NCCL_BUFFER);
    setenv("NCCL_ALGO", p->unordered ? "Ring,Tree,NVLS" : "Ring", 0);
    setenv("NCCL_BUFFSIZE", bytes, 0);
    if (!p->unordered)
        setenv("NCCL_NVLS_ENABLE", "0", 0);
    setenv("NCCL_RUNTIME_CONNECT", "1", 0);
}

/* The communicator of the k-th group of axes. */
static ncclComm_t split(const mg_run *r, int k, ncclConfig_t *config)
{
    const mg_program *p = r->program;
    const uint32_t every = ((uint32_t)1 << p->naxes) - 1;
    ncclComm_t comm;
    rt_nccl_must(ncclCommSplit(r->cuda->comms->all, rt_place_of(p, r->rank, every & ~p->groups[k]),
                               rt_place_of(p, r->rank, p->groups[k]), &comm, config),
                 "meeting the ranks along some axes");
    return comm;
}

/* Those of small collectives take one block of the GPU, so that there is room for them beside all
 * else that is sent. */
static void open_small(mg_run *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = MG_SMALL_CHANNELS;
    for (int k = 0; k < r->program->ngroups; k++)
        if (r->program->small >> k & 1)
            r->cuda->comms->small[k] = split(r, k, &config);
}

static void open_comms(mg_run *r)
{
    const mg_program *p = r->program;
    const uint32_t every = ((uint32_t)1 << p->naxes) - 1;
    rt_comms *c = r->cuda->comms = rt_alloc(1, sizeof *c);
    ncclUniqueId id;
    settle(p);
    if (!r->rank)
        rt_nccl_must(ncclGetUniqueId(&id), "naming the ranks' meeting");
    rt_ranks_share(r, &id, sizeof id);
    rt_wait_begins(r, RT_AWAITS_RANKS);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = MG_NCCL_CHANNELS; /* those split from it have the same */
    rt_nccl_must(ncclCommInitRankConfig(&c->all, r->ranks->n, id, r->rank, &config),
                 "meeting the ranks");
    for (int i = 0; i < p->ngroups; i++)
        c->of[i] = p->groups[i] == every ? c->all : split(r, i, NULL);
    open_small(r);
    c->pipe = rt_nccl_pipe_open(r);
    rt_wait_ends(r);
    r->cuda->copies = rt_copies_open(r);
}

/* Closes the communicators. All work is done; other ranks may be gone already. */
static void close_comms(mg_run *r)
{
    rt_comms *c = r->cuda->comms;
    rt_copies_close(r->cuda->copies);
    r->cuda->copies = NULL;
    rt_nccl_pipe_close(c->pipe);
    for (int i = 0; i < r->program->ngroups; i++) {
        if (c->small[i])
            ncclCommAbort(c->small[i]);
        if (c->of[i] && c->of[i] != c->all)
            ncclCommAbort(c->of[i]);
    }
    if (c->all)
        ncclCommAbort(c->all);
    free(c);
    r->cuda->comms = NULL;
}

static double exchange_halves(mg_run *r, int rank, int64_t bytes)
{
    cudaStream_t s = r->cuda->stream;
    const ncclComm_t all = r->cuda->comms->all;
    rt_device_wait(r);
    const int64_t began = rt_now_ns();
    rt_nccl_must(ncclGroupStart(), "an exchange of two ranks");
    rt_nccl_must(ncclSend(r->arena, (size_t)bytes, ncclUint8, rank, all, s), "sending");
    rt_nccl_must(ncclRecv(r->arena + bytes, (size_t)bytes, ncclUint8, rank, all, s), "taking");
    rt_nccl_must(ncclGroupEnd(), "an exchange of two ranks");
    rt_device_wait(r);
    return 1e-9 * (double)(rt_now_ns() - began);
}

static int version(void)
{
    int n = 0;
    rt_nccl_must(ncclGetVersion(&n), "asking for the version");
    return n;
}

const struct mg_collectives mg_nccl = {open_comms, close_comms, exchange_halves, version};

/* ---- one collective ----------------------------------------------------------------------- */

typedef struct call {
    mg_run *r;
    const mg_comm_desc *d;
    ncclComm_t comm;
    int me; /* place in the group */
    int64_t width;
    char *came; /* work space behind the data to send */
} call;

static ncclComm_t comm_of(const mg_run *r, const mg_comm_desc *d)
{
    const rt_comms *c = r->cuda->comms;
    for (int i = 0; i < r->program->ngroups; i++)
        if (r->program->groups[i] == d->axes && (!d->small || c->small[i]))
            return d->small ? c->small[i] : c->of[i];
    rt_die(RT_MISFIT, "the program has no group along axes %#x%s: compile it again", d->axes,
           d->small ? " for small collectives" : "");
}

static ncclDataType_t number(mg_dtype t)
{
    static const ncclDataType_t types[] = {
        [MG_F32] = ncclFloat32,    [MG_F64] = ncclFloat64,     [MG_BF16] = ncclBfloat16,
        [MG_F16] = ncclFloat16,    [MG_I32] = ncclInt32,       [MG_I64] = ncclInt64,
        [MG_BOOL] = ncclUint8,     [MG_E4M3] = ncclUint8,      [MG_E5M2] = ncclUint8,
        [MG_DYNAMIC8] = ncclUint8, [MG_UDYNAMIC8] = ncclUint8, [MG_E8M0] = ncclUint8,
        [MG_U8] = ncclUint8};
    return types[t];
}

static int64_t greatest_word(int64_t bytes, const void *a, const void *b)
{
    int64_t word = 16;
    while (bytes % word || (uintptr_t)a % (uintptr_t)word || (uintptr_t)b % (uintptr_t)word)
        word /= 2;
    return word;
}

/* The same as struct mg_laying of kernels/cuda/shares.h. */
typedef struct laying {
    int64_t first, count, n, rows, row;
    int32_t zigzag, cut;
} laying;

/* Packs shares [first, first + count) of a tensor one after another, or unpacks them. */
static void lay(const call *c, const mg_share *s, int64_t first, int64_t count, bool cut, void *to,
                const void *from)
{
    enum { BLOCK = 256, WIDE = 64, HIGH = 65535 };
    const int zigzag = c->d->zigzag;
    const int64_t word = greatest_word(zigzag ? s->row / 2 : s->row, to, from);
    laying l = {first, count, c->d->n, s->rows, s->row / word, zigzag, cut};
    int64_t across = (l.row + BLOCK - 1) / BLOCK, down = count * s->rows;
    int kind = 0;
    while (16 >> kind > word)
        kind++;
    rt_cuda_call(c->r, FIXED_lay + kind, across < WIDE ? across : WIDE, down < HIGH ? down : HIGH,
                 BLOCK, (void *[]){&l, &to, &from});
}

/* Sends piece i of x, of give[i] bytes, to rank i, and receives piece i of y, of take[i] bytes,
 * from it. */
static void exchange(const call *c, const char *x, char *y, const int64_t *give,
                     const int64_t *take)
{
    cudaStream_t s = c->r->cuda->stream;
    rt_nccl_must(ncclGroupStart(), "an exchange");
    for (int i = 0; i < c->d->n; i++) {
        if (give[i])
            rt_nccl_must(ncclSend(x, (size_t)give[i], ncclUint8, i, c->comm, s), "sending");
        if (take[i])
            rt_nccl_must(ncclRecv(y, (size_t)take[i], ncclUint8, i, c->comm, s), "taking");
        x += give[i];
        y += take[i];
    }
    rt_nccl_must(ncclGroupEnd(), "an exchange");
}

static void exchange_shares(const call *c, const char *x, char *y, int64_t bytes)
{
    int64_t each[MG_RANKS_MAX];
    for (int i = 0; i < c->d->n; i++)
        each[i] = bytes;
    exchange(c, x, y, each, each);
}

/* Sums the shares that all ranks sent. */
static void sum_shares(const call *c, int64_t elements, char *y)
{
    enum { BLOCK = 256, GRID = 1 << 16 };
    int64_t n = c->d->n, blocks = (elements + BLOCK - 1) / BLOCK;
    const char *from = c->came;
    rt_cuda_call(c->r, FIXED_sum_shares + (c->d->dtype == MG_F64), blocks < GRID ? blocks : GRID, 1,
                 BLOCK, (void *[]){&n, &elements, &elements, &from, &y});
}

/* All-reduces `all` elements, at most mg_tree_elements: rank k sums the k-th of n parts (the last
 * parts may be shorter) and sends its sum to all ranks. */
static void all_reduce_some(const call *c, int64_t all, const char *x, char *y)
{
    const int64_t part = (all + c->d->n - 1) / c->d->n;
    int64_t theirs[MG_RANKS_MAX], mine[MG_RANKS_MAX], at[MG_RANKS_MAX];
    for (int i = 0; i < c->d->n; i++) {
        int64_t left = all - i * part;
        theirs[i] = (left < 0 ? 0 : left < part ? left : part) * c->width;
        at[i] = (left < 0 ? all : i * part) * c->width;
    }
    for (int i = 0; i < c->d->n; i++)
        mine[i] = theirs[c->me];
    exchange(c, x, c->came, theirs, mine);
    sum_shares(c, theirs[c->me] / c->width, y + at[c->me]);
    rt_nccl_must(ncclGroupStart(), "an all-gather");
    for (int i = 0; i < c->d->n; i++) {
        cudaStream_t s = c->r->cuda->stream;
        if (i != c->me && mine[i])
            rt_nccl_must(ncclSend(y + at[c->me], (size_t)mine[i], ncclUint8, i, c->comm, s),
                         "sending");
        if (i != c->me && theirs[i])
            rt_nccl_must(ncclRecv(y + at[i], (size_t)theirs[i], ncclUint8, i, c->comm, s),
                         "taking");
    }
    rt_nccl_must(ncclGroupEnd(), "an all-gather");
}

static void all_reduce(const call *c, const char *x, char *y)
{
    const mg_comm_desc *d = c->d;
    const int64_t all = d->outer * d->size * d->inner, limit = mg_tree_elements(d);
    if (d->piece)
        rt_copies_all_reduce(c->r, d, x, y, c->came);
    else if (!d->tree)
        rt_nccl_must(ncclAllReduce(x, y, (size_t)all, number(d->dtype), d->max ? ncclMax : ncclSum,
                                   c->comm, c->r->cuda->stream),
                     "an all-reduce");
    for (int64_t at = 0; at < all && d->tree && !d->piece; at += limit)
        all_reduce_some(c, all - at < limit ? all - at : limit, x + at * c->width,
                        y + at * c->width);
}

static void reduce_scatter(const call *c, const char *x, char *y, char *sent)
{
    mg_share s = mg_share_cut(c->d);
    if (s.gathered) {
        lay(c, &s, 0, c->d->n, true, sent, x);
        s = (mg_share){.rows = 1, .row = s.rows * s.row};
        x = sent;
    }
    if (c->d->piece) {
        rt_copies_reduce_scatter(c->r, c->d, x, y, c->came);
        return;
    }
    if (c->d->tree) {
        for (int64_t i = 0; i < s.rows; i++, x += c->d->n * s.row, y += s.row) {
            exchange_shares(c, x, c->came, s.row);
            sum_shares(c, s.row / c->width, y);
        }
        return;
    }
    rt_nccl_must(ncclGroupStart(), "a reduce-scatter");
    for (int64_t i = 0; i < s.rows; i++, x += c->d->n * s.row, y += s.row)
        rt_nccl_must(ncclReduceScatter(x, y, (size_t)(s.row / c->width), number(c->d->dtype),
                                       ncclSum, c->comm, c->r->cuda->stream),
                     "a reduce-scatter");
    rt_nccl_must(ncclGroupEnd(), "a reduce-scatter");
}

static void gather_rows(const call *c, const char *x, char *to, int64_t rows, int64_t row)
{
    rt_nccl_must(ncclGroupStart(), "an all-gather");
    for (int64_t i = 0; i < rows; i++)
        rt_nccl_must(ncclAllGather(x + i * row, to + i * c->d->n * row, (size_t)row, ncclUint8,
                                   c->comm, c->r->cuda->stream),
                     "an all-gather");
    rt_nccl_must(ncclGroupEnd(), "an all-gather");
}

static void all_gather(const call *c, const char *x, char *y)
{
    const mg_share s = mg_share_laid(c->d);
    char *to = s.gathered ? c->came : y;
    if (c->d->piece)
        rt_copies_all_gather(c->r, c->d, x, to);
    else
        gather_rows(c, x, to, s.gathered ? 1 : s.rows, s.gathered ? s.rows * s.row : s.row);
    if (s.gathered)
        lay(c, &s, 0, c->d->n, false, y, c->came);
}

static void all_to_all(const call *c, const char *x, char *y, char *sent)
{
    const mg_share cut = mg_share_cut(c->d), laid = mg_share_laid(c->d);
    if (cut.gathered)
        lay(c, &cut, 0, c->d->n, true, sent, x);
    const char *from = cut.gathered ? sent : x;
    char *to = laid.gathered ? c->came : y;
    if (c->d->piece)
        rt_copies_all_to_all(c->r, c->d, from, to);
    else
        exchange_shares(c, from, to, cut.rows * cut.row);
    if (laid.gathered)
        lay(c, &laid, 0, c->d->n, false, y, c->came);
}

static void ring_shift(const call *c, const char *x, char *y)
{
    const int n = (int)c->d->n;
    const size_t bytes = (size_t)(c->d->outer * c->d->size * c->d->inner * c->width);
    cudaStream_t s = c->r->cuda->stream;
    if (c->d->piece) {
        rt_copies_ring_shift(c->r, c->d, x, y);
        return;
    }
    rt_nccl_must(ncclGroupStart(), "a shift");
    rt_nccl_must(ncclSend(x, bytes, ncclUint8, (c->me + 1) % n, c->comm, s), "sending");
    rt_nccl_must(ncclRecv(y, bytes, ncclUint8, (c->me + n - 1) % n, c->comm, s), "taking");
    rt_nccl_must(ncclGroupEnd(), "a shift");
}

static void together(const call *c, const char *x, char *y, char *work)
{
    switch (c->d->kind) {
    case MG_ALL_REDUCE:
        all_reduce(c, x, y);
        break;
    case MG_REDUCE_SCATTER:
        reduce_scatter(c, x, y, work);
        break;
    case MG_ALL_GATHER:
        all_gather(c, x, y);
        break;
    case MG_ALL_TO_ALL:
        all_to_all(c, x, y, work);
        break;
    case MG_RING_SHIFT:
        ring_shift(c, x, y);
        break;
    case MG_BROADCAST:
        rt_nccl_must(ncclBroadcast(x, y,
                                   (size_t)(c->d->outer * c->d->size * c->d->inner * c->width),
                                   ncclUint8, c->d->root, c->comm, c->r->cuda->stream),
                     "a broadcast");
        break;
    case MG_SHARD:
        break;
    }
}

void mg_comm(mg_run *r, int action, const mg_comm_desc *d, const void *x, void *y, void *work)
{
    call c = {.r = r, .d = d, .width = mg_dtype_bytes(d->dtype)};
    c.me = rt_place_of(r->program, r->rank, d->axes);
    c.came = work ? (char *)work + mg_comm_sent(d) : NULL;
    mg_begin(r, action);
    if (d->kind == MG_SHARD) {
        const mg_share s = mg_share_cut(d);
        lay(&c, &s, c.me, 1, true, y, x);
    } else {
        c.comm = comm_of(r, d);
        rt_cuda_enter(r, action);
        rt_wait_begins(r, RT_AWAITS_RANKS); /* NCCL may wait in its first call */
        together(&c, x, y, work);
        rt_wait_ends(r);
        rt_cuda_leave(r);
    }
    mg_end(r, action);
    mg_output(r, action, y, mg_comm_elements(d), d->dtype);
}
