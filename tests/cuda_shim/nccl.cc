/* nccl.cc - the calls of NCCL: communicators, and groups of what goes between their ranks. */
#include "tests/cuda_shim/operation.h"

#include <mutex>
#include <set>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ncclComm {
    std::shared_ptr<ShimComm> comm;
    bool blocking;
    /* Of what was begun and is not known to be done; ncclInProgress: ask again. */
    std::function<ncclResult_t()> pending;
    ncclResult_t error;
};

/* Handles that are good. Those that were aborted stay as they are, since another thread may be
 * about to use one. */
static std::set<ncclComm_t> alive;
static std::vector<std::unique_ptr<ncclComm>> aborted;
static std::mutex handles;

static char last_error[256];
static int depth; /* of groups */

__attribute__((format(printf, 2, 3))) static ncclResult_t wrong(ncclResult_t result,
                                                                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return result;
}

static bool is_alive(ncclComm_t c)
{
    std::lock_guard<std::mutex> lock(handles);
    return alive.count(c) > 0;
}

static ncclResult_t ask(ncclComm_t c)
{
    if (c->pending) {
        const ncclResult_t result = c->pending();
        if (result == ncclInProgress)
            return result;
        c->error = result;
        c->pending = NULL;
    }
    return c->error;
}

/* May it be used? */
static ncclResult_t usable(ncclComm_t c)
{
    if (!is_alive(c))
        return wrong(ncclInvalidArgument, "that is no communicator");
    if (c->pending)
        return wrong(ncclInvalidArgument,
                     "what was begun on %s is not known to be done (ncclCommGetAsyncError)",
                     c->comm->name.c_str());
    return c->error;
}

/* ---- results ------------------------------------------------------------------------------ */

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return wrong(ncclInvalidArgument, "the version goes nowhere");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const text[ncclNumResults] = {
        "no error",
        "a call of CUDA failed",
        "a call of the system failed",
        "internal error",
        "invalid argument",
        "invalid usage",
        "remote process exited or there was a network error",
        "operation in progress"};
    return (unsigned)result < ncclNumResults ? text[result] : "no such result";
}

const char *ncclGetLastError(ncclComm_t)
{
    return last_error;
}

/* ---- making communicators ----------------------------------------------------------------- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (!id)
        return wrong(ncclInvalidArgument, "the id goes nowhere");
    return shim_segment_make(id) ? ncclSuccess : wrong(ncclSystemError, "no memory to share");
}

/* Of a configuration that may be absent. */
static ncclResult_t read_config(const ncclConfig_t *config, bool *blocking, std::string *name)
{
    if (!config)
        return ncclSuccess;
    if (config->size != sizeof *config || config->magic != 0xcafebeef)
        return wrong(ncclInvalidArgument,
                     "a configuration does not begin as NCCL_CONFIG_INITIALIZER");
    if (config->blocking != NCCL_CONFIG_UNDEF_INT) {
        if (config->blocking != 0 && config->blocking != 1)
            return wrong(ncclInvalidArgument, "blocking is 0 or 1, not %d", config->blocking);
        *blocking = config->blocking;
    }
    if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT && (config->maxCTAs < 1 || config->maxCTAs > 64))
        return wrong(ncclInvalidArgument, "maxCTAs is from 1 to 64, not %d", config->maxCTAs);
    if (config->commName)
        *name = config->commName;
    return ncclSuccess;
}

static ncclResult_t in_group()
{
    return depth ? wrong(ncclInvalidUsage, "communicators are not made within a group here")
                 : ncclSuccess;
}

/* A place in a communicator whose other ranks may not be there yet. */
static ncclResult_t join(ShimComm &c, const ncclUniqueId &id, int ranks, int rank)
{
    const char *host = getenv("NCCL_HOSTID"), *why;
    char gpu[100], number[64];
    snprintf(gpu, sizeof gpu, "%d %.80s", shim_device(), host ? host : "");
    if ((why = c.shared.join(id, ranks, rank, gpu)))
        return wrong(ncclInvalidArgument, "rank %d of %d: %s", rank, ranks, why);
    c.rank = rank;
    c.ranks = ranks;
    c.sent.resize((size_t)ranks);
    c.taken.resize((size_t)ranks);
    snprintf(number, sizeof number, "communicator %04x of %d ranks", c.shared.number(), ranks);
    c.name = c.name.empty() ? number : c.name + ", " + number;
    return ncclSuccess;
}

