/* plan.h - the program as it will run: actions in order, on bytes of one arena. Its data alone.
 *
 * The plan is the only thing that check, --plan, --schedule, --trace and the emitters read, and no
 * emitter decides anything. decide/steps.def lists the steps that make it, and plan_make
 * (decide/make.h) runs them; plan/check/check.c proves it.
 *
 * Invariants
 *   P1  an operand's bytes lie inside its buffer for every index of the loops around the action
 *   P2  a buffer is placed inside the arena of its level, and a machine has room for those of other
 *       levels of all its ranks; buffers alive at the same time do not overlap, but where one
 *       action's output takes over an input in place (Kernel.alias)
 *   P3  each read sees the bytes the program's meaning says (the value's last write)
 *   P4  nothing writes a parameter or state before the guard
 *   P5  loop begin and end are balanced; an action's loops are those around it
 *   P6  of two actions that touch the same bytes, one of them writing, the later one comes after
 *       the other in its stream, or waits for it; loops' begin and end, the guard and the last
 *       action of a program come after everything before them, and everything after them after them
 *   P7  collectives come one after the other, in the order of the program, which is that of all
 *       ranks: each waits for the one before it, whatever the axes, small ones for the small one
 *       before them; those have few bytes, and communicators of their own; and those beside a
 * pipeline's table are along axes that nothing else is along meanwhile, one after the other by
 *       themselves
 *   P8  in a pipeline nothing but what has slots is handed from one phase of a microbatch to the
 *       next, a phase touches of what it changes the layers of its stage alone, no two stages and
 *       microbatches that are under way have one slot, no message lies where another still does,
 *       and the table is a schedule (pipeline/pipeline.h); what a chunk's collectives beside the
 *       table write is touched, and what they read is written, by its phases alone, all of which
 *       come behind a wait for what is gathered, and before what is reduced
 *   P9  a GPU's graphs have the nodes that the plan says, and no item beside the arena takes more
 *       than it counts
 *   P10 the copy of a parameter is its rounding whenever a program begins: @round makes it so, and
 *       every other program leaves it so (I13 of ir/README.md, of the program as it is planned)
 *   P11 what another level of memory has is read by fetches and written by offloads alone, which
 *       have their other end on the device; but the host's by kernels, too, all of whose operands
 *       are there, and which run there
 *   P12 the two of a pair that run beside each other (PipeJoin) touch nothing of each other that
 * one of them writes, but slots of their own, and each does its own in its order */
#ifndef MGC_PLAN_H
#define MGC_PLAN_H

#include "base/device.h"
#include "ir/cost.h"
#include "ir/ir.h"
#include "plan/actions.h"
#include "runtime/abi.h"

enum { MAX_NEST = 20, MAX_OPERANDS = 24, MAX_STREAMS = 9, MAX_BEGINS = 4, PLAN_PROGRAMS = 7 };

typedef enum Owner {
    OWN_params,
    OWN_grads,
    OWN_optimizer,
    OWN_activations,
    OWN_comm,
    OWN_workspace,
    OWN_cache, /* of positions before, for texts that are generated */
    OWN_io,    /* tokens, scalars, loss, logits */
    OWN_count
} Owner;

/* Bytes that are allocated as one: an array of equal slots where loops stack values in it.
 *
 * A buffer that one phase of a pipeline hands to another has several slots (slot > 0): for stage s
 * (chunk c of its rank) and a microbatch, whose slot the table says, a place in it means `slot`
 * bytes times the slot's number further on; and where it is stacked by layers (by_layer), c times
 * less: its chunks take the places of slots. */
typedef struct Buffer {
    Name name;
    Owner owner;
    Level level;           /* whose arena it is in */
    int64_t bytes, offset; /* multiples of device_align; offset -1 until placed */
    int64_t slot;
    bool by_layer;
    StageSet at;     /* the ranks along the axis of stages that have it */
    bool persistent; /* parameters, state, inputs: alive in all programs, placed first. Caches: from
                      * a call of @prefill or @decode to the next, while no other program runs:
                      * placed behind them, first of what is alive in these programs alone */
    int program;     /* of a transient buffer: its number in Plan.programs */
    int home;        /* the loop in each iteration of which it is new; -1: the program's */
    int first, last; /* alive during these actions of its program, inclusive; a value that
                        crosses a loop's iterations is alive in the whole loop */
    Value value;     /* what it was made for, 0: workspace */
    Span span;
} Buffer;

