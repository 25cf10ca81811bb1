/* train.c - the training loop: reads a batch, runs a step, logs it; saves, evaluates and handles
 * signals in between. */
#include "runtime/data/batch.h"
#include "runtime/elastic/pulse.h"
#include "runtime/health/health.h"
#include "runtime/prompts.h"
#include "runtime/rollout/rollout.h"
#include "runtime/save.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct window { /* steps since the last report */
    double ms;
    int64_t steps;
} window;

void rt_fill_batch(mg_run *r)
{
    const mg_entry *e = &r->program->step;
    if (r->rollout) {
        rt_rollout_put(r);
        return;
    }
    rt_batch_fill(r, RT_STEP, r->data, r->state.sequences, e->batch);
    rt_fill_scalars(r, e, rt_updates(r));
}

static double norm_of(const mg_run *r)
{
    const mg_entry *e = &r->program->step;
    return e->norm >= 0 ? rt_get_f64(r, e->norm) : NAN;
}

/* True if the gradients were not finite in a step whose guard saw only the loss. */
static bool bad_gradients(const mg_run *r)
{
    return r->program->as_ready && !r->guard.tripped && !isfinite(rt_goals_norm(r));
}

/* Ends the run after a step that was not finite: the guard ended it, or saw only the loss. */
static _Noreturn void end_non_finite(mg_run *r)
{
    int64_t step = r->state.step + 1;
    rt_health_after(r, false); /* wrong bits may be why */
    rt_saving_end(r);
    rt_log_line(r->log, "step %" PRId64 "/%" PRId64 "  stopped", step, r->lr.steps);
    if (!r->guard.tripped && !bad_gradients(r))
        rt_die(RT_FAILED,
               "step %" PRId64 " gave a loss of %g after the parameters were updated; the newest "
               "checkpoint is step %" PRId64,
               step, rt_goals_loss(r), r->saved_step);
    rt_find_non_finite(r, step);
    if (r->saved_step >= 0)
        rt_die(RT_FAILED, "the newest checkpoint is %s/ckpt/%s; a lower --lr may pass this point",
               r->options->out, rt_checkpoint_name(r->saved_step).text);
    rt_die(RT_FAILED, "there is no checkpoint yet; a lower --lr may pass this point");
}

/* False: a signal came before the step had begun. */
static bool run_step(mg_run *r, window *w)
{
    const int64_t begin = rt_now_ns();
    if (r->rollout && !rt_rollout_next(r))
        return false;
    r->skipped = r->overflow = false;
    r->scale = r->program->scale.initial != 0 ? r->state.scale.value : 0;
    r->step_began = rt_now_ns();
    const rt_span *t = &r->options->trace;
    int64_t step = r->state.step + 1;
    bool traced = t->given && step >= t->from && step <= t->to;
    const int64_t asked = rt_now_ns();
    rt_health_before(r);
    const int64_t checked = rt_now_ns() - asked; /* no time of the step's */
    rt_fill_batch(r);
    if (traced)
        rt_trace_clocks(r, false);
    r->traced = traced ? step : 0;
    rt_run(r, RT_STEP);
    r->traced = 0;
    r->action = -1;
    double loss = rt_get_f64(r, r->program->step.loss); /* waits for a GPU, also for the update */
    int64_t end = rt_now_ns();
    if (r->guard.tripped || bad_gradients(r) || (!isfinite(rt_goals_loss(r)) && !r->overflow))
        end_non_finite(r);
    if (!r->overflow)
        rt_scale_good(r);
    if (!r->skipped && !r->overflow)
        rt_spike_observe(r, rt_goals_loss(r), rt_goals_norm(r));
    double ms = (double)(end - begin - checked) / 1e6;
    rt_log_observe(r->log, loss, ms);
    r->longest_ms = ms > r->longest_ms ? ms : r->longest_ms;
    w->ms += ms;
    w->steps++;
    r->state.step = step;
    r->state.sequences += r->program->step.batch;
    rt_pulse_step(r);
    rt_health_after(r, true);
    return true;
}

