/* amx.h - a block of A times a panel of B on the tile registers of AMX, both packed as bf16.
 *
 * A number is the sum of `parts` bf16 numbers: a bf16 is one, an f16 two, a float three (its 24
 * bits are three times eight), each the nearest to what those before it leave. A product of two
 * floats is the sum of six products of their parts, as in Henry, Tang and Heinecke (2019); what is
 * left out is below 2^-26 of it, a quarter of a float's rounding. Sums are floats: the processor
 * adds up 32 products before it adds them to a tile.
 *
 * A tile is 1 KiB: 16 lines (rows of A, columns of B) by 32 terms. It has 16 rows of 16 pairs of
 * terms: in A row i is line i, in B row r is pair r of each line. Pair r is terms r and r + 16, of
 * bf16, which is moved as it is, 2r and 2r + 1. A part of a tile follows the other, then come the
 * next 32 terms, then the next 16 lines. */
#ifndef MGK_AMX_H
#define MGK_AMX_H

#include "runtime/abi.h"

enum { MGK_AMX_LINES = 16, MGK_AMX_TERMS = 32, MGK_AMX_BYTES = 1024, MGK_AMX_PANEL = 32 };

typedef struct mgk_amx {
    int64_t m, n;   /* rows, and columns: at most MGK_AMX_PANEL */
    int64_t chunks; /* of 32 terms */
    int parts;
    const char *a, *b; /* behind the panel comes the next one: it is asked for */
    float *c;
    int64_t ldc;
    const float *bias; /* NULL, or n numbers that the sums go on top of, where not added to C */
    bool add;          /* to C */
    float alpha;
} mgk_amx;

/* C (+)= A B of whole tiles that are near: m and n are multiples of 16, chunks of 32 terms; A and B
 * have so many parts each, and `step` bytes lie between tiles of their lines. Left out is what is
 * smaller than the smallest part: 3 x 3, 2 x 2 and 1 x 2 parts are built. */
typedef struct mgk_amx_tiles {
    int64_t m, n, chunks;
    int a_parts, b_parts;
    const char *a, *b;
    int64_t a_step, b_step;
    float *c;
    int64_t ldc;
    bool add;
} mgk_amx_tiles;

/* Whether the processor has the tiles and the system lets this program use them. */
bool mgk_amx_there(void);

/* Around a thread's panels: its tile registers take their shape, and are given back. */
void mgk_amx_begin(void);
void mgk_amx_end(void);
void mgk_amx_panel(const mgk_amx *w);
void mgk_amx_near(const mgk_amx_tiles *w);

#endif