/* Is it alive in all programs? */
static inline bool buffer_always(const Buffer *b)
{
    return b->persistent && b->owner != OWN_cache;
}

/* A byte address: offset + sum of stride * index of the loop, inside a buffer. */
typedef struct Place {
    uint32_t buffer;
    int64_t offset;
    int nloops;
    struct {
        uint32_t loop;
        int64_t stride;
    } loop[MAX_NEST];
} Place;

/* An operand of an action: a strided tensor at a place. Strides are in elements, per dim of the
 * type; dense row-major unless it is a view. */
typedef struct Operand {
    Place at;
    Type type;
    int64_t stride[MAX_RANK];
    bool read, write;
    Value value; /* the IR value held there; 0 for workspace */
} Operand;

typedef struct Loop {
    Dim dim;        /* name and number of iterations */
    bool reverse;   /* the index runs from size - 1 to 0 */
    int parent;     /* index of the loop around it, or -1 */
    int begin, end; /* its ACT_loop and ACT_end */
    double seconds; /* predicted, one iteration */
} Loop;

/* A generated kernel. Several actions share one if their fused bodies, types, strides and aliases
 * are equal. Its pointers are the operands of the action, in order: inputs, outputs, and for
 * partial sums the workspace. */
typedef enum KernelPhase {
    PHASE_whole,   /* map, row; col whose outer dims are kept: one kernel does it all */
    PHASE_partial, /* col: `chunks` units, unit c sums its share of the outermost reduced dim(s).
                      Operands: the nin inputs, then per result a workspace partial[c, kept dims]
                      (dense, in the order of the result's dims, of the result's dtype) */
    PHASE_combine  /* col: partial[chunks, kept] summed in order of chunk. Operands: the nout
                      workspaces, then the nout results */
} KernelPhase;

typedef struct Kernel {
    Name name;      /* unique C identifier: "k_rmsnorm" */
    const Ins *ins; /* the fused instruction it was made from */
    KernelPhase phase;
    Level level; /* of its operands: where it runs */
    int64_t chunks;
    int nin, nout;                 /* of the fused instruction */
    Operand operand[MAX_OPERANDS]; /* types and strides; places are those of the first user */
    int noperands;
    int8_t alias[MAX_OPERANDS]; /* output j (index among operands) is input alias[j], or -1 */
    int64_t columns;            /* of the product it goes on with (mg_gemm_epilogue); 0: of none */
    int64_t units, grain;       /* as for mg_launch; set by codegen's nest analysis */
} Kernel;

