/* taps.h - an operand of a product that is read through the indices of several dims, not as a
 * matrix; brought together, some lines and terms at a time, for the product's packing. */
#ifndef MGK_TAPS_H
#define MGK_TAPS_H

#include "runtime/sizes.h"

/* Dims, outermost first: sizes, strides in elements, and what a step adds to the index along each
 * axis. */
typedef struct mgk_dims {
    int n;
    int64_t size[MG_CONV_DIMS], stride[MG_CONV_DIMS], by[MG_CONV_DIMS][MG_CONV_AXES];
} mgk_dims;

/* Element (line, term) lies where the indices of both add up to, and is 0 outside of an axis
 * (mg_conv_desc). Lines are rows of A or columns of B, terms are what is summed. */
typedef struct mgk_taps {
    mgk_dims lines, terms;
    bool along; /* brought together with terms contiguous, otherwise lines */
    int axes;
    struct {
        int64_t size, stride, at, every;
    } axis[MG_CONV_AXES];
    int64_t bytes; /* of an element: 2, 4 or 8 */
} mgk_taps;

/* Brings `lines` lines from `line` on and `terms` terms from `term` on to `to`: with `along` a line
 * every ld elements, otherwise a term. */
void mgk_bring(const mgk_taps *t, const void *from, int64_t line, int64_t lines, int64_t term,
               int64_t terms, void *to, int64_t ld);

/* The elements between lines (or terms) that mgk_bring is asked for. */
static inline int64_t mgk_taps_ld(const mgk_taps *t, int64_t lines, int64_t terms)
{
    return ((t->along ? terms : lines) + 15) / 16 * 16;
}

/* The offset of the element at number i of some dims. */
static inline int64_t mgk_dims_at(const mgk_dims *d, int64_t i)
{
    int64_t at = 0;
    for (int k = d->n - 1; k >= 0; k--) {
        at += i % d->size[k] * d->stride[k];
        i /= d->size[k];
    }
    return at;
}

#endif
