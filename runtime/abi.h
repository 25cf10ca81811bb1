/* abi.h - the whole contract between the emitted program, its kernels and the runtime.
 *
 * The emitted C defines `mg_main` (data) and mg_step, mg_eval, mg_sample, mg_round (code). The
 * runtime owns the process: it reads mg_main, allocates one arena and one scratch block per thread,
 * fills the inputs, and calls those functions. Nothing is allocated while they run.
 * Every tensor lives in the arena at an offset fixed at compile time. Matrices are row-major.
 * This header is plain C and includes nothing of mgc. The runtime refuses another MG_ABI. */
#ifndef MG_ABI_H
#define MG_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MG_ABI 46
#include "abi_types.h"

/* ---- the data of a program --------------------------------------------------------------- */

typedef enum mg_init_kind { MG_INIT_CONST = 1, MG_INIT_NORMAL, MG_INIT_UNIFORM } mg_init_kind;

/* A persistent tensor: a parameter, a slot of optimizer state with its shape, or its rounded copy,
 * which the runtime neither fills nor saves: mg_round makes it when parameters were set.
 *
 * The first `stacked` stored dims are the dims of the `repeat`s around the declaration, and
 * perhaps of experts: the tensor stands for one external tensor for each index of them, and
 * `name` has one "{}" for each, or "{3+2i}": then 3, 5, 7, ... The other stored dims, in the order
 * `order` and merged in groups of merge[0], merge[1], ... give the external shape. A stored dim can
 * be padded: size >= valid. The padding stays 0, and never leaves the program.
 * A part is what its external tensor, of size part_of along external dim part_dim, has there from
 * part_at on; other tensors of that name have the rest. merge is 0 for a dim of size 1. */
typedef struct mg_tensor {
    const char *name;  /* external name of the parameter, "model.layers.{}.mlp.up_proj.weight" */
    const char *slot;  /* "" for a parameter; "exp_avg", "exp_avg_sq", "momentum" for state */
    const char *where; /* "llama.mg:23" */
    mg_dtype dtype;
    mg_role role;
    int64_t offset; /* bytes into the arena, or MG_FAR; dense, row-major over size[] */
    uint8_t rank, stacked, external_rank, part_dim;
    int64_t size[MG_RANK_MAX], valid[MG_RANK_MAX]; /* per stored dim: on one rank; on all ranks */
    uint8_t order[MG_RANK_MAX]; /* rank - stacked entries: stored dim at each external place */
    uint8_t merge[MG_RANK_MAX]; /* external_rank entries, summing to rank - stacked */
    int64_t part_at, part_of;   /* see above; part_of 0: it is no part */
    /* Initial value: const a; normal(mean a, std b); uniform in [a, b); or formula(e, key), if not
     * NULL. Element e (row-major) of the external tensor n draws from Philox keyed by (seed, n), at
     * counter e: no layout changes it. */
    mg_init_kind init;
    double a, b;
    double (*formula)(int64_t e, const uint32_t key[2]);
    uint32_t axes[MG_RANK_MAX];   /* per stored dim: the mg_program.axes that it is split on */
    uint32_t zigzag[MG_RANK_MAX]; /* axes of which rank r of n has parts r and 2n - 1 - r of 2n */
    uint8_t at; /* MG_AT_*: ranks along the stage axis that have it; others reuse its bytes */
    /* A parameter of the adapter of a matrix (mg_program.adapter_json), which is scale B A more in
     * effect, and with a magnitude has rows of these lengths. turned: it is [in, out], not [out,
     * in] */
    mg_adapter adapter;
    bool turned;
    double scale;
    mg_base coded;      /* 0: it is what files have */
    mg_dtype wide;      /* of codes: what files of this program have in their place */
    const char *begins; /* not NULL: the external name of the parameter that it is a copy of before
                         * the first step: it follows that, and init says nothing */
    bool fixed;         /* and it stays as it is: --export leaves it out */
} mg_tensor;

enum { MG_AT_FIRST = 1, MG_AT_MIDDLE = 2, MG_AT_LAST = 4, MG_AT_ALL = 7 }; /* along that axis */

/* Layers in stages, `chunks` on each of the n ranks along an axis: stage s is chunk s / n of the
 * rank at place s % n. A tensor whose outermost dim is split on that axis has room for `max_layers`
 * of each chunk, chunk after chunk; the first layers[s] are those of stage s, counted from stage to
 * stage. Unused room is like padding: zeros that stay. valid[0] counts the layers of all stages. */