static void report(mg_run *r, window *w)
{
    const mg_entry *e = &r->program->step;
    int64_t step = r->state.step;
    if (step % r->options->log_every && step != r->lr.steps && !r->skipped && !r->overflow)
        return;
    const int64_t update = rt_updates(r) - !r->overflow;
    rt_step_report s = {.step = step,
                        .loss = rt_get_f64(r, e->loss),
                        .norm = norm_of(r),
                        .lr = rt_lr(&r->lr, update),
                        .step_ms = w->ms / (double)w->steps,
                        .scale = r->scale,
                        .dropped = e->drops ? rt_get_f64(r, e->dropped) : NAN,
                        .skipped = r->skipped,
                        .overflow = r->overflow};
    for (int k = 0; k < r->program->ngoals; k++)
        s.goal[k] = rt_goal_observe(r, k, update);
    rt_log_step(r->log, &s);
    if (r->overflow)
        rt_log_line(r->log,
                    "step %" PRId64 "  overflow at scale %g: step skipped; the scale is now %g",
                    step, r->scale, r->state.scale.value);
    *w = (window){0};
}

static int64_t eval_every(const mg_run *r)
{
    int64_t n = r->options->eval_every;
    if (n == RT_UNSET)
        n = r->lr.steps / 10 > 0 ? r->lr.steps / 10 : 1;
    return n;
}

/* While the steps wait. */
static void save_blocking(mg_run *r)
{
    rt_log_sync(r->log);
    int64_t begin = rt_now_ns();
    bool good = rt_checkpoint_save(r);
    r->save_ns = rt_now_ns() - begin;
    rt_save_cost c = {.step = r->state.step,
                      .bytes = rt_checkpoint_bytes(r),
                      .stopped_ms = (double)r->save_ns / 1e6};
    if (good)
        rt_log_saved(r->log, &c);
}

/* True if the checkpoint of this step is there or under way. */
static bool saved_now(const mg_run *r)
{
    return r->saved_step == r->state.step || rt_saving_step(r) == r->state.step;
}

/* Saves, or begins to, unless this step's checkpoint is there or under way. */
static void save(mg_run *r)
{
    r->save_tried = rt_now_ns();
    if (saved_now(r))
        return;
    rt_health_before_save(r);
    if (rt_saving_writes(r))
        rt_saving_begin(r);
    else
        save_blocking(r);
    r->save_tried = rt_now_ns();
}

/* Saves, and waits until it is on disk; false: it is not. */
static bool save_at_end(mg_run *r)
{
    save(r);
    rt_saving_end(r);
    return r->saved_step == r->state.step;
}

/* The leader alone looks at its clock, between two steps: all ranks save what it orders. */
static bool save_due(const mg_run *r)
{
    const rt_every *e = &r->options->save_every;
    if (e->seconds > 0)
        return (double)(rt_now_ns() - r->save_tried) >= e->seconds * 1e9;
    return e->steps && r->state.step % e->steps == 0;
}

/* Evaluates if it is time to. A checkpoint of the best so far is saved at once. */
static void evaluate(mg_run *r)
{
    int64_t every = eval_every(r), step = r->state.step;
    if (!r->val || ((!every || step % every) && step != r->lr.steps))
        return;
    int64_t begin = rt_now_ns();
    rt_scores s;
    rt_eval(r, r->val, &s);
    bool best = rt_best_observe(r, &s);
    rt_log_eval(r->log, step, &s, best, (double)(rt_now_ns() - begin) / 1e9);
    rt_log_draw(r->log);
    if (rt_best_keeps(&r->state.best, step))
        save(r);
}

/* Goes on with the prompts of --prompts if it is time to: with each evaluation, unless it is said.
 */
static void sample(mg_run *r)
{
    const int64_t n = r->options->sample_every, every = n == RT_UNSET ? eval_every(r) : n;
    if (r->prompts && ((every && r->state.step % every == 0) || r->state.step == r->lr.steps))
        rt_prompts_log(r);
}

