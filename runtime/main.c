/* main.c - the main function of a program: from the command line to the exit code. */
#include "runtime/checkpoint/followers.h"
#include "runtime/checkpoint/adapter.h"
#include "runtime/data/batch.h"
#include "runtime/elastic/supervisor.h"
#include "runtime/data/pack.h"
#include "runtime/health/health.h"
#include "runtime/keeper/keeper.h"
#include "runtime/net/ranks.h"
#include "runtime/perplexity.h"
#include "runtime/preflight/preflight.h"
#include "runtime/prompts.h"
#include "runtime/rollout/rollout.h"
#include "runtime/speech.h"
#include "runtime/data/sources.h"
#include "runtime/log/card.h"
#include "runtime/save.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_abi(const mg_program *p)
{
    if (p->abi != MG_ABI)
        rt_die(RT_MISFIT,
               "this program was made for ABI %u; its runtime has ABI %d: compile it again", p->abi,
               MG_ABI);
}

/* --long-documents */
static bool drops(const mg_run *r)
{
    const char *what = r->options->long_documents;
    if (what && r->program->step.documents < 0)
        rt_die(RT_USAGE, "--long-documents %s: this program does not pack documents into windows",
               what);
    if (what && strcmp(what, "cut") && strcmp(what, "drop"))
        rt_die(RT_USAGE, "--long-documents %s: write cut or drop", what);
    return what && !strcmp(what, "drop");
}

static rt_data *open_set(const mg_run *r, const rt_list *patterns, const char *option)
{
    const mg_program *p = r->program;
    const bool without = drops(r);
    if (p->step.ninputs)
        return rt_table_open(patterns, option, &p->step);
    const int64_t next = p->seq + 1, window = p->step.window > next ? p->step.window : next;
    rt_data *d = p->step.documents >= 0
                     ? rt_data_open_packed(patterns, option, p->seq, window, p->vocab, without)
                     : rt_data_open(patterns, option, p->seq, window, p->vocab);
    if (p->step.weights >= 0)
        rt_data_weigh(d);
    else
        rt_data_unweighed(d);
    return d;
}

void rt_open_data(mg_run *r)
{
    const mg_program *p = r->program;
    if (p->rollout.size) {
        r->rollout = rt_rollout_open(r);
        return;
    }
    r->data = open_set(r, &r->options->data, "data");
    if (r->options->val.n) {
        r->val = open_set(r, &r->options->val, "val");
        rt_data_in_order(r->val);
    } else if (r->options->val_fraction > 0) {
        r->val = rt_data_hold_out(r->data, r->options->val_fraction);
    }
    if (r->data->packs)
        rt_data_pack(r->data);
    if (r->val && r->val->packs)
        rt_data_pack(r->val);
    if (r->val && p->eval.filled < 0 && rt_eval_windows(r, r->val) < p->eval.batch)
        rt_die(RT_BAD_DATA,
               "the evaluation set has %" PRId64 " rows; a loss whose rows depend on each other is "
               "evaluated on whole batches of %" PRId64,
               r->val->windows, p->eval.batch);
}

/* 0, or the error. */
static int lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
}

/* Allows one writer for each directory. The kernel drops the lock when the process ends for any
 * reason. */
static void claim_out(mg_run *r)
{
    rt_make_directories(r->options->out);
    char *path = rt_printf("%s/.lock", r->options->out);
    r->lock = rt_file_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (r->lock < 0)
        rt_die(RT_IO, "%s: %s", path, rt_file_error());
    /* A look whether the run is alive (mgc watch) holds the lock for a moment. */
    int error = lock(r->lock);
    for (int i = 0; error == EWOULDBLOCK && i < 10; i++) {
        usleep(30000);
        error = lock(r->lock);
    }
    if (error == EWOULDBLOCK)
        rt_die(RT_FAILED, "another program is writing to %s; choose another --out",
               r->options->out);
    free(path);
    char *why = rt_checkpoints_wrong(r->options->out);
    if (why)
        rt_die(RT_IO, "%s", why);
}

