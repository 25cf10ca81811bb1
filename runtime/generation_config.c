/* generation_config.c - how a model's own file says that its tokens are chosen: defaults beneath
 * the options of the command line, as transformers' GenerationConfig means them.
 *
 * Tokens are drawn where do_sample is true, and then of the 50 likeliest if top_k is not said; else
 * the likeliest is taken, whatever temperature and the like are. A file that says nothing of all
 * this (ids alone, as most have) leaves it to the program. What else changes which tokens come is
 * named, and not done; so is a key that nobody knows. */
#include "runtime/sample.h"
#include "runtime/speech.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/files.h"
#include "runtime/json.h"

#define FILE_NAME "generation_config.json"
enum { LARGEST = 1 << 20, TOP_K = 50 };

typedef enum setting { TEMPERATURE, K, P, MIN_P, PENALTY, SETTINGS } setting;
static const char *const settings[SETTINGS] = {"temperature", "top_k", "top_p", "min_p",
                                               "repetition_penalty"};

/* Keys that change which tokens come, and the number that changes nothing; what is no number
 * changes nothing if it is null or false. */
static const struct {
    const char *key;
    double nothing;
} others[] = {{"num_beams", 1},
              {"num_beam_groups", 1},
              {"diversity_penalty", 0},
              {"penalty_alpha", 0},
              {"typical_p", 1},
              {"top_h", NAN},
              {"epsilon_cutoff", 0},
              {"eta_cutoff", 0},
              {"encoder_repetition_penalty", 1},
              {"no_repeat_ngram_size", 0},
              {"encoder_no_repeat_ngram_size", 0},
              {"bad_words_ids", NAN},
              {"force_words_ids", NAN},
              {"constraints", NAN},
              {"forced_bos_token_id", NAN},
              {"forced_eos_token_id", NAN},
              {"exponential_decay_length_penalty", NAN},
              {"suppress_tokens", NAN},
              {"begin_suppress_tokens", NAN},
              {"sequence_bias", NAN},
              {"token_healing", NAN},
              {"guidance_scale", 1},
              {"watermarking_config", NAN},
              {"dola_layers", NAN},
              {"min_length", 0},
              {"min_new_tokens", 0},
              {"max_time", NAN},
              {"stop_strings", NAN},
              {"num_return_sequences", 1}};

/* Keys that change no token: ids of others, lengths (--sample says them), beams' own, how fast it
 * goes, what else is given back. */
static const char *const same[] = {"bos_token_id",
                                   "pad_token_id",
                                   "decoder_start_token_id",
                                   "max_length",
                                   "max_new_tokens",
                                   "early_stopping",
                                   "length_penalty",
                                   "use_cache",
                                   "cache_implementation",
                                   "cache_config",
                                   "max_cache_len",
                                   "renormalize_logits",
                                   "remove_invalid_values",
                                   "output_attentions",
                                   "output_hidden_states",
                                   "output_scores",
                                   "output_logits",
                                   "return_dict_in_generate",
                                   "is_assistant",
                                   "num_assistant_tokens",
                                   "num_assistant_tokens_schedule",
                                   "assistant_confidence_threshold",
                                   "assistant_early_exit",
                                   "assistant_lookbehind",
                                   "assistant_ensemble_weight",
                                   "target_lookbehind",
                                   "prompt_lookup_num_tokens",
                                   "max_matching_ngram_size",
                                   "speculation_type",
                                   "use_mtp",
                                   "compile_config",
                                   "disable_compile",
                                   "continuous_batching_config",
                                   "low_memory",
                                   "prefill_chunk_size",
                                   "trust_remote_code",
                                   "transformers_version",
                                   "_from_model_config",
                                   "_commit_hash"};

typedef struct config {
    const char *path;
    rt_json j;
    bool said, draws;       /* something of how tokens are chosen; do_sample is true */
    double value[SETTINGS]; /* NAN: not said */
    char *ends;             /* of eos_token_id, as text; owned */
    char *left;             /* keys that are not done; owned */
} config;

static _Noreturn void wrong(const config *c, const char *key, const char *what)
{
    rt_die(RT_BAD_DATA, "%s: %s %s", c->path, key, what);
}

/* ", "-separated */
static void add(char **all, const char *word)
{
    char *more = *all ? rt_printf("%s, %s", *all, word) : rt_printf("%s", word);
    free(*all);
    *all = more;
}

/* ---- values --------------------------------------------------------------------------------- */

/* Does the value that comes next begin so? */
static bool comes(const config *c, const char *with)
{
    const unsigned char *s = c->j.at;
    while (s < c->j.end && strchr(" \t\r\n", *s))
        s++;
    return strchr(with, s < c->j.end ? *s : '?') != NULL;
}

static bool number(const config *c)
{
    return comes(c, "-0123456789");
}

static bool read_draws(config *c)
{
    const bool yes = comes(c, "t");
    if (!yes && !comes(c, "fn"))
        wrong(c, "do_sample", "is no true or false");
    c->draws = yes;
    c->said |= !comes(c, "n");
    return rt_json_skip(&c->j);
}

static bool read_setting(config *c, setting which)
{
    if (comes(c, "n"))
        return rt_json_skip(&c->j);
    double *x = &c->value[which];
    if (!number(c))
        wrong(c, settings[which], "is no number");
    if (!rt_json_number(&c->j, x))
        return false;
    if (*x < 0 || !isfinite(*x) || (which == PENALTY && !(*x > 0 && *x < 1e6)) ||
        (which == P && !(*x > 0)) || ((which == P || which == MIN_P) && *x > 1) ||
        (which == K && (*x > INT32_MAX || *x != floor(*x))))
        wrong(c, settings[which],
              which == K         ? "is no whole number from 0 on"
              : which == P       ? "is no probability, above 0 and at most 1"
              : which == MIN_P   ? "is no probability, from 0 to 1"
              : which == PENALTY ? "is not above 0"
                                 : "is below 0");
    c->said = true;
    return true;
}

