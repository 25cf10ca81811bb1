/* scale_page.c - tables of scaling as one HTML page, which loads nothing: charts of what grows with
 * the ranks, by logarithms of both, and where a step's time goes; see scale.h. */
#include "compiler/search/scale.h"

#include <math.h>
#include <string.h>

#include "base/quantity.h"
#include "search/html.h"

enum { WIDE = 380, HIGH = 220, LEFT = 64, RIGHT = 14, TOP = 16, BOTTOM = 30, PARTS = 4 };

/* ---- one chart ------------------------------------------------------------------------------- */

typedef double Amount(const ScaleTable *t, const Scale *s, const Size *z);
typedef const char *AmountText(Arena *a, double amount);

typedef struct Chart {
    const char *title;
    Amount *amount;
    AmountText *text;
    bool ideal;   /* with the line of the first size's speed for each rank */
    bool percent; /* from 0 up, not by logarithms */
} Chart;

/* The edges of a chart. */
typedef struct Frame {
    double from, to;    /* ranks */
    double least, most; /* amounts */
    bool percent;
} Frame;

static double across(const Frame *f, double ranks)
{
    const double span = log(f->to / f->from);
    return LEFT + (WIDE - LEFT - RIGHT) * (span > 0 ? log(ranks / f->from) / span : 0.5);
}

static double down(const Frame *f, double amount)
{
    const double high = HIGH - TOP - BOTTOM;
    if (f->percent)
        return HIGH - BOTTOM - high * amount / f->most;
    const double span = log(f->most / f->least);
    return HIGH - BOTTOM - high * (span > 0 ? log(amount / f->least) / span : 0.5);
}

static Frame frame_of(const ScaleTable *t, const Scale *s, const Chart *c)
{
    Frame f = {INFINITY, 0, INFINITY, 0, c->percent};
    for (size_t i = 0; i < t->sizes.n; i++) {
        const Size *z = &t->sizes.data[i];
        if (!z->found)
            continue;
        const double amount = c->amount(t, s, z);
        f.from = fmin(f.from, (double)z->ranks);
        f.to = fmax(f.to, (double)z->ranks);
        f.least = fmin(f.least, amount);
        f.most = fmax(f.most, amount);
    }
    if (c->ideal)
        f.most = fmax(f.most, f.least * f.to / f.from);
    f.most = fmax(f.most, c->percent ? 1 : 2 * f.least); /* what changes little looks so */
    return f;
}

/* The axes, with numbers of ranks below, and the least and the largest amount beside. */
static void draw_axes(const ScaleTable *t, const Chart *c, const Frame *f, FILE *out)
{
    Arena *a = arena_new();
    fprintf(out, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, HIGH - BOTTOM,
            WIDE - RIGHT);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">ranks</text>\n", LEFT - 14,
            HIGH - 12);
    double last = -INFINITY;
    for (size_t i = 0; i < t->sizes.n; i++) {
        const double x = across(f, (double)t->sizes.data[i].ranks);
        const bool within = x >= LEFT - 1 && x <= WIDE - RIGHT + 1;
        if (!within || x - last < 44)
            continue;
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%lld</text>\n",
                fmin(x, WIDE - RIGHT - 8), HIGH - 12, (long long)t->sizes.data[i].ranks);
        last = x;
    }
    const double low = c->percent ? 0 : f->least;
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 6, HIGH - BOTTOM,
            c->text(a, low));
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 6, TOP + 8,
            c->text(a, f->most));
    arena_free(a);
}

static void draw_line(const ScaleTable *t, const Scale *s, const Chart *c, const Frame *f,
                      FILE *out)
{
    const char *step = "M";
    fputs("<path class=\"line\" d=\"", out);
    for (size_t i = 0; i < t->sizes.n; i++) {
        const Size *z = &t->sizes.data[i];
        if (!z->found)
            continue;
        fprintf(out, "%s%.1f %.1f", step, across(f, (double)z->ranks), down(f, c->amount(t, s, z)));
        step = "L";
    }
    fputs("\"/>\n", out);
}

static void draw_dots(const ScaleTable *t, const Scale *s, const Chart *c, const Frame *f,
                      FILE *out)
{
    Arena *a = arena_new();
    for (size_t i = 0; i < t->sizes.n; i++) {
        const Size *z = &t->sizes.data[i];
        if (!z->found)
            continue;
        const double amount = c->amount(t, s, z);
        const char *said =
            arena_printf(a, "%lld ranks: %s", (long long)z->ranks, c->text(a, amount));
        fprintf(out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"best\" tabindex=\"0\" "
                "role=\"img\" aria-label=\"%s\"><title>%s, ",
                across(f, (double)z->ranks), down(f, amount), said, said);
        html_text(z->label, out);
        fputs("</title></circle>\n", out);
    }
    arena_free(a);
}

