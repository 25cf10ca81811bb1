/* board.c - what a board's page draws: numbers by step, facts and events of each run; see board.h.
 *
 * A curve has at most POINTS points; each stands for so many bins as that takes, with their
 * least and greatest number. Times are seconds after the run's first line. */
#include "compiler/watch/board.h"

#include <math.h>
#include <string.h>

enum { POINTS = 2048 };

static json_t *number(double x)
{
    if (!isfinite(x))
        return json_null();
    return fabs(x) < 9e15 && x == floor(x) ? json_integer((json_int_t)x) : json_real(x);
}

/* Seconds since 1970. */
static json_t *when(double time)
{
    return number(floor(time));
}

static json_t *text(const char *s)
{
    json_t *whole = s ? json_string(s) : json_null();
    if (whole)
        return whole;
    char plain[256]; /* a name that is no UTF-8 */
    size_t n = 0;
    for (; s[n] && n < sizeof plain; n++)
        plain[n] = (unsigned char)s[n] < 0x20 || (unsigned char)s[n] > 0x7e ? '?' : s[n];
    return json_stringn(plain, n);
}

static double middle(const Bin *b)
{
    return b->n == 1 ? b->first : floor(b->first + (b->last - b->first) / 2);
}

static json_t *series_json(const Watched *w, const Series *s)
{
    const size_t n = s->bins.n, each = (n + POINTS - 1) / POINTS;
    const double zero = strcmp(s->name, "time") ? 0 : w->first_time;
    const bool spread = s->per > 1 || each > 1;
    json_t *step = json_array(), *mean = json_array(), *low = json_array(), *high = json_array();
    for (size_t i = 0; i < n; i += each) {
        Bin b = s->bins.data[i];
        for (size_t k = i + 1; k < i + each && k < n; k++) {
            const Bin *c = &s->bins.data[k];
            b.last = c->last;
            b.min = fmin(b.min, c->min);
            b.max = fmax(b.max, c->max);
            b.sum += c->sum;
            b.n += c->n;
        }
        json_array_append_new(step, number(middle(&b)));
        json_array_append_new(mean, number(bin_mean(&b) - zero));
        if (spread) {
            json_array_append_new(low, number(b.min - zero));
            json_array_append_new(high, number(b.max - zero));
        }
    }
    json_t *o = json_pack("{s:s, s:o, s:o}", "name", s->name, "step", step, "mean", mean);
    if (spread) {
        json_object_set_new(o, "low", low);
        json_object_set_new(o, "high", high);
    } else {
        json_decref(low);
        json_decref(high);
    }
    return o;
}

static json_t *events_json(const Watched *w)
{
    json_t *all = json_array();
    for (size_t i = 0; i < w->events.n; i++) {
        const WatchEvent *e = &w->events.data[i];
        json_t *one = json_array();
        json_array_append_new(one, number(e->step));
        json_array_append_new(one, when(e->time));
        json_array_append_new(one, text(e->kind));
        json_array_append_new(one, text(e->text));
        json_array_append_new(all, one);
    }
    return all;
}

static json_t *waits_json(const Watched *w)
{
    json_t *all = json_array();
    for (int i = 0; i < w->nwait; i++)
        json_array_append_new(all, number(w->wait[i]));
    return all;
}

static void set_facts(const Watched *w, json_t *o)
{
    const WatchStart *s = &w->start;
    const struct {
        const char *name;
        const char *text;
    } texts[] = {{"program", s->program},   {"compiler", s->compiler},
                 {"layout", s->layout},     {"optimizer", s->optimizer},
                 {"settings", s->settings}, {"device", s->device},
                 {"host", s->host}};
    const struct {
        const char *name;
        double x;
    } numbers[] = {{"step", w->step},
                   {"time", floor(w->time)},
                   {"steps", s->steps},
                   {"batch", s->batch},
                   {"seq", s->seq},
                   {"parameters", s->parameters},
                   {"ranks", s->ranks},
                   {"threads", s->threads},
                   {"predicted_ms", s->predicted_ms},
                   {"memory_planned", s->memory_planned},
                   {"memory_used", w->memory_used},
                   {"starts", (double)watched_starts(w)},
                   {"alerts", (double)w->alerts},
                   {"skipped", (double)w->skipped},
                   {"overflows", (double)w->overflows},
                   {"unread", (double)w->unread},
                   {"saved_step", w->saved.step},
                   {"saved_bytes", w->saved.bytes},
                   {"saved_time", floor(w->saved.time)},
                   {"eta", w->locked ? watched_eta(w) : NAN}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        json_object_set_new(o, texts[i].name, text(texts[i].text));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(o, numbers[i].name, number(numbers[i].x));
}

static json_t *run_json(const Watched *w)
{
    json_t *o = json_object(), *series = json_array();
    json_object_set_new(o, "name", text(w->name));
    json_object_set_new(o, "state", text(watched_state_text(watched_state(w))));
    set_facts(w, o);
    for (size_t i = 0; i < w->series.n; i++)
        json_array_append_new(series, series_json(w, &w->series.data[i]));
    json_object_set_new(o, "series", series);
    json_object_set_new(o, "events", events_json(w));
    json_object_set_new(o, "waits", waits_json(w));
    return o;
}

uint64_t board_version(Watched *const *runs, int n)
{
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += runs[i]->version;
    return sum;
}

json_t *board_json(Watched *const *runs, int n, bool lives)
{
    json_t *all = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(all, run_json(runs[i]));
    return json_pack("{s:s, s:b, s:I, s:o}", "mgc", MGC_VERSION, "lives", lives, "version",
                     (json_int_t)board_version(runs, n), "runs", all);
}
