/* card.c - README.md: a model card as Hugging Face's, of a run in its directory, and of an export
 * with what the run's says.
 *
 * It names files without their directories, and neither the host nor the user: a card is made to be
 * published. Files of data have their size, tokens and SHA-256, of large ones that of the first 64
 * MiB. An export's card has its own head, and behind it what the card of the run has from "##
 * Training" on; its loss curve is copied too. */
#include "runtime/log/card.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/sources.h"
#include "runtime/log/sha256.h"
#include "runtime/log/vitals.h"

enum { FILES = 32, HASHED = 64 << 20 };
#define RUN_PART "## Training\n"

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The name of weights: of Hugging Face's cache ORG/NAME, which the card may link to; else the last
 * part of the path. *hub: it is the former. */
static char *name_of_weights(const char *path, bool *hub)
{
    const char *cache = strstr(path, "/models--"), *org = cache ? cache + 9 : NULL;
    const char *name = org ? strstr(org, "--") : NULL;
    const size_t n = org ? strcspn(org, "/") : 0;
    *hub = name && name < org + n;
    for (size_t i = 0; *hub && i < n; i++) /* names on the hub have no others */
        *hub = isalnum((unsigned char)org[i]) || strchr("-_.", org[i]);
    if (*hub)
        return rt_printf("%.*s/%.*s", (int)(name - org), org, (int)(org + n - name - 2), name + 2);
    char *copy = rt_printf("%s", path);
    for (size_t k = strlen(copy); k > 1 && copy[k - 1] == '/'; k--)
        copy[k - 1] = 0;
    char *last = rt_printf("%s", base_of(copy));
    free(copy);
    return last;
}

/* A text in a cell of a table, or in the head: without what ends them. */
static void put_cell(FILE *f, const char *text)
{
    char *whole = rt_whole_utf8(text);
    for (const char *s = whole; *s; s++)
        if (*s == '|' || *s == '\\' || *s == '`' || *s == '<')
            fprintf(f, "\\%c", *s);
        else
            putc((unsigned char)*s < ' ' ? ' ' : *s, f);
    free(whole);
}

