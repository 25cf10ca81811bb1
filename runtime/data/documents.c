/* documents.c - where the documents of a token file begin and end.
 *
 * A Megatron index has sequences, and documents as numbers of sequences: document k is the
 * sequences from bound k to bound k + 1. The first bound is 0, the last one the number of
 * sequences, and none is below the one before it. A file of plain bytes is one document. Other
 * files do not say it. */
#include "runtime/data/pack.h"
#include "runtime/data/sources.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEAD = 34,       /* bytes of an index before the lengths, of 4 bytes, then offsets, of 8 */
    COUNT_AT = 26,   /* the number of bounds there */
    BLOCK = 1 << 12, /* lengths, or bounds, at a time */
};

/* An array of the index that is read a block at a time, from the first to the last. */
typedef struct reader {
    const rt_file *index;
    int64_t at, width, n; /* byte of the first; bytes of each; how many */
    int64_t next, have;   /* number of the next; how many of the block are read */
    char block[BLOCK * 8];
} reader;

static int64_t next(reader *r)
{
    const int64_t in = r->next % BLOCK;
    int32_t four;
    int64_t eight;
    if (in == 0) {
        const int64_t left = r->n - r->next;
        r->have = left < BLOCK ? left : BLOCK;
        rt_file_read(r->index, r->block, r->have * r->width, r->at + r->next * r->width);
    }
    r->next++;
    memcpy(&four, r->block + in * 4, 4);
    memcpy(&eight, r->block + in * r->width, (size_t)r->width);
    return r->width == 4 ? four : eight;
}

static void wrong_bounds(const rt_file *f, const rt_file *index, int64_t k, int64_t bound,
                         int64_t before, int64_t sequences)
{
    if (k == 0)
        rt_die(RT_BAD_DATA, "%s: its first document begins with sequence %" PRId64 ", not 0",
               index->path, bound);
    rt_die(RT_BAD_DATA,
           "%s: document %" PRId64 " ends before sequence %" PRId64 " and begins with %" PRId64
           "; %s has %" PRId64 " sequences, and each is of one document",
           index->path, k - 1, bound, before, f->path, sequences);
}

/* Calls put(ctx, first, n) for each document of a file that has an index. */
static void each_of_index(const rt_file *f, const rt_file *index, int64_t sequences,
                          rt_document_fn *put, void *ctx)
{
    int64_t bounds, first = 0, end = 0, before = 0;
    rt_file_read(index, &bounds, 8, COUNT_AT);
    if (bounds < 1)
        rt_die(RT_BAD_DATA, "%s has %" PRId64 " bounds of documents: 1 and one for each document",
               index->path, bounds);
    reader *length = rt_alloc(1, sizeof *length), *bound = rt_alloc(1, sizeof *bound);
    length->index = bound->index = index;
    length->at = HEAD;
    length->width = 4;
    length->n = sequences;
    bound->at = HEAD + sequences * 12;
    bound->width = 8;
    bound->n = bounds;
    for (int64_t k = 0; k < bounds; k++) {
        const int64_t to = next(bound);
        if (k == 0 ? to != 0 : to < before || to > sequences)
            wrong_bounds(f, index, k, to, before, sequences);
        for (int64_t s = before; s < to; s++) {
            const int64_t n = next(length);
            if (n < 0 || n > f->tokens - end)
                rt_die(RT_BAD_DATA,
                       "%s: sequence %" PRId64 " is not where it was when it was opened",
                       index->path, s);
            end += n;
        }
        if (k)
            put(ctx, first, end - first);
        first = end;
        before = to;
    }
    if (before != sequences)
        rt_die(RT_BAD_DATA,
               "%s: its documents end with sequence %" PRId64 " of %" PRId64
               ": the others are of no document",
               index->path, before, sequences);
    free(length);
    free(bound);
}

void rt_documents_each(const rt_file *f, rt_document_fn *put, void *ctx)
{
    int64_t sequences;
    rt_file index = {.fd = rt_tokens_index(f, &sequences)};
    if (index.fd >= 0) {
        index.path = rt_printf("%.*s.idx", (int)strlen(f->path) - 4, f->path);
        each_of_index(f, &index, sequences, put, ctx);
        free(index.path);
        close(index.fd);
        return;
    }
    if (f->raw || f->start)
        rt_die(RT_BAD_DATA,
               "%s does not say where its documents end, which this program asks for "
               "(document_start): it takes a Megatron file, X.bin beside X.idx (mgc tok writes "
               "both), or plain bytes, each file a document",
               f->path);
    put(ctx, 0, f->tokens);
}
