/* tok_source.c - see tok_source.h. Bytes go through one buffer that holds a record; files that are
 * packed are unpacked by zlib or libzstd on the way into it. Rows of Parquet come from parquet.h;
 * their places are their numbers. */
#include "compiler/tok/tok_source.h"
#include "base/open.h"
#include "compiler/tok/parquet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { PART = 1 << 20 };
static const size_t RECORD_MOST = (size_t)1 << 30, TEXT_MOST = ((size_t)1 << 32) - 2 * PART;

struct Source {
    SourceForm form;
    FILE *file;
    gzFile gz;
    ZSTD_DStream *zst;
    Parquet *rows;
    char *packed; /* for zstd */
    ZSTD_inBuffer in;
    size_t frame; /* zstd: not 0 inside of a frame */
    char *buffer;
    size_t cap, begin, end; /* what is read and not yet taken */
    int64_t at;             /* of buffer[begin] */
    int64_t number;
    bool ended;  /* nothing is behind the buffer */
    bool opened; /* the array's bracket is behind us */
    bool closed; /* and its end */
    char why[160];
};

static bool ends(const char *path, size_t n, const char *with)
{
    size_t k = strlen(with);
    return n > k && memcmp(path + n - k, with, k) == 0;
}

/* The length of a path without the ending of a packed file. */
static size_t unpacked_length(const char *path, bool *gz, bool *zst)
{
    size_t n = strlen(path);
    *gz = ends(path, n, ".gz");
    *zst = ends(path, n, ".zst");
    return *gz ? n - 3 : *zst ? n - 4 : n;
}

SourceForm tok_source_form(const char *path)
{
    bool gz, zst;
    size_t n = unpacked_length(path, &gz, &zst);
    return ends(path, n, ".jsonl") || ends(path, n, ".ndjson") ? SOURCE_lines
           : ends(path, n, ".json")                            ? SOURCE_array
           : ends(path, n, ".parquet")                         ? SOURCE_rows
                                                               : SOURCE_text;
}

static bool fail(Source *s, const char *why)
{
    snprintf(s->why, sizeof s->why, "%s", why);
    return false;
}

Source *tok_source_open(const char *path, const char **why)
{
    bool gz, zst;
    size_t n = unpacked_length(path, &gz, &zst);
    if (ends(path, n, ".parquet") && (gz || zst)) {
        *why = "is Parquet in a packed file, which is not read: unpack it";
        return NULL;
    }
    FILE *f = open_file(path);
    if (!f) {
        *why = open_error();
        return NULL;
    }
    Source *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->form = tok_source_form(path);
    s->file = f;
    if (s->form == SOURCE_rows)
        s->rows = parquet_open(fileno(f));
    if (gz) {
        int fd = dup(fileno(f));
        s->gz = fd < 0 ? NULL : gzdopen(fd, "rb");
        if (!s->gz)
            abort();
        gzbuffer(s->gz, 1 << 18);
    }
    if (zst) {
        s->zst = ZSTD_createDStream();
        s->packed = malloc(ZSTD_DStreamInSize());
        if (!s->zst || !s->packed)
            abort();
    }
    return s;
}

void tok_source_close(Source *s)
{
    if (!s)
        return;
    if (s->gz)
        gzclose(s->gz);
    ZSTD_freeDStream(s->zst);
    parquet_close(s->rows);
    fclose(s->file);
    free(s->packed);
    free(s->buffer);
    free(s);
}

/* ---- bytes --------------------------------------------------------------------------------- */

static bool read_gz(Source *s, char *to, size_t room, size_t *n)
{
    int got = gzread(s->gz, to, (unsigned)room), error = Z_OK;
    *n = got > 0 ? (size_t)got : 0;
    const char *why = gzerror(s->gz, &error);
    if (got < 0 || (got == 0 && error != Z_OK))
        return fail(s, error == Z_BUF_ERROR ? "the .gz ends early" : why);
    if (got > 0 && gzdirect(s->gz))
        return fail(s, "is no gzip file");
    return true;
}

