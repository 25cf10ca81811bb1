/* arena.h - memory by lifetime: allocate piecewise, free all at once.
 *
 * An arena hands out zeroed memory and frees it only as a whole. Every structure of the compiler
 * lives in one arena named by its lifetime (the module's, a pass's scratch). Running out of memory
 * ends the process with a message: nothing in the compiler can do better. */
#ifndef MGC_ARENA_H
#define MGC_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *a);

/* fork(), by which the new process has a copy of all arenas, and none of the memory that arenas had
 * once and that is kept for others: it would be copied, page by page, by who writes there first. */
pid_t arena_fork(void);

/* Zeroed bytes aligned for any type; size 0 gives a valid pointer. */
void *arena_alloc(Arena *a, size_t size);
/* count * size with overflow checked (ends the process on overflow, as out of memory). */
void *arena_array(Arena *a, size_t count, size_t size);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);

#define NEW(arena, T)          ((T *)arena_alloc((arena), sizeof(T)))
#define NEW_ARRAY(arena, T, n) ((T *)arena_array((arena), (size_t)(n), sizeof(T)))

/* A copy of bytes, aligned for any type. */
void *arena_copy(Arena *a, const void *data, size_t size);

/* A growing array in an arena: declare `VEC(T) name;`, then vec_push(arena, &name, item). Growth
 * copies; the old storage stays in the arena. What lies behind the last item is not set. */
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *data;                                                                                   \
        size_t n, cap;                                                                             \
    }
#define vec_push(arena, v, ...)                                                                    \
    do {                                                                                           \
        if ((v)->n == (v)->cap)                                                                    \
            (v)->data = arena_grow((arena), (v)->data, (v)->n, &(v)->cap, sizeof(*(v)->data));     \
        (v)->data[(v)->n++] = (__VA_ARGS__);                                                       \
    } while (0)
void *arena_grow(Arena *a, void *data, size_t n, size_t *cap, size_t item);

#endif
