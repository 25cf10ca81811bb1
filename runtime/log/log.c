/* log.c - the output of a run: the progress line, metrics.jsonl, TensorBoard events, the loss
 * curve.
 *
 * A line of metrics.jsonl is one write() at the end of the file, so a kill can only tear the last
 * line. A log that cannot be written causes one warning and never stops the training. */
#include "runtime/health/health.h"
#include "runtime/log/vitals.h"
#include "runtime/rollout/rollout.h"
#include "runtime/log/history.h"
#include "runtime/log/used.h"
#include "runtime/run.h"
#include "runtime/save.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { REDRAW_NS = 100000000, TIMES = 1024 };

struct rt_log {
    mg_run *run;
    int metrics, events; /* descriptors, or -1 */
    bool live, color;    /* redraw one line; use colours */
    _Atomic bool warned; /* also by the thread that writes checkpoints */
    bool drawn;          /* the terminal's line is not finished */
    int64_t drawn_ns, resumed, start_ns;
    double mean_ms; /* mean step time, for the estimated time left */
    rt_history history;
    double time[TIMES]; /* step times: the last TIMES of them, as a ring */
    int64_t times;
    double first_loss, last_loss;
    rt_save_cost saves; /* sums; `step` counts them */
    rt_save_cost fresh; /* those of which no step has told yet; `step` of the last, or 0 */
    rt_scores val;      /* of the last evaluation; its loss is NAN before the first */
    rt_vitals vitals;
    uint8_t record[5 * 256]; /* events not yet written: at most five for each step */
    size_t nrecord;
};

static void failed(rt_log *l, const char *file)
{
    if (!l->warned)
        rt_warn("%s/%s cannot be written: %s; the run goes on without it", l->run->options->out,
                file, rt_file_error());
    l->warned = true;
}

static void append(rt_log *l, int fd, const char *file, const void *p, size_t n)
{
    ssize_t done;
    if (fd < 0)
        return;
    do
        done = write(fd, p, n);
    while (done < 0 && errno == EINTR);
    if (done >= 0 && done < (ssize_t)n)
        errno = ENOSPC;
    if (done < (ssize_t)n)
        failed(l, file);
}

/* Writes a line of metrics.jsonl, and frees it. */
static void append_line(rt_log *l, char *line)
{
    append(l, l->metrics, "metrics.jsonl", line, strlen(line));
    free(line);
}

static void flush_events(rt_log *l)
{
    append(l, l->events, "events.out.tfevents", l->record, l->nrecord);
    l->nrecord = 0;
}

/* Buffers an event, so that a step costs one write. */
static void event(rt_log *l, int64_t step, const char *tag, double x)
{
    if (l->nrecord + 256 > sizeof l->record)
        flush_events(l);
    l->nrecord += rt_tf_scalar(l->record + l->nrecord, rt_wall_time(), step, tag, (float)x);
}

/* Opens an event file for this process, with a name of TensorBoard's form. */
static void open_events(rt_log *l)
{
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    char *path = rt_printf("%s/events.out.tfevents.%010lld.%s.%d.0", l->run->options->out,
                           (long long)rt_wall_time(), host, (int)getpid());
    l->events = rt_file_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW);
    if (l->events < 0)
        failed(l, "events.out.tfevents");
    l->nrecord = rt_tf_header(l->record, rt_wall_time());
    l->nrecord += rt_tf_start(l->record + l->nrecord, rt_wall_time(), l->run->state.step + 1);
    flush_events(l);
    free(path);
}

rt_log *rt_log_open(mg_run *r, int64_t resumed_step)
{
    rt_log *l = rt_alloc(1, sizeof *l);
    const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");
    char *path = rt_printf("%s/metrics.jsonl", r->options->out);
    l->run = r;
    l->live = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb");
    l->color = l->live && !(plain && *plain);
    l->resumed = r->state.step;
    l->start_ns = rt_now_ns();
    l->first_loss = l->last_loss = l->val.loss = NAN;
    if (!rt_history_read(&l->history, path, resumed_step))
        failed(l, "metrics.jsonl");
    l->metrics = rt_file_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW);
    if (l->metrics < 0)
        failed(l, "metrics.jsonl");
    append_line(l, rt_vitals_start(r, resumed_step >= 0));
    rt_vitals_begin(&l->vitals, r, r->state.step);
    open_events(l);
    free(path);
    return l;
}

