/* abi_types.h - a part of abi.h, beside which it lies wherever programs are built: types of
 * numbers and tensors, learning rates and loss scales, and the descriptors of convolutions, of what
 * is drawn, and of the largest. */
#ifndef MG_ABI_TYPES_H
#define MG_ABI_TYPES_H

#include <stdbool.h>
#include <stdint.h>

/* An object that the runtime of this ABI (MG_ABI of abi.h) alone defines. Programs refer to it, so
 * that a program and a runtime of two ABIs are not linked: the linker misses mg_runtime_abi_N. */
#define MG_ABI_PREFIX       "mg_runtime_abi_"
#define MG_ABI_JOINED(n)    mg_runtime_abi_##n
#define MG_ABI_OBJECT_OF(n) MG_ABI_JOINED(n)
#define MG_ABI_OBJECT       MG_ABI_OBJECT_OF(MG_ABI)
extern const int MG_ABI_OBJECT;

#define MG_RANK_MAX 8 /* dims of a tensor */

typedef enum mg_dtype {
    MG_F32 = 1,
    MG_F64,
    MG_BF16,
    MG_F16,
    MG_I32,
    MG_I64,
    MG_BOOL,
    MG_E4M3,
    MG_E5M2,
    MG_DYNAMIC8, /* dynamic8.h */
    MG_UDYNAMIC8,
    MG_E8M0, /* powers of two: fp8.h */
    MG_U8    /* bytes, as codes of numbers are */
} mg_dtype;

static inline int64_t mg_dtype_bytes(mg_dtype t)
{
    return t == MG_F64 || t == MG_I64     ? 8
           : t == MG_BF16 || t == MG_F16  ? 2
           : t == MG_BOOL || t >= MG_E4M3 ? 1
                                          : 4;
}

typedef enum mg_role { MG_PARAM = 1, MG_STATE, MG_ROUNDED } mg_role;
/* PEFT's lora_A.weight [rank, in], lora_B.weight [out, rank], lora_magnitude_vector [out]; a
 * parameter that is trained whole beside them, with the prefix of PEFT's names. */
typedef enum mg_adapter {
    MG_ADAPTER_A = 1,
    MG_ADAPTER_B,
    MG_ADAPTER_MAGNITUDE,
    MG_ADAPTER_WHOLE
} mg_adapter;

/* A part of a frozen matrix in fewer bits: runtime/checkpoint/base.h. CODES are of NF4, BYTES of
 * int8. */
typedef enum mg_base {
    MG_BASE_CODES = 1,
    MG_BASE_ABSMAX,
    MG_BASE_SCALE,
    MG_BASE_OFFSET,
    MG_BASE_BYTES
} mg_base;

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
 * and DeepSpeed's two, with W = max(2, warmup) and a warm-up by n / W, or ln(n + 1) / ln(W):
 *   warmup         from floor to peak, then constant (WarmupLR)
 *   warmup_cosine  from 0 to peak, then with p = (n - W + 1) / max(1, steps - W), capped at 1,
 *                  by (1 + cos(pi p)) / 2 to the floor (WarmupCosineLR) */
typedef struct mg_lr {
    mg_lr_kind kind;
    double peak, floor;
    int64_t warmup, steps, last;
    mg_lr_shape shape;
    bool log;
} mg_lr;

/* The loss scale of an f16 program (initial 0: no scale), by DeepSpeed's rule: an overflow
 * halves the scale, down to `least`, after `hysteresis` overflows; `window` good steps in a row
 * double it, and reset the hysteresis. */
typedef struct mg_scale {
    double initial, least;
    int64_t window, hysteresis;
} mg_scale;

/* mg_tile_scale(x, y): for each element of x, outer tensors of rows x columns, what the numbers of
 * its tile are multiplied by before they are rounded to fp8, whose largest number is `largest`.
 * Tiles are of tile_rows x tile_columns elements, each side at most 256, those at the ends of what
 * is left. With t the largest |x| of a tile, in f32: y = largest / max(t, 1e-12) divided in f64,
 * rounded to f32 power: 1 / y is the least power of two that is not below t * (1 / largest), and at
 * least 2^-127 A tile with a number that is not finite has NaN. x and y are dense. */
