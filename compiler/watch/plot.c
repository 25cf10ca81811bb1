/* plot.c - a curve of a run in characters; see plot.h.
 *
 * Each column of dots shows the least and the greatest number of its steps, so that a spike is
 * seen, and lines from mean to mean. The range leaves out the outermost numbers of a long curve,
 * which lie at its edge then. */
#include "compiler/watch/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUTTER = 10 }; /* columns of the numbers at the left */

typedef struct Plot {
    Frame *f;
    int row, column, rows, columns; /* of the curve alone, in cells */
    int across, down;               /* dots of a cell */
    double x0, x1, y0, y1;          /* y of a logarithm, if log */
    bool log;
} Plot;

static double scaled(const Plot *p, double v)
{
    return p->log ? v > 0 ? log10(v) : NAN : v;
}

static double dot_x(const Plot *p, double step)
{
    return (step - p->x0) / (p->x1 - p->x0) * (p->columns * p->across - 1);
}

/* From the top; at the edge of the range what is beyond it. */
static double dot_y(const Plot *p, double v)
{
    const double share = (v - p->y0) / (p->y1 - p->y0);
    return (1 - fmin(fmax(share, 0), 1)) * (p->rows * p->down - 1);
}

static void dot(const Plot *p, int x, int y, Style style)
{
    static const uint8_t braille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x < 0 || y < 0 || x >= p->columns * p->across || y >= p->rows * p->down)
        return;
    const int row = p->row + y / p->down, column = p->column + x / p->across;
    const int32_t was = p->f->cells[row * p->f->columns + column].c;
    if (p->f->utf8) {
        const int32_t bits = was >= 0x2800 && was < 0x2900 ? was : 0x2800;
        frame_put(p->f, row, column, style, bits | braille[y % 4][x % 2]);
    } else {
        const bool low = y % 2, both = was == ':' || was == (low ? '\'' : '.');
        frame_put(p->f, row, column, style, both ? ':' : low ? '.' : '\'');
    }
}

static void line(const Plot *p, double x0, double y0, double x1, double y1, Style style)
{
    const double steps = ceil(fmax(fmax(fabs(x1 - x0), fabs(y1 - y0)), 1));
    for (double i = 0; i <= steps; i++)
        dot(p, (int)lround(x0 + (x1 - x0) * i / steps), (int)lround(y0 + (y1 - y0) * i / steps),
            style);
}

