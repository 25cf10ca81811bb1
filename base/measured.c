/* measured.c - see measured.h.
 *
 * A prediction is proportional to 1 / rate where an action takes much longer than a launch, but for
 * what a collective takes beside its bytes. So the rate that would have predicted what was measured
 * is the old rate times predicted / measured, both without that, whatever else the formula has
 * (tiles and waves of plan/rates.c, classes of plan/attend.c): the geometric mean of that over the
 * lines that count. */
#include "base/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum Rate {
    RATE_none,
    RATE_product,
    RATE_share,
    RATE_bandwidth,
    RATE_both,
    RATE_launch
} Rate;

const ClassInfo class_info[MEASURE_count] = {
#define CLASS(id, name, counts, rate, key) {name, key},
#include "base/classes.def"
};
static const struct {
    const char *counts;
    Rate rate;
} rule[MEASURE_count] = {
#define CLASS(id, name, counts, rate, key) {counts, RATE_##rate},
#include "base/classes.def"
};
static const char *const peak_key[MEASURE_count] = {
#define PEAK(class, key) [MEASURE_##class] = key,
#include "base/classes.def"
};

/* ---- adding up ------------------------------------------------------------------------------- */

static int class_of(const char *text)
{
    const size_t n = strcspn(text, ":");
    for (int i = 0; i < MEASURE_count; i++)
        if (strlen(class_info[i].name) == n && !strncmp(class_info[i].name, text, n))
            return i;
    return -1;
}

static const char *detail_of(const MeasuredLine *l)
{
    const char *at = strchr(l->text, ':');
    return at ? at + 1 + (at[1] == ' ') : "";
}

static int line_of(Measured *m, const char *text)
{
    const int id = class_of(text);
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->line[i].text, text))
            return i;
    if (id < 0 || m->n == MEASURED_LINES || strlen(text) >= CLASS_TEXT)
        return -1;
    MeasuredLine *l = &m->line[m->n];
    *l = (MeasuredLine){.id = (ClassId)id};
    snprintf(l->text, sizeof l->text, "%s", text);
    return m->n++;
}

void measured_begin(Measured *m, int steps)
{
    m->nactions = 0;
    m->steps = steps;
}

bool measured_add(Measured *m, const char *text, double calls, double measured, double predicted,
                  double flops, double bytes)
{
    if (m->nactions == MEASURED_ACTIONS || calls <= 0)
        return false;
    const int line = line_of(m, text);
    if (line >= 0)
        m->action[m->nactions++] = (MeasuredAction){line, calls, measured, predicted, flops, bytes};
    return line >= 0;
}

void measured_end(Measured *m)
{
    double least = INFINITY;
    for (int i = 0; i < m->nactions; i++)
        least = fmin(least, m->action[i].measured / m->action[i].calls);
    m->overhead = m->nactions ? least : 0;
    for (int i = 0; i < m->nactions; i++) {
        const MeasuredAction *a = &m->action[i];
        MeasuredLine *l = &m->line[a->line];
        const double rest = a->measured - a->calls * least;
        l->calls += a->calls / m->steps;
        l->measured += rest / m->steps;
        l->predicted += a->predicted / m->steps;
        l->flops += a->flops / m->steps;
        l->bytes += a->bytes / m->steps;
        if (rest > 0)
            l->fastest = fmax(l->fastest, a->flops / rest * 1e6);
    }
    m->nactions = 0;
}

void measured_launches(Measured *m, double seconds, double actions)
{
    m->launch = seconds / actions;
}

void measured_transfers(Measured *m, double seconds, double predicted)
{
    m->both = seconds;
    m->both_predicted = predicted;
}

/* ---- numbers --------------------------------------------------------------------------------- */

enum { LAUNCHES = 4 }; /* an action is long if it was predicted to take so many */

typedef struct Solver {
    const Measured *m;
    MeasuredBase *base;
    void *ctx;
    double threads, peak[MEASURE_count];
    MeasuredNumber *out;
    int n;
} Solver;

static double base_of(const Solver *s, const char *key)
{
    return s->base(s->ctx, key);
}

static bool counts(const Solver *s, const MeasuredLine *l)
{
    const char *which = rule[l->id].counts;
    return !strncmp(detail_of(l), which, strlen(which)) && l->measured > 0 &&
           l->predicted >= LAUNCHES * l->calls * base_of(s, "launch_seconds") * 1e6;
}

/* Microseconds of an action that do not depend on its rate: of an all-reduce of two ranks, which
 * calibrate.mg's is, before the first step of NCCL's protocol Simple, and its two steps
 * (plan/nccl.c). */
static double fixed(const Solver *s, ClassId id)
{
    return id == MEASURE_collective ? 8.4 + 2e6 * base_of(s, "link_seconds") : 0;
}

/* Predicted by measured of the lines that decide a number: those of all classes with its key, or of
 * one class that has none. 0: there are none. */
static double ratio(const Solver *s, ClassId id)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < s->m->n; i++) {
        const MeasuredLine *l = &s->m->line[i];
        const char *key = class_info[id].key;
        if ((*key ? !strcmp(class_info[l->id].key, key) : l->id == id) && counts(s, l)) {
            const double apart = l->calls * fixed(s, l->id);
            sum += l->measured > apart && l->predicted > apart
                       ? log((l->predicted - apart) / (l->measured - apart))
                       : log(l->predicted / l->measured);
            n++;
        }
    }
    return n ? exp(sum / n) : 0;
}

