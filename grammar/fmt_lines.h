/* fmt_lines.h - lines of a canonical text, in cells. */
#ifndef MG_GRAMMAR_FMT_LINES_H
#define MG_GRAMMAR_FMT_LINES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdio.h>

enum { CELLS = 3 };

typedef enum LineKind { L_PLAIN, L_COMMENT, L_PARAM, L_SETTING, L_RULE } LineKind;

typedef struct Line {
    LineKind kind;
    int indent, cells;
    bool blank; /* an empty line before it */
    const char *cell[CELLS];
    const char *comment; /* at its end, or NULL */
} Line;

/* Writes n lines, whose cells it pads: those of neighbouring lines of one kind to common widths,
 * and comments at the ends of neighbouring lines to one column. */
void fmt_print_lines(Arena *arena, Line *line, size_t n, FILE *out);

#endif
