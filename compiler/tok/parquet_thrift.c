/* parquet_thrift.c - Thrift's compact protocol, in which Parquet writes what it says of itself. */
#include "compiler/tok/parquet_parts.h"

static uint8_t byte(PqThrift *t)
{
    if (t->p == t->end)
        t->bad = true;
    return t->bad ? 0 : *t->p++;
}

uint64_t pq_varint(PqThrift *t)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t b = byte(t);
        v |= (uint64_t)(b & 127) << shift;
        if (!(b & 128))
            return v;
    }
    t->bad = true;
    return 0;
}

int64_t pq_zigzag(PqThrift *t)
{
    uint64_t v = pq_varint(t);
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

int pq_field(PqThrift *t, int *id)
{
    uint8_t b = byte(t);
    if (!b || t->bad)
        return 0;
    int64_t given = b >> 4 ? *id + (b >> 4) : pq_zigzag(t);
    if (given < 0 || given > INT16_MAX)
        t->bad = true;
    *id = t->bad ? 0 : (int)given;
    return t->bad ? 0 : b & 15;
}

int64_t pq_number(PqThrift *t, int type)
{
    if (type == THRIFT_true || type == THRIFT_false)
        return type == THRIFT_true;
    if (type == THRIFT_byte)
        return (int8_t)byte(t);
    if (type >= THRIFT_byte && type <= THRIFT_i64)
        return pq_zigzag(t);
    pq_skip(t, type, 0);
    return 0;
}

/* The number of items; every item takes at least a byte. */
size_t pq_list(PqThrift *t, int type, int of)
{
    if (type != THRIFT_list) {
        t->bad = true;
        return 0;
    }
    uint8_t b = byte(t);
    uint64_t n = b >> 4 == 15 ? pq_varint(t) : b >> 4;
    if ((n && (b & 15) != of) || n > (uint64_t)(t->end - t->p))
        t->bad = true;
    return t->bad ? 0 : (size_t)n;
}

static void skip_bytes(PqThrift *t, uint64_t n)
{
    if (n > (uint64_t)(t->end - t->p))
        t->bad = true;
    else
        t->p += n;
}

static void skip_items(PqThrift *t, uint64_t n, int a, int b, int depth)
{
    for (; n && !t->bad; n--)
        for (int i = 0; i < 2; i++) {
            int type = i ? b : a;
            if (type == THRIFT_true || type == THRIFT_false)
                byte(t); /* in a list they are bytes */
            else if (type)
                pq_skip(t, type, depth);
        }
}

static void skip_list(PqThrift *t, int depth)
{
    uint8_t b = byte(t);
    uint64_t n = b >> 4 == 15 ? pq_varint(t) : b >> 4;
    if (n && !(b & 15))
        t->bad = true;
    skip_items(t, n, b & 15, 0, depth + 1);
}

static void skip_map(PqThrift *t, int depth)
{
    uint64_t n = pq_varint(t);
    uint8_t b = n ? byte(t) : 0;
    if (n && (!(b >> 4) || !(b & 15)))
        t->bad = true;
    skip_items(t, n, b >> 4, b & 15, depth + 1);
}

void pq_skip(PqThrift *t, int type, int depth)
{
    int id = 0, inner;
    if (depth > PQ_DEPTH || type < THRIFT_true || type > THRIFT_struct)
        t->bad = true;
    if (t->bad || type <= THRIFT_false)
        return;
    if (type == THRIFT_byte)
        byte(t);
    else if (type <= THRIFT_i64)
        pq_varint(t);
    else if (type == THRIFT_double)
        skip_bytes(t, 8);
    else if (type == THRIFT_binary)
        skip_bytes(t, pq_varint(t));
    else if (type == THRIFT_list || type == THRIFT_set)
        skip_list(t, depth);
    else if (type == THRIFT_map)
        skip_map(t, depth);
    else
        while ((inner = pq_field(t, &id)))
            pq_skip(t, inner, depth + 1);
}
