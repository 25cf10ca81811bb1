/* pipe.c - passes messages between the stages of a pipeline, with NCCL.
 *
 * Messages have their own stream, and their own communicator along the stage axis, so that they run
 * concurrently with computation and with collectives of other axes. Messages that begin together
 * form one group, an issue. An issue begins after all work launched before it in the computing
 * stream, and after earlier issues. A wait for a message makes the computing stream wait for the
 * message's issue; the host does not wait. A captured step has all of this in its graph: the
 * message stream joins the capture through the event before an issue, and is joined back by the
 * last wait of a table, which waits for all messages.
 *
 * The GPU writes its marks (rt_cuda_enter) around the wait, in the computing stream: a receive that
 * began early does not hold up its rank, and does not tell which rank is late. */
#include <stdlib.h>

#include "runtime/cuda/nccl_comms.h"
#include "runtime/machine.h"

/* Messages of a kind, and issues, that may be in flight. */
enum { KINDS = 4, MESSAGES = 512, ISSUES = 512 };

struct rt_pipe {
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t before;        /* the event that an issue waits for */
    cudaEvent_t ended[ISSUES]; /* by issue number modulo ISSUES; NULL: not created yet */
    int64_t issues;            /* begun in this table */
    int64_t waited;            /* stream `at` has waited for all issues before this number */
    int at;
    struct {
        int64_t issue[MESSAGES];
        unsigned first, n;
    } begun[KINDS]; /* not yet waited for */
    int with;       /* number of next operations that have begun already */
};

/* Makes the connections between neighbours. NCCL makes them at the first message and makes the host
 * wait, so all ranks exchange a byte here. */
static void connect(mg_run *r, const struct rt_pipe *p, int n)
{
    const int me = rt_place_of(r->program, r->rank, r->program->stages.axis);
    void *byte;
    rt_cuda_must(cudaMalloc(&byte, 4), "memory to meet neighbours");
    rt_nccl_must(ncclGroupStart(), "meeting neighbours");
    for (int way = 0; way < 2; way++) {
        const int to = (me + (way ? n - 1 : 1)) % n, from = (me + (way ? 1 : n - 1)) % n;
        char *at = (char *)byte + 2 * way;
        rt_nccl_must(ncclSend(at, 1, ncclUint8, to, p->comm, p->stream), "meeting neighbours");
        rt_nccl_must(ncclRecv(at + 1, 1, ncclUint8, from, p->comm, p->stream),
                     "meeting neighbours");
    }
    rt_nccl_must(ncclGroupEnd(), "meeting neighbours");
    rt_cuda_must(cudaStreamSynchronize(p->stream), "meeting neighbours");
    rt_cuda_must(cudaFree(byte), "meeting neighbours");
}

struct rt_pipe *rt_nccl_pipe_open(mg_run *r)
{
    const mg_program *program = r->program;
    const uint32_t axis = program->stages.axis, every = ((uint32_t)1 << program->naxes) - 1;
    if (!axis)
        return NULL;
    struct rt_pipe *p = rt_alloc(1, sizeof *p);
    rt_nccl_must(ncclCommSplit(r->cuda->comms->all, rt_place_of(program, r->rank, every & ~axis),
                               rt_place_of(program, r->rank, axis), &p->comm, NULL),
                 "meeting the ranks along the axis of stages");
    rt_cuda_must(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking), "making a stream");
    rt_cuda_must(cudaEventCreateWithFlags(&p->before, cudaEventDisableTiming), "making an event");
    connect(r, p, rt_ranks_of(program, axis));
    return p;
}

void rt_nccl_pipe_close(struct rt_pipe *p)
{
    if (!p)
        return;
    ncclCommAbort(p->comm);
    for (int i = 0; i < ISSUES; i++)
        if (p->ended[i])
            cudaEventDestroy(p->ended[i]);
    cudaEventDestroy(p->before);
    cudaStreamDestroy(p->stream);
    free(p);
}

const mg_pipe_op *mg_pipe_ops(mg_run *r, const mg_pipe *p)
{
    struct rt_pipe *s = r->cuda->comms ? r->cuda->comms->pipe : NULL;
    if (!s || p->axis != r->program->stages.axis)
        rt_die(RT_MISFIT, "this program has a pipeline without stages: compile it again");
    s->with = 0;
    s->issues = s->waited = 0;
    return p->ops[mg_place(r, p->axis)];
}

