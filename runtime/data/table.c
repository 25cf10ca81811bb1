/* table.c - named data: the rows of tensors in safetensors files, and of token files (records.c); a
 * sample is one row of each input.
 *
 * For programs whose inputs are not windows of tokens. Each safetensors file holds a tensor for
 * each input that has no token files, and its first dim counts rows; of the other dims only the
 * number of elements matters. Row i of the tables and record i of each stream of tokens belong
 * together. All misfits, also indices out of range, are reported when the files are opened. */
#include "runtime/data/batch.h"
#include "runtime/data/records.h"

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
    rt_st st; /* of a table */
    const rt_st_tensor *tensor[MG_INPUTS_MAX];
    rt_records records;   /* of a token file */
    int64_t rows, before; /* rows of the files of its column before it */
} table_file;

/* The files whose rows follow one another: the tables, or the token files of an input. */
typedef struct column {
    int first, n; /* of rt_data.file */
    int64_t rows;
    int64_t fill; /* the token behind the end of a record; -1: all records are as long as a row */
} column;

struct rt_table {
    const mg_entry *entry;
    table_file *file;                     /* parallel to rt_data.file */
    column tables, stream[MG_INPUTS_MAX]; /* stream: n is 0 for an input that the tables have */
    int64_t row_bytes;                    /* of the widest input as stored */
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
        for (int64_t r = 0; t->tensor[k] && in->limit && r < t->rows; r++) {
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
        if (d->table->stream[k].n)
            continue;
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

/* The input that a source names, NAME=[FILL:]GLOB, whose fill and GLOB it gives; -1: none. */
static int named_input(const mg_entry *e, const char *source, const char **pattern, int64_t *fill,
                       const char *option)
{
    for (int k = 0; k < e->ninputs; k++) {
        const size_t n = strlen(e->inputs[k].name);
        if (strncmp(source, e->inputs[k].name, n) != 0 || source[n] != '=')
            continue;
        char *end;
        if (!e->inputs[k].limit)
            rt_die(RT_USAGE, "--%s %s: the input %s has numbers, and a token file has indices",
                   option, source, e->inputs[k].name);
        *pattern = source + n + 1;
        *fill = -1;
        errno = 0;
        long long number = strtoll(*pattern, &end, 10);
        if (end == *pattern || *end != ':' || **pattern < '0' || **pattern > '9')
            return k;
        if (errno || number >= e->inputs[k].limit)
            rt_die(RT_USAGE, "--%s %s: the token that fills rows up is 0 to %" PRId64, option,
                   source, e->inputs[k].limit - 1);
        *fill = number;
        *pattern = end + 1;
        return k;
    }
    return -1;
}

/* Refuses NAME=GLOB where NAME is no input, unless it is the beginning of a file's name. */
static void check_name(const mg_entry *e, const char *source, const char *option)
{
    const size_t n =
        strspn(source, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (!n || source[n] != '=' || access(source, F_OK) == 0)
        return;
    char *names = rt_printf("%s", e->inputs[0].name);
    for (int k = 1; k < e->ninputs; k++) {
        char *more = rt_printf("%s, %s", names, e->inputs[k].name);
        free(names);
        names = more;
    }
    rt_die(RT_USAGE, "--%s %s: this program has no input '%.*s'; its inputs are %s", option, source,
           (int)n, source, names);
}

/* Finds the files of all sources, those of each column together. */
static void find_files(rt_data *d, const rt_list *sources, const char *option)
{
    rt_table *t = d->table;
    const mg_entry *e = t->entry;
    for (int k = -1; k < e->ninputs; k++) {
        column *c = k < 0 ? &t->tables : &t->stream[k];
        *c = (column){.first = d->nfiles, .fill = -1};
        for (int i = 0; i < sources->n; i++) {
            const char *pattern = sources->item[i];
            int64_t fill = -1;
            if (named_input(e, sources->item[i], &pattern, &fill, option) != k)
                continue;
            if (k < 0)
                check_name(e, pattern, option);
            if (d->nfiles > c->first && fill != c->fill)
                rt_die(RT_USAGE, "--%s %s: all sources of %s are filled up with one token", option,
                       sources->item[i], e->inputs[k].name);
            c->fill = fill;
            rt_data_add(d, pattern, option);
        }
        c->n = d->nfiles - c->first;
    }
}

static void open_column(rt_data *d, column *c, int input)
{
    for (int i = c->first; i < c->first + c->n; i++) {
        rt_file *f = &d->file[i];
        table_file *t = &d->table->file[i];
        t->before = c->rows;
        if (input < 0) {
            if (f->raw)
                rt_die(RT_USAGE, "%s: rows of named inputs have no raw type", f->path);
            open_file(d, f, t);
        } else {
            t->records = rt_records_open(f, &d->table->entry->inputs[input], c->fill >= 0);
            t->rows = t->records.rows;
        }
        c->rows += t->rows;
    }
}

/* Row i of each column belongs together, so all have as many. */
static void check_rows(const rt_data *d, const column *c, const char *name, const char **first)
{
    if (*first && c->rows != d->windows)
        rt_die(RT_BAD_DATA,
               "%s has %" PRId64 " records, and %s %" PRId64 ": record i of each belongs together",
               name, c->rows, *first, d->windows);
    *first = name;
}

rt_data *rt_table_open(const rt_list *sources, const char *option, const mg_entry *e)
{
    rt_data *d = rt_alloc(1, sizeof *d);
    rt_table *t = d->table = rt_alloc(1, sizeof *t);
    const char *first = NULL;
    t->entry = e;
    find_files(d, sources, option);
    t->file = rt_alloc((size_t)d->nfiles + 1, sizeof *t->file);
    for (int k = -1; k < e->ninputs; k++) {
        column *c = k < 0 ? &t->tables : &t->stream[k];
        open_column(d, c, k);
        if (k >= 0 && !c->n && !t->tables.n)
            rt_die(RT_USAGE,
                   "--%s: no file has the input '%s'; a safetensors file with a tensor of "
                   "this name is missing%s%s%s",
                   option, e->inputs[k].name, e->inputs[k].limit ? ", or a token file: " : "",
                   e->inputs[k].limit ? e->inputs[k].name : "", e->inputs[k].limit ? "=FILE" : "");
        if (!c->n)
            continue;
        check_rows(d, c, k < 0 ? "the tables" : e->inputs[k].name, &first);
        d->windows = c->rows;
    }
    d->tokens = d->windows;
    char *row = rt_alloc((size_t)t->row_bytes + 1, 1);
    for (int i = t->tables.first; i < t->tables.first + t->tables.n; i++)
        check_indices(d, &d->file[i], &t->file[i], row);
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

static int file_of(const rt_table *t, const column *c, int64_t row)
{
    int f = c->first + c->n - 1;
    while (t->file[f].before > row)
        f--;
    return f;
}

/* Row `row` of an input that the tables have, as the program takes it. */
static void table_row(const rt_data *d, int input, int64_t row, char *stored, void *to)
{
    const mg_entry *e = d->table->entry;
    const mg_input *in = &e->inputs[input];
    const int f = file_of(d->table, &d->table->tables, row);
    const table_file *t = &d->table->file[f];
    read_row(&d->file[f], t, input, row - t->before, stored, e);
    for (int64_t i = 0; i < in->elements; i++) {
        double x = rt_number(t->tensor[input]->dtype, stored, i);
        if (in->limit && !(x >= 0 && x < (double)in->limit)) /* the file may have changed */
            rt_die(RT_BAD_DATA, "%s: %s holds %.0f; the program takes 0 to %" PRId64,
                   d->file[f].path, in->name, x, in->limit - 1);
        put(to, in, i, x);
    }
}

void rt_table_row(const rt_data *d, rt_batch *b, const mg_entry *e, int64_t row, int64_t sample)
{
    const rt_table *t = d->table;
    char *stored = rt_alloc((size_t)t->row_bytes + 1, 1);
    for (int k = 0; k < e->ninputs; k++) {
        const mg_input *in = &e->inputs[k];
        const column *c = &t->stream[k];
        int64_t bytes = in->elements * mg_dtype_bytes(in->dtype);
        char *row_of = rt_alloc((size_t)bytes / 8 + 1, 8);
        if (c->n) {
            const int f = file_of(t, c, row);
            rt_records_read(&d->file[f], &t->file[f].records, in, row - t->file[f].before, c->fill,
                            (int32_t *)row_of);
        } else {
            table_row(d, k, row, stored, row_of);
        }
        rt_batch_row(b, in->offset, sample, row_of, bytes);
        free(row_of);
    }
    free(stored);
}

void rt_table_close(rt_data *d)
{
    rt_table *t = d->table;
    for (int i = 0; i < d->nfiles; i++)
        if (i < t->tables.n)
            rt_st_free(&t->file[i].st);
        else
            rt_records_close(&t->file[i].records);
    free(t->file);
    free(t);
}
