/* sizes.h - sizes that follow from the descriptors of abi.h: scratch and work space in bytes, the
 * products of a head, the shares of a tensor. The compiler plans with them and the runtime uses the
 * same; an emitted program does not need them. */
#ifndef MG_SIZES_H
#define MG_SIZES_H

#include <string.h>

#include "runtime/abi.h"
#include "runtime/launches.h"

/* ---- a disk below a GPU ---------------------------------------------------------------------- */

/* Pieces of pinned memory that its transfers go through, in two sets each way (cuda/disk.c). */
#define MG_DISK_PIECE  ((int64_t)8 << 20)
#define MG_DISK_PIECES 4
#define MG_DISK_SETS   2
#define MG_DISK_PINNED (2 * MG_DISK_SETS * MG_DISK_PIECES * MG_DISK_PIECE)
/* Nodes of a graph that a transfer is: a copy of each piece, and what the host does around it. */
static inline int64_t mg_disk_nodes(int64_t bytes, bool fetch)
{
    return 2 * ((bytes + MG_DISK_PIECE - 1) / MG_DISK_PIECE) + (fetch ? 0 : 1);
}

/* ---- products, attention, heads -------------------------------------------------------------- */

/* A product by one thread packs a block of A and a panel of B. The block has MG_BLOCK_LANES rows
 * (with partly filled vectors, unused lanes count) and at most MG_BLOCK_K terms; the panel has as
 * many terms, and at most 32 columns. */
#define MG_BLOCK_LANES 640
#define MG_BLOCK_K     256
/* Columns at a time, so that their sums stay in a near cache. Products of halves are summed in
 * scratch. */
#define MG_BLOCK_N 1024
/* Terms of k that are summed at a time: blocks of at most `limit`, of equal size as far as
 * multiples of `whole` allow. */
static inline int64_t mg_even_terms(int64_t k, int64_t limit, int64_t whole)
{
    const int64_t blocks = (k + limit - 1) / limit;
    return blocks ? ((k + blocks - 1) / blocks + whole - 1) / whole * whole : 0;
}
static inline int64_t mg_gemm_terms(int64_t k)
{
    return mg_even_terms(k, MG_BLOCK_K, 16);
}
/* Rows of a block of m rows, plus the most lanes that tiles of any vector unit leave unused. */
static inline int64_t mg_gemm_lanes(int64_t m)
{
    const int64_t all = (m + 5) / 6 * 8 + 32;
    return all < MG_BLOCK_LANES ? all : MG_BLOCK_LANES;
}
static inline bool mg_gemm_rounds(const mg_gemm_desc *d)
{
    return d->out == MG_BF16 || d->out == MG_F16;
}
/* On the tiles of AMX (kernels/amx.h) a number becomes one to three bf16. Blocks of A have MG_AMX_M
 * rows (twice as many of bf16, where one block has all terms, so that sums are not added to), and
 * terms of MG_AMX_K bf16 in all; B is packed as wide as a strip, for MG_AMX_ROWS rows together. */
#define MG_AMX_M       256
#define MG_AMX_K       1536
#define MG_AMX_ROWS    1024
#define MG_AMX_HIGH(d) ((d)->dtype == MG_BF16 && (d)->k <= MG_AMX_K ? 2 * MG_AMX_M : MG_AMX_M)
static inline int64_t mg_amx_parts(mg_dtype t)
{
    return t == MG_BF16 ? 1 : t == MG_F16 ? 2 : 3;
}
static inline int64_t mg_amx_terms(const mg_gemm_desc *d)
{
    return mg_even_terms(d->k, MG_AMX_K / mg_amx_parts(d->dtype), 32);
}
/* Floats of a packed block of `lines` lines, but at most `limit`; whole tiles. */
static inline int64_t mg_amx_block(const mg_gemm_desc *d, int64_t lines, int64_t limit)
{
    const int64_t tiles = ((lines < limit ? lines : limit) + 15) / 16;
    return tiles * 16 * mg_amx_terms(d) * mg_amx_parts(d->dtype) / 2;
}
/* A product of at most MG_FEW_ROWS rows packs these alone, MG_FEW_BLOCKS blocks of terms at a time
 * or the terms of a block of tiles, and has the sums of at most MG_FEW_N columns in scratch; rows
 * of sums are MG_FEW_LD apart, so that they lie in different sets of a cache. */