/* The learning-rate schedule with the peak and steps of the run's state. */
static mg_lr schedule_of(const mg_run *r)
{
    mg_lr lr = r->lr;
    if (!isnan(r->state.lr))
        lr.peak = r->state.lr;
    if (r->state.steps != RT_UNSET)
        lr.steps = r->state.steps;
    return lr;
}

/* Tells the user how the learning rate changes: most schedules stretch over the steps of a run, so
 * other steps change the next rate. */
static void tell_schedule(const mg_run *r, const mg_lr *was)
{
    const bool stretched = r->lr.kind != MG_LR_CONSTANT && r->lr.kind != MG_LR_INVERSE_SQRT &&
                           r->lr.kind != MG_LR_WARMUP;
    const int64_t at = rt_updates(r);
    char *rates = rt_printf("at step %" PRId64 " it is %.6g, where it would have been %.6g",
                            r->state.step + 1, rt_lr(&r->lr, at), rt_lr(was, at));
    if (was->steps != r->lr.steps)
        rt_note("--steps %" PRId64 ": the resumed run was to have %" PRId64
                " steps; the learning rate %s%s",
                r->lr.steps, was->steps,
                stretched ? "follows the schedule of a run of the new length: "
                          : "does not depend on that: ",
                rates);
    free(rates);
}

/* Sets seed, peak learning rate and steps: from the command line, else from the resumed run, else
 * from the program. */
static void settle_state(mg_run *r, bool resumed)
{
    const rt_options *o = r->options;
    if (resumed && o->seed != RT_UNSET && o->seed != r->state.seed)
        rt_die(RT_USAGE,
               "--seed %" PRId64 ": the resumed run began with seed %" PRId64 " and keeps it",
               o->seed, r->state.seed);
    if (!resumed)
        r->state =
            (rt_state){.seed = o->seed == RT_UNSET ? 0 : o->seed, .lr = NAN, .steps = RT_UNSET};
    if (r->state.scale.value == 0)
        rt_scale_start(r);
    const mg_lr was = schedule_of(r);
    if (!isnan(o->lr))
        r->state.lr = o->lr;
    if (o->steps != RT_UNSET)
        r->state.steps = o->steps;
    r->lr = schedule_of(r);
    if (r->lr.kind != MG_LR_CONSTANT && r->lr.peak < r->lr.floor)
        rt_die(RT_USAGE, "--lr %g is below the schedule's floor of %g", r->lr.peak, r->lr.floor);
    if (resumed)
        tell_schedule(r, &was);
    r->saved_step = !resumed ? -1 : r->kept ? rt_resume_saved(r) : r->state.step;
    rt_best_settle(r, resumed);
}

static void settle_data(mg_run *r, bool resumed)
{
    if (!r->data)
        return;
    if (resumed && r->state.data_windows &&
        (r->state.data_tokens != r->data->tokens || r->state.data_windows != r->data->windows))
        rt_warn("the data has %" PRId64 " tokens; the resumed run read %" PRId64
                ": the run continues, with another order of the data",
                r->data->tokens, r->state.data_tokens);
    uint64_t blend = r->data->blend ? rt_blend_key(r->data->blend) : 0;
    if (resumed && r->state.data_windows && blend != r->state.blend)
        rt_warn("the weights of the data are not those of the resumed run: it continues, with "
                "another order of the data");
    r->state.blend = blend;
    r->state.data_tokens = r->data->tokens;
    r->state.data_windows = r->data->windows;
}

/* A checkpoint of an adapter is without its base: the run notes which that is, and a resumed run
 * goes on with no other. Of others it notes the path alone. */
