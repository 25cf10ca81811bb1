/* frame.h - a picture of characters: rows of cells, each with a character and a style. It is drawn
 * here, and shown by a terminal or written as text. */
#ifndef MGC_FRAME_H
#define MGC_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"

typedef enum Style {
    STYLE_plain,
    STYLE_dim,
    STYLE_bold,
    STYLE_title,  /* the first line */
    STYLE_chosen, /* of several names */
    STYLE_curve,
    STYLE_second, /* a second curve, and points beside the first */
    STYLE_bar,
    STYLE_good,
    STYLE_alert,
    STYLE_count
} Style;

typedef struct Cell {
    int32_t c; /* a code point that takes a cell, or two (then the next cell has 0) */
    uint8_t style;
} Cell;

typedef struct Frame {
    int rows, columns;
    bool utf8; /* else characters are ASCII */
    Cell *cells;
} Frame;

Frame *frame_new(Arena *a, int rows, int columns, bool utf8);
/* A text from (row, column), cut at `width` cells (-1: the frame's end); characters that a terminal
 * acts on, and what is no UTF-8, become '?'. Returns the cells that it takes. */
int frame_text(Frame *f, int row, int column, int width, Style style, const char *text);
int frame_print(Frame *f, int row, int column, int width, Style style, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
void frame_put(Frame *f, int row, int column, Style style, int32_t c);
/* A bar of up to `width` cells for a share between 0 and 1; the rest are dots, if rest. */
void frame_bar(Frame *f, int row, int column, int width, Style style, double share, bool rest);
/* UTF-8 of a cell in out[5]; bytes of it, 0 for the second half of a wide character. */
int frame_utf8(int32_t c, char out[5]);
/* As lines of text, without blanks at their ends. */
void frame_write(const Frame *f, FILE *out);

#endif
