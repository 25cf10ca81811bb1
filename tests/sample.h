/* sample.h - large families of cases are sampled. The environment's MGC_TURN, which scripts/test
 * takes from the commit, turns the sample; MGC_FULL takes every case there is. A test whose sample
 * could be empty, or too small to show anything, counts what it ran. */
#ifndef MGC_TESTS_SAMPLE_H
#define MGC_TESTS_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Cases run several times slower under the sanitizers: fewer of them do. */
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static inline uint64_t sample_turn(void)
{
    const char *turn = getenv("MGC_TURN");
    return turn ? strtoull(turn, NULL, 10) : 0;
}

static inline bool sample_full(void)
{
    return getenv("MGC_FULL") != NULL;
}

/* Is case i of a family in this turn's part, one of so many? Of each `parts` cases that follow each
 * other one is, not always the same of them, and another one in each of `parts` turns. */
static inline bool sampled(uint64_t i, uint64_t parts)
{
    uint64_t x = (i / parts + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return sample_full() || (x % parts + sample_turn()) % parts == i % parts;
}

#endif
