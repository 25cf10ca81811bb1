/* perplexity.c - --perplexity: the loss of each token of files, by the model as it is evaluated.
 *
 * Every token of a file but its first is a target, once. Windows of seq tokens lie side by side,
 * and a target is seen from those of its window. What is left behind the last whole window is a
 * shorter one. A program with weights of targets takes it with padding that weighs nothing; any
 * other gives the logits of one position after the other, as for sampling. Documents that the
 * program packs are windows by themselves, whose targets are all but the first token of each.
 *
 * Each file is a set of its own, and all together are one: sums of nats and of weights. */
#include "runtime/data/batch.h"
#include "runtime/data/pack.h"
#include "runtime/data/sources.h"
#include "runtime/perplexity.h"
#include "runtime/sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, CHUNK = 1 << 14 };

typedef struct sums {
    double nats, weight;
    int64_t targets; /* those that weigh something */
} sums;

struct rt_scored {
    rt_data **file;
    int n;
};

/* ---- files ---------------------------------------------------------------------------------- */

static void check_program(const mg_program *p)
{
    const char *why = p->step.ninputs ? "reads named inputs, and no text"
                      : p->eval.window > p->seq + 1
                          ? "has a loss that looks further than the next token"
                      : p->eval.filled < 0
                          ? "has rows that depend on each other, so that a file's last rows cannot "
                            "be evaluated"
                      : p->eval.weights < 0 && !p->sample.present
                          ? "was compiled without a sampling program, which its files' last tokens "
                            "need"
                          : NULL;
    if (why)
        rt_die(RT_USAGE, "--perplexity: %s %s", p->name, why);
}

/* One file as a data set: of packed documents with windows, else without. */
static rt_data *open_file(const mg_run *r, const rt_file *f)
{
    const mg_program *p = r->program;
    rt_data *d = rt_alloc(1, sizeof *d);
    d->seq = p->seq;
    d->window = p->seq + 1;
    d->packs = p->eval.documents >= 0;
    d->file = rt_alloc(1, sizeof *d->file);
    d->segment = rt_alloc(1, sizeof *d->segment);
    d->nfiles = d->nsegments = 1;
    *d->file = *f;
    rt_tokens_open(d->file, 2, p->vocab);
    d->segment[0] = (rt_segment){.tokens = d->file->tokens, .windows = d->file->tokens};
    d->tokens = d->file->tokens;
    if (p->eval.weights >= 0)
        rt_targets_open(d->file, false);
    if (d->packs)
        rt_data_pack(d);
    return d;
}

rt_scored *rt_scored_open(const mg_run *r)
{
    const rt_list *l = &r->options->perplexity;
    if (!l->n)
        return NULL;
    check_program(r->program);
    rt_scored *s = rt_alloc(1, sizeof *s);
    rt_data all = {0};
    for (int i = 0; i < l->n; i++)
        rt_data_add(&all, l->item[i], "perplexity");
    s->file = rt_alloc((size_t)all.nfiles, sizeof *s->file);
    for (; s->n < all.nfiles; s->n++)
        s->file[s->n] = open_file(r, &all.file[s->n]);
    free(all.file);
    return s;
}

void rt_scored_close(rt_scored *s)
{
    for (int i = 0; s && i < s->n; i++)
        rt_data_close(s->file[i]);
    if (s)
        free(s->file);
    free(s);
}

/* ---- weights -------------------------------------------------------------------------------- */

typedef struct weighing {
    const rt_file *file;
    sums *s;
} weighing;

/* Adds up the weights of all tokens of a document but the first. */
static void weigh(void *ctx, int64_t first, int64_t n)
{
    const weighing *w = ctx;
    double *v = rt_alloc(CHUNK, sizeof *v);
    for (int64_t at = 1; at < n; at += CHUNK) {
        const int64_t k = n - at < CHUNK ? n - at : CHUNK;
        if (w->file->weights)
            rt_targets_read(w->file, first + at, k, MG_F64, v);
        for (int64_t i = 0; i < k; i++) {
            const double one = w->file->weights ? v[i] : 1;
            w->s->weight += one;
            w->s->targets += one != 0;
        }
    }
    free(v);
}

/* ---- windows -------------------------------------------------------------------------------- */

