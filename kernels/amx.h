/* amx.h - products on the tile registers of AMX: a block of A times a panel of B, both packed as
 * bf16.
 *
 * A number is the sum of `parts` bf16 numbers: a bf16 has one part, an f16 two, a float three (its
 * 24 bits are three times eight). Each part is the bf16 nearest to the remainder after the parts
 * before it. A product of two floats is the sum of six products of their parts, as in Henry, Tang
 * and Heinecke (2019); the omitted rest is below 2^-26 of the product, a quarter of a float's
 * rounding. Sums are floats: the processor sums 32 products before it adds them to a tile.
 *
 * A tile is 1 KiB: 16 lines (rows of A, columns of B) by 32 terms. It has 16 rows of 16 pairs of
 * terms: in A, row i is line i; in B, row r is pair r of each line. Pair r is terms r and r + 16;
 * for bf16, which is copied unchanged, terms 2r and 2r + 1. The parts of a tile are consecutive,
 * then the next 32 terms, then the next 16 lines. */
#ifndef MGK_AMX_H
#define MGK_AMX_H

#include "runtime/abi.h"

enum { MGK_AMX_LINES = 16, MGK_AMX_TERMS = 32, MGK_AMX_BYTES = 1024, MGK_AMX_PANEL = 32 };

typedef struct mgk_amx {
    int64_t m, n;   /* rows; columns, at most MGK_AMX_PANEL */
    int64_t chunks; /* of 32 terms */
    int parts;
    const char *a, *b;
    const int32_t *at; /* NULL, or where each tile of lines and chunk of A, or (`turned`) of B,
                          begins, in units of 64 bytes (spread.h); and the bytes between its lines
                          and between its parts */
    int64_t line, part;
    bool turned;      /* C is turned: its columns are A's; and so is the order of parts */
    const char *next; /* what is packed of B behind it, and prefetched: an eighth of a panel for
                         each MGK_AMX_PANEL rows */
    float *c;
    int64_t ldc;
    const char *out;   /* NULL, or where sums of at most MGK_AMX_PANEL rows go from C, as halves, */
    int64_t out_row;   /* and the bytes between their rows: prefetched, to be written */
    const float *bias; /* NULL, or n numbers that the sums are added to, if not added to C */
    bool add;          /* to C */
    float alpha;
} mgk_amx;

/* C (+)= A B for whole tiles in cache: m and n are multiples of 16, chunks are 32 terms. A and B
 * have a_parts and b_parts parts; a_step and b_step are the bytes between tiles of lines. Products
 * below the smallest part are omitted: 3 x 3, 2 x 2 and 1 x 2 parts are built. */
typedef struct mgk_amx_tiles {
    int64_t m, n, chunks;
    int a_parts, b_parts;
    const char *a, *b;
    int64_t a_step, b_step;
    float *c;
    int64_t ldc;
    bool add;
} mgk_amx_tiles;

/* True if the processor has the tiles and the system lets this program use them. */
bool mgk_amx_there(void);

/* Before and after the panels of a thread: configure and release its tile registers. */
void mgk_amx_begin(void);
void mgk_amx_end(void);
void mgk_amx_panel(const mgk_amx *w);
void mgk_amx_near(const mgk_amx_tiles *w);

#endif
