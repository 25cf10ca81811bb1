/* stages.c - which ranks of two pipelines are compared: the nth of one with the nth of the other,
 * those that do the same on both sides as one. Where the pipelines are not as long, the first, a
 * typical and the last; a side without a pipeline is one rank, with which each is compared. */
#include "compiler/diff/rows.h"

#include <string.h>

/* A timeline's ranks; a step without a pipeline has none. */
static const json_t *ranks_of(const Diff *d, int side)
{
    return json_object_get(json_object_get(d->side[side].plan, "timeline"), "ranks");
}

static int field(const json_t *row, const char *name)
{
    return (int)json_integer_value(json_object_get(row, name));
}

static int typical_of(const Diff *d, int side)
{
    return field(json_object_get(d->side[side].plan, "timeline"), "typical");
}

static int count(const json_t *ranks)
{
    return ranks ? field(json_array_get(ranks, json_array_size(ranks) - 1), "last") + 1 : 1;
}

/* The row that a rank is of; NULL: no pipeline. */
static const json_t *row_with(const json_t *ranks, int rank)
{
    size_t i;
    json_t *v;
    json_array_foreach((json_t *)ranks, i, v) {
        if (rank <= field(v, "last"))
            return v;
    }
    return NULL;
}

static const char *name_of(const json_t *row)
{
    return row ? json_string_value(json_object_get(row, "name")) : "all";
}

static void add(Diff *d, const char *name, const json_t *x, const json_t *y)
{
    const DiffStage s = {
        name,
        {x ? field(x, "rank") : typical_of(d, 0), y ? field(y, "rank") : typical_of(d, 1)},
        {x, y}};
    for (size_t i = 0; i < d->stages.n; i++)
        if (d->stages.data[i].rank[0] == s.rank[0] && d->stages.data[i].rank[1] == s.rank[1])
            return;
    vec_push(d->a, &d->stages, s);
}

/* "pp 3": the axis is that of the rows' names. */
static const char *range_name(Arena *a, const json_t *row, int first, int last)
{
    const char *name = name_of(row);
    const int axis = (int)strcspn(name, " ");
    return last > first ? arena_printf(a, "%.*s %d to %d", axis, name, first, last)
                        : arena_printf(a, "%.*s %d", axis, name, first);
}

void diff_stages(Diff *d)
{
    const json_t *x = ranks_of(d, 0), *y = ranks_of(d, 1);
    const int n = count(x), m = count(y);
    if (n > 1 && m > 1 && n != m) {
        const int of[3][2] = {{0, 0}, {typical_of(d, 0), typical_of(d, 1)}, {n - 1, m - 1}};
        static const char *const which[3] = {"the first", "a typical one", "the last"};
        for (int k = 0; k < 3; k++)
            add(d, which[k], row_with(x, of[k][0]), row_with(y, of[k][1]));
        return;
    }
    for (int rank = 0, last; rank < (n > m ? n : m); rank = last + 1) {
        const json_t *p = n > 1 ? row_with(x, rank) : NULL, *q = m > 1 ? row_with(y, rank) : NULL;
        last = p ? field(p, "last") : field(q, "last");
        if (!p && !q)
            last = rank;
        else if (p && q && field(q, "last") < last)
            last = field(q, "last");
        add(d, p || q ? range_name(d->a, p ? p : q, rank, last) : "", p, q);
    }
}