typedef struct mg_stages {
    uint32_t axis; /* one bit of mg_program.axes; 0: no stages */
    int chunks, max_layers;
    const int32_t *layers; /* per stage */
} mg_stages;

/* One action of the schedule, for traces, progress and the search for a non-finite value. */
typedef struct mg_action {
    const char *name;  /* "layers.attend.q" */
    const char *kind;  /* "kernel", "product", "attention", ... */
    const char *where; /* "llama.mg:23" */
    double predicted_us, flops, bytes;
    uint8_t nout; /* floating-point outputs of a generated kernel: pointer index, elements */
    struct {
        uint8_t arg;
        mg_dtype dtype;
        int64_t elements;
    } out[6];
} mg_action;

/* Bytes of the arena that are dead after `event`: an action number, or, from nactions on, a call
 * of mg_ended. Inputs and results of programs never die. */
typedef struct mg_death {
    uint32_t event;
    int64_t offset, bytes;
    uint8_t at; /* MG_AT_*: the ranks that had it; on other ranks the bytes hold something else */
} mg_death;

/* A named input: batch rows of `elements`, dense; i32 indices are below `limit`. */
typedef struct mg_input {
    const char *name;
    mg_dtype dtype;
    int64_t offset; /* bytes into the arena */
    int64_t elements, limit;
} mg_input;
#define MG_INPUTS_MAX  8
#define MG_METRICS_MAX 32
#define MG_GOALS_MAX   7
#define MG_PLACES_MAX  16 /* sets of axes for which a program asks its rank's place */

typedef struct mg_metric {
    const char *name; /* "accuracy" */
    int64_t offset;
} mg_metric;

typedef struct mg_goal { /* a loss beside the first, which changes parameters of its own */
    const char *name, *optimizer;
    mg_lr lr;
    int64_t rate, loss, norm; /* of the entry step: offsets of f64 */
} mg_goal;

typedef struct mg_total {
    int64_t offset, n; /* numbers, f64 */
    bool max;          /* the maximum so far, not the sum */
} mg_total;

/* A cache: what positions before left, for those to come: for each of `outer` layers and each
 * sequence so many bytes; 0 where a text begins. */
typedef struct mg_cache {
    int64_t offset, outer, bytes;
} mg_cache;

/* One entry, as step or prefill: offsets in the arena of what goes in and out; -1: none. */
typedef struct mg_entry {
    bool present;
    int64_t tokens;    /* i32[batch, window] */
    int64_t weights;   /* [batch, window - 1], of the compute type: of each token but the first */
    int64_t documents; /* i32[batch, window]: where in the window each token's document begins */
    int64_t batch;     /* sequences of one call, on all ranks together */
    int64_t window;    /* tokens of a sequence: seq and those behind it; seq for sample */
    int64_t lr;        /* f64 */
    int64_t step;      /* i64, from 0: equal steps draw equal dropout */
    int64_t seed;      /* i64 */
    int64_t scale;     /* f64: the loss scale (mg_program.scale) */
    int64_t pos;       /* i32: sample only: the position whose next token is asked for */
    int64_t filled;    /* i64: eval: sequences of the batch that count; -1: always all */
    int64_t before;    /* i64: eval: sequences evaluated before */
    int64_t begin;  /* i32[batch]: prefill, decode: the position of the first token of the window */
    int64_t count;  /* i32[batch]: ... how many are the text's; spread: 1: it takes its prompt's */
    int64_t loss;   /* f64; eval: over all sequences so far */
    int64_t norm;   /* f64: of all gradients (of the first loss), before clipping */
    int64_t logits; /* f32[batch, vocab] (f64 in an f64 program): sample; prefill, decode: behind
                     * the last token that counts; eval with rollouts: [batch, seq], the log
                     * probability of each target */
    int64_t logits_row; /* numbers of a row of these: vocab, or what that is padded to */
    double predicted_ms, flops;
    int64_t nodes; /* of its CUDA graphs, on the rank that has most */
    int ninputs;   /* named inputs in place of tokens */
    mg_input inputs[MG_INPUTS_MAX];
    int64_t rows; /* rows that a rank of `batch_axes` has one after another, before the next rank */
    uint32_t batch_axes;
    uint32_t batch_inner; /* the one of them that is the innermost, if it is not the last; or 0 */
    int64_t ntotals;      /* eval: sums that the entry adds to, in place */
    const mg_total *total;
    int64_t nmetrics;        /* eval: numbers beside the loss, each f64 */
    const mg_metric *metric; /* MG_METRICS_MAX at most */
    int nplaces;             /* i32 scalars: the rank's place along some axes */
    struct {
        uint32_t axes;
        int64_t offset;
    } place[MG_PLACES_MAX];
    bool drops;      /* step: experts' rows may have no room */
    int64_t dropped; /* f64: then the share of those */
} mg_entry;

