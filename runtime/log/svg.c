/* svg.c - draws the loss curve as one self-contained picture.
 *
 * The raw loss is faint, its moving average is bold, evaluations are points. Colours follow the
 * viewer's light or dark scheme. A long run is drawn by the least and greatest loss of each column
 * of pixels, so that no spike is lost. */
#include "runtime/log/history.h"
#include "runtime/run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 960, HEIGHT = 540, LEFT = 72, RIGHT = 28, TOP = 76, BOTTOM = 56, COLUMNS = 860 };

typedef struct chart {
    FILE *f;
    const rt_history *h;
    double x0, x1, y0, y1; /* range shown: steps, loss */
    double *smooth;        /* per point of h->loss */
} chart;

static double px(const chart *c, double step)
{
    return LEFT + (step - c->x0) / (c->x1 - c->x0) * (WIDTH - LEFT - RIGHT);
}

static double py(const chart *c, double v)
{
    double y = HEIGHT - BOTTOM - (v - c->y0) / (c->y1 - c->y0) * (HEIGHT - TOP - BOTTOM);
    return y < TOP ? TOP : y > HEIGHT - BOTTOM ? HEIGHT - BOTTOM : y;
}

/* A step of 1, 2 or 5 times a power of ten that gives about `n` ticks. */
static double tick_step(double range, int n)
{
    double rough = range / n, power = pow(10, floor(log10(rough))), m = rough / power;
    return power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void include(chart *c, double v)
{
    c->y0 = v < c->y0 ? v : c->y0;
    c->y1 = v > c->y1 ? v : c->y1;
}

/* Sets the range from the smoothed curve, the evaluations and all but the outermost raw losses. */
static void choose_range(chart *c)
{
    const rt_points *l = &c->h->loss, *v = &c->h->val;
    c->y0 = INFINITY;
    c->y1 = -INFINITY;
    double *sorted = rt_alloc(l->n, sizeof *sorted);
    for (size_t i = 0; i < l->n; i++) {
        include(c, c->smooth[i]);
        sorted[i] = l->item[i].value;
    }
    if (l->n) {
        qsort(sorted, l->n, sizeof *sorted, by_value);
        include(c, sorted[l->n / 500]);
        include(c, sorted[l->n - 1 - l->n / 500]);
    }
    free(sorted);
    for (size_t i = 0; i < v->n; i++)
        include(c, v->item[i].value);
    if (!(c->y1 - c->y0 > 1e-9 * fabs(c->y1))) {
        double pad = fabs(c->y1) > 0 ? 0.05 * fabs(c->y1) : 1;
        c->y0 -= pad;
        c->y1 += pad;
    }
    double t = tick_step(c->y1 - c->y0, 6);
    c->y0 = floor(c->y0 / t) * t;
    c->y1 = ceil(c->y1 / t) * t;
    c->x0 = 0;
    c->x1 = 1;
    if (l->n)
        c->x1 = fmax(c->x1, (double)l->item[l->n - 1].step);
    if (v->n)
        c->x1 = fmax(c->x1, (double)v->item[v->n - 1].step);
}

/* An exponential moving average without a start-up bias, over about a thirtieth of the run. */
static void smooth(chart *c)
{
    const rt_points *l = &c->h->loss;
    double keep = l->n > 100 ? 1 - 30.0 / (double)l->n : 0.5, sum = 0, weight = 0;
    c->smooth = rt_alloc(l->n, sizeof *c->smooth);
    for (size_t i = 0; i < l->n; i++) {
        sum = keep * sum + (1 - keep) * l->item[i].value;
        weight = keep * weight + (1 - keep);
        c->smooth[i] = sum / weight;
    }
}

static void text(FILE *f, const char *s)
{
    for (; *s; s++)
        if (*s == '<')
            fputs("&lt;", f);
        else if (*s == '>')
            fputs("&gt;", f);
        else if (*s == '&')
            fputs("&amp;", f);
        else if (*s == '"')
            fputs("&quot;", f);
        else
            fputc((unsigned char)*s < 0x20 ? ' ' : *s, f);
}

static void draw_frame(const chart *c, const char *title, const char *subtitle)
{
    fprintf(
        c->f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
        WIDTH, HEIGHT);
    text(c->f, title);
    fputs(
        "</title>\n<style>\n"
        "svg{--paper:#fff;--ink:#1f2328;--soft:#6e7781;--grid:#e4e8ec;--line:#2563eb;--val:#d9480f;"
        "background:var(--paper);font:13px system-ui,-apple-system,'Segoe UI',sans-serif}\n"
        "@media(prefers-color-scheme:dark){svg{--paper:#0d1117;--ink:#e6edf3;--soft:#8b949e;"
        "--grid:#21262d;--line:#6ea8fe;--val:#ffa657}}\n"
        ".paper{fill:var(--paper)}text{fill:var(--soft)}.t{fill:var(--ink);font-size:20px;font-"
        "weight:600}"
        ".g{stroke:var(--grid)}.a{stroke:var(--soft)}path{fill:none;stroke-linejoin:round}\n"
        ".raw{stroke:var(--line);stroke-opacity:.28}.ema{stroke:var(--line);stroke-width:2.5}"
        ".val{stroke:var(--val);stroke-width:1.5;stroke-dasharray:3 4}"
        ".dot{fill:var(--val);stroke:var(--paper)}\n</style>\n",
        c->f);
    fprintf(
        c->f,
        "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n<text class=\"t\" x=\"%d\" y=\"34\">",
        WIDTH, HEIGHT, LEFT);
    text(c->f, title);
    fprintf(c->f, "</text>\n<text x=\"%d\" y=\"56\">", LEFT);
    text(c->f, subtitle);
    fputs("</text>\n", c->f);
}

static void draw_axes(const chart *c)
{
    double ty = tick_step(c->y1 - c->y0, 6), tx = fmax(1, tick_step(c->x1 - c->x0, 8));
    int places = ty >= 1 ? 0 : (int)ceil(-log10(ty) - 1e-9);
    for (int i = 0; c->y0 + i * ty <= c->y1 + ty / 2; i++) {
        double v = c->y0 + i * ty, y = py(c, v);
        fprintf(c->f,
                "<path class=\"g\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%.*f</text>\n",
                LEFT, y, WIDTH - RIGHT, LEFT - 10, y + 4.5, places, v);
    }
    for (int i = 0; i * tx <= c->x1; i++) {
        double x = px(c, i * tx);
        fprintf(c->f,
                "<path class=\"a\" d=\"M%.1f %dv5\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%s</text>\n",
                x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 21, rt_double_text(i * tx).text);
    }
    fprintf(c->f, "<path class=\"a\" d=\"M%d %dH%d\"/>\n", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT);
    fprintf(c->f, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
    fprintf(c->f,
            "<text transform=\"translate(20 %d) rotate(-90)\" text-anchor=\"middle\">loss</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2);
}

/* Draws the loss: each point, or the least and greatest of each column; or the average: its last
 * point of each column. */
static void draw_loss(const chart *c, bool averaged)
{
    const rt_points *l = &c->h->loss;
    size_t group = l->n > 2 * COLUMNS ? (l->n + COLUMNS - 1) / COLUMNS : 1;
    fprintf(c->f, "<path class=\"%s\" d=\"", averaged ? "ema" : "raw");
    char pen = 'M';
    for (size_t i = 0; i < l->n; i += group, pen = 'L') {
        size_t end = i + group < l->n ? i + group : l->n, low = i, high = i;
        for (size_t k = i; k < end; k++) {
            low = l->item[k].value < l->item[low].value ? k : low;
            high = l->item[k].value > l->item[high].value ? k : high;
        }
        if (averaged || group == 1) {
            fprintf(c->f, "%c%.1f %.1f", pen, px(c, (double)l->item[end - 1].step),
                    py(c, averaged ? c->smooth[end - 1] : l->item[i].value));
            continue;
        }
        size_t first = low < high ? low : high, second = low < high ? high : low;
        fprintf(c->f, "%c%.1f %.1fL%.1f %.1f", pen, px(c, (double)l->item[first].step),
                py(c, l->item[first].value), px(c, (double)l->item[second].step),
                py(c, l->item[second].value));
    }
    fputs("\"/>\n", c->f);
}

static void draw_val(const chart *c)
{
    const rt_points *v = &c->h->val;
    fputs("<path class=\"val\" d=\"", c->f);
    for (size_t i = 0; i < v->n; i++)
        fprintf(c->f, "%c%.1f %.1f", i ? 'L' : 'M', px(c, (double)v->item[i].step),
                py(c, v->item[i].value));
    fputs("\"/>\n", c->f);
    for (size_t i = 0; i < v->n; i++)
        fprintf(c->f,
                "<circle class=\"dot\" r=\"4\" cx=\"%.1f\" cy=\"%.1f\"><title>step %" PRId64
                ": %.4f</title></circle>\n",
                px(c, (double)v->item[i].step), py(c, v->item[i].value), v->item[i].step,
                v->item[i].value);
}

static void draw_legend(const chart *c)
{
    const rt_points *l = &c->h->loss, *v = &c->h->val;
    int x = WIDTH - RIGHT - (v->n ? 330 : 170);
    if (l->n)
        fprintf(
            c->f,
            "<path class=\"ema\" d=\"M%d 30h22\"/><text x=\"%d\" y=\"34\">training %.4f</text>\n",
            x, x + 30, c->smooth[l->n - 1]);
    if (v->n)
        fprintf(c->f,
                "<circle class=\"dot\" r=\"4\" cx=\"%d\" cy=\"30\"/><text x=\"%d\" "
                "y=\"34\">evaluation %.4f</text>\n",
                x + 176, x + 188, v->item[v->n - 1].value);
}

const char *rt_svg_write(const char *path, const rt_history *h, const char *title,
                         const char *subtitle)
{
    chart c = {.h = h};
    char *tmp = rt_printf("%s.tmp", path);
    const char *why = NULL;
    c.f = rt_file_create(tmp);
    if (!c.f) {
        free(tmp);
        return rt_file_error();
    }
    smooth(&c);
    choose_range(&c);
    draw_frame(&c, title, subtitle);
    draw_axes(&c);
    draw_loss(&c, false);
    draw_loss(&c, true);
    if (h->val.n)
        draw_val(&c);
    draw_legend(&c);
    fputs("</svg>\n", c.f);
    bool bad = ferror(c.f);
    if (fclose(c.f) || bad || rename(tmp, path)) {
        why = strerror(errno);
        remove(tmp);
    }
    free(c.smooth);
    free(tmp);
    return why;
}
