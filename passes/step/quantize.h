/* quantize.h - private to quantize.c and tiles.c: the operands of products of fp8. */
#ifndef MGC_PASSES_QUANTIZE_H
#define MGC_PASSES_QUANTIZE_H

#include "passes/passes.h"

/* A value in fp8 and what its numbers are multiplied by to be those of the value: a number for each
 * index of the dims `each`. */
typedef struct Scaled {
    Value of;
    DType dtype;
    DimList each;
    Value number, inverse;
    Value scale; /* a number of the value is multiplied by it to be `number`; 0: of a parameter */
} Scaled;

/* A value as fp8 in tiles stands for it: tiles of these dims, of which the first `side` are one
 * side. */
typedef struct Tiled {
    Value of;
    DType dtype;
    DimList over;
    int side;
    Value is;
} Tiled;

typedef struct Quantize {
    Module *m;
    Fn *fn;
    const Ins *dot; /* at hand */
    Arena *tmp;
    VEC(Scaled) known;
    const bool
        *half; /* per value: something but products of fp8 reads it, or a view of all of it */
    VEC(Tiled) tiled;
} Quantize;

/* A parameter or its copy, a layer's slice of one, or a view of either. */
bool quantize_is_parameter(const Quantize *q, Value v);
/* The type to which operand k of the product at hand is rounded. */
DType quantize_type(const Quantize *q, int k);

/* tiles.c: the product at hand of operands that are rounded in tiles, at the end of r; and i, if
 * the device has the product, as a product of halves that says which tiles will have scales. */
void quantize_in_tiles(Quantize *q, Region *r);
void quantize_mark_tiles(Quantize *q, Ins *i);

/* i is what v is the result of, from now on. */
void quantize_gives(Module *m, Ins *i, Value v);

#endif
