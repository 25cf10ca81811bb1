/* conv.h - how a convolution is computed: the products that it comes apart into, which processors
 * and GPUs share, and which kernel of kernels/cuda computes one of those, in how many tiles. The
 * compiler gives a program the kernels that this chooses, plans their work space, counts their
 * launches and prices them by their tiles.
 *
 * An axis may have an element only for every e-th sum of indices (dx of a convolution with a
 * stride): then each residue of the rows' indices meets residues of the terms' indices of its own.
 * So the convolution is cut into one for each residue, in which an axis has an element at each sum:
 * no zeros are multiplied. Only where several residues of terms meet one of rows is it left whole.
 */
#ifndef MG_CONV_H
#define MG_CONV_H

#include <stdio.h>
#include <string.h>

#include "runtime/launches.h"
#include "runtime/sizes.h"

static inline int mg_conv_first_row(const mg_conv_desc *d)
{
    return d->batch;
}
static inline int mg_conv_first_column(const mg_conv_desc *d)
{
    return d->batch + d->rows;
}
static inline int mg_conv_first_term(const mg_conv_desc *d)
{
    return d->batch + d->rows + d->columns;
}
static inline int mg_conv_dims(const mg_conv_desc *d)
{
    return mg_conv_first_term(d) + d->terms;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* A convolution with the offsets of its first elements. */
typedef struct mg_conv_part {
    mg_conv_desc d;
    int64_t x, w, y; /* elements */
} mg_conv_part;

/* Dims whose indices are taken apart by their remainder, and the residues that are next. */
typedef struct mg_conv_parts {
    mg_conv_part whole;
    bool apart, done;
    int rows, n; /* those of rows come first */
    int dim[MG_CONV_DIMS];
    int64_t every[MG_CONV_DIMS], at[MG_CONV_DIMS];
} mg_conv_parts;

/* False: some dim counts along two such axes. */
static inline bool mg_conv_residues(mg_conv_parts *s)
{
    const mg_conv_desc *d = &s->whole.d;
    for (int i = mg_conv_first_row(d); i < mg_conv_dims(d); i++)
        for (int x = 0; x < d->axes; x++) {
            if (d->axis[x].every == 1 || !d->axis[x].by[i])
                continue;
            if (s->n && s->dim[s->n - 1] == i)
                return false;
            s->dim[s->n] = i;
            s->every[s->n++] = d->axis[x].every;
            s->rows += i < mg_conv_first_column(d);
        }
    return true;
}

/* Goes to the next residues of dims [first, end); false: there are no more. */
static inline bool mg_conv_turn(mg_conv_parts *s, int first, int end)
{
    for (int i = end - 1; i >= first; i--) {
        if (++s->at[i] < s->every[i])
            return true;
        s->at[i] = 0;
    }
    return false;
}

/* The convolution of these residues; false: they have no elements of x. */
static inline bool mg_conv_part_of(const mg_conv_parts *s, mg_conv_part *part)
{
    *part = s->whole;
    mg_conv_desc *d = &part->d;
    bool there = true;
    for (int i = 0; i < s->n; i++) {
        const int k = s->dim[i];
        const int64_t e = s->every[i], at = s->at[i];
        d->size[k] = (d->size[k] - at + e - 1) / e;
        part->x += at * d->x[k];
        part->w += at * d->w[k];
        part->y += at * d->y[k];
        d->x[k] *= e, d->w[k] *= e, d->y[k] *= e;
        for (int x = 0; x < d->axes; x++) {
            d->axis[x].at += at * d->axis[x].by[k];
            if (d->axis[x].every == 1)
                d->axis[x].by[k] *= (int32_t)e;
        }
    }
    for (int x = 0; x < d->axes; x++) {
        there &= d->axis[x].at % d->axis[x].every == 0;
        d->axis[x].at /= d->axis[x].every;
        d->axis[x].every = 1;
    }
    return there;
}

/* The residues of terms that the rows' residues meet: how many of them, and the last. */
static inline int mg_conv_meetings(mg_conv_parts *s, mg_conv_part *part)
{
    mg_conv_part one;
    int n = 0;
    memset(s->at + s->rows, 0, sizeof s->at - (size_t)s->rows * sizeof *s->at);
    do {
        if (!mg_conv_part_of(s, &one))
            continue;
        *part = one;
        n++;
    } while (mg_conv_turn(s, s->rows, s->n));
    if (!n) { /* sums of no terms */
        mg_conv_part_of(s, part);
        for (int i = s->rows; i < s->n; i++)
            part->d.size[s->dim[i]] = 0;
        if (s->rows == s->n)
            part->d.size[mg_conv_first_term(&part->d)] = 0;
    }
    return n;
}

/* Begins to cut a convolution, whose operands begin at these elements. */
static inline mg_conv_parts mg_conv_cut(const mg_conv_desc *d, int64_t x, int64_t w, int64_t y)
{
    mg_conv_parts s = {.whole = {*d, x, w, y}};
    mg_conv_part part;
    s.apart = mg_conv_residues(&s) && s.n > 0;
    if (s.apart) /* is each residue of rows met by one of terms at the most? */
        do
            s.apart = mg_conv_meetings(&s, &part) <= 1;
        while (s.apart && mg_conv_turn(&s, 0, s.rows));
    memset(s.at, 0, sizeof s.at);
    return s;
}

/* The next part; false: there are no more. Some parts may have no rows, or sums of no terms. */
static inline bool mg_conv_next(mg_conv_parts *s, mg_conv_part *part)
{
    if (s->done)
        return false;
    if (!s->apart) {
        *part = s->whole;
        s->done = true;
        return true;
    }
    mg_conv_meetings(s, part);
    s->done = !mg_conv_turn(s, 0, s->rows);
    return true;
}

/* ---- scratch of processors ------------------------------------------------------------------- */

/* Bytes of a block that is packed once for many taps: at most those of one packed tile by tile. */
static inline int64_t mg_conv_spread(const mg_conv_desc *d)
{
    const mg_gemm_desc g = mg_conv_bound(d);
    const int64_t lines = g.m < MG_AMX_ROWS ? g.m : MG_AMX_ROWS;
    const int64_t all = d->dtype == MG_F64 ? 0 : lines * MG_AMX_K * 2;
    return all < MG_SPREAD ? all : MG_SPREAD;
}
/* Bytes of scratch per thread: a product's, behind it what is brought together, and what is packed
 * once. */
static inline int64_t mg_conv_scratch(const mg_conv_desc *d)
{
    return mg_conv_product_scratch(d) + 2 * MG_STAGED * mg_dtype_bytes(d->dtype) +
           mg_conv_spread(d);
}

/* ---- kernels of GPUs ------------------------------------------------------------------------- */

/* How a GPU computes a part: with tiles of MG_CONV_ROWS x `columns` elements of y, whose sums are
 * cut into `splits` parts, which a second kernel adds up in their order. An operand is copied to
 * shared memory 16 bytes at a time if its innermost dim allows it: along terms, or, of halves,
 * along rows or columns (`turned`); otherwise element by element. */
typedef struct mg_conv_way {
    int64_t batch, m, n, k;
    bool wide_x, turned_x, wide_w, turned_w;
    int columns, splits;
} mg_conv_way;

/* The bytes of a sum, and of a part of one. */
static inline int64_t mg_conv_sum_bytes(mg_dtype t)
{
    return t == MG_F64 ? 8 : 4;
}

/* Terms of a tile. */
static inline int64_t mg_conv_step_terms(mg_dtype t)
{
    return MG_CONV_TERM_BYTES / mg_dtype_bytes(t);
}

/* Exchanges a dim with the last of its group. */
static inline void mg_conv_last(mg_conv_desc *d, int dim, int last)
{
    const mg_conv_desc was = *d;
    d->size[last] = was.size[dim], d->size[dim] = was.size[last];
    d->x[last] = was.x[dim], d->x[dim] = was.x[last];
    d->w[last] = was.w[dim], d->w[dim] = was.w[last];
    d->y[last] = was.y[dim], d->y[dim] = was.y[last];
    for (int i = 0; i < d->axes; i++) {
        d->axis[i].by[last] = was.axis[i].by[dim];
        d->axis[i].by[dim] = was.axis[i].by[last];
    }
}

/* Has x runs of whole words of `each` elements along the dim? */
static inline bool mg_conv_runs_in_x(const mg_conv_desc *d, int dim, int64_t each)
{
    bool runs = d->x[dim] == 1 && d->size[dim] % each == 0;
    for (int i = 0; i < mg_conv_dims(d); i++)
        runs &= i == dim || d->x[i] % each == 0;
    for (int i = 0; i < d->axes; i++)
        runs &= d->axis[i].every == 1 && d->axis[i].stride % each == 0 && d->axis[i].by[dim] == 0;
    return runs;
}
static inline bool mg_conv_runs_in_w(const mg_conv_desc *d, int dim, int64_t each)
{
    bool runs = d->w[dim] == 1 && d->size[dim] % each == 0;
    for (int i = 0; i < mg_conv_dims(d); i++)
        runs &= i == dim || d->w[i] % each == 0;
    return runs;
}

/* The way of a part, and the order of its dims that this way takes: rows and terms may be in any
 * order, so the one that x, or else w, has runs along comes last. x_even, w_even: the part's x or w
 * begins at a multiple of 16 bytes. Nothing but `wide` and `turned` depends on these. */
static inline mg_conv_way mg_conv_way_of(mg_conv_desc *d, bool x_even, bool w_even)
{
    const int row = mg_conv_first_row(d), column = mg_conv_first_column(d),
              term = mg_conv_first_term(d), end = mg_conv_dims(d);
    const int64_t each = 16 / mg_dtype_bytes(d->dtype);
    const bool halves = d->dtype == MG_BF16 || d->dtype == MG_F16;
    mg_conv_way way = {.batch = mg_conv_size(d, 0, d->batch),
                       .m = mg_conv_size(d, row, d->rows),
                       .n = mg_conv_size(d, column, d->columns),
                       .k = mg_conv_size(d, term, d->terms)};
    int along = -1;
    for (int i = row; i < column; i++)
        if (mg_conv_runs_in_x(d, i, each)) {
            mg_conv_last(d, i, column - 1);
            way.turned_x = halves && x_even;
        }
    for (int i = term; i < end; i++)
        if (mg_conv_runs_in_x(d, i, each) || (along < 0 && mg_conv_runs_in_w(d, i, each)))
            along = i;
    if (along >= 0)
        mg_conv_last(d, along, end - 1);
    way.wide_x = x_even && (way.turned_x || (end > term && mg_conv_runs_in_x(d, end - 1, each)));
    way.turned_w = halves && w_even && term > column && mg_conv_runs_in_w(d, term - 1, each);
    way.wide_w = w_even && (way.turned_w || (end > term && mg_conv_runs_in_w(d, end - 1, each)));
    const int64_t half = (way.n + 63) / 64, full = (way.n + 127) / 128;
    way.columns = !halves || (half < 2 * full && way.n < 256) ? 64 : 128;
    const int64_t tiles =
        way.batch * ((way.m + MG_CONV_ROWS - 1) / MG_CONV_ROWS) * (way.columns == 64 ? half : full);
    const int64_t width = mg_conv_step_terms(d->dtype), steps = (way.k + width - 1) / width;
    int64_t splits = tiles ? MG_CONV_BUSY / tiles : 1;
    if (splits > steps / MG_CONV_LEAST)
        splits = steps / MG_CONV_LEAST;
    way.splits = splits > 1 ? (int)splits : 1;
    return way;
}

/* The offset of the last element that an operand's dims step to. */
static inline int64_t mg_conv_reach(const mg_conv_desc *d, const int64_t *stride)
{
    int64_t all = 0;
    for (int i = 0; i < mg_conv_dims(d); i++)
        all += (stride[i] < 0 ? -stride[i] : stride[i]) * (d->size[i] > 0 ? d->size[i] - 1 : 0);
    return all;
}

/* How far a GPU's kernels have to count, in elements of an operand or of a group of dims: offsets
 * and indices are 32 bits, so INT32_MAX is the limit. */
static inline int64_t mg_conv_counts(const mg_conv_desc *d)
{
    const int first[] = {0, mg_conv_first_row(d), mg_conv_first_column(d), mg_conv_first_term(d)};
    const int count[] = {d->batch, d->rows, d->columns, d->terms};
    int64_t x = mg_conv_reach(d, d->x), most = mg_conv_reach(d, d->w);
    for (int i = 0; i < d->axes; i++) {
        int64_t p = d->axis[i].at < 0 ? -d->axis[i].at : d->axis[i].at;
        for (int k = 0; k < mg_conv_dims(d); k++)
            p += (d->axis[i].by[k] < 0 ? -(int64_t)d->axis[i].by[k] : d->axis[i].by[k]) *
                 (d->size[k] > 0 ? d->size[k] - 1 : 0);
        x += p * d->axis[i].stride;
        most = 4 * p > most ? 4 * p : most; /* what is nowhere is at -2^30 */
    }
    most = x > most ? x : most;
    most = mg_conv_reach(d, d->y) > most ? mg_conv_reach(d, d->y) : most;
    for (int i = 0; i < 4; i++)
        if (mg_conv_size(d, first[i], count[i]) > most)
            most = mg_conv_size(d, first[i], count[i]);
    return most;
}

/* Nothing is computed: y has no elements, or grows by sums of no terms. */
static inline bool mg_conv_idle(const mg_conv_desc *d, const mg_conv_way *w)
{
    return w->batch * w->m * w->n == 0 || (w->k == 0 && d->accumulate);
}

static inline int64_t mg_conv_tiles(const mg_conv_way *w)
{
    return w->batch * ((w->m + MG_CONV_ROWS - 1) / MG_CONV_ROWS) *
           ((w->n + w->columns - 1) / w->columns);
}

/* Bytes of work of a convolution on a GPU (work is NULL if 0): the sums that are to be added up. */
static inline int64_t mg_conv_work(const mg_conv_desc *d)
{
    mg_conv_parts all = mg_conv_cut(d, 0, 0, 0);
    mg_conv_part p;
    int64_t most = 0;
    while (mg_conv_next(&all, &p)) {
        const mg_conv_way w = mg_conv_way_of(&p.d, true, true);
        const int64_t bytes =
            w.splits > 1 ? w.splits * w.batch * w.m * w.n * mg_conv_sum_bytes(d->dtype) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Kernels that a convolution launches on a GPU. */
static inline int64_t mg_conv_nodes(const mg_conv_desc *d)
{
    mg_conv_parts all = mg_conv_cut(d, 0, 0, 0);
    mg_conv_part p;
    int64_t n = 0;
    while (mg_conv_next(&all, &p)) {
        const mg_conv_way w = mg_conv_way_of(&p.d, true, true);
        n += mg_conv_idle(&p.d, &w) ? 0 : w.splits > 1 ? 2 : 1;
    }
    return n;
}

enum { MG_CONV_NAME = 64 };
static inline const char *mg_conv_numbers(mg_dtype t, bool tf32)
{
    return t == MG_BF16  ? "bf16"
           : t == MG_F16 ? "f16"
           : t == MG_F64 ? "f64"
           : tf32        ? "tf32"
                         : "f32";
}
/* The kernel's name, and the macro of kernels/cuda/conv.h that compiles it with its arguments. The
 * kernel that adds up is mg_conv_sum_ and the numbers. */
static inline void mg_conv_name(const mg_conv_way *w, const char *numbers, char name[MG_CONV_NAME])
{
    snprintf(name, MG_CONV_NAME, "mg_conv_%s_%s_%s_%d", numbers, w->turned_x ? "turned" : "plain",
             w->turned_w ? "turned" : "plain", w->columns);
}
static inline void mg_conv_instance(const mg_conv_way *w, const char *numbers,
                                    char text[MG_CONV_NAME])
{
    snprintf(text, MG_CONV_NAME, "MG_CONV(%s, %s, %s, %d)", numbers,
             w->turned_x ? "turned" : "plain", w->turned_w ? "turned" : "plain", w->columns);
}

#endif