#define MG_FEW_ROWS   16
#define MG_FEW_N      2048
#define MG_FEW_BLOCKS 4
#define MG_FEW_LD(n)  (((n) + 31) / 32 * 32 + 16)
/* Numbers of the packed rows. */
static inline int64_t mg_few_packed(const mg_gemm_desc *d, int64_t m)
{
    const int64_t rows = MG_FEW_BLOCKS * m * (MG_BLOCK_K + 16);
    const int64_t tiles = d->dtype == MG_BF16 ? mg_amx_block(d, 16, 16) : 0;
    return rows > tiles ? rows : tiles;
}
/* Numbers of scratch; with `in_scratch` also those of C and of the epilogue's vector. */
static inline int64_t mg_few_numbers(const mg_gemm_desc *d, int64_t m, int64_t n, bool in_scratch)
{
    const int64_t wide = MG_FEW_LD(n < MG_FEW_N ? n : MG_FEW_N);
    if (m > MG_FEW_ROWS)
        return 0;
    return mg_few_packed(d, m) + (in_scratch ? 2 * m + 1 : m) * wide;
}
/* Bytes of scratch per thread: the largest of the versions of vectors, of tiles and of few rows (of
 * a single column: it is turned). `sums`: those of C are kept there until they are complete. */
static inline int64_t mg_product_scratch(const mg_gemm_desc *d, bool in_scratch)
{
    const int64_t lanes = mg_gemm_lanes(d->m);
    const int64_t packed = lanes * (MG_BLOCK_K + 16) + 32 * mg_gemm_terms(d->k);
    const int64_t sums = in_scratch ? (lanes + 1) * MG_BLOCK_N : 0;
    const int64_t row = d->n == 1 ? mg_few_numbers(d, 1, d->m, in_scratch) : 0;
    const int64_t rows_few = mg_few_numbers(d, d->m, d->n, in_scratch);
    const int64_t few = row > rows_few ? row : rows_few;
    const int64_t vectors = packed + sums > few ? packed + sums : few;
    if (d->dtype == MG_F64)
        return vectors * 8;
    const int64_t a = mg_amx_block(d, d->m, MG_AMX_HIGH(d)), b = mg_amx_block(d, d->n, MG_BLOCK_N);
    const int64_t turned = d->n == 1 ? mg_amx_block(d, d->m, MG_BLOCK_N) : 0;
    const int64_t rows = d->m < MG_AMX_ROWS ? d->m : MG_AMX_ROWS;
    const int64_t tiled = a + (b > turned ? b : turned);
    const int64_t tile_sums = in_scratch ? (rows + 1) * MG_FEW_LD(MG_BLOCK_N) : 0;
    return (vectors > tiled + tile_sums ? vectors : tiled + tile_sums) * 4;
}
static inline int64_t mg_gemm_scratch(const mg_gemm_desc *d)
{
    return mg_product_scratch(d, mg_gemm_rounds(d));
}

/* The size of a group of a convolution's dims. */
static inline int64_t mg_conv_size(const mg_conv_desc *d, int first, int count)
{
    int64_t n = 1;
    for (int i = first; i < first + count; i++)
        n *= d->size[i];
    return n;
}
/* Elements of an operand that are brought together before they are packed: lines for a few tiles of
 * a block, or for a tile of AMX. */
#define MG_STAGED (96 * MG_BLOCK_K)
/* Bytes of a block of AMX that is packed once for many taps (kernels/spread.h): half of a large
 * second-level cache. */
#define MG_SPREAD ((int64_t)1 << 20)
/* The product that a convolution's scratch has to be enough for. A convolution is computed as
 * several products that are no larger than itself (kernels/conv.c), with blocks of any length. */
