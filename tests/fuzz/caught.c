/* caught.c - see caught.h. Linked with --wrap of rt_die, malloc, calloc, realloc and free: while a
 * call is being caught, every pointer that is allocated is kept in a table until it is freed. */
#include "tests/fuzz/caught.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 1 << 12 };

static struct {
    bool active;
    jmp_buf back;
    void *kept[SLOTS]; /* open addressing; GONE where one was freed */
    size_t n;
    FILE *text; /* the memory stream that is being written, and where its text will be */
    char **to;
} state;
static char gone;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
int __real_vasprintf(char **p, const char *fmt, va_list ap);
int __wrap_vasprintf(char **p, const char *fmt, va_list ap);
FILE *__real_open_memstream(char **p, size_t *n);
FILE *__wrap_open_memstream(char **p, size_t *n);
int __real_fclose(FILE *f);
int __wrap_fclose(FILE *f);
_Noreturn void __wrap_rt_die(int code, const char *fmt, ...);

static size_t slot_of(const void *p)
{
    return (size_t)((uintptr_t)p * 0x9e3779b97f4a7c15u >> 40) % SLOTS;
}

static void keep(void *p)
{
    if (!state.active || !p)
        return;
    if (++state.n > SLOTS / 2)
        abort(); /* more blocks at once than a reader has any use for */
    size_t i = slot_of(p);
    while (state.kept[i] && state.kept[i] != &gone)
        i = (i + 1) % SLOTS;
    state.kept[i] = p;
}

static void let_go(const void *p)
{
    if (!state.active || !p)
        return;
    for (size_t i = slot_of(p); state.kept[i]; i = (i + 1) % SLOTS)
        if (state.kept[i] == p) {
            state.kept[i] = &gone;
            state.n--;
            return;
        }
}

void *__wrap_malloc(size_t n)
{
    void *p = __real_malloc(n);
    keep(p);
    return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = __real_calloc(n, size);
    keep(p);
    return p;
}

void *__wrap_realloc(void *p, size_t n)
{
    let_go(p);
    void *q = __real_realloc(p, n);
    keep(q ? q : p);
    return q;
}

void __wrap_free(void *p)
{
    let_go(p);
    __real_free(p);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : __wrap_realloc(p, bytes);
}

int __wrap_vasprintf(char **p, const char *fmt, va_list ap)
{
    int n = __real_vasprintf(p, fmt, ap);
    if (n >= 0)
        keep(*p);
    return n;
}

FILE *__wrap_open_memstream(char **p, size_t *n)
{
    state.to = p;
    return state.text = __real_open_memstream(p, n);
}

int __wrap_fclose(FILE *f)
{
    int failed = __real_fclose(f);
    if (f == state.text) {
        state.text = NULL;
        keep(*state.to);
    }
    return failed;
}

void __wrap_rt_die(int code, const char *fmt, ...)
{
    (void)fmt;
    if (!state.active || code == 0)
        abort();
    if (state.text) /* while the frame that holds the pointer to its text is there */
        __wrap_fclose(state.text);
    longjmp(state.back, 1);
}

bool caught(void fn(void *ctx), void *ctx)
{
    static int base;
    if (!base) {
        base = open("/dev/null", O_RDONLY);
        close(base);
    }
    memset(state.kept, 0, sizeof state.kept);
    state.n = 0;
    state.active = true;
    bool returned = setjmp(state.back) == 0;
    if (returned)
        fn(ctx);
    state.active = false;
    for (size_t i = 0; i < SLOTS && state.n; i++)
        if (state.kept[i] && state.kept[i] != &gone) {
            __real_free(state.kept[i]);
            state.n--;
        }
    close_range((unsigned)base, ~0u, 0);
    return returned;
}

const char *fuzz_folder(void)
{
    static char own[] = "/tmp/mgc-fuzz-XXXXXX";
    static const char *folder;
    if (!folder)
        folder = getenv("FUZZ_FOLDER"); /* of scripts/fuzz, which removes it */
    if (!folder)
        folder = mkdtemp(own);
    if (!folder)
        abort();
    return folder;
}

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    return path;
}

void fuzz_file(const char *name, const void *data, size_t size)
{
    int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

void fuzz_no_file(const char *name)
{
    unlink(in_folder(name));
}

FuzzPart fuzz_part(FuzzPart *rest)
{
    FuzzPart p = {0};
    if (rest->size >= 2) {
        size_t n = rest->data[0] + 256u * rest->data[1];
        p.data = rest->data + 2;
        p.size = n < rest->size - 2 ? n : rest->size - 2;
        rest->data += 2 + p.size;
        rest->size -= 2 + p.size;
    }
    return p;
}
