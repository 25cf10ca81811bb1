/* batch.c - reads a batch into memory of the host, and gives each rank its rows in one piece.
 *
 * A GPU's host has nothing to do while a step runs, and then reads the next batch: so the GPU waits
 * for no file. What is read is kept until the step that it is for; another request (a step that is
 * run again, a checkpoint that is resumed) reads anew. On a processor all threads compute, and the
 * batch is read between two steps.
 *
 * A rank's rows follow one another in its arena: of each microbatch those of its place. */
#include "runtime/data/batch.h"

#include <stdlib.h>
#include <string.h>

typedef struct rows {
    int64_t offset, bytes; /* in the arenas; of a row */
    char *data;
} rows;

struct rt_batch {
    const mg_entry *entry;
    rows input[MG_INPUTS_MAX + 2]; /* or tokens, weights and documents */
    int n;
    const rt_data *of; /* what it holds: samples [first, first + samples) of this; NULL: nothing */
    int64_t first, samples;
};

rt_batch *rt_batch_new(const mg_entry *e)
{
    rt_batch *b = rt_alloc(1, sizeof *b);
    b->entry = e;
    return b;
}

void rt_batch_free(rt_batch *b)
{
    for (int i = 0; b && i < b->n; i++)
        free(b->input[i].data);
    free(b);
}

void rt_batch_row(rt_batch *b, int64_t offset, int64_t row, const void *from, int64_t bytes)
{
    int i = 0;
    while (i < b->n && b->input[i].offset != offset)
        i++;
    if (i == b->n)
        b->input[b->n++] = (rows){offset, bytes, rt_alloc((size_t)b->entry->batch, (size_t)bytes)};
    memcpy(b->input[i].data + row * bytes, from, (size_t)bytes);
}

void rt_batch_put(mg_run *r, const rt_batch *b)
{
    for (int i = 0; i < b->n; i++)
        rt_put_rows(r, b->entry, b->input[i].offset, b->input[i].data, b->input[i].bytes);
}

static bool holds(const rt_batch *b, const rt_data *d, int64_t first, int64_t n)
{
    return b->of == d && b->first == first && b->samples == n;
}

static rt_batch *read_batch(mg_run *r, rt_program which, const rt_data *d, int64_t first, int64_t n)
{
    const mg_entry *all[] = {&r->program->step, &r->program->eval, &r->program->sample};
    if (!r->batch[which])
        r->batch[which] = rt_batch_new(all[which]);
    rt_batch *b = r->batch[which];
    if (holds(b, d, first, n))
        return b;
    b->of = NULL;
    for (int64_t k = 0; k < b->entry->batch; k++)
        rt_data_sample(r, d, b, b->entry, k, first + (k < n ? k : n - 1), which == RT_STEP);
    b->of = d;
    b->first = first;
    b->samples = n;
    return b;
}

void rt_batch_fill(mg_run *r, rt_program which, const rt_data *d, int64_t first, int64_t n)
{
    rt_batch_put(r, read_batch(r, which, d, first, n));
}

void rt_batch_ahead(mg_run *r)
{
    const int64_t batch = r->program->step.batch;
    if (!r->rank && r->data && r->state.step + 1 < r->lr.steps)
        read_batch(r, RT_STEP, r->data, r->state.sequences + batch, batch);
}
