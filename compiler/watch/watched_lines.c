/* watched_lines.c - a line of metrics.jsonl becomes points, events and facts; see watched.h. */
#include "compiler/watch/watched.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    const double x = json_is_number(v) ? json_number_value(v) : NAN;
    return isfinite(x) ? x : NAN;
}

static const char *text_of(Watched *w, const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? arena_strdup(w->a, s) : NULL;
}

const Series *watched_series(const Watched *w, const char *name)
{
    for (size_t i = 0; i < w->series.n; i++)
        if (!strcmp(w->series.data[i].name, name))
            return &w->series.data[i];
    return NULL;
}

static void add_point(Watched *w, const char *key, double step, double value)
{
    Series *s = (Series *)watched_series(w, key);
    if (!s && w->series.n == WATCH_SERIES)
        return;
    if (!s) {
        vec_push(w->a, &w->series, (Series){.name = arena_strdup(w->a, key)});
        s = &w->series.data[w->series.n - 1];
    }
    series_add(w->a, s, step, value);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* At most n bytes of a text, whole characters. */
static const char *cut(Watched *w, const char *s, size_t n)
{
    if (strlen(s) <= n)
        return arena_strdup(w->a, s);
    while (n && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    return arena_strndup(w->a, s, n);
}

/* An object's "text", or its other keys as "rank 3, seconds 1.5". */
static const char *rest_of(Watched *w, const json_t *o)
{
    enum { MOST = 400 };
    const char *all = "", *key, *kind = json_string_value(json_object_get(o, "kind")),
               *said = json_string_value(json_object_get(o, "text"));
    json_t *v;
    if (said)
        return cut(w, arena_printf(w->a, "%s%s%s", kind ? kind : "", kind ? ": " : "", said), MOST);
    json_object_foreach((json_t *)o, key, v) {
        if (!strcmp(key, "step") || !strcmp(key, "event") || !strcmp(key, "time"))
            continue;
        const char *between = *all ? ", " : "";
        if (json_is_string(v))
            all = arena_printf(w->a, "%s%s%s %s", all, between, key, json_string_value(v));
        else if (json_is_number(v)) {
            const double x = json_number_value(v);
            all = arena_printf(w->a, "%s%s%s %.*g", all, between, key,
                               x == floor(x) && fabs(x) < 1e15 ? 15 : 6, x);
        } else if (json_is_boolean(v))
            all = arena_printf(w->a, "%s%s%s%s", all, between, json_is_true(v) ? "" : "not ", key);
        if (strlen(all) > MOST)
            return cut(w, all, MOST);
    }
    return all;
}

static void add_event(Watched *w, double step, double time, const char *kind, const char *text)
{
    enum { KEPT = WATCH_EVENTS / 2 };
    if (w->events.n == WATCH_EVENTS) { /* the older half goes */
        memmove(w->events.data, w->events.data + KEPT, KEPT * sizeof *w->events.data);
        w->events.n = KEPT;
    }
    vec_push(w->a, &w->events, (WatchEvent){step, time, kind, text});
}

static void add_start(Watched *w, const json_t *o, double step, double time)
{
    const bool resumed = json_is_true(json_object_get(o, "resumed"));
    w->start = (WatchStart){
        .program = text_of(w, o, "program"),
        .compiler = text_of(w, o, "compiler"),
        .layout = text_of(w, o, "layout"),
        .optimizer = text_of(w, o, "optimizer"),
        .settings = text_of(w, o, "settings"),
        .device = text_of(w, o, "device"),
        .host = text_of(w, o, "host"),
        .step = step,
        .time = time,
        .ranks = number_of(o, "ranks"),
        .threads = number_of(o, "threads"),
        .steps = number_of(o, "steps"),
        .batch = number_of(o, "batch"),
        .seq = number_of(o, "seq"),
        .parameters = number_of(o, "parameters"),
        .predicted_ms = number_of(o, "predicted_step_ms"),
        .flops = number_of(o, "step_flops"),
        .memory_planned = number_of(o, "memory_planned"),
    };
    w->started = true;
    w->ended = false;
    w->nwait = 0;
    w->starts++;
    add_event(w, step, time, "start",
              resumed ? arena_printf(w->a, "resumed after step %.0f", step) : "began");
}

static void read_event(Watched *w, const json_t *o, const char *kind, double step, double time)
{
    if (!strcmp(kind, "start")) {
        add_start(w, o, step, time);
        return;
    }
    if (!strcmp(kind, "end")) {
        w->ended = true;
        w->why = text_of(w, o, "why");
        if (isfinite(number_of(o, "memory_used")) && number_of(o, "memory_used") >= 0)
            w->memory_used = number_of(o, "memory_used");
        add_event(w, step, time, "end", w->why ? w->why : "");
        return;
    }
    if (!strcmp(kind, "memory_save")) { /* there are many: a curve, and no marks */
        add_point(w, "memory_save_stopped_ms", step, number_of(o, "stopped_ms"));
        add_point(w, "memory_save_sent_ms", step, number_of(o, "sent_ms"));
        return;
    }
    w->restarts += !strcmp(kind, "restart");
    w->alerts += !strcmp(kind, "alert");
    add_event(w, step, time, cut(w, kind, 40), rest_of(w, o));
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void read_waits(Watched *w, const json_t *waits)
{
    const char *key;
    json_t *v;
    for (int i = 0; i < WATCH_RANKS; i++)
        w->wait[i] = NAN;
    w->nwait = 0;
    json_object_foreach((json_t *)waits, key, v) {
        char *end;
        const long rank = strtol(key, &end, 10);
        const double ms = json_number_value(v);
        if (*end || end == key || rank < 0 || rank >= WATCH_RANKS || !isfinite(ms) || ms < 0)
            continue;
        w->wait[rank] = ms;
        w->nwait = rank >= w->nwait ? (int)rank + 1 : w->nwait;
    }
}

static void read_numbers(Watched *w, const json_t *o, double step, double time)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)o, key, v) {
        const double x = json_is_number(v) ? json_number_value(v) : NAN;
        if (!isfinite(x) || !strcmp(key, "step") || strlen(key) > 100)
            continue;
        if (!strcmp(key, "memory_used"))
            w->memory_used = x;
        else
            add_point(w, key, step, x);
    }
    if (json_is_object(json_object_get(o, "wait_ms")))
        read_waits(w, json_object_get(o, "wait_ms"));
    if (json_is_true(json_object_get(o, "skipped"))) {
        w->skipped++;
        add_event(w, step, time, "skipped", "a spike: the step changed nothing");
    }
    w->overflows += json_is_true(json_object_get(o, "overflow"));
}

