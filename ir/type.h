/* type.h - the types of values: an element type, dims with names and sizes, and how they lie over
 * the mesh. */
#ifndef MGC_IR_TYPE_H
#define MGC_IR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/level.h"
#include "base/names.h"

enum { MAX_RANK = 8 };

typedef enum DType {
    DT_none,
#define DTYPE(name, ctype, bytes, floating) DT_##name,
#include "ir/dtypes.def"
    DT_count
} DType;

const char *dtype_name(DType t);
int64_t dtype_bytes(DType t);
bool dtype_is_float(DType t);
/* bf16, f16: for storage and as operands of products; arithmetic on them is done in f32. */
bool dtype_is_half(DType t);
/* e4m3 (OCP's FP8 of 4 bits of exponent and 3 of mantissa: no infinity) and e5m2: operands of
 * products that are scaled. A cast to one rounds to the nearest, ties to even; what is beyond its
 * largest number, an infinity too, becomes that number. A NaN stays one. */
bool dtype_is_fp8(DType t);
/* e8m0: 2^-127 to 2^127, the scales of OCP's microscaling. A cast to one gives the least that is
 * not below the number without its sign, at most the largest; what is not finite is NaN. */
/* Of what matrices of fp8 have a multiple of rows and of columns, and their rows of bytes. */
enum { FP8_SIDE = 16 };
/* Tiles that have a scale, of operands of a product: along what is summed FP8_TILE elements of a
 * row each; or, of one operand, of as many rows, too; or of both FP8_MX elements, with scales of
 * e8m0. */
enum {
    FP8_TILE = 128,
    FP8_MX = 32,
    TILES_none = 0,
    TILES_rows,
    TILES_first,
    TILES_second,
    TILES_mx
};
/* dynamic8, of [-1, 1], and udynamic8, of [0, 1]: 256 numbers that lie the closer the smaller they
 * are (runtime/dynamic8.h), for state of optimizers. A cast to one gives the nearest; what is
 * beyond the largest number, and a NaN, becomes that. All bits 0 are 0. */
bool dtype_is_dynamic(DType t);
/* Halves, fp8 and dynamic: numbers that are stored and multiplied, and computed with as f32. */
bool dtype_is_narrow(DType t);
/* The type of statistics over values of t (losses, normalisers): f32 for narrow ones, else t. */
DType dtype_wide(DType t);
/* The largest number of e4m3 and e5m2, 448 and 57344; infinity of other types. */
double dtype_largest(DType t);

/* A set of axes of the mesh: bit n is Layout.mesh[n]. */
typedef uint16_t Axes;
enum { MAX_AXES = 16, MAX_BLOCKS = UINT16_MAX };

/* size: of what a rank has. axes: those it is split on, the first of the mesh the outermost; the
 * whole dim is `size` times their sizes. zigzag: those of axes on which rank r of n has parts r and
 * 2n - 1 - r of 2n, one behind the other, and not part r of n. inner: one of axes that is not the
 * last of the mesh among them, and yet the innermost: what ranks have on the others is split on it;
 * 0: none is. blocks: on the innermost of axes, rank r has part r of each of so many blocks, one
 * behind the other; 0: of all. A dim with inner has no zigzag and no blocks.
 *
 * Small, for each value, operand and attribute has a list of them. */
typedef struct Dim {
    Name name;
    int64_t size;
    Axes axes, zigzag, inner;
    uint16_t blocks;
} Dim;
_Static_assert(sizeof(Dim) == 24, "no byte of it is of no use");

/* Do two dims of one name lie alike over the mesh? */
static inline bool dim_lies_as(Dim a, Dim b)
{
    return a.axes == b.axes && a.zigzag == b.zigzag && a.inner == b.inner && a.blocks == b.blocks;
}
/* d, but over the mesh it lies as another does. */
static inline Dim dim_lying_as(Dim d, Dim other)
{
    d.axes = other.axes;
    d.zigzag = other.zigzag;
    d.inner = other.inner;
    d.blocks = other.blocks;
    return d;
}
/* d without these axes, of which it is split; its size stays. */
static inline Dim dim_without_axes(Dim d, Axes axes)
{
    if ((d.axes & axes) && (d.axes & axes) >= (d.axes & ~axes)) /* the last is among them */
        d.blocks = 0;
    d.axes &= ~axes;
    d.zigzag &= ~axes;
    d.inner &= d.axes;
    if (d.inner > (d.axes & ~d.inner)) /* it is the last of the mesh among those that are left */
        d.inner = 0;
    return d;
}

/* Dims in storage order, outermost first; a name occurs once. `indexes`, for integers: the dim
 * whose elements they number (0 if none): token(vocab).
 *
 * How a value lies over the mesh is part of its type (after pass shard). On each axis it is split
 * along the dim that has it; or partial: the ranks' numbers have to be added up, or, with `max`,
 * the largest is meant; or else all ranks have the same. No axis is used twice.
 *
 * `level` is where it is stored (after pass levels). */
typedef struct Type {
    DType dtype;
    int rank;
    Dim dims[MAX_RANK];
    Name indexes;
    Axes partial, max;
    Level level;
} Type;

Axes type_axes(const Type *t); /* that its dims are split on */
void type_strip(Type *t);      /* says no more how it lies */

typedef struct DimList {
    int n;
    Dim dim[MAX_RANK];
} DimList;

bool type_equal(const Type *a, const Type *b);     /* order of dims included */
bool type_same_dims(const Type *a, const Type *b); /* as sets, sizes included */
int type_find(const Type *t, Name dim);            /* index of a dim, or -1 */
int64_t type_elements(const Type *t);              /* checked: the builder refuses 2^62 and more */
int64_t type_bytes(const Type *t);
bool dims_have(const DimList *l, Name dim);

#endif
