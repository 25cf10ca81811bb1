/* launches.h - launch parameters that runtime/cuda and the kernels of kernels/cuda share: threads
 * of a block, rows of a tile, bytes of shared memory. A program's image is compiled with them, so a
 * change takes another MG_ABI.
 *
 * This header includes nothing, because it lies beside abi.h where programs are built. */
#ifndef MG_LAUNCHES_H
#define MG_LAUNCHES_H

enum {
    MG_XENT_BLOCK = 256,     /* threads, for a row */
    MG_GATHER_BLOCK = 256,   /* threads, up to 32 for a row */
    MG_SORT_BITS = 8,        /* at most, of a pass of the sort of indices */
    MG_SORT_TILE = 512,      /* indices for a warp */
    MG_SORT_WARPS = 4,       /* of a block */
    MG_SCATTER_BLOCK = 128,  /* threads, a warp for 32 indices and some columns */
    MG_ROWS_BLOCK = 256,     /* threads, of epilogues by word */
    MG_SUM_BLOCK = 256,      /* threads, for 32 columns or words of eight */
    MG_SLOTS_BLOCK = 128,    /* threads, a warp for an expert */
    MG_EXPERTS_BLOCK = 128,  /* threads, for a row */
    MG_ATTENTION_WARPS = 4,  /* warps of a block; each a query or a key */
    MG_FLASH_WARPS = 4,      /* warps of a block; each 16 queries or keys */
    MG_DELTA_ROWS = 4,       /* queries of some lanes of a warp, for do . o */
    MG_ATTENTION_HEAD = 256, /* the longest head */
    MG_FLASH90_ROWS = 128,   /* queries or keys of a block on sm_90, two threads for each */
    MG_FLASH90_QUERIES = 64, /* of a tile, in the gradient of keys and values */
};
/* Keys of a tile by head size, in the forward pass and in the gradient of queries; and the
 * shared memory of a block, in bytes: its own rows, and the tiles in use and in flight. */
#define MG_FLASH90_KEYS(head)    ((head) == 64 ? 64 : 128)
#define MG_FLASH90_DQ_KEYS(head) ((head) == 64 ? 128 : 64)
#define MG_FLASH90_SHARED(head)  ((MG_FLASH90_ROWS + 4 * MG_FLASH90_KEYS(head)) * (head) * 2)
#define MG_FLASH90_DQ_SHARED(head)                                                                 \
    ((2 * MG_FLASH90_ROWS + 5 * MG_FLASH90_DQ_KEYS(head)) * (head) * 2)
#define MG_FLASH90_DKV_SHARED(head)                                                                \
    ((2 * MG_FLASH90_ROWS + 4 * MG_FLASH90_QUERIES) * (head) * 2 + 2 * MG_FLASH90_QUERIES * 8)

#endif
