/* abi.h - the whole contract between the emitted program, its kernels and the runtime.
 *
 * The emitted C defines `mg_main` (data) and mg_step, mg_eval, mg_sample (code). The runtime owns
 * the process: it reads mg_main, allocates one arena and one scratch block per thread, fills the
 * inputs, and calls those functions. Nothing is allocated while they run.
 *
 * Every tensor lives in the arena at an offset fixed at compile time. Matrices are row-major.
 * This header is plain C, includes nothing of mgc, and is versioned: the runtime refuses a program
 * made for another MG_ABI. */
#ifndef MG_ABI_H
#define MG_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MG_ABI      18
#define MG_RANK_MAX 8 /* dims of a tensor */

typedef enum mg_dtype { MG_F32 = 1, MG_F64, MG_BF16, MG_F16, MG_I32, MG_I64, MG_BOOL } mg_dtype;

static inline int64_t mg_dtype_bytes(mg_dtype t)
{
    return t == MG_F64 || t == MG_I64 ? 8 : t == MG_BF16 || t == MG_F16 ? 2 : t == MG_BOOL ? 1 : 4;
}

/* ---- what a program says of itself ------------------------------------------------------- */

typedef enum mg_role { MG_PARAM = 1, MG_STATE } mg_role;
typedef enum mg_init_kind { MG_INIT_CONST = 1, MG_INIT_NORMAL, MG_INIT_UNIFORM } mg_init_kind;

/* A persistent tensor: a parameter, or a slot of optimizer state that is shaped like one.
 *
 * The first `stacked` stored dims are those of the `repeat`s around the declaration, and perhaps of
 * experts: the tensor stands for one external tensor per index of them, and `name` has one "{}" for
 * each. The other
 * stored dims, taken in the order `order`, and merged in groups of merge[0], merge[1], ... give the
 * external shape (that of the safetensors file). A stored dim can be padded: size >= valid; the
 * padding holds zeros, never leaves the program, and never changes. */
typedef struct mg_tensor {
    const char *name;  /* external name of the parameter, "model.layers.{}.mlp.up_proj.weight" */
    const char *slot;  /* "" for a parameter; "exp_avg", "exp_avg_sq", "momentum" for state */
    const char *where; /* "llama.mg:23" */
    mg_dtype dtype;
    mg_role role;
    int64_t offset; /* bytes into the arena; dense, row-major over size[] */
    uint8_t rank, stacked, external_rank;
    int64_t size[MG_RANK_MAX], valid[MG_RANK_MAX]; /* per stored dim: of a rank; of all */
    uint8_t order[MG_RANK_MAX]; /* rank - stacked entries: stored dim at each external place */
    uint8_t merge[MG_RANK_MAX]; /* external_rank entries, summing to rank - stacked */
    /* Initial value: const a; normal(mean a, std b); uniform in [a, b). Element e (row-major in the
     * external shape) of the external tensor called n draws from Philox keyed by (seed, n), at
     * counter e: no layout changes it. State starts at zero. */
    mg_init_kind init;
    double a, b;
    uint32_t axes[MG_RANK_MAX]; /* per stored dim: those of mg_program.axes it is split on */
    /* ... and on which of those rank r of n has parts r and 2n - 1 - r of 2n, not part r of n */
    uint32_t zigzag[MG_RANK_MAX];
    uint8_t at; /* MG_AT_*: the ranks along the axis of stages that have it; the others have other
                   things at its place */
} mg_tensor;

/* Ranks along the axis of stages: the first, the last, those between. */
enum { MG_AT_FIRST = 1, MG_AT_MIDDLE = 2, MG_AT_LAST = 4, MG_AT_ALL = 7 };

/* Layers cut into stages, `chunks` of each of the n ranks along an axis: stage s is that of the
 * rank at place s % n, as its chunk s / n. A tensor whose outermost dim is split on that axis has
 * room for `most` layers of each of a rank's chunks, one chunk behind the other; the first
 * layers[s] are those of stage s, the layers being counted from stage to stage. What room is left
 * is like padding: it holds zeros, and never leaves the program. valid[0] counts the layers of all
 * stages. */
