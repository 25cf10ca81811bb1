/* parquet.c - see parquet.h. A row is put together from the columns by their levels, as Dremel
 * does: the definition level says how many of the nodes down to the value are there, the
 * repetition level which list goes on. All columns of a group are asked, and have to agree. */
#include "compiler/tok/parquet_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const size_t ROW_MOST = (size_t)1 << 30;

bool pq_fail(Parquet *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!p->why[0])
        vsnprintf(p->why, sizeof p->why, fmt, ap);
    va_end(ap);
    return false;
}

void *pq_alloc(size_t n)
{
    void *p = malloc(n + 1);
    if (!p)
        abort();
    return p;
}

bool pq_read(Parquet *p, int64_t at, void *to, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t k = pread(p->fd, (char *)to + got, n - got, (off_t)at + (off_t)got);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return pq_fail(p, "%s", k ? strerror(errno) : "is shorter than it was");
        got += (size_t)k;
    }
    return true;
}

/* ---- text ---------------------------------------------------------------------------------- */

static bool put(Parquet *p, const char *text, size_t n)
{
    if (n > ROW_MOST - p->n)
        return pq_fail(p, "a record of more than 1 GB");
    if (p->cap - p->n < n) {
        p->cap = 2 * (p->n + n) + 256;
        p->text = realloc(p->text, p->cap);
        if (!p->text)
            abort();
    }
    memcpy(p->text + p->n, text, n);
    p->n += n;
    return true;
}

static bool put_text(Parquet *p, const char *text, size_t n)
{
    size_t from = 0;
    char escape[8];
    if (!put(p, "\"", 1))
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)text[i];
        if (b >= 0x20 && b != '"' && b != '\\')
            continue;
        snprintf(escape, sizeof escape, b < 0x20 ? "\\u%04x" : "\\%c", b);
        if (!put(p, text + from, i - from) || !put(p, escape, strlen(escape)))
            return false;
        from = i + 1;
    }
    return put(p, text + from, n - from) && put(p, "\"", 1);
}

bool pq_utf8(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        int k = p[i] < 0x80   ? 1
                : p[i] < 0xc2 ? 0
                : p[i] < 0xe0 ? 2
                : p[i] < 0xf0 ? 3
                : p[i] < 0xf5 ? 4
                              : 0;
        if (!k || (size_t)k > n - i)
            return false;
        for (int j = 1; j < k; j++)
            if ((p[i + (size_t)j] & 0xc0) != 0x80)
                return false;
        if ((p[i] == 0xe0 && p[i + 1] < 0xa0) || (p[i] == 0xed && p[i + 1] > 0x9f) ||
            (p[i] == 0xf0 && p[i + 1] < 0x90) || (p[i] == 0xf4 && p[i + 1] > 0x8f))
            return false;
        i += (size_t)k;
    }
    return true;
}

/* A number with a fraction stays one, as in JSON that Python writes. */
static bool put_real(Parquet *p, double v, int digits)
{
    char text[40];
    if (!isfinite(v))
        return put(p, "null", 4);
    snprintf(text, sizeof text - 2, "%.*g", digits, v);
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    return put(p, text, strlen(text));
}

static bool put_value(Parquet *p, PqColumn *c)
{
    const PqNode *n = c->leaf;
    PqValue v;
    char text[32];
    double real;
    float half;
    uint32_t low;
    if (!pq_value(c, &v))
        return false;
    low = (uint32_t)v.bits;
    switch (n->type) {
    case PQ_BOOLEAN:
        return v.bits ? put(p, "true", 4) : put(p, "false", 5);
    case PQ_FLOAT:
        memcpy(&half, &low, 4);
        return put_real(p, (double)half, 9);
    case PQ_DOUBLE:
        memcpy(&real, &v.bits, 8);
        return put_real(p, real, 17);
    case PQ_BYTES:
        if (pq_utf8(v.p, v.n))
            return put_text(p, (const char *)v.p, v.n);
        return n->text ? pq_column_fail(c, "a text is no UTF-8") : put(p, "null", 4);
    default:
        if (n->type == PQ_INT32)
            v.bits = n->unsign ? low : (uint64_t)(int64_t)(int32_t)low;
        snprintf(text, sizeof text, n->unsign ? "%" PRIu64 : "%" PRId64, v.bits);
        return put(p, text, strlen(text));
    }
}

/* ---- rows ---------------------------------------------------------------------------------- */

/* Whether the node is there in the row, at the place of all columns below it. */
static bool present(Parquet *p, const PqNode *n, bool *there)
{
    for (int i = 0; i < n->leaves; i++) {
        PqColumn *c = &p->column[n->leaf + i];
        if (!pq_peek(c))
            return false;
        bool here = c->ready && c->def >= (uint32_t)n->def;
        if (!c->ready || (i && here != *there))
            return pq_column_fail(c, "its levels are not those of its neighbours: the file is "
                                     "damaged");
        *there = here;
    }
    return true;
}

/* Whether the list that the node repeats in goes on. */
static bool again(Parquet *p, const PqNode *n, bool *more)
{
    for (int i = 0; i < n->leaves; i++) {
        PqColumn *c = &p->column[n->leaf + i];
        if (!pq_peek(c))
            return false;
        bool goes = c->ready && c->rep >= (uint32_t)n->rep;
        if ((i && goes != *more) || (goes && c->rep > (uint32_t)n->rep))
            return pq_column_fail(c, "its levels are not those of its neighbours: the file is "
                                     "damaged");
        *more = goes;
    }
    return true;
}

static void take_nulls(Parquet *p, const PqNode *n)
{
    for (int i = 0; i < n->leaves; i++)
        p->column[n->leaf + i].ready = false;
}

