/* layout.h - how a program lies over ranks and levels of memory; a part of ir.h, which says what
 * its values are. */
#ifndef MGC_IR_LAYOUT_H
#define MGC_IR_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/level.h"
#include "base/names.h"
#include "ir/type.h"

/* Policy for values that the backward pass of @train's repeats keeps from their forward pass:
 * expensive ones (auto: or those chosen for the memory there is), all that it reads, the inputs
 * of each iteration alone, or those that are named. */
typedef enum Recompute {
    RECOMPUTE_auto,
    RECOMPUTE_none,
    RECOMPUTE_all,
    RECOMPUTE_keep,
    RECOMPUTE_count
} Recompute;
extern const char *const recompute_names[RECOMPUTE_count];

/* Iterations of a repeat, in the order in which they run, that are treated alike. */
typedef struct KeepRange {
    int64_t iterations;
    int64_t segment; /* 1, or so many iterations keep no more than what goes into the first of them,
                        and run again together; it divides `iterations` */
    const bool *keep; /* per value of the module as it was before recompute.c: it is kept */
    const char *says; /* for people: what is kept; NULL: nobody asked */
    bool here; /* what is kept stays on the device, though Layout.offload has another level */
} KeepRange;
typedef VEC(KeepRange) KeepRanges;

/* Per outermost repeat of @train, in order: its ranges, which together are all its iterations. */
typedef struct KeepPlan {
    VEC(KeepRanges) loops;
    VEC(Name) dims; /* of those repeats, for people */
} KeepPlan;

/* The name of values that are kept, and where it is given. */
typedef struct KeptName {
    Name name;
    Span span;
} KeptName;

typedef struct Axis {
    Name name;
    int64_t size; /* at least 2 */
    bool apart;   /* the largest number of its ranks is found before, or behind, that of the axes
                     inside of it (passes/spmd/largest.c) */
    Span span;
} Axis;

/* Classes of tensors that a rule can be for instead of a dim. */
typedef enum TensorClass {
    CLASS_none,
    CLASS_state,
    CLASS_grads,
    CLASS_params,
    CLASS_count
} TensorClass;
extern const char *const class_names[CLASS_count + 1]; /* as in the text; [0]: ""; the last: NULL */

/* `dim -> axis, ...`: a dim, or a class, is split on these axes, in this order, where they are not
 * in use. The order is that of the mesh; the batch's last axis may be any (Dim.inner). */
typedef struct LayoutRule {
    Name dim; /* 0: a class */
    TensorClass of;
    int n;
    uint8_t axis[MAX_AXES];
    Axes zigzag; /* of these: rank r of n has parts r and 2n - 1 - r of 2n, not two neighbours */
    Axes heads; /* of these: attention along the dim has whole sequences of a part of the heads, for
                   which ranks exchange positions (passes/spmd/shard_heads.c) */
    Axes ring;  /* of these: keys go round, and nothing else may be chosen. Of axes that are in
                   neither of the two decision `context` chooses; undecided, they are rings */
    Axes rows;  /* of these, one: rows are sent to the ranks that have their experts' matrices
                   (passes/spmd/send_rows.c); of an axis that is in neither decision `experts`
                   chooses */
    Axes
        gather; /* of these: matrices are gathered where rows are, and nothing else may be chosen */
    Axes once;  /* of these: a position's row is sent once to the rank's peers on them, and each
                   makes the slots of its own experts of it (passes/spmd/shard_space.c) */
    double
        bound; /* rows: a rank takes so many times the mean from each other; 0: all there may be */
    double sent[2]; /* seconds of a step with matrices gathered, and with rows sent, by the plans of
                       decision `experts`, for people; 0: it compared none */
    uint16_t blocks;    /* along the last, the innermost: see Dim; 0: of neighbours */
    double compared[2]; /* seconds of a step with a ring, and with an exchange of heads, by the
                           plans of decision `context`, for people; 0: it compared none */
    Span span;
} LayoutRule;

/* The rule `layers -> pp (schedule = ...)`: iterations of the repeat over `dim` are cut into
 * stages, `chunks` a rank, in a loop (mg_placement): stage s is on rank s % p of the axis, as its
 * chunk s / p. */
enum { MAX_STAGES = 4096 };
typedef struct Pipeline {
    Axes axis; /* one axis of the mesh; 0: there is none, and the rest is not set */
    Name dim;  /* "layers" */
    Name schedule;
    const char *table; /* the file of a schedule in PyTorch's grammar, or NULL */
    int chunks;        /* 1 or more */
    int group;         /* interleaved; 0: as many as ranks */
    /* 1f1b and interleaved: is an F beside the B behind it, layer by layer (plan/order/join.c)?
     * PAIRS_auto: decision `pairs` says; as long as it has not, they are not. */
    enum { PAIRS_auto, PAIRS_none, PAIRS_all } pairs;
    double paired[2]; /* seconds of a step without pairs and with, by the plans of that decision */
    /* Per stage, how many layers. Before pass shard: as the layout says, or decision `stages`;
     * none: as the pass finds it. */
    VEC(int64_t) layers;
    /* Set by pass shard: the largest of those. A rank has room for `max_layers` layers of each of
     * its chunks: the dim is chunks * max_layers long there. */
    int64_t max_layers;
    double compared[2];  /* seconds of a step as that cuts and as it was chosen, by the plans of
                            decision `stages`, for people; 0: it took no other */
    Span span, cut_span; /* cut_span: of the list that says them; no place: none does */
} Pipeline;

