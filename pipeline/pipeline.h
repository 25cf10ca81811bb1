/* pipeline.h - the schedule of a pipeline as data: made or read, lowered, proved, timed, shown.
 *
 * The layers of a model are cut into S = p v stages over p ranks, v chunks a rank. Stage s is chunk
 * s / p of its rank, by the placement (mg_placement): in a loop rank s mod p; in a V of two chunks
 * rank s, and on the way back rank 2p - 1 - s. A step takes m microbatches forward through all
 * stages and back. A table has one row a rank: the actions it takes, one after another. As text:
 *
 *   2F5   forward of stage 2, microbatch 5          2B5   its backward, whole
 *   2I5   of the backward the input's gradient      2W5   the rest: the weights' gradients
 *
 * Stage s sends what its F makes to stage s + 1, and what its B or I makes to stage s - 1. If that
 * is another rank, the message is 2SEND_F5 there and 3RECV_F5 here: the names have the stage of the
 * rank that they stand on. If it is the same rank (the only one, or the last of a V), one action
 * needs the other in its row, and there is no message. Whatever crosses a boundary of stages one
 * way has the same bytes, so messages that agree in boundary, direction and microbatch agree in
 * bytes.
 *
 * A table is a schedule if
 *
 *   T1  an action is of a stage of its rank, 0 <= stage < S, 0 <= microbatch < m;
 *   T2  each stage and microbatch has one F, and either one B or one I and one W (F alone, if
 *       nothing goes back);
 *   T3  in a row an action stands behind those of the row that it needs: B and I behind F, W behind
 *       I; F behind the F of the stage before, if that is on the same rank; B and I likewise behind
 *       that of the stage after;
 *   T4  there are no sends and receives in it at all, and then they are derived (lower.c); or each
 *       message is sent once, behind the action that makes it, and received once, before the one
 *       that needs it;
 *   T5  from one rank to another messages are received in the order in which they are sent: nothing
 *       but that order says which is which;
 *   T6  nobody waits for himself, where a send ends only with its receive and the other way round
 *       (rendezvous: nothing is buffered), with whatever queues a rank has (PipeQueues).
 *
 * T1 to T4 are seen in the rows (complete.c), T5 and T6 in what is lowered (proof.c). Everything is
 * linear in the number of actions, and that is bounded.
 *
 * A pair, an F and the B or I of another microbatch behind it, overlaps: it begins when what both
 * need is there, and both end together. */
#ifndef MGC_PASSES_PIPELINE_H
#define MGC_PASSES_PIPELINE_H

#include "base/diag.h"
#include "runtime/abi.h"

enum {
    PIPE_RANKS_MAX = 256,
    PIPE_STAGES_MAX = 4096,
    PIPE_MICROBATCHES_MAX = 65536,
    PIPE_CELLS_MAX = 1 << 18, /* stages times microbatches */
};

typedef enum PipeKind {
    PIPE_F,
    PIPE_B,
    PIPE_I,
    PIPE_W,
    PIPE_SEND_F,
    PIPE_RECV_F,
    PIPE_SEND_B,
    PIPE_RECV_B,
    PIPE_KINDS, /* of a table that is read or made; what follows is put in (PipeTable.unshards) */
    PIPE_UNSHARD = PIPE_KINDS,
    PIPE_REDUCE
} PipeKind;

typedef struct PipeAction {
    PipeKind kind;
    int stage, microbatch;
    uint32_t at; /* the byte of the file where it stands; 0 without a file */
    bool pair;   /* of an F: it overlaps with the B or I of another microbatch behind it */
} PipeAction;

typedef VEC(PipeAction) PipeRow;

typedef struct PipeTable {
    const char *name;
    int ranks, stages, microbatches; /* ranks divides stages */
    mg_placement placement;          /* MG_V: stages are 2 ranks */
    bool comms;                      /* sends and receives are in it */
    bool forward;                    /* nothing goes back: of each cell F alone */
    /* Each stage's parameters are gathered before its first F, its gradients reduced behind its
     * last B or W, beside what the rank computes: lower.c puts that in. */
    bool unshards, reduces;
    uint32_t file;    /* 0: made, not read */
    PipeRow *row;     /* a rank */
    uint32_t *row_at; /* byte of the file where it begins */
} PipeTable;

/* "2SEND_F5" for messages. */
typedef struct PipeName {
    char text[32];
} PipeName;
PipeName pipe_name(PipeAction a);
const char *pipe_kind(PipeKind k);
Span pipe_span(const PipeTable *t, PipeAction a);

static inline bool pipe_computes(PipeKind k)
{
    return k <= PIPE_W;
}

/* How many actions of a row begin together at an index. */
static inline size_t pipe_together(const PipeRow *row, size_t i)
{
    return row->data[i].pair && i + 1 < row->n ? 2 : 1;
}

static inline bool pipe_sends(PipeKind k)
{
    return k == PIPE_SEND_F || k == PIPE_SEND_B;
}

