/* parquet_codec.c - pages unpacked. Snappy is so small a format that its decoder is here. */
#include "compiler/tok/parquet_parts.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* How many bytes the element's length or distance takes, read from `from`; false at its end. */
static bool little(const uint8_t **from, const uint8_t *end, int bytes, size_t *v)
{
    if (end - *from < bytes)
        return false;
    *v = 0;
    for (int i = 0; i < bytes; i++)
        *v |= (size_t)*(*from)++ << 8 * i;
    return true;
}

/* An element of a tag: bytes that follow (no distance), or a copy from `back` bytes ago. */
static bool element(const uint8_t **from, const uint8_t *end, size_t *n, size_t *back)
{
    uint8_t tag = *(*from)++;
    size_t v;
    *back = 0;
    *n = (size_t)(tag >> 2) + 1;
    if (!(tag & 3)) {
        if (tag >> 2 < 60)
            return true;
        if (!little(from, end, (tag >> 2) - 59, &v))
            return false;
        *n = v + 1;
        return true;
    }
    if (!little(from, end, (tag & 3) == 3 ? 4 : tag & 3, &v))
        return false;
    if ((tag & 3) == 1) {
        *n = (size_t)(tag >> 2 & 7) + 4;
        v |= (size_t)(tag >> 5) << 8;
    }
    *back = v;
    return v != 0;
}

static bool snappy(const uint8_t *from, size_t size, uint8_t *to, size_t room)
{
    PqThrift t = {from, from + size, false}; /* the length is such a number too */
    const uint8_t *end = from + size;
    size_t at = 0, n, back;
    if (pq_varint(&t) != room || t.bad)
        return false;
    for (from = t.p; from < end; at += n) {
        if (!element(&from, end, &n, &back) || n > room - at || back > at)
            return false;
        if (back) {
            for (size_t i = 0; i < n; i++)
                to[at + i] = to[at + i - back];
            continue;
        }
        if (n > (size_t)(end - from))
            return false;
        memcpy(to + at, from, n);
        from += n;
    }
    return at == room;
}

static bool gunzip(const uint8_t *from, size_t n, uint8_t *to, size_t room)
{
    z_stream z = {.next_in = (Bytef *)from, .avail_in = (uInt)n};
    z.next_out = to;
    z.avail_out = (uInt)room;
    if (inflateInit2(&z, 15 + 32) != Z_OK)
        return false;
    int got = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return got == Z_STREAM_END && z.total_out == room;
}

bool pq_unpack(int codec, const uint8_t *from, size_t n, uint8_t *to, size_t room)
{
    if (codec == 0 && n == room && n)
        memcpy(to, from, n);
    return codec == 0   ? n == room
           : codec == 1 ? snappy(from, n, to, room)
           : codec == 2 ? gunzip(from, n, to, room)
                        : ZSTD_decompress(to, room, from, n) == room;
}
