/* deepspeed.c - DeepSpeed's config as a layout, a train block and a command.
 *
 * With a trainer's file beside it (LLaMA-Factory's), "auto" is what that says, and another number
 * than there is an error, as in transformers. Alone, "auto" is what transformers' trainer has where
 * nothing is said. */
#include "compiler/recipe/recipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ZERO "zero_optimization."

static const Key table[] = {
#define KEY(name, type, kind, standard, why) {name, KEY_##type, KEY_##kind, standard, why},
#include "compiler/recipe/ds_keys.def"
#undef KEY
};

typedef struct Ds {
    Recipe *r;
    Keys *k;
    bool trainer;
} Ds;

/* ---- numbers that the trainer may have, too -------------------------------------------------- */

/* The number of a key, which has to be `theirs` if a trainer says that. */
static double agreed(const Ds *d, const char *key, double theirs)
{
    if (!d->trainer && !keys_given(d->k, key) && !keys_automatic(d->k, key))
        return keys_text(d->k, key) ? keys_number(d->k, key) : theirs;
    if (!keys_given(d->k, key))
        return theirs;
    const double v = keys_number(d->k, key);
    if (d->trainer && v != theirs)
        keys_wrong(d->k, key, "'%s' is %.15g here and %.15g by the training arguments", key, v,
                   theirs);
    return v;
}

static void say_batch(const Ds *d)
{
    const Recipe *r = d->r;
    keys_here(d->k, "train_micro_batch_size_per_gpu", "microbatch %lld of the layout",
              (long long)r->micro);
    keys_here(d->k, "gradient_accumulation_steps",
              "batch / (microbatch * ranks): %lld microbatches are added up",
              (long long)r->accumulate);
    keys_here(d->k, "train_batch_size", "-D batch=%lld",
              (long long)(r->micro * r->accumulate * r->ranks));
}

/* The three sizes: what is given has to agree, what is not follows. */
static void batch(const Ds *d)
{
    Recipe *r = d->r;
    Keys *k = d->k;
    const bool all = keys_given(k, "train_batch_size");
    const bool micro = keys_given(k, "train_micro_batch_size_per_gpu");
    const bool steps = keys_given(k, "gradient_accumulation_steps");
    const int64_t whole = keys_whole(k, "train_batch_size");
    r->micro = (int64_t)agreed(d, "train_micro_batch_size_per_gpu", (double)r->micro);
    r->accumulate = (int64_t)agreed(d, "gradient_accumulation_steps", (double)r->accumulate);
    if (all && !d->trainer && !micro && r->accumulate > 0)
        r->micro = whole / (r->accumulate * r->ranks);
    else if (all && !d->trainer && !steps && r->micro > 0)
        r->accumulate = whole / (r->micro * r->ranks);
    say_batch(d);
    const int64_t product = r->micro * r->accumulate * r->ranks;
    const char *first = all     ? "train_batch_size"
                        : micro ? "train_micro_batch_size_per_gpu"
                                : "gradient_accumulation_steps";
    if (r->micro < 1 || r->accumulate < 1 || (all && whole < 1))
        keys_wrong(k, first,
                   "a batch of no whole sequences: %lld a microbatch, %lld microbatches, "
                   "%lld ranks, %lld in all",
                   (long long)r->micro, (long long)r->accumulate, (long long)r->ranks,
                   (long long)(all ? whole : product));
    else if (all && whole != product)
        keys_wrong(k, first,
                   "train_batch_size is %lld, and %lld a microbatch * %lld microbatches * %lld "
                   "ranks is %lld (--ranks says how many ranks there are)",
                   (long long)whole, (long long)r->micro, (long long)r->accumulate,
                   (long long)r->ranks, (long long)product);
}

/* ---- ZeRO --------------------------------------------------------------------------------------
 */