static inline mg_gemm_desc mg_conv_bound(const mg_conv_desc *d)
{
    mg_gemm_desc g;
    memset(&g, 0, sizeof g);
    g.dtype = d->dtype;
    g.out = d->out;
    g.m = mg_conv_size(d, d->batch, d->rows);
    g.n = mg_conv_size(d, d->batch + d->rows, d->columns);
    g.k = MG_AMX_K;
    return g;
}
/* Bytes of scratch per thread: that of its products. */
static inline int64_t mg_conv_product_scratch(const mg_conv_desc *d)
{
    const mg_gemm_desc g = mg_conv_bound(d);
    return (mg_product_scratch(&g, true) + 63) / 64 * 64;
}
/* Bytes of work of the gradient of attention on a GPU (work is NULL if 0): one float for each
 * query, but none of f64. */
static inline int64_t mg_attention_grad_work(const mg_attention_desc *d)
{
    return d->dtype == MG_F64 ? 0
                              : d->batch * d->kv * d->group * d->queries * (int64_t)sizeof(float);
}
/* Bytes of scratch per thread, for both directions: blocks of 64 keys meet 4 strips of rows, each
 * as wide as 2 of the widest vectors. */
static inline int64_t mg_attention_scratch(const mg_attention_desc *d)
{
    enum { KEYS = 64, STRIPS = 4, STRIP_VECTORS = 2, TILE = 1024 };
    const int64_t bytes = d->dtype == MG_F64 ? 8 : 4, vector = 64 / bytes;
    const int64_t lanes = STRIP_VECTORS * vector, arrays = 8 + 7 * STRIPS;
    const int64_t wide = (d->head + vector - 1) / vector * vector;
    const int64_t vwide = (d->vhead + vector - 1) / vector * vector;
    const int64_t block = KEYS * (wide + vwide + 3 * lanes) + lanes;
    const int64_t strip = lanes * (3 * wide + 2 * vwide + 2), keys = (d->keys + 15) / 16 * 16;
    const int64_t all = (block + STRIPS * strip + keys * (wide + vwide)) * bytes + arrays * 64;
    if (d->dtype == MG_F64)
        return all;
    /* AMX tiles of the gradients: keys, transposed keys, values; dS; and for each strip queries,
     * dout and probabilities, in both orientations. */
    const int64_t lines = wide / 16, vlines = vwide / 16, parts = mg_amx_parts(d->dtype);
    const int64_t terms = (d->head + 31) / 32, vterms = (d->vhead + 31) / 32;
    const int64_t own = parts == 3 ? 3 : 2, of_keys = 4 * terms + 2 * lines + 4 * vterms;
    const int64_t of_strip = 2 * terms + 2 * vterms + lines + vlines + 4 + 4;
    return all + (parts * of_keys + own * (4 + STRIPS * of_strip)) * TILE;
}

/* Each row of a head's logits begins at a cache line: elements from one row to the next, and the
 * cross-entropy of such rows. */
static inline int64_t mg_head_row(const mg_head_desc *d)
{
    const int64_t line = 64 / mg_dtype_bytes(d->xent.dtype);
    return (d->xent.vocab + line - 1) / line * line;
}
#ifndef __cplusplus
static inline mg_xent_desc mg_head_xent(const mg_head_desc *d)
{
    mg_xent_desc x = d->xent;
    x.vocab = mg_head_row(d);
    return x;
}
#endif
/* The products of a head for `rows` rows: z = x w; dx = dz w'; and dw (+)= x' dz, or with
 * w_by_vocab dz' x, added to dw if `add`. */