static void settle_base(mg_run *r, bool resumed)
{
    const uint32_t crc = r->weights ? rt_weights_crc(r->weights) : 0;
    if (!r->program->adapter_json) { /* for the model card */
        char *path = r->weights ? realpath(r->options->init, NULL) : NULL;
        if (path && strlen(path) < sizeof r->state.base)
            snprintf(r->state.base, sizeof r->state.base, "%s", path);
        free(path);
        return;
    }
    if (resumed && crc != r->state.base_crc)
        rt_die(
            RT_BAD_DATA,
            "the base %s is not the one that this adapter's run began with%s%s: --init DIR gives "
            "another",
            r->base ? r->base : "of the seed", *r->state.base ? ", " : "", r->state.base);
    snprintf(r->state.base, sizeof r->state.base, "%s", r->base ? r->base : "");
    r->state.base_crc = crc;
}

static void fill_arena(mg_run *r, const char *checkpoint)
{
    rt_device_ranks(r);
    r->pool = rt_pool_new(r->threads, r->options->pin);
    rt_arena_map(r);
    if (!checkpoint || r->program->adapter_json) {
        rt_init(r); /* what no file has */
        if (r->weights)
            rt_weights_load(r, r->weights);
        settle_base(r, checkpoint);
    }
    if (checkpoint) {
        rt_resume_load(r, checkpoint);
    } else {
        rt_init_state(r);
        rt_begin(r, r->weights);
        rt_adapter_begin(r, r->weights);
    }
    if (r->options->poison)
        rt_poison(r);
    if (r->program->round.present)
        rt_run(r, RT_ROUND); /* parameters are there: now their copies are */
}

static void settle(mg_run *r, bool resumed)
{
    settle_state(r, resumed);
    const int64_t updates = r->rollout ? r->program->rollout.updates : 1;
    if (!r->data && !r->rollout && r->state.step < r->lr.steps)
        rt_die(RT_USAGE, "--data is needed to train: --data 'corpus/*.txt'");
    if (r->lr.steps % updates)
        rt_die(RT_USAGE,
               "--steps %" PRId64 ": %s learns the same answers in %" PRId64
               " steps; a run ends behind them: --steps %" PRId64,
               r->lr.steps, r->program->name, updates, (r->lr.steps / updates + 1) * updates);
    settle_data(r, resumed);
}

/* A resumed run has its weights already. --init is then ignored, so that the same command can be
 * given again; but an adapter's run has its base from there, or from where it was before. */
static void open_weights(mg_run *r, bool resumed)
{
    const char *init = r->options->init;
    if (!r->program->adapter_json) {
        if (init && !resumed)
            r->weights = rt_weights_open(r, init, NULL, false);
        return;
    }
    if (init && !(r->base = realpath(init, NULL)))
        rt_die(RT_BAD_DATA, "--init: %s: %s", init, strerror(errno));
    if (!init && resumed && *r->state.base)
        r->base = rt_printf("%s", r->state.base);
    if (r->base && strlen(r->base) >= RT_BASE_MAX)
        rt_die(RT_USAGE, "--init: a path of more than %d bytes", RT_BASE_MAX - 1);
    if (r->base)
        r->weights = rt_weights_open(r, r->base, resumed ? NULL : r->options->adapter, resumed);
}

/* Finds out how this process was started. If that is wrong, all processes end, and one prints the
 * message. */
static void find_world(mg_run *r)
{
    rt_world *w = &r->world;
    char *why = rt_world_read(w);
    if (why)
        rt_die(RT_MISFIT, "%s", why);
    if (w->launcher != RT_BARE && w->size > 1)
        rt_speak_for(w->rank);
    rt_be_quiet(w->rank > 0);
    r->stdout_kept = w->rank > 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
    if (w->rank > 0 && !freopen("/dev/null", "w", stdout))
        rt_warn("standard output: %s", strerror(errno));
}

static void settle_world(const mg_run *r)
{
    char *why =
        rt_world_misfit(&r->world, rt_ranks_of(r->program, ~(uint32_t)0), program_invocation_name);
    if (why)
        rt_die(RT_MISFIT, "%s", why);
}