/* How a scan of the source goes along its dim, for people. */
typedef struct ScanForm {
    Span span;
    Dim dim;
    int64_t chunk;   /* positions that are computed at once; 1: one after the other */
    const char *why; /* 1: what is not linear, or NULL: it would be no faster */
} ScanForm;

/* Tensors and values that may lie on another level of memory than the device (passes/levels/). */
typedef enum OffloadClass {
    OFFLOAD_state,
    OFFLOAD_masters,
    OFFLOAD_parameters, /* of layers, as they read them */
    OFFLOAD_gradients,  /* of those */
    OFFLOAD_kept,       /* of layers, for the backward part */
    OFFLOAD_count
} OffloadClass;
extern const char *const offload_names[OFFLOAD_count]; /* as in the language and the text */

/* The classes that are offloaded are chosen if the program fits no other way, given, or chosen. */
typedef enum Offloads { OFFLOADS_if_needed, OFFLOADS_as_given, OFFLOADS_auto } Offloads;

/* Into how many pieces collectives are cut with the products beside them (passes/spmd/pieces.c); 1:
 * none is; 0: nothing was said or chosen. turns: all that can be is computed in pieces, which take
 * turns. */
typedef struct LayoutPieces {
    int64_t n;
    bool turns;
} LayoutPieces;
enum { MAX_PIECES = 16 };

/* A dim that mgc pads (grammar/pad.c): to parts of one size on so many ranks; 0: to rows of whole
 * words. */
typedef struct Padded {
    Name dim;
    int64_t valid, size, ranks;
} Padded;

/* The layout that was chosen, checked. */
typedef struct Layout {
    Name name, device; /* "default", "cpu" */
    VEC(Axis) mesh;    /* axes of more than one rank, the outermost first */
    VEC(LayoutRule) rules;
    bool ruled; /* the source has rules, perhaps of axes of one rank alone */
    Pipeline pipeline;
    int64_t microbatch;   /* sequences that a rank computes at once */
    Span microbatch_span; /* where the layout says so; no place: the command line, or nobody */
    Recompute recompute;
    VEC(KeptName) keep;     /* RECOMPUTE_keep */
    const KeepPlan *plan;   /* RECOMPUTE_auto: what was chosen; NULL: nothing in particular */
    LayoutPieces pieces[2]; /* of the forward and of the backward part */
    bool once;     /* where the rules split state and not parameters: ranks have parts of the
                      rounded copies of layers, which a step gathers once, in its first
                      microbatch (passes/spmd/gather_once.c) */
    bool overlap;  /* collectives may take what memory is left, to run beside the rest */
    bool one_line; /* small and near collectives stand in one line with all others (plan/small.c,
                      near.c) */
    int64_t bucket, scatter; /* gradients of a layer are reduced, or scattered, in its iteration,
                                from so many bytes on (passes/spmd/buckets.c); 0: none are */
    double send_flops;   /* that are computed while a byte of gradients is added up over ranks; 0:
                            kernels do not mind what is sent (passes/fuse/fuse_delay.c) */
    VEC(Value) ahead;    /* gathered an iteration ahead of its loop (prefetch_gathers.c), ... */
    bool ahead_apart;    /* ... into a place of its own, while the iteration reads its own yet */
    VEC(ScanForm) scans; /* of @train, or of @eval if there is none: said by pass chunk */
    int64_t chunk; /* positions that a linear scan goes on at once, at most (passes/model/chunk.c);
                      1: none does; 0: nothing was said or chosen */
    VEC(Padded) padded; /* dims that mgc stores larger than they are, for people */
    int64_t logits; /* bytes of logits that a head of a GPU has at once, chosen when all passes are
                       done (decide/logits.c), so that no text has them; 0: the planner's default */
    Level offload[OFFLOAD_count];
    Offloads offloads;
    OptimizerAt optimizer;
    int64_t piece; /* bytes of a window of what no repeat stacks, at most; 0: the pass's own */
    Span offload_span, optimizer_span, offload_to[OFFLOAD_count]; /* lines; the level in one */
    double assert_peak, assert_step;                              /* bytes, seconds; 0: none */
    double assert_exposed;            /* part of the step that waits for communication; 0: none */
    double assert_level[LEVEL_count]; /* bytes that the ranks of a machine offload; 0: none */
    Span assert_span, assert_step_span, assert_exposed_span, assert_level_span[LEVEL_count];
} Layout;

#endif
