/* page.c - what a search found as one HTML page, which loads nothing: the layout, a picture of
 * memory against time, and the tables. */
#include <math.h>
#include <string.h>

#include "base/quantity.h"
#include "search/search.h"

enum { WIDE = 760, HIGH = 380, MARGIN = 60, ROWS = 40 };

static void escaped(const char *text, FILE *out)
{
    for (; *text; text++) {
        const char *as = *text == '<'   ? "&lt;"
                         : *text == '>' ? "&gt;"
                         : *text == '&' ? "&amp;"
                         : *text == '"' ? "&quot;"
                                        : NULL;
        if (as)
            fputs(as, out);
        else
            fputc(*text, out);
    }
}

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
    escaped(point_label(s->space, &c->point, a), out);
    fputs("</title></circle>\n", out);
    arena_free(a);
}

static void draw(const Search *s, FILE *out)
{
    Arena *a = arena_new();
    const Picture p = picture_of(s);
    Front front = {0};
    search_front(s, &front);
    fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"memory against time\">\n",
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
    fprintf(out, "<text x=\"4\" y=\"%.0f\">%s a step</text>\n</svg>\n", down(&p, p.most) - 14,
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
    escaped(point_label(s->space, &c->point, a), out);
    fprintf(out, "<td>%s\n", more);
    arena_free(a);
}

static void table(const Search *s, const char *title, const Front *of, bool why, FILE *out)
{
    fprintf(out, "<h2>%s</h2>\n<table><tr><th>step<th><th>memory<th>MFU<th>layout<th>\n", title);
    for (size_t i = 0; i < of->n; i++) {
        const Candidate *c = &s->all.data[of->data[i]];
        row(s, of->data[i],
            why                           ? search_why(s, c, s->arena)
            : c->state == CANDIDATE_quick ? "by a quick plan"
                                          : "",
            out);
    }
    fputs("</table>\n", out);
}

void search_page(const Search *s, const char *model, const char *name, const char *device,
                 FILE *out)
{
    Arena *a = arena_new();
    const Candidate *best = &s->all.data[s->best];
    Front front = {0}, others = {0};
    search_front(s, &front);
    search_others(s, ROWS, &others);
    fputs("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>layouts</title>\n"
          "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em "
          "auto;padding:0 1em}"
          "td,th{padding:.1em .8em .1em 0;text-align:left;vertical-align:top}"
          "pre{background:#8881;padding:1em}svg{width:100%}svg text{font-size:12px;fill:#777}"
          ".axis,.front{fill:none;stroke:#888}.front{stroke:#b40}.quick{fill:#8888}"
          ".whole{fill:#27c}.best{fill:#b40}"
          "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}}</style>\n<h1>",
          out);
    escaped(model, out);
    fprintf(out, " on %lld ranks</h1>\n<p>%s</p>\n", (long long)s->ranks, search_counts(s, a));
    fprintf(
        out, "<p>%s a step, %s tokens/s of a rank, MFU %.0f%%, %s of %s</p>\n<pre>",
        text_seconds(a, best->tried[TRY_whole].seconds),
        text_rate(a, (double)s->basis->tokens / best->tried[TRY_whole].seconds / (double)s->ranks),
        100 * best->tried[TRY_whole].mfu, text_bytes(a, (double)best->tried[TRY_whole].bytes),
        text_bytes(a, s->basis->budget));
    escaped(point_text(s->space, &best->point, name, device, a), out);
    fputs("</pre>\n", out);
    table(s, "runners-up, and why they are slower", &others, true, out);
    fputs("<h2>memory against time</h2>\n", out);
    draw(s, out);
    table(s, "the front", &front, false, out);
    if (s->stopped)
        fputs("<p>The search was stopped before its end.</p>\n", out);
    fputs("</html>\n", out);
    arena_free(a);
}
