/* table.c - named data: the rows of tensors in safetensors files; a sample is one row of each
 * input.
 *
 * For programs whose inputs are not windows of tokens. Each file holds a tensor for each input, and
 * its first dim counts rows; of the other dims only the number of elements matters. All misfits,
 * also indices out of range, are reported when the files are opened. */
#include "runtime/data/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/number.h"

typedef struct table_file {
    rt_st st;
    const rt_st_tensor *tensor[MG_INPUTS_MAX];
    int64_t rows, before; /* rows of the files before it */
} table_file;

struct rt_table {
    const mg_entry *entry;
    table_file *file;  /* parallel to rt_data.file */
    int64_t row_bytes; /* of the widest input as stored */
};

static int64_t stored_bytes(const rt_st_tensor *t)
{
    return rt_st_bits(t->dtype) / 8;
}

static void check_tensor(const rt_file *f, const mg_input *in, const rt_st_tensor *t, int64_t *rows)
{
    int64_t elements = 1;
    for (int i = 1; i < t->rank; i++)
        elements *= t->shape[i]; /* no overflow: the reader checked the product */
    if (!t->rank || t->shape[0] < 1)
        rt_die(RT_BAD_DATA, "%s: %s has no rows", f->path, t->name);
    if (elements != in->elements)
        rt_die(RT_BAD_DATA, "%s: a row of %s has %" PRId64 " elements; the program takes %" PRId64,
               f->path, t->name, elements, in->elements);
    if (!rt_number_known(t->dtype) || (in->limit && !rt_number_is_whole(t->dtype)))
        rt_die(RT_BAD_DATA, "%s: %s is of type %s; %s are read", f->path, t->name, t->dtype,
               in->limit ? "whole numbers" : "F64, F32, F16, BF16 and whole numbers");
    if (*rows && *rows != t->shape[0])
        rt_die(RT_BAD_DATA, "%s: %s has %" PRId64 " rows, the inputs before it %" PRId64, f->path,
               t->name, t->shape[0], *rows);
    *rows = t->shape[0];
}

static void read_row(const rt_file *f, const table_file *t, int input, int64_t row, char *to,
                     const mg_entry *e)
{
    const rt_st_tensor *x = t->tensor[input];
    int64_t n = e->inputs[input].elements * stored_bytes(x);
    if (!rt_read_at(f->fd, to, (size_t)n, (int64_t)(t->st.data + x->begin) + row * n))
        rt_die(RT_BAD_DATA, "%s cannot be read: %s", f->path,
               errno ? strerror(errno) : "it became shorter while it was used");
}

/* Checks indices before the first step: an index that is too large would read outside of a
 * tensor. */
static void check_indices(const rt_data *d, const rt_file *f, const table_file *t, char *row)
{
    const mg_entry *e = d->table->entry;
    for (int k = 0; k < e->ninputs; k++) {
        const mg_input *in = &e->inputs[k];
        for (int64_t r = 0; in->limit && r < t->rows; r++) {
            read_row(f, t, k, r, row, e);
            for (int64_t i = 0; i < in->elements; i++) {
                double x = rt_number(t->tensor[k]->dtype, row, i);
                if (!(x >= 0 && x < (double)in->limit))
                    rt_die(RT_BAD_DATA,
                           "%s: %s holds %.0f in row %" PRId64 "; the program takes 0 to %" PRId64,
                           f->path, in->name, x, r, in->limit - 1);
            }
        }
    }
}

