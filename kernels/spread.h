/* spread.h - how a block of an operand that is read through taps is packed for the tiles of AMX so
 * that each element of x is packed once, and not once for each tap that shows it.
 *
 * x is packed as it lies, source row by source row: what it has along one axis, for some chunks of
 * its colours. There a line of a tile (32 terms of one tap) is 64 bytes for each part, and 16 lines
 * that follow each other along the axis are at one stride, whatever the tap: so a tile is loaded
 * where it lies, and tiles of neighbouring taps share what they load. Terms, their order and their
 * parts are those of tiles that are packed one by one (amx_pack.h), and so are the bits. */
#ifndef MGK_SPREAD_H
#define MGK_SPREAD_H

#include "kernels/taps.h"

enum {
    MGK_SPREAD_TILES = 2 * MG_AMX_M / 16, /* of lines, in a block */
    MGK_SPREAD_CHUNKS = MG_AMX_K / 32,    /* of terms, in a block */
    MGK_SPREAD_ROWS = 128,
    MGK_SPREAD_NONE = -1, /* a source row outside of x: zeros */
};

/* A unit is 64 bytes: 32 numbers of one place in one part. Those of a part lie place after place;
 * behind them the other parts, the other chunks of colours, the other source rows. */
typedef struct mgk_spread {
    int64_t rows;
    int64_t row[MGK_SPREAD_ROWS]; /* the element at place 0 of the axis, or MGK_SPREAD_NONE */
    int64_t low, places;          /* places [low, low + places) of the axis are packed, */
    int64_t size, stride;         /* of `size` that there are, at this stride in elements */
    int64_t first, chunks;        /* chunks of 32 colours */
    int64_t step;                 /* places from a line to the next */
    int32_t at[MGK_SPREAD_TILES * MGK_SPREAD_CHUNKS]; /* the unit where a tile of 16 lines begins,
                                                         for each of the block's chunks of terms */
} mgk_spread;

/* Plans `lines` lines from `line` on and `terms` terms from `term` on, in `parts` parts and at most
 * `units` units. False: it cannot be done, or packs no less than tile by tile. */
bool mgk_spread_plan(const mgk_taps *t, int64_t line, int64_t lines, int64_t term, int64_t terms,
                     int64_t parts, int64_t units, mgk_spread *s);

#endif