/* Are all there? */
static ncclResult_t joined(const ShimComm &c, const ncclUniqueId &id)
{
    int a, b;
    if (!c.shared.full())
        return ncclInProgress;
    shim_segment_close(id);
    if (c.shared.same_gpu(&a, &b))
        return wrong(ncclInvalidUsage,
                     "%s: ranks %d and %d have the same GPU (cudaSetDevice, $SHIM_GPUS)",
                     c.name.c_str(), a, b);
    return ncclSuccess;
}

static ncclComm_t new_handle(const std::string &name, bool blocking)
{
    ncclComm_t h = new ncclComm{std::make_shared<ShimComm>(), blocking, NULL, ncclSuccess};
    h->comm->name = name;
    std::lock_guard<std::mutex> lock(handles);
    alive.insert(h);
    return h;
}

static void drop(ncclComm_t h)
{
    std::lock_guard<std::mutex> lock(handles);
    alive.erase(h);
    delete h;
}

/* To its end, unless the communicator does not block. */
static ncclResult_t begin(ncclComm_t h, std::function<ncclResult_t()> pending)
{
    h->pending = pending;
    ncclResult_t result;
    while ((result = ask(h)) == ncclInProgress && h->blocking && !h->comm->aborted)
        shim_go_on();
    return result;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    static bool first = true;
    std::string name;
    bool blocking = true;
    ncclResult_t result = in_group();
    if (result == ncclSuccess)
        result = read_config(config, &blocking, &name);
    if (result != ncclSuccess || !comm)
        return result ? result : wrong(ncclInvalidArgument, "the communicator goes nowhere");
    *comm = NULL;
    if (first)
        shim_set_rank(rank);
    first = false;
    ncclComm_t h = new_handle(name, blocking);
    ShimComm *c = h->comm.get();
    result = join(*c, id, ranks, rank);
    if (result == ncclSuccess)
        result = begin(h, [c, id] { return joined(*c, id); });
    if (result == ncclSuccess || result == ncclInProgress)
        *comm = h;
    else
        drop(h);
    return result;
}

/* ---- splitting ---------------------------------------------------------------------------- */

/* Each rank says its color and key and makes memory for its part; that of the part's first rank is
 * taken. */
struct Splitting {
    Splitting(std::shared_ptr<ShimComm> whole, int its_color, int its_key)
        : parent(whole), color(its_color), key(its_key)
    {
    }
    bool leave_note();
    /* For the whole, and for the part; ncclInProgress: ask again. */
    ncclResult_t told();
    ncclResult_t made(ShimComm &part);

    std::shared_ptr<ShimComm> parent;
    const int color, key;
    ncclUniqueId own, id;
    int rank = 0, ranks = 0;
    bool known = false, is_joined = false;
};

bool Splitting::leave_note()
{
    if (!shim_segment_make(&own))
        return false;
    parent->shared.leave_note(ShimNote{color, key, own});
    return true;
}

ncclResult_t Splitting::told()
{
    if (known)
        return ncclSuccess;
    if (!parent->shared.all_notes())
        return ncclInProgress;
    const ShimNote *first = NULL;
    for (int i = 0; i < parent->ranks; i++) {
        const ShimNote &n = parent->shared.note(i);
        if (n.color != color)
            continue;
        ranks++;
        rank += n.key < key || (n.key == key && i < parent->rank);
        if (!first || n.key < first->key)
            first = &n;
    }
    id = first->id;
    if (color == NCCL_SPLIT_NOCOLOR || memcmp(&id, &own, sizeof id))
        shim_segment_close(own);
    known = true;
    return ncclSuccess;
}