static void draw_chart(const ScaleTable *t, const Scale *s, const Chart *c, FILE *out)
{
    const Frame f = frame_of(t, s, c);
    fprintf(out, "<div><h3>%s</h3>\n<svg viewBox=\"0 0 %d %d\" aria-label=\"%s by ranks\">\n",
            c->title, WIDE, HIGH, c->title);
    draw_axes(t, c, &f, out);
    if (c->ideal)
        fprintf(out, "<path class=\"ideal\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", across(&f, f.from),
                down(&f, f.least), across(&f, f.to), down(&f, f.least * f.to / f.from));
    if (t->stops >= 0) {
        const double x = across(&f, (double)t->sizes.data[t->stops].ranks);
        fprintf(out, "<path class=\"stop\" d=\"M%.1f %dV%d\"/>\n", x, TOP, HIGH - BOTTOM);
    }
    draw_line(t, s, c, &f, out);
    draw_dots(t, s, c, &f, out);
    fputs("</svg></div>\n", out);
}

/* ---- charts ---------------------------------------------------------------------------------- */

static double speed(const ScaleTable *t, const Scale *s, const Size *z)
{
    (void)t, (void)s;
    return z->tokens;
}

static double efficiency(const ScaleTable *t, const Scale *s, const Size *z)
{
    (void)s;
    return scale_efficiency(t, z);
}

static double hours(const ScaleTable *t, const Scale *s, const Size *z)
{
    (void)t;
    return s->tokens / z->tokens / 3600;
}

static double gpu_hours(const ScaleTable *t, const Scale *s, const Size *z)
{
    return hours(t, s, z) * (double)z->ranks;
}

static double joules(const ScaleTable *t, const Scale *s, const Size *z)
{
    (void)t, (void)s;
    return z->joules;
}

static double kilowatt_hours(const ScaleTable *t, const Scale *s, const Size *z)
{
    (void)t;
    return z->joules * s->tokens / 3.6e6;
}

static const char *percent_text(Arena *a, double x)
{
    return arena_printf(a, "%.0f%%", 100 * x);
}

static const char *hours_text(Arena *a, double x)
{
    return x < 48 ? arena_printf(a, "%.3g h", x) : arena_printf(a, "%.4g d", x / 24);
}

static const char *joules_text(Arena *a, double x)
{
    return x < 1e-3 ? arena_printf(a, "%.3g uJ", 1e6 * x)
           : x < 1  ? arena_printf(a, "%.3g mJ", 1e3 * x)
                    : arena_printf(a, "%.3g J", x);
}

static void draw_charts(const ScaleTable *t, const Scale *s, FILE *out)
{
    static const Chart fixed[] = {
        {"tokens a second", speed, scale_count, true, false},
        {"speed of a rank, of the first row's", efficiency, percent_text, false, true}};
    static const Chart of_tokens[] = {
        {"time for the tokens", hours, hours_text, false, false},
        {"GPU hours for the tokens", gpu_hours, scale_count, false, false}};
    static const Chart energy[] = {
        {"energy of a token", joules, joules_text, false, false},
        {"kWh for the tokens", kilowatt_hours, scale_count, false, false}};
    fputs("<div class=\"charts\">\n", out);
    for (int i = 0; i < 2; i++)
        draw_chart(t, s, &fixed[i], out);
    for (int i = 0; i < 2 && s->tokens > 0; i++)
        draw_chart(t, s, &of_tokens[i], out);
    if (scale_first(t)->joules > 0)
        draw_chart(t, s, &energy[s->tokens > 0], out);
    fputs("</div>\n", out);
}

/* ---- where a step's time goes ---------------------------------------------------------------- */

static const char *const part_names[PARTS] = {"computing", "waiting for collectives",
                                              "waiting for other stages", "computed again"};

static void parts_of(const Size *z, double *part)
{
    const Parts *p = &z->plan.parts;
    part[1] = p->waits / z->plan.seconds;
    part[2] = p->bubble / z->plan.seconds;
    part[3] = p->again / z->plan.seconds;
    part[0] = fmax(0, 1 - part[1] - part[2] - part[3]);
}