/* Row `row` of a batch: the window from token `first` on, and padding behind the end. */
static void put_row(const mg_run *r, const rt_data *d, rt_batch *b, int64_t row, int64_t first)
{
    const mg_entry *e = &r->program->eval;
    const int64_t width = mg_dtype_bytes(r->program->compute), n = e->window,
                  have = d->tokens - first < n ? d->tokens - first : n;
    int32_t *token = rt_alloc((size_t)n, sizeof *token);
    char *weight = rt_alloc((size_t)n, (size_t)width);
    rt_tokens_read(d->file, first, have, token);
    rt_batch_row(b, e->tokens, row, token, n * 4);
    if (e->weights >= 0 && d->file->weights)
        rt_targets_read(d->file, first + 1, have - 1, r->program->compute, weight);
    for (int64_t i = 0; e->weights >= 0 && !d->file->weights && i < have - 1; i++)
        if (r->program->compute == MG_F64)
            ((double *)weight)[i] = 1;
        else
            ((float *)weight)[i] = 1;
    if (e->weights >= 0)
        rt_batch_row(b, e->weights, row, weight, (n - 1) * width);
    free(token);
    free(weight);
}

/* The mean loss of the first `windows` windows. Copies of the last fill a batch. */
static double of_windows(mg_run *r, const rt_data *d, int64_t windows)
{
    const mg_entry *e = &r->program->eval;
    rt_batch *b = rt_batch_new(e);
    rt_eval_begin(r);
    for (int64_t at = 0; at < windows; at += e->batch) {
        const int64_t n = windows - at < e->batch ? windows - at : e->batch;
        for (int64_t k = 0; k < e->batch; k++)
            put_row(r, d, b, k, (at + (k < n ? k : n - 1)) * d->seq);
        rt_batch_put(r, b);
        rt_eval_batch(r, at, n);
    }
    rt_batch_free(b);
    return rt_get_f64(r, e->loss);
}

/* Minus the logarithm of a token's probability. */
static double surprise(const double *z, int64_t n, int32_t token)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = z[i] > most ? z[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += exp(z[i] - most);
    return log(sum) + most - z[token];
}

/* The nats of all targets of a window that is not whole, from token `first` on. */
static double of_rest(mg_run *r, const rt_data *d, int64_t first)
{
    const int64_t n = d->tokens - first;
    int32_t *token = rt_alloc((size_t)n, sizeof *token);
    rt_text t = {0};
    double nats = 0;
    rt_tokens_read(d->file, first, n, token);
    for (int64_t i = 0; i + 1 < n; i++) {
        rt_text_push(&t, token[i]);
        rt_texts_next(r, &t, 1);
        nats += surprise(t.logit, r->program->vocab, token[i + 1]);
    }
    rt_text_free(&t);
    free(token);
    return nats;
}

static sums score(mg_run *r, const rt_data *d)
{
    sums s = {0};
    weighing w = {d->file, &s};
    if (d->packs)
        rt_documents_each(d->file, weigh, &w);
    else
        weigh(&w, 0, d->tokens);
    const int64_t whole = (d->tokens - 1) / d->seq, rest = (d->tokens - 1) % d->seq;
    if (d->packs) {
        rt_scores all;
        rt_eval_set(r, d, d->windows, &all);
        s.nats = all.loss * s.weight;
    } else if (r->program->eval.weights >= 0) {
        s.nats = of_windows(r, d, whole + (rest > 0)) * s.weight;
    } else {
        s.nats = whole ? of_windows(r, d, whole) * (double)(whole * d->seq) : 0;
        s.nats += rest ? of_rest(r, d, whole * d->seq) : 0;
    }
    return s;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Bits of a byte are known where tokens are bytes. A file whose targets all weigh nothing has no
 * mean. */
static void tell(const mg_run *r, const char *name, const sums *s)
{
    const double loss = s->nats / s->weight, bits = loss / log(2);
    const bool bytes = r->program->vocab == BYTES, known = isfinite(loss);
    char *escaped = rt_json_escape(name), *shown = rt_shown(name);
    printf("%s: loss %.6f, perplexity %.6g", shown, loss, exp(loss));
    if (bytes)
        printf(", %.6f bits per byte", bits);
    printf(", %" PRId64 " tokens\n", s->targets);
    printf("{\"file\":\"%s\",\"step\":%" PRId64 ",\"loss\":%s,\"perplexity\":%s", escaped,
           r->state.step, known ? rt_double_text(loss).text : "null",
           known && isfinite(exp(loss)) ? rt_double_text(exp(loss)).text : "null");
    if (bytes)
        printf(",\"bits_per_byte\":%s", known ? rt_double_text(bits).text : "null");
    printf(",\"tokens\":%" PRId64 "}\n", s->targets);
    fflush(stdout);
    free(escaped);
    free(shown);
}

void rt_perplexity(mg_run *r)
{
    const rt_scored *s = r->scored;
    sums all = {0};
    for (int i = 0; s && i < s->n && !rt_signal_stop(); i++) {
        const sums one = score(r, s->file[i]);
        tell(r, s->file[i]->file->path, &one);
        all.nats += one.nats;
        all.weight += one.weight;
        all.targets += one.targets;
    }
    if (s && s->n > 1 && !rt_signal_stop())
        tell(r, "all", &all);
}