typedef struct mg_tile_scale_desc {
    mg_dtype dtype; /* of x: bf16 */
    int64_t outer, rows, columns, tile_rows, tile_columns;
    double largest;
    bool power;
} mg_tile_scale_desc;

/* mg_round_tiles(x, q, f): element (r, c) of the matrix x, which lies at r row_stride + c
 * column_stride, times the scale of its tile, in f32, rounded to q, which is dense; and 1 / that
 * scale, where cuBLASLt reads it; what no tile has is 0. Scales are those of mg_tile_scale.
 *   tiles of one row   f32[c / 128, r]
 *   tiles of 128 rows  f32[r / 128, c / 128], in rows of a multiple of 4
 *   power              e8m0, in blocks of 128 rows and 4 tiles, 512 bytes each, the blocks of the
 *                      same rows behind each other: mg_block_place */
typedef struct mg_round_tiles_desc {
    mg_dtype dtype, to; /* of x: bf16; of q */
    int64_t rows, columns, row_stride, column_stride;
    int64_t tile_rows, tile_columns; /* 1 or 128, 128; with power 1, 32 */
    double largest;
    bool power;
} mg_round_tiles_desc;
/* Rows of f, and elements of one. */
static inline int64_t mg_round_tiles_rows(const mg_round_tiles_desc *d)
{
    return d->power || d->tile_rows > 1 ? (d->rows + 127) / 128
                                        : (d->columns + d->tile_columns - 1) / d->tile_columns;
}
static inline int64_t mg_round_tiles_row(const mg_round_tiles_desc *d)
{
    const int64_t tiles = (d->columns + d->tile_columns - 1) / d->tile_columns;
    return d->power ? (tiles + 3) / 4 * 512 : d->tile_rows > 1 ? (tiles + 3) / 4 * 4 : d->rows;
}
/* The place in a row of f of the scale of a row's tile, with power. */
static inline int64_t mg_block_place(int64_t row, int64_t tile)
{
    return tile / 4 * 512 + row % 32 * 16 + row % 128 / 32 * 4 + tile % 4;
}

/* Of which tiles the operands of a product of fp8 have scales: 1 x 128, along what is summed; or of
 * one operand 128 x 128; or 1 x 32, powers of two. */
typedef enum mg_tiles {
    MG_TILES_NONE,
    MG_TILES_ROWS,
    MG_TILES_A,
    MG_TILES_B,
    MG_TILES_MX
} mg_tiles;

typedef struct mg_run mg_run; /* private to the runtime; emitted code only passes it on */
void mg_tile_scale(mg_run *r, int action, const mg_tile_scale_desc *d, const void *x, void *y);
void mg_round_tiles(mg_run *r, int action, const mg_round_tiles_desc *d, const void *x, void *q,
                    void *f);

static inline bool mg_dtype_is_fp8(mg_dtype t)
{
    return t == MG_E4M3 || t == MG_E5M2;
}

/* A convolution: a product whose first operand is read through indices that are sums of others.
 * Dims come in four groups, outermost first: batch, rows, columns, terms; each steps through x, w
 * and y by a stride, 0 where one lacks it. With p = at + the sum of by[d] i[d] over all dims d, at
 * indices i, element p / every of x is read along each axis; it is 0 where `every` does not divide
 * p, and outside of x. For each of the batch, y[rows, columns] is (or, to accumulate, grows by) the
 * sum over terms of x[rows, terms] w[terms, columns]. Columns are contiguous in y. Halves are
 * summed in f32. */
#define MG_CONV_DIMS 12
#define MG_CONV_AXES 3
typedef struct mg_conv_axis {
    int64_t size, stride, at, every;
    int32_t by[MG_CONV_DIMS];
} mg_conv_axis;
typedef struct mg_conv_desc {
    mg_dtype dtype; /* of x and w */
    mg_dtype out;   /* of y: the same type, or f32 for halves */
    bool accumulate;
    int batch, rows, columns, terms, axes; /* how many of each */
    int64_t size[MG_CONV_DIMS], x[MG_CONV_DIMS], w[MG_CONV_DIMS], y[MG_CONV_DIMS];
    mg_conv_axis axis[MG_CONV_AXES];
} mg_conv_desc;