typedef struct mg_stages {
    uint32_t axis; /* a bit: of mg_program.axes; 0: there are none */
    int chunks, most;
    const int32_t *layers; /* per stage */
} mg_stages;

/* One action of the schedule, for traces, progress and the search for a non-finite value. */
typedef struct mg_action {
    const char *name;  /* "layers.attend.q" */
    const char *kind;  /* "kernel", "product", "attention", ... */
    const char *where; /* "llama.mg:23" */
    double predicted_us, flops, bytes;
    /* The floating-point outputs of a generated kernel: which pointer, how many elements. */
    uint8_t nout;
    struct {
        uint8_t arg;
        mg_dtype dtype;
        int64_t elements;
    } out[6];
} mg_action;

/* Bytes of the arena in which nothing lives any more after `event`: the action of that number, or,
 * from nactions on, a call of mg_ended. Inputs and results of programs never die. */
typedef struct mg_death {
    uint32_t event;
    int64_t offset, bytes;
    uint8_t at; /* MG_AT_*: the ranks that had it; with stages others have other things there */
} mg_death;

typedef enum mg_lr_kind {
    MG_LR_CONSTANT = 1,
    MG_LR_LINEAR,
    MG_LR_COSINE,
    MG_LR_WSD,
    MG_LR_INVERSE_SQRT,
    MG_LR_WARMUP,
    MG_LR_WARMUP_COSINE
} mg_lr_kind;
typedef enum mg_lr_shape { MG_SHAPE_LINEAR, MG_SHAPE_COSINE, MG_SHAPE_SQRT } mg_lr_shape;

/* Learning rate at step n (from 0) of `steps`: warm-up peak * (n + 1) / warmup while n < warmup;
 * then with r = (n - warmup) / max(1, steps - warmup), capped at 1:
 *   constant, linear, cosine   peak, linear or cosine from peak to floor
 *   wsd            peak, and over the `last` steps down to the floor: with q the part of them that
 *                  is done, by 1 - q, (1 + cos(pi q)) / 2 or 1 - sqrt(q)
 *   inverse_sqrt   peak * sqrt(warmup / (n + 1)), not below the floor
 * and with W = max(2, warmup) as DeepSpeed's, whose warm-up goes by n / W, or ln(n + 1) / ln(W):
 *   warmup         from floor to peak, which stays (WarmupLR)
 *   warmup_cosine  from 0 to peak, then with p = (n - W + 1) / max(1, steps - W), capped at 1,
 *                  by (1 + cos(pi p)) / 2 to the floor (WarmupCosineLR) */
typedef struct mg_lr {
    mg_lr_kind kind;
    double peak, floor;
    int64_t warmup, steps;
    int64_t last;
    mg_lr_shape shape;
    bool log;
} mg_lr;

/* The scale of the loss of a program in f16 (initial 0: it has none), by DeepSpeed's rule: an
 * overflow halves it, down to `least`, once `hysteresis` of them have been met; `window` good steps
 * in a row double it, and fill the hysteresis up again. */
typedef struct mg_scale {
    double initial, least;
    int64_t window, hysteresis;
} mg_scale;

/* An input by name: batch rows of `elements`, dense; i32 where they are indices below `limit`. */
typedef struct mg_input {
    const char *name;
    mg_dtype dtype;
    int64_t offset; /* bytes into the arena */
    int64_t elements, limit;
} mg_input;
#define MG_INPUTS_MAX 8
#define MG_PLACES_MAX 16 /* sets of axes along which a program asks for its rank's place */

typedef struct mg_total {
    int64_t offset, n; /* numbers, f64 */
    bool most;         /* the largest so far, not the sum */
} mg_total;

/* One entry of the program (step, eval, sample): where its inputs and outputs lie in the arena, in
 * bytes, or -1 where it has none. */