typedef struct Action {
    ActionKind kind;
    uint32_t id;     /* index in mg_main.actions (loops have none: UINT32_MAX) */
    uint32_t loop;   /* ACT_loop, ACT_end: index in Program.loops */
    uint32_t kernel; /* ACT_kernel: index in Plan.kernels */
    int epilogue;    /* ACT_gemm: the operands from this one on are those of kernel `kernel`, which
                    goes on with what the product gives, piece by piece; 0: none does */
    int around;      /* innermost loop around it, or -1 */
    StageSet on;     /* the ranks along the axis of stages that do it: in a pipeline, of stages (the
                        first, the last, those between) */
    bool within;     /* attention and its gradient: there is the first key of each query */
    /* A product or a head that adds: when these loops around it are all in their first iterations,
     * nobody has written there yet, and it writes (action_begins). 0: it adds always. */
    int nbegins;
    uint32_t begins[MAX_BEGINS];
    /* A collective beside a pipeline's table (Pipe.behind): 1 + the chunk of its rank that it
     * gathers or reduces; 0: it is none. */
    int chunk;
    bool near;    /* a collective of ranks of one machine, in a stream of its own (near.c) */
    int joined;   /* in PipeJoin.body: 1 + the phase that it is of; 0: it stands elsewhere */
    int way;      /* receive, send: 0 forward, 1 back; */
    int64_t part; /* and where in the message it lies, bytes */
    union {
        mg_gemm_desc gemm;
        mg_conv_desc conv;
        mg_attention_desc attention;
        mg_xent_desc xent;
        mg_head_desc head;
        mg_gather_desc gather;
        mg_top_desc top;
        mg_experts_desc experts;
        mg_grouped_desc grouped;
        mg_tile_scale_desc tile_scale;
        mg_round_tiles_desc round_tiles;
        mg_random_desc random;
        mg_comm_desc comm;
        int64_t bytes; /* copy, fetch, offload, zero, receive, send */
    };
    /* In the order of the runtime's arguments (abi.h): gemm a b c, and bias or sums; conv x w y
     * work; attention q k v o lse, then the bias, seen, of a part of the keys, and first, if
     * `within`; attention_grad: q k v o lse do dq dk dv, the same bias, seen and first, and of
     * halves work; attention_bias_grad: q k v o lse do, the bias's gradient, the same bias and so
     * on; head: x w target dloss loss dx dw work, without dw if w is
     * frozen; head_loss: x w target loss work; dispatch,
     * combine: the weight, if there is one, before the result; grouped: z w end y; grouped_weight:
     * z y end w. */
    int noperands;
    Operand *operand;
    uint8_t stream;
    /* Per other stream: 1 + index of the action to wait for, 0: none. It stands between the same
     * loops' ends and guards, or, where collectives are a queue, anywhere in the program: what is
     * waited for is the last time it began, and what began before that. */
    uint32_t wait[MAX_STREAMS];
    double seconds, flops, bytes_moved; /* predicted, one execution */
    double times;                       /* executions a step; in a pipeline of a rank on average */
    /* Predicted, since the iteration of the loop around it began, or the program; `exposed`: of a
     * collective's time, that in which nothing runs beside it; of a transfer's, in which nothing
     * computes or is sent. */
    double begin, end, exposed;
    Name name; /* "layers.attend.q" */
    Span span;
    Name path, block;
    bool backward, again; /* as of its instruction */
} Action;

/* The first action from number `at` on that is not beside a pipeline's table. */
static inline size_t actions_from(const Action *a, size_t n, size_t at)
{
    while (at < n && a[at].chunk)
        at++;
    return at;
}
/* The begin or end of a loop or a phase: such an action does nothing itself. */
static inline bool action_is_mark(const Action *a)
{
    return kind_is_mark(a->kind);
}
/* An action that adds, as it is where it writes: its descriptor then. */
static inline Action action_begins(const Action *a)
{
    Action b = *a;
    if (a->kind == ACT_head)
        b.head.dw_accumulate = false;
    else
        b.gemm.beta = 0;
    return b;
}
/* Does it bring something from another level of memory, or take it there? */
static inline bool action_transfers(const Action *a)
{
    return a->kind == ACT_fetch || a->kind == ACT_offload;
}
/* A kernel that runs on the host of a GPU, where its operands are. */
static inline bool action_on_host(const Action *a)
{
    return a->kind == ACT_kernel && a->operand[0].type.level == LEVEL_host;
}
/* Does the device do nothing for it? */
static inline bool action_is_beside(const Action *a)
{
    return action_transfers(a) || action_on_host(a);
}
/* The level at its far end. */
static inline Level action_level(const Action *a)
{
    return a->operand[a->kind == ACT_offload].type.level;
}
/* Bytes of all levels in one order: where a buffer begins. */
static inline int64_t buffer_address(const Buffer *b)
{
    return MG_FAR(b->level, b->offset);
}
/* The iteration with which a loop begins. */
static inline int64_t loop_first(const Loop *l)
{
    return l->reverse ? l->dim.size - 1 : 0;
}
/* Is it attention, or a gradient of it? */
static inline bool action_attends(const Action *a)
{
    return a->kind == ACT_attention || a->kind == ACT_attention_grad ||
           a->kind == ACT_attention_bias_grad;
}

