/* options.c - parses the command line by one table (options.def), checks it, and prints --help. */
#include "runtime/checkpoint/followers.h"
#include "runtime/health/health.h"
#include "runtime/preflight/preflight.h"
#include "runtime/run.h"
#include "runtime/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { TEXT, LIST, MAYBE, COUNT, REAL, EVERY, SPAN, FLAG, REFUSED } kind;

typedef struct option {
    kind kind;
    const char *group, *name, *argument, *help;
    size_t field; /* offset in rt_options */
    double least;
} option;

static const option table[] = {
#define AT(field)                                   offsetof(rt_options, field)
#define OPTION_TEXT(field, group, name, arg, help)  {TEXT, group, name, arg, help, AT(field), 0},
#define OPTION_LIST(field, group, name, arg, help)  {LIST, group, name, arg, help, AT(field), 0},
#define OPTION_MAYBE(field, group, name, arg, help) {MAYBE, group, name, arg, help, AT(field), 0},
#define OPTION_COUNT(field, group, name, arg, help, least)                                         \
    {COUNT, group, name, arg, help, AT(field), least},
#define OPTION_REAL(field, group, name, arg, help, least)                                          \
    {REAL, group, name, arg, help, AT(field), least},
#define OPTION_EVERY(field, group, name, arg, help) {EVERY, group, name, arg, help, AT(field), 0},
#define OPTION_SPAN(field, group, name, arg, help)  {SPAN, group, name, arg, help, AT(field), 0},
#define OPTION_FLAG(field, group, name, arg, help)  {FLAG, group, name, arg, help, AT(field), 0},
#define OPTION_REFUSED(name, why)                   {REFUSED, "", name, "", why, 0, 0},
#include "runtime/options.def"
#undef AT
};
enum { OPTIONS = sizeof table / sizeof table[0] };

/* The edit distance of a and b: insertions, deletions, replacements (Levenshtein). */
static int distance(const char *a, size_t na, const char *b)
{
    int row[64];
    size_t nb = strlen(b);
    if (na >= 64 || nb >= 63)
        return 99;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[nb];
}

static _Noreturn void unknown(const char *word, size_t length)
{
    const char *near = NULL;
    int best = 3;
    for (int i = 0; i < OPTIONS; i++) {
        int d = distance(word, length, table[i].name);
        if (length >= 3 && strncmp(table[i].name, word, length) == 0)
            d = 1;
        if (d < best) {
            best = d;
            near = table[i].name;
        }
    }
    if (near)
        rt_die(RT_USAGE, "unknown option --%.*s: did you mean --%s?", (int)length, word, near);
    rt_die(RT_USAGE, "unknown option --%.*s; --help lists them", (int)length, word);
}

static int64_t whole_number(const option *o, const char *text, char stop)
{
    char *end;
    errno = 0;
    int64_t n = strtoll(text, &end, 10);
    bool digits = *text >= '0' && *text <= '9';
    if (errno || end == text || *end != stop || (!digits && *text != '-'))
        rt_die(RT_USAGE, "--%s takes %s, not '%s'", o->name,
               o->kind == SPAN ? "two step numbers, A:B" : "a whole number", text);
    return n;
}

/* "100" is a number of steps, "30m" a time. */
static rt_every every(const option *o, const char *text)
{
    if (text[strspn(text, "0123456789")] == '\0')
        return (rt_every){.steps = whole_number(o, text, 0)};
    const double seconds = rt_duration(text);
    if (!(seconds > 0))
        rt_die(RT_USAGE,
               "--%s takes a number of steps, or a time (90s, 30m, 1h30m, 1:30:00), not '%s'",
               o->name, text);
    return (rt_every){.steps = RT_UNSET, .seconds = seconds};
}

