/* crc32c_parts.c - the CRC-32C of a file from those of its parts, which others computed, in any
 * order.
 *
 * A CRC is a remainder of polynomials over GF(2), so it is linear: the register that began with 0
 * and ran over a file is the sum (exclusive or) of the registers that ran over each part with zeros
 * everywhere else. Zeros before a part change nothing, and each byte of zeros behind it multiplies
 * by x^8. So each rank adds up one number of what it wrote. */
#include "runtime/checkpoint/crc32c_parts.h"

#include "runtime/run.h"

#define POLYNOMIAL 0x82F63B78u /* without x^32; bit 31 is the coefficient of x^0 */

/* a b modulo the polynomial. */
static uint32_t product(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        sum ^= a & bit ? b : 0;
        b = (b >> 1) ^ (POLYNOMIAL & -(b & 1));
    }
    return sum;
}

/* x^(8 bytes) modulo the polynomial. */
static uint32_t power(int64_t bytes)
{
    uint32_t result = 1u << 31, square = 1u << 23; /* 1, x^8 */
    for (; bytes; bytes >>= 1) {
        if (bytes & 1)
            result = product(result, square);
        square = product(square, square);
    }
    return result;
}

uint32_t rt_crc32c_part(const void *p, size_t n, int64_t behind)
{
    /* rt_crc32c inverts the register before and after. */
    return product(~rt_crc32c(~0u, p, n), power(behind));
}

uint32_t rt_crc32c_whole(uint32_t parts, int64_t bytes)
{
    return ~(parts ^ product(~0u, power(bytes)));
}
