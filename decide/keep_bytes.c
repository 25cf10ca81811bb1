/* keep_bytes.c - a KeepPlan as bytes, for a process that found it to hand back; see frontier.h. */
#include <string.h>

#include "decide/frontier.h"

static void put(FILE *out, const void *data, size_t n)
{
    if (n)
        fwrite(data, 1, n, out); /* who closes `out` sees what went wrong */
}

#define PUT(out, x) put(out, &(x), sizeof(x))

void keep_write(FILE *out, const KeepPlan *kept, size_t values)
{
    const size_t loops = kept ? kept->loops.n : 0;
    const bool any = kept != NULL;
    PUT(out, any);
    PUT(out, loops);
    for (size_t l = 0; l < loops; l++) {
        const KeepRanges *ranges = &kept->loops.data[l];
        PUT(out, kept->dims.data[l]);
        PUT(out, ranges->n);
        for (size_t k = 0; k < ranges->n; k++) {
            const KeepRange *r = &ranges->data[k];
            const size_t says = r->says ? strlen(r->says) + 1 : 0;
            PUT(out, r->iterations);
            PUT(out, r->segment);
            PUT(out, r->here);
            PUT(out, says);
            put(out, r->says, says);
            put(out, r->keep, values * sizeof *r->keep);
        }
    }
}

/* Bytes that are read one after the other. */
typedef struct Bytes {
    const char *at, *end;
    bool short_of;
} Bytes;

static void get(Bytes *b, void *data, size_t n)
{
    if ((size_t)(b->end - b->at) < n) {
        b->short_of = true;
        return;
    }
    if (n)
        memcpy(data, b->at, n);
    b->at += n;
}

#define GET(b, x) get(b, &(x), sizeof(x))

static KeepRange get_range(Bytes *b, size_t values, Arena *a)
{
    KeepRange r = {0};
    size_t says = 0;
    bool *keep = NEW_ARRAY(a, bool, values + 1);
    GET(b, r.iterations);
    GET(b, r.segment);
    GET(b, r.here);
    GET(b, says);
    char *text = says && !b->short_of ? arena_alloc(a, says) : NULL;
    get(b, text, text ? says : 0);
    get(b, keep, values * sizeof *keep);
    r.says = text;
    r.keep = keep;
    return r;
}

bool keep_read(const char *bytes, size_t n, size_t values, Arena *a, const KeepPlan **kept)
{
    Bytes b = {bytes, bytes + n, false};
    bool any = false;
    size_t loops = 0;
    KeepPlan *plan = NEW(a, KeepPlan);
    *plan = (KeepPlan){0};
    GET(&b, any);
    GET(&b, loops);
    for (size_t l = 0; l < loops && !b.short_of; l++) {
        KeepRanges ranges = {0};
        size_t count = 0;
        Name dim = 0;
        GET(&b, dim);
        GET(&b, count);
        for (size_t k = 0; k < count && !b.short_of; k++)
            vec_push(a, &ranges, get_range(&b, values, a));
        vec_push(a, &plan->loops, ranges);
        vec_push(a, &plan->dims, dim);
    }
    *kept = any ? plan : NULL;
    return !b.short_of && b.at == b.end;
}