static bool read_zst(Source *s, char *to, size_t room, size_t *n)
{
    ZSTD_outBuffer out = {to, room, 0};
    while (!out.pos) {
        if (s->in.pos == s->in.size) {
            size_t got = fread(s->packed, 1, ZSTD_DStreamInSize(), s->file);
            if (ferror(s->file))
                return fail(s, strerror(errno));
            if (!got)
                break;
            s->in = (ZSTD_inBuffer){s->packed, got, 0};
        }
        s->frame = ZSTD_decompressStream(s->zst, &out, &s->in);
        if (ZSTD_isError(s->frame))
            return fail(s, ZSTD_getErrorName(s->frame));
    }
    *n = out.pos;
    return out.pos || !s->frame || fail(s, "the .zst ends early");
}

/* Reads more behind what there is. False on an error; at the end of the file `ended` is set. */
static bool more(Source *s)
{
    size_t n = 0, have = s->end - s->begin;
    bool good = true;
    if (have > (s->form == SOURCE_text ? TEXT_MOST : RECORD_MOST))
        return fail(s, s->form == SOURCE_text ? "a text of more than 4 GB"
                                              : "a record of more than 1 GB");
    if (s->begin) {
        memmove(s->buffer, s->buffer + s->begin, have);
        s->begin = 0;
        s->end = have;
    }
    if (s->cap - have < PART) {
        s->cap = s->cap * 2 > have + PART ? s->cap * 2 : have + PART;
        s->buffer = realloc(s->buffer, s->cap);
        if (!s->buffer)
            abort();
    }
    if (s->gz)
        good = read_gz(s, s->buffer + have, PART, &n);
    else if (s->zst)
        good = read_zst(s, s->buffer + have, PART, &n);
    else
        n = fread(s->buffer + have, 1, PART, s->file);
    if (!s->gz && !s->zst && ferror(s->file))
        good = fail(s, strerror(errno));
    s->end += n;
    s->ended = !n;
    return good;
}

static void take(Source *s, size_t n)
{
    s->begin += n;
    s->at += (int64_t)n;
}

bool tok_source_go(Source *s, int64_t at, int64_t number)
{
    s->number = number;
    s->opened = at > 0;
    if (s->rows) {
        s->at = number;
        return parquet_skip(s->rows, number);
    }
    if (at && !s->gz && !s->zst) {
        s->at = at;
        return !fseeko(s->file, (off_t)at, SEEK_SET) || fail(s, strerror(errno));
    }
    while (s->at < at) {
        if (s->begin == s->end && (!more(s) || s->ended))
            return s->why[0] ? false : fail(s, "is shorter than it was");
        size_t have = s->end - s->begin;
        take(s, (int64_t)have < at - s->at ? have : (size_t)(at - s->at));
    }
    return true;
}

/* ---- records ------------------------------------------------------------------------------- */

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static SourceGot next_line(Source *s, const char **text, size_t *n)
{
    size_t seen = 0;
    for (;;) {
        const char *from = s->buffer + s->begin;
        size_t have = s->end - s->begin;
        const char *end = have > seen ? memchr(from + seen, '\n', have - seen) : NULL;
        if (!end && !s->ended) {
            seen = have;
            if (!more(s))
                return SOURCE_failed;
            continue;
        }
        size_t size = end ? (size_t)(end - from) : have, skip = 0;
        if (!end && !have)
            return SOURCE_end;
        take(s, size + (end != NULL));
        s->number++;
        seen = 0;
        while (skip < size && blank(from[skip]))
            skip++;
        if (skip == size)
            continue;
        *text = from;
        *n = size;
        return SOURCE_record;
    }
}

/* The first byte that is no white space, or 0 at the end; -1 after an error. */
static int first_byte(Source *s)
{
    for (;;) {
        while (s->begin < s->end && blank(s->buffer[s->begin]))
            take(s, 1);
        if (s->begin < s->end)
            return (unsigned char)s->buffer[s->begin];
        if (s->ended)
            return 0;
        if (!more(s))
            return -1;
    }
}

