/* show.c - the panels of `mgc watch`; see show.h.
 *
 * Seven lines are always there: name and state, progress, four of numbers, the names of what can be
 * chosen. Then the curve, or a page of ranks or of events; beside it, or in a narrow terminal below
 * it, the ranks by wait and the newest events. The last line has the keys. */
#include "compiler/watch/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/quantity.h"
#include "compiler/watch/plot.h"

enum { TABS = WATCH_SERIES + 2, LEAST_ROWS = 12, LEAST_COLUMNS = 50, WIDE = 112, SIDE = 42 };

typedef struct Show {
    Arena *a;
    Frame *f;
    const Watched *w;
    const View *v;
    double now;
    const char *tab[TABS];
    int ntabs, chosen;
} Show;

/* ---- texts ----------------------------------------------------------------------------------- */

static const char *duration(Arena *a, double seconds)
{
    if (!(seconds >= 0) || seconds > 1e12)
        return "-";
    const long long s = (long long)(seconds + 0.5);
    return s >= 86400 ? arena_printf(a, "%lld d %lld:%02lld", s / 86400, s / 3600 % 24, s / 60 % 60)
           : s >= 3600 ? arena_printf(a, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60)
                       : arena_printf(a, "%lld:%02lld", s / 60, s % 60);
}

static const char *clock_text(Arena *a, double time)
{
    char text[32] = "--:--:--";
    struct tm tm;
    const time_t t = isfinite(time) && fabs(time) < 1e11 ? (time_t)time : -1;
    if (t >= 0 && localtime_r(&t, &tm))
        strftime(text, sizeof text, "%H:%M:%S", &tm);
    return arena_strdup(a, text);
}

static const char *digits(Arena *a, double x)
{
    return isfinite(x) ? arena_printf(a, "%.4g", x) : "-";
}

static const char *loss_text(Arena *a, double x)
{
    return fabs(x) >= 0.01 && fabs(x) < 1000 ? arena_printf(a, "%.4f", x) : digits(a, x);
}

static double newest(const Watched *w, const char *name)
{
    const Series *s = watched_series(w, name);
    return s && s->bins.n ? s->newest : NAN;
}

/* The mean of the newest points, or of the bins that have them. */
static double lately(const Watched *w, const char *name)
{
    enum { POINTS = 20 };
    const Series *s = watched_series(w, name);
    double sum = 0, n = 0;
    for (size_t i = s ? s->bins.n : 0; i > 0 && n < POINTS; i--) {
        sum += s->bins.data[i - 1].sum;
        n += (double)s->bins.data[i - 1].n;
    }
    return n > 0 ? sum / n : NAN;
}

static double least(const Watched *w, const char *name, double *step)
{
    const Series *s = watched_series(w, name);
    double min = NAN;
    *step = NAN;
    for (size_t i = 0; s && i < s->bins.n; i++)
        if (!(s->bins.data[i].min >= min)) {
            min = s->bins.data[i].min;
            *step = s->bins.data[i].last;
        }
    return min;
}

/* ---- what can be chosen -----------------------------------------------------------------------
 */

static bool is_listed(const Show *s, const char *name)
{
    for (int i = 0; i < s->ntabs; i++)
        if (!strcmp(s->tab[i], name))
            return true;
    return false;
}

static void add_tab(Show *s, const char *name)
{
    if (!is_listed(s, name) && s->ntabs < TABS)
        s->tab[s->ntabs++] = name;
}

static void find_tabs(Show *s)
{
    static const char *const first[] = {"loss", "val_loss",     "grad_norm",
                                        "lr",   "tokens_per_s", "step_ms"};
    const Watched *w = s->w;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (i == 0 || watched_series(w, first[i]))
            add_tab(s, first[i]);
    for (size_t i = 0; i < w->series.n; i++)
        if (strcmp(w->series.data[i].name, "time") && strcmp(w->series.data[i].name, "tokens"))
            add_tab(s, w->series.data[i].name);
    if (w->nwait)
        add_tab(s, " ranks");
    add_tab(s, " events");
    s->chosen = s->v->tab % s->ntabs;
    if (s->chosen < 0)
        s->chosen += s->ntabs;
}

/* ---- the lines that are always there ----------------------------------------------------------
 */