static void finish_line(rt_log *l)
{
    if (l->drawn)
        putchar('\n');
    l->drawn = false;
}

void rt_log_line(rt_log *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    finish_line(l);
    vprintf(fmt, ap);
    putchar('\n');
    fflush(stdout);
    va_end(ap);
}

void rt_log_alert(rt_log *l, int64_t step, const char *kind, int rank, const char *host,
                  const char *text)
{
    char *words = rt_json_escape(text), *name = rt_json_escape(host ? host : "");
    char *line = rt_printf("{\"step\":%" PRId64 ",\"event\":\"alert\",\"kind\":\"%s\",\"rank\":%d,"
                           "\"host\":\"%s\",\"text\":\"%s\",\"time\":%.3f}\n",
                           step, kind, rank, name, words, rt_wall_time());
    append(l, l->metrics, "metrics.jsonl", line, strlen(line));
    free(words);
    free(name);
    free(line);
}

void rt_log_event(rt_log *l, const char *name, const char *fmt, ...)
{
    va_list ap;
    char *rest;
    va_start(ap, fmt);
    if (vasprintf(&rest, fmt, ap) < 0)
        rt_die(RT_FAILED, "no memory for a line of the log");
    va_end(ap);
    char *line = rt_printf("{\"event\":\"%s\",\"step\":%" PRId64 ",%s,\"time\":%.3f}\n", name,
                           l->run->state.step, rest, rt_wall_time());
    append(l, l->metrics, "metrics.jsonl", line, strlen(line));
    free(line);
    free(rest);
}

static int64_t tokens_per_step(const rt_log *l)
{
    return l->run->program->batch * l->run->program->seq;
}

static double tokens_per_s(const rt_log *l, double step_ms)
{
    return step_ms > 0 ? (double)tokens_per_step(l) / step_ms * 1e3 : 0;
}

/* Inputs by name have rows, which count as one token each. */
static const char *unit(const rt_log *l)
{
    return l->run->program->seq > 1 ? "tok/s" : "rows/s";
}

/* "9.1235", or with an exponent if four decimals would show too little. */
static rt_words loss_text(double loss)
{
    rt_words w;
    snprintf(w.text, sizeof w.text, fabs(loss) < 0.01 && loss != 0 ? "%.3e" : "%.4f", loss);
    return w;
}

/* Width of the terminal: a redrawn line must not wrap. */
static int columns(const rt_log *l)
{
    struct winsize w;
    if (l->live && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1)
        return w.ws_col - 1;
    return INT_MAX;
}

static void progress(rt_log *l, const rt_step_report *s)
{
    int64_t total = l->run->lr.steps, now = rt_now_ns();
    bool last = s->step == total;
    if (l->live && !last && now - l->drawn_ns < REDRAW_NS)
        return;
    l->drawn_ns = now;
    char *head = rt_printf("step %" PRId64 "/%" PRId64 "  loss ", s->step, total);
    char *norm = isnan(s->norm) ? rt_printf("%s", "") : rt_printf("  gnorm %.3g", s->norm);
    for (int k = 0; k < l->run->program->ngoals; k++) {
        char *before = norm;
        norm = rt_printf("%s  %s %s", before, l->run->program->goals[k].name,
                         loss_text(s->goal[k].loss).text);
        free(before);
    }
    if (!isnan(s->dropped)) {
        char *before = norm;
        norm = rt_printf("%s  dropped %.2g%%", before, 100 * s->dropped);
        free(before);
    }
    if (l->run->rollout) {
        char *before = norm, *answers = rt_rollout_text(l->run, false);
        norm = rt_printf("%s%s", answers, before);
        free(before);
        free(answers);
    }
    char *tail =
        rt_printf("%s  lr %.1e  %s  %s %s  eta %s", norm, s->lr, rt_ms_text(s->step_ms).text,
                  rt_count_text(tokens_per_s(l, s->step_ms)).text, unit(l),
                  rt_duration_text((double)(total - s->step) * l->mean_ms / 1e3).text);
    rt_words loss = loss_text(s->loss);
    int room = columns(l) - (int)strlen(head) - (int)strlen(loss.text);
    printf("%s%s%s%s%s%.*s", l->live ? "\r" : "", head, l->color ? "\033[1m" : "", loss.text,
           l->color ? "\033[0m" : "", room > 0 ? room : 0, tail);
    l->drawn = l->live && !last;
    fputs(l->live ? l->drawn ? "\033[K" : "\033[K\n" : "\n", stdout);
    fflush(stdout);
    free(head);
    free(norm);
    free(tail);
}