ncclResult_t Splitting::made(ShimComm &part)
{
    ncclResult_t result = told();
    if (result == ncclSuccess && !is_joined) {
        result = join(part, id, ranks, rank);
        is_joined = result == ncclSuccess;
    }
    return result == ncclSuccess ? joined(part, id) : result;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config)
{
    ncclResult_t result = in_group();
    if (result == ncclSuccess)
        result = usable(comm);
    if (result != ncclSuccess)
        return result;
    if (!newcomm || color < NCCL_SPLIT_NOCOLOR)
        return wrong(ncclInvalidArgument, "a color of %d, or nowhere to put the part", color);
    std::string name;
    bool blocking = comm->blocking;
    result = read_config(config, &blocking, &name);
    if (result != ncclSuccess)
        return result;
    auto split = std::make_shared<Splitting>(comm->comm, color, key);
    *newcomm = NULL;
    if (!split->leave_note())
        return wrong(ncclSystemError, "no memory to share");
    result = begin(comm, [split] { return split->told(); });
    if (color == NCCL_SPLIT_NOCOLOR || (result != ncclSuccess && result != ncclInProgress))
        return result;
    ncclComm_t h = new_handle(name, blocking);
    ShimComm *part = h->comm.get();
    result = begin(h, [split, part] { return split->made(*part); });
    if (result == ncclSuccess || result == ncclInProgress)
        *newcomm = h;
    else
        drop(h);
    return result;
}

/* ---- the end of communicators ------------------------------------------------------------- */

/* All ranks come here, as NCCL demands of those on one machine. What they send to one that did all
 * it had to do, it will never take. NCCL waits until no graph uses the communicator any more: for
 * ever, if it is this thread that would destroy one. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    const ncclResult_t result = comm ? usable(comm) : ncclSuccess;
    if (!comm || result != ncclSuccess)
        return result;
    ShimComm &c = *comm->comm;
    while (c.turns.done < c.turns.launched && !c.aborted)
        shim_go_on();
    c.shared.leave_note(ShimNote{});
    for (bool all = false; !all && !c.aborted;) {
        all = c.shared.all_notes();
        shim_check_nothing_left(c);
        shim_go_on();
    }
    if (c.aborted)
        return ncclSuccess;
    if (c.launch.use_count() > 1) {
        fprintf(stderr, "shim: %s: rank %d destroys it before a graph that uses it\n",
                c.name.c_str(), c.rank);
        exit(99);
    }
    drop(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    std::lock_guard<std::mutex> lock(handles);
    if (comm && !alive.count(comm))
        return ncclInvalidArgument;
    if (comm) {
        comm->comm->aborted = true;
        alive.erase(comm);
        aborted.emplace_back(comm);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (!is_alive(comm) || !error)
        return wrong(ncclInvalidArgument, "that is no communicator");
    *error = ask(comm);
    if (*error == ncclInProgress)
        shim_go_on();
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    const ncclResult_t result = usable(comm);
    if (result == ncclSuccess)
        *count = comm->comm->ranks;
    return result;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    const ncclResult_t result = usable(comm);
    if (result == ncclSuccess)
        *rank = comm->comm->rank;
    return result;
}

/* ---- groups ------------------------------------------------------------------------------- */

/* Calls of a group on one communicator. */
struct Batch {
    ncclComm_t comm;
    cudaStream_t stream;
    std::vector<ShimCall> calls;
};

static std::vector<Batch> batches;
static ncclResult_t group_error;