typedef struct mg_entry {
    bool present;
    int64_t tokens;  /* i32[batch, window] */
    int64_t weights; /* [batch, seq], of the compute type: of the token after each position */
    int64_t batch;   /* sequences it takes at once, all ranks together */
    int64_t window;  /* tokens of a sequence: seq + 1, or seq for sample */
    int64_t lr;      /* f64 */
    int64_t step;    /* i64, from 0: the same step draws the same dropout */
    int64_t seed;    /* i64 */
    int64_t scale;   /* f64: what the loss is multiplied by (mg_program.scale) */
    int64_t pos;     /* i32: sample only: the position whose next token is wanted */
    int64_t filled;  /* i64: eval: so many sequences of the batch count; -1: all do, always */
    int64_t before;  /* i64: eval: those that were evaluated before */
    int64_t loss;    /* f64; eval: of all sequences so far */
    int64_t norm;    /* f64: of all gradients, before clipping */
    int64_t logits;  /* f32[batch, vocab] (f64 where the program is): sample only */
    double predicted_ms, flops;
    int ninputs; /* instead of tokens */
    mg_input inputs[MG_INPUTS_MAX];
    int64_t rows; /* that each rank of `batch_axes` has one after another, then the next rank */
    uint32_t batch_axes;
    int64_t ntotals; /* eval: what it goes on adding up, in place */
    const mg_total *total;
    int nplaces; /* i32 scalars that are the rank's place along some axes */
    struct {
        uint32_t axes;
        int64_t offset;
    } place[MG_PLACES_MAX];
} mg_entry;

/* How runtime/cuda launches the kernels of kernels/cuda, which are written for it. */
enum {
    MG_XENT_BLOCK = 256,     /* threads, for a row */
    MG_SCATTER_BLOCK = 128,  /* threads, for an index */
    MG_SUM_BLOCK = 256,      /* threads, for 32 columns */
    MG_SLOTS_BLOCK = 128,    /* threads, a warp for an expert */
    MG_EXPERTS_BLOCK = 128,  /* threads, for a row */
    MG_ATTENTION_WARPS = 4,  /* of a block; each a query or a key */
    MG_FLASH_WARPS = 4,      /* of a block; each 16 queries or keys */
    MG_ATTENTION_HEAD = 256, /* the longest head */
    MG_FLASH90_ROWS = 128,   /* queries or keys of a block on sm_90, two threads for each */
    MG_FLASH90_QUERIES = 64, /* of a tile, for the gradients of keys and values */
};
/* Keys of a tile by the head, forward and for the gradient of queries; and the shared memory of a
 * block, in bytes: what it owns, and of what it goes over the tiles that are used and asked for. */
#define MG_FLASH90_KEYS(head)    ((head) == 64 ? 64 : 128)
#define MG_FLASH90_DQ_KEYS(head) ((head) == 64 ? 128 : 64)
#define MG_FLASH90_SHARED(head)  ((MG_FLASH90_ROWS + 4 * MG_FLASH90_KEYS(head)) * (head) * 2)
#define MG_FLASH90_DQ_SHARED(head)                                                                 \
    ((2 * MG_FLASH90_ROWS + 5 * MG_FLASH90_DQ_KEYS(head)) * (head) * 2)
#define MG_FLASH90_DKV_SHARED(head)                                                                \
    ((2 * MG_FLASH90_ROWS + 4 * MG_FLASH90_QUERIES) * (head) * 2 + 2 * MG_FLASH90_QUERIES * 8)

/* A generated kernel of a CUDA program: how it is launched, and which of the pointers of a call it
 * takes (those that have places of their own). */
typedef struct mg_cuda_kernel {
    const char *name;
    int64_t grid_x, grid_y;
    int block;
    int npointers;
    const uint8_t *pointer;
} mg_cuda_kernel;

/* An axis of the mesh of ranks: the last one is the fastest. */
typedef struct mg_axis {
    const char *name;
    int64_t size;
} mg_axis;
#define MG_AXES_MAX   16
#define MG_RANKS_MAX  256 /* of a program */
#define MG_GROUPS_MAX 64  /* sets of axes along which ranks of GPUs do something together */

