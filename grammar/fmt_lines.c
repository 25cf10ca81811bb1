/* fmt_lines.c - the columns of a canonical text. */
#include "grammar/fmt_lines.h"

enum { INDENT = 4 };
static int width_of(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += (*s & 0xc0) != 0x80; /* UTF-8: comments only */
    return n;
}

/* Pads all but the last cell of lines [from, to) to common widths. */
static void align_cells(Arena *arena, Line *line, size_t from, size_t to)
{
    for (int c = 0; c + 1 < CELLS; c++) {
        int width = 0;
        for (size_t i = from; i < to; i++)
            if (c + 1 < line[i].cells && width_of(line[i].cell[c]) > width)
                width = width_of(line[i].cell[c]);
        for (size_t i = from; i < to; i++)
            if (c + 1 < line[i].cells)
                line[i].cell[c] = arena_printf(arena, "%-*s ", width, line[i].cell[c]);
    }
}

static int line_width(const Line *line)
{
    int n = line->indent * INDENT;
    for (int i = 0; i < line->cells; i++)
        n += width_of(line->cell[i]);
    return n;
}

static void print_lines(const Line *line, size_t n, FILE *out)
{
    int column = 0; /* of the comments in this run of lines */
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || line[i].blank) {
            column = 0;
            for (size_t j = i; j < n && (j == i || !line[j].blank); j++)
                if (line[j].comment && line_width(&line[j]) > column)
                    column = line_width(&line[j]);
        }
        fprintf(out, "%s%*s", line[i].blank ? "\n" : "", line[i].indent * INDENT, "");
        for (int c = 0; c < line[i].cells; c++)
            fputs(line[i].cell[c], out);
        if (line[i].comment)
            fprintf(out, "%*s%s", column - line_width(&line[i]) + 2, "", line[i].comment);
        fputc('\n', out);
    }
}

void fmt_print_lines(Arena *arena, Line *line, size_t n, FILE *out)
{
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && line[j].kind == line[i].kind && line[j].indent == line[i].indent &&
                        !line[j].blank;
             j++)
            continue;
        align_cells(arena, line, i, j);
    }
    print_lines(line, n, out);
}
