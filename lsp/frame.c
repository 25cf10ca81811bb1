/* frame.c - a stream of bytes as messages; see frame.h. */
#include "lsp/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LINE_MAX_BYTES = 8192, WORD = 15 /* of "Content-Length:" */ };

void frames_start(Frames *f)
{
    *f = (Frames){.length = -1};
}

void frames_free(Frames *f)
{
    free(f->data);
    frames_start(f);
}

static void drop(Frames *f, size_t n)
{
    f->n -= n;
    f->done = 0;
    if (f->n)
        memmove(f->data, f->data + n, f->n);
}

void frames_add(Frames *f, const char *bytes, size_t n)
{
    if (f->skip) {
        const size_t s = f->skip < n ? (size_t)f->skip : n;
        f->skip -= s;
        bytes += s;
        n -= s;
    }
    if (f->n + n > f->cap) {
        f->cap = (f->n + n) * 2;
        f->data = realloc(f->data, f->cap);
        if (!f->data) {
            fputs("mgc: out of memory\n", stderr);
            abort();
        }
    }
    if (n)
        memcpy(f->data + f->n, bytes, n);
    f->n += n;
}

/* The number behind "Content-Length:", wherever in the line it stands: what is before it may be the
 * rest of a message that said too small a length. */
static void read_line(Frames *f, const char *line, size_t n)
{
    for (size_t i = 0; i + WORD <= n; i++) {
        if (strncasecmp(line + i, "Content-Length:", WORD) != 0)
            continue;
        size_t k = i + WORD, digits = 0;
        int64_t length = 0;
        while (k < n && (line[k] == ' ' || line[k] == '\t'))
            k++;
        for (; k < n && line[k] >= '0' && line[k] <= '9' && digits < 15; k++, digits++)
            length = length * 10 + (line[k] - '0');
        while (k < n && (line[k] == ' ' || line[k] == '\t'))
            k++;
        f->bad |= k < n || !digits;
        f->length = k < n || !digits ? -1 : length;
        i = k;
    }
}

static void next_header(Frames *f)
{
    f->length = -1;
    f->lines = f->bad = f->body = false;
}

/* Reads lines of the header up to the empty one; FRAME_body: a body follows. */
static FrameKind header(Frames *f)
{
    const char *end;
    while ((end = f->n > f->done ? memchr(f->data + f->done, '\n', f->n - f->done) : NULL)) {
        const size_t all = (size_t)(end - f->data) + 1;
        size_t n = all - 1;
        n -= n && f->data[n - 1] == '\r';
        if (n) {
            read_line(f, f->data, n);
            f->lines = true;
        }
        drop(f, all);
        if (n || !f->lines)
            continue;
        if (f->length < 0) {
            next_header(f);
            return FRAME_header;
        }
        return FRAME_body;
    }
    f->done = f->n;
    if (f->n > LINE_MAX_BYTES) { /* keeps what may be the beginning of a length */
        f->lines = true;
        read_line(f, f->data, f->n);
        drop(f, f->n - 2 * WORD);
        f->done = f->n;
    }
    return FRAME_none;
}

FrameKind frames_next(Frames *f, const char **body, size_t *size)
{
    if (f->body) { /* of the last call */
        drop(f, (size_t)f->length);
        next_header(f);
    }
    if (f->skip)
        return FRAME_none;
    if (f->length < 0 || f->lines) {
        const FrameKind k = header(f);
        if (k != FRAME_body)
            return k;
        f->lines = false;
        if (f->length > MESSAGE_MAX) {
            const uint64_t all = (uint64_t)f->length, have = f->n < all ? f->n : all;
            f->skip = all - have;
            drop(f, (size_t)have);
            next_header(f);
            return FRAME_long;
        }
    }
    if (f->n < (size_t)f->length)
        return FRAME_none;
    f->body = true;
    *body = f->data ? f->data : "";
    *size = (size_t)f->length;
    return FRAME_body;
}