void rt_log_observe(rt_log *l, double loss, double step_ms)
{
    l->time[l->times++ % TIMES] = step_ms;
    if (!isfinite(loss))
        return; /* of a skipped step */
    if (isnan(l->first_loss))
        l->first_loss = loss;
    l->last_loss = loss;
}

/* The caller frees it. */
static char *number_text(double x)
{
    return rt_printf("%s", isfinite(x) ? rt_double_text(x).text : "null");
}

/* The losses beside the first, their norms and rates, for metrics.jsonl; the caller frees it. */
static char *goals_text(const rt_log *l, const rt_step_report *s)
{
    char *all = rt_printf("%s", "");
    for (int k = 0; k < l->run->program->ngoals; k++) {
        const char *name = l->run->program->goals[k].name;
        char *before = all, *loss = number_text(s->goal[k].loss),
             *norm = number_text(s->goal[k].norm);
        all = rt_printf("%s,\"%s\":%s,\"%s_grad_norm\":%s,\"%s_lr\":%s", before, name, loss, name,
                        norm, name, rt_double_text(s->goal[k].lr).text);
        free(before);
        free(loss);
        free(norm);
    }
    return all;
}

static void goal_events(rt_log *l, const rt_step_report *s)
{
    static const char *const of[] = {"", "_grad_norm", "_lr"};
    for (int k = 0; k < l->run->program->ngoals; k++) {
        const double value[] = {s->goal[k].loss, s->goal[k].norm, s->goal[k].lr};
        for (int i = 0; i < 3; i++) {
            char *tag = rt_printf("train/%s%s", l->run->program->goals[k].name, of[i]);
            if (isfinite(value[i]))
                event(l, s->step, tag, value[i]);
            free(tag);
        }
    }
}

typedef struct of_step {
    rt_log *l;
    int64_t step;
} of_step;

static void rollout_event(void *ctx, const char *name, double x)
{
    const of_step *s = ctx;
    char *tag = rt_printf("train/%s", name);
    if (isfinite(x))
        event(s->l, s->step, tag, x);
    free(tag);
}

/* The cost of checkpoints since the step before, for metrics.jsonl; the caller frees it. */
static char *fresh_saves(rt_log *l)
{
    const rt_save_cost c = l->fresh;
    l->fresh = (rt_save_cost){0};
    return rt_printf(",\"saved\":%" PRId64 ",\"save_stopped_ms\":%.4f,\"save_waited_ms\":%.4f,"
                     "\"save_beside_ms\":%.4f,\"save_bytes\":%" PRId64,
                     c.step, c.stopped_ms, c.waited_ms, c.beside_ms, c.bytes);
}

