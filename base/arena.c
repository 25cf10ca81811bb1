/* arena.c - blocks of growing size, chained; see arena.h. */
#include "base/arena.h"

#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct Block {
    struct Block *prev;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
} Block;

struct Arena {
    Block *top;
    size_t next; /* size of the next block */
};

/* Of a block's memory, whole pages of so many bytes are asked for, where the system has those: less
 * of a plan's time goes into faults of pages. */
static const size_t LARGE_PAGE = (size_t)2 << 20;

static void ask_for_large_pages(unsigned char *data, size_t size)
{
    const size_t before = -(uintptr_t)data % LARGE_PAGE;
    if (size >= before + LARGE_PAGE)
        madvise(data + before, (size - before) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
}

static _Noreturn void out_of_memory(void)
{
    fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
    exit(70);
}

Arena *arena_new(void)
{
    Arena *a = calloc(1, sizeof *a);
    if (!a)
        out_of_memory();
    a->next = 64 << 10;
    return a;
}

void arena_free(Arena *a)
{
    if (!a)
        return;
    for (Block *b = a->top, *prev; b; b = prev) {
        prev = b->prev;
        free(b);
    }
    free(a);
}

/* Bytes with whatever was in them. */
static void *take(Arena *a, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size > SIZE_MAX / 2)
        out_of_memory();
    size = (size + align - 1) / align * align;
    if (!a->top || a->top->size - a->top->used < size) {
        size_t want = size > a->next ? size : a->next;
        Block *b = malloc(sizeof *b + want); /* of which little may be needed: zeroed as it is */
        if (!b)
            out_of_memory();
        *b = (Block){.prev = a->top, .size = want};
        ask_for_large_pages(b->data, want);
        a->top = b;
        if (a->next < (size_t)8 << 20)
            a->next *= 2;
    }
    void *p = a->top->data + a->top->used;
    a->top->used += size;
    return p;
}

void *arena_alloc(Arena *a, size_t size)
{
    const size_t align = alignof(max_align_t);
    return memset(take(a, size), 0, (size + align - 1) / align * align);
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