/* The best evaluation of the run, at its end. */
static void tell_best(const mg_run *r)
{
    const rt_best *b = &r->state.best;
    if (*b->by && b->step >= 0)
        rt_log_line(r->log, "best %.*s %s: step %" PRId64 ", %s/ckpt/%s", (int)strcspn(b->by, ":"),
                    b->by, rt_double_text(b->value).text, b->step, r->options->out,
                    rt_checkpoint_name(b->step).text);
    for (int i = 1; *b->by && i < b->ntop; i++)
        rt_log_line(r->log, "  then %s: step %" PRId64 ", %s/ckpt/%s",
                    rt_double_text(b->top[i].value).text, b->top[i].step, r->options->out,
                    rt_checkpoint_name(b->top[i].step).text);
}

/* Ends the run if a file of the data changed. The steps so far used the old data and are saved;
 * later steps would use data other than the log says. */
static void stop_on_changed_data(mg_run *r)
{
    enum { EVERY = 64 };
    char *why = r->state.step % EVERY || !r->data ? NULL : rt_data_changed(r->data);
    if (!why)
        return;
    save_at_end(r);
    rt_die(RT_BAD_DATA, "%s; stopped after step %" PRId64, why, r->state.step);
}

static void write_trace(mg_run *r)
{
    if (!r->trace)
        return;
    char *path = rt_printf("%s/trace.json", r->options->out);
    rt_trace_write(r, path);
    free(path);
    rt_trace_free(r->trace);
    r->trace = NULL;
}

/* True if less time is left than one step and one save need, with a factor of 2 for safety. */
static bool time_is_up(const mg_run *r)
{
    double step = r->longest_ms * 1e6, save = (double)r->save_ns;
    return r->deadline && (double)rt_now_ns() + 2 * (step + save) >= (double)r->deadline;
}

static rt_exit stop(mg_run *r, const char *why)
{
    rt_log_line(r->log, "%s after step %" PRId64 ": saving", why, r->state.step);
    bool good = save_at_end(r);
    write_trace(r);
    rt_log_draw(r->log);
    if (good)
        rt_note("stopped after step %" PRId64 " of %" PRId64 "; --resume goes on from there",
                r->state.step, r->lr.steps);
    return good ? RT_STOPPED : RT_IO;
}

rt_exit rt_train(mg_run *r)
{
    window w = {0};
    if (r->options->trace.given)
        r->trace = rt_trace_new(r->program);
    r->costs = r->cuda ? NULL : rt_costs_new(r->program);
    r->save_tried = rt_now_ns();
    rt_health_start(r);
    while (r->state.step < r->lr.steps && !rt_best_waited(r)) {
        if (rt_signal_stop() && rt_rollout_done(r))
            return stop(r, strsignal(rt_signal_stop()));
        if (time_is_up(r) && rt_rollout_done(r))
            return stop(r, "--max-time");
        stop_on_changed_data(r);
        if (!run_step(r, &w))
            continue;
        report(r, &w);
        if (r->trace && r->state.step == r->options->trace.to)
            write_trace(r);
        rt_saving_look(r);
        evaluate(r);
        sample(r);
        if (rt_rollout_done(r) && (rt_signal_save() || save_due(r)))
            save(r);
        const bool kept = rt_rollout_done(r) && rt_saving_keep(r);
        if ((kept || saved_now(r)) && rt_pulse_grows(r)) {
            rt_saving_end(r);
            return RT_STOPPED; /* more ranks go on */
        }
    }
    if (rt_best_waited(r) && r->state.step < r->lr.steps)
        rt_log_line(r->log,
                    "stopped after step %" PRId64 ": %" PRId64 " evaluations without a better %.*s",
                    r->state.step, r->state.best.waited, (int)strcspn(r->state.best.by, ":"),
                    r->state.best.by);
    write_trace(r);
    bool good = save_at_end(r);
    tell_best(r);
    rt_log_draw(r->log);
    return good ? RT_DONE : RT_IO;
}