/* A generated kernel of a CUDA program: its launch size, and the pointers of a call that it
 * takes (those that are not at fixed places). */
typedef struct mg_cuda_kernel {
    const char *name;
    int64_t grid_x, grid_y;
    int block, npointers;
    const uint8_t *pointer;
} mg_cuda_kernel;

/* Memory of a GPU beside the arena: what takes it, and the planned bytes. `early`: it is taken
 * before the arena is. With links the bytes are for NCCL's own settings, which users may change. */
typedef struct mg_outside {
    const char *name;
    int64_t bytes;
    bool early;
    mg_links links;
} mg_outside;

#define MG_AXES_MAX   16
#define MG_RANKS_MAX  256 /* of a program */
#define MG_GROUPS_MAX 64  /* sets of axes of the collectives of GPU ranks */

typedef struct mg_program {
    uint32_t abi;
    const int *runtime;                            /* &MG_ABI_OBJECT */
    const char *name, *source, *compiler, *layout; /* "llama", "llama.mg", "mgc 0.1.0", "default" */
    uint64_t fingerprint;     /* hash of tensors, shapes, optimizer: a checkpoint must match it */
    const char *cpu_features; /* comma-separated, as in LLVM's "+avx512f": what the kernels need */
    mg_dtype compute;         /* MG_F32 or MG_F64: type of parameters and arithmetic */
    mg_dtype half;            /* type of product operands, MG_BF16 or MG_F16; 0: as compute */
    mg_dtype fp8, fp8_gradients;    /* of layers' products, and of gradients in them; 0: half */
    mg_tiles fp8_tiles;             /* on GPUs those of their operands: ROWS (and A, B), MX */
    int64_t arena_bytes;            /* all tensors */
    int64_t persistent_bytes;       /* parameters and state: the first bytes of the arena */
    int64_t level_bytes[MG_LEVELS]; /* of the arenas of other levels */
    int64_t scratch_bytes;          /* per thread, outside the arena */
    int64_t batch, seq, vocab; /* of a step: sequences, targets of each; valid token ids < vocab */
    const mg_tensor *tensors;
    const mg_action *actions;
    const mg_death *deaths; /* by event */
    int ntensors, nactions, ndeaths, ngoals, ncuda_kernels;
    mg_lr lr;
    mg_scale scale;
    const char *optimizer; /* "adamw" */
    const mg_goal *goals;
    mg_entry step, eval, sample, round;
    /* Actions before the step's guard that make the same on all ranks along step.batch_axes if
     * these have the same rows, and the same place along these axes. */
    const mg_actions *alike;
    const mg_held *held; /* made before the guard, and read behind it */
    int nalike, nheld;
    /* Texts of `batch` sequences of at most seq tokens: windows of tokens are added to each, some
     * at a time (prefill) or one (decode). NULL: there are none. */
    mg_entry prefill, decode;
    mg_entry spread; /* brings what prefill left in its caches, the second half of `caches`, to
                      * decode.batch / prefill.batch texts of each; absent: both have the same */
    void (*run_prefill)(mg_run *r), (*run_decode)(mg_run *r), (*run_spread)(mg_run *r);
    int ncaches;
    const mg_cache *caches;
    mg_rollout rollout;       /* a step learns what prefill and decode generate; size 0: data */
    bool whole_chunks;        /* a window has as many tokens as it is long, or none */
    const char *config;       /* the train block and layout as one line, for the log */
    const char *config_json;  /* config.json of its checkpoints, or NULL */
    const char *adapter_json; /* adapter_config.json of its checkpoints from the second line on: it
                               * trains an adapter alone. NULL: it trains its parameters */
    const mg_cuda_kernel *cuda_kernels; /* NULL: a program of the processor */
    const void *cuda_image;             /* the fat binary with the kernels */
    int naxes;                          /* axes of more than one rank; 0: one rank */
    mg_axis axes[MG_AXES_MAX];
    bool tf32;      /* products of f32 may round their operands to 10 bits */
    bool unordered; /* sums of GPU ranks need not have the same order in each run */
    bool as_ready;  /* parameters are updated as gradients are ready, where that is finite */
    /* In a GPU program of several ranks: mg_nccl, and the sets of axes of its collectives. */
    const struct mg_collectives *collectives;
    int ngroups;
    uint32_t groups[MG_GROUPS_MAX];
    uint64_t small, by_copies; /* bit k: groups[k] has small collectives; by copies */
    int64_t piece;             /* ... of so many bytes at most; 0: the program has none */
    mg_stages stages;
    mg_saving saving;
    const mg_outside *outside;
    int noutside;                   /* 0: a program of the processor */
    const struct mg_speech *speech; /* mg_speech, of one that generates text; NULL: none */
    const char *const *classes;     /* of a GPU's actions, for --trace: each a text or NULL */
    mg_network network;             /* of several ranks */
    const mg_planned *planned;      /* collectives of the step that send, nplanned of them */
    int nplanned;
    int64_t cuts; /* caches of a text of at most so many tokens have each in a place of its own, and
                   * may go on behind any of them; 0: of none */
} mg_program;

