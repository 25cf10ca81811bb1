/* base.h - the kinds of a frozen base: how a matrix lies in each of them, and what it is made of
 * where it is read. base.c puts the parts of a matrix in its place. */
#ifndef MGC_STEP_BASE_H
#define MGC_STEP_BASE_H

#include "passes/passes.h"

enum { BASE_PARTS = 4 };

/* How one matrix lies. In NF4 `cut` is the dim in which blocks begin: of size run block within,
 * where `within` of it, times the dims further in, are a block. */
typedef struct Lie {
    Dim cut, run, block, half, pair; /* size 1 of run and block: there is none */
    int inner;                       /* dims of a row further in than `cut`, in external order */
    int stacked;                     /* dims of all parts ahead of a layer's */
    int parts;                       /* tensors in the matrix' place; the first has its name */
    BasePart part[BASE_PARTS];
    const char *end[BASE_PARTS]; /* behind the matrix' name */
    Type type[BASE_PARTS];       /* as stored: in the order of files */
    uint32_t tensor[BASE_PARTS];
} Lie;

/* base_nf4.c, base_int8.c: false after an error. */
bool base_nf4_lie(Module *m, const Tensor *t, Lie *l);
bool base_int8_lie(Module *m, const Tensor *t, Lie *l);
/* A layer's matrix, of these slices of its parts, in the type `to`. */
Value base_nf4_matrix(Builder *b, const Lie *l, const Value *part, DType to);
Value base_int8_matrix(Builder *b, const Lie *l, const Value *part, DType to);

#endif
