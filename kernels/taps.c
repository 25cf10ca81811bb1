/* taps.c - brings the elements of an operand together that is read through indices; see taps.h.
 *
 * The contiguous side of the result comes in runs: as many elements as are contiguous in the
 * operand, too, and whose place along an axis is the same (all colours of a pixel). The other side
 * is walked by segments of its innermost dim, along which a run steps evenly: where it begins and
 * ends to lie inside of all axes is computed once, and what is left is copies at two strides. */
#include "kernels/taps.h"

#include <string.h>

/* Indices of some dims, and what they add up to. */
typedef struct Place {
    int64_t index[MG_CONV_DIMS], offset, axis[MG_CONV_AXES];
} Place;

/* A run of elements of the contiguous side. */
typedef struct Run {
    int64_t at, length, offset, axis[MG_CONV_AXES];
} Run;

enum { RUNS = 128 }; /* at a time */

static Place place_of(const mgk_dims *d, int axes, int64_t i)
{
    Place p = {.offset = 0};
    for (int k = d->n - 1; k >= 0; k--) {
        p.index[k] = i % d->size[k];
        i /= d->size[k];
        p.offset += p.index[k] * d->stride[k];
        for (int x = 0; x < axes; x++)
            p.axis[x] += p.index[k] * d->by[k][x];
    }
    return p;
}

/* Goes `count` steps on along the innermost dim, which ends there at the most. */
static void go_on(const mgk_dims *d, int axes, int64_t count, Place *p)
{
    int64_t step = count;
    for (int k = d->n - 1; k >= 0; k--, step = 1) {
        p->index[k] += step;
        p->offset += step * d->stride[k];
        for (int x = 0; x < axes; x++)
            p->axis[x] += step * d->by[k][x];
        if (p->index[k] < d->size[k])
            return;
        p->offset -= p->index[k] * d->stride[k];
        for (int x = 0; x < axes; x++)
            p->axis[x] -= p->index[k] * d->by[k][x];
        p->index[k] = 0;
    }
}

/* The rest of the innermost dim, at most `most`. */
static int64_t left_of(const mgk_dims *d, const Place *p, int64_t most)
{
    const int64_t left = d->n ? d->size[d->n - 1] - p->index[d->n - 1] : 1;
    return left < most ? left : most;
}

/* Is the innermost dim contiguous, and on no axis? */
static bool in_runs(const mgk_dims *d, int axes)
{
    bool even = d->n && d->stride[d->n - 1] == 1;
    for (int x = 0; x < axes && even; x++)
        even = d->by[d->n - 1][x] == 0;
    return even;
}

/* The steps q in [*low, *high) for which 0 <= at + q by < size; none: *low >= *high. */
static void clip(int64_t at, int64_t by, int64_t size, int64_t *low, int64_t *high)
{
    if (by == 0) {
        if (at < 0 || at >= size)
            *high = *low;
        return;
    }
    /* The first q at which it is inside, and the first after that at which it is not. */
    const int64_t enter = by > 0 ? -at : at - size + 1, leave = by > 0 ? size - at : at + 1;
    const int64_t step = by > 0 ? by : -by;
    const int64_t first = enter <= 0 ? 0 : (enter + step - 1) / step;
    const int64_t end = leave <= 0 ? 0 : (leave + step - 1) / step;
    *low = first > *low ? first : *low;
    *high = end < *high ? end : *high;
}

/* Copies `count` runs of `bytes` bytes each at two strides. */
static void copy_runs(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t bytes,
                      int64_t count)
{
#define EACH(n)                                                                                    \
    case n:                                                                                        \
        for (int64_t q = 0; q < count; q++, to += to_step, from += from_step)                      \
            memcpy(to, from, n);                                                                   \
        return;
    switch (bytes) {
        EACH(2)
        EACH(4)
        EACH(8)
        EACH(64)
        EACH(128)
        EACH(256)
    default:
        for (int64_t q = 0; q < count; q++, to += to_step, from += from_step)
            memcpy(to, from, (size_t)bytes);
    }
#undef EACH
}

static void clear_runs(char *to, int64_t to_step, int64_t bytes, int64_t count)
{
    for (int64_t q = 0; q < count; q++, to += to_step)
        memset(to, 0, (size_t)bytes);
}

/* One of the other side's segments: `count` steps from `at` on, each `to_step` bytes apart in the
 * result, of a run. */