extern const mg_program mg_main;
void mg_step(mg_run *r);
void mg_eval(mg_run *r);
void mg_sample(mg_run *r);
void mg_round(mg_run *r);

/* Defined in runtime/cuda/comm.c, which needs NCCL. A program of one rank links without it. */
extern const struct mg_collectives mg_nccl;
/* Text in and out: a program that generates nothing links without it. */
extern const struct mg_speech mg_speech;

/* ---- functions that emitted code calls ----------------------------------------------------
 * `action` is the index in mg_main.actions. Pointers may not overlap unless said. */

char *mg_arena(mg_run *r);

/* A generated kernel: computes work units [begin, end) on the pointers p[0..]. Units are
 * independent, and each gives the same bits in every range. */
typedef void mg_kernel(void *const *p, int64_t begin, int64_t end);
/* Runs all units on the pool, at least `grain` of them per thread. */
void mg_launch(mg_run *r, int action, mg_kernel *k, int64_t units, int64_t grain, void *const *p);

/* Launches kernel `kernel` of mg_main.cuda_kernels, in the current stream of the run. */
void mg_cuda_launch(mg_run *r, int action, int kernel, void *const *p);

/* The same in a GPU's program, on its host, in the current stream; places are MG_FAR's, n of them.
 */
void mg_host_launch(mg_run *r, int action, mg_kernel *k, int64_t units, int64_t grain, int n,
                    const int64_t *places);

/* Streams. mg_stream: the actions that follow go into stream s (the rest's where a program begins
 * and ends). mg_record: `point` marks the stream's actions so far. mg_wait: later actions of the
 * stream wait for a point, which was recorded before in this iteration. On a processor the point
 * may be of the iteration before, or not recorded yet: then mg_wait does not wait. */
void mg_stream(mg_run *r, int s);
void mg_record(mg_run *r, int point);
void mg_wait(mg_run *r, int point);
/* On a processor the rest is the calling thread. In the stream of collectives mg_comm begins one,
 * which makes progress in mg_progress, in parts of actions, and in mg_wait; a wait in that stream
 * holds the next collective that begins there, and those behind (queue.h). In their streams
 * mg_fetch and mg_offload begin transfers, each stream one after the other; a wait there holds the
 * next that begins. No other action has a stream. */
void mg_progress(mg_run *r);

/* The loop has ended that used the bytes of the event's deaths. */
void mg_ended(mg_run *r, int event);

/* From another level of memory (MG_FAR), and to it. */
void mg_fetch(mg_run *r, int action, void *to, int64_t from, int64_t bytes);
void mg_offload(mg_run *r, int action, int64_t to, const void *from, int64_t bytes);
void mg_zero(mg_run *r, int action, void *p, int64_t bytes);
void mg_copy(mg_run *r, int action, void *to, const void *from, int64_t bytes);

/* False (and remembered by the runtime) if *loss or *norm is not finite: the step then returns
 * before it changes a parameter. norm: NULL if updates do not wait for all gradients. */