typedef struct mg_program {
    uint32_t abi;
    const char *name, *source, *compiler, *layout; /* "llama", "llama.mg", "mgc 0.1.0", "default" */
    uint64_t fingerprint;      /* of the model: tensors, shapes, optimizer; guards checkpoints */
    const char *cpu_features;  /* comma-separated, as in LLVM's "+avx512f": what the kernels need */
    mg_dtype compute;          /* MG_F32 or MG_F64: of parameters and arithmetic */
    mg_dtype half;             /* what products read, MG_BF16 or MG_F16; 0: as compute */
    int64_t arena_bytes;       /* everything */
    int64_t persistent_bytes;  /* parameters and state: the first bytes of the arena */
    int64_t scratch_bytes;     /* per thread, beside the arena */
    int64_t batch, seq, vocab; /* a step: sequences, targets of each; valid token ids < vocab */
    const mg_tensor *tensors;
    int ntensors;
    const mg_action *actions;
    int nactions;
    const mg_death *deaths; /* by event */
    int ndeaths;
    mg_lr lr;
    mg_scale scale;
    const char *optimizer; /* "adamw" */
    mg_entry step, eval, sample;
    const char *config;                 /* the train block and layout as one line, for the log */
    const char *config_json;            /* config.json of its checkpoints, or NULL */
    const mg_cuda_kernel *cuda_kernels; /* NULL: a program of the processor */
    int ncuda_kernels;
    const void *cuda_image; /* the fat binary they are in */
    int naxes;              /* of more than one rank; 0: one rank */
    mg_axis axes[MG_AXES_MAX];
    bool tf32; /* products of f32 may round their operands to 10 bits */
    /* Parameters are updated as their gradients are ready: the guard saw the loss, but not the
     * norm. What would not be finite stays what it was. */
    bool as_ready;
    /* Of a GPU's program of several ranks: mg_nccl, and the sets of axes along which its ranks do
     * something together. */
    const struct mg_collectives *collectives;
    int ngroups;
    uint32_t groups[MG_GROUPS_MAX];
    mg_stages stages;
} mg_program;

typedef struct mg_run mg_run; /* the runtime's own; emitted code only hands it on */

extern const mg_program mg_main;
void mg_step(mg_run *r);
void mg_eval(mg_run *r);
void mg_sample(mg_run *r);

/* runtime/cuda/comm.c, which needs NCCL: a program of one rank does not name it, and is linked
 * without. */
extern const struct mg_collectives mg_nccl;

/* ---- what emitted code calls --------------------------------------------------------------
 * `action` is the index in mg_main.actions. Pointers may not overlap unless said. */

char *mg_arena(mg_run *r);

/* A generated kernel: work units [begin, end) of it, on the pointers p[0..]. Units are independent
 * and each gives the same bits whatever range it is called in. */
typedef void mg_kernel(void *const *p, int64_t begin, int64_t end);
/* Runs all units on the pool, at least `grain` of them per thread. */
void mg_launch(mg_run *r, int action, mg_kernel *k, int64_t units, int64_t grain, void *const *p);

/* The kernel of that number in mg_main.cuda_kernels, in the stream of the run. */
void mg_cuda_launch(mg_run *r, int action, int kernel, void *const *p);

/* Streams of a GPU: what follows goes into stream s (0 where a program begins and ends); the stream
 * is remembered up to here as a point; what follows in it waits until a point is reached, which was
 * recorded before in this round. On a processor it may be one of the round before, or not have been
 * recorded yet, and then nobody waits. */
#define MG_STREAMS_MAX 8
#define MG_POINTS_MAX  256
void mg_stream(mg_run *r, int s);
void mg_record(mg_run *r, int point);
void mg_wait(mg_run *r, int point);
/* On a processor stream 0 is what calls these, and in another there are collectives alone: mg_comm
 * then begins one, which goes on when this is called, in parts of actions, and in mg_wait. A wait
 * in that stream holds what begins there next, and all behind it (queue.h). */
void mg_progress(mg_run *r);

/* A loop is through in which the bytes of that event's deaths were in use. */
void mg_ended(mg_run *r, int event);

void mg_zero(mg_run *r, int action, void *p, int64_t bytes);
void mg_copy(mg_run *r, int action, void *to, const void *from, int64_t bytes);

/* False (and remembered by the runtime) if *loss or *norm is not finite: the step then returns
 * before it changes a parameter. norm: NULL where updates do not wait for all gradients. */
bool mg_guard(mg_run *r, int action, const double *loss, const double *norm);

/* What a product of halves does at its end (batch is then 1), one or several of these. What is
 * computed from its sums is computed before they are rounded; beta is 0 but with MG_SUM. */
