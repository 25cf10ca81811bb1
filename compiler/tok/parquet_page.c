/* parquet_page.c - the pages of a column, one after another, and the levels in them. */
#include "compiler/tok/parquet_parts.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PAGE_data, PAGE_index, PAGE_dictionary, PAGE_data2, HEADER_MOST = 1 << 24 };
enum { ENCODING_dictionary = 2, ENCODING_rle = 3, ENCODING_rle_dictionary = 8 };
static const int64_t PAGE_MOST = 1 << 30;

typedef struct Header {
    int64_t type, room, size, values, encoding, def_encoding, rep_encoding, defs, reps, crc;
    bool whole, packed, checked;
} Header;

bool pq_column_fail(PqColumn *c, const char *what)
{
    size_t n = c->leaf->name_length;
    return pq_fail(c->of, "row group %zu, column '%.*s': %s", c->of->group + 1,
                   (int)(n < 60 ? n : 60), c->leaf->name, what);
}

/* ---- headers ------------------------------------------------------------------------------- */

/* The header of one kind of page: where its numbers are is in `to`, by the field's id. */
static void read_inner(PqThrift *t, int type, int64_t *const *to, int n)
{
    int id = 0, inner;
    if (type != THRIFT_struct) {
        t->bad = true;
        return;
    }
    while ((inner = pq_field(t, &id)))
        if (id < n && to[id])
            *to[id] = pq_number(t, inner);
        else
            pq_skip(t, inner, 0);
}

static void read_header(PqThrift *t, Header *h)
{
    int id = 0, type;
    int64_t packed = 1;
    *h = (Header){.type = -1, .def_encoding = ENCODING_rle, .rep_encoding = ENCODING_rle};
    int64_t *const one[] = {NULL, &h->values, &h->encoding, &h->def_encoding, &h->rep_encoding};
    int64_t *const two[] = {NULL,         &h->values, NULL,     NULL,
                            &h->encoding, &h->defs,   &h->reps, &packed};
    while ((type = pq_field(t, &id))) {
        if (id <= 4) {
            h->checked |= id == 4;
            *(id == 1   ? &h->type
              : id == 2 ? &h->room
              : id == 3 ? &h->size
                        : &h->crc) = pq_number(t, type);
        } else if (id == 5) {
            read_inner(t, type, one, 5);
        } else if (id == 7) {
            read_inner(t, type, one, 3);
        } else if (id == 8) {
            read_inner(t, type, two, 8);
        } else {
            pq_skip(t, type, 0);
        }
    }
    h->packed = packed;
}

