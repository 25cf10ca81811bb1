/* text.c - a document's text, its lines, and places in UTF-16; see text.h. */
#include "lsp/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Like the arenas of the compiler: without memory there is nothing to go on with. */
static void *need(void *p)
{
    if (!p) {
        fputs("mgc: out of memory\n", stderr);
        abort();
    }
    return p;
}

/* A line ends with \n, \r\n or \r. */
static bool ends_line(const Text *t, size_t i)
{
    return t->data[i] == '\n' || (t->data[i] == '\r' && t->data[i + 1] != '\n');
}

/* UTF-16 units of the character that begins with a byte; 0 inside of one. */
static int units(char c)
{
    const unsigned char u = (unsigned char)c;
    return (u & 0xC0) == 0x80 ? 0 : u >= 0xF0 ? 2 : 1;
}

static void count_units(Text *t)
{
    uint32_t n = 0;
    t->units = need(realloc(t->units, (t->size / UNITS_STEP + 1) * sizeof *t->units));
    for (size_t i = 0; i < t->size; i++) {
        if (i % UNITS_STEP == 0)
            t->units[i / UNITS_STEP] = n;
        n += (uint32_t)units(t->data[i]);
    }
    if (t->size % UNITS_STEP == 0)
        t->units[t->size / UNITS_STEP] = n;
}

/* Units before a byte. */
static int64_t units_before(const Text *t, size_t byte)
{
    int64_t n = t->units[byte / UNITS_STEP];
    for (size_t i = byte - byte % UNITS_STEP; i < byte; i++)
        n += units(t->data[i]);
    return n;
}

static void find_lines(Text *t)
{
    size_t n = 1;
    for (size_t i = 0; i < t->size; i++)
        n += ends_line(t, i);
    t->lines = need(realloc(t->lines, n * sizeof *t->lines));
    t->nlines = 1;
    t->lines[0] = 0;
    for (size_t i = 0; i < t->size; i++)
        if (ends_line(t, i))
            t->lines[t->nlines++] = (uint32_t)i + 1;
}

bool text_edit(Text *t, size_t from, size_t to, const char *with, size_t size)
{
    const size_t all = from + size + (t->size - to);
    if (all > TEXT_MAX)
        return false;
    char *data = need(malloc(all + 1));
    if (from)
        memcpy(data, t->data, from);
    if (size)
        memcpy(data + from, with, size);
    if (t->size > to)
        memcpy(data + from + size, t->data + to, t->size - to);
    data[all] = 0;
    free(t->data);
    t->data = data;
    t->size = all;
    find_lines(t);
    count_units(t);
    return true;
}

bool text_set(Text *t, const char *data, size_t size)
{
    return text_edit(t, 0, t->size, data, size);
}

void text_free(Text *t)
{
    free(t->data);
    free(t->lines);
    free(t->units);
    *t = (Text){0};
}

size_t text_byte(const Text *t, Place p)
{
    if (p.line < 0)
        return 0;
    if ((uint64_t)p.line >= t->nlines)
        return t->size;
    size_t at = t->lines[p.line];
    for (int64_t left = p.character; at < t->size && t->data[at] != '\n' && t->data[at] != '\r';) {
        left -= units(t->data[at]);
        if (left < 0)
            break;
        at++;
        while (at < t->size && units(t->data[at]) == 0)
            at++;
    }
    return at;
}

void text_range(const Text *t, Place from, Place to, size_t *begin, size_t *end)
{
    const size_t a = text_byte(t, from), b = text_byte(t, to);
    *begin = a < b ? a : b;
    *end = a < b ? b : a;
}

Place text_locate(const Text *t, size_t byte)
{
    size_t low = 0, high = t->nlines;
    if (byte > t->size)
        byte = t->size;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (t->lines[middle] <= byte)
            low = middle;
        else
            high = middle;
    }
    return (Place){(int64_t)low, units_before(t, byte) - units_before(t, t->lines[low])};
}
