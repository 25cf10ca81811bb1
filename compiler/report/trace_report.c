/* trace_report.c - mgc report: a measured timeline (./train --trace) beside what its program
 * predicted, by kind of action and action by action. */
#include "base/open.h"
#include "base/quantity.h"
#include "compiler/report/trace_report.h"

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
    char *shown;
    size_t size;
    FILE *f = open_memstream(&shown, &size);
    diag_show(f, s ? s : "");
    fclose(f);
    const char *copy = arena_strndup(a, shown, size);
    free(shown);
    return copy;
}

static void add(Line *l, const json_t *args)
{
    l->calls++;
    l->measured += number(args, "measured_us");
    l->predicted += number(args, "predicted_us");
    l->flops += number(args, "flops");
    l->bytes += number(args, "bytes");
}

ReportLine *report_kind(Report *r, const char *kind)
{
    for (size_t i = 0; i < r->kinds.n; i++)
        if (!strcmp(r->kinds.data[i].kind, kind))
            return &r->kinds.data[i];
    vec_push(r->a, &r->kinds, ((Line){.kind = kind, .name = "", .where = ""}));
    return &r->kinds.data[r->kinds.n - 1];
}

static ReportRank *rank_of(Report *r, const json_t *e)
{
    const int rank = (int)number(e, "pid");
    for (size_t i = r->ranks.n; i-- > 0;)
        if (r->ranks.data[i].rank == rank)
            return &r->ranks.data[i];
    vec_push(r->a, &r->ranks, ((ReportRank){.rank = rank, .place = -1}));
    return &r->ranks.data[r->ranks.n - 1];
}

static void read_rank(Report *r, const json_t *e)
{
    const json_t *args = json_object_get(e, "args");
    ReportRank *k = rank_of(r, e);
    if (json_object_get(args, "place"))
        k->place = (int)number(args, "place");
    k->clock_error = number(args, "clock_error_us") / 1e3;
    k->left_out = number(args, "left_out");
}

static void read_step(Report *r, ReportRank *k, const json_t *e, const json_t *args)
{
    k->measured += number(e, "dur") / 1e3;
    if (k->rank)
        return;
    r->steps++;
    r->measured += number(e, "dur") / 1e3;
    r->predicted += number(args, "predicted_ms");
}

static void read_gpu(Report *r, const json_t *args)
{
    r->gpu = (ReportGpu){.name = text(r->a, args, "name"),
                         .capability = number(args, "capability"),
                         .multiprocessors = number(args, "multiprocessors"),
                         .memory = number(args, "memory"),
                         .free = number(args, "free"),
                         .gpus = number(args, "gpus"),
                         .driver = number(args, "driver")};
}

static void read_memory(Report *r, const json_t *args)
{
    const json_t *levels = json_object_get(args, "levels"), *l;
    size_t i;
    json_array_foreach(levels, i, l) {
        vec_push(
            r->a, &r->levels,
            ((ReportLevel){text(r->a, l, "level"), number(l, "planned"), number(l, "measured")}));
    }
}

/* Of the tracks of a rank (runtime/log/trace_write.c) every other one is measured. */
static bool is_measured(const json_t *e)
{
    const double track = number(e, "tid");
    return track >= 0 && track < 1e6 && (int)track % 2 == 0;
}

/* Slices of measured tracks have what was measured and what was predicted. */
static void read_slice(Report *r, const json_t *e)
{
    const json_t *args = json_object_get(e, "args");
    const char *kind = text(r->a, e, "cat");
    if (!strcmp(text(r->a, e, "name"), "process_name"))
        read_rank(r, e);
    if (!strcmp(text(r->a, e, "name"), "gpu"))
        read_gpu(r, args);
    if (!strcmp(text(r->a, e, "name"), "memory"))
        read_memory(r, args);
    if (!json_is_object(args) || !is_measured(e))
        return;
    if (!strcmp(kind, "step")) {
        read_step(r, rank_of(r, e), e, args);
        return;
    }
    if (!json_is_number(json_object_get(args, "measured_us")))
        return;
    if (!strcmp(kind, "phase")) {
        rank_of(r, e)->phases += number(args, "measured_us") / 1e3;
        rank_of(r, e)->predicted_phases += number(args, "predicted_us") / 1e3;
        return;
    }
    if (!strcmp(kind, "message")) {
        rank_of(r, e)->messages += number(args, "measured_us") / 1e3;
        add(report_kind(r, kind), args);
        return;
    }
    if (!strcmp(kind, "wait")) {
        add(report_kind(r, kind), args);
        return;
    }
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
        if (json_is_string(json_object_get(args, "class")))
            l->class_ = text(r->a, args, "class");
    }
    add(l, args);
    add(report_kind(r, kind), args);
}