static double fastest(const Solver *s, ClassId id)
{
    double best = 0;
    for (int i = 0; i < s->m->n; i++)
        if (s->m->line[i].id == id && counts(s, &s->m->line[i]))
            best = fmax(best, s->m->line[i].fastest);
    return best;
}

static void give(Solver *s, const char *key, ClassId id, double value)
{
    const double scale = value > 0 ? pow(10, floor(log10(value)) - 3) : 1; /* four digits */
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->out[i].key, key))
            return;
    s->out[s->n++] = (MeasuredNumber){key, class_info[id].name, round(value / scale) * scale};
}

/* FLOP/s of the products of a class, as plan/rates.c takes them. */
static double product_rate(const Solver *s, ClassId id)
{
    const char *key = *class_info[id].key ? class_info[id].key : "product_share";
    const double own = base_of(s, key), share = own > 0 ? own : base_of(s, "product_share");
    return base_of(s, peak_key[id]) * base_of(s, "threads") * share * ratio(s, id);
}

static void give_products(Solver *s)
{
    double share = 0; /* of bf16, which f16 has too: its peak is what makes the rate right */
    for (int i = 0; i < MEASURE_count; i++) {
        const ClassId id = (ClassId)i;
        if (!peak_key[id])
            continue;
        const double rate = product_rate(s, id);
        const bool own = *class_info[id].key != 0;
        double peak = own ? fastest(s, id) : share > 0 ? rate / share : 0;
        s->peak[id] = peak;
        give(s, peak_key[id], id, peak / s->threads);
        if (own)
            give(s, class_info[id].key, id, peak > 0 ? rate / peak : 0);
        if (id == MEASURE_product_bf16)
            share = peak > 0 ? rate / peak : 0;
    }
}

int measured_numbers(const Measured *m, MeasuredBase *base, void *ctx, double threads,
                     MeasuredNumber out[MEASURED_NUMBERS])
{
    Solver s = {.m = m, .base = base, .ctx = ctx, .threads = threads, .out = out};
    give_products(&s);
    const double peak = s.peak[MEASURE_product_bf16],
                 was = base_of(&s, "flops_bf16_per_thread") * base_of(&s, "threads");
    for (int i = 0; i < MEASURE_count; i++) {
        const ClassId id = (ClassId)i;
        const char *key = class_info[id].key;
        switch (rule[id].rate) {
        case RATE_share: /* by which shares of the peak of bf16 change */
            give(&s, key, id, peak > 0 ? ratio(&s, id) * was / peak : 0);
            break;
        case RATE_bandwidth:
            give(&s, key, id, base_of(&s, key) * ratio(&s, id));
            break;
        case RATE_both:
            give(&s, key, id, m->both > 0 ? base_of(&s, key) * m->both_predicted / m->both : 0);
            break;
        case RATE_launch:
            give(&s, key, id, m->launch);
            break;
        case RATE_product:
        case RATE_none:
            break;
        }
    }
    for (int i = 0; i < s.n; i++)
        if (!strcmp(out[i].key, "bandwidth")) { /* of which one multiprocessor has its part */
            out[s.n++] =
                (MeasuredNumber){"bandwidth_per_thread", out[i].class_, out[i].value / threads};
            break;
        }
    return s.n;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int by_class(const void *x, const void *y)
{
    const MeasuredLine *a = *(const MeasuredLine *const *)x, *b = *(const MeasuredLine *const *)y;
    return a->id != b->id ? (int)a->id - (int)b->id : strcmp(a->text, b->text);
}

/* A line of what is measured of a whole step; seconds. */
static void print_whole(FILE *out, ClassId id, double predicted, double measured)
{
    fprintf(out, "%-46s %8s %12.1f %12.1f %+7.0f%% %9s %9s  %s\n", class_info[id].name, "-",
            predicted * 1e6, measured * 1e6, predicted > 0 ? 100 * (measured / predicted - 1) : 0,
            "-", "-", class_info[id].key);
}

void measured_table(const Measured *m, MeasuredBase *base, void *ctx, FILE *out)
{
    const MeasuredLine *line[MEASURED_LINES];
    for (int i = 0; i < m->n; i++)
        line[i] = &m->line[i];
    qsort(line, (size_t)m->n, sizeof *line, by_class);
    fprintf(out, "%-46s %8s %12s %12s %8s %9s %9s  %s\n", "class", "calls", "predicted us",
            "measured us", "against", "TFLOP/s", "GB/s", "key of the description");
    for (int i = 0; i < m->n; i++) {
        const MeasuredLine *l = line[i];
        const char *key = class_info[l->id].key;
        const bool some = l->measured > 0;
        fprintf(out, "%-46s %8.0f %12.1f %12.1f %+7.0f%% %9.2f %9.1f  %s\n", l->text, l->calls,
                l->predicted / l->calls, l->measured / l->calls,
                some && l->predicted > 0 ? 100 * (l->measured / l->predicted - 1) : 0,
                some ? l->flops / l->measured * 1e-6 : 0, some ? l->bytes / l->measured * 1e-3 : 0,
                *key && !strncmp(detail_of(l), rule[l->id].counts, strlen(rule[l->id].counts))
                    ? key
                    : "-");
    }
    if (m->both > 0)
        print_whole(out, MEASURE_transfers, m->both_predicted, m->both);
    if (m->launch > 0)
        print_whole(out, MEASURE_launch, base ? base(ctx, class_info[MEASURE_launch].key) : 0,
                    m->launch);
}