typedef enum mg_epilogue {
    MG_PLAIN,
    MG_BIAS = 1,      /* a bias of C's dtype and of n elements is added to each row */
    MG_SUM = 2,       /* the n sums of the columns of op(B) are given, as C's dtype; alone */
    MG_GELU = 4,      /* C is gelu_tanh of that */
    MG_AUX = 8,       /* and what it is gelu_tanh of is given too: a matrix of C's dtype */
    MG_GELU_GRAD = 16 /* C is times the slope of gelu_tanh at a matrix of C's dtype; alone */
} mg_epilogue;

/* C = alpha op(A) op(B) + beta C, row-major; `batch` such products, sa, sb, sc elements apart.
 * op(A) is m x k: A is m x k with leading dimension lda, or with ta k x m. beta is 0 or 1, and
 * with 0 C is not read. Halves are summed in f32. */
typedef struct mg_gemm_desc {
    mg_dtype dtype; /* of A and B */
    mg_dtype out;   /* of C: the same, or of halves f32 */
    bool ta, tb;
    uint8_t epilogue; /* of mg_epilogue; its vector is `extra`, its matrix `aux`, else NULL */
    uint8_t variant;  /* 0: as fast as it goes */
    int64_t m, n, k, lda, ldb, ldc, ldx; /* ldx: of aux, or 0 */
    double alpha, beta;
    int64_t batch, sa, sb, sc;
} mg_gemm_desc;
void mg_gemm(mg_run *r, int action, const mg_gemm_desc *d, const void *a, const void *b, void *c,
             void *extra, void *aux);
/* On a processor, of a single product whose columns are a multiple of MG_TILE: kernel k on the
 * pointers p goes on with each piece of C when it is done and before it leaves the cache. A unit of
 * k is that many columns of a row, row by row; it reads of C what is there, and may write over it,
 * but not over A, B, extra or aux. */
#define MG_TILE 32
void mg_gemm_epilogue(mg_run *r, int action, const mg_gemm_desc *d, const void *a, const void *b,
                      void *c, void *extra, void *aux, mg_kernel *k, void *const *p);

/* Attention: for each batch b, kv head h, group g and query s over keys t:
 *   o[b,s,h,g,:] = sum_t softmax_t(scale * q[b,s,h,g,:] . k[b,t,h,:]) v[b,t,h,:]
 *   lse[b,s,h,g] = log sum_t exp(scale * q . k), t <= s if causal.
 * The score matrix is never stored; lse of halves is f32. head (q, k) and vhead (v, o) are
 * contiguous; all other strides are in elements. Gradients are overwritten. */
typedef struct mg_attention_desc {
    mg_dtype dtype;
    bool causal;
    double scale;
    int64_t batch, kv, group, queries, keys, head, vhead;
    int64_t q[4]; /* strides of batch, query, kv, group */
    int64_t k[3]; /* strides of batch, key, kv */
    int64_t v[3];
    int64_t o[4]; /* also of do */
    int64_t lse[4];
    int64_t dq[4], dk[3], dv[3]; /* of the gradients alone */
} mg_attention_desc;
void mg_attention(mg_run *r, int action, const mg_attention_desc *d, const void *q, const void *k,
                  const void *v, void *o, void *lse);
void mg_attention_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                       const void *k, const void *v, const void *o, const void *lse,
                       const void *dout, void *dq, void *dk, void *dv, void *work);
/* The same over keys that are some of all: query s sees the first seen[s], and as many as any query
 * before it. One that sees none has o = 0 and lse = -1e30. lse and o of a gradient are those of all
 * keys. causal is not set; seen may be NULL: all of these. */
void mg_attention_part(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                       const void *k, const void *v, void *o, void *lse, const int32_t *seen);
void mg_attention_part_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                            const void *k, const void *v, const void *o, const void *lse,
                            const void *dout, void *dq, void *dk, void *dv, const int32_t *seen,
                            void *work);

/* Cross-entropy over rows of logits z[rows, vocab] (classes >= valid are masked):
 *   lse[r] = log sum_{c < valid} exp z[r,c];  loss[r] = lse[r] - z[r, target[r]]
 *   dz[r,c] = dloss[r * dloss_stride] * (exp(z[r,c] - lse[r]) - [c == target[r]]), 0 beyond valid.
 * dz may be z. Of halves lse, loss and dloss are f32. */