/* Joins a run of several processes. The first is the leader; a follower never returns. */
static void join_others(mg_run *r)
{
    rt_ranks_join(r);
    if (r->options->threads == RT_UNSET)
        r->threads = rt_ranks_threads(r);
    if (r->rank)
        rt_ranks_follow(r);
}

/* Perplexity, samples and exports, of the model as it is evaluated. */
static rt_exit show(mg_run *r)
{
    const bool samples =
        (r->options->sample != RT_UNSET && !r->prompts) || r->options->chat || r->options->batch;
    bool good = true;
    if (!samples && !r->options->export_to && !r->scored)
        return RT_DONE;
    rt_exchange_averages(r);
    rt_perplexity(r);
    if (samples)
        rt_sample(r);
    if (r->options->export_to)
        good = rt_export(r, r->options->export_to);
    rt_exchange_averages(r);
    return good ? RT_DONE : RT_IO;
}

static void log_packing(const mg_run *r, const char *what, const rt_data *d)
{
    char *text = d && d->packs ? rt_packing_text(d) : NULL;
    if (text)
        rt_log_line(r->log, "%s: %s", what, text);
    free(text);
}

static rt_exit train(mg_run *r)
{
    if (!r->options->resume)
        settle(r, false), open_weights(r, false); /* a wrong command line makes no directory */
    claim_out(r);
    rt_checkpoint_clean(r->options->out);
    rt_dump_open(r);
    char *checkpoint = r->options->resume ? rt_resume_find(r, &r->state) : NULL;
    settle(r, checkpoint);
    if (r->options->resume)
        open_weights(r, checkpoint);
    rt_signals_catch(r);
    fill_arena(r, checkpoint); /* a start that fails leaves no trace */
    rt_resume_set_aside(r, checkpoint ? r->state.step : -1);
    rt_pulse_begin(r);
    r->log = rt_log_open(r, checkpoint ? r->state.step : -1);
    rt_pulse_log(r);
    if (checkpoint) {
        rt_log_line(r->log, "resumed from %s", checkpoint);
        rt_checkpoint_prune(r,
                            &r->state); /* a run that was killed may have saved without pruning */
    } else if (r->options->resume) {
        rt_log_line(r->log, "no checkpoint in %s/ckpt: starting afresh", r->options->out);
    }
    rt_health_open(r);
    log_packing(r, "data", r->data);
    log_packing(r, "evaluation", r->val);
    if (r->weights) {
        rt_catalog read = rt_adapter_part(&r->params, false);
        rt_log_line(r->log, "weights of %s: %d tensors", r->base ? r->base : r->options->init,
                    read.n);
        free(read.item);
    } else if (!checkpoint && r->program->adapter_json) {
        rt_warn("what the adapter is for begins with random numbers, and checkpoints do not have "
                "it: --init DIR reads a model");
    }
    if (r->state.step >= r->lr.steps)
        rt_log_line(r->log, "%" PRId64 " of %" PRId64 " steps are done", r->state.step,
                    r->lr.steps);
    else if (r->lr.warmup >= r->lr.steps) /* the schedule is of longer runs */
        rt_log_line(r->log,
                    "the learning rate rises for %" PRId64 " steps, of which this run has %" PRId64
                    ": it ends at %.3g instead of %.3g (`lr` in the train block)",
                    r->lr.warmup, r->lr.steps, rt_lr(&r->lr, r->lr.steps - 1), r->lr.peak);
    if (r->options->max_time)
        r->deadline = r->started + (int64_t)(rt_duration(r->options->max_time) * 1e9);
    rt_saving_open(r);
    rt_exit code = rt_train(r);
    if (code == RT_DONE)
        rt_card_of_run(r);
    rt_saving_tell(r);
    rt_log_close(r->log, code);
    if (code == RT_DONE)
        code = show(r);
    free(checkpoint);
    return code;
}