static inline int pipe_rank(const PipeTable *t, int stage)
{
    return mg_rank_of_stage(t->placement, t->ranks, stage);
}

/* The stage that is a chunk of a rank, of stages / ranks chunks. */
static inline int pipe_stage(const PipeTable *t, int rank, int chunk)
{
    return mg_stage_of_rank(t->placement, t->ranks, rank, chunk);
}

/* The cell of a stage and a microbatch. */
static inline size_t pipe_cell(const PipeTable *t, int stage, int microbatch)
{
    return (size_t)stage * (size_t)t->microbatches + (size_t)microbatch;
}

static inline size_t pipe_cells(const PipeTable *t)
{
    return (size_t)t->stages * (size_t)t->microbatches;
}

/* The send that takes what an action makes to another rank, and the receive that brings what it
 * needs. False: there is none. */
bool pipe_send_of(const PipeTable *t, PipeAction a, PipeAction *send);
bool pipe_recv_of(const PipeTable *t, PipeAction a, PipeAction *recv);
/* The other end of a send or receive; its stage may be one that there is not. */
PipeAction pipe_peer(PipeAction a);

/* ---- table.c: those built in ---------------------------------------------------------------- */

typedef enum PipeSchedule {
    PIPE_GPIPE,
    PIPE_1F1B,
    PIPE_INTERLEAVED,
    PIPE_ZB_H1,
    PIPE_ZB_V,
    PIPE_DUALPIPE_V,
    PIPE_SCHEDULES
} PipeSchedule;

const char *pipe_schedule_name(PipeSchedule s);
/* All names, with commas between them. */
const char *pipe_schedule_names(Arena *a);
/* The chunks of a rank: interleaved can have more. */
int pipe_schedule_chunks(PipeSchedule s);

typedef struct PipeForm {
    PipeSchedule schedule;
    int ranks, chunks, microbatches;
    int group;  /* interleaved: microbatches that a chunk takes in turn; 0: as many as ranks */
    bool pairs; /* 1f1b, interleaved: each F beside the B behind it, and one F more before them */
} PipeForm;

/* NULL after telling which numbers would do. */
PipeTable *pipe_make(Arena *a, Diag *d, const PipeForm *f);
/* Whether there is such a schedule; and the number of microbatches nearest to the form's, above
 * (step 1) or below (-1), of which there is one; 0: none. */
bool pipe_legal(const PipeForm *f);
int pipe_legal_microbatches(const PipeForm *f, int step);

/* Forward alone, in a loop; of numbers that are in range. A chunk takes microbatches in groups of
 * as many as ranks. */
PipeTable *pipe_make_forward(Arena *a, int ranks, int chunks, int microbatches);

/* Microbatches whose activations a rank holds at once, at most, counted by chunk: from F to B, or
 * to I; and what W needs of them, from F to W (or B). */
typedef struct PipeHeld {
    int to_input, to_weight;
} PipeHeld;
PipeHeld pipe_held(const PipeTable *t, int rank);

/* ---- text.c: PyTorch's grammar of actions --------------------------------------------------- */

/* NULL after telling what is wrong. What is read is of T1's bounds, and the rows are as many as
 * ranks; nothing else is known of it. */
PipeTable *pipe_read(Arena *a, Diag *d, uint32_t file);
void pipe_print(const PipeTable *t, FILE *out);

/* ---- complete.c ----------------------------------------------------------------------------- */

/* T1 to T4. False after telling where they are broken. */
bool pipe_complete(const PipeTable *t, Diag *d);

/* ---- lower.c: what runs --------------------------------------------------------------------- */

typedef enum PipeStep {
    PIPE_COMPUTE, /* F, B, I or W */
    PIPE_START,   /* a send or a receive begins */
    PIPE_BESIDE,  /* a stage's parameters begin to be gathered, or its gradients to be reduced */
    PIPE_WAIT     /* what was begun has ended */
} PipeStep;

typedef struct PipeOp {
    PipeStep step;
    PipeAction action;
    uint32_t issue; /* start: those of a rank with the same number are started together: to each
                       other rank one send at most, from each one receive */
    uint32_t of;    /* wait: the index of its start */
} PipeOp;

typedef VEC(PipeOp) PipeOps;

typedef struct PipeProgram {
    const PipeTable *table;
    PipeOps *rank;
    int (*buffers)[2]; /* of a rank, for what it sends forward and back */
    bool stuck;        /* the order of computing alone lets ranks wait for each other */
} PipeProgram;

/* Of a table that is complete. */
PipeProgram *pipe_lower(Arena *a, const PipeTable *t);
/* The table with the sends and receives that run. */
PipeTable *pipe_with_comms(Arena *a, const PipeProgram *p);
/* One operation a line. */
void pipe_print_program(const PipeProgram *p, FILE *out);

/* ---- slots.c: what lies where, as programs are told ------------------------------------------ */