void rt_log_step(rt_log *l, const rt_step_report *s)
{
    char *line, *norm = number_text(s->norm), *loss = number_text(s->loss),
                *scale = rt_printf("%s", ""), *vitals = rt_vitals_step(&l->vitals, l->run, s->step);
    double rate = tokens_per_s(l, s->step_ms);
    l->mean_ms = l->mean_ms > 0 ? 0.9 * l->mean_ms + 0.1 * s->step_ms : s->step_ms;
    if (s->scale != 0) {
        free(scale);
        scale = rt_printf(",\"loss_scale\":%s", rt_double_text(s->scale).text);
    }
    if (!isnan(s->dropped)) {
        char *before = scale;
        scale = rt_printf("%s,\"dropped\":%s", before, rt_double_text(s->dropped).text);
        free(before);
        event(l, s->step, "train/dropped", s->dropped);
    }
    if (l->fresh.step) {
        char *before = scale, *costs = fresh_saves(l);
        scale = rt_printf("%s%s", before, costs);
        free(before);
        free(costs);
    }
    if (l->run->rollout) {
        char *before = scale, *answers = rt_rollout_text(l->run, true);
        scale = rt_printf("%s%s", before, answers);
        free(before);
        free(answers);
        rt_rollout_each(l->run, rollout_event, &(of_step){l, s->step});
    }
    if (isfinite(s->loss))
        rt_points_add(&l->history.loss, s->step, s->loss);
    char *goals = goals_text(l, s);
    line = rt_printf(
        "{\"step\":%" PRId64 ",\"loss\":%s,\"grad_norm\":%s,\"lr\":%s,\"step_ms\":%.4f,"
        "\"tokens_per_s\":%.1f,\"tokens\":%" PRId64 ",\"time\":%.3f%s%s%s%s%s}\n",
        s->step, loss, norm, rt_double_text(s->lr).text, s->step_ms, rate,
        l->run->state.sequences * l->run->program->seq, rt_wall_time(), goals, scale,
        s->skipped ? ",\"skipped\":true" : "", s->overflow ? ",\"overflow\":true" : "", vitals);
    append_line(l, line);
    free(goals);
    free(vitals);
    goal_events(l, s);
    event(l, s->step, "train/loss", s->loss);
    if (s->scale != 0)
        event(l, s->step, "train/loss_scale", s->scale);
    if (isfinite(s->norm))
        event(l, s->step, "train/grad_norm", s->norm);
    event(l, s->step, "train/lr", s->lr);
    event(l, s->step, "train/tokens_per_s", rate);
    flush_events(l);
    progress(l, s);
    free(norm);
    free(loss);
    free(scale);
}

/* The metrics behind the loss, for metrics.jsonl or for people; the caller frees the text. */
static char *metrics_text(const rt_log *l, const rt_scores *s, bool json)
{
    const mg_entry *e = &l->run->program->eval;
    char *all = rt_printf("%s", "");
    for (int64_t i = 0; i < e->nmetrics; i++) {
        char *value = json ? number_text(s->metric[i]) : NULL, *before = all;
        all = json
                  ? rt_printf("%s,\"val_%s\":%s", before, e->metric[i].name, value)
                  : rt_printf("%s  %s %s", before, e->metric[i].name, loss_text(s->metric[i]).text);
        free(before);
        free(value);
    }
    return all;
}

void rt_log_eval(rt_log *l, int64_t step, const rt_scores *s, bool best, double seconds)
{
    const mg_entry *e = &l->run->program->eval;
    char *loss = number_text(s->loss), *json = metrics_text(l, s, true),
         *shown = metrics_text(l, s, false);
    char *line =
        rt_printf("{\"step\":%" PRId64 ",\"val_loss\":%s%s%s,\"eval_s\":%.4f,\"time\":%.3f}\n",
                  step, loss, json, best ? ",\"best\":true" : "", seconds, rt_wall_time());
    append_line(l, line);
    rt_vitals_begin(&l->vitals, l->run, step);
    event(l, step, "val/loss", s->loss);
    for (int64_t i = 0; i < e->nmetrics; i++) {
        char *tag = rt_printf("val/%s", e->metric[i].name);
        event(l, step, tag, s->metric[i]);
        free(tag);
    }
    flush_events(l);
    if (isfinite(s->loss))
        rt_points_add(&l->history.val, step, s->loss);
    l->val = *s;
    rt_log_line(l, "step %" PRId64 "/%" PRId64 "  val loss %s%s%s%s%s  %s", step, l->run->lr.steps,
                l->color ? "\033[1m" : "", loss_text(s->loss).text, l->color ? "\033[0m" : "",
                shown, best ? "  best" : "", rt_ms_text(seconds * 1e3).text);
    free(loss);
    free(json);
    free(shown);
}

