/* show.c - what a search found, for people; see search.h. */
#include "search/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"

enum { OTHERS = 8, CODES = 6, FRONT = 10 };

/* ---- what there is to tell ---------------------------------------------------------------------
 */

typedef struct Ranked {
    double key, other;
    int number;
} Ranked;

static int in_order(const void *x, const void *y)
{
    const Ranked *a = x, *b = y;
    return a->key != b->key       ? (a->key < b->key ? -1 : 1)
           : a->other != b->other ? (a->other < b->other ? -1 : 1)
                                  : a->number - b->number;
}

void search_front(const Search *s, Front *front)
{
    Ranked *all = NEW_ARRAY(s->arena, Ranked, s->all.n + 1);
    size_t n = 0;
    double fastest = INFINITY;
    for (size_t i = 0; i < s->all.n; i++) {
        const Tried *t = candidate_plan(&s->all.data[i]);
        if (t)
            all[n++] = (Ranked){(double)t->bytes, t->seconds, (int)i};
    }
    qsort(all, n, sizeof *all, in_order);
    for (size_t i = 0; i < n; i++)
        if (all[i].other < fastest) {
            fastest = all[i].other;
            vec_push(s->arena, front, all[i].number);
        }
}

void search_others(const Search *s, size_t most, Front *others)
{
    Ranked *all = NEW_ARRAY(s->arena, Ranked, s->all.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s->all.n; i++)
        if (s->all.data[i].state == CANDIDATE_whole && (int)i != s->best)
            all[n++] = (Ranked){s->all.data[i].tried[TRY_whole].seconds, 0, (int)i};
    qsort(all, n, sizeof *all, in_order);
    for (size_t i = 0; i < n && i < most; i++)
        vec_push(s->arena, others, all[i].number);
}

typedef struct Cause {
    const char *text;
    double seconds;
} Cause;

static int by_size(const void *x, const void *y)
{
    const Cause *a = x, *b = y;
    return a->seconds != b->seconds ? (a->seconds > b->seconds ? -1 : 1) : strcmp(a->text, b->text);
}

const char *search_why(const Search *s, const Candidate *c, Arena *a)
{
    const double WORTH = 0.15; /* of the difference */
    const Tried *t = candidate_plan(c), *best = &s->all.data[s->best].tried[TRY_whole];
    const double more = t->seconds - best->seconds;
    const Parts *p = &t->parts, *q = &best->parts;
    const double bubble = p->bubble - q->bubble, waits = p->waits - q->waits,
                 again = p->again - q->again;
    Cause cause[] = {{"waiting for other stages", bubble},
                     {"waiting for collectives", waits},
                     {"computed again", again},
                     {"computing", more - bubble - waits - again}};
    const int n = sizeof cause / sizeof *cause;
    const char *all = "";
    if (more <= 1e-4 * best->seconds)
        return "as fast";
    qsort(cause, (size_t)n, sizeof *cause, by_size);
    for (int i = 0; i < n; i++)
        if (fabs(cause[i].seconds) > WORTH * more)
            all = arena_printf(a, "%s%s%s %s %s", all, *all ? ", " : "",
                               text_seconds(a, fabs(cause[i].seconds)),
                               cause[i].seconds > 0 ? "more" : "less", cause[i].text);
    return all;
}

const char *search_counts(const Search *s, Arena *a)
{
    static const struct {
        CandidateState state;
        const char *text;
    } parts[] = {{CANDIDATE_large, "too large for the memory by a bound"},
                 {CANDIDATE_full, "too large by a quick plan"},
                 {CANDIDATE_lost, "too large by their whole plan"},
                 {CANDIDATE_slow, "slower by a bound"},
                 {CANDIDATE_rough, "with a rough plan"},
                 {CANDIDATE_quick, "with a quick plan"},
                 {CANDIDATE_whole, "with a whole plan"},
                 {CANDIDATE_refused, "refused"},
                 {CANDIDATE_failed, "on which mgc itself failed"},
                 {CANDIDATE_open, "not planned"}};
    const char *all = arena_printf(a, "%zu layouts", s->all.n);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (s->count[parts[i].state])
            all = arena_printf(a, "%s%s %d %s", all, i && strchr(all, ':') ? "," : ":",
                               s->count[parts[i].state], parts[i].text);
    return all;
}

