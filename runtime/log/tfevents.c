/* tfevents.c - writes TensorBoard's event records, without protobuf.
 *
 * record = u64 length | u32 mask(crc of the length) | data | u32 mask(crc of the data)
 * Event  = 1: wall time (double)  2: step (varint)  3: "brain.Event:2"  5: Summary  7: SessionLog
 * Summary = 1: Value { 1: tag, 2: float }, or of a text { 1: tag, 8: Tensor { 1: type, 7 of
 * strings, 2: Shape { 2: Dim { 1: size } }, 8: string }, 9: Metadata { 1: Plugin { 1: "text" } } };
 * SessionLog = 1: status, 1 for "start": events that an earlier process logged at or after that
 * step are void. */
#include "runtime/log/history.h"
#include "runtime/run.h"

#include <stdlib.h>
#include <string.h>

static uint32_t masked_crc(const void *p, size_t n)
{
    uint32_t c = rt_crc32c(0, p, n);
    return ((c >> 15) | (c << 17)) + 0xa282ead8u;
}

static uint8_t *put_little(uint8_t *o, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *o++ = (uint8_t)(v >> (8 * i));
    return o;
}

static uint8_t *put_varint(uint8_t *o, uint64_t v)
{
    do
        *o++ = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
    while (v >>= 7);
    return o;
}

static uint8_t *put_bytes(uint8_t *o, const void *p, size_t n)
{
    memcpy(o, p, n);
    return o + n;
}

/* Writes the wall time and, unless it is 0, the step. */
static uint8_t *begin_event(uint8_t *o, double wall_time, int64_t step)
{
    uint64_t bits;
    memcpy(&bits, &wall_time, 8);
    *o++ = 1 << 3 | 1;
    o = put_little(o, bits, 8);
    if (step) {
        *o++ = 2 << 3;
        o = put_varint(o, (uint64_t)step);
    }
    return o;
}

/* Completes a record whose data begin 12 bytes into it; returns its size. */
static size_t close_record(uint8_t *record, const uint8_t *end)
{
    size_t n = (size_t)(end - record) - 12;
    put_little(record, n, 8);
    put_little(record + 8, masked_crc(record, 8), 4);
    put_little(record + 12 + n, masked_crc(record + 12, n), 4);
    return n + 16;
}

size_t rt_tf_header(uint8_t out[64], double wall_time)
{
    uint8_t *o = begin_event(out + 12, wall_time, 0);
    *o++ = 3 << 3 | 2;
    *o++ = 13;
    return close_record(out, put_bytes(o, "brain.Event:2", 13));
}

size_t rt_tf_scalar(uint8_t out[256], double wall_time, int64_t step, const char *tag, float x)
{
    uint8_t *o = begin_event(out + 12, wall_time, step);
    uint8_t n =
        (uint8_t)strlen(tag); /* tags of log.c are shorter than 100 bytes: a name has at most 64 */
    uint32_t bits;
    memcpy(&bits, &x, 4);
    *o++ = 5 << 3 | 2;
    *o++ = n + 9;
    *o++ = 1 << 3 | 2;
    *o++ = n + 7;
    *o++ = 1 << 3 | 2;
    *o++ = n;
    o = put_bytes(o, tag, n);
    *o++ = 2 << 3 | 5;
    return close_record(out, put_little(o, bits, 4));
}

size_t rt_tf_start(uint8_t out[64], double wall_time, int64_t step)
{
    uint8_t *o = begin_event(out + 12, wall_time, step);
    *o++ = 7 << 3 | 2;
    *o++ = 2;
    *o++ = 1 << 3;
    *o++ = 1;
    return close_record(out, o);
}

static uint8_t *put_field(uint8_t *o, int number, const void *p, size_t n)
{
    *o++ = (uint8_t)(number << 3 | 2);
    return put_bytes(put_varint(o, n), p, n);
}

uint8_t *rt_tf_text(double wall_time, int64_t step, const char *tag, const char *text, size_t *size)
{
    static const uint8_t shape[] = {2 << 3 | 2, 2, 1 << 3, 1};
    static const uint8_t metadata[] = {1 << 3 | 2, 6, 1 << 3 | 2, 4, 't', 'e', 'x', 't'};
    const size_t n = strlen(text), room = n + strlen(tag) + 128;
    uint8_t *tensor = rt_alloc(room, 1), *value = rt_alloc(room, 1), *summary = rt_alloc(room, 1),
            *record = rt_alloc(room, 1), *o = tensor;
    *o++ = 1 << 3;
    *o++ = 7;
    o = put_field(o, 2, shape, sizeof shape);
    o = put_field(o, 8, text, n);
    uint8_t *v = put_field(value, 1, tag, strlen(tag));
    v = put_field(v, 8, tensor, (size_t)(o - tensor));
    v = put_field(v, 9, metadata, sizeof metadata);
    uint8_t *s = put_field(summary, 1, value, (size_t)(v - value));
    uint8_t *end = begin_event(record + 12, wall_time, step);
    end = put_field(end, 5, summary, (size_t)(s - summary));
    *size = close_record(record, end);
    free(tensor);
    free(value);
    free(summary);
    return record;
}