#ifndef __cplusplus
static inline mg_gemm_desc mg_head_z(const mg_head_desc *d, int64_t rows)
{
    const int64_t v = d->xent.vocab, h = d->hidden;
    return (mg_gemm_desc){.dtype = d->xent.dtype,
                          .out = d->xent.dtype,
                          .tb = d->w_by_vocab,
                          .m = rows,
                          .n = v,
                          .k = h,
                          .lda = h,
                          .ldb = d->w_by_vocab ? h : v,
                          .ldc = mg_head_row(d),
                          .alpha = 1,
                          .batch = 1};
}
static inline mg_gemm_desc mg_head_dx(const mg_head_desc *d, int64_t rows)
{
    const int64_t v = d->xent.vocab, h = d->hidden;
    return (mg_gemm_desc){.dtype = d->xent.dtype,
                          .out = d->xent.dtype,
                          .tb = !d->w_by_vocab,
                          .m = rows,
                          .n = h,
                          .k = v,
                          .lda = mg_head_row(d),
                          .ldb = d->w_by_vocab ? h : v,
                          .ldc = h,
                          .alpha = 1,
                          .batch = 1};
}
static inline mg_gemm_desc mg_head_dw(const mg_head_desc *d, int64_t rows, bool add)
{
    const int64_t v = d->xent.vocab, h = d->hidden, row = mg_head_row(d);
    return (mg_gemm_desc){.dtype = d->xent.dtype,
                          .out = d->dw,
                          .ta = true,
                          .m = d->w_by_vocab ? v : h,
                          .n = d->w_by_vocab ? h : v,
                          .k = rows,
                          .lda = d->w_by_vocab ? row : h,
                          .ldb = d->w_by_vocab ? h : row,
                          .ldc = d->w_by_vocab ? h : v,
                          .alpha = 1,
                          .beta = add,
                          .batch = 1};
}
#endif
/* Bytes of scratch per thread: the largest of the products. */
#ifndef __cplusplus
static inline int64_t mg_head_scratch(const mg_head_desc *d)
{
    const mg_gemm_desc all[] = {mg_head_z(d, d->chunk), mg_head_dx(d, d->chunk),
                                mg_head_dw(d, d->chunk, true)};
    int64_t max = 0;
    for (int i = 0; i < (d->frozen ? 2 : 3); i++)
        if (mg_gemm_scratch(&all[i]) > max)
            max = mg_gemm_scratch(&all[i]);
    return max;
}
#endif
static inline int64_t mg_head_work(const mg_head_desc *d)
{
    return d->chunk * mg_head_row(d) * mg_dtype_bytes(d->xent.dtype) + 64 * ((d->chunk + 7) / 8);
}

/* ---- indices --------------------------------------------------------------------------------- */

/* On a GPU a scatter sorts its indices (kernels/cuda/scatter.h): so many passes, of so many bits of
 * a row each, which are counted over the tables. */
static inline int mg_sort_passes(const mg_gather_desc *d)
{
    int bits = 1;
    while (d->tables * d->n > (int64_t)1 << bits)
        bits++;
    return (bits + MG_SORT_BITS - 1) / MG_SORT_BITS;
}
static inline int mg_sort_bits(const mg_gather_desc *d)
{
    const int passes = mg_sort_passes(d);
    int bits = 1;
    while (d->tables * d->n > (int64_t)1 << bits * passes)
        bits++;
    return bits;
}
static inline int64_t mg_sort_tiles(const mg_gather_desc *d)
{
    return (d->indices + MG_SORT_TILE - 1) / MG_SORT_TILE;
}
/* Bytes of the sorted positions: two copies, one if there is one pass. */
static inline int64_t mg_sort_placed(const mg_gather_desc *d)
{
    return d->indices * 8 * (mg_sort_passes(d) > 1 ? 2 : 1);
}
/* Bytes of work of a scatter on a GPU: the sorted positions, then counts of digits. */
static inline int64_t mg_scatter_work(const mg_gather_desc *d)
{
    return mg_sort_placed(d) + ((mg_sort_tiles(d) + 1) << mg_sort_bits(d)) * 4;
}

/* ---- layers of stages ------------------------------------------------------------------------ */

/* The position of layer number `layer` of all: its stage; the place, along the stage axis of `n`
 * ranks, of the rank that has it; its index among the layers that the rank has room for. */