static bool put_node(Parquet *p, const PqNode *n);

static bool put_object(Parquet *p, const PqNode *n)
{
    const PqNode *child = n + 1;
    for (int i = 0; i < n->children; i++) {
        if (!put(p, i ? "," : "{", 1) || !put_text(p, child->name, child->name_length) ||
            !put(p, ":", 1) || !put_node(p, child))
            return false;
        child = p->node + child->behind;
    }
    return put(p, "}", 1);
}

static bool named(const PqNode *n, const char *name, size_t k, const char *more)
{
    return n->name_length == k + strlen(more) && memcmp(n->name, name, k) == 0 &&
           memcmp(n->name + k, more, strlen(more)) == 0;
}

/* The group between a list and its items, which is none of old writers (parquet-format's rules). */
static bool between(const PqNode *list, const PqNode *n)
{
    return n->children == 1 && !named(n, "array", 5, "") &&
           !named(n, list->name, list->name_length, "_tuple");
}

static bool put_there(Parquet *p, const PqNode *n)
{
    if (n->children)
        return put_object(p, n);
    PqColumn *c = &p->column[n->leaf];
    c->ready = false;
    return put_value(p, c);
}

/* The items of a list, of which `n` is the node that repeats. */
static bool put_items(Parquet *p, const PqNode *n, bool inner)
{
    bool there = false, more = true;
    if (!present(p, n, &there))
        return false;
    if (!there) {
        take_nulls(p, n);
        return put(p, "[]", 2);
    }
    for (bool first = true; more; first = false)
        if (!put(p, first ? "[" : ",", 1) || !present(p, n, &there) || !there ||
            !(inner ? put_node(p, n + 1) : put_there(p, n)) || !again(p, n, &more))
            return pq_fail(p, "a list's levels are damaged");
    return put(p, "]", 1);
}

static bool put_node(Parquet *p, const PqNode *n)
{
    bool there = false;
    if (n->repetition == PQ_REPEATED)
        return put_items(p, n, false);
    if (n->repetition == PQ_OPTIONAL) {
        if (!present(p, n, &there))
            return false;
        if (!there) {
            take_nulls(p, n);
            return put(p, "null", 4);
        }
    } else if (!present(p, n, &there) || !there) {
        return pq_fail(p, "a column's levels are damaged");
    }
    return n->list ? put_items(p, n + 1, between(n, n + 1)) : put_there(p, n);
}

static bool put_row(Parquet *p)
{
    p->n = 0;
    for (int i = 0; i < p->leaves; i++) {
        PqColumn *c = &p->column[i];
        if (!pq_peek(c))
            return false;
        if (!c->ready || c->rep)
            return pq_column_fail(c, "it has not as many rows as its group: the file is damaged");
    }
    return put_object(p, p->node);
}

/* ---- row groups ---------------------------------------------------------------------------- */

static void open_group(Parquet *p)
{
    for (int i = 0; i < p->leaves; i++)
        pq_column_begin(&p->column[i], &p->chunk[p->group * (size_t)p->leaves + (size_t)i]);
    p->opened = true;
    p->row = 0;
}

static bool close_group(Parquet *p)
{
    for (int i = 0; i < p->leaves && p->opened; i++)
        if (!pq_peek(&p->column[i]) ||
            (!p->column[i].ended && !pq_column_fail(&p->column[i], "it has more rows than its "
                                                                   "group: the file is damaged")))
            return false;
    p->opened = false;
    p->group++;
    return true;
}

ParquetGot parquet_next(Parquet *p, const char **text, size_t *n)
{
    while (!p->why[0] && p->group < p->groups) {
        if (!p->opened)
            open_group(p);
        if (p->row == p->rows[p->group]) {
            if (!close_group(p))
                return PARQUET_failed;
            continue;
        }
        if (!put_row(p))
            return PARQUET_failed;
        p->row++;
        *text = p->text;
        *n = p->n;
        return PARQUET_row;
    }
    return p->why[0] ? PARQUET_failed : PARQUET_end;
}

/* Whole groups are passed by; rows of the last one are read. */
bool parquet_skip(Parquet *p, int64_t rows)
{
    const char *text;
    size_t n;
    while (!p->opened && p->group < p->groups && rows >= p->rows[p->group])
        rows -= p->rows[p->group++];
    while (rows-- > 0)
        if (parquet_next(p, &text, &n) != PARQUET_row)
            return pq_fail(p, "is shorter than it was");
    return true;
}

Parquet *parquet_open(int fd)
{
    struct stat st;
    Parquet *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    p->fd = fd;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        pq_fail(p, "is no regular file, and Parquet is read from its end");
        return p;
    }
    p->size = st.st_size;
    if (!pq_footer(p))
        return p;
    p->column = calloc((size_t)p->leaves, sizeof *p->column);
    if (!p->column)
        abort();
    for (size_t i = 1, at = 0; i < p->nodes; i++)
        if (!p->node[i].children) {
            p->column[at].of = p;
            p->column[at++].leaf = &p->node[i];
        }
    if (p->node[0].behind != p->nodes)
        pq_fail(p, "has a schema that is not whole");
    return p;
}

const char *parquet_why(const Parquet *p)
{
    return p->why;
}

void parquet_close(Parquet *p)
{
    for (int i = 0; p && p->column && i < p->leaves; i++)
        pq_column_free(&p->column[i]);
    if (!p)
        return;
    free(p->column);
    free(p->chunk);
    free(p->rows);
    free(p->node);
    free(p->footer);
    free(p->text);
    free(p);
}
