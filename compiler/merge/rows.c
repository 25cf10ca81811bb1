/* rows.c - a tensor with what adapters add to it, a piece of rows at a time, on all cores. */
#include "compiler/merge/merge.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 16 << 20, WORKERS_MAX = 64 };

/* Rows of one piece, of which each worker has some. */
typedef struct Piece {
    const Addend *add;
    double *w;            /* [rows, columns] */
    const double *length; /* by_column: those of all columns; NULL: each row's own */
    int64_t first, rows, columns;
} Piece;

typedef struct Worker {
    const Piece *p;
    int64_t begin, end;
} Worker;

static void add_row(const Piece *p, int64_t row)
{
    const Addend *a = p->add;
    double *w = p->w + row * p->columns;
    const double *left = a->left + (p->first + row) * a->rank;
    for (int64_t k = 0; k < a->rank; k++) {
        const double f = left[k], *right = a->right + k * p->columns;
        for (int64_t i = 0; i < p->columns; i++)
            w[i] += f * right[i];
    }
}

static void scale_row(const Piece *p, int64_t row)
{
    const Addend *a = p->add;
    double *w = p->w + row * p->columns, sum = 0;
    for (int64_t i = 0; !a->by_column && i < p->columns; i++)
        sum += w[i] * w[i];
    const double g = a->by_column ? 1 : a->magnitude[p->first + row] / sqrt(sum);
    for (int64_t i = 0; i < p->columns; i++)
        w[i] *= a->by_column ? a->magnitude[i] / p->length[i] : g;
}

static void *work(void *ctx)
{
    const Worker *w = ctx;
    for (int64_t row = w->begin; row < w->end; row++) {
        add_row(w->p, row);
        if (w->p->add->magnitude && (!w->p->add->by_column || w->p->length))
            scale_row(w->p, row);
    }
    return NULL;
}

static void run(const Piece *p)
{
    pthread_t thread[WORKERS_MAX];
    Worker worker[WORKERS_MAX];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int64_t n = cores < 1 ? 1 : cores > WORKERS_MAX ? WORKERS_MAX : cores;
    bool started[WORKERS_MAX] = {0};
    for (int64_t i = 0; i < n; i++)
        worker[i] = (Worker){p, p->rows * i / n, p->rows * (i + 1) / n};
    for (int64_t i = 1; i < n; i++)
        started[i] = !pthread_create(&thread[i], NULL, work, &worker[i]);
    for (int64_t i = 0; i < n; i++)
        if (!started[i])
            work(&worker[i]);
    for (int64_t i = 1; i < n; i++)
        if (started[i])
            pthread_join(thread[i], NULL);
}

/* Elements that the adapter has in place of the base's. */
static void begin_with(const Addend *a, int64_t at, int64_t n, double *piece)
{
    if (a->whole)
        memcpy(piece, a->whole + at, (size_t)n * sizeof *piece);
}

/* The lengths of all columns of W with what is added: they are known before any is scaled. */
static double *column_lengths(Session *s, const Stored *w, const Addend *a, double *piece,
                              int64_t most)
{
    const int64_t columns = w->shape[1];
    double *length = calloc((size_t)columns + 1, sizeof *length);
    for (int64_t row = 0; length && row < w->shape[0]; row += most) {
        const int64_t rows = w->shape[0] - row < most ? w->shape[0] - row : most;
        const Piece p = {.add = a, .w = piece, .first = row, .rows = rows, .columns = columns};
        if (!store_numbers(s, w, row * columns, rows * columns, piece)) {
            free(length);
            return NULL;
        }
        begin_with(a, row * columns, rows * columns, piece);
        run(&p);
        for (int64_t i = 0; i < rows * columns; i++)
            length[i % columns] += piece[i] * piece[i];
    }
    for (int64_t i = 0; length && i < columns; i++)
        length[i] = sqrt(length[i]);
    return length;
}

static bool put(Session *s, Element to, const double *from, int64_t n, FILE *out)
{
    char raw[8 * 4096];
    for (int64_t i = 0; i < n; i += 4096) {
        const int64_t k = n - i < 4096 ? n - i : 4096;
        element_put(to, from + i, k, raw);
        if (fwrite(raw, (size_t)element_bytes(to), (size_t)k, out) != (size_t)k) {
            diag_error(s->diag, (Span){0}, 543, "cannot write: %s", strerror(errno));
            return false;
        }
    }
    return true;
}

/* Bytes as they are. */
static bool copy(Session *s, const Stored *w, FILE *out)
{
    char raw[1 << 16];
    uint64_t left = w->end - w->begin;
    bool good = fseeko(w->file->in, (off_t)w->begin, SEEK_SET) == 0;
    while (good && left) {
        const size_t k = left < sizeof raw ? (size_t)left : sizeof raw;
        good = fread(raw, 1, k, w->file->in) == k && fwrite(raw, 1, k, out) == k;
        left -= k;
    }
    if (!good)
        diag_error(s->diag, (Span){0}, 543, "cannot copy '%s': %s", w->name, strerror(errno));
    return good;
}

static bool pieces(Session *s, const Stored *w, const Addend *add, size_t n, Element to, FILE *out,
                   double *piece, int64_t rows_all, int64_t columns, int64_t most)
{
    for (int64_t row = 0; row < rows_all; row += most) {
        const int64_t rows = rows_all - row < most ? rows_all - row : most;
        if (!store_numbers(s, w, row * columns, rows * columns, piece))
            return false;
        for (size_t i = 0; i < n; i++) {
            Piece p = {.add = &add[i], .w = piece, .first = row, .rows = rows, .columns = columns};
            p.length = add[i].length;
            begin_with(&add[i], row * columns, rows * columns, piece);
            if (add[i].rank)
                run(&p);
        }
        if (!put(s, to, piece, rows * columns, out))
            return false;
    }
    return true;
}

bool merge_tensor(Session *s, const Stored *w, Addend *add, size_t n, Element to, FILE *out)
{
    if (!n && to == w->element)
        return copy(s, w, out);
    const int64_t rows = w->rank == 2 ? w->shape[0] : 1,
                  columns = w->rank == 2 ? w->shape[1] : w->n;
    const int64_t fit = PIECE_BYTES / 8 / (columns > 0 ? columns : 1), most = fit < 1 ? 1 : fit;
    double *piece = calloc((size_t)((most < rows ? most : rows) * columns) + 1, sizeof *piece);
    if (!piece)
        diag_error(s->diag, (Span){0}, 620, "no memory for '%s'", w->name);
    bool good = piece;
    for (size_t i = 0; good && i < n; i++)
        if (add[i].magnitude && add[i].by_column)
            good = (add[i].length = column_lengths(s, w, &add[i], piece, most));
    good = good && pieces(s, w, add, n, to, out, piece, rows, columns, most);
    free(piece);
    return good;
}
