/* shuffle.c - a permutation of [0, n) that is computed, not stored.
 *
 * A balanced Feistel network permutes [0, 4^h), with the least such power that is at least n. A
 * result outside [0, n) goes through the network again until it is inside (cycle walking, Black and
 * Rogaway 2002), on average fewer than four times. The place of a window in an epoch is therefore a
 * pure function of (seed, epoch, index): a resumed run needs one number and no state. */
#include "runtime/run.h"

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection that mixes all bits. */
uint64_t rt_mix64(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t rt_permute(uint64_t key, uint64_t n, uint64_t i)
{
    enum { ROUNDS = 6 };
    if (n <= 1)
        return 0;
    int half = 1;
    while (half < 32 && (n - 1) >> (2 * half))
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ (rt_mix64(key ^ rt_mix64(right << 8 | round)) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}