/* Experts. Each position of each group makes some choices of an expert, choice[group, position, k];
 * experts live in `homes`, as many neighbours in each: homes = experts, and each has its own; 1,
 * and all are in one; or rows are sent to the homes of their experts. A home has `slots` slots for
 * each group. All tensors are dense: rows   [groups, positions, inner]       data of positions z
 * [homes, groups, slots, inner]    data of experts choice, slot, weight [groups, positions,
 * choices]; weight is f32 if rows are halves slots           slot = number of choices of the home's
 * experts before its own, and of earlier choices of the same expert, by position and then by k; or
 * -1 if that is all the slots there are dispatch        z[home of choice, g, slot] = rows[g, p] *
 * weight, 0 in unused slots combine         rows[g, p] = sum of z[home, g, slot] * weight over its
 * choices, in their order combine_weight  weight[g, p, k] = z[home, g, slot] . rows[g, p], 0
 * without a slot ends            end[home, g, e] = number of choices, which have slots, of the
 * home's experts 0 to e Choices are below experts. A weight that is NULL is 1. No two choices of a
 * group share a slot. */
typedef struct mg_experts_desc {
    mg_dtype dtype; /* of rows and z */
    int64_t groups, positions, choices, homes, experts, slots, inner;
} mg_experts_desc;
void mg_slots(mg_run *r, int action, const mg_experts_desc *d, const int32_t *choice,
              int32_t *slot);
void mg_ends(mg_run *r, int action, const mg_experts_desc *d, const int32_t *choice, int32_t *end);
void mg_dispatch(mg_run *r, int action, const mg_experts_desc *d, const void *rows,
                 const int32_t *choice, const int32_t *slot, const void *weight, void *z);
void mg_combine(mg_run *r, int action, const mg_experts_desc *d, const void *z,
                const int32_t *choice, const int32_t *slot, const void *weight, void *rows);
void mg_combine_weight(mg_run *r, int action, const mg_experts_desc *d, const void *z,
                       const void *rows, const int32_t *choice, const int32_t *slot, void *weight);

/* Products of rows that are sorted by expert: rows [end[g, e - 1], end[g, e]) of group g are expert
 * e's, from 0 on; ends do not decrease, and are at most `rows`. All tensors are dense:
 *   z [groups, rows, k], y [groups, rows, n], end [groups, experts]
 *   w [experts, k, n], or if it is turned [experts, n, k]
 * grouped         y[g, r] = z[g, r] w[e], 0 in rows of no expert
 * grouped_weight  w[e] = (or, to accumulate, grows by) the sum over g and e's rows r, in that
 * order, of z[g, r] y[g, r]; it is not turned Halves are summed in f32. */
typedef struct mg_grouped_desc {
    mg_dtype dtype; /* of operands */
    mg_dtype out;   /* of the result: the same type, or f32 for halves */
    bool turned, accumulate;
    int64_t groups, rows, experts, k, n;
} mg_grouped_desc;
void mg_grouped(mg_run *r, int action, const mg_grouped_desc *d, const void *z, const void *w,
                const int32_t *end, void *y);
void mg_grouped_weight(mg_run *r, int action, const mg_grouped_desc *d, const void *z,
                       const void *y, const int32_t *end, void *w);

/* out[e] = uniform in [0, 1), equal under every layout: with g = slot * elements + e the top 24
 * bits of word g % 4 of Philox4x32-10, of counter {g / 4, step} under the key seed ^ key, 64 bits
 * each, low half first. */
typedef struct mg_random_desc {
    mg_dtype dtype;
    uint64_t key;
    int64_t elements;
} mg_random_desc;

/* abi.h: mg_top */
typedef struct mg_top_desc {
    mg_dtype dtype; /* f32 or f64 */
    int64_t rows, n, top;
} mg_top_desc;

/* An axis of the mesh of ranks: the last one is the fastest. */
typedef struct mg_axis {
    const char *name;
    int64_t size;
} mg_axis;

/* Stages of a pipeline on the n ranks of an axis, one in each chunk of a rank. In a loop stage s is
 * on rank s mod n. In a V of two chunks the stages go to the last rank and back: stages s and
 * 2n - 1 - s are on rank s, for s < n. Both have stage s as chunk s / n of its rank. */
