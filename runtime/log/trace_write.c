/* trace_write.c - writes the measured timeline of all ranks as Chrome's trace JSON, which Perfetto
 * opens.
 *
 * Each rank is a process with two tracks: the measured times, and the times that the compiler
 * predicted, from the same start of the step. Transfers between levels of memory have two such
 * tracks for each way: there a predicted one begins where the measured one does, or the predicted
 * one before it ends. What the thread that computes does for a transfer beside it is a "wait" in
 * its own track. In a pipeline, predicted phases begin at their predicted times, and the actions of
 * a phase follow each other. Times are in microseconds from rank 0's first traced step.
 *
 * Ranks of one machine have one clock (CLOCK_MONOTONIC). Rank 0 asks ranks of other machines for
 * their clocks before the first traced step and after the last. The answer was given between the
 * question and its arrival, so it is wrong by at most half of that time ("clock_error_us"). If one
 * offset fits both answers, the clocks are assumed to run equally fast; otherwise the other clock
 * is assumed to be faster or slower by a constant rate. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/ranks.h"
#include "runtime/log/trace.h"

enum { MEASURED, PREDICTED, TRACKS };

/* Ways of transfers, as rt_event.lane counts them. */
enum { LANES = 2 };

typedef struct writer {
    FILE *f;
    const mg_program *p;
    int rank;
    const rt_clock *clock;
    int64_t origin;
    double *through; /* per lane: where the last predicted transfer of a step ends */
} writer;

/* 1 + the way of a transfer; 0: another action. */
static int way_of(const mg_program *p, int action)
{
    const char *kind = p->actions[action].kind;
    return !strcmp(kind, "fetch") ? 1 : !strcmp(kind, "offload") ? 2 : 0;
}

/* A processor's transfers run beside the thread that computes; a GPU's are done when their event
 * ends, for each action is waited for. */
bool rt_trace_waits(const mg_program *p, const rt_event *e)
{
    return !e->lane && p->level_bytes[2] && way_of(p, e->action);
}

/* The offset of a clock from rank 0's clock at time `ns` of that clock, in ns. */
static double ahead(const rt_clock *a, const rt_clock *b, int64_t ns)
{
    const int64_t min = a->ahead - a->error > b->ahead - b->error ? a->ahead - a->error
                                                                  : b->ahead - b->error,
                  max = a->ahead + a->error < b->ahead + b->error ? a->ahead + a->error
                                                                  : b->ahead + b->error,
                  since = ns - a->at - a->ahead, span = b->at + b->ahead - a->at - a->ahead;
    if (min <= max || span <= 0)
        return (double)min + (double)(max - min) / 2;
    return (double)a->ahead + (double)since / (double)span * (double)(b->ahead - a->ahead);
}

/* Microseconds on rank 0's clock of a time of the rank's clock. */
static double when(const writer *w, int64_t ns)
{
    const double ours = (double)(ns - w->origin);
    return (ours - ahead(&w->clock[0], &w->clock[1], ns)) / 1e3;
}

/* Duration on rank 0's clock, so that nested slices stay nested. */
static double took(const writer *w, const rt_event *e)
{
    return when(w, e->end) - when(w, e->begin);
}

static double lasted(const rt_event *e)
{
    return (double)(e->end - e->begin) / 1e3;
}

static void begin_slice(const writer *w, int track, double ts, double dur, const char *kind,
                        const char *name)
{
    fprintf(w->f,
            ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\","
            "\"name\":\"%s\",\"args\":{",
            w->rank, track, ts, dur, kind, name);
}

static void write_step(const writer *w, const rt_event *e)
{
    char name[32];
    const double predicted = w->p->step.predicted_ms;
    snprintf(name, sizeof name, "step %" PRId64, e->step);
    for (int track = MEASURED; track <= PREDICTED; track++) {
        begin_slice(w, track, when(w, e->begin), track ? predicted * 1e3 : took(w, e), "step",
                    name);
        fprintf(w->f, "\"predicted_ms\":%s}}", rt_double_text(predicted).text);
    }
}

/* The slices of an action: tracks from `first` on. */
static void write_slices(const writer *w, const rt_event *e, int first, double predicted)
{
    const mg_action *a = &w->p->actions[e->action];
    const bool waits = rt_trace_waits(w->p, e);
    char *name = rt_json_escape(a->name), *kind = rt_json_escape(a->kind),
         *where = rt_json_escape(a->where);
    const double measured = lasted(e), us = waits ? 0 : a->predicted_us;
    for (int track = MEASURED; track <= (waits ? MEASURED : PREDICTED); track++) {
        begin_slice(w, first + track, track ? predicted : when(w, e->begin),
                    track ? us : took(w, e), waits ? "wait" : kind, name);
        fprintf(w->f,
                "\"src\":\"%s\",\"action\":%d,\"step\":%" PRId64
                ",\"measured_us\":%.3f,\"predicted_us\":%s",
                where, e->action, e->step, measured, rt_double_text(us).text);
        if (!waits)
            fprintf(w->f, ",\"flops\":%s,\"bytes\":%s", rt_double_text(a->flops).text,
                    rt_double_text(a->bytes).text);
        if (w->p->classes && w->p->classes[e->action] && !waits)
            fprintf(w->f, ",\"class\":\"%s\"", w->p->classes[e->action]);
        if (measured > 0 && !waits)
            fprintf(w->f, ",\"gflops\":%.3f,\"gbytes_per_s\":%.3f", a->flops / measured / 1e3,
                    a->bytes / measured / 1e3);
        fputs("}}", w->f);
    }
    free(name);
    free(kind);
    free(where);
}

