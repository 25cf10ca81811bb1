/* launches.h - launch parameters that runtime/cuda and the kernels of kernels/cuda share: threads
 * of a block, rows of a tile, bytes of shared memory. A program's image is compiled with them, so a
 * change takes another MG_ABI.
 *
 * This header includes nothing, because it lies beside abi.h where programs are built. */
#ifndef MG_LAUNCHES_H
#define MG_LAUNCHES_H

enum {
    /* Threads, for a row, which is read twice: the second time from the L2 cache, if all rows that
     * run at once fit it. More threads have fewer rows, and hide less of the latencies. */
    MG_XENT_BLOCK = 512,
    MG_GATHER_BLOCK = 256,   /* threads, up to 32 for a row */
    MG_SORT_BITS = 8,        /* at most, of a pass of the sort of indices */
    MG_SORT_TILE = 512,      /* indices for a warp */
    MG_SORT_WARPS = 4,       /* of a block */
    MG_SCATTER_BLOCK = 128,  /* threads, a warp for 32 indices and some columns */
    MG_ROWS_BLOCK = 256,     /* threads, of epilogues by word */
    MG_SUM_BLOCK = 256,      /* threads, for 32 columns or words of eight */
    MG_TILES_BLOCK = 256,    /* threads, for a tile of 128 rows, or as many tiles of one */
    MG_TILES_ROWS_HIGH = 32, /* as this */
    MG_SLOTS_BLOCK = 128,    /* threads, a warp for an expert */
    MG_EXPERTS_BLOCK = 128,  /* threads, for a row */
    MG_ATTENTION_WARPS = 4,  /* warps of a block; each a query or a key */
    MG_DELTA_BLOCK = 128,    /* threads, for do . o */
    MG_DELTA_ROWS = 4,       /* queries of some lanes of a warp, for do . o */
    MG_ATTENTION_HEAD = 256, /* the longest head */
    MG_FLASH_ROWS = 64,      /* queries of a block of flash.h, forward; 16 for a warp */
    MG_FLASH90_ROWS = 128,   /* queries or keys of a block on sm_90, two threads for each */
    MG_FLASH90_HEAD = 192,   /* the longest head there */
    MG_FLASH90_LONG_ROWS =
        64, /* keys of a block in the gradients of keys and values of long heads */
    MG_FLASH90_LONG_TILE = 64, /* queries of a tile there */
    MG_CONV_BLOCK = 256,       /* threads of a convolution */
    MG_CONV_ROWS = 128,        /* elements of a tile of its result, down */
    MG_CONV_TERM_BYTES = 64,   /* of a row of a tile in shared memory: 32 halves */
    MG_CONV_LEAST = 8,         /* tiles of terms that a part of a sum has at least */
    MG_CONV_BUSY = 264, /* blocks for which sums are cut: two for each multiprocessor of an H100 */
};

/* Chunks of 16 bytes from one row of a tile to the next, for rows of so many (mma.h). Those of
 * halves are as many where the chunks of eight rows can change places; the others are odd. */
#define MG_ROW_CHUNKS(chunks, width)      ((width) == 2 && (chunks) % 8 == 0 ? (chunks) : (chunks) | 1)
#define MG_ROW_BYTES(head, width)         (MG_ROW_CHUNKS((head) * (width) / 16, width) * 16)
#define MG_PAIR_BYTES(head, vhead, width) (MG_ROW_BYTES(head, width) + MG_ROW_BYTES(vhead, width))
#define MG_LARGER(a, b)                   ((a) > (b) ? (a) : (b))

/* Blocks of flash.h, by the heads of their tiles and the bytes of a number: so many keys or queries
 * of a tile, and rows of a block in the gradients, that no register spills and that the shared
 * memory (in bytes) is at most 99 KiB, which sm_86, sm_89 and sm_120 have. Queries, and in
 * the gradient of queries their gradients too, stay in registers if these suffice. */
#define MG_FLASH_KEYS(head, vhead, width)                                                          \
    (MG_LARGER(head, vhead) <= ((width) == 2 ? 192 : 64)    ? 64                                   \
     : MG_LARGER(head, vhead) <= ((width) == 2 ? 256 : 128) ? 32                                   \
                                                            : 16)
#define MG_FLASH_KEEPS(head, vhead, width) ((width) == 2 && (head) + (vhead) <= 320)
#define MG_FLASH_SHARED(head, vhead, width)                                                        \
    (MG_FLASH_KEYS(head, vhead, width) * MG_PAIR_BYTES(head, vhead, width) +                       \
     (MG_FLASH_KEEPS(head, vhead, width) ? 0 : MG_FLASH_ROWS * MG_ROW_BYTES(head, width)))
