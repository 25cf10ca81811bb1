/* gen.c - text, draws, dims and values in sight, and the program as a whole; see gen.h. */
#include "tests/programs/gen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void put(Arena *a, Text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (t->n + (size_t)n + 1 > t->cap) {
        char *old = t->data;
        t->cap = (t->n + (size_t)n + 1) * 2;
        t->data = arena_alloc(a, t->cap);
        if (old)
            memcpy(t->data, old, t->n);
    }
    va_start(ap, fmt);
    vsnprintf(t->data + t->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->n += (size_t)n;
}

void line(Gen *g, const char *fmt, ...)
{
    va_list ap;
    char *s;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    s = arena_alloc(g->a, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    put(g->a, g->out, "%*s%s\n", g->indent * 4, "", s);
}

/* ---- draws ----------------------------------------------------------------------------------- */

uint64_t gen_random(uint64_t *rng)
{
    *rng = *rng * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *rng;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    return x ^ x >> 33;
}

int draw_below(Gen *g, int n)
{
    return (int)(gen_random(&g->rng) % (uint64_t)n);
}

bool draw_one_in(Gen *g, int n)
{
    return draw_below(g, n) == 0;
}

int draw_between(Gen *g, int low, int high)
{
    return low + draw_below(g, high - low + 1);
}

const char *new_name(Gen *g, const char *stem)
{
    return arena_printf(g->a, "%s%d", stem, ++g->names);
}

/* ---- dims ------------------------------------------------------------------------------------ */

int add_dim(Gen *g, const char *name, int size)
{
    if (g->ndims == DIMS_MAX)
        return -1;
    g->dim[g->ndims] = (GenDim){.name = name, .size = size};
    return g->ndims++;
}

int64_t elements(const Gen *g, Dims d)
{
    int64_t n = 1;
    for (int i = 0; i < g->ndims; i++)
        if (d >> i & 1)
            n *= g->dim[i].size;
    return n;
}

int rank_of(Dims d)
{
    return __builtin_popcount(d);
}

bool small(const Gen *g, Dims d)
{
    return rank_of(d) <= RANK_MAX && elements(g, d) <= SIZE_MAX_ELEMENTS;
}

const char *dim_name(Gen *g, int d)
{
    g->used |= bit(d);
    return g->dim[d].alias ? g->dim[d].alias : g->dim[d].name;
}

int draw_dim(Gen *g, Dims among)
{
    int n = rank_of(among);
    if (!n)
        return -1;
    for (int nth = draw_below(g, n), i = 0; i < g->ndims; i++)
        if (among >> i & 1 && nth-- == 0)
            return i;
    return -1;
}

Dims tensor_dims(const Gen *g)
{
    Dims all = 0;
    for (int i = 0; i < g->ndims; i++)
        if (!g->dim[i].iterations && !g->dim[i].gone && i != g->extra && i != g->experts &&
            i != g->slot && i != g->rows)
            all |= bit(i);
    return all;
}

Dims named_dims(const Gen *g)
{
    Dims all = 0;
    for (int i = 0; i < g->ndims; i++)
        if (!g->dim[i].gone && i != g->extra)
            all |= bit(i);
    return all;
}

const char *dim_list(Gen *g, Dims d, const char *separator)
{
    const char *s = "";
    d &= ~bit(g->extra);
    for (bool first = true; d; first = false) {
        int one = draw_dim(g, d);
        d &= ~bit(one);
        s = arena_printf(g->a, "%s%s%s", s, first ? "" : separator, dim_name(g, one));
    }
    return s;
}

const char *over_list(Gen *g, Dims d)
{
    const char *s = dim_list(g, d, ", ");
    return rank_of(d) == 1 && !draw_one_in(g, 12) ? s : arena_printf(g->a, "(%s)", s);
}

/* ---- values ---------------------------------------------------------------------------------- */

GenValue *add_value(Gen *g, const char *name, Kind kind, Dims dims, int indexes)
{
    int at = 0;
    while (at < g->nvalues && strcmp(g->value[at].name, name))
        at++;
    at -= at == VALUES_MAX; /* one is forgotten */
    g->nvalues += at == g->nvalues;
    g->value[at] = (GenValue){name, kind, dims, indexes, false};
    return &g->value[at];
}

const GenValue *draw_value(Gen *g, Kind kind, Dims within)
{
    int fits[VALUES_MAX], n = 0;
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == kind && !(g->value[i].dims & ~within))
            fits[n++] = i;
    if (!n)
        return NULL;
    int at = n - 1 - draw_below(g, n) * draw_below(g, 2); /* the newest more often */
    return &g->value[fits[at]];
}

Dims reach(const Gen *g)
{
    Dims d = 0;
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == KIND_float)
            d |= g->value[i].dims;
    return d & g->fixed;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int even_or_any(Gen *g, int max)
{
    int n = draw_between(g, 1, max);
    return draw_below(g, 4) ? n + (n & 1) : n;
}

/* A dim of whole blocks of 64, and few positions, so that all is small. */
static void draw_blocks(Gen *g)
{
    static const int size[] = {64, 64, 128, 256};
    g->blocks = 0;
    while (strcmp(g->dim[g->blocks].name, "hidden") != 0)
        g->blocks++;
    g->dim[g->blocks].size = size[draw_below(g, 4)];
    g->dim[g->batch].size = g->dim[g->blocks].size == 64 ? 4 : 2;
    if (g->seq >= 0)
        g->dim[g->seq].size = g->dim[g->blocks].size == 256 ? 2 : 4;
}