typedef struct mg_xent_desc {
    mg_dtype dtype;
    int64_t rows, vocab, valid;
    int64_t dloss_stride;               /* 0: one number for all rows */
    int64_t target_inner, target_outer; /* row r's target: t[(r / inner) * outer + r % inner] */
} mg_xent_desc;
void mg_xent(mg_run *r, int action, const mg_xent_desc *d, const void *z, const int32_t *target,
             void *loss, void *lse);
void mg_xent_grad(mg_run *r, int action, const mg_xent_desc *d, const void *z,
                  const int32_t *target, const void *lse, const void *dloss, void *dz);

/* The head: z = x w, cross-entropy, and both gradients, `chunk` rows at a time, so that no more
 * than chunk rows of logits exist. x[rows, hidden] and w[hidden, vocab] (w_by_vocab: w[vocab,
 * hidden]) are dense. dx is overwritten; dw is overwritten, or added to if dw_accumulate.
 * dx == NULL: the loss alone (dw and dloss are then unused). work: mg_head_work(d) bytes. */
typedef struct mg_head_desc {
    mg_xent_desc xent;
    int64_t hidden, chunk;
    bool w_by_vocab, dw_accumulate;
    mg_dtype dw; /* of dw: that of x and w, or f32 */
} mg_head_desc;
void mg_head(mg_run *r, int action, const mg_head_desc *d, const void *x, const void *w,
             const int32_t *target, const void *dloss, void *loss, void *dx, void *dw, void *work);
/* y[i, o, j] = table[o, index[i], j]; index entries are below n (checked when data is read).
 * index i is at ix[(i / inner_index) * outer_index + i % inner_index]. */
typedef struct mg_gather_desc {
    mg_dtype dtype;
    int64_t indices, outer, n, inner;
    int64_t index_inner, index_outer;
    bool accumulate; /* scatter only: add to what is there */
} mg_gather_desc;
void mg_gather(mg_run *r, int action, const mg_gather_desc *d, const void *table,
               const int32_t *index, void *y);
/* dtable[o, n, j] (+)= sum over i with index[i] == n of dy[i, o, j], in the order of i. */
void mg_scatter_add(mg_run *r, int action, const mg_gather_desc *d, const void *dy,
                    const int32_t *index, void *dtable);

/* y[r, k]: where in x[r, 0 .. n) the k-th largest is, k < top; of equal ones the first, NaN last.
 */
typedef struct mg_top_desc {
    mg_dtype dtype; /* f32 or f64 */
    int64_t rows, n, top;
} mg_top_desc;
void mg_top(mg_run *r, int action, const mg_top_desc *d, const void *x, int32_t *y);

/* Experts. Each of the positions of each group makes some choices of an expert, choice[group,
 * position, k]; an expert has so many slots for each group. All tensors are dense:
 *   rows   [groups, positions, inner]       what positions have
 *   z      [experts, groups, slots, inner]  what experts have
 *   choice, slot, weight [groups, positions, choices]; weight of f32 where rows are halves
 * slots           slot = how many choices of the same expert come before, by position and then by
 *                 k, or -1 where that many are all it has
 * dispatch        z[choice, g, slot] = rows[g, p] * weight, 0 where nothing is sent
 * combine         rows[g, p] = sum of z[choice, g, slot] * weight over its choices, in their order
 * combine_weight  weight[g, p, k] = z[choice, g, slot] . rows[g, p], 0 where nothing is sent
 * Choices are below experts. A weight that is NULL is 1. No two choices of a group may have the
 * same slot. */
typedef struct mg_experts_desc {
    mg_dtype dtype; /* of rows and z */
    int64_t groups, positions, choices, experts, slots, inner;
} mg_experts_desc;
void mg_slots(mg_run *r, int action, const mg_experts_desc *d, const int32_t *choice,
              int32_t *slot);
void mg_dispatch(mg_run *r, int action, const mg_experts_desc *d, const void *rows,
                 const int32_t *choice, const int32_t *slot, const void *weight, void *z);