#define MG_FLASH_GRAD_ROWS(head, vhead, width)                                                     \
    ((width) == 4 && MG_LARGER(head, vhead) > 128 ? 32 : 64)
#define MG_FLASH_GRAD_TILE(head, vhead, width)                                                     \
    ((width) == 2 && MG_LARGER(head, vhead) <= 64    ? 64                                          \
     : (width) == 2 || MG_LARGER(head, vhead) <= 128 ? 32                                          \
                                                     : 16)
#define MG_FLASH_GRAD_KEEPS(head, vhead, width) ((width) == 2 && MG_LARGER(head, vhead) <= 128)
#define MG_FLASH_DKV_SHARED(head, vhead, width)                                                    \
    ((MG_FLASH_GRAD_ROWS(head, vhead, width) + MG_FLASH_GRAD_TILE(head, vhead, width)) *           \
     MG_PAIR_BYTES(head, vhead, width))
#define MG_FLASH_DQ_SHARED(head, vhead, width)                                                     \
    (!MG_FLASH_GRAD_KEEPS(head, vhead, width)                                                      \
         ? MG_FLASH_DKV_SHARED(head, vhead, width)                                                 \
         : MG_LARGER(MG_FLASH_GRAD_TILE(head, vhead, width) * MG_PAIR_BYTES(head, vhead, width),   \
                     64 * MG_ROW_BYTES(MG_LARGER(head, vhead), width)))
/* The gradients of keys and values one after the other, because both together have too many
 * sums. */
#define MG_FLASH_APART(head, vhead) ((head) + (vhead) > 256)

/* Bytes of a row of y, a column of w and a term in the tables of a convolution's block, and of its
 * shared memory: two tiles of each operand, then the rows, the columns and two tiles' terms. */
#define MG_CONV_ROW_BYTES    20
#define MG_CONV_COLUMN_BYTES 4
#define MG_CONV_ENTRY_BYTES  20
#define MG_CONV_SHARED(columns)                                                                    \
    (2 * MG_CONV_TERM_BYTES * (MG_CONV_ROWS + (columns)) + MG_CONV_ROWS * MG_CONV_ROW_BYTES +      \
     (columns) * MG_CONV_COLUMN_BYTES + 2 * 32 * MG_CONV_ENTRY_BYTES)

/* Parameters of a convolution's kernel beside its descriptor: the elements of its groups of dims;
 * in how many parts each sum is, of how many tiles of terms; how operands are copied, and whether y
 * has the type of sums (`wide_y`) and is written two elements at once. */
typedef struct mg_conv_how {
    int batch, m, n, k, splits, steps;
    int wide_x, wide_w, wide_y, pairs;
} mg_conv_how;

/* On sm_90: keys of a tile by the heads, in the forward pass; and the shared memory of a block: its
 * own rows, and the tiles in use and in flight. */
#define MG_FLASH90_LONG(head, vhead)                                                               \
    ((head) + (vhead) > 256) /* a head of more than 128 columns                                    \
                              */
#define MG_FLASH90_KEYS(head, vhead)                                                               \
    (MG_FLASH90_LONG(head, vhead) || MG_LARGER(head, vhead) == 64 ? 64 : 128)
/* Keys of a tile in the gradient of queries, queries of a tile in that of keys and values: so many
 * that two blocks are on a multiprocessor where heads are short. */
#define MG_FLASH90_GRAD_TILE(head, vhead) (MG_LARGER(head, vhead) == 64 ? 32 : 64)
#define MG_FLASH90_SLOTS                  (8 * MG_FLASH90_ROWS) /* bytes: a word of each thread */
#define MG_FLASH90_SHARED(head, vhead)                                                             \
    (MG_FLASH90_ROWS * (head) * 2 + 2 * MG_FLASH90_KEYS(head, vhead) * ((head) + (vhead)) * 2 +    \
     MG_FLASH90_SLOTS)
#define MG_FLASH90_DQ_SHARED(head, vhead)                                                          \
    (MG_FLASH90_ROWS * ((head) + (vhead)) * 2 +                                                    \
     MG_FLASH90_GRAD_TILE(head, vhead) * (3 * (head) + 2 * (vhead)) * 2 + MG_FLASH90_SLOTS)
#define MG_FLASH90_DKV_SHARED(head, vhead, tile)                                                   \
    ((MG_FLASH90_ROWS + 2 * (tile)) * ((head) + (vhead)) * 2 + (tile) * (head) * 2 + 2 * (tile) * 8)
/* Of long heads three tiles of all, and the keys and values of a block. */
#define MG_FLASH90_LONG_SHARED(head, vhead)                                                        \
    ((MG_FLASH90_LONG_ROWS + 3 * MG_FLASH90_LONG_TILE) * ((head) + (vhead)) * 2 +                  \
     3 * MG_FLASH90_LONG_TILE * 8)

#endif