typedef struct mg_layer {
    int stage, place;
    int64_t at;
} mg_layer;
static inline mg_layer mg_layer_of(const mg_stages *s, int n, int64_t layer)
{
    mg_layer l = {0, 0, 0};
    while (layer >= s->layers[l.stage])
        layer -= s->layers[l.stage++];
    l.place = mg_rank_of_stage(MG_LOOP, n, l.stage);
    l.at = (int64_t)(l.stage / n) * s->max_layers + layer;
    return l;
}
/* True if dim `dim` of a tensor is cut into stages. */
static inline bool mg_is_staged(const mg_stages *s, const mg_tensor *t, int dim)
{
    return dim == 0 && t->rank > 0 && (t->axes[0] & s->axis) != 0;
}
/* True if the rank at `place` of `n` along the stage axis has a tensor with mg_tensor.at = `at`. */
static inline bool mg_is_at(unsigned at, int place, int n)
{
    const unsigned mine = place == 0 ? MG_AT_FIRST : place == n - 1 ? MG_AT_LAST : MG_AT_MIDDLE;
    return (at & mine) != 0;
}

/* ---- collectives ---------------------------------------------------------------------------- */

/* On GPUs a rank's share of a tensor is `rows` pieces of `row` bytes, one for each index of the
 * dims outside of the dim that is cut (in x) or concatenated (in y). A few long pieces are sent in
 * place. Many short pieces, or the two separate halves of zigzag order, are first copied to one
 * piece in work space. */
/* MG_CUTS, ...: what a collective does, by its row in abi.h. */
static inline int mg_comm_does(mg_comm_kind of)
{
    switch (of) {
#define MG_KIND(number, kind, does)                                                                \
    case kind:                                                                                     \
        return does;
        MG_COLLECTIVES(MG_KIND)
#undef MG_KIND
    }
    return 0;
}
enum { MG_PIECES = 256, MG_PIECE_BYTES = 1 << 14, MG_TREE_BYTES = 1 << 26 };
typedef struct mg_share {
    int64_t rows, row;
    bool gathered; /* copied to work space */
} mg_share;
static inline mg_share mg_share_of(const mg_comm_desc *d, int64_t rows, int64_t row)
{
    const bool few = rows <= MG_PIECES && row >= MG_PIECE_BYTES && d->kind != MG_ALL_TO_ALL;
    mg_share s = {rows, row, d->zigzag || (rows > 1 && !few)};
    return s;
}
/* The share of x for each rank (reduce_scatter, all_to_all, shard). */
static inline mg_share mg_share_cut(const mg_comm_desc *d)
{
    const int64_t width = mg_dtype_bytes(d->dtype);
    if (d->kind == MG_ALL_TO_ALL)
        return mg_share_of(d, d->to_outer, d->to_size / d->n * d->to_inner * width);
    return mg_share_of(d, d->outer, d->size / d->n * d->inner * width);
}
/* The share of y from each rank (all_gather, all_to_all). In an all_to_all the dim that is cut is
 * either outside or inside of the dim that is concatenated. */
static inline mg_share mg_share_laid(const mg_comm_desc *d)
{
    const int64_t line = d->size * d->inner * mg_dtype_bytes(d->dtype);
    if (d->kind != MG_ALL_TO_ALL)
        return mg_share_of(d, d->outer, line);
    return d->outer * d->size <= d->to_outer ? mg_share_of(d, d->outer, line / d->n)
                                             : mg_share_of(d, d->outer / d->n, line);
}
static inline int64_t mg_comm_elements(const mg_comm_desc *d) /* of y */
{
    const int64_t x = d->outer * d->size * d->inner;
    const int does = mg_comm_does(d->kind);
    return x / (does & MG_CUTS ? d->n : 1) * (does & MG_JOINS ? d->n : 1);
}
/* For an all_reduce in a tree: elements in flight at a time, a multiple of n. */
static inline int64_t mg_tree_elements(const mg_comm_desc *d)
{
    const int64_t all = d->outer * d->size * d->inner, limit = MG_TREE_BYTES / 8;
    return ((all < limit ? all : limit) + d->n - 1) / d->n * d->n;
}
/* Collectives by copies (runtime/cuda/copies.c). The ranks of a machine share memory of their host.
 * Each rank has MG_COPY_SETS sets of lanes in it, a lane of a piece's bytes for each rank there: it
 * copies out what another takes from its lane, and into its own what all others take. A word for
 * each set and taker, in a cache line of its own, says whether there is something to take. */