/* A collective among ranks. */
static inline bool action_sends(const Action *a)
{
    return a->kind == ACT_comm && a->comm.kind != MG_SHARD;
}

struct PipeProgram;
struct Program;

/* The F of one microbatch and the B of another, a pair of a table (mg_pipe_op.with), run beside
 * each other: what stands before the loops over layers of both; then as many layers of the one,
 * forward, as of the other, back, a layer of each at once, as `body` says; then the layers that one
 * has more; then what stands behind. `body` is one stretch, between the begin and the end of a loop
 * that has no other use: the actions of an iteration of both loops, each in streams of this order.
 * As the phases touch no byte of each other, but in slots, of which each has its own, that is what
 * they compute one after the other (P12). */
typedef struct PipeJoin {
    int loop[2];          /* the loops over layers, of F and of B */
    struct Program *body; /* its numbers of loops are the program's */
    int *from;            /* of its actions: which of the program it is; -1: a mark */
    double hides;         /* predicted: seconds by which `body` is shorter than both */
} PipeJoin;

/* How the microbatches of a step run on several ranks: each is cut into phases (F; B,
 * or I and W), which a table puts in order. Without it they would run one after the other,
 * each from its first stage to its last and back. */
enum { PIPE_PHASES = 3 };
/* Collectives that a step makes once may run beside its table, in a stream of their own. Those that
 * gather parameters are the program's first `ahead` actions, chunk by chunk; a chunk's have ended
 * before its first phase. Those that reduce gradients are the `behind` actions right behind the
 * loop: a chunk's begin when its last phase is over, and all have ended when the loop has. */
typedef struct Pipe {
    int ahead, behind;
    int loop;               /* over microbatches */
    int phases;             /* 1: forward alone; 2: F and B; 3: F, I, W */
    int begin[PIPE_PHASES]; /* their ACT_phase */
    Axes axis;
    int ranks, stages;
    double message_seconds; /* predicted, of one */
    /* The table by rank, each row with an MG_PIPE_END; how many slots and buffers of messages
     * (forward and back) it needs: of each rank, of the one that needs most. */
    mg_pipe_op **ops;
    int *slots, sends[2], receives[2];
    const struct PipeProgram *program; /* what it was made from: pipeline/pipeline.h */
    double step, bubble; /* predicted: seconds of all microbatches, the part of them in which
                            ranks are idle */
    int64_t message[2], stride[2]; /* bytes of one, forward and back; from one buffer to the next */
    uint32_t sent[2], received[2]; /* Plan.buffers; where there are messages */
    uint32_t send_id[2],
        receive_id[2];     /* of a ACT_send and ACT_receive: stand for the message, too */
    struct PipeJoin *join; /* how the two of a pair run beside each other; NULL: they do not */
} Pipe;

typedef struct Program {
    const Fn *fn;
    VEC(Action) actions;
    VEC(Loop) loops;
    Pipe *pipe; /* NULL: none */
    /* Inputs and results for the runtime: buffer numbers, or -1 (see mg_entry). */
    int tokens, weights, documents, scale, step, seed, pos, filled, before, begin, count, logits;
    int lr[MAX_GOALS], loss[MAX_GOALS], norm[MAX_GOALS]; /* per Train.goal */
    int dropped;             /* the share of rows that were dropped, or -1 */
    VEC(int) totals;         /* buffers by the number of a total, each in place */
    int input[MAX_INPUTS];   /* per Module.inputs */
    int metric[MAX_METRICS]; /* per Module.metrics */
    struct {
        Axes axes;
        int buffer;
    } place[MG_PLACES_MAX]; /* where the program reads the rank's place along some axes */
    int nplaces;
    int64_t batch, window; /* sequences that a rank takes at once, in microbatches of `rows` */
    int64_t rows;
    Axes batch_axes; /* over which the others of a microbatch are */
    double seconds;  /* predicted, loops multiplied out */
    double busy;     /* the actions' own, of all streams */
    double again;    /* of those: for what is computed once more than the model says */
    double flops;    /* of the model: not of what is computed again */
    bool queued;     /* collectives are a queue, which goes on beside all that runs (queue.c) */
    int64_t peak, live_bound; /* transient bytes: as placed, and the largest live set */
    int peak_action;
} Program;

