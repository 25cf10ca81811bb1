/* gguf_write.c - the file itself: metadata, the list of tensors, their bytes. */
#include "compiler/gguf/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, Q8_BYTES = 34, VERSION = 3 };

/* Types of metadata. */
enum { TYPE_u32 = 4, TYPE_i32 = 5, TYPE_f32 = 6, TYPE_flag = 7, TYPE_text = 8, TYPE_list = 9 };

static void put(FILE *out, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        putc((int)(v >> (8 * i) & 255), out);
}

void gguf_put_u32(FILE *out, uint32_t v)
{
    put(out, v, 4);
}

void gguf_put_u64(FILE *out, uint64_t v)
{
    put(out, v, 8);
}

void gguf_put_f32(FILE *out, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    put(out, bits, 4);
}

void gguf_put_text(FILE *out, const char *v, size_t n)
{
    put(out, n, 8);
    fwrite(v, 1, n, out);
}

static void put_key(Gguf *g, const char *key, uint32_t type)
{
    const char *all = *key == '.' ? arena_printf(g->s->arena, "%s%s", g->arch, key) : key;
    gguf_put_text(g->meta, all, strlen(all));
    gguf_put_u32(g->meta, type);
    g->keys++;
}

void gguf_u32(Gguf *g, const char *key, int64_t v)
{
    put_key(g, key, TYPE_u32);
    gguf_put_u32(g->meta, (uint32_t)v);
}

void gguf_f32(Gguf *g, const char *key, double v)
{
    put_key(g, key, TYPE_f32);
    gguf_put_f32(g->meta, (float)v);
}

void gguf_flag(Gguf *g, const char *key, bool v)
{
    put_key(g, key, TYPE_flag);
    put(g->meta, v, 1);
}

void gguf_text(Gguf *g, const char *key, const char *v)
{
    put_key(g, key, TYPE_text);
    gguf_put_text(g->meta, v, strlen(v));
}

void gguf_list(Gguf *g, const char *key, const char *of, uint64_t n)
{
    put_key(g, key, TYPE_list);
    gguf_put_u32(g->meta, !strcmp(of, "text")  ? TYPE_text
                          : !strcmp(of, "f32") ? TYPE_f32
                                               : TYPE_i32);
    gguf_put_u64(g->meta, n);
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* To the nearest, ties to even; what is beyond the largest becomes an infinity. */
static uint16_t to_f16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    const uint32_t sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
    if (x > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (x >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (x < 0x38800000) { /* a subnormal: its last bit is 2^-24 */
        float magnitude;
        memcpy(&magnitude, &x, 4);
        return (uint16_t)(sign | (uint32_t)rintf(magnitude * 0x1p24f));
    }
    return (uint16_t)(sign | ((x - 0x38000000 + 0xfff + (x >> 13 & 1)) >> 13));
}

static uint16_t to_bf16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* 32 numbers: the scale as f16, then what is to be multiplied by it, from -127 to 127. */
static void encode_q8(const float *v, unsigned char *out)
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++)
        most = fabsf(v[i]) > most ? fabsf(v[i]) : most;
    const float scale = most / 127, inverse = scale != 0 ? 1 / scale : 0;
    const uint16_t half = to_f16(scale);
    memcpy(out, &half, 2);
    for (int i = 0; i < BLOCK; i++)
        out[2 + i] = (unsigned char)(int)roundf(v[i] * inverse);
}

/* True if the type cannot hold a number of the row. */
static bool too_large(GgufType type, const float *v, int64_t n)
{
    const float most = type == GGUF_f16 ? 65504.0F : type == GGUF_q8_0 ? 127 * 65504.0F : INFINITY;
    bool bad = false;
    for (int64_t i = 0; i < n; i++)
        bad |= !(fabsf(v[i]) <= most);
    return bad && type != GGUF_f32 && type != GGUF_bf16;
}

static uint64_t bytes_of(GgufType type, int64_t n)
{
    return (uint64_t)(type == GGUF_f32 ? 4 * n : type == GGUF_q8_0 ? n / BLOCK * Q8_BYTES : 2 * n);
}