static void head(const Show *s)
{
    const Watched *w = s->w;
    Frame *f = s->f;
    const WatchState state = watched_state(w);
    const bool bad = state == WATCH_died || state == WATCH_failed;
    const char *of = isfinite(w->start.steps) ? arena_printf(s->a, " of %.0f", w->start.steps) : "";
    for (int i = 0; i < f->columns; i++)
        frame_put(f, 0, i, STYLE_title, ' ');
    const char *which =
        s->v->runs > 1 ? arena_printf(s->a, "%d/%d ", s->v->run + 1, s->v->runs) : "";
    const char *step = isfinite(w->step) ? arena_printf(s->a, "step %.0f%s", w->step, of) : "";
    const int right = (int)strlen(step) + 20, room = f->columns - right - 12;
    int at =
        1 + frame_print(f, 0, 1, room > 8 ? room : 8, STYLE_title, "%s%s%s%s", which, w->name,
                        w->start.program ? "  " : "", w->start.program ? w->start.program : "");
    at += 2 +
          frame_text(f, 0, at + 2, 10, bad ? STYLE_alert : STYLE_title, watched_state_text(state));
    frame_text(f, 0, at + 2, f->columns - at - 13, STYLE_title, step);
    frame_text(f, 0, f->columns - 9, 8, STYLE_title, clock_text(s->a, s->now));
}

static void progress(const Show *s)
{
    const Watched *w = s->w;
    Frame *f = s->f;
    const double share = w->step / w->start.steps, age = s->now - w->time, pace = watched_pace(w);
    if (watched_state(w) == WATCH_awaited) {
        frame_print(f, 1, 1, f->columns - 2, STYLE_dim, "waiting for %s/metrics.jsonl", w->path);
        return;
    }
    const bool running = w->locked;
    const char *text =
        running && isfinite(share)
            ? arena_printf(s->a, "%3.0f%%  eta %s", 100 * share, duration(s->a, watched_eta(w)))
        : isfinite(share) ? arena_printf(s->a, "%3.0f%%", 100 * share)
                          : "";
    const char *late = w->behind ? "there is more to be read"
                       : running && age > 10 && !(age < 5 * pace)
                           ? arena_printf(s->a, "no line for %s", duration(s->a, age))
                       : !running && isfinite(w->time)
                           ? arena_printf(s->a, "the last line was %s ago", duration(s->a, age))
                           : "";
    const int width = f->columns - 4 - (int)strlen(text) - (int)strlen(late) - 2;
    int at = 1;
    if (isfinite(share) && width > 6) {
        frame_bar(f, 1, at, width, STYLE_bar, share, true);
        at += width + 1;
    }
    at += frame_text(f, 1, at, -1, STYLE_bold, text) + 2;
    frame_text(f, 1, at, -1, running ? STYLE_alert : STYLE_dim, late);
}

/* "name value" in the left or the right part of a line. */
static void fact(const Show *s, int row, bool right, const char *name, const char *value)
{
    enum { NAME = 10 };
    Frame *f = s->f;
    const int left = f->columns * 38 / 80, at = right ? left + 1 : 1,
              width = right ? f->columns - left - 2 : left - 1;
    frame_text(f, row, at, NAME - 1, STYLE_dim, name);
    frame_text(f, row, at + NAME, width - NAME, STYLE_plain, value);
}

static const char *step_time(const Show *s)
{
    const double ms = lately(s->w, "step_ms"), predicted = s->w->start.predicted_ms;
    const double unit = predicted >= 1000 ? 1000 : 1;
    if (!(predicted > 0) || !isfinite(ms))
        return isfinite(ms) ? text_seconds(s->a, ms * 1e-3) : "-";
    return arena_printf(s->a, "%s %s, predicted %s: %.3gx", text_rate(s->a, ms / unit),
                        unit > 1 ? "s" : "ms", text_rate(s->a, predicted / unit), ms / predicted);
}

static const char *memory(const Show *s)
{
    const double used = s->w->memory_used, planned = s->w->start.memory_planned;
    if (!isfinite(planned))
        return isfinite(used) ? text_bytes(s->a, used) : "-";
    if (!isfinite(used))
        return arena_printf(s->a, "%s planned", text_bytes(s->a, planned));
    return arena_printf(s->a, "%s of %s planned", text_bytes(s->a, used),
                        text_bytes(s->a, planned));
}

static const char *checkpoint(const Show *s)
{
    const WatchSaved *c = &s->w->saved;
    if (c->step < 0)
        return "none";
    return arena_printf(s->a, "step %.0f, %s ago, %s", c->step,
                        duration(s->a, fmax(0, s->now - c->time)), text_bytes(s->a, c->bytes));
}