static void set(rt_options *options, const option *o, const char *text)
{
    void *field = (char *)options + o->field;
    switch (o->kind) {
    case TEXT:
    case MAYBE:
        *(const char **)field = text;
        break;
    case LIST: {
        rt_list *l = field;
        l->item = rt_grow(l->item, (size_t)l->n + 1, sizeof *l->item);
        l->item[l->n++] = text;
        break;
    }
    case COUNT: {
        int64_t n = whole_number(o, text, 0);
        if ((double)n < o->least)
            rt_die(RT_USAGE, "--%s is %" PRId64 "; the minimum is %.0f", o->name, n, o->least);
        *(int64_t *)field = n;
        break;
    }
    case REAL: {
        char *end;
        double x = strtod(text, &end);
        if (end == text || *end || !isfinite(x) || x < o->least)
            rt_die(RT_USAGE, "--%s takes a number of at least %g, not '%s'", o->name, o->least,
                   text);
        *(double *)field = x;
        break;
    }
    case EVERY:
        *(rt_every *)field = every(o, text);
        break;
    case SPAN: {
        rt_span s = {true, whole_number(o, text, ':'), 0};
        s.to = whole_number(o, strchr(text, ':') + 1, 0);
        if (s.from < 1 || s.to < s.from)
            rt_die(RT_USAGE, "--%s %s: steps count from 1, and A is not after B", o->name, text);
        *(rt_span *)field = s;
        break;
    }
    case FLAG:
        *(bool *)field = true;
        break;
    case REFUSED:
        rt_die(RT_USAGE, "--%s: %s", o->name, o->help);
    }
}

static void print_help(const mg_program *p)
{
    const char *me = program_invocation_short_name;
    printf("usage: %s --data GLOB [options]\n\n", me);
    printf("  %s --data 'corpus/*.txt' --steps 1000          train\n", me);
    printf("  %s --data 'corpus/*.txt' --resume              continue after an interruption\n", me);
    printf("  %s --resume --sample 500 --prompt 'In the '    generate\n", me);
    const char *group = "";
    for (int i = 0; i < OPTIONS; i++) {
        const option *o = &table[i];
        if (o->kind == REFUSED)
            continue;
        if (strcmp(group, o->group))
            printf("\n%s\n", group = o->group);
        char left[40];
        if (o->kind == MAYBE)
            snprintf(left, sizeof left, "--%s[=%s]", o->name, o->argument);
        else
            snprintf(left, sizeof left, "--%s%s%s", o->name, *o->argument ? " " : "", o->argument);
        printf("  %-21s %s\n", left, o->help);
    }
    printf(
        "\nexit: 0 done, 1 failed, 2 usage, 65 bad data or checkpoint, 69 a rank is gone or "
        "hangs,\n"
        "      71 a GPU or its library failed, 74 input/output, 75 stopped by a signal after "
        "saving,\n"
        "      76 wrong bits (--health), 77 no GPU, 78 not the machine or number of ranks compiled "
        "for\n");
    printf("\n%s from %s, layout %s, %s, fingerprint %016" PRIx64 "\n", p->name, p->source,
           p->layout, p->compiler, p->fingerprint);
}

static void defaults(rt_options *o)
{
    *o = (rt_options){0};
    for (int i = 0; i < OPTIONS; i++) {
        void *field = (char *)o + table[i].field;
        if (table[i].kind == COUNT)
            *(int64_t *)field = RT_UNSET;
        else if (table[i].kind == REAL)
            *(double *)field = NAN;
        else if (table[i].kind == EVERY)
            ((rt_every *)field)->steps = RT_UNSET;
    }
}

/* Parses one argument, with the next one if that is its value; returns how many were taken. */
static int take(rt_options *options, char **argv)
{
    const char *word = argv[0];
    if (strcmp(word, "-h") == 0)
        word = "--help";
    if (strncmp(word, "--", 2) != 0 || !word[2])
        rt_die(RT_USAGE, "unexpected argument '%s'%s", word,
               word[0] == '-'
                   ? "; --help lists the options"
                   : " (quote a pattern, so that the shell leaves it alone: --data 'dir/*.txt')");
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
    const option *o = NULL;
    for (int i = 0; i < OPTIONS; i++)
        if (strlen(table[i].name) == length && strncmp(table[i].name, word + 2, length) == 0)
            o = &table[i];
    if (!o)
        unknown(word + 2, length);
    if (o->kind == REFUSED || o->kind == FLAG) {
        if (o->kind == FLAG && equals)
            rt_die(RT_USAGE, "--%s takes no value", o->name);
        set(options, o, "");
        return 1;
    }
    if (o->kind == MAYBE) {
        if (!equals && argv[1] && argv[1][0] != '-')
            rt_die(RT_USAGE, "--%s takes its value after '=': --%s=%s", o->name, o->name, argv[1]);
        set(options, o, equals ? equals + 1 : "auto");
        return 1;
    }
    const char *value = equals ? equals + 1 : argv[1];
    if (!value)
        rt_die(RT_USAGE, "--%s needs a value: --%s %s", o->name, o->name, o->argument);
    if (!*value && o->field != offsetof(rt_options, prompt))
        rt_die(RT_USAGE, "--%s needs a value that is not empty", o->name);
    set(options, o, value);
    return equals ? 1 : 2;
}