void mg_combine(mg_run *r, int action, const mg_experts_desc *d, const void *z,
                const int32_t *choice, const int32_t *slot, const void *weight, void *rows);
void mg_combine_weight(mg_run *r, int action, const mg_experts_desc *d, const void *z,
                       const void *rows, const int32_t *choice, const int32_t *slot, void *weight);

/* out[e] = uniform in [0, 1), from Philox4x32-10 keyed by (seed, key), at counter
 * (slot * elements + e, step): no layout changes it. With g = slot * elements + e it is the top 24
 * bits of word g % 4 of counter {g / 4, step} under the key seed ^ key, 64 bits each, low half
 * first. */
typedef struct mg_random_desc {
    mg_dtype dtype;
    uint64_t key;
    int64_t elements;
} mg_random_desc;
void mg_random(mg_run *r, int action, const mg_random_desc *d, const int64_t *seed,
               const int64_t *step, const int32_t *slot, void *out);

/* What the ranks along some axes of the mesh do together: n of them, who differ in nothing else.
 * x is [outer, size, inner] around the dim that is cut or put together; y the same with another
 * size, dense, in memory that is not x's.
 *   all_reduce      y = sum of all x, or the largest, in the order of ranks
 *   reduce_scatter  y = this rank's part (size / n) of that sum
 *   all_gather      y = the x of all, one behind the other along the dim
 *   all_to_all      y = this rank's part, along the dim of to_outer, to_size, to_inner, of that
 *   shard           y = this rank's part of x; nothing is sent
 *   ring_shift      y = the x of the rank before, of the first that of the last
 *   broadcast       y = the x of the rank at place `root` of them; the x of others is not looked at
 * zigzag: a rank's part is not the r-th of n, but the r-th and the (2n - 1 - r)-th of 2n.
 * Every rank of a group calls the same in the same order. work: mg_comm_work bytes on a GPU (NULL
 * where they are none), NULL on a processor. */
typedef enum mg_comm_kind {
    MG_ALL_REDUCE = 1,
    MG_REDUCE_SCATTER,
    MG_ALL_GATHER,
    MG_ALL_TO_ALL,
    MG_SHARD,
    MG_RING_SHIFT,
    MG_BROADCAST
} mg_comm_kind;
typedef struct mg_comm_desc {
    mg_comm_kind kind;
    mg_dtype dtype;
    bool most;   /* all_reduce: the largest */
    bool tree;   /* sums: not in the order of ranks, but neighbours first, then those pairs, ... */
    bool zigzag; /* reduce_scatter, all_gather, shard */
    uint32_t axes; /* bit k: axis k of mg_program.axes */
    int64_t n, outer, size, inner;
    int64_t to_outer, to_size, to_inner;
    int root; /* broadcast */
} mg_comm_desc;
void mg_comm(mg_run *r, int action, const mg_comm_desc *d, const void *x, void *y, void *work);

/* ---- pipelines ------------------------------------------------------------------------------
 *
 * Microbatches that go through stages on several ranks. What a rank does is a table made and proved
 * when the program was compiled; the emitted program walks it, computes at F, B, I and W, and hands
 * all else to mg_pass:
 *
 *   for (const mg_pipe_op *o = mg_pipe_ops(r, &pipe); mg_phase(r, o); o++)
 *       switch (o->step) { case MG_PIPE_F: ... break; default: mg_pass(r, &pipe, o); }
 *
 * SEND and RECV begin, and wait for nobody. Those that follow each other are one issue: `with` of
 * the first says how many of them are behind it, and is 0 in those; mg_pass begins them all (on a
 * GPU as one NCCL group) when it is called for the first, and does nothing for the others. WAIT:
 * what was begun has ended, so the memory of a send may be written, that of a receive be read; on a
 * GPU in the stream that is set then.
 *
 * F messages go from stage to stage, B messages back; stage s and s + 1 are on neighbours of the
 * ring of ranks along the axis. From one rank to another messages are received in the order in
 * which they are sent, F and B together: nothing else says which is which. A send ends when its
 * receive has begun and taken it. It has been proved that nobody waits for himself if what was
 * begun goes on while a rank waits for anything, also for a collective of other axes.
 *
 * Between the first and the last operation of a table there are collectives of other axes alone.
 * At its end everything that was begun was waited for. */