enum { MG_COPY_SETS = 3, MG_COPY_LINE = 64, MG_COPY_ROUND = 1 << 16 };
static inline int64_t mg_copies_words(int64_t here)
{
    const int64_t words = here * here * MG_COPY_SETS * MG_COPY_LINE;
    return (words + MG_COPY_ROUND - 1) / MG_COPY_ROUND * MG_COPY_ROUND;
}
/* Bytes of that memory, of all ranks of a machine. */
static inline int64_t mg_copies_bytes(int64_t here, int64_t piece)
{
    return piece ? mg_copies_words(here) + here * here * MG_COPY_SETS * piece : 0;
}
/* True of collectives that may be made so: sums of numbers that kernels add, of equal parts. */
static inline bool mg_copies_may(const mg_comm_desc *d)
{
    const int does = mg_comm_does(d->kind);
    const bool adds = !d->max && (d->dtype == MG_F32 || d->dtype == MG_F64 ||
                                  (!d->tree && (d->dtype == MG_BF16 || d->dtype == MG_F16)));
    const bool equal = does & MG_CUTS || d->outer * d->size * d->inner % d->n == 0;
    return does & MG_COPIED && (!(does & MG_SUMS) || (adds && equal));
}
/* Bytes of a small collective at most, and blocks of a GPU that its kernel takes (its
 * communicator's channels): one block is free soon, and so few bytes need no more. */
#define MG_SMALL_BYTES    4096
#define MG_SMALL_CHANNELS 1
/* True of collectives that may be small: the largest of some numbers. */
static inline bool mg_small_may(const mg_comm_desc *d)
{
    return d->kind == MG_ALL_REDUCE && d->max &&
           d->outer * d->size * d->inner * mg_dtype_bytes(d->dtype) <= MG_SMALL_BYTES;
}
/* The share that a rank gives each other, or gets of it: `rows` runs of `row` bytes. */
static inline mg_share mg_copies_share(const mg_comm_desc *d)
{
    const int64_t all = d->outer * d->size * d->inner * mg_dtype_bytes(d->dtype);
    const int does = mg_comm_does(d->kind);
    mg_share s = {1, all, false};
    if (d->kind == MG_ALL_REDUCE)
        s.row = all / d->n;
    else if (does & MG_CUTS)
        s = mg_share_cut(d);
    else if (does & MG_JOINS)
        s = mg_share_laid(d);
    if (s.gathered || d->kind == MG_ALL_TO_ALL) {
        s.row *= s.rows;
        s.rows = 1;
    }
    return s;
}
/* The pieces of that: a part of a row, or as many whole rows as a piece holds. */
static inline int64_t mg_piece_rows(const mg_comm_desc *d)
{
    const mg_share s = mg_copies_share(d);
    const int64_t rows = d->piece / s.row;
    return rows < 1 ? 1 : rows < s.rows ? rows : s.rows;
}
static inline int64_t mg_pieces(const mg_comm_desc *d)
{
    const mg_share s = mg_copies_share(d);
    const int64_t rows = mg_piece_rows(d), of_row = (s.row + d->piece - 1) / d->piece;
    return (s.rows + rows - 1) / rows * of_row;
}
static inline int64_t mg_piece_most(const mg_comm_desc *d)
{
    const mg_share s = mg_copies_share(d);
    return mg_piece_rows(d) * (s.row < d->piece ? s.row : d->piece);
}
/* Bytes of work of a collective on a GPU: first the shares to send, one after another
 * (mg_comm_sent), then the data received. */