/* A level for what a key sends to "cpu" or "nvme"; NULL: it stays. */
static const char *level(const Ds *d, const char *key, const char *what)
{
    const char *to = keys_text(d->k, key);
    const Recipe *r = d->r;
    if (!to || !strcmp(to, "none")) {
        keys_idle(d->k, key, "nothing is moved");
        return NULL;
    }
    const bool cpu = !strcmp(to, "cpu");
    if (!cpu && strcmp(to, "nvme") != 0) {
        keys_wrong(d->k, key, "'%s' is none, cpu or nvme", key);
        return NULL;
    }
    if (cpu && !r->gpu) {
        keys_idle(d->k, key, "on '%s' all memory is the host's", r->device);
        return NULL;
    }
    const Level below = cpu ? LEVEL_host : LEVEL_disk;
    if (!r->about.level[below].memory) {
        keys_wrong(d->k, key,
                   "the device '%s' has no %s in its description: choose another by "
                   "--device, or mgc calibrate -o FILE.json",
                   r->device, cpu ? "host" : "disk");
        return NULL;
    }
    keys_here(d->k, key, "offload %s -> %s", what, cpu ? "host" : "disk");
    return cpu ? "host" : "disk";
}

static void offloads(const Ds *d)
{
    Recipe *r = d->r;
    Keys *k = d->k;
    const char *state = level(d, ZERO "offload_optimizer.device", "state, masters");
    const char *parameters = level(d, ZERO "offload_param.device", "parameters");
    const bool old = keys_flag(k, ZERO "cpu_offload"),
               older = keys_flag(k, ZERO "cpu_offload_params");
    r->state = state ? state : old && r->gpu ? "host" : NULL;
    r->parameters = parameters ? parameters : older && r->gpu ? "host" : NULL;
    keys_here(k, ZERO "cpu_offload", "%s",
              r->state ? "offload state, masters -> host" : "nothing is moved");
    keys_here(k, ZERO "cpu_offload_params", "%s",
              r->parameters ? "offload parameters -> host" : "nothing is moved");
    keys_here(k, ZERO "offload_optimizer.nvme_path", "./train --offload-dir DIR");
    keys_here(k, ZERO "offload_param.nvme_path", "./train --offload-dir DIR");
    if (r->parameters && r->stage != 3)
        keys_wrong(k, ZERO "offload_param.device", "offload_param needs stage 3, and stage is %d",
                   r->stage);
}

/* hpZ: parameters lie over a group of neighbours, all else over all ranks. MiCS: all of it lies
 * over a group, and groups have copies. */
static void groups(const Ds *d)
{
    Recipe *r = d->r;
    static const char *const keys[] = {ZERO "zero_hpz_partition_size", ZERO "mics_shard_size"};
    for (int i = 0; i < 2; i++) {
        const int64_t n = keys_whole(d->k, keys[i]);
        if (n <= 1 || n >= r->ranks) {
            keys_idle(d->k, keys[i], "one group of all %lld ranks", (long long)r->ranks);
            continue;
        }
        if (r->ranks % n || r->stage != 3) {
            keys_wrong(d->k, keys[i],
                       "groups of %lld of %lld ranks, at stage %d: the number has to "
                       "divide that of the ranks, and the stage to be 3",
                       (long long)n, (long long)r->ranks, r->stage);
            continue;
        }
        r->group = n;
        r->copies = i;
        keys_here(d->k, keys[i], "mesh dp = %lld, near = %lld; %s -> near",
                  (long long)(r->ranks / n), (long long)n, i ? "state, grads, params" : "params");
    }
}

static void zero(const Ds *d)
{
    static const char *const rules[] = {"batch -> dp alone", "state -> dp", "state, grads -> dp",
                                        "state, grads, params -> dp"};
    Recipe *r = d->r;
    const int64_t stage = keys_whole(d->k, ZERO "stage");
    if (stage < 0 || stage > 3) {
        keys_wrong(d->k, ZERO "stage", "stage %lld: there are 0, 1, 2 and 3", (long long)stage);
        return;
    }
    r->stage = (int)stage;
    keys_here(d->k, ZERO "stage", "%s", rules[stage]);
    offloads(d);
    groups(d);
}

/* ---- precision ---------------------------------------------------------------------------------
 */