/* Each rank's operations as runtime/abi.h has them, with the slot in which the activations of a
 * stage and microbatch are from F to the last of B and W, and the buffers that messages are in.
 * Each takes the lowest that is free: a slot or buffer is free again when what it was for has
 * computed, that of a send when it was waited for. Waits for messages of one kind are in the order
 * in which they began, which is that in which they come. */
typedef struct PipeOpsRow {
    mg_pipe_op *op; /* n of them, then MG_PIPE_END */
    size_t n;
    int slots; /* at most at once */
} PipeOpsRow;

typedef struct PipeSlots {
    PipeOpsRow *rank;
    int sends[2], receives[2]; /* buffers, forward and back, of the rank that has most */
} PipeSlots;

PipeSlots *pipe_slots(Arena *a, const PipeProgram *p);

/* ---- proof.c -------------------------------------------------------------------------------- */

/* The queues of a rank. Queues run concurrently; within one, actions run in order. */
typedef enum PipeQueues {
    PIPE_BY_WAY,  /* computing; sending forward, and back; receiving likewise; in a V each of these
                   * for the rank before and for the rank behind. Each way of a pair of ranks is a
                   * channel of its own. Here and below what is beside has a queue, too */
    PIPE_BY_KIND, /* computing; sending; receiving */
    PIPE_ONE,     /* all of it: what is one issue is started together, and waited for */
    PIPE_QUEUES
} PipeQueues;

typedef struct PipeGraph PipeGraph;

typedef struct PipeProof {
    PipeGraph *graph[PIPE_QUEUES];
    uint64_t work; /* channels, messages, nodes and edges that were looked at */
} PipeProof;

/* T5 and T6. False after telling which messages do not match, or who waits for whom. */
bool pipe_prove(Arena *a, const PipeProgram *p, Diag *d, PipeProof *proof);
/* The graph of such queues alone. NULL: somebody waits for himself. */
const PipeGraph *pipe_graph(Arena *a, const PipeProgram *p, PipeQueues queues);

/* ---- clock.c -------------------------------------------------------------------------------- */

/* Time by stage; B takes what I and W take. A message takes `send`, both its ends as long. A pair
 * takes what its actions take, less `hidden`: at most the shorter of them; where there are layers,
 * less that for each layer of the stage that has fewer of the two. To gather or reduce a
 * stage takes its `unshard` or `reduce` (NULL: nothing is); while it is, what computes does 1 -
 * `slows` of what it does alone. */
typedef struct PipeCosts {
    const double *forward, *input, *weight;
    double send, hidden;
    const int64_t *layers; /* NULL, or of a stage */
    const double *unshard, *reduce;
    double slows;
} PipeCosts;

/* Of the pair at an index of a row: the time of its F, and of what overlaps with it. */
typedef struct PipePair {
    double forward, back;
} PipePair;
PipePair pipe_pair(const PipeCosts *c, const PipeAction *of);

typedef struct PipeClock {
    double step;
    double *busy;          /* a rank computes so long; the rest of the step it is idle */
    double **begin, **end; /* [rank][op]; of waits 0 */
    double bubble;         /* the share of the step that ranks are idle */
} PipeClock;

/* A run in which everything begins as soon as it can. */
PipeClock *pipe_clock(Arena *a, const PipeGraph *g, const PipeCosts *c);
/* The time of such a run alone, for one graph and many costs. */
typedef struct PipeWalk PipeWalk;
PipeWalk *pipe_walk(Arena *a, const PipeGraph *g);
double pipe_walk_step(PipeWalk *w, const PipeCosts *c);
/* How much longer the step gets where one rank computes slower, by rank: of each second by which it
 * is busy longer, so much. It computes slower by the factor, such as 0.1; 0: by very little. Each
 * rank is a run of its own, so that only so many are tried, lest the time grow with the square of
 * the ranks: all, or of more the first, the last, others as far apart, and the busiest. NAN: it was
 * not tried. */
enum { PIPE_SLOWER_MAX = 32 };
typedef struct PipeSlower {
    double *longer;
    uint64_t work; /* edges of the graph that were followed */
} PipeSlower;
PipeSlower pipe_slower(Arena *a, const PipeGraph *g, const PipeCosts *c, const PipeClock *k,
                       double factor);

/* ---- show.c --------------------------------------------------------------------------------- */

enum { PIPE_COLUMNS_MAX = 4096, PIPE_SHADES = 4 };

/* One of xterm's 256 colours for the ground: by the kind of what computes, and another shade by
 * chunk. */
int pipe_shade(PipeKind k, int chunk);

/* Rows are ranks, columns time in units of the cheapest action. False: more columns than that; then
 * *columns says how many. */
bool pipe_print_grid(const PipeProgram *p, const PipeClock *k, bool color, FILE *out,
                     double *columns);
void pipe_print_summary(const PipeProgram *p, const PipeProof *proof, const PipeCosts *c,
                        FILE *out);

#endif