static void facts(const Show *s)
{
    const Watched *w = s->w;
    Arena *a = s->a;
    double at;
    const double loss = newest(w, "loss"), val = newest(w, "val_loss"),
                 best = least(w, "val_loss", &at);
    fact(s, 2, false, "loss",
         isfinite(loss)
             ? arena_printf(a, "%s, lately %s", loss_text(a, loss), loss_text(a, lately(w, "loss")))
             : "-");
    fact(s, 2, true, "val loss",
         isfinite(val)
             ? arena_printf(a, "%s, least %s at %.0f", loss_text(a, val), loss_text(a, best), at)
             : "no evaluation yet");
    const double rate = lately(w, "tokens_per_s");
    fact(s, 3, false, "speed",
         isfinite(rate) ? arena_printf(a, "%s tok/s", text_rate(a, rate)) : "-");
    fact(s, 3, true, "step", step_time(s));
    fact(s, 4, false, "grad norm",
         arena_printf(a, "%s, lr %s", digits(a, newest(w, "grad_norm")),
                      digits(a, newest(w, "lr"))));
    fact(s, 4, true, "saved", checkpoint(s));
    fact(s, 5, false, "memory", memory(s));
    const char *ranks = isfinite(w->start.ranks) ? arena_printf(a, "%.0f", w->start.ranks) : "-";
    if (watched_starts(w) > 1 || w->alerts)
        ranks = arena_printf(a, "%s, starts %lld, alerts %lld", ranks, (long long)watched_starts(w),
                             (long long)w->alerts);
    else if (w->start.device)
        ranks = arena_printf(a, "%s on %s", ranks, w->start.device);
    fact(s, 5, true, "ranks", ranks);
}

static void tabs(const Show *s)
{
    int at = 1, first = 0, width = 0;
    for (int i = 0; i <= s->chosen; i++) /* from the one on with which the chosen one is seen */
        for (width += (int)strlen(s->tab[i]) + 3; width > s->f->columns - 4 && first < i; first++)
            width -= (int)strlen(s->tab[first]) + 3;
    for (int i = first; i < s->ntabs && at < s->f->columns - 2; i++) {
        const char *name = s->tab[i] + (*s->tab[i] == ' ');
        const bool chosen = i == s->chosen;
        at += frame_print(s->f, 6, at, -1, chosen ? STYLE_chosen : STYLE_dim,
                          chosen ? "[%s]" : " %s ", name);
    }
    for (int i = at; i < s->f->columns - 1; i++)
        frame_put(s->f, 6, i, STYLE_dim, s->f->utf8 ? 0x2500 : '-');
}

/* ---- ranks and events -------------------------------------------------------------------------
 */

typedef struct Waits {
    int rank;
    double ms;
} Waits;

static int by_wait(const void *a, const void *b)
{
    const Waits *x = a, *y = b;
    return x->ms < y->ms ? -1 : x->ms > y->ms ? 1 : x->rank - y->rank;
}

/* The ranks that wait least come first: the others wait for them. */
static void ranks(const Show *s, int row, int column, int rows, int columns)
{
    const Watched *w = s->w;
    Waits *all = NEW_ARRAY(s->a, Waits, (size_t)w->nwait + 1);
    int n = 0;
    for (int i = 0; i < w->nwait; i++)
        if (isfinite(w->wait[i]))
            all[n++] = (Waits){i, w->wait[i]};
    qsort(all, (size_t)n, sizeof *all, by_wait);
    const double ms = lately(w, "step_ms");
    frame_print(s->f, row, column, columns, STYLE_bold, "waits of a step, of %d ranks", n);
    for (int i = 0; i < n && i + 1 < rows; i++) {
        const bool last = i + 2 == rows && i + 1 < n; /* the one that waits longest is shown, too */
        const Waits *r = &all[last ? n - 1 : i];
        const char *text =
            arena_printf(s->a, "%s %3.0f%%", text_seconds(s->a, r->ms * 1e-3), 100 * r->ms / ms);
        frame_print(s->f, row + 1 + i, column, 9, STYLE_plain, "rank %d", r->rank);
        frame_bar(s->f, row + 1 + i, column + 9, columns - 25, STYLE_bar, r->ms / ms, true);
        frame_print(s->f, row + 1 + i, column + columns - 15, 15, STYLE_plain, "%15s", text);
    }
}

static Style style_of(const WatchEvent *e)
{
    return !strcmp(e->kind, "alert") || !strcmp(e->kind, "restart") ? STYLE_alert : STYLE_plain;
}

/* The newest first. */
static void events(const Show *s, int row, int column, int rows, int columns, int skip)
{
    const Watched *w = s->w;
    const size_t n = w->events.n;
    frame_print(s->f, row, column, columns, STYLE_bold, "events%s%s",
                w->skipped ? arena_printf(s->a, ", %lld steps skipped", (long long)w->skipped) : "",
                w->unread ? arena_printf(s->a, ", %lld lines unreadable", (long long)w->unread)
                          : "");
    for (int i = 0; i + 1 < rows && (size_t)(skip + i) < n; i++) {
        const WatchEvent *e = &w->events.data[n - 1 - (size_t)(skip + i)];
        frame_print(s->f, row + 1 + i, column, columns, style_of(e), "%s %.0f %s: %s",
                    clock_text(s->a, e->time), e->step, e->kind, e->text);
    }
    if (!n)
        frame_text(s->f, row + 1, column, columns, STYLE_dim, "none");
}

