/* report.c - mgc report: a measured timeline (./train --trace) beside what its program predicted,
 * by kind of action and action by action. */
#include "compiler/report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef ReportLine Line;

/* ---- reading --------------------------------------------------------------------------------- */

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : 0;
}

static const char *text(Arena *a, const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return arena_strdup(a, s ? s : "");
}

static void add(Line *l, const json_t *args)
{
    l->calls++;
    l->measured += number(args, "measured_us");
    l->predicted += number(args, "predicted_us");
    l->flops += number(args, "flops");
    l->bytes += number(args, "bytes");
}

static Line *line_of(Report *r, const char *kind)
{
    for (size_t i = 0; i < r->kinds.n; i++)
        if (!strcmp(r->kinds.data[i].kind, kind))
            return &r->kinds.data[i];
    vec_push(r->a, &r->kinds, ((Line){.kind = kind, .name = "", .where = ""}));
    return &r->kinds.data[r->kinds.n - 1];
}

/* Slices of the measured track have what was measured and what was predicted. */
static void read_slice(Report *r, const json_t *e)
{
    const json_t *args = json_object_get(e, "args");
    const char *kind = text(r->a, e, "cat");
    if (!json_is_object(args) || number(e, "tid") != 0)
        return;
    if (!strcmp(kind, "step")) {
        r->steps++;
        r->measured += number(e, "dur") / 1e3;
        r->predicted += number(args, "predicted_ms");
        return;
    }
    if (!json_is_number(json_object_get(args, "measured_us")))
        return;
    size_t id = (size_t)number(args, "action");
    while (r->actions.n <= id && id < 1 << 20)
        vec_push(r->a, &r->actions, (Line){0});
    if (id >= r->actions.n)
        return;
    Line *l = &r->actions.data[id];
    if (!l->name) {
        l->name = text(r->a, e, "name");
        l->kind = kind;
        l->where = text(r->a, args, "src");
    }
    add(l, args);
    add(line_of(r, kind), args);
}

Exit report_read(Session *s, const char *path, Report *r)
{
    *r = (Report){.a = s->arena};
    json_error_t wrong;
    json_t *root = json_load_file(path, 0, &wrong), *e;
    const json_t *events = json_object_get(root, "traceEvents");
    size_t i;
    if (!root) {
        diag_error(s->diag, (Span){0}, 560, "cannot read '%s': %s (line %d)", path, wrong.text,
                   wrong.line);
        return EXIT_usage;
    }
    json_array_foreach(events, i, e) {
        if (json_is_object(e))
            read_slice(r, e);
    }
    json_decref(root);
    if (r->steps && r->kinds.n)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 0, "'%s' has no measured step", path);
    diag_help(s->diag, "./train ... --trace 5:8 writes OUT/trace.json");
    return EXIT_usage;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int costlier(const void *x, const void *y)
{
    const Line *a = x, *b = y;
    return a->measured != b->measured ? (a->measured < b->measured ? 1 : -1)
                                      : strcmp(a->kind ? a->kind : "", b->kind ? b->kind : "");
}

static void print_line(const Report *r, const Line *l)
{
    double steps = r->steps;
    printf("  %11.3f %11.3f %+7.0f%% %7.0f %9.1f %8.2f  %s", l->measured / steps / 1e3,
           l->predicted / steps / 1e3,
           l->predicted > 0 ? 100 * (l->measured / l->predicted - 1) : 0, l->calls / steps,
           l->measured > 0 ? l->flops / l->measured / 1e3 : 0,
           l->measured > 0 ? l->bytes / l->measured / 1e3 : 0, l->kind);
    if (*l->name)
        printf("  %s  %s", l->name, l->where);
    putchar('\n');
}

static void print_report(Report *r)
{
    enum { SHOWN = 30 };
    const char *head = "  measured ms predicted ms  against   calls   GFLOP/s     GB/s";
    qsort(r->actions.data, r->actions.n, sizeof *r->actions.data, costlier);
    qsort(r->kinds.data, r->kinds.n, sizeof *r->kinds.data, costlier);
    printf("%d steps; a step measured %.3f ms, predicted %.3f ms: %+.1f%%\n\n%s\n", r->steps,
           r->measured / r->steps, r->predicted / r->steps,
           r->predicted > 0 ? 100 * (r->measured / r->predicted - 1) : 0, head);
    for (size_t i = 0; i < r->kinds.n; i++)
        print_line(r, &r->kinds.data[i]);
    printf("\n%s\n", head);
    for (size_t i = 0; i < r->actions.n && i < SHOWN && r->actions.data[i].calls; i++)
        print_line(r, &r->actions.data[i]);
}

Exit command_report(Session *s, const char *path)
{
    Report r;
    Exit wrong = report_read(s, path, &r);
    if (!wrong)
        print_report(&r);
    return wrong;
}
