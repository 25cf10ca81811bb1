/* siphash.c - SipHash-2-4; see siphash.h. Words are read and written in little-endian order on
 * any machine. */
#include "runtime/net/siphash.h"

enum { WORD = 8, C_ROUNDS = 2, D_ROUNDS = 4 };

static uint64_t word_at(const uint8_t *p, size_t bytes)
{
    uint64_t w = 0;
    for (size_t i = 0; i < bytes; i++)
        w |= (uint64_t)p[i] << 8 * i;
    return w;
}

static void put_word(uint8_t *p, uint64_t w)
{
    for (int i = 0; i < WORD; i++)
        p[i] = (uint8_t)(w >> 8 * i);
}

static uint64_t turned(uint64_t w, int bits)
{
    return w << bits | w >> (64 - bits);
}

static void rounds(uint64_t v[4], int n)
{
    while (n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = turned(v[1], 13) ^ v[0];
        v[3] = turned(v[3], 16) ^ v[2];
        v[0] = turned(v[0], 32) + v[3];
        v[2] += v[1];
        v[3] = turned(v[3], 21) ^ v[0];
        v[1] = turned(v[1], 17) ^ v[2];
        v[2] = turned(v[2], 32);
    }
}

static void take_in(uint64_t v[4], uint64_t w)
{
    v[3] ^= w;
    rounds(v, C_ROUNDS);
    v[0] ^= w;
}

void rt_siphash(const uint8_t key[RT_KEY_BYTES], const void *text, size_t bytes,
                uint8_t mac[RT_MAC_BYTES])
{
    const uint8_t *p = text;
    uint64_t k0 = word_at(key, WORD), k1 = word_at(key + WORD, WORD);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
                     k1 ^ 0x7465646279746573};
    size_t at = 0;
    v[1] ^= 0xee; /* 128 bits */
    for (; at + WORD <= bytes; at += WORD)
        take_in(v, word_at(p + at, WORD));
    take_in(v, word_at(p + at, bytes - at) | (uint64_t)bytes << 56);
    v[2] ^= 0xee;
    rounds(v, D_ROUNDS);
    put_word(mac, v[0] ^ v[1] ^ v[2] ^ v[3]);
    v[1] ^= 0xdd;
    rounds(v, D_ROUNDS);
    put_word(mac + WORD, v[0] ^ v[1] ^ v[2] ^ v[3]);
}

bool rt_same_mac(const uint8_t a[RT_MAC_BYTES], const uint8_t b[RT_MAC_BYTES])
{
    volatile uint8_t differ = 0;
    for (int i = 0; i < RT_MAC_BYTES; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}