/* `buffer` takes 4 n bytes. */
static void put_row(FILE *out, GgufType type, const float *v, int64_t n, void *buffer)
{
    for (int64_t i = 0; i < n && type == GGUF_q8_0; i += BLOCK)
        encode_q8(v + i, (unsigned char *)buffer + i / BLOCK * Q8_BYTES);
    for (int64_t i = 0; i < n && (type == GGUF_f16 || type == GGUF_bf16); i++)
        ((uint16_t *)buffer)[i] = type == GGUF_f16 ? to_f16(v[i]) : to_bf16(v[i]);
    fwrite(type == GGUF_f32 ? v : buffer, 1, bytes_of(type, n), out);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static int64_t elements(const GgufTensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

static uint64_t aligned(uint64_t n)
{
    return (n + GGUF_ALIGN - 1) / GGUF_ALIGN * GGUF_ALIGN;
}

static void pad(FILE *out, uint64_t n)
{
    for (; n % GGUF_ALIGN; n++)
        putc(0, out);
}

/* The row of the source that row r of the file is: a head's rows of its two halves take turns. */
static int64_t row_of(const GgufTensor *t, int64_t r)
{
    const int64_t d = t->turned, at = d ? r % d : 0;
    return d ? r - at + at % 2 * (d / 2) + at / 2 : r;
}

/* Rows of a vector are its elements where they take turns, else it is one row. */
static bool put_tensor(Gguf *g, const GgufTensor *t, FILE *out)
{
    const int64_t row = t->rank > 1 ? t->shape[t->rank - 1] : t->turned ? 1 : t->shape[0];
    const int64_t rows = elements(t) / row, each = t->part ? rows / t->parts : rows;
    float *v = calloc((size_t)row, sizeof *v);
    void *buffer = calloc((size_t)row, 8);
    bool good = v && buffer;
    for (int64_t r = 0; good && r < rows; r++) {
        const GgufSource *from = t->part ? t->part[r / each] : t->source;
        good = gguf_read(g, from, row_of(t, r % each) * row, row, buffer, v);
        for (int64_t i = 0; good && t->from_one && i < row; i++)
            v[i] += 1;
        if (good && too_large(t->type, v, row))
            good =
                gguf_refuse(g, 612, "%s has a number that %s cannot hold; --type f32 or bf16 can",
                            from->name, t->type == GGUF_f16 ? "f16" : "q8_0");
        if (good)
            put_row(out, t->type, v, row, buffer);
    }
    free(v);
    free(buffer);
    return good;
}

static void put_head(Gguf *g, FILE *out)
{
    uint64_t at = 0;
    fwrite("GGUF", 1, 4, out);
    gguf_put_u32(out, VERSION);
    gguf_put_u64(out, g->tensor.n);
    gguf_put_u64(out, g->keys);
    fwrite(g->meta_text, 1, g->meta_size, out);
    for (size_t i = 0; i < g->tensor.n; i++) {
        GgufTensor *t = &g->tensor.data[i];
        gguf_put_text(out, t->name, strlen(t->name));
        gguf_put_u32(out, (uint32_t)t->rank);
        for (int d = t->rank - 1; d >= 0; d--)
            gguf_put_u64(out, (uint64_t)t->shape[d]);
        gguf_put_u32(out, t->type);
        gguf_put_u64(out, t->offset = at);
        at += aligned(bytes_of(t->type, elements(t)));
    }
}

bool gguf_write(Gguf *g, FILE *out)
{
    bool good = true;
    put_head(g, out);
    uint64_t head = 24 + g->meta_size;
    for (size_t i = 0; i < g->tensor.n; i++)
        head += 8 + strlen(g->tensor.data[i].name) + 4 + 8 * (uint64_t)g->tensor.data[i].rank + 12;
    pad(out, head);
    for (size_t i = 0; good && i < g->tensor.n; i++) {
        const GgufTensor *t = &g->tensor.data[i];
        if (t->source)
            good = put_tensor(g, t, out);
        else
            put_row(out, t->type, t->values, elements(t), NULL);
        pad(out, bytes_of(t->type, elements(t)));
    }
    return good;
}