static void text_event(rt_log *l, int64_t step, int number, const char *prompt, const char *text)
{
    size_t size;
    char *tag = rt_printf("sample/%d", number),
         *both = rt_printf("%s%s%s", prompt, l->run->program->vocab == 256 ? "" : " ", text);
    char *whole = rt_whole_utf8(both);
    uint8_t *record = rt_tf_text(rt_wall_time(), step, tag, whole, &size);
    append(l, l->events, "events.out.tfevents", record, size);
    free(record);
    free(whole);
    free(both);
    free(tag);
}

void rt_log_samples(rt_log *l, int64_t step, char *const *prompt, char *const *text, int n,
                    double seconds)
{
    char *all = rt_printf("{\"step\":%" PRId64 ",\"samples\":[", step);
    flush_events(l);
    for (int i = 0; i < n; i++) {
        char *before = all, *p = rt_json_escape(prompt[i]), *t = rt_json_escape(text[i]);
        char *shown_p = rt_shown(p), *shown_t = rt_shown(t);
        all = rt_printf("%s%s{\"prompt\":\"%s\",\"text\":\"%s\"}", before, i ? "," : "", p, t);
        rt_log_line(l, "step %" PRId64 "/%" PRId64 "  sample %d: \"%s\" -> \"%s\"", step,
                    l->run->lr.steps, i + 1, shown_p, shown_t);
        text_event(l, step, i + 1, prompt[i], text[i]);
        free(before);
        free(p);
        free(t);
        free(shown_p);
        free(shown_t);
    }
    char *line = rt_printf("%s],\"sample_s\":%.4f,\"time\":%.3f}\n", all, seconds, rt_wall_time());
    append_line(l, line);
    rt_vitals_begin(&l->vitals, l->run, step);
    free(all);
}

void rt_log_draw(rt_log *l)
{
    const mg_program *p = l->run->program;
    char *path = rt_printf("%s/loss.svg", l->run->options->out);
    char *subtitle =
        rt_printf("layout %s, %s, %" PRId64 " x %" PRId64 " tokens a step, seed %" PRId64,
                  p->layout, p->optimizer, p->batch, p->seq, l->run->state.seed);
    const char *why = l->history.loss.n ? rt_svg_write(path, &l->history, p->name, subtitle) : NULL;
    if (why)
        rt_warn("%s: %s", path, why);
    free(subtitle);
    free(path);
}

void rt_log_sync(rt_log *l)
{
    if (l->metrics >= 0 && fsync(l->metrics))
        failed(l, "metrics.jsonl");
}

/* " (predicted 12 ms)", or nothing; the caller frees it. */
static char *predicted_text(double ms, bool guessed)
{
    return ms > 0 ? rt_printf(" (predicted %s%s)", rt_ms_text(ms).text, guessed ? ", guessed" : "")
                  : rt_printf("%s", "");
}

static void add_cost(rt_save_cost *sum, const rt_save_cost *c)
{
    sum->stopped_ms += c->stopped_ms;
    sum->waited_ms += c->waited_ms;
    sum->beside_ms += c->beside_ms;
}