/* Bytes of a GPU beside the arena (outside.c), by what takes them; on a host none, for the runtime
 * counts what is beside the arena there when it starts. */
typedef enum OutsideItem {
    OUT_context,  /* of CUDA, with the stacks of all threads */
    OUT_code,     /* kernels of the program and of the libraries */
    OUT_products, /* work space of products */
    OUT_graphs,   /* nodes of the CUDA graphs */
    OUT_comms,    /* communicators of collectives, and their connections */
    OUT_small,    /* ... of small ones */
    OUT_messages, /* the communicator of messages between stages, and its connections */
    OUT_count
} OutsideItem;

typedef struct Nodes {
    int64_t before, after; /* the guard: one graph each */
} Nodes;

typedef struct Outside {
    int64_t bytes[OUT_count];
    int64_t piece;             /* of collectives by copies, the largest; 0: there are none */
    mg_links links[OUT_count]; /* from which the bytes of comms and messages are */
    /* Of a program, by the place along the axis of stages (`places`; 1: none): nodes of its
     * graphs, should the library have all epilogues of products. NULL: no such program. */
    int places;
    Nodes *nodes[PLAN_PROGRAMS];
    int64_t most[PLAN_PROGRAMS]; /* nodes of both graphs at most; 0: the program is not captured */
} Outside;

/* Does program number k go on from caches? */
static inline bool program_has_caches(int k)
{
    enum { PREFILL = 4, DECODE, SPREAD };
    return k == PREFILL || k == DECODE || k == SPREAD;
}

/* The first action behind a program's pipeline and what is reduced beside it. */
static inline int pipe_behind(const Program *g)
{
    return g->loops.data[g->pipe->loop].end + 1 + g->pipe->behind;
}

typedef struct Plan {
    Module *module;
    const Device *device;
    const char *cpu; /* processor of the program, by --cpu's name; NULL: the machine's */
    VEC(Buffer) buffers;
    VEC(Kernel) kernels;
    VEC(int) tensor_buffer; /* per Module.tensors: its buffer */
    VEC(int) cache_buffer; /* per number of a cache: its buffer, of @prefill, @decode and @spread */
    union {
        struct {
            Program *train, *eval, *sample, *round, *prefill, *decode, *spread; /* NULL: none */
        };
        Program *programs[PLAN_PROGRAMS]; /* in this order */
    };
    int64_t arena_bytes, persistent_bytes, live_bound_bytes;
    int64_t cache_bytes; /* behind the persistent ones, in programs with caches */
    bool compared;       /* with others alone: it does not run, and that its pipeline goes on is not
                          * proved */
    bool rough;          /* the arena is no tighter than it has to be to fit, if it can */
    int64_t level_bytes[LEVEL_count]; /* arenas of the other levels */
    int64_t scratch_bytes;            /* per thread, beside the arena */
    Outside outside;
    int64_t memory[OWN_count]; /* bytes by owner at the peak */
    int64_t unfrozen_bytes;    /* for people, beside an adapter: of the program that trains all
                                * parameters, on a device with room for it; 0: unknown */
    uint32_t nactions;
} Plan;

/* Does a kernel run on a processor: of a program for it, or on the host of a GPU? */
static inline bool kernel_on_processor(const Plan *p, const Kernel *k)
{
    return p->device->target == TARGET_host || k->level == LEVEL_host;
}
/* Kernels of a GPU's program that run on its host. */
static inline size_t plan_host_kernels(const Plan *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->kernels.n; i++)
        n += p->kernels.data[i].level == LEVEL_host;
    return n;
}

#endif
