/* tiles.h - operands of products of fp8 whose scales are of tiles (round_tiles.c). */
#ifndef MGC_PASSES_TILES_H
#define MGC_PASSES_TILES_H

#include "ir/ir.h"
#include "passes/view.h"
#include "runtime/abi.h"

/* A value as a matrix of fp8: its rows, and what is summed; and the scales of its tiles. */
typedef struct RoundedMatrix {
    Value of;
    DimList rows, over;
    int64_t high; /* rows of a tile */
    DType dtype;
    Value number, scales;
} RoundedMatrix;

/* Those that were made in a function. */
typedef struct Rounded {
    Module *m;
    Arena *tmp;
    VEC(RoundedMatrix) known;
} Rounded;

/* Computes the product i, of halves, from operands that are rounded in tiles, at the end of b's
 * region. False: tensor cores do not take its sides, and it is one of halves from now on. */
bool round_tiles(Rounded *r, Builder *b, Ins *i);

/* The descriptor of a round_tiles of x that gives q. False: the rows of x, or what is in one, do
 * not lie at equal distances. */
bool round_tiles_match(const Attrs *a, const Strided *x, const Type *q, mg_round_tiles_desc *d);

#endif