static void draw_parts(const ScaleTable *t, FILE *out)
{
    fputs("<h3>where a step's time goes, by ranks</h3>\n<div class=\"bars\">\n", out);
    for (size_t i = 0; i < t->sizes.n; i++) {
        const Size *z = &t->sizes.data[i];
        double part[PARTS];
        if (!z->found)
            continue;
        parts_of(z, part);
        fprintf(out, "<span>%lld</span><div>", (long long)z->ranks);
        for (int k = 0; k < PARTS; k++)
            if (part[k] > 0)
                fprintf(out,
                        "<i class=\"f%d\" style=\"flex:%.4f\" role=\"img\" aria-label=\"%s "
                        "%.1f%%\" title=\"%lld ranks: %s %.1f%%\"></i>",
                        k, part[k], part_names[k], 100 * part[k], (long long)z->ranks,
                        part_names[k], 100 * part[k]);
        fputs("</div>\n", out);
    }
    fputs("</div>\n<div class=\"legend\">", out);
    for (int k = 0; k < PARTS; k++)
        fprintf(out,
                "<span><svg viewBox=\"0 0 11 11\" aria-hidden=\"true\"><rect width=\"11\" "
                "height=\"11\" class=\"f%d\"/></svg>%s</span>",
                k, part_names[k]);
    fputs("</div>\n", out);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void write_row(const ScaleTable *t, const Scale *s, const Size *z, FILE *out)
{
    Arena *a = arena_new();
    fprintf(out, "<tr><td>%lld", (long long)z->ranks);
    if (!z->found) {
        fputs("<td>no layout fits\n", out);
        arena_free(a);
        return;
    }
    fprintf(out, "<td>%s<td>%s<td>%s<td>%.0f%%<td>%.0f%%<td>%s", text_seconds(a, z->plan.seconds),
            scale_count(a, z->tokens), scale_count(a, z->tokens / (double)z->ranks),
            100 * z->plan.mfu, 100 * scale_efficiency(t, z), text_bytes(a, (double)z->plan.bytes));
    if (s->tokens > 0)
        fprintf(out, "<td class=\"some\">%s",
                scale_hours(s->tokens, z->tokens, z->ranks, z->joules, a));
    fputs("<td class=\"wide\">", out);
    html_text(z->label, out);
    fputc('\n', out);
    arena_free(a);
}

static void write_table(const ScaleTable *t, const Scale *s, FILE *out)
{
    fprintf(out,
            "<div class=\"scroll\" tabindex=\"0\"><table><tr><th>ranks<th>step<th>tokens/s<th>of a "
            "rank<th>MFU<th>effic.<th>memory%s<th>layout\n",
            s->tokens > 0 ? "<th class=\"some\">time, GPU hours, energy" : "");
    for (size_t i = 0; i < t->sizes.n; i++)
        write_row(t, s, &t->sizes.data[i], out);
    fputs("</table></div>\n", out);
}

static void write_layouts(const ScaleTable *t, FILE *out)
{
    for (size_t i = 0; i < t->sizes.n; i++) {
        const Size *z = &t->sizes.data[i];
        if (!z->found)
            continue;
        fprintf(out, "<details><summary>the layout of %lld ranks</summary><pre>",
                (long long)z->ranks);
        html_text(z->text, out);
        fputs("</pre></details>\n", out);
    }
}

void scale_page(const Searching *q, const Scale *scale, const ScaleTable *tables, int n, FILE *out)
{
    Arena *a = q->s->arena;
    html_begin(arena_printf(a, "%s on more and more of %s", q->path, q->device), out);
    fputs("<p>The layout is searched anew for each number of ranks. All figures are predictions.",
          out);
    if (scale->tokens > 0)
        fprintf(out, " Times are those of %s tokens.", scale_count(a, scale->tokens));
    if (q->one.device.watts > 0)
        fprintf(out,
                " Energy is that of the cards alone: %g W while one computes, %g W while it waits.",
                q->one.device.watts, q->one.device.idle_watts);
    fputs("</p>\n", out);
    for (int k = 0; k < n; k++) {
        const ScaleTable *t = &tables[k];
        if (!scale_first(t))
            continue;
        fprintf(out, "<h2>%s scaling: a batch of %lld%s</h2>\n<p>", t->weak ? "weak" : "strong",
                (long long)t->batch, t->weak ? ", and as much more as ranks" : "");
        html_text(t->why, out);
        fputs("</p>\n", out);
        draw_charts(t, scale, out);
        draw_parts(t, out);
        write_table(t, scale, out);
        write_layouts(t, out);
    }
    html_end(out);
}
