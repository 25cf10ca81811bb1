/* factory_method.c - stage and finetuning_type: what is trained, and by which loss. */
#include "compiler/recipe/factory.h"
#include "ir/external.h"

#include <string.h>

/* ---- stages ---------------------------------------------------------------------------------- */

static void stage(Factory *f)
{
    Keys *k = &f->k;
    const char *name = keys_text(k, "stage");
    f->pretrain = !strcmp(name, "pt");
    if (factory_preference(f, name))
        return;
    if (f->pretrain)
        keys_here(k, "stage", "the loss of every next token, of texts by mgc tok");
    else if (!strcmp(name, "sft"))
        keys_here(k, "stage",
                  "the loss of the tokens of answers, by the weights that mgc tok writes");
    else if (!strcmp(name, "ppo"))
        keys_missing(k, "stage", "proximal policy optimization (PPO)");
    else
        keys_wrong(k, "stage", "'%s' is no stage: pt, sft, rm, dpo, kto or ppo", name);
}

/* ---- what is trained ------------------------------------------------------------------------- */

/* A base in fewer bits, which is the adapter's setting. */
static void quantized(Factory *f)
{
    Keys *k = &f->k;
    const int64_t bits = keys_whole(k, "quantization_bit");
    const char *method = keys_text(k, "quantization_method"),
               *type = keys_text(k, "quantization_type");
    const bool asked = keys_given(k, "quantization_bit"), four = asked && bits == 4;
    f->base = "";
    if (!asked)
        keys_idle(k, "quantization_bit", "the base has its own type");
    else if (bits != 4 && bits != 8)
        keys_missing(k, "quantization_bit", "a base of %lld bits: 4 and 8 are built",
                     (long long)bits);
    else if (!f->lora)
        keys_wrong(k, "quantization_bit", "%s",
                   f->merges ? "a merge is into the weights as they are: leave it out"
                             : "a base in fewer bits is frozen: finetuning_type lora");
    else {
        f->base = four ? ", base = nf4" : ", base = int8";
        keys_here(k, "quantization_bit",
                  four ? "adapter: base = nf4"
                       : "adapter: base = int8; products round no inputs (docs/training.md)");
    }
    if (asked && strcmp(method, "bnb") != 0 && strcmp(method, "bitsandbytes") != 0)
        keys_missing(k, "quantization_method", "weights as '%s' has them: those of bnb are here",
                     method);
    else if (keys_given(k, "quantization_method"))
        keys_here(k, "quantization_method", asked ? "numbers as bitsandbytes has them" : "no bits");
    if (four && strcmp(type, "nf4") != 0)
        keys_missing(k, "quantization_type", "numbers as '%s' has them: nf4 is here", type);
    else if (keys_given(k, "quantization_type"))
        keys_idle(k, "quantization_type", four ? "it is so here" : "for quantization_bit 4");
    if (four && !keys_flag(k, "double_quantization"))
        keys_missing(k, "double_quantization", "absmax in f32: here they are quantised in turn");
    else if (keys_given(k, "double_quantization"))
        keys_idle(k, "double_quantization", four ? "it is so here" : "for quantization_bit 4");
}

/* Adapters that are there: one goes on, others go into the base first. */
static void begun(Factory *f)
{
    Keys *k = &f->k;
    Arena *a = f->s->arena;
    const Words w = keys_list(k, "adapter_name_or_path");
    const bool anew = keys_flag(k, "create_new_adapter");
    if (keys_given(k, "create_new_adapter"))
        keys_here(k, "create_new_adapter",
                  anew ? "adapters before go into the base: mgc merge" : "./train --adapter");
    if (!w.n) {
        if (k->said && !keys_given(k, "adapter_name_or_path"))
            keys_idle(k, "adapter_name_or_path", "a new adapter");
        return;
    }
    if (!f->lora && !f->merges) {
        keys_wrong(k, "adapter_name_or_path",
                   "an adapter where none is trained (finetuning_type is not lora)");
        return;
    }
    const size_t merged = anew || f->merges ? w.n : w.n - 1;
    const char *words = "";
    for (size_t i = 0; i < merged; i++)
        words = arena_printf(a, "%s %s", words, factory_quoted(f, w.data[i]));
    const char *to = f->merges ? factory_quoted(f, keys_text(k, "export_dir")) : "\"$here\"/base";
    if (merged) {
        f->before = arena_printf(a, "\"$mgc\" merge%s --base %s -o %s\n", words,
                                 factory_quoted(f, f->model), to);
        f->init = to;
    }
    if (merged < w.n)
        f->options =
            arena_printf(a, "%s --adapter %s", f->options, factory_quoted(f, w.data[w.n - 1]));
    keys_here(k, "adapter_name_or_path", "%s%s%s", merged ? "mgc merge" : "",
              merged && merged < w.n ? ", then " : "", merged < w.n ? "./train --adapter" : "");
}