bool mg_guard(mg_run *r, int action, const double *loss, const double *norm);

/* The epilogue of a product of halves or fp8 (batch is then 1), one or several of these. It reads
 * the sums before they are rounded; beta is 0 except with MG_SUM. */
typedef enum mg_epilogue {
    MG_PLAIN,
    MG_BIAS = 1,       /* adds a bias of C's dtype and of n elements to each row */
    MG_SUM = 2,        /* gives the n sums of the columns of op(B), in C's dtype; alone */
    MG_GELU = 4,       /* C is gelu_tanh of the result so far */
    MG_AUX = 8,        /* also gives the operand of gelu_tanh: a matrix of C's dtype */
    MG_GELU_GRAD = 16, /* multiplies C by the slope of gelu_tanh at a matrix of C's dtype; alone */
    MG_SCALES = 32     /* of fp8: op(A) op(B) is multiplied by the floats at extra and aux; alone */
} mg_epilogue;

/* C = alpha op(A) op(B) + beta C, row-major; `batch` such products, at strides of sa, sb, sc
 * elements. op(A) is m x k: A is m x k with leading dimension lda, or with ta k x m. beta is 0
 * or 1; with 0 C is not read. Halves are summed in f32, and fp8 (tb without ta, in words of 16). */
typedef struct mg_gemm_desc {
    mg_dtype dtype; /* of A and B */
    mg_dtype other; /* of fp8: the type of B; else 0 */
    mg_dtype out;   /* of C: the same type, or f32 for halves; of fp8 f32 or bf16 */
    bool ta, tb;
    uint8_t epilogue; /* of mg_epilogue; its vector is `extra`, its matrix `aux`, else NULL */
    uint8_t variant;  /* 0: the fastest */
    uint8_t tiles;    /* of mg_tiles, with MG_SCALES: extra and aux are those of A and B */
    int64_t m, n, k, lda, ldb, ldc, ldx; /* ldx: of aux, or 0 */
    double alpha, beta;
    int64_t batch, sa, sb, sc;
} mg_gemm_desc;
void mg_gemm(mg_run *r, int action, const mg_gemm_desc *d, const void *a, const void *b, void *c,
             void *extra, void *aux);
/* On a processor, for a single product whose columns are a multiple of MG_TILE: kernel k, on the
 * pointers p, processes each piece of C before it leaves the cache. A unit of k is MG_TILE columns
 * of a row, row by row; it reads C there, and may write over it, but not over A, B, extra, aux. */
#define MG_TILE 32
void mg_gemm_epilogue(mg_run *r, int action, const mg_gemm_desc *d, const void *a, const void *b,
                      void *c, void *extra, void *aux, mg_kernel *k, void *const *p);
/* work: mg_conv_work(d) bytes (runtime/conv.h) on a GPU, or NULL. */
void mg_conv(mg_run *r, int action, const mg_conv_desc *d, const void *x, const void *w, void *y,
             void *work);

/* Attention: for each batch b, kv head h, group g and query s over the keys t that it sees:
 *   x[t] = scale * q[b,s,h,g,:] . k[b,t,h,:], or cap * tanh of that / cap; + bias[b,s,h,g,t]
 *   o[b,s,h,g,:] = sum_t softmax_t(x) v[b,t,h,:]
 *   lse[b,s,h,g] = log sum_t exp(x[t])
 * lse of halves is f32; head (q, k) and vhead (v, o) are contiguous. Gradients are overwritten. */
typedef struct mg_attention_desc {
    mg_dtype dtype;
    bool causal; /* query s sees no key t > s */
    double scale;
    double cap;     /* above 0: a scaled score x becomes cap * tanh(x / cap), before the mask */
    int64_t window; /* above 0 (with causal): query s sees no key before s - window + 1 */
    int64_t batch, kv, group, queries, keys, head, vhead;
    int64_t q[4];       /* strides of batch, query, kv, group */
    int64_t k[3], v[3]; /* strides of batch, key, kv */
    int64_t o[4];       /* also of do */
    int64_t lse[4];
    int64_t dq[4], dk[3], dv[3]; /* used by the gradient only */
    int64_t first[2], seen[2];   /* strides of batch, query of `first` and of `seen` */
    bool biased;
    int64_t bias[5],
        dbias[5]; /* strides of batch, query, kv, group, key (1); 0: it lacks the dim */
} mg_attention_desc;
void mg_attention(mg_run *r, int action, const mg_attention_desc *d, const void *q, const void *k,
                  const void *v, void *o, void *lse);