static void draw_dims(Gen *g)
{
    static const char *const more[] = {"hidden", "heads", "group", "head",
                                       "ffn",    "row",   "col",   "near"};
    static const int max[] = {6, 3, 2, 4, 6, 3, 4, 3};
    static const char *const repeats[] = {"layers", "outer", "inner", "steps_in"};
    static const int batches[] = {1, 2, 3, 4, 4, 4, 8};
    g->batch = add_dim(g, "batch", batches[draw_below(g, 7)]);
    g->seq = g->scanned = -1;
    if (!g->named || draw_below(g, 2))
        g->seq = add_dim(g, "seq", even_or_any(g, 6));
    g->vocab = g->named && draw_below(g, 2) ? -1 : add_dim(g, "vocab", even_or_any(g, 11));
    g->classes = g->named && draw_below(g, 3) ? add_dim(g, "classes", draw_between(g, 2, 5)) : -1;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (i == 0 || draw_below(g, 3))
            add_dim(g, more[i], even_or_any(g, max[i]));
    for (size_t i = 0; i < sizeof repeats / sizeof *repeats; i++)
        if (i == 0 || draw_below(g, 2))
            g->dim[add_dim(g, repeats[i], draw_between(g, 1, i ? 3 : 4))].iterations = true;
    if (g->blocks >= 0)
        draw_blocks(g);
    g->experts = g->choice = g->best = g->slot = g->rows = -1;
    if (g->seq >= 0 && draw_one_in(g, 4)) {
        int n = draw_between(g, 2, 4);
        g->experts = add_dim(g, "experts", n);
        g->choice = add_dim(g, "choice", n);
        g->best = add_dim(g, "best", draw_between(g, 1, n < 3 ? n : 2));
        g->slot = add_dim(g, "slot", draw_between(g, 1, g->dim[g->seq].size));
        g->rows = add_dim(g, "rows", g->dim[g->best].size * g->dim[g->seq].size);
    }
    if (draw_one_in(g, 3)) { /* a square matrix needs two names */
        int like = draw_dim(g, tensor_dims(g) & ~bit(g->batch));
        add_dim(g, "other", g->dim[like].size);
    }
}

/* Sizes as numbers, or by each other. */
static const char *size_text(Gen *g, int d)
{
    int size = g->dim[d].size;
    for (int i = 0; i < g->ndims && draw_one_in(g, 3); i++) {
        int n = g->dim[i].size;
        if (i == d || i > d)
            continue;
        if (n == size)
            return g->dim[i].name;
        if (size % n == 0)
            return arena_printf(g->a, "%d * %s", size / n, g->dim[i].name);
        if (n % size == 0)
            return arena_printf(g->a, "%s / %d", g->dim[i].name, n / size);
        if (size == (n + 1) / 2)
            return arena_printf(g->a, "ceil(%s / 2)", g->dim[i].name);
        return arena_printf(g->a, size > n ? "%s + %d" : "%s - %d", g->dim[i].name,
                            size > n ? size - n : n - size);
    }
    return arena_printf(g->a, "%d", size);
}

static void write_dims(Gen *g)
{
    int order[DIMS_MAX];
    for (int i = 0; i < g->ndims; i++) {
        int k = draw_below(g, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    const char *s = "";
    for (int i = 0; i < g->ndims; i++) {
        s = arena_printf(g->a, "%s%s%s = %s", s, *s ? ", " : "", g->dim[order[i]].name,
                         size_text(g, order[i]));
        if (draw_one_in(g, 4) || i + 1 == g->ndims) {
            line(g, "dim %s", s);
            s = "";
        }
    }
}

static void write_consts(Gen *g)
{
    static const char *const values[] = {
        "0.5",         "2",           "1 / sqrt(2 * layers)",
        "-1",          "1e-2",        "hidden / 2",
        "3 * 0.25",    "exp(-1)",     "max(1, layers)",
        "min(0.5, 1)", "pow(2, 3)",   "select(layers > 2, 0.3, 0.7)",
        "abs(-0.25)",  "layers == 2", "sin(0.5) + cos(0.5)",
        "sign(-3)",    "log(2)",      "tanh(1)",
        "erf(0.5)",    "sigmoid(0)"};
    int n = draw_below(g, 4);
    for (int i = 0; i < n && g->nnumbers < NUMBERS_MAX; i++) {
        const char *name = new_name(g, "c");
        line(g, "const %s = %s", name,
             draw_below(g, 4) ? values[draw_below(g, (int)(sizeof values / sizeof *values))]
                              : number(g, 2));
        g->number[g->nnumbers++] = name;
    }
}

const char *gen_program(Arena *a, uint64_t seed)
{
    Text text = {0};
    Gen *g = NEW(a, Gen);
    *g = (Gen){
        .a = a, .rng = seed * 0x9e3779b97f4a7c15u + 1, .out = &text, .extra = -1, .ordered = -1};
    gen_random(&g->rng);
    g->named = draw_one_in(g, 4);
    g->plain = draw_one_in(g, 3);
    g->weighted = !g->named && draw_one_in(g, 4);
    g->budget = draw_between(g, 10, 90);
    g->blocks = draw_one_in(g, 12) ? 0 : -1;
    draw_dims(g);
    write_dims(g);
    g->extra = add_dim(g, "?", 2); /* what a block is called with beside its own */
    g->dim[g->extra].gone = true;
    write_consts(g);
    for (int n = draw_below(g, 4); n > 0; n--)
        write_block(g);
    if (draw_one_in(g, 3))
        write_attention(g);
    write_model(g);
    write_train(g);
    if (draw_one_in(g, 4))
        write_config(g);
    if (draw_below(g, 4))
        write_layouts(g);
    return text.data;
}
