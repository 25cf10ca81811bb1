/* parquet_meta.c - the footer of a Parquet file: its schema, and where its columns are. */
#include "compiler/tok/parquet_parts.h"

#include <stdlib.h>
#include <string.h>

enum { CONVERTED_map = 1, CONVERTED_list = 3, CONVERTED_decimal = 5, CONVERTED_enum = 4 };
enum { CONVERTED_json = 19, CONVERTED_uint8 = 11, CONVERTED_uint64 = 14 };

/* ---- schema -------------------------------------------------------------------------------- */

/* A union of which the field's number is the type. */
static void read_logical(PqThrift *t, PqNode *n)
{
    int id = 0, type, inner, of;
    while ((type = pq_field(t, &id))) {
        n->text |= id == 1 || id == 4 || id == 12;
        n->map |= id == 2;
        n->list |= id == 3;
        n->known &= id != 5 && id != 15;
        if (id != 10 || type != THRIFT_struct) {
            pq_skip(t, type, 0);
            continue;
        }
        for (of = 0; (inner = pq_field(t, &of));)
            if (of == 2)
                n->unsign = !pq_number(t, inner);
            else
                pq_skip(t, inner, 0);
    }
}

static int small(PqThrift *t, int type, int most)
{
    int64_t v = pq_number(t, type);
    if (v < 0 || v > most)
        t->bad = true;
    return t->bad ? 0 : (int)v;
}

static void read_node(PqThrift *t, PqNode *n)
{
    int id = 0, type;
    *n = (PqNode){.name = "", .type = -1, .converted = -1, .known = true};
    while ((type = pq_field(t, &id))) {
        if (id == 1)
            n->type = small(t, type, PQ_FIXED);
        else if (id == 3)
            n->repetition = small(t, type, PQ_REPEATED);
        else if (id == 5)
            n->children = small(t, type, PQ_NODES);
        else if (id == 6)
            n->converted = small(t, type, 255);
        else if (id == 10 && type == THRIFT_struct)
            read_logical(t, n);
        else if (id == 4 && type == THRIFT_binary) {
            n->name_length = pq_varint(t);
            n->name = (const char *)t->p;
            if (n->name_length > (size_t)(t->end - t->p))
                t->bad = true;
            else
                t->p += n->name_length;
        } else
            pq_skip(t, type, 0);
    }
    int c = n->converted;
    n->map |= c == CONVERTED_map || c == CONVERTED_map + 1;
    n->list |= c == CONVERTED_list;
    n->text |= !c || c == CONVERTED_enum || c == CONVERTED_json;
    n->unsign |= c >= CONVERTED_uint8 && c <= CONVERTED_uint64;
    n->known &= c != CONVERTED_decimal;
}

static bool read_schema(Parquet *p, PqThrift *t, int type)
{
    p->nodes = pq_list(t, type, THRIFT_struct);
    if (p->nodes > PQ_NODES)
        return pq_fail(p, "has a schema of %zu parts: at most %d are built", p->nodes, PQ_NODES);
    free(p->node);
    p->node = pq_alloc(p->nodes * sizeof *p->node);
    for (size_t i = 0; i < p->nodes; i++)
        read_node(t, &p->node[i]);
    return true;
}

static bool leaf_is_read(Parquet *p, const PqNode *n)
{
    static const char *const what[] = {"INT96", "FIXED_LEN_BYTE_ARRAY", "a decimal or half"};
    int w = n->type == PQ_INT96 ? 0 : n->type == PQ_FIXED ? 1 : !n->known ? 2 : -1;
    return w < 0 || pq_fail(p,
                            "column '%.*s' is of type %s, which is not read: write the file "
                            "without it, or make .jsonl of it",
                            (int)(n->name_length < 60 ? n->name_length : 60), n->name, what[w]);
}

/* Gives node i and all below it their levels and leaves. */
static bool place(Parquet *p, size_t i, int def, int rep, int depth)
{
    PqNode *n = &p->node[i];
    if (depth > PQ_DEPTH)
        return pq_fail(p, "has a schema of more than %d levels", PQ_DEPTH);
    if (!pq_utf8((const uint8_t *)n->name, n->name_length) || memchr(n->name, 0, n->name_length))
        return pq_fail(p, "has a column whose name is no text");
    n->def = def += depth && n->repetition != PQ_REQUIRED;
    n->rep = rep += depth && n->repetition == PQ_REPEATED;
    n->leaf = p->leaves;
    n->behind = i + 1;
    if (!n->children) {
        n->leaves = 1;
        p->leaves++;
        return (depth && n->type >= 0) ? leaf_is_read(p, n)
                                       : pq_fail(p, "has a group without columns in its schema");
    }
    n->type = -1;
    for (int c = 0; c < n->children; c++) {
        if (n->behind >= p->nodes)
            return pq_fail(p, "has a schema that is not whole");
        size_t child = n->behind;
        if (!place(p, child, def, rep, depth + 1))
            return false;
        n->behind = p->node[child].behind;
    }
    n->leaves = p->leaves - n->leaf;
    if (n->map)
        return pq_fail(p,
                       "column '%.*s' is a map, which is not read: write the file without it, "
                       "or make .jsonl of it",
                       (int)(n->name_length < 60 ? n->name_length : 60), n->name);
    n->list &= n->children == 1 && n->repetition != PQ_REPEATED &&
               p->node[i + 1].repetition == PQ_REPEATED;
    return true;
}

/* ---- row groups ---------------------------------------------------------------------------- */