/* Returns when the predicted one ends, in the track of what computes. */
static double write_action(const writer *w, const rt_event *e, double predicted)
{
    const double us = w->p->actions[e->action].predicted_us;
    const int lane = e->lane ? e->lane : rt_trace_waits(w->p, e) ? 0 : way_of(w->p, e->action);
    if (!lane) {
        write_slices(w, e, MEASURED, predicted);
        return predicted + (rt_trace_waits(w->p, e) ? 0 : us);
    }
    double *through = &w->through[lane - 1];
    const double begin = when(w, e->begin), at = begin > *through ? begin : *through;
    write_slices(w, e, lane * TRACKS, at);
    *through = at + us;
    return predicted;
}

/* Writes a phase or a message by its name in tables: "2F5", "2SEND_F5", "wait 2SEND_F5". */
static void write_operation(const writer *w, const rt_event *e, double step)
{
    static const char *const names[] = {"END",    "F",      "B",      "I",      "W",
                                        "SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT"};
    const bool waits = e->kind == MG_PIPE_WAIT, phase = e->action == RT_EVENT_PHASE;
    char name[48];
    snprintf(name, sizeof name, "%s%d%s%d", waits ? "wait " : "", e->stage,
             names[waits ? e->of : e->kind], e->microbatch);
    for (int track = MEASURED; track <= (phase ? PREDICTED : MEASURED); track++) {
        begin_slice(w, track, track ? step + (double)e->at : when(w, e->begin),
                    track ? (double)e->lasts : took(w, e), phase ? "phase" : "message", name);
        fprintf(w->f,
                "\"kind\":\"%s\",\"stage\":%d,\"microbatch\":%d,\"step\":%" PRId64
                ",\"measured_us\":%.3f,\"predicted_us\":%.3f}}",
                names[waits ? e->of : e->kind], e->stage, e->microbatch, e->step, lasted(e),
                phase ? (double)e->lasts : 0);
    }
}

/* Writes the events [e, end) of the step whose event is `end`. */
static void write_events(const writer *w, const rt_event *e, const rt_event *end)
{
    const double step = when(w, end->begin);
    double predicted = step;
    for (int k = 0; k < LANES; k++)
        w->through[k] = step;
    write_step(w, end);
    for (; e < end; e++) {
        if (e->action == RT_EVENT_PHASE) {
            predicted = step + (double)e->at;
            if (e->kind != MG_PIPE_END)
                write_operation(w, e, step);
        } else if (e->kind) {
            write_operation(w, e, step);
        } else {
            predicted = write_action(w, e, predicted);
        }
    }
}

/* "llama, rank 3: pp 1, dp 1" */
static void write_names(const writer *w, const rt_record *of)
{
    const mg_program *p = w->p;
    char *name = rt_json_escape(p->name);
    const int64_t error =
        of->clock[0].error > of->clock[1].error ? of->clock[0].error : of->clock[1].error;
    fprintf(
        w->f,
        "%s{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"%s",
        w->rank ? ",\n" : "", w->rank, name);
    for (int i = 0; i < p->naxes; i++) {
        char *axis = rt_json_escape(p->axes[i].name);
        if (!i)
            fprintf(w->f, ", rank %d", w->rank);
        fprintf(w->f, "%s%s %d", i ? ", " : ": ", axis, rt_place_of(p, w->rank, (uint32_t)1 << i));
        free(axis);
    }
    fprintf(w->f, "\",\"clock_ahead_us\":%.3f,\"clock_error_us\":%.3f,\"left_out\":%" PRId64,
            (double)of->clock[0].ahead / 1e3, (double)error / 1e3, of->left_out);
    if (p->stages.axis)
        fprintf(w->f, ",\"place\":%d", rt_place_of(p, w->rank, p->stages.axis));
    fputs("}}", w->f);
    static const char *const tracks[] = {"measured", "predicted"};
    const char *level = p->level_bytes[2] ? "disk" : p->level_bytes[1] ? "host" : NULL;
    for (int lane = 0; lane <= (level ? LANES : 0); lane++)
        for (int track = MEASURED; track <= PREDICTED; track++) {
            fprintf(w->f,
                    ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":"
                    "{\"name\":\"",
                    w->rank, lane * TRACKS + track);
            if (lane)
                fprintf(w->f, "transfers %s the %s: ", lane == 1 ? "in, from" : "out, to", level);
            fprintf(w->f, "%s\"}}", tracks[track]);
        }
    free(name);
}

void rt_trace_head(FILE *f, int ranks)
{
    fprintf(f,
            "{\"displayTimeUnit\":\"ms\",\"distributedInfo\": {\"rank\": 0, \"world_size\": %d},"
            "\"traceEvents\":[\n",
            ranks);
}

void rt_trace_rank(FILE *f, const mg_program *p, int rank, const rt_record *of, int64_t origin)
{
    double through[LANES];
    const writer w = {f, p, rank, of->clock, origin, through};
    write_names(&w, of);
    for (int64_t i = 0, first = 0; i < of->n; i++)
        if (of->event[i].action == RT_EVENT_STEP) {
            write_events(&w, &of->event[first], &of->event[i]);
            first = i + 1;
        }
}

void rt_trace_tail(FILE *f)
{
    fputs("\n]}\n", f);
}