/* A rank must receive in the same group what it sends itself. */
static bool self_is_met(const ShimComm &c, const std::vector<ShimCall> &calls)
{
    std::vector<size_t> bytes[2];
    for (const ShimCall &call : calls)
        if (call.kind >= SHIM_SEND && call.peer == c.rank)
            bytes[call.kind == SHIM_SEND].push_back(call.count * shim_type_bytes(call.type));
    return bytes[0] == bytes[1];
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

/* One launch for each communicator, or none if something of the group was wrong. */
ncclResult_t ncclGroupEnd(void)
{
    if (!depth)
        return wrong(ncclInvalidUsage, "a group ends that did not start");
    if (--depth)
        return ncclSuccess;
    std::vector<Batch> mine;
    mine.swap(batches);
    ncclResult_t result = group_error;
    group_error = ncclSuccess;
    for (const Batch &b : mine)
        if (result == ncclSuccess && !self_is_met(*b.comm->comm, b.calls))
            result =
                wrong(ncclInvalidUsage, "rank %d sends itself what it does not take in the group",
                      b.comm->comm->rank);
    if (result != ncclSuccess)
        return result;
    for (const Batch &b : mine) {
        shim_check_buffers(*b.comm->comm, b.calls);
        shim_launch_calls(b.comm->comm, b.calls, b.stream);
        if (!b.comm->blocking) {
            b.comm->pending = [] { return ncclSuccess; };
            result = ncclInProgress;
        }
    }
    return result;
}

static ncclResult_t check_call(ncclComm_t comm, const ShimCall &call, cudaStream_t s)
{
    const ncclResult_t result = usable(comm);
    const bool sums = call.kind == SHIM_ALL_REDUCE || call.kind == SHIM_REDUCE_SCATTER;
    if (result != ncclSuccess)
        return result;
    const ShimComm &c = *comm->comm;
    if (!s)
        return wrong(ncclInvalidArgument, "%s: no stream", c.name.c_str());
    if (shim_takes(s) != cudaSuccess)
        return wrong(ncclUnhandledCudaError, "%s: the capture is invalid", c.name.c_str());
    if (!shim_type_bytes(call.type) || (sums && !shim_can_reduce(call.type, call.op)))
        return wrong(ncclInvalidArgument, "%s: type %d, operation %d is not here", c.name.c_str(),
                     (int)call.type, (int)call.op);
    if (call.peer < 0 || call.peer >= c.ranks)
        return wrong(ncclInvalidArgument, "%s: there is no rank %d", c.name.c_str(), call.peer);
    if (call.count && ((call.kind != SHIM_RECV &&
                        (call.kind != SHIM_BROADCAST || call.peer == c.rank) && !call.in) ||
                       (call.kind != SHIM_SEND && !call.out)))
        return wrong(ncclInvalidArgument, "%s: no buffer", c.name.c_str());
    for (const Batch &b : batches)
        if (b.comm == comm && b.stream != s)
            return wrong(ncclInvalidUsage, "%s: two streams in one group", c.name.c_str());
    return ncclSuccess;
}

/* A call outside of a group is a group. A collective of nothing is none; a message of nothing is
 * one. */
static ncclResult_t add(ncclComm_t comm, const ShimCall &call, cudaStream_t s)
{
    const ncclResult_t result = check_call(comm, call, s);
    if (result != ncclSuccess) {
        if (depth && group_error == ncclSuccess)
            group_error = result;
        return result;
    }
    if (!call.count && call.kind < SHIM_SEND)
        return ncclSuccess;
    ncclGroupStart();
    size_t i = 0;
    while (i < batches.size() && batches[i].comm != comm)
        i++;
    if (i == batches.size())
        batches.push_back(Batch{comm, s, {}});
    batches[i].calls.push_back(call);
    return ncclGroupEnd();
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
    return add(comm, {SHIM_ALL_REDUCE, (const char *)from, (char *)to, count, type, op, 0}, s);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t recvcount, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
    return add(comm, {SHIM_REDUCE_SCATTER, (const char *)from, (char *)to, recvcount, type, op, 0},
               s);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t sendcount, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t s)
{
    return add(comm, {SHIM_ALL_GATHER, (const char *)from, (char *)to, sendcount, type, ncclSum, 0},
               s);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t s)
{
    return add(comm, {SHIM_BROADCAST, (const char *)from, (char *)to, count, type, ncclSum, root},
               s);
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t s)
{
    return add(comm, {SHIM_SEND, (const char *)from, NULL, count, type, ncclSum, peer}, s);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t s)
{
    return add(comm, {SHIM_RECV, NULL, (char *)to, count, type, ncclSum, peer}, s);
}