void mg_attention_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                       const void *k, const void *v, const void *o, const void *lse,
                       const void *dout, void *dq, void *dk, void *dv, void *work);
/* Attention with a bias, of the type of lse, or over a part of the keys; each may be NULL.
 * seen: query s of batch b sees the first seen[b * d->seen[0] + s * d->seen[1]] keys, at least
 * those of the query before; no causal, window. first: query s of batch b sees no key before
 * first[b * d->first[0] + s * d->first[1]], which does not fall from one query of a batch to the
 * next. Without seen, causal and window hold too. A query that sees no key has o = 0, lse = -1e30.
 * A gradient's lse and o are over all keys. */
void mg_attention_part(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                       const void *k, const void *v, void *o, void *lse, const void *bias,
                       const int32_t *seen, const int32_t *first);
void mg_attention_part_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                            const void *k, const void *v, const void *o, const void *lse,
                            const void *dout, void *dq, void *dk, void *dv, const void *bias,
                            const int32_t *seen, const int32_t *first, void *work);
/* Of the bias: of each of its elements the sum over the scores that it is added to. */
void mg_attention_bias_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                            const void *k, const void *v, const void *o, const void *lse,
                            const void *dout, void *dbias, const void *bias, const int32_t *seen,
                            const int32_t *first, void *work);

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

/* The head: z = x w, cross-entropy, and both gradients, `chunk` rows at a time, so that at most
 * chunk rows of logits exist. x[rows, hidden] and w[hidden, vocab] (w_by_vocab: w[vocab,
 * hidden]) are dense. dx is overwritten; dw is overwritten, or added to if dw_accumulate. dw is
 * NULL if w is frozen. dx == NULL: only the loss (dw and dloss are then unused). work:
 * mg_head_work(d) bytes. */
typedef struct mg_head_desc {
    mg_xent_desc xent;
    int64_t hidden, chunk;
    bool w_by_vocab, dw_accumulate;
    bool frozen; /* w has no gradient */
    mg_dtype dw; /* type of dw: the type of x and w, or f32 */
} mg_head_desc;
void mg_head(mg_run *r, int action, const mg_head_desc *d, const void *x, const void *w,
             const int32_t *target, const void *dloss, void *loss, void *dx, void *dw, void *work);
/* y[i, o, j] = table[t, o, index[i], j]; index entries are below n (checked when data is read).
 * index i is at ix[(i / inner_index) * outer_index + i % inner_index]. There are `tables` tables,
 * and as many indices in a row look up in each: t = i / (indices / tables). */
typedef struct mg_gather_desc {
    mg_dtype dtype;
    int64_t indices, tables, outer, n, inner, index_inner, index_outer;
    bool accumulate; /* scatter only: adds to dtable */
} mg_gather_desc;
void mg_gather(mg_run *r, int action, const mg_gather_desc *d, const void *table,
               const int32_t *index, void *y);
/* dtable[t, o, n, j] (+)= sum over i of table t with index[i] == n of dy[i, o, j], in the order of
 * i. work: mg_scatter_work(d) bytes on a GPU. */
void mg_scatter_add(mg_run *r, int action, const mg_gather_desc *d, const void *dy,
                    const int32_t *index, void *dtable, void *work);

/* table[t, o, index[i], j] = x[i, o, j]; -1: nowhere. A table's other indices differ. */
void mg_put(mg_run *r, int action, const mg_gather_desc *d, const void *x, const int32_t *index,
            void *table);

/* y[r, k]: index of the k-th largest of x[r, 0 .. n), k < top; of equal ones the first, NaN last */
void mg_top(mg_run *r, int action, const mg_top_desc *d, const void *x, int32_t *y);

void mg_random(mg_run *r, int action, const mg_random_desc *d, const int64_t *seed,
               const int64_t *step, const int32_t *slot, void *out);

