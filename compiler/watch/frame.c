/* frame.c - rows of cells; see frame.h. */
#include "compiler/watch/frame.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

Frame *frame_new(Arena *a, int rows, int columns, bool utf8)
{
    Frame *f = NEW(a, Frame);
    *f = (Frame){.rows = rows, .columns = columns, .utf8 = utf8};
    f->cells = NEW_ARRAY(a, Cell, (size_t)rows * (size_t)columns);
    for (int i = 0; i < rows * columns; i++)
        f->cells[i].c = ' ';
    return f;
}

void frame_put(Frame *f, int row, int column, Style style, int32_t c)
{
    if (row >= 0 && row < f->rows && column >= 0 && column < f->columns)
        f->cells[row * f->columns + column] = (Cell){c, (uint8_t)style};
}

/* The next character, what it takes, and where it ends. */
static const char *next(const Frame *f, const char *s, int32_t *c, int *width)
{
    const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, c);
    if (n <= 0) {
        *c = '?';
        *width = 1;
        return s + 1;
    }
    *width = *c < 0x20 || (*c >= 0x7f && *c < 0xa0) || (*c > 0x7f && !f->utf8)
                 ? -1
                 : utf8proc_charwidth(*c);
    const utf8proc_category_t kind = utf8proc_category(*c);
    if (*width < 0 || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CN ||
        kind == UTF8PROC_CATEGORY_CO || kind == UTF8PROC_CATEGORY_ZL ||
        kind == UTF8PROC_CATEGORY_ZP) {
        *c = '?'; /* that turn the direction of a line, too */
        *width = 1;
    }
    return s + n;
}

int frame_text(Frame *f, int row, int column, int width, Style style, const char *text)
{
    int at = column, wide;
    const int end = width < 0 || column + width > f->columns ? f->columns : column + width;
    while (*text) {
        int32_t c;
        text = next(f, text, &c, &wide);
        if (at + wide > end)
            break;
        if (!wide) /* an accent of the character before it */
            continue;
        frame_put(f, row, at, style, c);
        if (wide == 2)
            frame_put(f, row, at + 1, style, 0);
        at += wide;
    }
    return at - column;
}

int frame_print(Frame *f, int row, int column, int width, Style style, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return frame_text(f, row, column, width, style, text);
}

void frame_bar(Frame *f, int row, int column, int width, Style style, double share, bool rest)
{
    const double cells = isfinite(share) ? fmin(fmax(share, 0), 1) * width : 0;
    for (int i = 0; i < width; i++) {
        const double part = cells - i;
        if (part >= 1 || (!f->utf8 && part >= 0.5))
            frame_put(f, row, column + i, style, f->utf8 ? 0x2588 : '#');
        else if (f->utf8 && part >= 0.125)
            frame_put(f, row, column + i, style, 0x2590 - (int)(part * 8)); /* eighths of a block */
        else if (rest)
            frame_put(f, row, column + i, STYLE_dim, f->utf8 ? 0xb7 : '.');
    }
}

int frame_utf8(int32_t c, char out[5])
{
    const utf8proc_ssize_t n = c ? utf8proc_encode_char(c, (utf8proc_uint8_t *)out) : 0;
    out[n] = 0;
    return (int)n;
}

void frame_write(const Frame *f, FILE *out)
{
    for (int row = 0; row < f->rows; row++) {
        const Cell *cells = f->cells + row * f->columns;
        int end = f->columns;
        char bytes[5];
        while (end && cells[end - 1].c == ' ')
            end--;
        for (int i = 0; i < end; i++) {
            frame_utf8(cells[i].c, bytes);
            fputs(bytes, out);
        }
        fputc('\n', out);
    }
}