typedef enum mg_pipe_step {
    MG_PIPE_END, /* of the table */
    MG_PIPE_F,
    MG_PIPE_B,
    MG_PIPE_I,
    MG_PIPE_W,
    MG_PIPE_SEND_F,
    MG_PIPE_RECV_F,
    MG_PIPE_SEND_B,
    MG_PIPE_RECV_B,
    MG_PIPE_WAIT
} mg_pipe_step;
typedef struct mg_pipe_op {
    uint8_t step;
    uint8_t of; /* WAIT: MG_PIPE_SEND_F, ...: what is waited for; it is the oldest begun of that
                   kind that was not waited for yet */
    uint8_t in, out; /* numbers of message buffers: of what was received, of what is sent; SEND_*:
                        `out`, RECV_*: `in` */
    uint16_t stage;
    uint16_t with; /* SEND_*, RECV_*: so many behind it begin together with it */
    uint16_t slot; /* for the emitted program: which copy of activations */
    int32_t microbatch;
    float at, lasts; /* predicted, of what computes: us from the beginning of the step. END: where
                        the table is through */
} mg_pipe_op;
/* Messages forward [0] and back [1]: `bytes` of each; buffer k of those that are sent lies at
 * send[way] + k * stride[way] bytes of the arena, of those received at receive[way] + ... */
typedef struct mg_pipe {
    uint32_t axis; /* mg_program.stages.axis */
    int64_t bytes[2], stride[2], send[2], receive[2];
    int action[4];                /* numbers of SEND_F, RECV_F, SEND_B, RECV_B in mg_main.actions */
    const mg_pipe_op *const *ops; /* by place along the axis; each ends with MG_PIPE_END */
} mg_pipe;
/* This rank's table; a walk begins. */
const mg_pipe_op *mg_pipe_ops(mg_run *r, const mg_pipe *p);
void mg_pass(mg_run *r, const mg_pipe *p, const mg_pipe_op *o);
/* Before each operation: is it not the end of the table? (What is recorded begins here.) */
bool mg_phase(mg_run *r, const mg_pipe_op *o);
/* This rank's place among those along these axes. */
int mg_station(const mg_run *r, uint32_t axes);

/* ---- what hand-written kernels call ------------------------------------------------------- */

/* fn(ctx, begin, end, scratch) over [0, units) on the pool; scratch is the thread's own
 * mg_main.scratch_bytes (plus what the runtime adds), 64-byte aligned. Not reentrant. */
typedef void mg_task(void *ctx, int64_t begin, int64_t end, void *scratch);
void mg_parallel(mg_run *r, int64_t units, int64_t grain, mg_task *fn, void *ctx);
int mg_threads(const mg_run *r);
/* In a task, with its scratch, every fraction of a millisecond: lets go on what runs beside it. */
void mg_look(mg_run *r, const void *scratch);
/* Around each call: time for traces; outputs looked at when a non-finite value is sought. */
void mg_begin(mg_run *r, int action);
void mg_end(mg_run *r, int action);
void mg_output(mg_run *r, int action, const void *p, int64_t elements, mg_dtype t);
/* Tells mg_output what the action's generated kernel wrote by way of the pointers p; is some of it
 * at c? */
bool mg_outputs(mg_run *r, int action, void *const *p, const void *c);

/* ---- what the runtime calls in kernels ---------------------------------------------------- */

/* What makes products here: "own, 64-byte vectors", "cuBLASLt 13.1.0". */
const char *mg_products_name(void);

/* Tells mg_output of the results of attention, and of its gradient, whatever their strides. */
void mg_attention_outputs(mg_run *r, int action, const mg_attention_desc *d, const void *o,
                          const void *lse);
void mg_attention_grad_outputs(mg_run *r, int action, const mg_attention_desc *d, const void *dq,
                               const void *dk, const void *dv);

/* Philox4x32-10 (Salmon et al., SC 2011): four words for a counter under a key. */
void mg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
uint64_t mg_key(const char *name); /* FNV-1a of an external name: the tensor's key */

#endif
