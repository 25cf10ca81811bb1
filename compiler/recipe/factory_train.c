/* factory_train.c - the numbers of a training: sizes, optimizer, schedule, precision, steps. */
#include "compiler/recipe/factory.h"

#include <math.h>
#include <string.h>

static void sizes(Factory *f)
{
    Keys *k = &f->k;
    Recipe *r = &f->r;
    r->micro = keys_whole(k, "per_device_train_batch_size");
    r->accumulate = keys_whole(k, "gradient_accumulation_steps");
    const long long all = r->micro * r->accumulate * r->ranks;
    keys_here(k, "per_device_train_batch_size",
              "microbatch %lld of the layout; dim batch = %lld, of %lld ranks", (long long)r->micro,
              all, (long long)r->ranks);
    keys_here(k, "gradient_accumulation_steps", "dim batch = %lld", all);
    if (r->micro < 1 || r->accumulate < 1 || r->micro > 1 << 24 || r->accumulate > 1 << 24)
        keys_wrong(k,
                   r->micro < 1 || r->micro > 1 << 24 ? "per_device_train_batch_size"
                                                      : "gradient_accumulation_steps",
                   "a batch of %lld * %lld sequences", (long long)r->micro,
                   (long long)r->accumulate);
    else if (f->marked) {
        r->micro *= r->accumulate;
        r->accumulate = 1;
        keys_here(
            k, "gradient_accumulation_steps",
            "dim batch = %lld: all rows of a step are computed at once, since the loss compares "
            "them (there those of a microbatch are compared)",
            all);
    }
    const int64_t seq = keys_whole(k, "cutoff_len");
    keys_here(k, "cutoff_len", "dim seq = %lld; mgc tok --max-length", (long long)seq);
    if (seq < 2 || seq > 1 << 28)
        keys_wrong(k, "cutoff_len", "a window of %lld tokens", (long long)seq);
}

/* ---- optimizer ---------------------------------------------------------------------------------
 */

static const struct {
    const char *name, *is, *state;
} optimizers[] = {{"adamw_torch", "adamw", ""},
                  {"adamw_torch_fused", "adamw", ""},
                  {"adamw_hf", "adamw", ""},
                  {"adamw_apex_fused", "adamw", ""},
                  {"adamw_torch_xla", "adamw", ""},
                  {"paged_adamw", "adamw", ""},
                  {"paged_adamw_32bit", "adamw", ""},
                  {"adamw_bnb_8bit", "adamw", "state = dynamic8"},
                  {"adamw_8bit", "adamw", "state = dynamic8"},
                  {"paged_adamw_8bit", "adamw", "state = dynamic8"},
                  {"lion", "lion", ""},
                  {"lion_32bit", "lion", ""},
                  {"paged_lion_32bit", "lion", ""},
                  {"lion_8bit", "lion", "state = dynamic8"},
                  {"paged_lion_8bit", "lion", "state = dynamic8"},
                  {"sgd", "sgd", ""},
                  {"adafactor", "adafactor", ""}};

static void settings(Factory *f, const char *state)
{
    Keys *k = &f->k;
    Recipe *r = &f->r;
    Arena *a = f->s->arena;
    const char *b1 = keys_shown(a, keys_number(k, "adam_beta1")),
               *b2 = keys_shown(a, keys_number(k, "adam_beta2"));
    const char *eps = keys_shown(a, keys_number(k, "adam_epsilon")), *own = "";
    const bool adam = !strcmp(r->optimizer, "adamw"), lion = !strcmp(r->optimizer, "lion");
    if (adam || !strcmp(r->optimizer, "muon"))
        own = arena_printf(a, "betas = (%s, %s), eps = %s", b1, b2, eps);
    else if (lion)
        own = arena_printf(a, "betas = (%s, %s)", b1, b2);
    if (keys_flag(k, "pure_bf16") && !*state)
        state = "state = bf16";
    r->settings = arena_printf(a, "%s%s%s", own, *own && *state ? ", " : "", state);
    keys_here(k, "adam_beta1", "optimizer %s(%s)", r->optimizer, r->settings);
    keys_here(k, "adam_beta2", "optimizer %s(%s)", r->optimizer, r->settings);
    keys_here(k, "adam_epsilon", "optimizer %s(%s)", r->optimizer, r->settings);
}

