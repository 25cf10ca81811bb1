/* arena.c - blocks of growing size, chained; see arena.h.
 *
 * Large blocks are whole pages of the largest kind that there is, so that less of a plan's time
 * goes into faults of pages, and those that no arena has any longer are kept for the next, as what
 * is freed is often asked for again at once. */
#include "base/arena.h"

#include <errno.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

typedef struct Block {
    struct Block *prev;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
} Block;

struct Arena {
    Block *top;
    size_t next; /* size of the next block */
};

static _Noreturn void out_of_memory(void)
{
    fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
    exit(70);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Bytes of blocks: of an arena's first, of large ones, and of the largest that is not asked for at
 * once; and of a page. Each is twice as large as the one before it. */
static const size_t FIRST = (size_t)64 << 10, LARGE = (size_t)2 << 20, LARGEST = (size_t)8 << 20;
#define PAGE LARGE

/* With the address sanitizer, nobody may read what is behind a piece of a block, and nothing is
 * kept. */
#ifdef __SANITIZE_ADDRESS__
enum { SPARE = 0, GAP = 16 };
#define HIDE(p, size) ASAN_POISON_MEMORY_REGION(p, size)
#define SHOW(p, size) ASAN_UNPOISON_MEMORY_REGION(p, size)
#else
enum { SPARE = 16, GAP = 0 };
#define HIDE(p, size) ((void)0)
#define SHOW(p, size) ((void)0)
#endif

/* Large blocks that no arena has. Their sizes are not in them: another process has them without
 * what was in them (arena_fork). */
static struct {
    Block *block;
    size_t size;
} spare[SPARE + 1];
static size_t spares;

/* Bytes from a multiple of a page on; NULL: there are none. */
static void *map_large(size_t size)
{
    unsigned char *p =
        mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    const size_t before = -(uintptr_t)p % PAGE;
    if (before)
        munmap(p, before);
    munmap(p + before + size, PAGE - before);
    madvise(p + before, size, MADV_HUGEPAGE);
    return p + before;
}

static bool is_large(size_t size)
{
    return size >= LARGE && size <= LARGEST && size % LARGE == 0;
}

/* Of so many bytes, with whatever was in them. */
static Block *block_new(size_t size, Block *prev)
{
    Block *b = NULL;
    for (size_t k = spares; is_large(size) && k-- > 0 && !b;)
        if (spare[k].size == size) {
            b = spare[k].block;
            spare[k] = spare[--spares];
        }
    if (!b)
        b = is_large(size) ? map_large(size) : malloc(size);
    if (!b)
        out_of_memory();
    *b = (Block){.prev = prev, .size = size - sizeof *b};
    return b;
}

static void block_free(Block *b)
{
    const size_t size = b->size + sizeof *b;
    SHOW(b->data, b->size);
    if (!is_large(size))
        free(b);
    else if (spares < SPARE)
        spare[spares++] = (__typeof__(*spare)){b, size};
    else
        munmap(b, size);
}

/* Says of what no arena has how fork() goes about it. */
static void advise_spares(int how)
{
    for (size_t k = 0; k < spares; k++)
        madvise(spare[k].block, spare[k].size, how);
}

pid_t arena_fork(void)
{
    advise_spares(MADV_WIPEONFORK);
    const pid_t pid = fork();
    advise_spares(MADV_KEEPONFORK);
    return pid;
}

/* ---- arenas ---------------------------------------------------------------------------------- */

Arena *arena_new(void)
{
    Arena *a = calloc(1, sizeof *a);
    if (!a)
        out_of_memory();
    a->next = FIRST;
    return a;
}

void arena_free(Arena *a)
{
    if (!a)
        return;
    for (Block *b = a->top, *prev; b; b = prev) {
        prev = b->prev;
        block_free(b);
    }
    free(a);
}

/* Bytes with whatever was in them. */
static void *take(Arena *a, size_t asked)
{
    const size_t align = alignof(max_align_t);
    if (asked > SIZE_MAX / 2)
        out_of_memory();
    const size_t size = (asked + align - 1) / align * align + GAP;
    if (!a->top || a->top->size - a->top->used < size) {
        const size_t least = sizeof(Block) + size;
        a->top = block_new(least > a->next ? least : a->next, a->top);
        if (a->next < LARGEST)
            a->next *= 2;
    }
    unsigned char *p = a->top->data + a->top->used;
    a->top->used += size;
    HIDE(p + asked, size - asked);
    return p;
}

void *arena_alloc(Arena *a, size_t size)
{
    return memset(take(a, size), 0, size);
}

void *arena_array(Arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        out_of_memory();
    return arena_alloc(a, bytes);
}

void *arena_copy(Arena *a, const void *data, size_t size)
{
    void *p = take(a, size);
    return size ? memcpy(p, data, size) : p;
}

void *arena_grow(Arena *a, void *data, size_t n, size_t *cap, size_t item)
{
    size_t want = *cap ? *cap * 2 : 8;
    size_t bytes;
    if (__builtin_mul_overflow(want, item, &bytes))
        out_of_memory();
    char *p = take(a, bytes);
    if (n)
        memcpy(p, data, n * item);
    *cap = want;
    return p;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    memcpy(p, s, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}
