/* spread.c - plans how a block that is read through taps is packed once for many taps; see
 * spread.h. */
#include "kernels/spread.h"

enum { LINES = 16, TERMS = 32, UNIT = 64 };

/* A spot is what some indices of positions, or of a tap, add to the element and to the place on
 * each axis. */
typedef struct Spot {
    int64_t offset, axis[MG_CONV_AXES];
} Spot;

/* A block: positions in groups of 16, the first of each; and taps, the first colour of each. */
typedef struct Block {
    const mgk_taps *t;
    const mgk_dims *positions, *shown;
    int along; /* the axis */
    int64_t groups, taps;
    Spot group[2 * MGK_SPREAD_CHUNKS > MGK_SPREAD_TILES ? 2 * MGK_SPREAD_CHUNKS : MGK_SPREAD_TILES];
    Spot tap[MGK_SPREAD_TILES];
} Block;

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

/* The axis that the innermost positions step along, if they step along one, forward, and along
 * nothing else, and colours are whole chunks of runs; otherwise -1. */
static int axis_of(const Block *b, int64_t chunk)
{
    const int last = b->positions->n - 1, colour = b->shown->n - 1;
    int axis = -1;
    if (last < 0 || colour < 0 || b->positions->size[last] % LINES || b->positions->stride[last] ||
        b->shown->stride[colour] != 1 || b->shown->size[colour] % chunk)
        return -1;
    for (int x = 0; x < b->t->axes; x++) {
        const int32_t by = b->positions->by[last][x];
        if (b->t->axis[x].every != 1 || b->shown->by[colour][x] || by < 0 || (by && axis >= 0))
            return -1;
        axis = by ? x : axis;
    }
    return axis;
}

/* The place that a tap sees from the first position of a group. */
static int64_t place_of(const Block *b, int64_t group, int64_t tap)
{
    return b->group[group].axis[b->along] + b->tap[tap].axis[b->along] + b->t->axis[b->along].at;
}

/* The element at place 0 of the source row that it sees. */
static int64_t source_of(const Block *b, int64_t group, int64_t tap)
{
    int64_t offset = b->group[group].offset + b->tap[tap].offset;
    for (int x = 0; x < b->t->axes; x++) {
        const int64_t p = b->group[group].axis[x] + b->tap[tap].axis[x] + b->t->axis[x].at;
        if (x == b->along)
            continue;
        if (p < 0 || p >= b->t->axis[x].size)
            return MGK_SPREAD_NONE;
        offset += p * b->t->axis[x].stride;
    }
    return offset;
}

/* The number of the row that a tap sees from a group of positions, and of pairs from the next one,
 * too; -1: there are too many rows, of `each` bytes. */
static int64_t row_of(const Block *b, int64_t group, int64_t tap, int64_t each, mgk_spread *s)
{
    mgk_spread_row row = {.at = source_of(b, group, tap)};
    if (!s->along) {
        row.partner = source_of(b, group + 1, tap);
        row.ahead = place_of(b, group + 1, tap) - place_of(b, group, tap);
    }
    for (int64_t r = s->rows - 1; r >= 0; r--)
        if (s->row[r].at == row.at && s->row[r].partner == row.partner &&
            s->row[r].ahead == row.ahead)
            return r;
    if (s->rows == MGK_SPREAD_ROWS || (s->rows + 1) * each > MG_SPREAD)
        return -1;
    s->row[s->rows] = row;
    return s->rows++;
}

/* The groups and taps of a block, and the places that they see. */
static void look(Block *b, int64_t position, int64_t first, int64_t of_tap, int64_t colours,
                 mgk_spread *s)
{
    const int64_t every = s->along ? 1 : 2; /* groups of a tile; the second has places of its own */
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t k = 0; k < b->taps; k++)
        b->tap[k] = spot_of(b->shown, b->t->axes, (first / of_tap + k) * of_tap * colours);
    for (int64_t i = 0; i < b->groups; i++)
        b->group[i] = spot_of(b->positions, b->t->axes, position + i * LINES);
    for (int64_t i = 0; i < b->groups; i += every)
        for (int64_t k = 0; k < b->taps; k++) {
            const int64_t p = place_of(b, i, k);
            low = p < low ? p : low;
            high = p > high ? p : high;
        }
    s->low = low;
    s->places = high + (LINES - 1) * s->step - low + 1;
    s->places += s->places % LINES == 0; /* parts are then in other sets of a cache */
}

bool mgk_spread_plan(const mgk_taps *t, int64_t line, int64_t lines, int64_t term, int64_t terms,
                     int64_t parts, mgk_spread *s)
{
    Block b = {.t = t};
    const int64_t tiles = lines / LINES, chunks = terms / TERMS, colours = t->along ? TERMS : LINES;
    b.positions = t->along ? &t->lines : &t->terms;
    b.shown = t->along ? &t->terms : &t->lines;
    b.along = axis_of(&b, colours);
    if (b.along < 0 || line % LINES || lines % LINES || term % TERMS || terms % TERMS ||
        tiles > MGK_SPREAD_TILES || chunks > MGK_SPREAD_CHUNKS || tiles * chunks < 1 ||
        tiles * chunks > MGK_SPREAD_AT)
        return false;
    const int64_t of_tap = b.shown->size[b.shown->n - 1] / colours; /* chunks */
    const int64_t first = (t->along ? term : line) / colours;
    const int64_t end = first + (t->along ? chunks : tiles);
    b.taps = (end - 1) / of_tap - first / of_tap + 1;
    b.groups = t->along ? tiles : 2 * chunks;
    s->along = t->along;
    s->rows = 0;
    s->step = b.positions->by[b.positions->n - 1][b.along];
    s->size = t->axis[b.along].size;
    s->stride = t->axis[b.along].stride;
    s->first = b.taps > 1 ? 0 : first % of_tap;
    s->chunks = b.taps > 1 ? of_tap : end - first;
    look(&b, t->along ? line : term, first, of_tap, colours, s);
    int64_t row = -1, place = 0, was = -1; /* of the group and tap at hand */
    for (int64_t n = 0; n < tiles * chunks; n++) {
        const int64_t i = t->along ? n / chunks : n % tiles, q = t->along ? n % chunks : n / tiles;
        const int64_t group = t->along ? i : 2 * q, chunk = first + (t->along ? q : i);
        const int64_t tap = chunk / of_tap - first / of_tap;
        if (group * b.taps + tap != was) {
            was = group * b.taps + tap;
            row = row_of(&b, group, tap, s->chunks * parts * s->places * UNIT, s);
            place = place_of(&b, group, tap) - s->low;
        }
        if (row < 0)
            return false;
        s->at[i * chunks + q] =
            (int32_t)((row * s->chunks + chunk % of_tap - s->first) * parts * s->places + place);
    }
    const int64_t all = s->rows * s->chunks * s->places;
    return all * LINES <= lines * terms / 2;
}
