/* spread.h - how a block of an operand that is read through taps is packed for the tiles of AMX so
 * that an element of x is packed once for many taps, and not once for each that shows it.
 *
 * A block has x as it lies, source row by source row: what it has along one axis, for some chunks
 * of its colours. Positions that follow each other along the axis are at one stride there, whatever
 * the tap; so tiles are loaded where they lie, and those of neighbouring taps share bytes.
 *
 * Lines are positions where terms are taps and colours: a line of a tile of A (32 colours at a
 * position) is 64 bytes in each part, and 16 lines are at a stride. Lines are taps and colours
 * where terms are positions (dw): x is B, and the product is computed turned. A row of a tile is a
 * pair of positions of 16 colours: a place and its partner, 16 terms on, which may be of another
 * source row.
 *
 * Terms, their order and their parts are those of tiles that are packed one by one (amx_pack.h),
 * and so are the bits. */
#ifndef MGK_SPREAD_H
#define MGK_SPREAD_H

#include "kernels/taps.h"

enum {
    MGK_SPREAD_TILES = MG_AMX_ROWS / 16, /* of lines, in a block */
    MGK_SPREAD_CHUNKS = MG_AMX_K / 32,   /* of terms, in a block */
    MGK_SPREAD_AT = 2 * MG_AMX_M / 16 * MGK_SPREAD_CHUNKS,
    MGK_SPREAD_ROWS = 256,
    MGK_SPREAD_NONE = -1, /* a source row outside of x: zeros */
};

typedef struct mgk_spread_row {
    int64_t at;             /* the element at place 0 of the axis, or MGK_SPREAD_NONE */
    int64_t partner, ahead; /* of pairs: the same of the second, and how many places it is ahead */
} mgk_spread_row;

/* Source rows of chunks of 32 colours (along; otherwise 16, in pairs) of parts of places of 64
 * bytes. */
typedef struct mgk_spread {
    bool along;
    int64_t rows;
    mgk_spread_row row[MGK_SPREAD_ROWS];
    int64_t low, places;       /* places [low, low + places) of the axis are packed, */
    int64_t size, stride;      /* of `size` that there are, at this stride in elements */
    int64_t first, chunks;     /* chunks of colours */
    int64_t step;              /* places from a position to the next */
    int64_t part, line;        /* bytes between the parts and between the lines of a tile */
    int32_t at[MGK_SPREAD_AT]; /* where, in 4 bytes, each tile of 16 lines begins, for each of the
                                  block's chunks of terms */
} mgk_spread;

/* Plans `lines` lines from `line` on and `terms` terms from `term` on, in `parts` parts. False: it
 * cannot be done, or packs more than tile by tile, or than MG_SPREAD bytes. */
bool mgk_spread_plan(const mgk_taps *t, int64_t line, int64_t lines, int64_t term, int64_t terms,
                     int64_t parts, mgk_spread *s);

#endif