/* ---- the frame --------------------------------------------------------------------------------
 */

static void help(const Show *s, int row, int rows)
{
    static const char *const text[] = {
        "Tab, right / left   another number, the ranks, the events",
        "n, p                the next run, the one before",
        "l                   logarithmic scale, linear scale",
        "s                   smoothed, as it is",
        "+, -, 0             half as many steps, twice as many, all",
        "down, up            through the events",
        "?                   this text",
        "q                   ends; the run goes on",
        "",
        "R a start, ! an alert, | an end, * anything else; a dot: an evaluation"};
    for (int i = 0; i < (int)(sizeof text / sizeof *text) && i < rows; i++)
        frame_text(s->f, row + i, 3, -1, STYLE_plain, text[i]);
}

static void page(const Show *s, int row, int column, int rows, int columns)
{
    const char *name = s->tab[s->chosen];
    const View *v = s->v;
    if (v->help)
        help(s, row, rows);
    else if (!strcmp(name, " ranks"))
        ranks(s, row, column, rows, columns);
    else if (!strcmp(name, " events"))
        events(s, row, column, rows, columns, v->scroll < 0 ? 0 : v->scroll);
    else if (rows >= 4)
        plot_draw(s->f, row, column, rows, columns, s->w,
                  &(PlotAsks){name, v->log, v->smooth, v->zoom});
}

static void keys(const Show *s)
{
    const View *v = s->v;
    frame_print(s->f, s->f->rows - 1, 1, s->f->columns - 2, STYLE_dim,
                "q quit  Tab next  l %s  s %s  +/- steps%s  %s? help", v->log ? "linear" : "log",
                v->smooth ? "as it is" : "smooth",
                v->zoom ? arena_printf(s->a, " (1/%d)", 1 << v->zoom) : "",
                v->runs > 1 ? "n/p run  " : "");
}

Frame *show_run(Arena *a, const Watched *w, const View *v, int rows, int columns, bool utf8,
                double now)
{
    Show s = {.a = a, .f = frame_new(a, rows, columns, utf8), .w = w, .v = v, .now = now};
    if (rows < LEAST_ROWS || columns < LEAST_COLUMNS) {
        frame_print(s.f, 0, 0, columns, STYLE_bold, "%s: step %.0f, loss %.4g", w->name, w->step,
                    newest(w, "loss"));
        if (rows > 1)
            frame_print(s.f, 1, 0, columns, STYLE_dim, "%d x %d at least", LEAST_COLUMNS,
                        LEAST_ROWS);
        return s.f;
    }
    find_tabs(&s);
    head(&s);
    progress(&s);
    facts(&s);
    tabs(&s);
    keys(&s);
    const int top = 7, room = rows - top - 1;
    if (columns >= WIDE) {
        const int side = columns - SIDE, some = w->nwait ? room / 2 : 0;
        page(&s, top, 1, room, side - 3);
        if (some)
            ranks(&s, top, side, some - 1, SIDE - 1);
        events(&s, top + some, side, room - some, SIDE - 1, 0);
        return s.f;
    }
    int of_events = room >= 14 ? room / 5 : 0, of_ranks = w->nwait && room >= 14 ? room / 4 : 0;
    of_ranks = of_ranks > w->nwait + 1 ? w->nwait + 1 : of_ranks;
    of_events = of_events > 8 ? 8 : of_events;
    page(&s, top, 1, room - of_events - of_ranks, columns - 2);
    if (of_ranks)
        ranks(&s, top + room - of_events - of_ranks, 1, of_ranks, columns - 2);
    if (of_events)
        events(&s, top + room - of_events, 1, of_events, columns - 2, 0);
    return s.f;
}

bool show_key(View *v, int key)
{
    switch (key) {
    case '\t':
        v->tab++;
        v->scroll = 0;
        return true;
    case 'T': /* the key back */
        v->tab--;
        v->scroll = 0;
        return true;
    case 'n':
    case 'p':
        v->run = (v->run + (key == 'n' ? 1 : v->runs - 1)) % v->runs;
        return true;
    case 'l':
        v->log = !v->log;
        return true;
    case 's':
        v->smooth = !v->smooth;
        return true;
    case '+':
    case '=':
        v->zoom += v->zoom < 20;
        return true;
    case '-':
        v->zoom -= v->zoom > 0;
        return true;
    case '0':
        v->zoom = 0;
        return true;
    case 'j':
        v->scroll += v->scroll < WATCH_EVENTS;
        return true;
    case 'k':
        v->scroll -= v->scroll > 0;
        return true;
    case '?':
        v->help = !v->help;
        return true;
    default:
        return false;
    }
}