static void row(FILE *f, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void row(FILE *f, const char *name, const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        rt_die(RT_FAILED, "no memory for README.md");
    va_end(ap);
    fprintf(f, "| %s | ", name);
    put_cell(f, text);
    fputs(" |\n", f);
    free(text);
}

/* ---- head ----------------------------------------------------------------------------------- */

/* The lines between --- that Hugging Face's site reads. */
static void put_head(const mg_run *r, FILE *f, bool exported)
{
    const mg_program *p = r->program;
    const bool adapter = p->adapter_json && !exported, texts = p->vocab && !p->step.ninputs;
    bool hub = false;
    char *base = *r->state.base ? name_of_weights(r->state.base, &hub) : NULL;
    fputs("---\n", f);
    if (adapter || p->config_json)
        fprintf(f, "library_name: %s\n", adapter ? "peft" : "transformers");
    if (texts && (adapter || p->config_json))
        fputs("pipeline_tag: text-generation\n", f);
    if (hub)
        fprintf(f, "base_model: %s\n", base);
    fprintf(f, "tags:\n- mgc\n%s", adapter ? "- lora\n" : "");
    fputs("---\n\n", f);
    fprintf(f, "# %s\n\n%s parameters, trained by a program of %s.", p->name,
            rt_count_text((double)rt_parameters(r)).text, p->compiler);
    if (base) {
        fputs(" It began with the weights of ", f);
        put_cell(f, base);
        putc('.', f);
    }
    fputs("\n\n", f);
    free(base);
}

/* ---- run ------------------------------------------------------------------------------------ */

static const char *rate_name(mg_lr_kind k)
{
    static const char *const name[] = {[MG_LR_CONSTANT] = "constant",
                                       [MG_LR_LINEAR] = "linear",
                                       [MG_LR_COSINE] = "cosine",
                                       [MG_LR_WSD] = "wsd",
                                       [MG_LR_INVERSE_SQRT] = "inverse_sqrt",
                                       [MG_LR_WARMUP] = "warmup",
                                       [MG_LR_WARMUP_COSINE] = "warmup_cosine"};
    return name[k];
}

static void put_training(const mg_run *r, FILE *f)
{
    const mg_program *p = r->program;
    fputs(RUN_PART "\n| | |\n|---|---|\n", f);
    row(f, "steps", "%" PRId64 " of %" PRId64, r->state.step, r->lr.steps);
    if (p->step.ninputs)
        row(f, "rows", "%" PRId64 ", %" PRId64 " a step", r->state.sequences, p->step.batch);
    else
        row(f, "tokens", "%" PRId64 ", %" PRId64 " a step: %" PRId64 " sequences of %" PRId64,
            r->state.sequences * p->seq, p->step.batch * p->seq, p->step.batch, p->seq);
    row(f, "optimizer", "%s", p->optimizer);
    if (r->lr.kind == MG_LR_CONSTANT)
        row(f, "learning rate", "constant, %s, warm-up of %" PRId64 " steps",
            rt_double_text(r->lr.peak).text, r->lr.warmup);
    else
        row(f, "learning rate", "%s, peak %s, warm-up of %" PRId64 " steps, down to %s",
            rate_name(r->lr.kind), rt_double_text(r->lr.peak).text, r->lr.warmup,
            rt_double_text(r->lr.floor).text);
    row(f, "settings", "%s", p->config);
    row(f, "seed", "%" PRId64, r->state.seed);
    putc('\n', f);
}

/* ---- data ----------------------------------------------------------------------------------- */

/* False if the file cannot be read any more. */
static bool hash(const rt_file *file, char hex[65])
{
    rt_sha256 s;
    char *buffer = rt_alloc(1 << 16, 1);
    const int64_t most = file->bytes < HASHED ? file->bytes : HASHED;
    bool good = true;
    rt_sha256_begin(&s);
    for (int64_t at = 0; good && at < most; at += 1 << 16) {
        const size_t n = (size_t)(most - at < 1 << 16 ? most - at : 1 << 16);
        if ((good = rt_read_at(file->fd, buffer, n, at)))
            rt_sha256_add(&s, buffer, n);
    }
    rt_sha256_end(&s, hex);
    free(buffer);
    return good;
}

static void put_file(FILE *f, const char *use, const rt_file *file)
{
    char hex[65];
    fprintf(f, "| %s | ", use);
    put_cell(f, base_of(file->path));
    fprintf(f, " | %" PRId64 " | ", file->bytes);
    if (file->tokens)
        fprintf(f, "%" PRId64, file->tokens);
    if (hash(file, hex))
        fprintf(f, " | %s%s |\n", hex, file->bytes > HASHED ? " (first 64 MiB)" : "");
    else
        fputs(" | |\n", f);
}

static void put_set(FILE *f, const char *use, const rt_data *d, int *left)
{
    rt_data **part;
    if (!d)
        return;
    if (d->blend) {
        const int n = rt_blend_sources(d->blend, &part);
        for (int i = 0; i < n; i++)
            put_set(f, use, part[i], left);
        return;
    }
    for (int i = 0; i < d->nfiles; i++, --*left)
        if (*left > 0)
            put_file(f, use, &d->file[i]);
}

static void put_data(const mg_run *r, FILE *f)
{
    int left = FILES;
    fprintf(f, "## Data\n\n| | file | bytes | %s | SHA-256 |\n|---|---|---|---|---|\n",
            r->program->step.ninputs ? "rows" : "tokens");
    put_set(f, "training", r->data, &left);
    if (r->val && r->options->val.n)
        put_set(f, "evaluation", r->val, &left);
    if (left < 0)
        fprintf(f, "\nand %d more files.\n", -left);
    if (r->val && !r->options->val.n)
        fprintf(f, "\nEvaluation is on the last %s of the files.\n",
                rt_double_text(r->options->val_fraction).text);
    putc('\n', f);
}

/* ---- plan, evaluation ----------------------------------------------------------------------- */

static void put_plan(const mg_run *r, FILE *f, const rt_facts *facts)
{
    const mg_program *p = r->program;
    const rt_memory m = rt_memory_plan(r);
    const double ms = p->step.predicted_ms;
    fputs("## Plan\n\n| | |\n|---|---|\n", f);
    row(f, "layout", "%s, %d rank%s", p->layout, rt_ranks_of(p, ~(uint32_t)0),
        rt_ranks_of(p, ~(uint32_t)0) > 1 ? "s" : "");
    row(f, "device", "%s", p->cuda_kernels ? "GPU" : "processor");
    row(f, "memory", "%s, of which tensors %s", rt_bytes_text((double)(m.total + m.held)).text,
        rt_bytes_text((double)m.arena).text);
    row(f, "step time", "predicted %s, measured %s (the median)", rt_ms_text(ms).text,
        rt_ms_text(facts->median_ms).text);
    if (facts->median_ms > 0)
        row(f, "speed", "%s", rt_rate_text(p->step.flops / facts->median_ms * 1e3, "FLOP/s").text);
    putc('\n', f);
}

static void put_evaluation(const mg_run *r, FILE *f, const rt_facts *facts)
{
    const mg_entry *e = &r->program->eval;
    const rt_best *b = &r->state.best;
    fputs("## Evaluation\n\n| | |\n|---|---|\n", f);
    if (isfinite(facts->last_loss))
        row(f, "training loss", "%s, at first %s", rt_double_text(facts->last_loss).text,
            rt_double_text(facts->first_loss).text);
    if (isfinite(facts->val.loss))
        row(f, "val_loss", "%s", rt_double_text(facts->val.loss).text);
    for (int64_t i = 0; isfinite(facts->val.loss) && i < e->nmetrics; i++) {
        char *name = rt_printf("val_%s", e->metric[i].name);
        row(f, name, "%s", rt_double_text(facts->val.metric[i]).text);
        free(name);
    }
    if (*b->by && b->step >= 0)
        row(f, "best", "%.*s %s, at step %" PRId64, (int)strcspn(b->by, ":"), b->by,
            rt_double_text(b->value).text, b->step);
    fputs("\n![loss](loss.svg)\n", f);
}

/* ---- files ---------------------------------------------------------------------------------- */

void rt_card_of_run(const mg_run *r)
{
    rt_facts facts;
    rt_log_facts(r->log, &facts);
    if (facts.median_ms == 0) /* no step was made: the card that is there says more */
        return;
    char *path = rt_printf("%s/README.md", r->options->out), *tmp = rt_printf("%s.tmp", path);
    FILE *f = rt_file_create(tmp);
    if (f) {
        put_head(r, f, false);
        put_training(r, f);
        put_data(r, f);
        put_plan(r, f, &facts);
        put_evaluation(r, f, &facts);
    }
    bool good = f && !ferror(f);
    if (f && fclose(f))
        good = false;
    if (!good || rename(tmp, path))
        rt_warn("%s cannot be written: %s; the run goes on without it", path, rt_file_error());
    free(tmp);
    free(path);
}

/* A file of the run that the parameters are of, or NULL (the caller frees it): its directory is
 * that of the checkpoint, where that was named. */
static char *of_run(const mg_run *r, const char *name)
{
    const rt_options *o = r->options;
    const bool named = o->resume && strcmp(o->resume, "auto") != 0 && !o->data.n;
    char *path =
        named ? rt_printf("%s/../../%s", o->resume, name) : rt_printf("%s/%s", o->out, name);
    size_t n;
    char *text = rt_file_whole(path, O_NOFOLLOW, HASHED, &n);
    free(path);
    return text;
}

char *rt_card_of_export(const mg_run *r, char **curve)
{
    const mg_program *p = r->program;
    const bool of_a_run = r->options->resume || r->options->data.n;
    char *card = of_a_run ? of_run(r, "README.md") : NULL, *text = NULL;
    const char *part = card ? strstr(card, RUN_PART) : NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory for README.md");
    put_head(r, f, true);
    if (p->config_json && !p->step.ninputs)
        fputs("```python\n"
              "from transformers import AutoModelForCausalLM\n"
              "model = AutoModelForCausalLM.from_pretrained(\".\", dtype=\"auto\")\n"
              "```\n\n",
              f);
    if (of_a_run)
        fprintf(f, "These are the parameters after step %" PRId64 "%s.\n\n", r->state.step,
                r->options->eval_with ? ", averaged" : "");
    if (part)
        fputs(part, f);
    fclose(f);
    *curve = part ? of_run(r, "loss.svg") : NULL;
    free(card);
    return text;
}
