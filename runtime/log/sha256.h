/* sha256.h - SHA-256 (FIPS 180-4), which anyone can compute again with sha256sum. */
#ifndef MG_SHA256_H
#define MG_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct rt_sha256 {
    uint32_t h[8];
    uint64_t bytes;
    uint8_t block[64];
} rt_sha256;

void rt_sha256_begin(rt_sha256 *s);
void rt_sha256_add(rt_sha256 *s, const void *p, size_t n);
void rt_sha256_end(rt_sha256 *s, char hex[65]);

#endif
