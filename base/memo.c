/* memo.c - a table in memory that processes share: lists of entries, to which each may add at the
 * front; no entry changes once it is in one. See memo.h. */
#include "base/memo.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

enum { LISTS = 1 << 12, GRAIN = 16 };
static const uint64_t ROOM = (uint64_t)64 << 20; /* bytes, of which pages are taken as needed */

/* Its key's words follow, then its bytes, each from a whole grain on. */
typedef struct Entry {
    uint64_t hash;
    uint64_t next;     /* grains from the table's begin; 0: none */
    uint64_t words, n; /* n: bytes */
} Entry;

typedef struct Table {
    _Atomic uint64_t used; /* bytes, lists included */
    _Atomic uint64_t list[LISTS];
} Table;

_Static_assert(sizeof(Entry) % GRAIN == 0, "what follows is aligned");

static Table *_Atomic shared;

static uint64_t whole_grains(uint64_t bytes)
{
    return (bytes + GRAIN - 1) / GRAIN * GRAIN;
}

/* The table; NULL: there is no memory for it. */
static Table *table(void)
{
    Table *t = shared, *none = NULL;
    if (t)
        return t;
    t = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t == MAP_FAILED)
        return NULL;
    t->used = whole_grains(sizeof *t);
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

/* Only says where to look: two keys may have the same. */
static uint64_t hash_of(MemoKey key)
{
    uint64_t h = mixed(key.n + 1);
    for (size_t k = 0; k < key.n; k++)
        h = (h << 27 | h >> 37) * 0x9e3779b97f4a7c15U + mixed(key.words[k] + k);
    return mixed(h);
}

static Entry *entry_at(Table *t, uint64_t grains)
{
    return (Entry *)((unsigned char *)t + grains * GRAIN);
}

static _Atomic uint64_t *list_of(Table *t, uint64_t hash)
{
    return &t->list[hash % LISTS];
}

static bool has_key(const Entry *e, MemoKey key, uint64_t hash)
{
    return e->hash == hash && e->words == key.n &&
           !memcmp(e + 1, key.words, key.n * sizeof *key.words);
}

const void *memo_find(MemoKey key, size_t *n)
{
    Table *t = table();
    if (!t)
        return NULL;
    const uint64_t hash = hash_of(key);
    for (uint64_t at = atomic_load(list_of(t, hash)); at; at = entry_at(t, at)->next) {
        const Entry *e = entry_at(t, at);
        if (!has_key(e, key, hash))
            continue;
        *n = e->n;
        return (const unsigned char *)(e + 1) + whole_grains(e->words * sizeof *key.words);
    }
    return NULL;
}

void memo_keep(MemoKey key, const void *bytes, size_t n)
{
    Table *t = table();
    if (!t || n > ROOM / 4 || key.n > ROOM / 4 / sizeof *key.words)
        return;
    const uint64_t before = sizeof(Entry) + whole_grains(key.n * sizeof *key.words);
    const uint64_t all = before + whole_grains(n);
    if (atomic_load(&t->used) + all > ROOM)
        return;
    const uint64_t at = atomic_fetch_add(&t->used, all);
    if (at + all > ROOM)
        return;
    Entry *e = entry_at(t, at / GRAIN);
    *e = (Entry){.hash = hash_of(key), .words = key.n, .n = n};
    memcpy(e + 1, key.words, key.n * sizeof *key.words);
    if (n)
        memcpy((unsigned char *)e + before, bytes, n);
    e->next = atomic_load(list_of(t, e->hash));
    while (!atomic_compare_exchange_weak(list_of(t, e->hash), &e->next, at / GRAIN))
        ;
}
