/* text.c - two plans side by side as text. What is in a plan's file is shown as text, whatever a
 * terminal would make of it. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "compiler/diff/show.h"

enum { CELL = 14, LONG = 44, SHORT = 26 }; /* columns; a text that is longer has lines of its own */

/* Columns of the names, and of A and B. */
typedef struct Columns {
    int name, a, b;
} Columns;

/* Characters of a text in UTF-8. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

const char *diff_shown(Arena *a, const char *text)
{
    char *copy;
    size_t n;
    FILE *out = open_memstream(&copy, &n);
    diag_show(out, text);
    fclose(out);
    const char *kept = arena_strdup(a, copy);
    free(copy);
    return kept;
}

static void put(FILE *out, Arena *a, const char *text, int column)
{
    const char *safe = diff_shown(a, text);
    const int pad = column - width_of(safe);
    fprintf(out, "%s%*s", safe, pad > 1 ? pad : 1, "");
}

static bool is_long(const DiffRow *r)
{
    return width_of(r->a) > LONG || width_of(r->b) > LONG;
}

static void put_row(FILE *out, Arena *a, Columns c, const DiffRow *r)
{
    if (is_long(r)) {
        fprintf(out, "  %s\n    A  %s\n    B  %s\n", diff_shown(a, r->name), diff_shown(a, r->a),
                diff_shown(a, r->b));
        return;
    }
    fputs("  ", out);
    put(out, a, r->name, c.name);
    put(out, a, r->a, c.a);
    put(out, a, r->b, c.b);
    fprintf(out, "%s\n", r->by);
}

/* Rows that differ, and the names of the others. */
static void put_part(FILE *out, Arena *a, Columns c, const DiffPart *p)
{
    const char *same = "";
    bool any = false;
    if (!p->rows.n)
        return;
    fprintf(out, "\n%s\n", p->title);
    for (size_t i = 0; i < p->rows.n; i++) {
        const DiffRow *r = &p->rows.data[i];
        if (r->differs)
            put_row(out, a, c, r);
        else
            same = arena_printf(a, "%s%s%s%s%s", same, *same ? ", " : "", diff_shown(a, r->name),
                                width_of(r->a) > SHORT ? "" : " ",
                                width_of(r->a) > SHORT ? "" : diff_shown(a, r->a));
        any |= r->differs;
    }
    if (*same)
        fprintf(out, "  %s %s\n", any ? "the same:" : "all the same:", same);
}

static int wider(int n, const char *text)
{
    return width_of(text) + 2 > n ? width_of(text) + 2 : n;
}

static Columns columns_of(const Diff *d)
{
    Columns c = {CELL, CELL, CELL};
    for (int k = 0; k < DIFF_PARTS; k++)
        for (size_t i = 0; i < d->part[k].rows.n; i++) {
            const DiffRow *r = &d->part[k].rows.data[i];
            if (!r->differs || is_long(r))
                continue;
            c.name = wider(c.name, r->name);
            c.a = wider(c.a, r->a);
            c.b = wider(c.b, r->b);
        }
    return c;
}

static void put_side(FILE *out, Arena *a, char name, const Side *s)
{
    const json_t *known = json_object_get(s->plan, "known");
    const char *word = json_string_value(json_object_get(known, "step"));
    fprintf(out, "%c  %s: layout %s on %s, %s\n", name, diff_shown(a, s->text),
            diff_shown(a, json_string_value(json_object_get(s->plan, "layout"))),
            diff_shown(a, json_string_value(json_object_get(s->plan, "device"))),
            diff_shown(a, word ? word : "guessed"));
}

void diff_print(const Diff *d, FILE *out)
{
    Arena *a = d->a;
    put_side(out, a, 'A', &d->side[0]);
    put_side(out, a, 'B', &d->side[1]);
    const Columns c = columns_of(d);
    fprintf(out, "%s\n\n  %-*s%-*s%-*s%s\n", d->verdict, c.name, "", c.a, "A", c.b, "B",
            "B beside A");
    for (int k = 0; k < DIFF_PARTS; k++)
        put_part(out, a, c, &d->part[k]);
}