static void say_lora(Factory *f)
{
    static const char *const keys[] = {"lora_rank",  "lora_alpha", "lora_dropout",
                                       "use_rslora", "use_dora",   "loraplus_lr_ratio"};
    static const char *const names[] = {"rank",      "alpha", "dropout", "rank_stabilized",
                                        "dora(...)", "ratio"};
    Keys *k = &f->k;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (f->lora)
            keys_here(k, keys[i], "adapter: %s", names[i]);
        else if (keys_given(k, keys[i]))
            keys_idle(k, keys[i], "no adapter is trained");
    if (keys_given(k, "loraplus_lr_embedding"))
        keys_idle(k, "loraplus_lr_embedding", "no adapter on a table");
    if (keys_given(k, "lora_target") && !f->lora)
        keys_idle(k, "lora_target", "no adapter is trained");
    if (!keys_given(k, "additional_target") || !f->lora)
        keys_idle(k, "additional_target", "nothing beside the adapter");
}

static void say_freeze(Factory *f)
{
    static const char *const keys[] = {"freeze_trainable_layers", "freeze_trainable_modules",
                                       "freeze_extra_modules"};
    for (size_t i = 0; i < 3; i++)
        if (f->freeze)
            keys_here(&f->k, keys[i], "frozen where ...");
        else if (keys_given(&f->k, keys[i]))
            keys_idle(&f->k, keys[i], "finetuning_type is not freeze");
}

void factory_method(Factory *f)
{
    Keys *k = &f->k;
    const char *type = keys_text(k, "finetuning_type");
    f->merges = keys_given(k, "export_dir");
    f->lora = !strcmp(type, "lora") && !f->merges;
    f->freeze = !strcmp(type, "freeze") && !f->merges;
    if (f->merges)
        keys_here(k, "export_dir", "mgc merge -o %s", keys_text(k, "export_dir"));
    stage(f);
    if (f->merges && keys_given(k, "adapter_name_or_path"))
        keys_here(k, "finetuning_type", "mgc merge");
    else if (f->merges)
        keys_wrong(k, "export_dir",
                   "an export without adapter_name_or_path: there is nothing to merge");
    else if (f->lora)
        keys_here(k, "finetuning_type", "adapter lora(...) of the train block");
    else if (f->freeze)
        keys_here(k, "finetuning_type", "frozen where ... of the train block");
    else if (!strcmp(type, "full"))
        keys_here(k, "finetuning_type", "all parameters are trained");
    else if (!strcmp(type, "oft"))
        keys_missing(k, "finetuning_type", "orthogonal matrices (OFT)");
    else
        keys_wrong(k, "finetuning_type", "'%s' is no type: lora, full, freeze or oft", type);
    quantized(f);
    say_lora(f);
    say_freeze(f);
    begun(f);
    const bool scratch = keys_flag(k, "train_from_scratch");
    keys_here(k, "train_from_scratch", scratch ? "./train without --init" : "./train --init");
    if (scratch)
        f->init = NULL;
}

/* ---- once the model is known ----------------------------------------------------------------- */

/* additional_target: parameters of modules whose names end so, as PEFT finds them. */
static void whole_modules(Factory *f)
{
    const Words names = keys_list(&f->k, "additional_target");
    const Module *m = f->made.module;
    for (size_t i = 0; i < names.n; i++) {
        const char *on = "";
        for (size_t k = 0; k < m->tensors.n; k++) {
            const Tensor *t = &m->tensors.data[k];
            const char *name = t->external ? name_str(f->s->names, t->external) : "";
            const char *dot = strrchr(name, '.');
            const size_t n = dot ? (size_t)(dot - name) : 0, end = strlen(names.data[i]);
            if (!t->slot && n >= end && !strncmp(dot - end, names.data[i], end) &&
                !strstr(on, name))
                on = arena_printf(f->s->arena, "%s%s\"%s\"", on, *on ? ", " : "", name);
            if (*on && t->external_rank < 2 && f->r.decay > 0 && strstr(on, name))
                f->r.lines =
                    arena_printf(f->s->arena, "%sdecay 0 where \"%s\"\n", f->r.lines, name);
        }
        if (!*on)
            keys_wrong(&f->k, "additional_target", "'%s' names no module of the model",
                       names.data[i]);
        else
            f->r.lines = arena_printf(f->s->arena, "%sadapter whole() on %s\n", f->r.lines, on);
    }
    if (names.n && !f->k.failed)
        keys_here(&f->k, "additional_target", "adapter whole() on their parameters");
}

