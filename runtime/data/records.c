/* records.c - token files whose records are rows of a named input: `--data text=captions.bin`.
 *
 * The sequences of a Megatron index are records, of any length up to a row's. A file without an
 * index is an array of rows. So record i of one file belongs to row i of another. */
#include "runtime/data/records.h"
#include "runtime/data/sources.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BLOCK = 1 << 12 /* lengths at a time */
};

/* Checks all lengths of an index before the first step. */
static void check_lengths(const rt_file *f, const rt_records *r, const mg_input *in, bool filled)
{
    int32_t *length = rt_alloc(BLOCK, sizeof *length);
    for (int64_t at = 0; at < r->rows; at += BLOCK) {
        int64_t n = r->rows - at < BLOCK ? r->rows - at : BLOCK;
        rt_tokens_lengths(f, r->index, at, n, length);
        for (int64_t i = 0; i < n; i++)
            if (length[i] > in->elements)
                rt_die(RT_BAD_DATA,
                       "%s: record %" PRId64 " has %d tokens; a row of %s has %" PRId64
                       ": cut it, or compile the program with longer rows",
                       f->path, at + i, length[i], in->name, in->elements);
            else if (length[i] < in->elements && !filled)
                rt_die(RT_BAD_DATA,
                       "%s: record %" PRId64 " has %d tokens; a row of %s has %" PRId64
                       ": say which token fills it up, as in %s=0:%s",
                       f->path, at + i, length[i], in->name, in->elements, in->name, f->path);
    }
    free(length);
}

rt_records rt_records_open(rt_file *f, const mg_input *in, bool filled)
{
    rt_records r;
    rt_tokens_open(f, 1, in->limit);
    r.index = rt_tokens_index(f, &r.rows);
    if (r.index >= 0) {
        check_lengths(f, &r, in, filled);
        return r;
    }
    r.rows = f->tokens / in->elements;
    if (f->tokens % in->elements)
        rt_die(RT_BAD_DATA,
               "%s has %" PRId64 " tokens and no index: rows of %" PRId64
               " (input %s) leave %" PRId64 " over",
               f->path, f->tokens, in->elements, in->name, f->tokens % in->elements);
    return r;
}

void rt_records_read(const rt_file *f, const rt_records *r, const mg_input *in, int64_t row,
                     int64_t fill, int32_t *to)
{
    int64_t first = row * in->elements, n = in->elements;
    if (r->index >= 0)
        rt_tokens_sequence(f, r->index, r->rows, row, &first, &n);
    if (n > in->elements || first < 0 || first > f->tokens - n) /* the index may have changed */
        rt_die(RT_BAD_DATA, "%s: record %" PRId64 " is not where it was when the program started",
               f->path, row);
    rt_tokens_read(f, first, n, to);
    for (int64_t i = 0; i < n; i++)
        if (to[i] < 0 || to[i] >= in->limit)
            rt_die(RT_BAD_DATA, "%s: %s holds %d; the program takes 0 to %" PRId64, f->path,
                   in->name, to[i], in->limit - 1);
    for (int64_t i = n; i < in->elements; i++)
        to[i] = (int32_t)fill;
}

void rt_records_close(rt_records *r)
{
    if (r->index >= 0)
        close(r->index);
}