typedef struct Segment {
    const mgk_taps *t;
    const char *from;
    const Place *at;
    int64_t stride, by[MG_CONV_AXES]; /* of a step */
    int64_t count, to_step;
} Segment;

/* Some axis does not have an element at every step: each is looked at by itself. */
static void bring_one_by_one(const Segment *s, const Run *r, char *to)
{
    const mgk_taps *t = s->t;
    for (int64_t q = 0; q < s->count; q++, to += s->to_step) {
        int64_t offset = s->at->offset + r->offset + q * s->stride;
        bool there = true;
        for (int x = 0; x < t->axes && there; x++) {
            const int64_t p = s->at->axis[x] + r->axis[x] + q * s->by[x] + t->axis[x].at;
            there = p >= 0 && p % t->axis[x].every == 0 && p / t->axis[x].every < t->axis[x].size;
            offset += p / t->axis[x].every * t->axis[x].stride;
        }
        if (there)
            memcpy(to, s->from + offset * t->bytes, (size_t)(r->length * t->bytes));
        else
            memset(to, 0, (size_t)(r->length * t->bytes));
    }
}

static void bring_run(const Segment *s, const Run *r, char *to)
{
    const mgk_taps *t = s->t;
    int64_t low = 0, high = s->count, offset = s->at->offset + r->offset, stride = s->stride;
    to += r->at * t->bytes;
    for (int x = 0; x < t->axes; x++) {
        const int64_t p = s->at->axis[x] + r->axis[x] + t->axis[x].at;
        if (t->axis[x].every != 1) {
            bring_one_by_one(s, r, to);
            return;
        }
        clip(p, s->by[x], t->axis[x].size, &low, &high);
        offset += p * t->axis[x].stride;
        stride += s->by[x] * t->axis[x].stride;
    }
    const int64_t bytes = r->length * t->bytes;
    if (low >= high) {
        clear_runs(to, s->to_step, bytes, s->count);
        return;
    }
    clear_runs(to, s->to_step, bytes, low);
    copy_runs(to + low * s->to_step, s->to_step, s->from + (offset + low * stride) * t->bytes,
              stride * t->bytes, bytes, high - low);
    clear_runs(to + high * s->to_step, s->to_step, bytes, s->count - high);
}

/* All lines (or terms) of the other side, of some runs. */
static void bring_runs(const mgk_taps *t, const char *from, const mgk_dims *outer, int64_t first,
                       int64_t count, const Run *run, int runs, char *to, int64_t ld)
{
    Place p = place_of(outer, t->axes, first);
    for (int64_t i = 0; i < count;) {
        Segment s = {.t = t, .from = from, .at = &p, .count = left_of(outer, &p, count - i)};
        s.to_step = ld * t->bytes;
        for (int x = 0; x < t->axes && outer->n; x++)
            s.by[x] = outer->by[outer->n - 1][x];
        s.stride = outer->n ? outer->stride[outer->n - 1] : 0;
        for (int r = 0; r < runs; r++)
            bring_run(&s, &run[r], to + i * s.to_step);
        i += s.count;
        go_on(outer, t->axes, s.count, &p);
    }
}

void mgk_bring(const mgk_taps *t, const void *from, int64_t line, int64_t lines, int64_t term,
               int64_t terms, void *to, int64_t ld)
{
    const mgk_dims *inner = t->along ? &t->terms : &t->lines;
    const mgk_dims *outer = t->along ? &t->lines : &t->terms;
    const int64_t first = t->along ? term : line, count = t->along ? terms : lines;
    const bool even = in_runs(inner, t->axes);
    if (lines < 1 || terms < 1)
        return; /* a sum of nothing: dims of no size have no place */
    Place p = place_of(inner, t->axes, first);
    Run run[RUNS];
    for (int64_t i = 0; i < count;) {
        int n = 0;
        for (; n < RUNS && i < count; n++) {
            run[n] = (Run){.at = i, .length = even ? left_of(inner, &p, count - i) : 1};
            run[n].offset = p.offset;
            memcpy(run[n].axis, p.axis, sizeof p.axis);
            i += run[n].length;
            go_on(inner, t->axes, run[n].length, &p);
        }
        bring_runs(t, from, outer, t->along ? line : term, t->along ? lines : terms, run, n, to,
                   ld);
    }
}
