/* tfevents.c - writes TensorBoard's event records, without protobuf.
 *
 * record = u64 length | u32 mask(crc of the length) | data | u32 mask(crc of the data)
 * Event  = 1: wall time (double)  2: step (varint)  3: "brain.Event:2"  5: Summary  7: SessionLog
 * Summary = 1: Value { 1: tag, 2: float };  SessionLog = 1: status, 1 for "start": events that an
 * earlier process logged at or after that step are void. */
#include "runtime/run.h"

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