static void optimizer(Factory *f)
{
    Keys *k = &f->k;
    Recipe *r = &f->r;
    const char *name = keys_text(k, "optim"), *state = "";
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (!strcmp(name, optimizers[i].name)) {
            r->optimizer = optimizers[i].is;
            state = optimizers[i].state;
        }
    const bool known = r->optimizer, muon = keys_flag(k, "use_muon");
    if (keys_flag(k, "adafactor"))
        r->optimizer = "adafactor";
    if (muon)
        r->optimizer = "muon";
    if (!r->optimizer)
        r->optimizer = "adamw";
    settings(f, state);
    keys_here(k, "optim", "optimizer %s(%s)", r->optimizer, r->settings);
    keys_here(k, "adafactor", "optimizer %s(%s)", r->optimizer, r->settings);
    keys_here(k, "use_muon", "optimizer %s(%s)", r->optimizer, r->settings);
    if (!known && !muon && !keys_flag(k, "adafactor"))
        keys_missing(k, "optim",
                     "the optimizer '%s'; a rule of one's own can be declared in the model's file",
                     name);
    r->decay = keys_number(k, "weight_decay");
    r->all_decay = false; /* biases and norms do not, as in transformers */
    r->rate = keys_number(k, "learning_rate");
    r->clip = keys_number(k, "max_grad_norm");
    keys_here(k, "weight_decay", "optimizer %s(decay = %s)", r->optimizer,
              keys_shown(f->s->arena, r->decay));
    keys_here(k, "learning_rate", "lr: peak = %s", keys_shown(f->s->arena, r->rate));
    keys_here(k, "max_grad_norm", r->clip > 0 ? "clip %.15g" : "no clip", r->clip);
}

/* ---- schedule ----------------------------------------------------------------------------------
 */

#define MORE "lr_scheduler_kwargs."

static double least(const Factory *f)
{
    const Keys *k = &f->k;
    return keys_given(k, MORE "min_lr") ? keys_number(k, MORE "min_lr")
                                        : f->r.rate * keys_number(k, MORE "min_lr_rate");
}

static void stable(Factory *f)
{
    Keys *k = &f->k;
    const char *shape = keys_text(k, MORE "decay_type");
    const int64_t last = keys_whole(k, MORE "num_decay_steps");
    f->r.schedule = "wsd";
    f->r.more =
        arena_printf(f->s->arena, ", last = %lld, floor = %s, shape = %s", (long long)last,
                     keys_shown(f->s->arena, f->r.rate * keys_number(k, MORE "min_lr_ratio")),
                     !strcmp(shape, "1-sqrt") ? "sqrt" : shape);
    if (last < 1)
        keys_wrong(k, "lr_scheduler_type",
                   "warmup_stable_decay needs lr_scheduler_kwargs: num_decay_steps");
    if (strcmp(shape, "cosine") != 0 && strcmp(shape, "linear") != 0 &&
        strcmp(shape, "1-sqrt") != 0)
        keys_missing(k, MORE "decay_type", "of the shapes linear, cosine and 1-sqrt are here");
}

static void shape(Factory *f)
{
    Keys *k = &f->k;
    Recipe *r = &f->r;
    Arena *a = f->s->arena;
    const char *name = keys_text(k, "lr_scheduler_type");
    const double cycles = keys_given(k, MORE "num_cycles") ? keys_number(k, MORE "num_cycles") : -1;
    r->schedule = "linear";
    if (!strcmp(name, "linear"))
        return;
    if (!strcmp(name, "cosine") || !strcmp(name, "cosine_with_restarts") ||
        !strcmp(name, "cosine_with_min_lr")) {
        const double whole = strcmp(name, "cosine_with_restarts") ? 0.5 : 1;
        r->schedule = "cosine";
        if (!strcmp(name, "cosine_with_min_lr"))
            r->more = arena_printf(a, ", floor = %s", keys_shown(a, least(f)));
        if (cycles >= 0 && cycles != whole)
            keys_missing(k, MORE "num_cycles", "one descent is here (num_cycles: %g)", whole);
    } else if (!strcmp(name, "constant") || !strcmp(name, "constant_with_warmup"))
        r->schedule = "constant";
    else if (!strcmp(name, "inverse_sqrt"))
        r->schedule = "inverse_sqrt";
    else if (!strcmp(name, "warmup_stable_decay"))
        stable(f);
    else if (!strcmp(name, "polynomial") && keys_number(k, MORE "power") == 1)
        r->more = arena_printf(a, ", floor = %s", keys_shown(a, keys_number(k, MORE "lr_end")));
    else
        keys_missing(k, "lr_scheduler_type",
                     "of transformers' schedules linear, cosine, cosine_with_min_lr, constant, "
                     "constant_with_warmup, inverse_sqrt, polynomial of power 1 and "
                     "warmup_stable_decay are here");
}

