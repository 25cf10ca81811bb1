/* memory.c - fills memory with zeros and copies it, on the thread pool. */
#include "kernels/isa.h"

#include <string.h>

enum { PAGE = 4096, GRAIN = 64 }; /* bytes of a unit; units worth a thread */

typedef struct Bytes {
    char *to;
    const char *from;
    int64_t bytes;
} Bytes;

static size_t span(const Bytes *w, int64_t begin, int64_t end)
{
    int64_t stop = end * PAGE < w->bytes ? end * PAGE : w->bytes;
    return (size_t)(stop - begin * PAGE);
}

static void zero(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Bytes *w = ctx;
    memset(w->to + begin * PAGE, 0, span(w, begin, end));
}

static void copy(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const Bytes *w = ctx;
    memcpy(w->to + begin * PAGE, w->from + begin * PAGE, span(w, begin, end));
}

void mg_zero(mg_run *r, int action, void *p, int64_t bytes)
{
    Bytes w = {.to = p, .bytes = bytes};
    mg_begin(r, action);
    mg_parallel(r, (bytes + PAGE - 1) / PAGE, GRAIN, zero, &w);
    mg_end(r, action);
}

void mg_copy(mg_run *r, int action, void *to, const void *from, int64_t bytes)
{
    Bytes w = {.to = to, .from = from, .bytes = bytes};
    mg_begin(r, action);
    mg_parallel(r, (bytes + PAGE - 1) / PAGE, GRAIN, copy, &w);
    mg_end(r, action);
}