/* Statistics make a header as long as values are, so it is tried with more and more bytes. */
static bool next_header(PqColumn *c, Header *h)
{
    int64_t rest = c->end - c->at, n = 1 << 12;
    for (;; n *= 16) {
        n = n < rest ? n : rest;
        uint8_t *bytes = pq_alloc((size_t)n);
        bool read = pq_read(c->of, c->at, bytes, (size_t)n);
        PqThrift t = {bytes, bytes + n, false};
        if (read)
            read_header(&t, h);
        if (read && !t.bad)
            c->at += t.p - bytes;
        free(bytes);
        if (!read || !t.bad)
            break;
        if (n == rest || n >= HEADER_MOST)
            return pq_column_fail(c, "a page's header is damaged");
    }
    if (c->of->why[0])
        return false;
    if (h->type < 0 || h->room < 0 || h->size < 0 || h->size > c->end - c->at)
        return pq_column_fail(c, "a page is not inside of the column: the file is damaged");
    if (h->room > PAGE_MOST || h->size > PAGE_MOST)
        return pq_column_fail(c, "a page of more than 1 GB is not read");
    if (h->values < 0 || h->values > INT32_MAX)
        return pq_column_fail(c, "a page's header is damaged");
    return true;
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* The page's bytes unpacked, of which the first `plain` are not packed. NULL on an error. */
static uint8_t *page_bytes(PqColumn *c, const Header *h, int64_t plain, bool packed)
{
    size_t n = (size_t)h->size, room = (size_t)h->room, head = (size_t)plain;
    uint8_t *raw = pq_alloc(n);
    if (!pq_read(c->of, c->at, raw, n)) {
        free(raw);
        return NULL;
    }
    c->at += h->size;
    uint8_t *page = NULL;
    if (h->checked && (uint32_t)crc32(0, raw, (uInt)n) != (uint32_t)h->crc)
        pq_column_fail(c, "a page's check sum is not that of its bytes: the file is damaged");
    else if (head > n || head > room)
        pq_column_fail(c, "a page's levels are not inside of it: the file is damaged");
    else {
        page = pq_alloc(room);
        memcpy(page, raw, head);
        if (room > head || n > head)
            if (!pq_unpack(packed ? c->codec : 0, raw + head, n - head, page + head, room - head)) {
                pq_column_fail(c, "a page's bytes are not those that its header says: the file is "
                                  "damaged");
                free(page);
                page = NULL;
            }
    }
    free(raw);
    return page;
}

static bool dictionary(PqColumn *c, const Header *h)
{
    if (c->dict || (h->encoding && h->encoding != ENCODING_dictionary))
        return pq_column_fail(c, "its dictionary is no plain one, or is there twice");
    c->dict = page_bytes(c, h, 0, true);
    if (!c->dict)
        return false;
    if (h->values > h->room || c->leaf->type == PQ_BOOLEAN)
        return pq_column_fail(c, "its dictionary is damaged");
    c->entries = (size_t)h->values;
    c->entry = pq_alloc(c->entries * sizeof *c->entry);
    c->p = c->dict;
    c->stop = c->dict + h->room;
    for (size_t i = 0; i < c->entries; i++)
        if (!pq_plain(c, &c->entry[i]))
            return false;
    return true;
}

/* ---- levels -------------------------------------------------------------------------------- */

/* Levels behind their length, or of `n` bytes. */
static bool levels(PqColumn *c, PqRuns *r, int most, int64_t n)
{
    *r = (PqRuns){0};
    if (!most && n <= 0)
        return true;
    if (n < 0) {
        if (c->stop - c->p < 4)
            return pq_column_fail(c, "a page ends early");
        n = pq_u32(c->p);
        c->p += 4;
    }
    if (n > c->stop - c->p)
        return pq_column_fail(c, "a page's levels are not inside of it: the file is damaged");
    *r = (PqRuns){.p = c->p, .end = c->p + n, .width = pq_width((uint32_t)most)};
    c->p += n;
    return true;
}

static bool data(PqColumn *c, const Header *h)
{
    bool two = h->type == PAGE_data2;
    const PqNode *leaf = c->leaf;
    if (two && (h->defs < 0 || h->reps < 0 || h->defs > h->room || h->reps > h->room))
        return pq_column_fail(c, "a page's levels are not inside of it: the file is damaged");
    if (h->values > c->left)
        return pq_column_fail(c, "its pages have more values than it: the file is damaged");
    if ((leaf->def && h->def_encoding != ENCODING_rle) ||
        (leaf->rep && h->rep_encoding != ENCODING_rle))
        return pq_column_fail(c, "levels that are encoded as BIT_PACKED are not read");
    free(c->page);
    c->page = page_bytes(c, h, two ? h->defs + h->reps : 0, !two || h->packed);
    if (!c->page)
        return false;
    c->p = c->page;
    c->stop = c->page + h->room;
    c->of_page = (uint32_t)h->values;
    c->left -= h->values;
    c->encoding = h->encoding == ENCODING_dictionary     ? ENCODING_rle_dictionary
                  : h->encoding >= 0 && h->encoding < 10 ? (int)h->encoding
                                                         : 10;
    return levels(c, &c->reps, leaf->rep, two ? h->reps : -1) &&
           levels(c, &c->defs, leaf->def, two ? h->defs : -1) && (!h->values || pq_values_begin(c));
}

static bool next_page(PqColumn *c)
{
    Header h;
    if (!next_header(c, &h))
        return false;
    if (h.type == PAGE_dictionary)
        return dictionary(c, &h);
    if (h.type == PAGE_data || h.type == PAGE_data2)
        return data(c, &h);
    c->at += h.size; /* of an index */
    return true;
}

bool pq_peek(PqColumn *c)
{
    while (!c->ready && !c->ended && !c->of_page) {
        if (!c->left)
            c->ended = true;
        else if (c->at >= c->end)
            return pq_column_fail(c, "it has fewer values than it says: the file is damaged");
        else if (!next_page(c))
            return false;
    }
    if (c->ready || c->ended)
        return true;
    c->rep = c->def = 0;
    if ((c->leaf->rep && !pq_runs(&c->reps, &c->rep)) ||
        (c->leaf->def && !pq_runs(&c->defs, &c->def)) || c->rep > (uint32_t)c->leaf->rep ||
        c->def > (uint32_t)c->leaf->def)
        return pq_column_fail(c, "a page's levels are damaged");
    c->of_page--;
    return c->ready = true;
}

void pq_column_begin(PqColumn *c, const PqChunk *chunk)
{
    Parquet *of = c->of;
    const PqNode *leaf = c->leaf;
    pq_column_free(c);
    *c = (PqColumn){.of = of, .leaf = leaf, .codec = chunk->codec, .left = chunk->values};
    c->at = chunk->at;
    c->end = chunk->at + chunk->size;
}

void pq_column_free(PqColumn *c)
{
    free(c->page);
    free(c->dict);
    free(c->entry);
    free(c->before);
    c->page = c->dict = c->before = NULL;
    c->entry = NULL;
}
