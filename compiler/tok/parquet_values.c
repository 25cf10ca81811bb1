/* parquet_values.c - the encodings of values, each read one value at a time. */
#include "compiler/tok/parquet_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN, RLE = 3, DELTA = 5, DELTA_LENGTH, DELTA_BYTES, DICTIONARY, SPLIT };

int pq_width(uint32_t most)
{
    return most ? 32 - __builtin_clz(most) : 0;
}

static uint64_t bits(const uint8_t *p, uint64_t at, int width)
{
    uint64_t v = 0;
    for (int i = 0; i < width;) {
        int in = (int)((at + (uint64_t)i) & 7), take = 8 - in < width - i ? 8 - in : width - i;
        uint64_t part = (uint64_t)p[(at + (uint64_t)i) >> 3] >> in & ((1u << take) - 1);
        v |= part << i;
        i += take;
    }
    return v;
}

/* ---- runs ---------------------------------------------------------------------------------- */

static bool next_run(PqRuns *r)
{
    PqThrift t = {r->p, r->end, false};
    uint64_t head = pq_varint(&t), n = head >> 1, rest = (uint64_t)(t.end - t.p);
    int bytes = (r->width + 7) / 8;
    if (t.bad || !n || n > UINT32_MAX)
        return false;
    r->packed = head & 1 ? t.p : NULL;
    r->bit = 0;
    if (head & 1) { /* the last one may lack the bytes that nobody needs */
        uint64_t size = n * (uint64_t)r->width;
        r->left = size <= rest ? n * 8 : rest * 8 / (uint64_t)r->width;
        r->p = t.p + (size <= rest ? size : rest);
        return r->left != 0;
    }
    if ((uint64_t)bytes > rest)
        return false;
    r->value = 0;
    for (int i = 0; i < bytes; i++)
        r->value |= (uint32_t)t.p[i] << 8 * i;
    r->left = n;
    r->p = t.p + bytes;
    return true;
}

bool pq_runs(PqRuns *r, uint32_t *value)
{
    if (!r->left && !next_run(r))
        return false;
    r->left--;
    *value = r->value;
    if (r->packed) {
        *value = (uint32_t)bits(r->packed, r->bit, r->width);
        r->bit += (uint64_t)r->width;
    }
    return true;
}

/* ---- deltas -------------------------------------------------------------------------------- */

static bool delta_begin(PqDelta *d, const uint8_t *p, const uint8_t *end)
{
    *d = (PqDelta){.t = {p, end, false}};
    uint64_t block = pq_varint(&d->t), minis = pq_varint(&d->t);
    d->left = pq_varint(&d->t);
    d->value = (uint64_t)pq_zigzag(&d->t);
    if (d->t.bad || !block || block > 1 << 20 || !minis || minis > block || block % minis ||
        block / minis % 8)
        return false;
    d->minis = d->mini = (uint32_t)minis;
    d->each = (uint32_t)(block / minis);
    d->of_mini = d->each;
    return true;
}

static bool next_mini(PqDelta *d)
{
    if (d->mini == d->minis) {
        d->least = (uint64_t)pq_zigzag(&d->t);
        if (d->t.bad || (size_t)(d->t.end - d->t.p) < d->minis)
            return false;
        d->widths = d->t.p;
        d->t.p += d->minis;
        d->mini = 0;
    }
    d->width = d->widths[d->mini++];
    uint64_t size = (uint64_t)d->each / 8 * d->width;
    if (d->width > 64 || size > (uint64_t)(d->t.end - d->t.p))
        return false;
    d->data = d->t.p;
    d->t.p += size;
    d->of_mini = 0;
    return true;
}

static bool delta(PqDelta *d, int64_t *v)
{
    if (!d->left)
        return false;
    if (d->begun) {
        if (d->of_mini == d->each && !next_mini(d))
            return false;
        d->value += d->least + bits(d->data, (uint64_t)d->of_mini++ * d->width, (int)d->width);
    }
    d->begun = true;
    d->left--;
    *v = (int64_t)d->value;
    return true;
}

/* The numbers at `p` are read through once, to find where they end. */
static bool delta_through(PqDelta *d, const uint8_t **p, const uint8_t *end, uint64_t most)
{
    PqDelta through;
    int64_t v;
    if (!delta_begin(d, *p, end) || d->left > most)
        return false;
    for (through = *d; through.left;)
        if (!delta(&through, &v))
            return false;
    *p = through.t.p;
    return true;
}

/* ---- values -------------------------------------------------------------------------------- */

static bool begin(PqColumn *c)
{
    uint64_t n = c->of_page;
    if (c->encoding == DICTIONARY) {
        if (c->p == c->stop) /* of nulls alone */
            c->index = (PqRuns){0};
        else
            c->index = (PqRuns){.p = c->p + 1, .end = c->stop, .width = *c->p};
        return c->index.width <= 32;
    }
    if (c->encoding == RLE) {
        if (c->stop - c->p < 4 || pq_u32(c->p) > (size_t)(c->stop - c->p - 4))
            return false;
        c->index = (PqRuns){.p = c->p + 4, .end = c->p + 4 + pq_u32(c->p), .width = 1};
    }
    if (c->encoding == DELTA)
        return delta_begin(&c->lengths, c->p, c->stop);
    if (c->encoding == DELTA_BYTES && !delta_through(&c->prefixes, &c->p, c->stop, n))
        return false;
    return c->encoding == PLAIN || c->encoding == RLE || c->encoding == SPLIT ||
           delta_through(&c->lengths, &c->p, c->stop, n);
}