/* Errors by how many layouts they refuse, the most frequent first. */
static const char *codes_text(const Search *s, Arena *a)
{
    enum { MOST = 1000 };
    int count[MOST] = {0};
    const char *all = "";
    for (size_t i = 0; i < s->all.n; i++)
        if (s->all.data[i].state == CANDIDATE_refused && s->all.data[i].code < MOST)
            count[s->all.data[i].code]++;
    for (int k = 0; k < CODES; k++) {
        int most = 0;
        for (int c = 1; c < MOST; c++)
            most = count[c] > count[most] ? c : most;
        if (!count[most])
            break;
        all = arena_printf(a, "%s%s%d by MG%04d", all, *all ? ", " : "", count[most], most);
        count[most] = 0;
    }
    return all;
}

void search_failed(const Search *s, FILE *out)
{
    for (size_t i = 0; i < s->all.n; i++) {
        const Candidate *c = &s->all.data[i];
        if (c->state != CANDIDATE_failed)
            continue;
        fprintf(out, "mgc itself failed on %d layouts; please report the first: %s\n%s",
                s->count[CANDIDATE_failed], c->why ? c->why : "",
                point_text(s->space, &c->point, "failed", NULL, s->arena));
        return;
    }
}

/* The worth of the answer: the fastest that is left, by what is known of it. */
static void show_guarantee(const Search *s, FILE *out)
{
    Arena *a = arena_new();
    double open = INFINITY, quick = INFINITY;
    const double best = s->all.data[s->best].tried[TRY_whole].seconds;
    for (size_t i = 0; i < s->all.n; i++) {
        const Candidate *c = &s->all.data[i];
        if (c->state == CANDIDATE_open || c->state == CANDIDATE_rough)
            open = fmin(open, c->expected);
        if (c->state == CANDIDATE_quick)
            quick = fmin(quick, c->tried[TRY_quick].seconds);
    }
    fprintf(out, "\nThis is the fastest of %d layouts with a whole plan.",
            s->count[CANDIDATE_whole]);
    if (s->count[CANDIDATE_large] + s->count[CANDIDATE_slow])
        fprintf(out, " %d more do not fit, or cannot be faster: bounds say so.",
                s->count[CANDIDATE_large] + s->count[CANDIDATE_slow]);
    if (s->count[CANDIDATE_quick])
        fprintf(out, "\n%d have a quick plan alone: the fastest of them %s (%+.1f%%).",
                s->count[CANDIDATE_quick], text_seconds(a, quick), 100 * (quick / best - 1));
    const int rest = s->count[CANDIDATE_open] + s->count[CANDIDATE_rough];
    if (rest)
        fprintf(out,
                "\n%d were planned roughly, or not at all: the fastest of them is expected to "
                "take %s (%+.1f%%).",
                rest, text_seconds(a, open), 100 * (open / best - 1));
    if (s->stopped)
        fputs("\nThe search was stopped before its end.", out);
    fputc('\n', out);
    arena_free(a);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void show_row(const Search *s, int number, const char *more, FILE *out)
{
    Arena *a = arena_new();
    const Candidate *c = &s->all.data[number];
    const Tried *t = candidate_plan(c);
    const double best = s->all.data[s->best].tried[TRY_whole].seconds;
    fprintf(out, "  %10s %+7.1f%% %10s  %s%s%s\n", text_seconds(a, t->seconds),
            100 * (t->seconds / best - 1), text_bytes(a, (double)t->bytes),
            point_label(s->space, &c->point, a), *more ? ": " : "", more);
    arena_free(a);
}

static void show_others(const Search *s, FILE *out)
{
    Front others = {0};
    search_others(s, OTHERS, &others);
    if (others.n)
        fputs("\nrunners-up, and why they are slower\n", out);
    for (size_t i = 0; i < others.n; i++)
        show_row(s, others.data[i], search_why(s, &s->all.data[others.data[i]], s->arena), out);
}

static void show_front(const Search *s, FILE *out)
{
    Front front = {0};
    search_front(s, &front);
    fputs("\nmemory against time\n", out);
    const size_t from = front.n > FRONT ? front.n - FRONT : 0;
    for (size_t i = from; i < front.n; i++)
        show_row(s, front.data[i],
                 s->all.data[front.data[i]].state == CANDIDATE_quick ? "by a quick plan" : "", out);
    if (from)
        fprintf(out, "  and %zu with less memory, all slower\n", from);
}

void search_show(const Search *s, const char *name, const char *device, FILE *out)
{
    Arena *a = arena_new();
    const Candidate *best = &s->all.data[s->best];
    const Tried *t = &best->tried[TRY_whole];
    const Basis *b = s->basis;
    fprintf(out, "search       %s\n", search_counts(s, a));
    if (s->count[CANDIDATE_refused])
        fprintf(out, "refused      %s\n", codes_text(s, a));
    fprintf(out, "best         %s a step, %s tokens/s of a rank, MFU %.0f%%; %s of %s\n",
            text_seconds(a, t->seconds),
            text_rate(a, (double)b->tokens / t->seconds / (double)s->ranks), 100 * t->mfu,
            text_bytes(a, (double)t->bytes), text_bytes(a, b->budget));
    fprintf(out,
            "             %s in the bubble, %s waiting for collectives, %s computed again; "
            "a rank sends %s\n\n",
            text_seconds(a, t->parts.bubble), text_seconds(a, t->parts.waits),
            text_seconds(a, t->parts.again), text_bytes(a, t->sent));
    fputs(point_text(s->space, &best->point, name, device, a), out);
    show_others(s, out);
    show_front(s, out);
    show_guarantee(s, out);
    search_failed(s, out);
    arena_free(a);
}

void search_points(const Search *s, FILE *out)
{
    static const char *const states[CANDIDATE_count] = {
        [CANDIDATE_open] = "not planned",       [CANDIDATE_large] = "too large by a bound",
        [CANDIDATE_slow] = "slower by a bound", [CANDIDATE_refused] = "refused",
        [CANDIDATE_failed] = "mgc failed",      [CANDIDATE_full] = "too large by a quick plan",
        [CANDIDATE_rough] = "rough plan",       [CANDIDATE_quick] = "quick plan",
        [CANDIDATE_whole] = "whole plan",       [CANDIDATE_lost] = "too large by its whole plan"};
    fputs("layout\tstate\tcode\tbound_s\tbound_bytes\texpected_s", out);
    fputs("\trough_s\trough_bytes\tkept_bytes\tquick_s\tquick_bytes\twhole_s\twhole_bytes\ttext\n",
          out);
    for (size_t i = 0; i < s->all.n; i++) {
        const Candidate *c = &s->all.data[i];
        Arena *a = arena_new();
        const Tried *rough = &c->tried[TRY_rough];
        const int64_t micro = point_microbatches(s->space, &c->point);
        fprintf(out, "%s\t%s\t%d\t%.6g\t%.0f\t%.6g", point_label(s->space, &c->point, a),
                states[c->state], c->code, c->bound, bound_bytes(s->basis, &c->point, micro),
                c->expected);
        fprintf(out, "\t%.9g\t%lld\t%lld\t%.9g\t%lld\t%.9g\t%lld\t", rough->seconds,
                (long long)rough->bytes, (long long)rough->kept, c->tried[TRY_quick].seconds,
                (long long)c->tried[TRY_quick].bytes, c->tried[TRY_whole].seconds,
                (long long)c->tried[TRY_whole].bytes);
        for (const char *t = point_text(s->space, &c->point, "found", NULL, a); *t; t++)
            fputs(*t == '\n' ? "\\n" : (const char[]){*t, 0}, out);
        fputc('\n', out);
        arena_free(a);
    }
}