Exit report_read(Session *s, const char *path, Report *r)
{
    *r = (Report){.a = s->arena};
    json_error_t wrong;
    FILE *in = open_file(path);
    if (!in) {
        diag_error(s->diag, (Span){0}, 560, "cannot read '%s': %s", path, open_error());
        return EXIT_usage;
    }
    json_t *root = json_loadf(in, 0, &wrong), *e;
    fclose(in);
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

bool report_classes(const Report *r, Measured *m)
{
    bool known = true;
    measured_begin(m, r->steps * (int)r->ranks.n);
    for (size_t i = 0; i < r->actions.n; i++) {
        const Line *l = &r->actions.data[i];
        if (l->name && l->class_)
            known &=
                measured_add(m, l->class_, l->calls, l->measured, l->predicted, l->flops, l->bytes);
    }
    measured_end(m);
    return known;
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
    double steps = r->steps * (double)r->ranks.n;
    printf("  %11.3f %11.3f %+7.0f%% %7.0f %9.1f %8.2f  %s", l->measured / steps / 1e3,
           l->predicted / steps / 1e3,
           l->predicted > 0 ? 100 * (l->measured / l->predicted - 1) : 0, l->calls / steps,
           l->measured > 0 ? l->flops / l->measured / 1e3 : 0,
           l->measured > 0 ? l->bytes / l->measured / 1e3 : 0, l->kind);
    if (*l->name)
        printf("  %s  %s", l->name, l->where);
    putchar('\n');
}

/* Ranks that have the same stages are a class. A rank computes in phases; what else there is in
 * its step is messages, what comes before and after the pipeline, and waiting. */
static void print_classes(const Report *r)
{
    int places = 0;
    for (size_t i = 0; i < r->ranks.n; i++)
        places = r->ranks.data[i].place >= places ? r->ranks.data[i].place + 1 : places;
    if (places)
        printf("\n  stages' ranks   step ms  phases ms predicted ms  against  messages ms   not in "
               "phases predicted\n");
    for (int p = 0; p < places; p++) {
        ReportRank all = {0};
        for (size_t i = 0; i < r->ranks.n; i++) {
            const ReportRank *k = &r->ranks.data[i];
            if (k->place != p)
                continue;
            all.rank++;
            all.measured += k->measured;
            all.phases += k->phases;
            all.predicted_phases += k->predicted_phases;
            all.messages += k->messages;
        }
        const double n = (double)all.rank * r->steps;
        printf("  %3d (%4d)    %10.3f %10.3f %12.3f %+7.0f%% %12.3f %14.1f%% %8.1f%%\n", p,
               all.rank, all.measured / n, all.phases / n, all.predicted_phases / n,
               all.predicted_phases > 0 ? 100 * (all.phases / all.predicted_phases - 1) : 0,
               all.messages / n, all.measured > 0 ? 100 * (1 - all.phases / all.measured) : 0,
               r->predicted > 0 ? 100 * (1 - all.predicted_phases / all.rank / r->predicted) : 0);
    }
}

static void print_ranks(const Report *r)
{
    double min = r->ranks.data[0].measured, max = min, error = 0, left_out = 0;
    for (size_t i = 0; i < r->ranks.n; i++) {
        const ReportRank *k = &r->ranks.data[i];
        min = k->measured < min ? k->measured : min;
        max = k->measured > max ? k->measured : max;
        error = k->clock_error > error ? k->clock_error : error;
        left_out += k->left_out;
    }
    if (left_out > 0)
        printf("%.0f events were left out of the trace: what follows lacks them\n", left_out);
    if (r->ranks.n < 2)
        return;
    printf(
        "%zu ranks, whose steps are %.3f to %.3f ms; their clocks agree within %.3f ms. Below are "
        "means of ranks\n",
        r->ranks.n, min / r->steps, max / r->steps, error);
    print_classes(r);
}

static void print_levels(const Report *r)
{
    for (size_t i = 0; i < r->levels.n; i++) {
        const ReportLevel *l = &r->levels.data[i];
        const double over = l->measured > l->planned ? l->measured - l->planned : 0;
        printf("memory of the %s: planned %.0f bytes (%s), ", l->name, l->planned,
               text_bytes(r->a, l->planned));
        if (l->measured < 0)
            puts("measured unknown");
        else
            printf("measured %.0f (%s), %.0f over\n", l->measured, text_bytes(r->a, l->measured),
                   over);
    }
}

static void print_report(Report *r)
{
    enum { SHOWN = 30 };
    const char *head = "  measured ms predicted ms  against   calls   GFLOP/s     GB/s";
    Measured *classes = NEW_ARRAY(r->a, Measured, 1);
    const bool known = report_classes(r, classes);
    qsort(r->actions.data, r->actions.n, sizeof *r->actions.data, costlier);
    qsort(r->kinds.data, r->kinds.n, sizeof *r->kinds.data, costlier);
    printf("%d steps; a step measured %.3f ms, predicted %.3f ms: %+.1f%%\n", r->steps,
           r->measured / r->steps, r->predicted / r->steps,
           r->predicted > 0 ? 100 * (r->measured / r->predicted - 1) : 0);
    print_levels(r);
    print_ranks(r);
    if (classes->n) {
        printf("\nby class, of a step; %.1f us of each action, the shortest's, are not counted%s\n",
               classes->overhead, known ? "" : "; some classes are not known to this mgc");
        measured_table(classes, NULL, NULL, stdout);
    }
    printf("\n%s\n", head);
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
