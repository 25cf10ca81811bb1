/* memo.h - results of functions that depend on nothing but their arguments, remembered as long as
 * the program runs: by all its processes (base/parallel.h) for each other.
 *
 * Memory saves time and changes no result: whoever does not find a result computes the same.
 * So no lock is needed, and it does no harm that nothing is remembered once there is no room. */
#ifndef MGC_BASE_MEMO_H
#define MGC_BASE_MEMO_H

#include <stddef.h>
#include <stdint.h>

/* Arguments as 128 bits: two that differ have the same by no chance that
 * counts. */
typedef struct Digest {
    uint64_t half[2];
} Digest;

Digest memo_digest(const uint64_t *words, size_t n);

/* The bytes that were kept with a key, aligned as for any type; NULL: none are. */
const void *memo_find(Digest key, size_t *n);
/* Keeps a copy of n bytes, if there is room for it. */
void memo_keep(Digest key, const void *bytes, size_t n);

/* Before a process begins another: what one of them keeps the other finds. */
void memo_share(void);

#endif
