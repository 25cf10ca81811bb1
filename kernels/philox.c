/* philox.c - computes single blocks of Philox4x32-10, and the keys of names; see random.c. */
#include "runtime/abi.h"
#include "runtime/half.h"

#include <string.h>

void mg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4], k0 = key[0], k1 = key[1];
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        mg_philox_round(c, k0, k1);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    memcpy(out, c, sizeof c);
}

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
uint64_t mg_key(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}
