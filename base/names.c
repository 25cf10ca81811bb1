/* names.c - open-addressed intern table, and the edit distance behind "did you mean". */
#include "base/names.h"

#include <string.h>

struct Names {
    Arena *arena;
    VEC(const char *) strings; /* strings.data[name - 1] */
    VEC(uint64_t) hashes;      /* of these */
    uint32_t *slots;           /* a Name or 0 */
    size_t nslots;             /* a power of two, at least twice the names */
};

static uint64_t hash(const char *s, size_t n)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    return h ^ (h >> 29);
}

Names *names_new(Arena *a)
{
    Names *t = NEW(a, Names);
    t->arena = a;
    t->nslots = 256;
    t->slots = NEW_ARRAY(a, uint32_t, t->nslots);
    return t;
}

static uint32_t *slot_of(const Names *t, uint64_t h, const char *s, size_t n)
{
    for (size_t i = h;; i++) {
        uint32_t *slot = &t->slots[i & (t->nslots - 1)];
        if (!*slot)
            return slot;
        const char *have = t->strings.data[*slot - 1];
        if (t->hashes.data[*slot - 1] == h && strncmp(have, s, n) == 0 && !have[n])
            return slot;
    }
}

Name name_intern_n(Names *t, const char *s, size_t n)
{
    const uint64_t h = hash(s, n);
    uint32_t *slot = slot_of(t, h, s, n);
    if (*slot)
        return *slot;
    if ((t->strings.n + 1) * 2 > t->nslots) {
        t->nslots *= 2;
        t->slots = NEW_ARRAY(t->arena, uint32_t, t->nslots);
        for (size_t i = 0; i < t->strings.n; i++) {
            const char *have = t->strings.data[i];
            *slot_of(t, t->hashes.data[i], have, strlen(have)) = (uint32_t)i + 1;
        }
        slot = slot_of(t, h, s, n);
    }
    vec_push(t->arena, &t->hashes, h);
    vec_push(t->arena, &t->strings, arena_strndup(t->arena, s, n));
    return *slot = (uint32_t)t->strings.n;
}

Name name_intern(Names *t, const char *s)
{
    return name_intern_n(t, s, strlen(s));
}

Name name_find(const Names *t, const char *s)
{
    const size_t n = strlen(s);
    return *slot_of(t, hash(s, n), s, n);
}

const char *name_str(const Names *t, Name n)
{
    return n ? t->strings.data[n - 1] : "";
}

uint32_t name_count(const Names *t)
{
    return (uint32_t)t->strings.n;
}

/* Levenshtein distance, given up (as `limit + 1`) for words too long to be a slip of the pen. */
static size_t distance(const char *a, const char *b, size_t limit)
{
    enum { LONGEST = 63 };
    size_t n = strlen(a), m = strlen(b), row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST)
        return limit + 1;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

const char *name_nearest(const char *word, const char *const *candidates, size_t n)
{
    size_t limit = strlen(word) / 3 + 1, best = limit + 1;
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, candidates[i], limit);
        if (d < best) {
            best = d;
            found = candidates[i];
        }
    }
    return found;
}
