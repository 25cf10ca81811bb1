/* fake_kernels.c - what the runtime needs of kernels/, for a build without that folder. */
#include "runtime/abi.h"

const char *mg_blas_open(void)
{
    return NULL;
}

const char *mg_blas_name(void)
{
    return "none";
}

uint64_t mg_key(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    while (*name)
        h = (h ^ (unsigned char)*name++) * 0x100000001b3u;
    return h;
}

void mg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int i = 0; i < 10; i++) {
        uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
        uint32_t n[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                         (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        for (int j = 0; j < 4; j++)
            c[j] = n[j];
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int j = 0; j < 4; j++)
        out[j] = c[j];
}