static void adapter(Factory *f)
{
    Keys *k = &f->k;
    Arena *a = f->s->arena;
    const int64_t rank = keys_whole(k, "lora_rank");
    const double alpha =
        keys_given(k, "lora_alpha") ? keys_number(k, "lora_alpha") : 2 * (double)rank;
    const Words given = keys_list(k, "lora_target");
    const bool all = given.n == 1 && !strcmp(given.data[0], "all");
    const Words modules = all ? recipe_modules(f->s, f->made.module) : given;
    const char *on = "", *more = "";
    for (size_t i = 0; i < modules.n; i++)
        on = arena_printf(a, "%s%s\"*.%s.weight\"", on, i ? ", " : "", modules.data[i]);
    if (keys_number(k, "lora_dropout") > 0)
        more = arena_printf(a, ", dropout = %s", keys_shown(a, keys_number(k, "lora_dropout")));
    if (keys_flag(k, "use_rslora"))
        more = arena_printf(a, "%s, rank_stabilized = 1", more);
    if (keys_given(k, "loraplus_lr_ratio"))
        more = arena_printf(a, "%s, ratio = %s", more,
                            keys_shown(a, keys_number(k, "loraplus_lr_ratio")));
    keys_here(k, "lora_target", "on %s", on);
    f->r.lines = arena_printf(a, "%sadapter %s(rank = %lld, alpha = %s%s%s) on %s\n", f->r.lines,
                              keys_flag(k, "use_dora") ? "dora" : "lora", (long long)rank,
                              keys_shown(a, alpha), more, f->base, on);
    if (*f->made.fresh)
        f->r.lines = arena_printf(a, "%sadapter whole() on %s\n", f->r.lines, f->made.fresh);
    f->r.all_decay = true;
    for (size_t i = 0; keys_given(k, "loraplus_lr_ratio") && i < modules.n; i++)
        if (strstr(modules.data[i], "emb") || strstr(modules.data[i], "wte"))
            keys_missing(k, "loraplus_lr_embedding",
                         "a rate of its own for the table '%s': write rate ... where "
                         "\"*.lora_embedding_B\" into the train block",
                         modules.data[i]);
    whole_modules(f);
}

/* The name with the layers from `first` to `last` in place of its index. */
static const char *of_layers(const Factory *f, const char *name, int64_t first, int64_t last)
{
    const char *hole = strstr(name, "{}");
    return arena_printf(f->s->arena, "%.*s{%lld-%lld}%s", (int)(hole - name), name,
                        (long long)first, (long long)last, hole + 2);
}

static bool chosen(const Words *modules, const char *name)
{
    for (size_t i = 0; i < modules->n; i++) {
        const char *at = strstr(name, modules->data[i]);
        if (!strcmp(modules->data[i], "all") || at)
            return true;
    }
    return false;
}

/* LLaMA-Factory's freeze: of the last (or first) layers some modules, and what else is named. */
static void freeze(Factory *f)
{
    Keys *k = &f->k;
    const Module *m = f->made.module;
    const Words modules = keys_list(k, "freeze_trainable_modules"),
                extra = keys_list(k, "freeze_extra_modules");
    const int64_t n = keys_whole(k, "freeze_trainable_layers");
    const char *lines = "";
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        const char *name = t->external ? name_str(f->s->names, t->external) : "";
        if (t->slot || !*name)
            continue;
        const int64_t layers = t->stacked ? t->valid[0] : 0;
        const bool part = n > 0 ? n < layers : -n < layers;
        const bool in =
            t->stacked == 0 ? chosen(&extra, name) : chosen(&modules, name) || chosen(&extra, name);
        if (t->stacked && part && in)
            f->kept = n > 0 ? layers - n : -n;
        if (!in)
            lines = arena_printf(f->s->arena, "%sfrozen where \"%s\"\n", lines, name);
        else if (t->stacked && part)
            lines = arena_printf(f->s->arena, "%sfrozen where \"%s\"\n", lines,
                                 n > 0 ? of_layers(f, name, 0, layers - n - 1)
                                       : of_layers(f, name, -n, layers - 1));
    }
    if (n == 0)
        keys_wrong(k, "freeze_trainable_layers",
                   "no layers: a number above 0 (the last ones) or below (the first ones)");
    f->r.lines = arena_printf(f->s->arena, "%s%s", f->r.lines, lines);
}

/* Selectors, as `"a", "b"`, as options of a command. */
static const char *each_word(Arena *a, const char *option, const char *selectors)
{
    const char *all = "";
    for (const char *at = strchr(selectors, '"'); at; at = strchr(at, '"')) {
        const size_t n = strcspn(at + 1, "\"");
        all = arena_printf(a, "%s%s'%.*s'", all, option, (int)n, at + 1);
        at += n + 2;
    }
    return all;
}

void factory_trained(Factory *f)
{
    if (f->merges || f->k.failed)
        return;
    if (import_hf(f->s, f->model, f->packed, f->objective, &f->made)) {
        f->k.failed = true;
        return;
    }
    if (f->init && *f->made.fresh)
        f->init = arena_printf(f->s->arena, "%s%s%s", f->init,
                               each_word(f->s->arena, " --new ", f->made.fresh),
                               each_word(f->s->arena, " --without ", f->made.extra));
    if (f->lora)
        adapter(f);
    if (f->freeze)
        freeze(f);
}