/* How many bytes of an object or a list there are from the buffer's beginning on; 0: it does not
 * end.
 */
static size_t value_length(Source *s)
{
    size_t i = 0;
    int depth = 0;
    bool text = false;
    for (;;) {
        for (; i < s->end - s->begin; i++) {
            char c = s->buffer[s->begin + i];
            if (text && c == '\\') {
                if (i + 1 == s->end - s->begin)
                    break; /* what it escapes is not read yet */
                i++;
            } else if (c == '"') {
                text = !text;
            } else if (!text && (c == '{' || c == '[')) {
                depth++;
            } else if (!text && (c == '}' || c == ']') && --depth == 0) {
                return i + 1;
            }
        }
        if (s->ended || !more(s))
            return 0;
    }
}

static SourceGot array_failed(Source *s, const char *why)
{
    if (!s->why[0])
        fail(s, why);
    return SOURCE_failed;
}

static SourceGot array_end(Source *s)
{
    take(s, 1);
    s->closed = true;
    int c = first_byte(s);
    return c ? array_failed(s, "something follows the array") : SOURCE_end;
}

static SourceGot next_item(Source *s, const char **text, size_t *n)
{
    int c = first_byte(s);
    bool first = !s->opened;
    if (s->closed)
        return SOURCE_end;
    if (first) {
        if (c != '[')
            return array_failed(s, c == '{' ? "is no array of JSON: a file of a record a line is "
                                              "named .jsonl"
                                            : "is no array of JSON");
        take(s, 1);
        s->opened = true;
        c = first_byte(s);
    }
    if (c == ']')
        return array_end(s);
    if (!first || s->number) {
        if (c != ',')
            return array_failed(s, "',' or ']' is expected behind a record");
        take(s, 1);
        c = first_byte(s);
    }
    s->number++;
    if (c != '{')
        return array_failed(s, "a record is no JSON object");
    size_t size = value_length(s);
    if (!size)
        return array_failed(s, "the file ends inside of a record");
    *text = s->buffer + s->begin;
    *n = size;
    take(s, size);
    return SOURCE_record;
}

static SourceGot whole(Source *s, const char **text, size_t *n)
{
    if (s->closed)
        return SOURCE_end;
    while (!s->ended)
        if (!more(s))
            return SOURCE_failed;
    s->closed = true;
    s->number = 1;
    *text = s->buffer + s->begin;
    *n = s->end - s->begin;
    take(s, *n);
    return SOURCE_record;
}

static SourceGot next_row(Source *s, const char **text, size_t *n)
{
    ParquetGot got = parquet_next(s->rows, text, n);
    if (got == PARQUET_row)
        s->at = ++s->number;
    return got == PARQUET_row ? SOURCE_record : got == PARQUET_end ? SOURCE_end : SOURCE_failed;
}

/* Passes over the mark that some editors put before UTF-8. False: the file cannot be read. */
static bool pass_mark(Source *s)
{
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    while (s->end - s->begin < sizeof mark && !s->ended)
        if (!more(s))
            return false;
    if (s->end - s->begin >= sizeof mark && !memcmp(s->buffer + s->begin, mark, sizeof mark))
        take(s, sizeof mark);
    return true;
}

SourceGot tok_source_next(Source *s, const char **text, size_t *n)
{
    const bool json = s->form == SOURCE_lines || s->form == SOURCE_array;
    if (json && !s->at && !pass_mark(s))
        return SOURCE_failed;
    return s->form == SOURCE_text    ? whole(s, text, n)
           : s->form == SOURCE_lines ? next_line(s, text, n)
           : s->form == SOURCE_rows  ? next_row(s, text, n)
                                     : next_item(s, text, n);
}

int64_t tok_source_at(const Source *s)
{
    return s->at;
}

int64_t tok_source_number(const Source *s)
{
    return s->number;
}

const char *tok_source_why(const Source *s)
{
    return s->rows ? parquet_why(s->rows) : s->why;
}