static void schedule(Factory *f)
{
    static const char *const more[] = {
        "min_lr",       "min_lr_rate", "num_cycles", "num_decay_steps", "num_stable_steps",
        "min_lr_ratio", "decay_type",  "power",      "lr_end"};
    Keys *k = &f->k;
    Recipe *r = &f->r;
    const double given = keys_number(k, "warmup_steps");
    const bool constant = !strcmp(keys_text(k, "lr_scheduler_type"), "constant");
    f->ratio = given > 0 && given < 1 ? given : given > 0 ? 0 : keys_number(k, "warmup_ratio");
    r->warmup = given >= 1 ? (int64_t)given : 0;
    if (constant) /* transformers' has no warm-up */
        f->ratio = (double)(r->warmup = 0);
    if (f->ratio > 0 && r->steps)
        r->warmup = (int64_t)ceil((double)r->steps * f->ratio);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const char *name = arena_printf(f->s->arena, MORE "%s", more[i]);
        if (keys_given(k, name))
            keys_here(k, name, "lr, below");
    }
    if (k->said && keys_value(k, "lr_scheduler_kwargs") &&
        !keys_value(k, "lr_scheduler_kwargs")->items.n)
        keys_idle(k, "lr_scheduler_kwargs", "it is empty");
    const char *type = "lr %s(peak, warmup, steps%s)";
    r->more = "";
    keys_here(k, "lr_scheduler_type", "%s", "");
    shape(f);
    if (!k->failed)
        keys_here(k, "lr_scheduler_type", type, r->schedule, r->more);
    const char *counts = "a warm-up of %lld steps; the first one has the rate peak / warmup, where "
                         "transformers' has 0";
    if (f->ratio > 0 && !r->steps)
        keys_here(k, keys_number(k, "warmup_ratio") > 0 ? "warmup_ratio" : "warmup_steps",
                  "-D warmup=, %g of the steps, which the script counts; the first one has the "
                  "rate peak / warmup, where "
                  "transformers' has 0",
                  f->ratio);
    if (keys_given(k, "warmup_ratio") && !(f->ratio > 0 && !r->steps))
        keys_here(k, "warmup_ratio", counts, (long long)r->warmup);
    if (keys_given(k, "warmup_steps") && !(f->ratio > 0 && !r->steps))
        keys_here(k, "warmup_steps", counts, (long long)r->warmup);
    else if (keys_given(k, "warmup_steps") && keys_given(k, "warmup_ratio"))
        keys_idle(k, "warmup_steps", "warmup_ratio says it");
}

static void steps(Factory *f)
{
    Keys *k = &f->k;
    const int64_t n = keys_whole(k, "max_steps");
    const double epochs = keys_number(k, "num_train_epochs");
    f->r.steps = n > 0 ? n : 0;
    f->epochs = n > 0 ? 0 : epochs;
    if (n > 0) {
        keys_here(k, "max_steps", "./train --steps %lld", (long long)n);
        keys_idle(k, "num_train_epochs", "max_steps says it");
        return;
    }
    keys_idle(k, "max_steps", "num_train_epochs says it");
    keys_here(
        k, "num_train_epochs",
        "./train --steps: the script counts the windows, and takes %g times as many sequences",
        epochs);
    if (!(epochs > 0) || epochs > 1e6)
        keys_wrong(k, "num_train_epochs", "%g epochs", epochs);
}

/* ---- precision ---------------------------------------------------------------------------------
 */

static void precision(Factory *f)
{
    Keys *k = &f->k;
    Recipe *r = &f->r;
    const bool pure = keys_flag(k, "pure_bf16"), f16 = keys_flag(k, "fp16"),
               bf16 = keys_flag(k, "bf16");
    const bool tf32 = keys_flag(k, "tf32"), fp8 = keys_flag(k, "fp8");
    r->precision = fp8    ? "fp8"
                   : pure ? "bf16(master = bf16, reduce = bf16)"
                   : bf16 ? "bf16"
                   : f16  ? "f16(scale = 65536, least = 1, window = 2000, hysteresis = 1)"
                   : tf32 ? "tf32"
                          : "f32";
    if (f16 && (bf16 || pure))
        keys_wrong(k, "fp16", "fp16 and bf16 are both said");
    keys_here(k, "bf16", "precision %s", r->precision);
    keys_here(k, "fp16", "precision %s", r->precision);
    keys_here(k, "pure_bf16",
              pure ? "precision %s; numbers that are kept are rounded at random, where torch "
                     "rounds to the nearest"
                   : "precision %s",
              r->precision);
    keys_here(k, "fp8", "precision %s", r->precision);
    if (keys_given(k, "tf32"))
        keys_here(k, "tf32", "precision %s", r->precision);
    if (keys_flag(k, "disable_gradient_checkpointing"))
        r->recompute = "none";
    keys_here(k, "disable_gradient_checkpointing",
              "recompute %s: what layers keep, all of it the same bits", r->recompute);
}

void factory_numbers(Factory *f)
{
    sizes(f);
    steps(f);
    precision(f);
    optimizer(f);
    schedule(f);
}