/* Generates tokens, exports: reads a checkpoint, and writes nothing to --out. */
static rt_exit look(mg_run *r)
{
    char *checkpoint = r->options->resume ? rt_resume_find(r, &r->state) : NULL;
    if (r->options->resume && !checkpoint)
        rt_die(RT_BAD_DATA, "--resume: there is no checkpoint in %s/ckpt", r->options->out);
    settle_state(r, checkpoint);
    open_weights(r, checkpoint);
    rt_signals_catch(r);
    fill_arena(r, checkpoint);
    const rt_exit code = show(r);
    free(checkpoint);
    return rt_signal_stop() ? RT_STOPPED : code;
}

static void release(mg_run *r)
{
    rt_saving_close(r);
    rt_kept_close(r->kept);
    rt_device_close(r);
    rt_pool_free(r->pool);
    for (int i = 0; i < RT_PROGRAMS; i++)
        rt_batch_free(r->batch[i]);
    rt_data_close(r->data);
    rt_data_close(r->val);
    rt_scored_close(r->scored);
    rt_prompts_close(r->prompts);
    rt_speech_close(r);
    rt_health_close(r);
    rt_rollout_close(r->rollout);
    if (r->program->adapter_json)
        free(r->saved.item);
    free(r->base);
    rt_catalog_free(&r->params);
    rt_catalog_free(&r->slots);
    rt_world_free(&r->world);
    rt_weights_close(r->weights);
    rt_costs_free(r->costs);
    rt_options_free(r->options);
}

int main(int argc, char **argv)
{
    rt_options options;
    mg_run r = {.program = &mg_main,
                .step = mg_step,
                .eval = mg_eval,
                .sample = mg_sample,
                .round = mg_round,
                .preflight = rt_preflight,
                .options = &options,
                .lr = mg_main.lr,
                .action = -1,
                .saved_step = -1};
    r.started = rt_now_ns();
    check_abi(r.program);
    r.pulse = rt_pulse_find();
    find_world(&r);
    rt_options_parse(&options, r.program, argc, argv);
    int code;
    if (rt_elastic(&r, argv, &code)) {
        rt_options_free(&options);
        return code;
    }
    if (options.products && !r.program->cuda_kernels)
        rt_die(RT_USAGE, "--products: %s runs on the processor, whose products have one algorithm",
               r.program->name);
    settle_world(&r);
    int ranks = rt_ranks_of(r.program, ~(uint32_t)0), cores = rt_default_threads();
    r.threads = options.threads != RT_UNSET ? (int)options.threads
                : cores > ranks             ? cores / ranks
                                            : 1;
    r.params = rt_catalog_new(r.program, MG_PARAM);
    r.saved = r.program->adapter_json ? rt_adapter_part(&r.params, true) : r.params;
    r.slots = rt_catalog_new(r.program, MG_STATE);
    if (r.world.rank && (options.info || options.dry_run)) {
        r.code = RT_DONE; /* rank 0 prints the program, and checks its own machine only */
    } else if (options.info) {
        rt_info(&r);
        r.code = RT_DONE;
    } else if (options.dry_run) {
        r.code = rt_dry_run(&r);
    } else {
        rt_be_quiet(false);
        if (rt_world_shared(&r.world))
            join_others(&r);
        if (options.preflight) {
            r.code = rt_preflight(&r);
            release(&r);
            return (int)r.code;
        }
        rt_device_open(&r);
        if (options.data.n)
            rt_open_data(&r);
        r.scored = rt_scored_open(&r);
        r.prompts = rt_prompts_open(&r);
        const bool looks = options.sample != RT_UNSET || options.chat || options.batch ||
                           options.export_to || r.scored;
        r.code = looks && !options.data.n ? look(&r) : train(&r);
    }
    release(&r);
    return (int)r.code;
}
