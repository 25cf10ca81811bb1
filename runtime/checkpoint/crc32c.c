/* crc32c.c - computes CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) for checkpoints and
 * event files: with the processor's instruction if it has one, else a byte at a time from a
 * table. */
#include "runtime/run.h"

#include <string.h>

#define POLYNOMIAL 0x82F63B78u

static uint32_t by_table(uint32_t c, const uint8_t *b, size_t n)
{
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t x = i;
        for (int k = 0; k < 8; k++)
            x = (x >> 1) ^ (POLYNOMIAL & -(x & 1));
        table[i] = x;
    }
    while (n--)
        c = (c >> 8) ^ table[(c ^ *b++) & 0xFF];
    return c;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t c, const uint8_t *b,
                                                                 size_t n)
{
    uint64_t c64 = c;
    for (; n >= 8; n -= 8, b += 8) {
        uint64_t word;
        memcpy(&word, b, 8);
        c64 = __builtin_ia32_crc32di(c64, word);
    }
    c = (uint32_t)c64;
    while (n--)
        c = __builtin_ia32_crc32qi(c, *b++);
    return c;
}
#endif

uint32_t rt_crc32c(uint32_t crc, const void *p, size_t n)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~by_instruction(~crc, p, n);
#endif
    return ~by_table(~crc, p, n);
}