typedef enum mg_placement { MG_LOOP, MG_V } mg_placement;
static inline int mg_rank_of_stage(mg_placement placement, int n, int stage)
{
    const int at = stage % n;
    return placement == MG_V && stage >= n ? n - 1 - at : at;
}
static inline int mg_stage_of_rank(mg_placement placement, int n, int rank, int chunk)
{
    return chunk * n + (placement == MG_V && chunk ? n - 1 - rank : rank);
}

/* Connections of NCCL's communicators of a rank (sizes.h: mg_links_bytes): their number;
 * pairs of connections, one to send and one to receive, that each channel has with ranks of the
 * same node, and with ranks of others, in rings and trees that leave it; communicators that send
 * messages to other nodes; ranks of nodes whose links' switch adds up for a communicator. */
typedef struct mg_links {
    int64_t comms, near, far, pools, switched;
    bool small; /* each has MG_SMALL_CHANNELS */
} mg_links;

/* An offset into the arena, or into that of another level of memory: the host's, of a GPU; a
 * file's. So bytes of all levels have one order. */
enum { MG_LEVEL_DEVICE, MG_LEVEL_HOST, MG_LEVEL_DISK, MG_LEVELS };
#define MG_LEVEL_SHIFT        52
#define MG_FAR(level, offset) ((int64_t)(offset) + ((int64_t)(level) << MG_LEVEL_SHIFT))
#define MG_LEVEL(offset)      ((int)((int64_t)(offset) >> MG_LEVEL_SHIFT))
/* Tensors in the file begin at multiples of so many bytes, so that whole ones are transferred
 * directly. */
#define MG_DISK_BLOCK 4096

/* Streams of actions, and points that a program may record (abi.h: mg_stream, mg_record). */
#define MG_STREAMS_MAX 9
#define MG_POINTS_MAX  1024
/* Points of what is beside a pipeline's table: one for each chunk that is gathered, and these. */
#define MG_POINTS_BESIDE 2
enum {
    MG_STREAM_REST,
    MG_STREAM_PRODUCTS,
    MG_STREAM_COLLECTIVES,
    MG_STREAM_FETCHES,
    MG_STREAM_OFFLOADS,
    MG_STREAM_HOST,
    MG_STREAM_BESIDE, /* what a step gathers and reduces once, beside a pipeline's table */
    MG_STREAM_SMALL,  /* small collectives, of communicators of their own */
    MG_STREAM_NEAR    /* collectives among ranks of one machine, beside those over the network */
};

/* Actions [from, to), by their index in mg_program.actions. */
typedef struct mg_actions {
    uint32_t from, to;
} mg_actions;

/* n times so many bytes, `stride` from one to the next, at an offset of the arena (MG_FAR), on the
 * ranks along the axis of stages that `at` says (MG_AT_*). */
typedef struct mg_held {
    int64_t offset, bytes, n, stride;
    uint8_t at;
} mg_held;

/* Answers that a step generates and learns, in groups of `size` of one prompt, of `tokens` at most:
 * the inputs of step are tokens[batch, seq + 1], mask (1 at the tokens of an answer), advantage
 * [batch, 1], and with several updates by one answer old[batch, seq], as eval has given it. */
typedef enum mg_reward_scale { MG_REWARD_GROUP, MG_REWARD_BATCH, MG_REWARD_NONE } mg_reward_scale;
typedef struct mg_rollout {
    int64_t size, tokens, updates;
    mg_reward_scale scale;
    double temperature;
} mg_rollout;

/* Links between ranks as the plan has them: bytes/s that a rank sends another of its node, of
 * `node_ranks` neighbours, and seconds of a step there; the same of what it sends to other nodes.
 */
typedef struct mg_network {
    double link_bandwidth, link_seconds, node_bandwidth, node_seconds;
    int node_ranks;
} mg_network;

/* A collective of the step: its action, and what it does. */
struct mg_comm_desc;
typedef struct mg_planned {
    int action;
    const struct mg_comm_desc *comm;
} mg_planned;

/* Of checkpoints that are written beside the steps, predicted rates of a machine, bytes/s: of the
 * copy of all its ranks that steps wait for, and of writing. 0: unknown. */
typedef struct mg_saving {
    double copy, write;
    bool guessed; /* the description says nothing of the disk */
} mg_saving;

#endif
