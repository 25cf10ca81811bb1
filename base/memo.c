/* memo.c - a table in memory that processes share: lists of entries, to which each may add at the
 * front; no entry changes once it is in one. See memo.h. */
#include "base/memo.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { LISTS = 1 << 12, GRAIN = 16 };
static const uint64_t ROOM = (uint64_t)64 << 20; /* bytes, of which pages are taken as needed */

typedef struct Entry {
    Digest key;
    uint64_t next; /* grains from the table's begin; 0: none */
    uint64_t n;    /* bytes, which follow */
} Entry;

typedef struct Table {
    _Atomic uint64_t used; /* bytes, lists included */
    _Atomic uint64_t list[LISTS];
} Table;

_Static_assert(sizeof(Entry) % GRAIN == 0, "what follows is aligned");

static Table *_Atomic shared;

/* The table; NULL: there is no memory for it. */
static Table *table(void)
{
    Table *t = shared, *none = NULL;
    if (t)
        return t;
    t = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t == MAP_FAILED)
        return NULL;
    t->used = (sizeof *t + GRAIN - 1) / GRAIN * GRAIN;
    if (atomic_compare_exchange_strong(&shared, &none, t))
        return t;
    munmap(t, ROOM);
    return none;
}

void memo_share(void)
{
    table();
}

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdU;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53U;
    return x ^ x >> 33;
}

Digest memo_digest(const uint64_t *words, size_t n)
{
    uint64_t a = mixed(n + 1), b = mixed(~(uint64_t)n);
    for (size_t k = 0; k < n; k++) {
        a = mixed(a ^ words[k]) + b;
        b = (b << 27 | b >> 37) * 0x9e3779b97f4a7c15U + mixed(words[k] + k);
    }
    return (Digest){{mixed(a ^ b << 1), mixed(b + a)}};
}

static Entry *entry_at(Table *t, uint64_t grains)
{
    return (Entry *)((unsigned char *)t + grains * GRAIN);
}

static _Atomic uint64_t *list_of(Table *t, Digest key)
{
    return &t->list[key.half[0] % LISTS];
}

const void *memo_find(Digest key, size_t *n)
{
    Table *t = table();
    if (!t)
        return NULL;
    for (uint64_t at = atomic_load(list_of(t, key)); at; at = entry_at(t, at)->next) {
        const Entry *e = entry_at(t, at);
        if (memcmp(&e->key, &key, sizeof key) != 0)
            continue;
        *n = e->n;
        return e + 1;
    }
    return NULL;
}

void memo_keep(Digest key, const void *bytes, size_t n)
{
    Table *t = table();
    if (!t || n > ROOM / 2 || atomic_load(&t->used) + sizeof(Entry) + n + GRAIN > ROOM)
        return;
    const uint64_t all = (sizeof(Entry) + n + GRAIN - 1) / GRAIN * GRAIN;
    const uint64_t at = atomic_fetch_add(&t->used, all);
    if (at + all > ROOM)
        return;
    Entry *e = entry_at(t, at / GRAIN);
    *e = (Entry){.key = key, .n = n};
    if (n)
        memcpy(e + 1, bytes, n);
    e->next = atomic_load(list_of(t, key));
    while (!atomic_compare_exchange_weak(list_of(t, key), &e->next, at / GRAIN))
        ;
}