static const char *scaled(const Ds *d)
{
    Keys *k = d->k;
    Arena *a = d->r->s->arena;
    const double fixed = keys_number(k, "fp16.loss_scale");
    const double scale =
        fixed > 0 ? fixed : ldexp(1, (int)fmin(keys_number(k, "fp16.initial_scale_power"), 60));
    const double least = fixed > 0 ? fixed : keys_number(k, "fp16.min_loss_scale");
    const int64_t window = fixed > 0 ? 1000000000 : keys_whole(k, "fp16.loss_scale_window");
    const int64_t hysteresis = keys_whole(k, "fp16.hysteresis");
    return arena_printf(a, "f16(scale = %.15g, least = %.15g, window = %lld, hysteresis = %lld)",
                        scale, least, (long long)window, (long long)hysteresis);
}

static bool enabled(const Ds *d, const char *key, bool trainer)
{
    const bool on = keys_given(d->k, key) ? keys_flag(d->k, key) : d->trainer && trainer;
    if (d->trainer && keys_given(d->k, key) && on != trainer)
        keys_wrong(d->k, key, "'%s' is %s here and %s by the training arguments", key,
                   on ? "true" : "false", trainer ? "true" : "false");
    return on;
}

static void precision(const Ds *d)
{
    static const char *const of_f16[] = {"fp16.loss_scale", "fp16.initial_scale_power",
                                         "fp16.loss_scale_window", "fp16.hysteresis",
                                         "fp16.min_loss_scale"};
    Recipe *r = d->r;
    Keys *k = d->k;
    const char *had = r->precision ? r->precision : "f32";
    const bool f16 = enabled(d, "fp16.enabled", !strncmp(had, "f16", 3));
    const bool bf16 = enabled(d, "bf16.enabled", !strncmp(had, "bf16", 4));
    const char *sums = keys_text(k, "data_types.grad_accum_dtype");
    const bool narrow = bf16 && sums && !strcmp(sums, "bf16");
    r->precision = f16      ? scaled(d)
                   : narrow ? "bf16(reduce = bf16_nearest)"
                   : bf16   ? d->trainer && strchr(had, '(') ? had : "bf16"
                            : "f32";
    keys_here(k, "fp16.enabled", "precision %s", r->precision);
    keys_here(k, "bf16.enabled", "precision %s", r->precision);
    for (size_t i = 0; i < sizeof of_f16 / sizeof *of_f16; i++)
        if (f16)
            keys_here(k, of_f16[i], "precision %s", r->precision);
        else
            keys_idle(k, of_f16[i], "no f16");
    if (!sums || narrow || !strcmp(sums, "fp32"))
        keys_here(k, "data_types.grad_accum_dtype", "precision %s", r->precision);
    else
        keys_missing(k, "data_types.grad_accum_dtype",
                     "sums of gradients are f32, or bf16 with bf16");
}

/* ---- optimizer and schedule
 * ---------------------------------------------------------------------- */

static const char *betas(const Ds *d, const char *fallback)
{
    const Words w = keys_list(d->k, "optimizer.params.betas");
    return w.n == 2 ? arena_printf(d->r->s->arena, "betas = (%s, %s)", w.data[0], w.data[1])
                    : fallback;
}