static bool is_part(double x)
{
    return isnan(x) || (x > 0 && x <= 1);
}

/* Rules of the options that are of a tokenizer. */
/* samples: texts are generated; talks: of conversations. */
static void settle_text(const rt_options *o, bool samples, bool talks)
{
    const char *one = o->tokenizer       ? "tokenizer"
                      : o->chat_template ? "chat-template"
                      : o->system        ? "system"
                      : o->batch         ? "batch"
                                         : NULL;
    if (!o->batch != !o->answers)
        rt_die(RT_USAGE, "--batch FILE and --answers FILE go together");
    if (o->batch && (o->chat || o->prompt.n || o->logits || o->prompts || o->data.n))
        rt_die(RT_USAGE, "--batch goes without --%s",
               o->chat       ? "chat"
               : o->prompt.n ? "prompt"
               : o->logits   ? "logits"
               : o->prompts  ? "prompts"
                             : "data");
    if (o->ids && one)
        rt_die(RT_USAGE, "--ids goes without --%s, which is of text", one);
    if ((o->system || o->chat_template) && !talks)
        rt_die(RT_USAGE, "--%s is of conversations: --chat or --batch FILE",
               o->system ? "system" : "chat-template");
    if ((o->ids || o->tokenizer) && !samples)
        rt_die(RT_USAGE, "--%s is of texts: --sample N, --chat, --prompts or --batch FILE",
               o->ids ? "ids" : "tokenizer");
}

static void settle_sample(rt_options *o, const mg_program *p)
{
    const bool chosen = !isnan(o->temperature) || o->top_k != RT_UNSET || !isnan(o->top_p) ||
                        !isnan(o->min_p) || !isnan(o->penalty) || o->stop.n;
    const bool answers = o->chat || o->batch, texts = answers || o->prompts;
    const bool generates = p->prefill.present && !p->step.present, rolls = p->rollout.size;
    if (o->prompts && !o->data.n)
        rt_die(RT_USAGE, "--prompts is for the log of a training run, which needs --data; "
                         "--sample N --prompt TEXT goes on with a text at once");
    if (o->prompts && (o->prompt.n || o->logits || o->chat))
        rt_die(RT_USAGE, "--prompts goes without --%s",
               o->chat       ? "chat"
               : o->prompt.n ? "prompt"
                             : "logits");
    if ((o->prompt.n || o->logits || (chosen && !o->prompts && !rolls)) && o->sample == RT_UNSET &&
        !answers)
        rt_die(RT_USAGE,
               "--prompt, --logits, --stop and what chooses tokens need --sample N or --chat");
    settle_text(o, o->sample != RT_UNSET || texts || rolls, answers || rolls);
    if (o->sample_every != RT_UNSET && !o->prompts)
        rt_die(RT_USAGE, "--sample-every needs --prompts FILE");
    if ((o->sample != RT_UNSET || texts) && !p->sample.present && !p->prefill.present)
        rt_die(RT_USAGE, "--sample: %s was compiled without a sampling program", p->name);
    if (o->chat && (o->prompt.n || o->logits))
        rt_die(RT_USAGE, "--chat reads its prompts from standard input: leave out %s",
               o->prompt.n ? "--prompt" : "--logits");
    if (generates && (o->data.n || o->val.n || o->steps != RT_UNSET))
        rt_die(RT_USAGE, "%s generates, and does not train: compile it without --generate",
               p->name);
    if (generates && o->sample == RT_UNSET && !answers && !o->info && !o->dry_run)
        rt_die(RT_USAGE, "%s generates: --sample N or --chat, or --batch FILE", p->name);
    const int each = rt_texts_each(p), places = rt_texts_most(p) / each;
    if (o->prompt.n > places)
        rt_die(RT_USAGE, "%d times --prompt: %s goes on %d text%s at once%s", o->prompt.n, p->name,
               places, places > 1 ? "s" : "",
               each > 1 ? ", each several times (mgc --generate --sequences N --choices N)"
               : p->prefill.present ? " (mgc --generate --sequences N)"
                                    : "");
    if (o->logits && (o->prompt.n > 1 || each > 1))
        rt_die(RT_USAGE, "--logits is of one text: %s",
               each > 1 ? "compile without --choices" : "give one --prompt");
    if (o->chat && each > 1)
        rt_die(RT_USAGE, "--chat: %s answers each prompt %d times; compile without --choices",
               p->name, each);
    if (!is_part(o->top_p) || !is_part(o->min_p))
        rt_die(RT_USAGE, "--top-p and --min-p are probabilities, above 0 and at most 1");
    if (!isnan(o->penalty) && !(o->penalty > 0 && o->penalty < 1e6))
        rt_die(RT_USAGE, "--repetition-penalty is %g; it is above 0, and 1 changes nothing",
               o->penalty);
}