void watched_line(Watched *w, const char *text, size_t n)
{
    json_t *o = json_loadb(text, n, JSON_DECODE_INT_AS_REAL, NULL);
    const double step = number_of(o, "step"), time = number_of(o, "time");
    const char *kind = json_string_value(json_object_get(o, "event"));
    w->lines++;
    w->version++;
    if (!json_is_object(o) || !(isfinite(step) || kind) || fabs(step) > 1e15) {
        w->unread++;
        json_decref(o);
        return;
    }
    if (isfinite(step))
        w->step = step;
    if (isfinite(time)) {
        w->time = time;
        w->first_time = isfinite(w->first_time) ? w->first_time : time;
    }
    if (kind)
        read_event(w, o, kind, isfinite(step) ? step : w->step, time);
    else
        read_numbers(w, o, step, time);
    json_decref(o);
}

void watched_clear(Watched *w)
{
    arena_free(w->a);
    Watched fresh = {.path = w->path,
                     .name = w->name,
                     .a = arena_new(),
                     .file = w->file,
                     .locked = w->locked,
                     .saved = w->saved,
                     .version = w->version + 1,
                     .step = NAN,
                     .time = NAN,
                     .first_time = NAN,
                     .memory_used = NAN};
    *w = fresh;
    w->start = (WatchStart){.step = NAN,
                            .time = NAN,
                            .ranks = NAN,
                            .threads = NAN,
                            .steps = NAN,
                            .batch = NAN,
                            .seq = NAN,
                            .parameters = NAN,
                            .predicted_ms = NAN,
                            .flops = NAN,
                            .memory_planned = NAN};
}