static inline int64_t mg_comm_sent(const mg_comm_desc *d)
{
    const int does = mg_comm_does(d->kind);
    const bool cuts = does & MG_CUTS && does != MG_CUTS;
    const mg_share s = mg_share_cut(d);
    return cuts && s.gathered ? d->n * s.rows * s.row : 0;
}
static inline int64_t mg_comm_work(const mg_comm_desc *d)
{
    const int does = mg_comm_does(d->kind);
    const mg_share y = mg_share_laid(d), x = mg_share_cut(d);
    int64_t came = 0;
    if (does & MG_JOINS && y.gathered)
        came = d->n * y.rows * y.row;
    else if (d->piece && does & MG_SUMS)
        came = d->n * mg_piece_most(d);
    else if (d->tree && does & MG_CUTS)
        came = d->n * x.row * (x.gathered ? x.rows : 1);
    else if (d->tree && does & MG_SUMS)
        came = mg_tree_elements(d) * mg_dtype_bytes(d->dtype);
    return mg_comm_sent(d) + came;
}

/* ---- nodes of CUDA graphs -------------------------------------------------------------------- */

/* Nodes that a call of abi.h adds to a graph: its kernels, copies and memsets, and the groups of
 * NCCL. runtime/cuda launches as many; tests count them. Of a product's epilogue that the library
 * may lack (MG_APART_NODES) none is counted here. A call of another kind is one node. */
static inline int64_t mg_gemm_nodes(const mg_gemm_desc *d)
{
    return d->m > 0 && d->n > 0 && d->batch > 0;
}
/* Kernels that compute a product's epilogue where the library has no algorithm with it: of a bias
 * one before the product, of sums two (of parts, and of these), and one after it. */
static inline int64_t mg_apart_nodes(const mg_gemm_desc *d)
{
    return ((d->epilogue & MG_BIAS) != 0) + 2 * ((d->epilogue & MG_SUM) != 0) +
           ((d->epilogue & (MG_GELU | MG_GELU_GRAD)) != 0);
}
/* A chunk of a head: the product, the loss, and with gradients the product of each. */
static inline int64_t mg_head_nodes(const mg_head_desc *d, bool gradients)
{
    return (d->xent.rows + d->chunk - 1) / d->chunk * (!gradients ? 2 : d->frozen ? 3 : 4);
}
static inline int64_t mg_scatter_nodes(const mg_gather_desc *d)
{
    const bool any = d->indices > 0 && d->outer * d->n * d->inner > 0;
    return !d->accumulate + (any ? 3 * mg_sort_passes(d) + 1 : 0);
}
/* Of a collective by copies, for each piece: where each other rank gets another part, a wait until
 * all have taken what was there, a copy out and a write of the word of each other, and of each a
 * wait, a copy in and a write of the word; likewise where all get the same, by one copy out and one
 * write. And the sum, or the own part. */
static inline int64_t mg_copies_nodes(const mg_comm_desc *d)
{
    const int does = mg_comm_does(d->kind);
    const int64_t pieces = mg_pieces(d), peers = d->n - 1;
    const int64_t gives = does & (MG_CUTS | MG_SUMS) ? 1 + 5 * peers : 0;
    const int64_t shows = does & MG_CUTS ? 0 : 3 + 3 * peers;
    if (!(does & MG_COPIED))
        return 0;
    if (does & MG_MOVES)
        return pieces * 6;
    return does & MG_SUMS ? pieces * (gives + 2 + shows) : pieces * (gives + shows) + 1;
}
/* Marks before and after, the groups, and kernels that pack, unpack or add up shares. */
static inline int64_t mg_comm_nodes(const mg_comm_desc *d)
{
    const int does = mg_comm_does(d->kind);
    const bool cuts = does & MG_CUTS && mg_share_cut(d).gathered;
    const bool lays = does & MG_JOINS && mg_share_laid(d).gathered;
    const int64_t all = d->outer * d->size * d->inner, MARKS = 2;
    if (d->kind == MG_SHARD)
        return 1;
    if (d->piece)
        return MARKS + cuts + lays + mg_copies_nodes(d);
    if (!(does & MG_SUMS) || !d->tree)
        return MARKS + 1 + cuts + lays;
    if (does & MG_CUTS)
        return MARKS + cuts + 2 * (cuts ? 1 : mg_share_cut(d).rows);
    return MARKS + 3 * ((all + mg_tree_elements(d) - 1) / mg_tree_elements(d));
}
/* Programs with more nodes are not captured. */
#define MG_NODES_MAX (1 << 16)