/* About n steps, behind which a program learns no answer further. */
static int64_t whole_rollouts(const mg_program *p, int64_t n)
{
    const int64_t updates = p->rollout.size ? p->rollout.updates : 1;
    return n < updates ? updates : n - n % updates;
}

/* Of a program that learns what it generates, or of another. */
static void settle_rollout(const rt_options *o, const mg_program *p)
{
    const mg_rollout *l = &p->rollout;
    if (!l->size && (o->reward || !isnan(o->reward_timeout)))
        rt_die(RT_USAGE,
               "--reward%s: %s learns what its data has; a program that generates answers is made "
               "by mgc tune DIR --objective grpo",
               o->reward ? "" : "-timeout", p->name);
    if (!l->size)
        return;
    if (o->data.n && !o->reward && !o->dry_run)
        rt_die(RT_USAGE,
               "%s learns answers by their rewards: --reward 'python3 reward.py', a command that "
               "reads a line of JSON for each answer and writes a line with a number",
               p->name);
    if (o->val.n || o->val_fraction > 0 || o->perplexity.n)
        rt_die(RT_USAGE, "--%s: the data of %s are prompts, which have no loss of their own",
               o->perplexity.n ? "perplexity"
               : o->val.n      ? "val"
                               : "val-fraction",
               p->name);
    if ((o->temperature < l->temperature || o->temperature > l->temperature) && o->data.n)
        rt_die(RT_USAGE,
               "--temperature %g: that of answers is in the program, whose loss has it too: %g; "
               "groups(temperature = %g) in the train block changes it",
               o->temperature, l->temperature, o->temperature);
    if (o->save_every.steps != RT_UNSET && o->save_every.steps % l->updates)
        rt_die(RT_USAGE,
               "--save-every %" PRId64 ": %s learns the same answers in %" PRId64
               " steps; a checkpoint is behind them: --save-every %" PRId64,
               o->save_every.steps, p->name, l->updates,
               (o->save_every.steps / l->updates + 1) * l->updates);
}

