/* text.c - two plans side by side as text. What is in a plan's file is shown as text, whatever a
 * terminal would make of it. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "compiler/diff/show.h"

enum { NAME = 30, CELL = 27, LONG = 52 }; /* columns; a text that is longer has lines of its own */

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

static void put_row(FILE *out, Arena *a, const DiffRow *r)
{
    if (width_of(r->a) > LONG || width_of(r->b) > LONG) {
        fprintf(out, "  %s\n    A  %s\n    B  %s\n", diff_shown(a, r->name), diff_shown(a, r->a),
                diff_shown(a, r->b));
        return;
    }
    fputs("  ", out);
    put(out, a, r->name, NAME);
    put(out, a, r->a, CELL);
    put(out, a, r->b, *r->by ? CELL : 0);
    fprintf(out, "%s\n", r->by);
}

/* Rows that differ, and the names of the others. */
static void put_part(FILE *out, Arena *a, const DiffPart *p)
{
    const char *same = "";
    bool any = false;
    if (!p->rows.n)
        return;
    fprintf(out, "\n%s\n", p->title);
    for (size_t i = 0; i < p->rows.n; i++) {
        const DiffRow *r = &p->rows.data[i];
        if (r->differs)
            put_row(out, a, r);
        else
            same = arena_printf(a, "%s%s%s %s", same, *same ? ", " : "", diff_shown(a, r->name),
                                diff_shown(a, r->a));
        any |= r->differs;
    }
    if (*same)
        fprintf(out, "  %s %s\n", any ? "the same:" : "all the same:", same);
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
    fprintf(out, "%s\n\n  %-*s%-*s%-*s%s\n", d->verdict, NAME, "", CELL, "A", CELL, "B",
            "B beside A");
    for (int k = 0; k < DIFF_PARTS; k++)
        put_part(out, a, &d->part[k]);
}
