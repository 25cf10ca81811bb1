/* factory_run.c - the options of ./train: seeds, evaluation, checkpoints. */
#include "compiler/recipe/factory.h"

#include <math.h>
#include <string.h>

static void option(Factory *f, const char *text)
{
    f->options = arena_printf(f->s->arena, "%s %s", f->options, text);
}

/* A number of steps, or a part of them, as a word of the script. */
static const char *every(Factory *f, double n)
{
    if (n >= 1 || n <= 0)
        return arena_printf(f->s->arena, "%.0f", n < 0 ? 0 : floor(n));
    return arena_printf(f->s->arena, "$(up \"$steps * %.15g\")", n);
}

/* "steps", "epoch" or "no", and the number of steps. */
static const char *strategy(Factory *f, const char *key, const char *how, double n)
{
    if (!strcmp(how, "no") || !strcmp(how, "none"))
        return "0";
    if (!strcmp(how, "epoch")) {
        f->by_epoch = true;
        return "\"$epoch\"";
    }
    if (strcmp(how, "steps") != 0 && strcmp(how, "best") != 0)
        keys_wrong(&f->k, key, "'%s' is no, steps or epoch", how);
    return every(f, n);
}

static void saving(Factory *f)
{
    Keys *k = &f->k;
    Arena *a = f->s->arena;
    const char *save =
        strategy(f, "save_strategy", keys_text(k, "save_strategy"), keys_number(k, "save_steps"));
    option(f, arena_printf(a, "--save-every %s --keep %lld", save,
                           (long long)keys_whole(k, "save_total_limit")));
    keys_here(k, "save_strategy", "./train --save-every %s", save);
    keys_here(k, "save_steps", "./train --save-every %s", save);
    if (keys_given(k, "save_total_limit"))
        keys_here(k, "save_total_limit", "./train --keep %lld",
                  (long long)keys_whole(k, "save_total_limit"));
    const double log = keys_number(k, "logging_steps");
    const bool steps = !strcmp(keys_text(k, "logging_strategy"), "steps") && log >= 1;
    const char *word = steps ? every(f, log) : "1";
    option(f, arena_printf(a, "--log-every %s", word));
    keys_here(k, "logging_steps", "./train --log-every %s", word);
    keys_here(k, "logging_strategy", "./train --log-every %s", word);
    if (keys_given(k, "report_to"))
        keys_here(k, "report_to",
                  "metrics.jsonl and TensorBoard's events, always; no service is told");
}

static void best(Factory *f)
{
    Keys *k = &f->k;
    const char *metric = keys_text(k, "metric_for_best_model");
    const bool loss = !metric || !strcmp(metric, "loss") || !strcmp(metric, "eval_loss");
    const bool wanted = keys_flag(k, "load_best_model_at_end");
    const int64_t patience = keys_whole(k, "early_stopping_steps");
    if (wanted || patience > 0)
        option(f, "--best-by val_loss:min");
    if (patience > 0)
        option(f, arena_printf(f->s->arena, "--patience %lld", (long long)patience));
    if (keys_given(k, "early_stopping_steps"))
        keys_here(k, "early_stopping_steps", "./train --patience %lld", (long long)patience);
    if (keys_given(k, "load_best_model_at_end"))
        keys_here(k, "load_best_model_at_end",
                  wanted ? "./train --best-by val_loss:min" : "no --best-by");
    if (keys_given(k, "metric_for_best_model") && loss)
        keys_here(k, "metric_for_best_model", "./train --best-by val_loss:min");
    else if (keys_given(k, "metric_for_best_model"))
        keys_missing(k, "metric_for_best_model",
                     "a metric is a line of the model's file: metric %s = ...", metric);
    if (keys_given(k, "greater_is_better"))
        keys_here(k, "greater_is_better", "./train --best-by NAME:min or :max");
}

static void evaluation(Factory *f)
{
    Keys *k = &f->k;
    Arena *a = f->s->arena;
    const bool older = keys_given(k, "evaluation_strategy");
    const char *how = keys_text(k, older ? "evaluation_strategy" : "eval_strategy");
    const double size = keys_number(k, "val_size");
    const double n = keys_given(k, "eval_steps") ? keys_number(k, "eval_steps")
                                                 : keys_number(k, "logging_steps");
    const bool held = size > 0 || keys_given(k, "eval_dataset");
    const char *word = strategy(f, older ? "evaluation_strategy" : "eval_strategy", how, n);
    if (held)
        option(f, arena_printf(a, "--eval-every %s", word));
    if (size > 0 && size < 1)
        f->held = arena_printf(a, " --val-fraction %.15g", size);
    if (size >= 1) { /* so many records: the script counts them */
        f->held = " --val-fraction \"$fraction\"";
        f->records = (int64_t)fmin(size, 1e15);
    }
    keys_here(k, "val_size",
              size >= 1 ? "./train --val-fraction %.15g / records" : "./train --val-fraction %.15g",
              size);
    if (size < 0 || (size > 0.5 && size < 1))
        keys_wrong(k, "val_size", "%g of the data: up to a half is held out", size);
    keys_here(k, "eval_strategy", held ? "./train --eval-every %s" : "nothing is held out", word);
    if (older)
        keys_here(k, "evaluation_strategy",
                  held ? "./train --eval-every %s" : "nothing is held out", word);
    if (keys_given(k, "eval_steps"))
        keys_here(k, "eval_steps", held ? "./train --eval-every %s" : "nothing is held out", word);
    if (keys_given(k, "do_eval"))
        keys_here(k, "do_eval", "./train --val, --val-fraction");
    best(f);
}

static void start(Factory *f)
{
    Keys *k = &f->k;
    Arena *a = f->s->arena;
    const char *out = keys_text(k, "output_dir"), *from = keys_text(k, "resume_from_checkpoint");
    option(f, arena_printf(a, "--seed %lld", (long long)keys_whole(k, "seed")));
    keys_here(k, "seed", "./train --seed %lld; other random numbers than torch's",
              (long long)keys_whole(k, "seed"));
    if (keys_given(k, "data_seed"))
        keys_here(k, "data_seed", "./train --seed: one seed is for all");
    option(f, arena_printf(a, "--out %s", out ? factory_quoted(f, out) : "\"$here\"/run"));
    if (keys_given(k, "output_dir"))
        keys_here(k, "output_dir", "./train --out %s", out);
    if (keys_given(k, "do_train"))
        keys_here(k, "do_train", "./train");
    keys_here(k, "overwrite_output_dir", "a run without --resume begins anew");
    const bool yes = from && (!strcmp(from, "true") || !strcmp(from, "True"));
    const bool no = from && (!strcmp(from, "false") || !strcmp(from, "False"));
    if (from && !no)
        option(f, yes ? "--resume" : arena_printf(a, "--resume=%s", factory_quoted(f, from)));
    if (keys_given(k, "resume_from_checkpoint"))
        keys_here(k, "resume_from_checkpoint",
                  no ? "a run begins anew"
                     : "./train --resume: a checkpoint of a program's own, not transformers'");
}

void factory_run(Factory *f)
{
    if (keys_given(&f->k, "resize_vocab"))
        keys_idle(&f->k, "resize_vocab", "no tokens are added");
    start(f);
    saving(f);
    evaluation(f);
}
