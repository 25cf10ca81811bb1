/* view.h - where the elements of a value lie: what product, fusion and scheduler agree on.
 *
 * A value is stored dense in the order of its dims, but for two kinds: the result of a VIEW op is
 * read in place of its operand, and a slice that a loop hands its body is read in place of the
 * stacked value. Both are strides into something else. */
#ifndef MGC_PASSES_VIEW_H
#define MGC_PASSES_VIEW_H

#include "ir/ir.h"

/* Elements of a value, counted in elements of `root` from its first one. */
typedef struct View {
    Value root; /* not the result of a VIEW op; the value itself if it is none */
    int64_t offset;
    int64_t stride[MAX_RANK]; /* per dim of the value's type */
} View;

View view_of(const Module *m, Value v);
/* Its root alone, which takes no time to speak of. */
Value view_root(const Module *m, Value v);

/* A tensor as it lies: a stride for each dim of its type, in elements. */
typedef struct Strided {
    const Type *type;
    int64_t stride[MAX_RANK];
} Strided;
Strided strided_of(const Module *m, Value v);
/* The stride of a dim, 0 if the tensor lacks it. */
int64_t stride_of(const Type *t, const int64_t *stride, Name d);
/* The strides of part k of a join whose result lies as `whole`; returns the part's first element,
 * counted from that of the result. */
int64_t strides_of_part(const Module *m, const Ins *join, uint32_t k, const Strided *whole,
                        int64_t *stride);
/* The strides of a VIEW instruction's result, of type t, into its operand, of type `of` and strides
 * `from`. */
void strides_of_view(const Ins *view, const Type *t, const Type *of, const int64_t *from,
                     int64_t *stride);
/* The other way: where the operand of a VIEW instruction lies if its result of type t has strides
 * `from`. False: the operand has more elements than the result, or no stride says so. */
bool strides_behind_view(const Ins *view, const Type *t, const int64_t *from, const Type *of,
                         int64_t *stride);
void strides_dense(const Type *t, int64_t *stride);
/* Dense row-major, dims of one element apart. */
bool strides_are_dense(const Type *t, const int64_t *stride);

/* The dims that repeats run over, but for those of scans. Decisions are made by sizes without them:
 * a deeper model is the same program with other numbers. */
DimList depth_dims(const Module *m);
int64_t elements_per_iteration(const Type *t, const DimList *depth);

/* Last position in region r (index into r->ins) at which each value is used there, an instruction
 * counting for its whole body, and a view for what it views. The results of r are used at
 * r->ins.n. -1: not used. Slots for all values of the module, in `a`. */
int *last_uses(const Module *m, const Region *r, Arena *a);

#endif