/* A collective of the n ranks along some axes of the mesh, which have equal places along the
 * others. x is [outer, size, inner] around the dim that is cut or concatenated; y likewise with
 * another size, dense, and does not overlap x.
 * zigzag: a rank's part is not the r-th of n, but the r-th and the (2n - 1 - r)-th of 2n. Every
 * rank of a group calls the same in the same order. work: mg_comm_work bytes on a GPU, or NULL.
 * Of each kind its number, name, and what becomes of x. MG_CUTS: each rank gets its part; MG_JOINS:
 * all parts are put together; MG_SUMS: they are added up; MG_MOVES: y is the x of one rank.
 * MG_COPIED: GPUs may make it by copies (cuda/copies.c); of MG_MOVES from the rank before. */
#define MG_COLLECTIVES(KIND)                                                                       \
    KIND(1, MG_ALL_REDUCE, MG_SUMS | MG_COPIED)               /* y = sum (or maximum) of all x */  \
    KIND(2, MG_REDUCE_SCATTER, MG_CUTS | MG_SUMS | MG_COPIED) /* y = this rank's part of that */   \
    KIND(3, MG_ALL_GATHER, MG_JOINS | MG_COPIED)              /* y = all x, along the dim */       \
    KIND(4, MG_ALL_TO_ALL, MG_CUTS | MG_JOINS | MG_COPIED) /* y = a part of that: of dim to_... */ \
    KIND(5, MG_SHARD, MG_CUTS)                   /* y = this rank's part of x; none is sent */     \
    KIND(6, MG_RING_SHIFT, MG_MOVES | MG_COPIED) /* y = the previous rank's x, round a ring */     \
    KIND(7, MG_BROADCAST, MG_MOVES)              /* y = the x of place `root` */
enum { MG_CUTS = 1, MG_JOINS = 2, MG_SUMS = 4, MG_MOVES = 8, MG_COPIED = 16 };
#define MG_KIND(number, kind, does) kind = number,
typedef enum mg_comm_kind { MG_COLLECTIVES(MG_KIND) } mg_comm_kind;
#undef MG_KIND
typedef struct mg_comm_desc {
    mg_comm_kind kind;
    mg_dtype dtype;
    bool max, small; /* all_reduce: the maximum; of a GPU, in mg_program.small's communicator */
    bool tree;     /* sums: not in rank order, but of neighbours first, then of those pairs, ... */
    bool zigzag;   /* reduce_scatter, all_gather, shard */
    uint32_t axes; /* bit k: axis k of mg_program.axes */
    int64_t n, outer, size, inner, to_outer, to_size, to_inner;
    int root;      /* broadcast */
    int64_t piece; /* of a GPU: it is made by copies through the memory of the host that the ranks
                    * share, of so many bytes at most; 0: by NCCL */
} mg_comm_desc;
void mg_comm(mg_run *r, int action, const mg_comm_desc *d, const void *x, void *y, void *work);

/* ---- pipelines ------------------------------------------------------------------------------
 *
 * Microbatches pass through stages on several ranks. Each rank has a table of operations, made and
 * proved when the program was compiled. The emitted program walks the table, computes at F, B, I
 * and W, and passes all else to mg_pass:
 *
 *   for (const mg_pipe_op *o = mg_pipe_ops(r, &pipe); mg_phase(r, o); o++)
 *       switch (o->step) { case MG_PIPE_F: ... break; default: mg_pass(r, &pipe, o); }
 *
 * SEND and RECV begin a message, and do not wait. Consecutive ones form one issue: `with` of the
 * first is the number of those behind it, and 0 in these; mg_pass begins them all (on a GPU as one
 * NCCL group) when called for the first, and does nothing for the others. WAIT: the message ended;
 * the memory of a send may be written, of a receive read (on a GPU in the current stream).
 *
 * F messages go from stage to stage, B messages back; stages s and s + 1 are on neighbours of the
 * ring of ranks along the axis. Messages from one rank to another are received in the order of
 * sending, F and B together: only this order pairs them. A send ends when its receive has begun and
 * taken it. It is proved that no deadlock occurs if all messages that have begun make progress
 * while a rank waits for anything, also for a collective of other axes.
 *
 * Within a table only collectives of other axes run. At its end all messages were waited for.
 *
 * UNSHARDED and REDUCE are the emitted program's own: mg_pass never sees them. Before the first of
 * them a stage's parameters have been gathered; at the other, its gradients begin to be reduced. */