/* ---- beginning ---------------------------------------------------------------------------- */

static void call_nccl(mg_run *r, const mg_pipe *p, const mg_pipe_op *o)
{
    const struct rt_pipe *s = r->cuda->comms->pipe;
    const int n = rt_ranks_of(r->program, p->axis), me = mg_place(r, p->axis);
    const bool takes = o->step == MG_PIPE_RECV_F || o->step == MG_PIPE_RECV_B;
    const int way = o->step == MG_PIPE_SEND_B || o->step == MG_PIPE_RECV_B;
    const int peer = (me + (takes == way ? 1 : n - 1)) % n;
    const size_t bytes = (size_t)p->bytes[way];
    if (takes)
        rt_nccl_must(ncclRecv(r->arena + p->receive[way] + o->in * p->stride[way], bytes, ncclUint8,
                              peer, s->comm, s->stream),
                     "receiving");
    else
        rt_nccl_must(ncclSend(r->arena + p->send[way] + o->out * p->stride[way], bytes, ncclUint8,
                              peer, s->comm, s->stream),
                     "sending");
}

/* The event of an issue, created in a program's first run, which no graph captures. */
static cudaEvent_t ended(struct rt_pipe *s, int64_t issue)
{
    cudaEvent_t *e = &s->ended[issue % ISSUES];
    if (!*e)
        rt_cuda_must(cudaEventCreateWithFlags(e, cudaEventDisableTiming), "making an event");
    return *e;
}

static void remember(struct rt_pipe *s, int kind)
{
    const unsigned at = s->begun[kind].first + s->begun[kind].n++;
    s->begun[kind].issue[at % MESSAGES] = s->issues;
    if (s->begun[kind].n > MESSAGES || s->issues - s->waited >= ISSUES)
        rt_die(RT_FAILED, "more than %d messages of a pipeline were begun", MESSAGES);
}

static void begin(mg_run *r, const mg_pipe *p, const mg_pipe_op *o)
{
    struct rt_pipe *s = r->cuda->comms->pipe;
    const int action = p->action[o->step - MG_PIPE_SEND_F];
    mg_begin(r, action);
    rt_cuda_must(cudaEventRecord(s->before, r->cuda->stream), "recording an event");
    rt_cuda_must(cudaStreamWaitEvent(s->stream, s->before, 0), "waiting for an event");
    rt_wait_begins(r, RT_AWAITS_RANKS);
    rt_nccl_must(ncclGroupStart(), "messages between stages");
    for (int i = 0; i <= o->with; i++) {
        call_nccl(r, p, o + i);
        remember(s, o[i].step - MG_PIPE_SEND_F);
    }
    rt_nccl_must(ncclGroupEnd(), "messages between stages");
    rt_wait_ends(r);
    rt_cuda_must(cudaEventRecord(ended(s, s->issues++), s->stream), "recording an event");
    mg_end(r, action);
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* Waits for the oldest message of a kind. Issues end in order, so a wait for an issue covers all
 * earlier ones. */
static void finish(mg_run *r, const mg_pipe *p, int kind)
{
    struct rt_pipe *s = r->cuda->comms->pipe;
    const int k = kind - MG_PIPE_SEND_F, action = p->action[k];
    if (!s->begun[k].n)
        rt_die(RT_MISFIT, "a pipeline waits for a message that it has not begun");
    const int64_t issue = s->begun[k].issue[s->begun[k].first++ % MESSAGES];
    s->begun[k].n--;
    mg_begin(r, action);
    if (issue >= s->waited || s->at != r->cuda->at) {
        rt_cuda_enter(r, action);
        rt_cuda_must(cudaStreamWaitEvent(r->cuda->stream, ended(s, issue), 0),
                     "waiting for an event");
        rt_cuda_leave(r);
        s->waited = issue + 1;
        s->at = r->cuda->at;
    }
    mg_end(r, action);
}

void mg_pass(mg_run *r, const mg_pipe *p, const mg_pipe_op *o)
{
    struct rt_pipe *s = r->cuda->comms->pipe;
    if (o->step == MG_PIPE_WAIT) {
        finish(r, p, o->of);
    } else if (s->with) {
        s->with--;
    } else {
        begin(r, p, o);
        s->with = o->with;
    }
}