static void say_optimizer(const Ds *d)
{
    static const char *const names[] = {"type",
                                        "params.betas",
                                        "params.eps",
                                        "params.momentum",
                                        "params.nesterov",
                                        "params.adam_w_mode"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        keys_here(d->k, arena_printf(d->r->s->arena, "optimizer.%s", names[i]), "optimizer %s(%s)",
                  d->r->optimizer, d->r->settings);
    keys_here(d->k, "optimizer.params.lr", "lr: peak = %s", keys_shown(d->r->s->arena, d->r->rate));
    keys_here(d->k, "optimizer.params.weight_decay", "optimizer %s(decay = %s)", d->r->optimizer,
              keys_shown(d->r->s->arena, d->r->decay));
}

static void optimizer(const Ds *d)
{
    Recipe *r = d->r;
    Keys *k = d->k;
    Arena *a = r->s->arena;
    const char *type = keys_text(k, "optimizer.type");
    if (type) {
        r->rate = agreed(d, "optimizer.params.lr", r->rate);
        r->decay = agreed(d, "optimizer.params.weight_decay", r->decay);
    }
    const double eps =
        keys_given(k, "optimizer.params.eps") ? keys_number(k, "optimizer.params.eps") : 1e-8;
    const bool adam = type && (!strcasecmp(type, "Adam") || !strcasecmp(type, "AdamW") ||
                               !strcasecmp(type, "FusedAdam") || !strcasecmp(type, "CPUAdam"));
    if (adam) {
        const bool coupled =
            !strcasecmp(type, "Adam") && !keys_flag(k, "optimizer.params.adam_w_mode");
        const char *trained =
            d->trainer && !keys_given(k, "optimizer.params.betas") ? r->settings : NULL;
        r->optimizer = coupled ? "adam" : "adamw";
        r->settings = trained ? trained
                              : arena_printf(a, "%s, eps = %s", betas(d, "betas = (0.9, 0.999)"),
                                             keys_shown(a, eps));
    } else if (type && !strcasecmp(type, "Lion")) {
        r->optimizer = "lion";
        r->settings = betas(d, "betas = (0.9, 0.99)");
    } else if (type && !strcasecmp(type, "SGD")) {
        r->optimizer = "sgd";
        r->settings = arena_printf(a, "momentum = %s, nesterov = %d",
                                   keys_shown(a, keys_number(k, "optimizer.params.momentum")),
                                   keys_flag(k, "optimizer.params.nesterov"));
    }
    say_optimizer(d);
    if (type && !adam && strcasecmp(type, "Lion") != 0 && strcasecmp(type, "SGD") != 0)
        keys_missing(
            k, "optimizer.type",
            "of DeepSpeed's optimizers Adam, AdamW, Lion and SGD are here; a rule of one's "
            "own can be declared in the model's file");
}

static void say_schedule(const Ds *d)
{
    static const char *const names[] = {"type",
                                        "params.warmup_min_lr",
                                        "params.warmup_max_lr",
                                        "params.warmup_num_steps",
                                        "params.warmup_type",
                                        "params.total_num_steps",
                                        "params.warmup_min_ratio",
                                        "params.cos_min_ratio"};
    const Recipe *r = d->r;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        keys_here(d->k, arena_printf(r->s->arena, "scheduler.%s", names[i]),
                  "lr %s(peak = %s, warmup = %lld%s)", r->schedule,
                  keys_shown(r->s->arena, r->rate), (long long)r->warmup, r->more);
}

static void schedule(const Ds *d)
{
    Recipe *r = d->r;
    Keys *k = d->k;
    Arena *a = r->s->arena;
    const char *type = keys_text(k, "scheduler.type"),
               *shape = keys_text(k, "scheduler.params.warmup_type");
    const int logarithm = !shape || !strcmp(shape, "log");
    if (!type) {
        say_schedule(d);
        return;
    }
    const char *floor = keys_shown(a, keys_number(k, "scheduler.params.warmup_min_lr"));
    const bool cosine = !strcmp(type, "WarmupCosineLR"), decays = !strcmp(type, "WarmupDecayLR");
    if (keys_given(k, "scheduler.params.warmup_num_steps") || !d->trainer)
        r->warmup = keys_whole(k, "scheduler.params.warmup_num_steps");
    if (keys_given(k, "scheduler.params.total_num_steps") && (!d->trainer || r->steps))
        r->steps = (int64_t)agreed(d, "scheduler.params.total_num_steps", (double)r->steps);
    if (!cosine)
        r->rate = agreed(d, "scheduler.params.warmup_max_lr", r->rate);
    r->schedule = cosine ? "warmup_cosine" : decays ? "linear" : "warmup";
    r->more = cosine
                  ? arena_printf(
                        a, ", floor = %s, log = %d",
                        keys_shown(a, r->rate * keys_number(k, "scheduler.params.cos_min_ratio")),
                        logarithm)
              : decays ? ""
                       : arena_printf(a, ", floor = %s, log = %d", floor, logarithm);
    say_schedule(d);
    if (!cosine && !decays && strcmp(type, "WarmupLR") != 0)
        keys_missing(k, "scheduler.type",
                     "of DeepSpeed's schedules WarmupLR, WarmupDecayLR and "
                     "WarmupCosineLR are here");
    if (decays && r->warmup > 1 && logarithm)
        keys_missing(k,
                     keys_given(k, "scheduler.params.warmup_type") ? "scheduler.params.warmup_type"
                                                                   : "scheduler.type",
                     "a warm-up by the logarithm before a linear descent; \"warmup_type\": "
                     "\"linear\" has one");
    if (cosine && keys_number(k, "scheduler.params.warmup_min_ratio") != 0)
        keys_missing(k, "scheduler.params.warmup_min_ratio", "a warm-up that begins above 0");
    if (decays && keys_number(k, "scheduler.params.warmup_min_lr") != 0)
        keys_missing(k, "scheduler.params.warmup_min_lr", "a warm-up that begins above 0");
}

/* ---- all of it ---------------------------------------------------------------------------------
 */

static void maps(Keys *k)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].type == KEY_map && k->said[i].item)
            keys_idle(k, table[i].name, "it is empty");
}

