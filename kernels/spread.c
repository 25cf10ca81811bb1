/* spread.c - plans how a block that is read through taps is packed once for all taps; see spread.h.
 */
#include "kernels/spread.h"

enum { LINES = 16, TERMS = 32 };

/* Where a tile of lines begins, and the terms of one tap: the element at place 0 of the axis, and
 * the place. Both add up to where the tap sees the first line. */
typedef struct Spot {
    int64_t offset, axis[MG_CONV_AXES];
} Spot;

static Spot spot_of(const mgk_dims *d, int axes, int64_t i)
{
    Spot p = {.offset = 0};
    for (int k = d->n - 1; k >= 0; k--) {
        const int64_t index = i % d->size[k];
        i /= d->size[k];
        p.offset += index * d->stride[k];
        for (int x = 0; x < axes; x++)
            p.axis[x] += index * d->by[k][x];
    }
    return p;
}

/* The axis that the innermost lines step along, if it is one, and nothing else; -1: it is not. */
static int axis_of(const mgk_taps *t)
{
    const mgk_dims *lines = &t->lines, *terms = &t->terms;
    const int last = lines->n - 1, colour = terms->n - 1;
    int axis = -1;
    if (!t->along || last < 0 || colour < 0 || lines->size[last] % LINES || lines->stride[last])
        return -1;
    if (terms->stride[colour] != 1 || terms->size[colour] % TERMS)
        return -1;
    for (int x = 0; x < t->axes; x++) {
        if (t->axis[x].every != 1 || terms->by[colour][x] || lines->by[last][x] < 0)
            return -1;
        if (lines->by[last][x] && axis >= 0)
            return -1;
        if (lines->by[last][x])
            axis = x;
    }
    return axis;
}

/* The number of the source row that a tap sees from a tile's lines; -1: there are too many. */
static int64_t row_of(const mgk_taps *t, int along, const Spot *a, const Spot *b, mgk_spread *s)
{
    int64_t offset = a->offset + b->offset;
    for (int x = 0; x < t->axes; x++) {
        const int64_t p = a->axis[x] + b->axis[x] + t->axis[x].at;
        if (x == along)
            continue;
        if (p < 0 || p >= t->axis[x].size) {
            offset = MGK_SPREAD_NONE;
            break;
        }
        offset += p * t->axis[x].stride;
    }
    for (int64_t r = s->rows - 1; r >= 0; r--)
        if (s->row[r] == offset)
            return r;
    if (s->rows == MGK_SPREAD_ROWS)
        return -1;
    s->row[s->rows] = offset;
    return s->rows++;
}

bool mgk_spread_plan(const mgk_taps *t, int64_t line, int64_t lines, int64_t term, int64_t terms,
                     int64_t parts, int64_t units, mgk_spread *s)
{
    const int along = axis_of(t);
    const int64_t tiles = lines / LINES, chunks = terms / TERMS;
    if (along < 0 || line % LINES || lines % LINES || term % TERMS || terms % TERMS || !chunks)
        return false;
    if (tiles > MGK_SPREAD_TILES || chunks > MGK_SPREAD_CHUNKS)
        return false;
    const int64_t of_tap = t->terms.size[t->terms.n - 1] / TERMS; /* chunks */
    const int64_t first = term / TERMS, end = first + chunks;
    const int64_t taps = (end - 1) / of_tap - first / of_tap + 1;
    Spot tap[MGK_SPREAD_CHUNKS], begin[MGK_SPREAD_TILES];
    int64_t low = INT64_MAX, high = INT64_MIN;
    s->rows = 0;
    s->step = t->lines.by[t->lines.n - 1][along];
    for (int64_t k = 0; k < taps; k++)
        tap[k] = spot_of(&t->terms, t->axes, (first / of_tap + k) * of_tap * TERMS);
    for (int64_t i = 0; i < tiles; i++) {
        begin[i] = spot_of(&t->lines, t->axes, line + i * LINES);
        for (int64_t k = 0; k < taps; k++) {
            const int64_t p = begin[i].axis[along] + tap[k].axis[along] + t->axis[along].at;
            low = p < low ? p : low;
            high = p > high ? p : high;
        }
    }
    s->low = low;
    s->places = high + (LINES - 1) * s->step - low + 1;
    s->places += s->places % LINES == 0; /* parts are then in other sets of a cache */
    s->size = t->axis[along].size;
    s->stride = t->axis[along].stride;
    s->first = taps > 1 ? 0 : first % of_tap;
    s->chunks = taps > 1 ? of_tap : chunks;
    for (int64_t i = 0; i < tiles; i++)
        for (int64_t q = first; q < end; q++) {
            const int64_t k = q / of_tap - first / of_tap;
            const int64_t row = row_of(t, along, &begin[i], &tap[k], s);
            const int64_t at = begin[i].axis[along] + tap[k].axis[along] + t->axis[along].at - low;
            if (row < 0)
                return false;
            s->at[i * chunks + q - first] =
                (int32_t)((row * s->chunks + q % of_tap - s->first) * parts * s->places + at);
        }
    const int64_t all = s->rows * s->chunks * s->places;
    return all * parts <= units && all <= lines * chunks;
}