static double middle(const Bin *b)
{
    return b->first + (b->last - b->first) / 2;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Widens the range by what is seen of a series. */
static void include(Plot *p, const Series *s, bool spread)
{
    const size_t n = s->bins.n;
    double *low = malloc((n + 1) * sizeof *low), *high = malloc((n + 1) * sizeof *high);
    size_t k = 0;
    for (size_t i = 0; low && high && i < n; i++) {
        const Bin *b = &s->bins.data[i];
        const double a = scaled(p, spread ? b->min : bin_mean(b)),
                     z = scaled(p, spread ? b->max : bin_mean(b));
        if (middle(b) < p->x0 || !isfinite(a) || !isfinite(z))
            continue;
        low[k] = a;
        high[k++] = z;
    }
    if (k) {
        qsort(low, k, sizeof *low, by_value);
        qsort(high, k, sizeof *high, by_value);
        p->y0 = fmin(p->y0, low[k / 500]);
        p->y1 = fmax(p->y1, high[k - 1 - k / 500]);
    }
    free(low);
    free(high);
}

static void curve(const Plot *p, const Series *s, bool smooth, Style style)
{
    const size_t n = s->bins.n;
    const double keep = n > 100 ? 1 - 30.0 / (double)n : 0.7;
    double px = NAN, py = NAN, sum = 0, weight = 0;
    for (size_t i = 0; i < n; i++) {
        const Bin *b = &s->bins.data[i];
        double mean = bin_mean(b);
        sum = keep * sum + (1 - keep) * mean;
        weight = keep * weight + (1 - keep);
        mean = scaled(p, smooth ? sum / weight : mean);
        if (middle(b) < p->x0)
            continue;
        if (!isfinite(mean)) {
            px = NAN;
            continue;
        }
        const double x = dot_x(p, middle(b)), y = dot_y(p, mean);
        if (isfinite(px))
            line(p, px, py, x, y, style);
        else
            dot(p, (int)lround(x), (int)lround(y), style);
        const double low = scaled(p, b->min), high = scaled(p, b->max);
        if (!smooth && isfinite(low) && isfinite(high) && b->n > 1)
            line(p, x, dot_y(p, low), x, dot_y(p, high), style);
        px = x;
        py = y;
    }
}

static void points(const Plot *p, const Series *s)
{
    for (size_t i = 0; i < s->bins.n; i++) {
        const Bin *b = &s->bins.data[i];
        const double v = scaled(p, bin_mean(b));
        if (middle(b) < p->x0 || !isfinite(v))
            continue;
        frame_put(p->f, p->row + (int)lround(dot_y(p, v)) / p->down,
                  p->column + (int)lround(dot_x(p, middle(b))) / p->across, STYLE_second,
                  p->f->utf8 ? 0x25cf : 'o');
    }
}

/* The axis of steps, with a letter where something happened, and numbers at both. */
static void axes(const Plot *p, const Watched *w)
{
    const int below = p->row + p->rows;
    for (int i = 0; i < 3; i++) {
        const int row = p->row + (p->rows - 1) * i / 2;
        const double v = p->y1 + (p->y0 - p->y1) * (row - p->row) / fmax(p->rows - 1, 1);
        if (i != 1 || p->rows > 4)
            frame_print(p->f, row, p->column - GUTTER, GUTTER - 1, STYLE_dim, "%*.4g", GUTTER - 1,
                        p->log ? pow(10, v) : v);
    }
    for (int i = 0; i < p->columns; i++)
        frame_put(p->f, below, p->column + i, STYLE_dim, p->f->utf8 ? 0x2500 : '-');
    for (size_t i = 0; i < w->events.n; i++) {
        const WatchEvent *e = &w->events.data[i];
        const bool alert = !strcmp(e->kind, "alert"), start = !strcmp(e->kind, "start"),
                   restart = !strcmp(e->kind, "restart");
        if (e->step < p->x0 || e->step > p->x1 || (start && e->step <= 0))
            continue;
        frame_put(p->f, below, p->column + (int)lround(dot_x(p, e->step)) / p->across,
                  alert ? STYLE_alert : STYLE_bold,
                  alert              ? '!'
                  : start || restart ? 'R'
                  : *e->kind == 'e'  ? '|'
                                     : '*');
    }
    char left[32], right[32];
    const int n = snprintf(left, sizeof left, "%.0f", p->x0),
              m = snprintf(right, sizeof right, "%.0f", p->x1);
    frame_text(p->f, below + 1, p->column, n, STYLE_dim, left);
    frame_text(p->f, below + 1, p->column + p->columns - m, m, STYLE_dim, right);
    frame_text(p->f, below + 1, p->column + p->columns / 2 - 2, 4, STYLE_dim, "step");
}

void plot_draw(Frame *f, int row, int column, int rows, int columns, const Watched *w,
               const PlotAsks *asks)
{
    const Series *s = watched_series(w, asks->metric);
    const Series *val = strcmp(asks->metric, "loss") ? NULL : watched_series(w, "val_loss");
    Plot p = {.f = f,
              .row = row,
              .column = column + GUTTER,
              .rows = rows - 2,
              .columns = columns - GUTTER,
              .across = f->utf8 ? 2 : 1,
              .down = f->utf8 ? 4 : 2,
              .y0 = INFINITY,
              .y1 = -INFINITY,
              .log = asks->log};
    if (!s || !s->bins.n) {
        frame_print(f, row + rows / 2, p.column, p.columns, STYLE_dim, "no '%s' yet", asks->metric);
        return;
    }
    p.x1 = fmax(s->bins.data[s->bins.n - 1].last, w->step);
    p.x0 = fmax(0, p.x1 - p.x1 / pow(2, asks->zoom));
    if (!(p.x1 > p.x0))
        p.x1 = p.x0 + 1;
    include(&p, s, !asks->smooth);
    if (val)
        include(&p, val, false);
    if (!(p.y1 >= p.y0)) {
        frame_print(f, row + rows / 2, p.column, p.columns, STYLE_dim,
                    p.log ? "nothing above 0 here: l shows a linear scale" : "nothing here");
        return;
    }
    if (!(p.y1 - p.y0 > 1e-9 * fabs(p.y1))) {
        const double pad = p.log ? 0.1 : p.y1 != 0 ? 0.05 * fabs(p.y1) : 1;
        p.y0 -= pad;
        p.y1 += pad;
    }
    curve(&p, s, asks->smooth, STYLE_curve);
    if (val)
        points(&p, val);
    axes(&p, w);
}