/* Sets defaults, and checks rules between options. */
static void settle(rt_options *o, const mg_program *p)
{
    if (!o->out)
        o->out = "run";
    if (o->keep == RT_UNSET)
        o->keep = 3;
    if (o->memory_save_every.steps == RT_UNSET)
        o->memory_save_every.steps = 0;
    if (o->save_every.steps == RT_UNSET && o->save_every.seconds == 0)
        o->save_every.steps = whole_rollouts(p, 1000);
    if (o->save && strcmp(o->save, "beside") && strcmp(o->save, "blocking"))
        rt_die(RT_USAGE, "--save %s: it is beside or blocking; how often is --save-every", o->save);
    if (o->log_every == RT_UNSET)
        o->log_every = 1;
    if (o->max_restarts > 1000000 || o->rejoin > 1000000 || o->grace > 1000000)
        rt_die(RT_USAGE, "--max-restarts, --rejoin and --grace are at most 1000000");
    if (o->rejoin != RT_UNSET && o->max_restarts == RT_UNSET)
        rt_die(RT_USAGE, "--rejoin is for --max-restarts N");
    if ((o->memory_save_every.steps || o->memory_save_every.seconds > 0) &&
        (o->max_restarts == RT_UNSET || (o->save && !strcmp(o->save, "blocking"))))
        rt_die(RT_USAGE, o->max_restarts == RT_UNSET
                             ? "--memory-save-every is for --max-restarts N: supervisors have the "
                               "memory, and start the run again from it"
                             : "--memory-save-every sends a copy beside the steps: leave "
                               "--save blocking out");
    if ((o->max_restarts != RT_UNSET || o->grace != RT_UNSET) && !o->data.n)
        rt_die(RT_USAGE, "--%s is for a run that trains, which needs --data",
               o->grace != RT_UNSET ? "grace" : "max-restarts");
    if (o->hang_after != RT_UNSET && o->max_restarts == RT_UNSET && o->ranks == RT_UNSET &&
        rt_ranks_of(p, ~(uint32_t)0) == 1)
        rt_die(RT_USAGE, "--hang-after: this program has one rank, which waits for no other");
    if (!isnan(o->skip_spikes) && p->as_ready)
        rt_die(
            RT_USAGE,
            "--skip-spikes: %s updates parameters as they are ready, before a step's gradient norm "
            "is known; compile it without `update as_ready`",
            p->name);
    if (o->hang_after == RT_UNSET)
        o->hang_after = o->preflight ? RT_PREFLIGHT_LIMIT : 300;
    if (o->preflight && !*o->preflight)
        rt_die(RT_USAGE, "--preflight= needs a file, or -");
    if (o->preflight && (o->info || o->dry_run))
        rt_die(RT_USAGE, "--preflight and --%s: one of them", o->info ? "info" : "dry-run");
    if (o->hang_after > 1000000)
        rt_die(RT_USAGE, "--hang-after is %" PRId64 "; the limit is 1000000", o->hang_after);
    if (o->max_time && !(rt_duration(o->max_time) > 0))
        rt_die(RT_USAGE, "--max-time %s: a time is 90, 90s, 15m, 3h20m or 1:30:00", o->max_time);
    if (o->resume && !*o->resume)
        rt_die(RT_USAGE, "--resume= needs auto or a directory");
    if (!isnan(o->val_fraction) && o->val_fraction > 0.5)
        rt_die(RT_USAGE, "--val-fraction is %g; the limit is 0.5", o->val_fraction);
    if (!isnan(o->val_fraction) && o->val_fraction > 0 && o->val.n)
        rt_die(RT_USAGE, "--val and --val-fraction: one of them");
    settle_sample(o, p);
    settle_rollout(o, p);
    if (o->threads > 1024)
        rt_die(RT_USAGE, "--threads is %" PRId64 "; the limit is 1024", o->threads);
    if (o->eval_with && strcmp(o->eval_with, "average") != 0)
        rt_die(RT_USAGE, "--eval-with %s: it is average, or left out", o->eval_with);
    if (o->adapter && (!o->init || !p->adapter_json))
        rt_die(RT_USAGE, p->adapter_json
                             ? "--adapter goes on from an adapter of a base: --init BASE is needed"
                             : "--adapter: this program trains no adapter: its train block has "
                               "none");
    if ((o->fresh.n || o->without.n) && !o->init)
        rt_die(RT_USAGE, "--new and --without are about the files of --init DIR");
    if (o->eval_with && !rt_keeps_averages(p))
        rt_die(
            RT_USAGE,
            "--eval-with average: %s keeps no averages; `average 0.999` in its train block makes "
            "it",
            p->name);
    bool evaluates = o->val.n || o->val_fraction > 0;
    if (!evaluates && (o->eval_every != RT_UNSET || o->eval_batches != RT_UNSET))
        rt_die(RT_USAGE, "--eval-every and --eval-batches need --val or --val-fraction");
    if (!evaluates && (o->best_by || o->patience != RT_UNSET || o->keep_best != RT_UNSET))
        rt_die(RT_USAGE, "--best-by, --keep-best and --patience need --val or --val-fraction");
    if (o->keep_best > RT_TOP_MAX)
        rt_die(RT_USAGE, "--keep-best is %" PRId64 "; the limit is %d", o->keep_best, RT_TOP_MAX);
    char *unfit = rt_export_wrong(o);
    unfit = unfit ? unfit : rt_health_wrong(o, p);
    if (unfit)
        rt_die(RT_USAGE, "%s", unfit);
    char *why = o->best_by && p->eval.present ? rt_best_wrong(p, o->best_by) : NULL;
    if (why)
        rt_die(RT_USAGE, "--best-by %s: %s", o->best_by, why);
    if ((evaluates || o->perplexity.n) && !p->eval.present)
        rt_die(RT_USAGE, "--%s: %s was compiled without an evaluation program",
               o->perplexity.n ? "perplexity" : "val", p->name);
}

void rt_options_parse(rt_options *o, const mg_program *p, int argc, char **argv)
{
    defaults(o);
    for (int i = 1; i < argc;)
        i += take(o, argv + i);
    if (o->help) {
        print_help(p);
        exit(RT_DONE);
    }
    if (o->version) {
        printf("%s (%s), layout %s, made by %s, ABI %u, fingerprint %016" PRIx64 "\n", p->name,
               p->source, p->layout, p->compiler, p->abi, p->fingerprint);
        exit(RT_DONE);
    }
    settle(o, p);
}

void rt_options_free(const rt_options *o)
{
    free(o->data.item);
    free(o->val.item);
    free(o->perplexity.item);
    free(o->dump.item);
    free(o->prompt.item);
    free(o->stop.item);
}