/* ---- memory beside the arena of a GPU -------------------------------------------------------- */

/* Of a graph's node about 10 KB, by the authors of CUDASTF (NVIDIA/cccl, pull request 3768). */
#define MG_NODE_BYTES 10240
/* Work space of products, of each stream that has any: what products.c allocates. */
#define MG_PRODUCT_WORK (32 << 20)
/* The context, a part for each multiprocessor (the stacks of its threads, 1 KiB each of 2048, are
 * half of that): guessed, above 555 MiB of 188 multiprocessors and 107 MiB of 34 (measured:
 * ggml-org/llama.cpp, pull request 23604). */
#define MG_CONTEXT_BYTES     (64 << 20)
#define MG_CONTEXT_PROCESSOR (4 << 20)
/* Machine code: of the program's kernels; of what cuBLASLt loads at the first product; of NCCL.
 * Guessed. */
#define MG_CODE_BYTES    (16 << 20)
#define MG_CODE_KERNEL   (64 << 10)
#define MG_CODE_CUBLASLT (128 << 20)
#define MG_CODE_NCCL     (64 << 20)
#define MG_OUTSIDE_WHOLE ((int64_t)2 << 20) /* in which the driver gives memory */
/* NCCL has buffers for each of three protocols on each channel of each connection. Simple has
 * NCCL_BUFFSIZE (4 MiB: NCCL's manual), LL 8 lines of 16 bytes for 512 threads in 8 steps, LL128
 * 120 words of 8 bytes for 640 threads in 8 steps (NVIDIA/nccl, src/include/device.h). The runtime
 * limits the channels (ncclConfig_t.maxCTAs) to what NCCL takes by itself on eight H100 or B200: 24
 * to 32 in rings, and for messages a power of two. */
#define MG_NCCL_CHANNELS 32
#define MG_NCCL_BUFFER   ((int64_t)4 << 20)
#define MG_NCCL_LL       ((int64_t)8 * 512 * 8 * 16)
#define MG_NCCL_LL128    ((int64_t)120 * 640 * 8 * 8)
/* For sums in the links' switch a channel has a buffer for each rank of the node and each way, of 8
 * steps of 128 KiB (NVIDIA/nccl, src/transport/nvls.cc; eight H100 with 16 channels: 256 MiB). */
#define MG_NCCL_SWITCH ((int64_t)8 * (128 << 10))
/* A communicator without its connections: guessed. */
#define MG_NCCL_COMM ((int64_t)16 << 20)
static inline int64_t mg_outside_round(int64_t bytes)
{
    return (bytes + MG_OUTSIDE_WHOLE - 1) / MG_OUTSIDE_WHOLE * MG_OUTSIDE_WHOLE;
}
/* Bytes of NCCL. Inside a node the receiver has the buffers (or the sender, that of Simple), and
 * the sender a page of words to tell; through a network both have them. Messages to other nodes use
 * one pool a direction and communicator, of 16 steps of an eighth of a buffer for each channel. */
static inline int64_t mg_links_bytes(const mg_links *l, int64_t channels, int64_t buffer)
{
    const int64_t whole = mg_outside_round(buffer + MG_NCCL_LL + MG_NCCL_LL128);
    const int64_t pool = 2 * mg_outside_round(16 * (buffer / 8));
    return l->comms * MG_NCCL_COMM +
           channels * (l->near * (whole + MG_OUTSIDE_WHOLE) + l->far * 2 * whole + l->pools * pool +
                       l->switched * 2 * MG_NCCL_SWITCH);
}

#endif