static void read_column_meta(PqThrift *t, PqChunk *c, int *kind)
{
    int id = 0, type;
    int64_t v, dict = 0;
    while ((type = pq_field(t, &id))) {
        if (id != 1 && id != 4 && id != 5 && id != 7 && id != 9 && id != 11) {
            pq_skip(t, type, 0);
            continue;
        }
        v = pq_number(t, type);
        if (id == 1)
            *kind = (int)v;
        else if (id == 4)
            c->codec = v >= 0 && v < 8 ? (int)v : 8;
        else
            *(id == 5 ? &c->values : id == 7 ? &c->size : id == 9 ? &c->at : &dict) = v;
    }
    if (dict > 0 && dict < c->at)
        c->at = dict;
}

static bool read_chunk(Parquet *p, PqThrift *t, PqChunk *c, int leaf)
{
    static const char *const codec[] = {"", "", "", "LZO", "BROTLI", "LZ4", "", "LZ4_RAW", "?"};
    int id = 0, type, kind = -1;
    bool meta = false, elsewhere = false, secret = false;
    *c = (PqChunk){0};
    while ((type = pq_field(t, &id))) {
        elsewhere |= id == 1;
        secret |= id == 8 || id == 9;
        if (id == 3 && type == THRIFT_struct && !meta) {
            read_column_meta(t, c, &kind);
            meta = true;
        } else
            pq_skip(t, type, 0);
    }
    if (t->bad)
        return true; /* is told later */
    if (secret || !meta)
        return pq_fail(p, "is encrypted, which is not read: write it without encryption");
    if (elsewhere)
        return pq_fail(p, "has columns in other files, which is not read");
    for (size_t i = 1, at = 0; i < p->nodes; i++)
        if (p->node[i].type >= 0 && (int)at++ == leaf && p->node[i].type != kind)
            return pq_fail(p, "has a column of another type than its schema says");
    if (codec[c->codec][0])
        return pq_fail(p,
                       "is packed with %s, which is not read: write it with ZSTD, SNAPPY or GZIP",
                       codec[c->codec]);
    if (c->at < 4 || c->size < 0 || c->values < 0 || c->at > p->data_end ||
        c->size > p->data_end - c->at)
        return pq_fail(p, "has a column that is not inside of the file: it is damaged");
    return true;
}

static bool read_group(Parquet *p, PqThrift *t, size_t g)
{
    int id = 0, type;
    bool columns = false;
    while ((type = pq_field(t, &id))) {
        if (id == 1 && !columns) {
            size_t n = pq_list(t, type, THRIFT_struct);
            if (!t->bad && n != (size_t)p->leaves)
                return pq_fail(p, "has a row group of %zu columns, and %d in its schema", n,
                               p->leaves);
            for (size_t i = 0; i < n; i++)
                if (!read_chunk(p, t, &p->chunk[g * n + i], (int)i))
                    return false;
            columns = true;
        } else if (id == 3)
            p->rows[g] = pq_number(t, type);
        else
            pq_skip(t, type, 0);
    }
    return t->bad || (columns && p->rows[g] >= 0) || pq_fail(p, "has a row group without rows");
}

static bool read_groups(Parquet *p, PqThrift *t, int type)
{
    if (!p->nodes || p->chunk || t->bad)
        return pq_fail(p, "has a damaged footer");
    if (!place(p, 0, 0, 0, 0))
        return false;
    size_t n = pq_list(t, type, THRIFT_struct);
    if (n > SIZE_MAX / sizeof(PqChunk) / (size_t)p->leaves ||
        n * (size_t)p->leaves > (size_t)(t->end - t->p))
        return pq_fail(p, "has a damaged footer");
    p->chunk = calloc(n * (size_t)p->leaves + 1, sizeof *p->chunk);
    p->rows = calloc(n + 1, sizeof *p->rows);
    if (!p->chunk || !p->rows)
        abort();
    for (p->groups = 0; p->groups < n && !t->bad; p->groups++)
        if (!read_group(p, t, p->groups))
            return false;
    return true;
}

static bool read_file(Parquet *p, PqThrift *t)
{
    int id = 0, type;
    bool good = true;
    while (good && (type = pq_field(t, &id))) {
        if (id == 2 && !p->nodes)
            good = read_schema(p, t, type);
        else if (id == 4)
            good = read_groups(p, t, type);
        else if (id == 8)
            good = pq_fail(p, "is encrypted, which is not read: write it without encryption");
        else
            pq_skip(t, type, 0);
    }
    return good && ((!t->bad && p->chunk) || pq_fail(p, "has a damaged footer"));
}

bool pq_footer(Parquet *p)
{
    uint8_t tail[8], head[4];
    if (p->size < 12 || !pq_read(p, p->size - 8, tail, 8) || !pq_read(p, 0, head, 4))
        return p->why[0] ? false : pq_fail(p, "is no Parquet file");
    if (memcmp(tail + 4, "PARE", 4) == 0)
        return pq_fail(p, "is encrypted, which is not read: write it without encryption");
    if (memcmp(tail + 4, "PAR1", 4) != 0 || memcmp(head, "PAR1", 4) != 0)
        return pq_fail(p, "is no Parquet file, or ends early");
    uint32_t n = pq_u32(tail);
    if (n > p->size - 12)
        return pq_fail(p, "has a footer of %u bytes and is of %lld: it is damaged", n,
                       (long long)p->size);
    p->data_end = p->size - 8 - n;
    p->footer = pq_alloc(n);
    if (!pq_read(p, p->data_end, p->footer, n))
        return false;
    PqThrift t = {p->footer, p->footer + n, false};
    return read_file(p, &t);
}
