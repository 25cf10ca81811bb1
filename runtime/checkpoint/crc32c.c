/* crc32c.c - computes CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) for checkpoints and
 * event files: with the processor's instruction if it has one, else a byte at a time from a
 * table. */
#include "runtime/run.h"

#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

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

#if defined(__x86_64__)
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
#elif defined(__aarch64__)
__attribute__((target("+crc"))) static uint32_t by_instruction(uint32_t c, const uint8_t *b,
                                                               size_t n)
{
    for (; n >= 8; n -= 8, b += 8) {
        uint64_t word;
        memcpy(&word, b, 8);
        c = __builtin_aarch64_crc32cx(c, word);
    }
    while (n--)
        c = __builtin_aarch64_crc32cb(c, *b++);
    return c;
}
#else
#define by_instruction by_table
#endif

static bool has_instruction(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2");
#elif defined(__aarch64__)
    return getauxval(AT_HWCAP) & HWCAP_CRC32;
#else
    return false;
#endif
}

uint32_t rt_crc32c(uint32_t crc, const void *p, size_t n)
{
    if (has_instruction())
        return ~by_instruction(~crc, p, n);
    return ~by_table(~crc, p, n);
}
