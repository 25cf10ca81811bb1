/* conv_case.h - convolutions that are drawn at random, for the tests of processors and of GPUs:
 * dims, strides, axes; and what their descriptors mean (runtime/abi_types.h), element by element.
 */
#ifndef MGC_TESTS_CONV_CASE_H
#define MGC_TESTS_CONV_CASE_H

#include "runtime/conv.h"

/* A convolution, and the elements of its operands. */
typedef struct ConvCase {
    mg_conv_desc d;
    int64_t nx, nw, ny;
} ConvCase;

static inline int64_t conv_draw(uint64_t *seed, int64_t low, int64_t high)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((*seed >> 33) % (uint64_t)(high - low + 1));
}

/* Gives the dims of one operand, in a random order, the strides of a dense tensor. */
static inline int64_t conv_lay(uint64_t *seed, const mg_conv_desc *d, int64_t *stride,
                               const bool *has, int last)
{
    int order[MG_CONV_DIMS], n = 0;
    int64_t run = 1;
    for (int i = mg_conv_dims(d) - 1; i >= 0; i--)
        if (has[i])
            order[n++] = i;
    for (int i = n - 1; i > last; i--) { /* those before `last` stay innermost */
        const int k = (int)conv_draw(seed, last, i), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    for (int i = 0; i < n; i++) {
        stride[order[i]] = run;
        run *= d->size[order[i]];
    }
    return run;
}

/* A convolution of one to three axes: rows are positions and some others, terms are taps and
 * colours; or, with `turned`, rows are taps and colours, and terms positions (dw). `every` above 1:
 * dx of one with a stride. */
static inline ConvCase conv_case(uint64_t *seed, mg_dtype t, mg_dtype out)
{
    ConvCase c = {.d = {.dtype = t, .out = out}};
    mg_conv_desc *d = &c.d;
    const bool turned = conv_draw(seed, 0, 2) == 0;
    d->axes = (int)conv_draw(seed, 1, 2);
    d->batch = (int)conv_draw(seed, 0, 3) == 0;
    const int images = 1, colours = 1;
    const int positions = d->axes + images, taps = d->axes + colours;
    d->rows = turned ? taps : positions;
    d->terms = turned ? positions : taps;
    d->columns = (int)conv_draw(seed, 1, 2);
    d->accumulate = conv_draw(seed, 0, 2) == 0;
    const int row = d->batch, column = row + d->rows, term = column + d->columns;
    const int position = turned ? term : row, tap = turned ? row : term;
    bool of_x[MG_CONV_DIMS] = {0}, of_w[MG_CONV_DIMS] = {0}, of_y[MG_CONV_DIMS] = {0};
    for (int i = 0; i < mg_conv_dims(d); i++) {
        d->size[i] = conv_draw(seed, 1, 4);
        of_x[i] = i < row || i == position || i == tap + d->axes;
        of_w[i] = i < row || i >= column;
        of_y[i] = i < term;
    }
    for (int x = 0; x < d->axes; x++) {
        d->size[position + images + x] = conv_draw(seed, 1, 11);
        d->size[tap + x] = conv_draw(seed, 1, 4);
    }
    d->size[tap + d->axes] =
        conv_draw(seed, 0, 2) ? conv_draw(seed, 1, 20) : conv_draw(seed, 60, 70);
    d->size[term - 1] = conv_draw(seed, 1, 40);
    if (conv_draw(seed, 0, 1)) { /* runs of whole words */
        d->size[tap + d->axes] = (d->size[tap + d->axes] + 7) / 8 * 8;
        d->size[term - 1] = (d->size[term - 1] + 7) / 8 * 8;
    }
    const bool inside = conv_draw(seed, 0, 1); /* axes inside, as of images whose colours are not */
    int64_t run = 1;
    const int64_t others = conv_lay(seed, d, d->x, of_x, conv_draw(seed, 0, 1));
    if (!inside)
        run = others;
    for (int x = 0; x < d->axes; x++) {
        mg_conv_axis *a = &d->axis[x];
        a->size = conv_draw(seed, 1, 12);
        a->every = conv_draw(seed, 0, 1) ? 1 : conv_draw(seed, 2, 3);
        a->at = conv_draw(seed, -3, 3);
        a->by[position + images + x] =
            (int32_t)(conv_draw(seed, 0, 3) ? conv_draw(seed, 1, 3) : conv_draw(seed, -2, -1));
        a->by[tap + x] = (int32_t)(conv_draw(seed, 0, 1) ? 1 : conv_draw(seed, 0, 1) ? -1 : 2);
        a->stride = run;
        run *= a->size;
    }
    for (int i = 0; i < mg_conv_dims(d) && inside; i++)
        d->x[i] *= run;
    c.nx = inside ? run * others : run;
    c.nw = conv_lay(seed, d, d->w, of_w, 0);
    c.ny = conv_lay(seed, d, d->y, of_y, d->columns);
    return c;
}

static inline int64_t conv_place(const mg_conv_desc *d, const int64_t *stride, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < mg_conv_dims(d); i++)
        at += stride[i] * index[i];
    return at;
}

/* The place of x at some indices; -1: outside. */
static inline int64_t conv_seen(const mg_conv_desc *d, const int64_t *index)
{
    int64_t at = conv_place(d, d->x, index);
    for (int x = 0; x < d->axes; x++) {
        int64_t p = d->axis[x].at;
        for (int i = 0; i < mg_conv_dims(d); i++)
            p += d->axis[x].by[i] * index[i];
        if (p < 0 || p % d->axis[x].every || p / d->axis[x].every >= d->axis[x].size)
            return -1;
        at += p / d->axis[x].every * d->axis[x].stride;
    }
    return at;
}

static inline bool conv_step(const mg_conv_desc *d, int64_t *index, int first, int end)
{
    for (int i = end - 1; i >= first; i--) {
        if (++index[i] < d->size[i])
            return true;
        index[i] = 0;
    }
    return false;
}

#endif
