/* memo.h - results of functions that depend on nothing but their arguments, remembered as long as
 * the program runs: by all its processes (base/parallel.h) for each other.
 *
 * Memory saves time and changes no result: whoever does not find a result computes the same.
 * So no lock is needed, and it does no harm that nothing is remembered once there is no room. */
#ifndef MGC_BASE_MEMO_H
#define MGC_BASE_MEMO_H

#include <stddef.h>
#include <stdint.h>

/* All that a result depends on, as numbers; the first says whose result it is. Results are found by
 * equal keys, word for word. */
typedef struct MemoKey {
    const uint64_t *words;
    size_t n;
} MemoKey;

/* The bytes that were kept with a key, aligned as for any type; NULL: none are. */
const void *memo_find(MemoKey key, size_t *n);
/* Keeps a copy of the key and of n bytes, if there is room for them. */
void memo_keep(MemoKey key, const void *bytes, size_t n);

/* Before a process begins another: what one of them keeps the other finds. */
void memo_share(void);

#endif
