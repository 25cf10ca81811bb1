/* comm.c - what ranks do together, in the memory they share: each reads the others' numbers where
 * they are. Sums are made in the order of ranks, by one of them for all, or by each alike: the same
 * bits on all ranks, and in every run. */
#include "runtime/half.h"
#include "runtime/ranks.h"

#include <string.h>

enum { SMALL = 1 << 15, GRAIN = 1 << 13 }; /* bytes that each adds up by itself; elements */

typedef struct comm {
    const mg_comm_desc *d;
    mg_run *run;
    int member[MG_RANKS_MAX]; /* ranks of the group, in order */
    int me;                   /* this rank's place among them */
    const char *x;
    char *y;
    int64_t width;        /* bytes of an element */
    int64_t begin, count; /* elements of x that are added up */
} comm;

static void find_group(comm *c)
{
    const mg_program *p = c->run->program;
    uint32_t others = ~c->d->axes & (((uint32_t)1 << p->naxes) - 1);
    int n = 0, mine = rt_place_of(p, c->run->rank, others);
    for (int k = 0; n < c->d->n; k++)
        if (rt_place_of(p, k, others) == mine)
            c->member[n++] = k;
    c->me = rt_place_of(p, c->run->rank, c->d->axes);
}

static const char *of_member(const comm *c, const void *at, int member)
{
    return rt_of_rank(c->run, at, c->member[member]);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static float widened(uint16_t h, mg_dtype t)
{
    return t == MG_BF16 ? mg_from_bf16(h) : mg_from_f16(h);
}

static uint16_t rounded(float x, mg_dtype t)
{
    return t == MG_BF16 ? mg_to_bf16(x) : mg_to_f16(x);
}

#define ADD_UP(T)                                                                                  \
    for (int64_t e = begin; e < end; e++) {                                                        \
        T sum = ((const T *)from[0])[e];                                                           \
        for (int k = 1; k < n; k++) {                                                              \
            T one = ((const T *)from[k])[e];                                                       \
            sum = !most ? sum + one : one > sum ? one : sum;                                       \
        }                                                                                          \
        ((T *)to)[e] = sum;                                                                        \
    }

/* Elements [begin, end) of `from[k]`, which lie alike, into those of `to`. */
static void add_up(mg_dtype t, bool most, int n, const char *const *from, char *to, int64_t begin,
                   int64_t end)
{
    if (t == MG_F64) {
        ADD_UP(double)
    } else if (t == MG_F32) {
        ADD_UP(float)
    } else if (t == MG_I32) {
        ADD_UP(int32_t)
    } else {
        for (int64_t e = begin; e < end; e++) {
            float sum = widened(((const uint16_t *)from[0])[e], t);
            for (int k = 1; k < n; k++) {
                float one = widened(((const uint16_t *)from[k])[e], t);
                sum = !most ? sum + one : one > sum ? one : sum;
            }
            ((uint16_t *)to)[e] = rounded(sum, t);
        }
    }
}

/* The same in a tree: ranks 0 and 1, 2 and 3, ..., then those pairs, block by block of elements. A
 * sum waits for its neighbour. Each number is added to 0 first, so that no zero is negative
 * whichever of the ranks and of their rounds it comes from. */
enum { BLOCK = 256, LEVELS = 10 };

#define ADD_TREE(name, T)                                                                          \
    static void name(int n, const char *const *from, T *to, int64_t begin, int64_t end)            \
    {                                                                                              \
        T waiting[LEVELS][BLOCK];                                                                  \
        for (int64_t at = begin; at < end; at += BLOCK) {                                          \
            int64_t many = end - at < BLOCK ? end - at : BLOCK;                                    \
            int top = 0;                                                                           \
            for (int k = 0; k < n; k++, top++) {                                                   \
                for (int64_t e = 0; e < many; e++)                                                 \
                    waiting[top][e] = ((const T *)from[k])[at + e] + (T)0;                         \
                for (int pairs = k; pairs & 1; pairs >>= 1, top--)                                 \
                    for (int64_t e = 0; e < many; e++)                                             \
                        waiting[top - 1][e] += waiting[top][e];                                    \
            }                                                                                      \
            for (; top > 1; top--)                                                                 \
                for (int64_t e = 0; e < many; e++)                                                 \
                    waiting[top - 2][e] += waiting[top - 1][e];                                    \
            memcpy(to + at, waiting[0], (size_t)many * sizeof *to);                                \
        }                                                                                          \
    }

ADD_TREE(add_tree_f32, float)
ADD_TREE(add_tree_f64, double)

static void sum(const comm *c, const char *const *from, char *to, int64_t begin, int64_t end)
{
    if (c->d->tree && c->d->dtype == MG_F64)
        add_tree_f64((int)c->d->n, from, (double *)to, begin, end);
    else if (c->d->tree)
        add_tree_f32((int)c->d->n, from, (float *)to, begin, end);
    else
        add_up(c->d->dtype, c->d->most, (int)c->d->n, from, to, begin, end);
}

static void add_range(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const comm *c = ctx;
    const char *from[MG_RANKS_MAX];
    (void)scratch;
    for (int k = 0; k < c->d->n; k++)
        from[k] = of_member(c, c->x + c->begin * c->width, k);
    sum(c, from, c->y + c->begin * c->width, begin, end);
}

static void all_reduce(comm *c)
{
    const mg_comm_desc *d = c->d;
    int64_t all = d->outer * d->size * d->inner;
    bool small = all * c->width <= SMALL;
    rt_meet(c->run, d->axes);
    c->begin = small ? 0 : all * c->me / d->n;
    c->count = small ? all : all * (c->me + 1) / d->n - c->begin;
    mg_parallel(c->run, c->count, GRAIN, add_range, c);
    if (!small) { /* each has added up a part for all */
        rt_meet(c->run, d->axes);
        for (int k = 0; k < d->n; k++) {
            int64_t at = all * k / d->n * c->width, end = all * (k + 1) / d->n * c->width;
            if (k != c->me)
                memcpy(c->y + at, of_member(c, c->y + at, k), (size_t)(end - at));
        }
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Row o of this rank's part of x, dim by dim: where it begins in x, in elements. */
static int64_t part_of_row(const comm *c, int64_t o)
{
    const mg_comm_desc *d = c->d;
    return (o * d->size + c->me * (d->size / d->n)) * d->inner;
}

static void scatter_rows(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const comm *c = ctx;
    const mg_comm_desc *d = c->d;
    int64_t row = d->size / d->n * d->inner;
    (void)scratch;
    for (int64_t o = begin; o < end; o++) {
        const char *from[MG_RANKS_MAX];
        for (int k = 0; k < d->n; k++)
            from[k] = of_member(c, c->x + part_of_row(c, o) * c->width, k);
        sum(c, from, c->y + o * row * c->width, 0, row);
    }
}

static void gather_rows(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const comm *c = ctx;
    const mg_comm_desc *d = c->d;
    int64_t row = d->size * d->inner * c->width;
    (void)scratch;
    for (int64_t o = begin; o < end; o++)
        for (int k = 0; k < d->n; k++)
            memcpy(c->y + (o * d->n + k) * row, of_member(c, c->x + o * row, k), (size_t)row);
}

static void cut_rows(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const comm *c = ctx;
    int64_t row = c->d->size / c->d->n * c->d->inner;
    (void)scratch;
    for (int64_t o = begin; o < end; o++)
        memcpy(c->y + o * row * c->width, c->x + part_of_row(c, o) * c->width,
               (size_t)(row * c->width));
}

/* y, dim by dim, is x with `dim` n times as long and `to` an n-th: element by element of the
 * smaller strides, since either may be the outer one. */
static void turn(comm *c)
{
    const mg_comm_desc *d = c->d;
    bool outer = d->inner > d->to_inner; /* is the gathered dim the outer one? (it may be 1 long) */
    int64_t part = d->to_size / d->n;
    int64_t a = outer ? d->outer : d->to_outer, b = outer ? d->size : part;
    int64_t middle =
        outer ? d->to_outer / (d->outer * d->size) : d->outer / (d->to_outer * d->to_size);
    int64_t e = outer ? part : d->size, inner = outer ? d->to_inner : d->inner;
    for (int k = 0; k < d->n; k++)
        for (int64_t i = 0; i < a; i++)
            for (int64_t j = 0; j < b; j++)
                for (int64_t m = 0; m < middle; m++)
                    for (int64_t l = 0; l < e; l++) {
                        int64_t xo = outer ? j : c->me * part + j,
                                xs = outer ? d->size : d->to_size;
                        int64_t xi = outer ? c->me * part + l : l,
                                xt = outer ? d->to_size : d->size;
                        int64_t yo = outer ? k * d->size + j : j,
                                ys = outer ? d->size * d->n : part;
                        int64_t yi = outer ? l : k * d->size + l,
                                yt = outer ? part : d->size * d->n;
                        int64_t from = (((i * xs + xo) * middle + m) * xt + xi) * inner;
                        int64_t to = (((i * ys + yo) * middle + m) * yt + yi) * inner;
                        memcpy(c->y + to * c->width, of_member(c, c->x + from * c->width, k),
                               (size_t)(inner * c->width));
                    }
}

void mg_comm(mg_run *r, int action, const mg_comm_desc *d, const void *x, void *y)
{
    comm c = {.d = d, .run = r, .x = x, .y = y, .width = mg_dtype_bytes(d->dtype)};
    int64_t rows = 1 + GRAIN / (d->size * d->inner + 1);
    mg_begin(r, action);
    find_group(&c);
    if (d->kind == MG_SHARD) {
        mg_parallel(r, d->outer, rows, cut_rows, &c);
    } else if (d->kind == MG_ALL_REDUCE) {
        all_reduce(&c);
    } else {
        rt_meet(r, d->axes);
        if (d->kind == MG_REDUCE_SCATTER)
            mg_parallel(r, d->outer, rows, scatter_rows, &c);
        else if (d->kind == MG_ALL_GATHER)
            mg_parallel(r, d->outer, rows, gather_rows, &c);
        else
            turn(&c);
    }
    if (d->kind != MG_SHARD)
        rt_meet(r, d->axes); /* nobody changes what another still reads */
    mg_end(r, action);
}