static void open_file(rt_data *d, rt_file *f, table_file *t)
{
    const mg_entry *e = d->table->entry;
    f->fd = rt_file_open(AT_FDCWD, f->path, O_RDONLY);
    if (f->fd < 0)
        rt_die(RT_BAD_DATA, "%s: %s", f->path, rt_file_error());
    char *why = rt_st_read(f->path, f->fd, &t->st);
    if (why)
        rt_die(RT_BAD_DATA, "%s", why);
    for (int k = 0; k < e->ninputs; k++) {
        t->tensor[k] = rt_st_find(&t->st, e->inputs[k].name);
        if (!t->tensor[k])
            rt_die(RT_BAD_DATA, "%s has no tensor '%s', which is an input of this program", f->path,
                   e->inputs[k].name);
        check_tensor(f, &e->inputs[k], t->tensor[k], &t->rows);
        int64_t bytes = e->inputs[k].elements * stored_bytes(t->tensor[k]);
        d->table->row_bytes = bytes > d->table->row_bytes ? bytes : d->table->row_bytes;
    }
    struct stat s;
    if (fstat(f->fd, &s))
        rt_die(RT_IO, "%s: %s", f->path, strerror(errno));
    f->bytes = s.st_size;
    f->changed = s.st_mtim;
    f->tokens = t->rows;
}

rt_data *rt_table_open(const rt_list *patterns, const char *option, const mg_entry *e)
{
    rt_data *d = rt_data_find(patterns, option);
    d->table = rt_alloc(1, sizeof *d->table);
    d->table->entry = e;
    d->table->file = rt_alloc((size_t)d->nfiles, sizeof *d->table->file);
    for (int i = 0; i < d->nfiles; i++) {
        table_file *t = &d->table->file[i];
        open_file(d, &d->file[i], t);
        t->before = d->windows;
        d->windows += t->rows;
    }
    d->tokens = d->windows;
    char *row = rt_alloc((size_t)d->table->row_bytes + 1, 1);
    for (int i = 0; i < d->nfiles; i++)
        check_indices(d, &d->file[i], &d->table->file[i], row);
    free(row);
    return d;
}

rt_data *rt_table_hold_out(rt_data *d, double fraction)
{
    int64_t held = (int64_t)((double)d->windows * fraction);
    if (held < 1 || held >= d->windows)
        rt_die(RT_BAD_DATA, "--val-fraction %g of %" PRId64 " rows leaves %s without one", fraction,
               d->windows, held < 1 ? "the evaluation" : "the training");
    rt_data *v = rt_alloc(1, sizeof *v);
    *v = *d;
    v->borrowed = true; /* d keeps the ownership of the files */
    v->windows = v->tokens = held;
    v->first = d->first + d->windows - held;
    d->windows = d->tokens = d->windows - held;
    return v;
}

static void put(void *to, const mg_input *in, int64_t i, double x)
{
    if (in->dtype == MG_I32)
        ((int32_t *)to)[i] = (int32_t)x;
    else if (in->dtype == MG_F64)
        ((double *)to)[i] = x;
    else
        ((float *)to)[i] = (float)x;
}

void rt_table_row(const rt_data *d, rt_batch *b, const mg_entry *e, int64_t row, int64_t sample)
{
    int f = d->nfiles - 1;
    while (d->table->file[f].before > row)
        f--;
    const table_file *t = &d->table->file[f];
    char *stored = rt_alloc((size_t)d->table->row_bytes + 1, 1);
    for (int k = 0; k < e->ninputs; k++) {
        const mg_input *in = &e->inputs[k];
        int64_t bytes = in->elements * mg_dtype_bytes(in->dtype);
        char *row_of = rt_alloc((size_t)bytes + 1, 1);
        read_row(&d->file[f], t, k, row - t->before, stored, e);
        for (int64_t i = 0; i < in->elements; i++) {
            double x = rt_number(t->tensor[k]->dtype, stored, i);
            if (in->limit && !(x >= 0 && x < (double)in->limit)) /* the file may have changed */
                rt_die(RT_BAD_DATA, "%s: %s holds %.0f; the program takes 0 to %" PRId64,
                       d->file[f].path, in->name, x, in->limit - 1);
            put(row_of, in, i, x);
        }
        rt_batch_row(b, in->offset, sample, row_of, bytes);
        free(row_of);
    }
    free(stored);
}

void rt_table_close(rt_data *d)
{
    for (int i = 0; i < d->nfiles; i++)
        rt_st_free(&d->table->file[i].st);
    free(d->table->file);
    free(d->table);
}