bool pq_values_begin(PqColumn *c)
{
    static const char *const name[] = {"PLAIN",
                                       "?",
                                       "?",
                                       "RLE",
                                       "BIT_PACKED",
                                       "DELTA_BINARY_PACKED",
                                       "DELTA_LENGTH_BYTE_ARRAY",
                                       "DELTA_BYTE_ARRAY",
                                       "RLE_DICTIONARY",
                                       "BYTE_STREAM_SPLIT",
                                       "?"};
    int e = c->encoding, type = c->leaf->type;
    char what[96];
    bool whole = type == PQ_INT32 || type == PQ_INT64, bytes = type == PQ_BYTES;
    bool built = e == PLAIN || (e == RLE && type == PQ_BOOLEAN) || (e == DELTA && whole) ||
                 ((e == DELTA_LENGTH || e == DELTA_BYTES) && bytes) || e == DICTIONARY ||
                 (e == SPLIT && !bytes && type != PQ_BOOLEAN);
    snprintf(what, sizeof what, "values that are encoded as %s are not read", name[e]);
    c->bit = c->before_size = 0;
    return built ? begin(c) || pq_column_fail(c, "a page's values are damaged")
                 : pq_column_fail(c, what);
}

static bool take(PqColumn *c, int64_t n, const uint8_t **p)
{
    if (n < 0 || n > c->stop - c->p)
        return pq_column_fail(c, "a page's values are damaged");
    *p = c->p;
    c->p += n;
    return true;
}

bool pq_plain(PqColumn *c, PqValue *v)
{
    static const int size[] = {0, 4, 8, 0, 4, 8, 4};
    const uint8_t *p = NULL;
    *v = (PqValue){0};
    if (c->leaf->type == PQ_BOOLEAN) {
        if ((size_t)(c->stop - c->p) <= c->bit / 8)
            return pq_column_fail(c, "a page's values are damaged");
        v->bits = bits(c->p, c->bit++, 1);
        return true;
    }
    if (!take(c, size[c->leaf->type], &p))
        return false;
    v->bits = pq_u32(p);
    if (size[c->leaf->type] == 8)
        v->bits |= (uint64_t)pq_u32(p + 4) << 32;
    v->n = v->bits;
    return c->leaf->type != PQ_BYTES || take(c, (int64_t)v->n, &v->p);
}

static bool delta_bytes(PqColumn *c, PqValue *v)
{
    int64_t same, n;
    const uint8_t *p = NULL;
    if (!delta(&c->prefixes, &same) || !delta(&c->lengths, &n) || same < 0 ||
        (size_t)same > c->before_size)
        return pq_column_fail(c, "a page's values are damaged");
    if (!take(c, n, &p))
        return false;
    size_t size = (size_t)same + (size_t)n;
    if (size > c->before_cap || !c->before) {
        c->before_cap = 2 * size + 1;
        c->before = realloc(c->before, c->before_cap);
        if (!c->before)
            abort();
    }
    if (n)
        memcpy(c->before + same, p, (size_t)n);
    c->before_size = size;
    *v = (PqValue){.p = c->before, .n = size};
    return true;
}

/* The first bytes of all values, then their second bytes, and so on. */
static bool split(PqColumn *c, PqValue *v)
{
    size_t width = c->leaf->type == PQ_INT32 || c->leaf->type == PQ_FLOAT ? 4 : 8;
    size_t n = (size_t)(c->stop - c->p) / width;
    if (c->bit == n)
        return pq_column_fail(c, "a page's values are damaged");
    for (size_t i = 0; i < width; i++)
        v->bits |= (uint64_t)c->p[i * n + c->bit] << 8 * i;
    c->bit++;
    return true;
}

bool pq_value(PqColumn *c, PqValue *v)
{
    int64_t n;
    uint32_t index;
    *v = (PqValue){0};
    switch (c->encoding) {
    case PLAIN:
        return pq_plain(c, v);
    case DELTA_BYTES:
        return delta_bytes(c, v);
    case SPLIT:
        return split(c, v);
    case DICTIONARY:
        if (!pq_runs(&c->index, &index) || index >= c->entries)
            return pq_column_fail(c, "a value is not in the dictionary: the file is damaged");
        *v = c->entry[index];
        return true;
    case RLE:
        if (!pq_runs(&c->index, &index))
            return pq_column_fail(c, "a page's values are damaged");
        v->bits = index;
        return true;
    default:
        if (!delta(&c->lengths, &n))
            return pq_column_fail(c, "a page's values are damaged");
        v->bits = (uint64_t)n;
        v->n = (size_t)n;
        return c->encoding == DELTA || take(c, n, &v->p);
    }
}