static bool read_end(config *c)
{
    int64_t id;
    if (!rt_json_int(&c->j, &id))
        return false;
    char *text = rt_printf("%lld", (long long)id);
    add(&c->ends, text);
    free(text);
    return true;
}

static bool read_ends(config *c)
{
    if (number(c))
        return read_end(c);
    if (!comes(c, "["))
        return rt_json_skip(&c->j);
    rt_json_enter(&c->j, '[');
    while (rt_json_item(&c->j))
        if (!read_end(c))
            return false;
    return !c->j.error;
}

/* A key that changes what comes, unless its value is the one that does not. */
static bool read_other(config *c, const char *key, double nothing)
{
    double x = NAN;
    const bool none = comes(c, "nf");
    if (number(c) ? !rt_json_number(&c->j, &x) : !rt_json_skip(&c->j))
        return false;
    if (!none && !(x >= nothing && x <= nothing))
        add(&c->left, key);
    return true;
}

static bool read_key(config *c)
{
    char key[64];
    snprintf(key, sizeof key, "%s", c->j.text);
    if (!strcmp(key, "do_sample"))
        return read_draws(c);
    if (!strcmp(key, "eos_token_id"))
        return read_ends(c);
    for (int k = 0; k < SETTINGS; k++)
        if (!strcmp(key, settings[k]))
            return read_setting(c, (setting)k);
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (!strcmp(key, others[k].key))
            return read_other(c, key, others[k].nothing);
    for (size_t k = 0; k < sizeof same / sizeof *same; k++)
        if (!strcmp(key, same[k]))
            return rt_json_skip(&c->j);
    return read_other(c, key, NAN);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* NULL: there is none. The caller frees it. */
static char *path_of(const mg_run *r)
{
    struct stat st;
    const char *where = r->options->init;
    if (!where || stat(where, &st))
        return NULL;
    const char *slash = S_ISDIR(st.st_mode) ? NULL : strrchr(where, '/');
    char *path = S_ISDIR(st.st_mode) ? rt_printf("%s/" FILE_NAME, where)
                 : slash             ? rt_printf("%.*s/" FILE_NAME, (int)(slash - where), where)
                                     : rt_printf(FILE_NAME);
    if (access(path, F_OK) == 0)
        return path;
    free(path);
    return NULL;
}

static void read_config(config *c)
{
    size_t n;
    char *text = rt_file_need("", c->path, LARGEST, &n);
    rt_json_begin(&c->j, text, n);
    bool good = rt_json_enter(&c->j, '{');
    while (good && rt_json_key(&c->j))
        good = read_key(c);
    if (!good || c->j.error || !rt_json_end(&c->j))
        rt_die(RT_BAD_DATA, "%s: byte %td: %s", c->path, c->j.at - c->j.begin + 1,
               c->j.error ? c->j.error : "this is no object");
    rt_json_free(&c->j);
    free(text);
}

/* ---- what it means -------------------------------------------------------------------------- */

static bool given(double x)
{
    return !isnan(x);
}

/* Takes a setting, unless an option says it; `unless`: the number that changes nothing. */
static double take(config *c, char **taken, setting which, double option, double unless)
{
    const double x = c->value[which];
    if (given(option) || !given(x))
        return given(option) ? option : unless;
    char *text = rt_printf("%s %s", settings[which], rt_double_text(x).text);
    if (x < unless || x > unless)
        add(taken, text);
    free(text);
    return x;
}

/* The options, and beneath them the file; *taken: what that said. */
static rt_choice settled(config *c, const rt_options *o, char **taken)
{
    const double k = o->top_k == RT_UNSET ? NAN : (double)o->top_k;
    rt_choice all = rt_choice_of(o);
    all.penalty = take(c, taken, PENALTY, o->penalty, 1);
    const bool asked = given(o->temperature) || given(k) || given(o->top_p) || given(o->min_p);
    if (c->said && !c->draws && !asked) {
        all.temperature = 0;
        add(taken, "the likeliest token (do_sample is not true)");
    }
    if (!c->draws)
        return all;
    if (!given(c->value[K])) /* what transformers has then */
        c->value[K] = TOP_K;
    all.temperature = take(c, taken, TEMPERATURE, o->temperature, 1);
    all.top_k = (int64_t)take(c, taken, K, k, 0);
    all.top_p = take(c, taken, P, o->top_p, 1);
    all.min_p = take(c, taken, MIN_P, o->min_p, 0);
    return all;
}

rt_choice rt_choice_of_model(mg_run *r)
{
    const mg_program *p = r->program;
    const bool generates = p->prefill.present && !p->step.present;
    char *path = generates ? path_of(r) : NULL, *taken = NULL;
    if (!path)
        return rt_choice_of(r->options);
    config c = {.path = path, .value = {NAN, NAN, NAN, NAN, NAN}};
    read_config(&c);
    const rt_choice all = settled(&c, r->options, &taken);
    if (c.ends && rt_speech_of(r)) {
        char *ends = rt_printf("texts end at %s", c.ends);
        add(&taken, ends);
        free(ends);
    }
    if (taken)
        rt_note("%s: %s", path, taken);
    if (c.left)
        rt_warn("%s: %s: not built, or not known; texts are generated without", path, c.left);
    free(taken);
    free(c.ends);
    free(c.left);
    free(path);
    return all;
}