void rt_log_saved(rt_log *l, const rt_save_cost *c)
{
    const mg_run *r = l->run;
    rt_words stop = rt_ms_text(c->stopped_ms), write = rt_ms_text(c->beside_ms);
    event(l, r->state.step, "save/stopped_ms", c->stopped_ms + c->waited_ms);
    flush_events(l);
    l->saves.step++;
    l->fresh.step = c->step;
    l->fresh.bytes = c->bytes;
    add_cost(&l->fresh, c);
    add_cost(&l->saves, c);
    char *of_stop = predicted_text(c->predicted_stop_ms, false),
         *of_write = predicted_text(c->predicted_write_ms, r->program->saving.guessed);
    char *waited = c->waited_ms > 0
                       ? rt_printf(" and %s for the save before", rt_ms_text(c->waited_ms).text)
                       : rt_printf("%s", "");
    char *how = c->beside_ms > 0 ? rt_printf("steps stood still %s%s%s, written beside in %s%s",
                                             stop.text, of_stop, waited, write.text, of_write)
                                 : rt_printf("%s", stop.text);
    rt_log_line(l, "saved %s/ckpt/%s  %s  %s", r->options->out, rt_checkpoint_name(c->step).text,
                rt_bytes_text((double)c->bytes).text, how);
    free(of_stop);
    free(of_write);
    free(waited);
    free(how);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Milliseconds; 0: there was no step. */
static double median(const rt_log *l)
{
    const int64_t n = l->times < TIMES ? l->times : TIMES;
    double time[TIMES];
    memcpy(time, l->time, (size_t)n * sizeof *time);
    qsort(time, (size_t)n, sizeof *time, by_value);
    return n ? time[n / 2] : 0;
}

void rt_log_facts(const rt_log *l, rt_facts *f)
{
    const rt_points *all = &l->history.loss;
    *f = (rt_facts){all->n ? all->item[0].value : l->first_loss, l->last_loss, median(l), l->val};
}

/* Prints predicted and measured step time: the median, because the first steps warm caches. */
static void print_summary(rt_log *l)
{
    const mg_run *r = l->run;
    int64_t done = r->state.step - l->resumed, n = l->times < TIMES ? l->times : TIMES;
    double ms = median(l), predicted = r->program->step.predicted_ms;
    rt_log_line(l, "%" PRId64 " steps in %s, loss %s -> %s%s%s, %s %s", done,
                rt_duration_text((double)(rt_now_ns() - l->start_ns) / 1e9).text,
                loss_text(l->first_loss).text, loss_text(l->last_loss).text,
                isnan(l->val.loss) ? "" : ", val ",
                isnan(l->val.loss) ? "" : loss_text(l->val.loss).text,
                rt_count_text(tokens_per_s(l, ms)).text, unit(l));
    char *ratio =
        predicted > 0 ? rt_printf(" (%+.0f%%)", 100 * (ms / predicted - 1)) : rt_printf("%s", "");
    rt_log_line(l, "step time: predicted %s, measured %s%s, the median of %" PRId64 "; %s",
                rt_ms_text(predicted).text, rt_ms_text(ms).text, ratio, n,
                rt_rate_text(ms > 0 ? r->program->step.flops / ms * 1e3 : 0, "FLOP/s").text);
    free(ratio);
    const rt_save_cost *c = &l->saves;
    const double run_ms = (double)(rt_now_ns() - l->start_ns) / 1e6,
                 still = c->stopped_ms + c->waited_ms;
    if (c->step)
        rt_log_line(
            l,
            "saves: %" PRId64
            ", for which steps stood still %s (%.1f%% of the run), written beside steps in %s",
            c->step, rt_ms_text(still).text, 100 * still / run_ms, rt_ms_text(c->beside_ms).text);
    char *surprises = rt_costs_text(r->costs, r->program);
    if (surprises)
        rt_log_line(l, "%s", surprises);
    free(surprises);
    rt_log_memory(l, r);
    char *outside = rt_outside_text(r);
    if (outside)
        rt_log_line(l, "%s", outside);
    free(outside);
}

void rt_log_close(rt_log *l, rt_exit code)
{
    if (!l)
        return;
    append_line(l, rt_vitals_end(l->run,
                                 code == RT_DONE      ? "done"
                                 : code == RT_STOPPED ? "stopped"
                                                      : "failed",
                                 median(l)));
    if (l->times)
        print_summary(l);
    finish_line(l);
    if (l->metrics >= 0)
        close(l->metrics);
    if (l->events >= 0)
        close(l->events);
    rt_history_free(&l->history);
    free(l);
}