bool deepspeed_read(Recipe *r, Keys *k, const char *path, bool trainer)
{
    *k = (Keys){
        .s = r->s, .path = path, .table = table, .n = sizeof table / sizeof *table, .autos = true};
    const Ds d = {r, k, trainer};
    const Marked *root = marks_read(r->s, path);
    if (!root || !keys_read(k, root, NULL))
        return false;
    maps(k);
    batch(&d);
    zero(&d);
    precision(&d);
    optimizer(&d);
    schedule(&d);
    r->clip = agreed(&d, "gradient_clipping", r->clip);
    keys_here(k, "gradient_clipping", r->clip > 0 ? "clip %.15g" : "no clip", r->clip);
    const int64_t tp = keys_whole(k, "tensor_parallel.autotp_size");
    keys_idle(k, "tensor_parallel.autotp_size", "one rank has all of a layer");
    if (tp > 1)
        keys_missing(k, "tensor_parallel.autotp_size",
                     "add an axis: mesh tp = %lld, and "
                     "kv_heads, ffn, vocab -> tp",
                     (long long)tp);
    if (!k->failed && !keys_complete(k))
        abort();
    return !k->failed;
}

/* ---- mgc import-ds
 * ------------------------------------------------------------------------------- */

static Exit write_layout(Session *s, const Recipe *r)
{
    Output out;
    const char *text = recipe_formatted(s, recipe_layout(r));
    if (!text || !s->o->out) {
        printf("\n%s", text ? text : "");
        return text ? EXIT_done : EXIT_source;
    }
    Exit status = output_replaceable(s, s->o->out);
    if (!status && !(status = output_open(s, &out, s->o->out))) {
        fputs(text, out.file);
        status = output_close(s, &out, true);
    }
    return status;
}

Exit command_import_ds(Session *s, const char *path)
{
    Recipe r;
    Keys k;
    if (!recipe_begin(&r, s))
        return EXIT_usage;
    r.micro = 8; /* transformers' TrainingArguments, where the file says "auto" or nothing */
    r.optimizer = "adamw";
    r.settings = "betas = (0.9, 0.999), eps = 1e-8";
    r.all_decay = true;
    r.schedule = "linear";
    r.rate = 5e-5;
    r.clip = 1;
    const bool good = deepspeed_read(&r, &k, path, false);
    keys_print(&k, stdout);
    if (!good)
        return EXIT_source;
    Exit status = write_layout(s, &r);
    if (!status)
        printf(
            "\n%s\nmgc MODEL.mg%s%s -D batch=%lld -o train\n./train --data FILE.bin --steps %lld\n",
            recipe_formatted(s, recipe_train(&r)), s->o->out ? " --layout ./" : "",
            s->o->out ? s->o->out : "", (long long)(r.micro * r.accumulate * r.ranks),
            (long long)(r.steps ? r.steps : 1000));
    return status;
}
