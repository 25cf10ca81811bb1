/* pack_memo.c - the same items are packed once; see pack.h.
 *
 * Plans that are compared differ in what is fetched from where, or in what is updated how, more
 * often than in what is alive when. Then their items are the same, to the byte. */
#include "base/memo.h"
#include "plan/place/pack.h"

#include <string.h>

enum { KIND_OF_KEY = 0x7061636b, HEAD = 4, EACH = 3 };

/* All that offsets depend on; of items' numbers only their order, which is theirs. */
static MemoKey key_of(const Item *item, size_t n, int64_t least, int64_t enough, Arena *a)
{
    uint64_t *words = NEW_ARRAY(a, uint64_t, HEAD + EACH * n), *next = words + HEAD;
    memcpy(words, (const uint64_t[HEAD]){KIND_OF_KEY, n, (uint64_t)least, (uint64_t)enough},
           HEAD * sizeof *words);
    for (size_t k = 0; k < n; k++, next += EACH) {
        const Item *i = &item[k];
        next[0] = (uint64_t)(uint32_t)i->first << 32 | (uint32_t)i->last;
        next[1] = (uint64_t)i->at << 32 | (uint64_t)i->phase << 1 | i->at_peak;
        next[2] = (uint64_t)i->bytes;
    }
    return (MemoKey){words, HEAD + EACH * n};
}

/* Kept: the end of the highest item, then all offsets. */
int64_t pack_remembered(Item *item, size_t n, int64_t least, int64_t enough, Arena *a)
{
    size_t bytes;
    const MemoKey key = key_of(item, n, least, enough, a);
    const int64_t *known = memo_find(key, &bytes);
    if (!known) {
        int64_t *found = NEW_ARRAY(a, int64_t, n + 1);
        found[0] = pack_items(item, n, least, enough, a);
        for (size_t k = 0; k < n; k++)
            found[k + 1] = item[k].offset;
        memo_keep(key, found, (n + 1) * sizeof *found);
        return found[0];
    }
    for (size_t k = 0; k < n; k++)
        item[k].offset = known[k + 1];
    return known[0];
}
