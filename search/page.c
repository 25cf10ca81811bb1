/* page.c - what a search found as one HTML page, which loads nothing: the layout, a picture of
 * memory against time, and the tables. */
#include <math.h>
#include <string.h>

#include "base/quantity.h"
#include "search/html.h"
#include "search/search.h"

enum { WIDE = 760, HIGH = 380, MARGIN = 60, ROWS = 40 };

/* The picture's edges: logarithms of seconds, bytes as they are. */
typedef struct Picture {
    double least, most; /* seconds */
    double bytes;
} Picture;

static double across(const Picture *p, double bytes)
{
    return MARGIN + (WIDE - 2 * MARGIN) * bytes / p->bytes;
}

static double down(const Picture *p, double seconds)
{
    const double span = log(p->most / p->least);
    return HIGH - MARGIN - (HIGH - 2 * MARGIN) * (span > 0 ? log(seconds / p->least) / span : 0.5);
}

static Picture picture_of(const Search *s)
{
    Picture p = {INFINITY, 0, s->basis->budget};
    for (size_t i = 0; i < s->all.n; i++) {
        const Tried *t = candidate_plan(&s->all.data[i]);
        if (!t)
            continue;
        p.least = fmin(p.least, t->seconds);
        p.most = fmax(p.most, t->seconds);
        p.bytes = fmax(p.bytes, (double)t->bytes);
    }
    return p;
}

static void dot(const Search *s, const Picture *p, int number, FILE *out)
{
    Arena *a = arena_new();
    const Candidate *c = &s->all.data[number];
    const Tried *t = candidate_plan(c);
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" class=\"%s\"><title>%s, %s: ",
            across(p, (double)t->bytes), down(p, t->seconds), number == s->best ? 6 : 3,
            number == s->best             ? "best"
            : c->state == CANDIDATE_whole ? "whole"
                                          : "quick",
            text_seconds(a, t->seconds), text_bytes(a, (double)t->bytes));
    html_text(point_label(s->space, &c->point, a), out);
    fputs("</title></circle>\n", out);
    arena_free(a);
}

static void draw(const Search *s, FILE *out)
{
    Arena *a = arena_new();
    const Picture p = picture_of(s);
    Front front = {0};
    search_front(s, &front);
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
            "aria-label=\"memory against time\">\n",
            WIDE, HIGH);
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", MARGIN, MARGIN / 2, HIGH - MARGIN,
            WIDE - MARGIN / 2);
    fprintf(out, "<path class=\"front\" d=\"");
    for (size_t i = 0; i < front.n; i++) {
        const Tried *t = candidate_plan(&s->all.data[front.data[i]]);
        fprintf(out, "%s%.1f %.1f", i ? "L" : "M", across(&p, (double)t->bytes),
                down(&p, t->seconds));
    }
    fputs("\"/>\n", out);
    for (size_t i = 0; i < s->all.n; i++)
        if (candidate_plan(&s->all.data[i]) && (int)i != s->best)
            dot(s, &p, (int)i, out);
    dot(s, &p, s->best, out);
    fprintf(out, "<text x=\"%d\" y=\"%d\">%s of a rank</text>\n", WIDE - 2 * MARGIN, HIGH - 12,
            text_bytes(a, p.bytes));
    fprintf(out, "<text x=\"4\" y=\"%.0f\">%s</text>\n", down(&p, p.least),
            text_seconds(a, p.least));
    fprintf(out, "<text x=\"4\" y=\"%.0f\">%s a step</text>\n</svg></div>\n", down(&p, p.most) - 14,
            text_seconds(a, p.most));
    arena_free(a);
}

static void row(const Search *s, int number, const char *more, FILE *out)
{
    Arena *a = arena_new();
    const Candidate *c = &s->all.data[number];
    const Tried *t = candidate_plan(c);
    fprintf(out, "<tr><td>%s<td>%+.1f%%<td>%s<td>%.0f%%<td>", text_seconds(a, t->seconds),
            100 * (t->seconds / s->all.data[s->best].tried[TRY_whole].seconds - 1),
            text_bytes(a, (double)t->bytes), 100 * t->mfu);
    html_text(point_label(s->space, &c->point, a), out);
    fprintf(out, "<td class=\"wide\">%s\n", more);
    arena_free(a);
}

static void table(const Search *s, const char *title, const Front *of, bool why, FILE *out)
{
    fprintf(
        out,
        "<h2>%s</h2>\n<div class=\"scroll\" tabindex=\"0\"><table><tr><th>step<th><th>memory<th>MFU"
        "<th>layout<th>\n",
        title);
    for (size_t i = 0; i < of->n; i++) {
        const Candidate *c = &s->all.data[of->data[i]];
        row(s, of->data[i],
            why                           ? search_why(s, c, s->arena)
            : c->state == CANDIDATE_quick ? "by a quick plan"
                                          : "",
            out);
    }
    fputs("</table></div>\n", out);
}

void search_page(const Search *s, const char *model, const char *name, const char *device,
                 FILE *out)
{
    Arena *a = arena_new();
    const Candidate *best = &s->all.data[s->best];
    Front front = {0}, others = {0};
    search_front(s, &front);
    search_others(s, ROWS, &others);
    html_begin(arena_printf(a, "%s on %lld ranks", model, (long long)s->ranks), out);
    fprintf(out, "<p>%s</p>\n", search_counts(s, a));
    fprintf(
        out, "<p>%s a step, %s tokens/s of a rank, MFU %.0f%%, %s of %s</p>\n<pre>",
        text_seconds(a, best->tried[TRY_whole].seconds),
        text_rate(a, (double)s->basis->tokens / best->tried[TRY_whole].seconds / (double)s->ranks),
        100 * best->tried[TRY_whole].mfu, text_bytes(a, (double)best->tried[TRY_whole].bytes),
        text_bytes(a, s->basis->budget));
    html_text(point_text(s->space, &best->point, name, device, a), out);
    fputs("</pre>\n", out);
    table(s, "runners-up, and why they are slower", &others, true, out);
    fputs("<h2>memory against time</h2>\n", out);
    draw(s, out);
    table(s, "the front", &front, false, out);
    if (s->stopped)
        fputs("<p>The search was stopped before its end.</p>\n", out);
    html_end(out);
    arena_free(a);
}