typedef enum mg_pipe_step {
    MG_PIPE_END, /* end of the table */
    MG_PIPE_F,
    MG_PIPE_B,
    MG_PIPE_I,
    MG_PIPE_W,
    MG_PIPE_SEND_F,
    MG_PIPE_RECV_F,
    MG_PIPE_SEND_B,
    MG_PIPE_RECV_B,
    MG_PIPE_WAIT,
    MG_PIPE_UNSHARDED,
    MG_PIPE_REDUCE
} mg_pipe_step;
typedef struct mg_pipe_op {
    uint8_t step;
    uint8_t of; /* WAIT: MG_PIPE_SEND_F, ...: the kind to wait for; the message is the oldest of
                 * that kind that was not waited for yet */
    uint8_t in, out; /* message buffers: of what was received (RECV_*), of what is sent (SEND_*) */
    uint16_t stage;
    uint16_t with; /* the number of operations behind it that begin with it: SEND_*, RECV_*; F: 1 */
    uint16_t slot; /* for the emitted program: the copy of activations */
    int32_t microbatch;
    float at, lasts; /* predicted, of compute operations and END: us from the step's start */
} mg_pipe_op;
/* Messages forward [0] and back [1], of `bytes` bytes each; buffer k of those sent is at byte
 * send[way] + k * stride[way] of the arena, of those received at receive[way] + ... */
typedef struct mg_pipe {
    uint32_t axis; /* mg_program.stages.axis */
    int64_t bytes[2], stride[2], send[2], receive[2];
    int action[4];                /* numbers of SEND_F, RECV_F, SEND_B, RECV_B in mg_main.actions */
    const mg_pipe_op *const *ops; /* by place along the axis; each ends with MG_PIPE_END */
} mg_pipe;
/* Returns this rank's table; a walk begins. */
const mg_pipe_op *mg_pipe_ops(mg_run *r, const mg_pipe *p);
void mg_pass(mg_run *r, const mg_pipe *p, const mg_pipe_op *o);
/* Called before each operation, whose start it records; false at the end of the table. */
bool mg_phase(mg_run *r, const mg_pipe_op *o);
/* Does a pair, F and B, run side by side? Not with --poison. */
bool mg_joins(const mg_run *r);
/* This rank's place among the ranks along these axes. */
int mg_place(const mg_run *r, uint32_t axes);

/* ---- functions that hand-written kernels call --------------------------------------------- */

/* Runs fn(ctx, begin, end, scratch) over [0, units) on the pool; scratch is the thread's own
 * mg_main.scratch_bytes (plus what the runtime adds), 64-byte aligned. Not reentrant. */
typedef void mg_task(void *ctx, int64_t begin, int64_t end, void *scratch);
void mg_parallel(mg_run *r, int64_t units, int64_t grain, mg_task *fn, void *ctx);
int mg_threads(const mg_run *r);
/* A task calls it with its scratch each fraction of a millisecond, to drive async communication. */
void mg_look(mg_run *r, const void *scratch);
/* Around each call: time for traces; outputs are checked in the search for a non-finite value. */
void mg_begin(mg_run *r, int action);
void mg_end(mg_run *r, int action);
void mg_output(mg_run *r, int action, const void *p, int64_t elements, mg_dtype t);
/* Tells mg_output what the action's generated kernel wrote through p. True if c is among it. */
bool mg_outputs(mg_run *r, int action, void *const *p, const void *c);

/* ---- functions of kernels that the runtime calls ------------------------------------------ */

/* The library of products of this program: "own, 64-byte vectors", "cuBLASLt 13.1.0". */
const char *mg_products_name(void);

/* Tells mg_output of the results of attention, and of its gradient, with any strides. */
void mg_attention_outputs(mg_run *r, int action, const mg_attention_desc *d, const void *o,
                          const void *lse);
void mg_attention_bias_outputs(mg_run *r, int action, const mg_attention_desc *d, const void *g);
void mg_attention_grad_outputs(mg_run *r, int action, const mg_attention_desc *d, const void *dq,
                               const void *dk, const void *dv);

/* Philox4x32-10 (Salmon et al., SC 2011): four words for a counter under a key. */
void mg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
uint64_t mg_key(const char *name); /* FNV-1a of an external name: the tensor's key */
/* Number `which` that an element draws for its initial value. */
double mg_uniform(int64_t e, const uint32_t key[2], uint32_t which, double low, double high);
double mg_normal(int64_t e, const uint32_t key[2], uint32_t which, double deviation);

#endif
