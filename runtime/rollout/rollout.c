/* rollout.c - from prompts to the inputs of a step: answers, rewards, advantages, and the log
 * probabilities before the first of several updates.
 *
 * Rows are prompt, answer, and copies of the token 0 behind it, which the causal model never reads
 * for a token that is learnt. Rollout number N is for the steps [N * updates, (N + 1) * updates);
 * all that it draws follows from the seed and N, and a checkpoint is only between two of them, so a
 * resumed run generates what it would have generated. */
#include "runtime/rollout/rollout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LEAST_DEVIATION = 1e-4; /* as TRL: added to what rewards are divided by */

struct rt_rollout {
    rt_prompt_set prompts;
    rt_reward *command;
    int64_t number; /* of the rollout that is here; -1: none */
    int64_t batch, size, width;
    rt_answer *answer;
    int32_t *tokens, *mask;         /* [batch, width] */
    double *reward, *advantage;     /* [batch] */
    char *old;                      /* [batch, seq], of the compute type */
    double mean, deviation, length; /* of rewards; of one group, on average; of answers */
    double ended;                   /* the share of answers that a --stop ended */
    double metric[MG_METRICS_MAX];  /* of the model, before the step */
    bool measured;
};

rt_rollout *rt_rollout_open(mg_run *r)
{
    const mg_program *p = r->program;
    rt_rollout *o = rt_alloc(1, sizeof *o);
    *o = (rt_rollout){
        .number = -1, .batch = p->step.batch, .size = p->rollout.size, .width = p->seq + 1};
    rt_prompt_set_open(&o->prompts, r, o->width - p->rollout.tokens);
    o->answer = rt_alloc((size_t)o->batch, sizeof *o->answer);
    o->tokens = rt_alloc((size_t)(o->batch * o->width), sizeof *o->tokens);
    o->mask = rt_alloc((size_t)(o->batch * o->width), sizeof *o->mask);
    o->reward = rt_alloc((size_t)o->batch, sizeof *o->reward);
    o->advantage = rt_alloc((size_t)o->batch, sizeof *o->advantage);
    o->old = rt_alloc((size_t)(o->batch * p->seq), (size_t)mg_dtype_bytes(p->compute));
    if (r->options->reward)
        o->command = rt_reward_start(r);
    return o;
}

void rt_rollout_close(rt_rollout *o)
{
    if (!o)
        return;
    rt_reward_end(o->command);
    rt_prompt_set_close(&o->prompts);
    for (int64_t k = 0; k < o->batch; k++)
        free(o->answer[k].token);
    free(o->answer);
    free(o->tokens);
    free(o->mask);
    free(o->reward);
    free(o->advantage);
    free(o->old);
    free(o);
}

bool rt_rollout_done(const mg_run *r)
{
    return !r->rollout || r->state.step % r->program->rollout.updates == 0;
}

int64_t rt_rollout_prompts(const rt_rollout *o)
{
    return o->prompts.n;
}

/* ---- rewards --------------------------------------------------------------------------------- */

static void put_ids(FILE *f, const char *name, const int32_t *token, int64_t n)
{
    fprintf(f, ",\"%s\":[", name);
    for (int64_t i = 0; i < n; i++)
        fprintf(f, i ? ",%d" : "%d", token[i]);
    fputc(']', f);
}

static void put_text(FILE *f, const char *name, char *text)
{
    char *inside = text ? rt_json_escape(text) : NULL;
    if (inside)
        fprintf(f, ",\"%s\":\"%s\"", name, inside);
    free(inside);
    free(text);
}

/* The line for answer k. */
static char *line_of(const rt_rollout *o, mg_run *r, int64_t k)
{
    const rt_answer *a = &o->answer[k];
    const int64_t prompt = a->prompt->n;
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        rt_die(RT_FAILED, "no memory for an answer");
    fprintf(f, "{\"rollout\":%" PRId64 ",\"group\":%" PRId64 ",\"row\":%" PRId64 ",\"ended\":%s",
            o->number, k / o->size, k, a->ended ? "true" : "false");
    put_ids(f, "prompt_tokens", a->token, prompt);
    put_ids(f, "answer_tokens", a->token + prompt, a->n - prompt);
    put_text(f, "prompt", rt_tokens_text(r, a->token, 0, prompt));
    put_text(f, "answer", rt_tokens_text(r, a->token, prompt, a->n));
    if (a->prompt->record)
        fprintf(f, ",\"record\":%s", a->prompt->record);
    fputs("}\n", f);
    fclose(f);
    for (char *s = text; *s && s[1]; s++) /* of a file whose lines end with \r\n */
        *s = *s == '\r' ? ' ' : *s;
    return text;
}

static bool ask_rewards(rt_rollout *o, mg_run *r)
{
    char **line = rt_alloc((size_t)o->batch, sizeof *line);
    for (int64_t k = 0; k < o->batch; k++)
        line[k] = line_of(o, r, k);
    const bool good = rt_reward_ask(o->command, line, o->batch, o->reward);
    for (int64_t k = 0; k < o->batch; k++)
        free(line[k]);
    free(line);
    return good;
}

/* Mean and standard deviation (with n - 1) of n numbers. */
static double deviation(const double *x, int64_t n, double *mean)
{
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < n; k++)
        sum += x[k];
    *mean = sum / (double)n;
    for (int64_t k = 0; k < n; k++)
        squares += (x[k] - *mean) * (x[k] - *mean);
    return sqrt(squares / (double)(n - 1));
}

static void weigh(rt_rollout *o, mg_reward_scale scale)
{
    const double all = deviation(o->reward, o->batch, &o->mean);
    o->deviation = 0;
    for (int64_t g = 0; g < o->batch; g += o->size) {
        double mean, each = deviation(o->reward + g, o->size, &mean);
        const double by = scale == MG_REWARD_GROUP   ? each + LEAST_DEVIATION
                          : scale == MG_REWARD_BATCH ? all + LEAST_DEVIATION
                                                     : 1;
        for (int64_t k = g; k < g + o->size; k++)
            o->advantage[k] = (o->reward[k] - mean) / by;
        o->deviation += each * (double)o->size / (double)o->batch;
    }
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* `mask` is behind the answer what it is in the prompt: 0, that a target is not learnt. */
static void fill_rows(rt_rollout *o)
{
    o->length = o->ended = 0;
    memset(o->tokens, 0, (size_t)(o->batch * o->width) * sizeof *o->tokens);
    memset(o->mask, 0, (size_t)(o->batch * o->width) * sizeof *o->mask);
    for (int64_t k = 0; k < o->batch; k++) {
        const rt_answer *a = &o->answer[k];
        memcpy(o->tokens + k * o->width, a->token, (size_t)a->n * sizeof *a->token);
        for (int64_t i = a->prompt->n; i < a->n; i++)
            o->mask[k * o->width + i] = 1;
        o->length += (double)(a->n - a->prompt->n) / (double)o->batch;
        o->ended += a->ended / (double)o->batch;
    }
}

/* n numbers in the compute type. */
static void put_numbers(const mg_program *p, const double *x, int64_t n, char *to)
{
    for (int64_t k = 0; k < n; k++) {
        const float narrow = (float)x[k];
        if (p->compute == MG_F64)
            memcpy(to + k * (int64_t)sizeof *x, &x[k], sizeof *x);
        else
            memcpy(to + k * (int64_t)sizeof narrow, &narrow, sizeof narrow);
    }
}

/* Rows [first, first + e->batch) of an input, whose rows here have `width` elements of `each`
 * bytes. */
static void put_rows(mg_run *r, const mg_entry *e, const mg_input *in, const void *rows,
                     int64_t width, int64_t each, int64_t first)
{
    const int64_t bytes = in->elements * each;
    char *all = rt_alloc((size_t)e->batch, (size_t)bytes);
    for (int64_t k = 0; k < e->batch; k++)
        memcpy(all + k * bytes, (const char *)rows + (first + k) * width * each, (size_t)bytes);
    rt_put_rows(r, e, in->offset, all, bytes);
    free(all);
}

static void put_inputs(mg_run *r, const mg_entry *e, int64_t first)
{
    const mg_program *p = r->program;
    const rt_rollout *o = r->rollout;
    const int64_t each = mg_dtype_bytes(p->compute);
    char *better = rt_alloc((size_t)o->batch, (size_t)each);
    put_numbers(p, o->advantage, o->batch, better);
    for (int k = 0; k < e->ninputs; k++) {
        const mg_input *in = &e->inputs[k];
        if (!strcmp(in->name, "tokens"))
            put_rows(r, e, in, o->tokens, o->width, sizeof *o->tokens, first);
        else if (!strcmp(in->name, "mask"))
            put_rows(r, e, in, o->mask, o->width, sizeof *o->mask, first);
        else if (!strcmp(in->name, "advantage"))
            put_rows(r, e, in, better, 1, each, first);
        else
            put_rows(r, e, in, o->old, p->seq, each, first);
    }
    free(better);
}

void rt_rollout_put(mg_run *r)
{
    const mg_entry *e = &r->program->step;
    put_inputs(r, e, 0);
    rt_fill_scalars(r, e, rt_updates(r));
}

/* ---- what the model says before an update ---------------------------------------------------- */

/* @eval on all rows; its metrics are then of all. `old`: keeps the log probabilities. */
static void look(mg_run *r, bool old)
{
    const mg_program *p = r->program;
    const mg_entry *e = &p->eval;
    rt_rollout *o = r->rollout;
    const int64_t bytes = p->seq * mg_dtype_bytes(p->compute);
    char *made = old ? rt_alloc((size_t)o->batch, (size_t)bytes) : NULL;
    if (e->filled >= 0)
        rt_eval_begin(r);
    for (int64_t first = 0; first < o->batch; first += e->batch) {
        put_inputs(r, e, first);
        rt_eval_batch(r, first, e->batch);
        if (old)
            rt_get(r, e->logits, made + first * bytes, e->batch * bytes);
    }
    for (int64_t k = 0; k < e->nmetrics; k++)
        o->metric[k] = rt_get_f64(r, e->metric[k].offset);
    o->measured = true;
    if (old)
        memcpy(o->old, made, (size_t)(o->batch * bytes));
    free(made);
}

/* ---- a rollout ------------------------------------------------------------------------------- */

static bool generate(mg_run *r, int64_t number)
{
    rt_rollout *o = r->rollout;
    const uint64_t seed = (uint64_t)r->state.seed;
    o->number = number;
    for (int64_t k = 0; k < o->batch; k++)
        o->answer[k].prompt =
            rt_prompt_set_at(&o->prompts, seed, number * (o->batch / o->size) + k / o->size);
    if (!rt_answers(r, number, o->answer, o->batch) || !ask_rewards(o, r)) {
        o->number = -1;
        return false;
    }
    weigh(o, r->program->rollout.scale);
    fill_rows(o);
    if (r->program->rollout.updates > 1)
        look(r, true);
    return true;
}

bool rt_rollout_next(mg_run *r)
{
    rt_rollout *o = r->rollout;
    const int64_t number = r->state.step / r->program->rollout.updates, step = r->state.step + 1;
    if (number != o->number && !generate(r, number))
        return false;
    o->measured = false;
    if (r->program->eval.nmetrics && (step % r->options->log_every == 0 || step == r->lr.steps))
        look(r, false);
    return true;
}

/* ---- the log --------------------------------------------------------------------------------- */

void rt_rollout_each(const mg_run *r, void (*tell)(void *ctx, const char *name, double x),
                     void *ctx)
{
    const rt_rollout *o = r->rollout;
    const mg_entry *e = &r->program->eval;
    tell(ctx, "reward", o->mean);
    tell(ctx, "reward_std", o->deviation);
    tell(ctx, "length", o->length);
    if (r->options->stop.n)
        tell(ctx, "ended", o->ended);
    for (int64_t k = 0; k < e->nmetrics && o->measured; k++)
        tell(ctx, e->metric[k].name, o->metric[k]);
}

typedef struct words {
    FILE *f;
    bool json;
} words;

static void tell_words(void *ctx, const char *name, double x)
{
    const words *w = ctx;
    if (!w->json)
        fprintf(w->f, "  %s %.4g", name, x);
    else
        fprintf(w->f, ",\"%s\":%s", name, isfinite(x) ? rt_double_text(x).text : "null");
}

char *rt_rollout_text(const mg_run *r, bool json)
{
    char *text;
    size_t size;
    words w = {.f = open_memstream(&text, &size), .json = json};
    if (!w.f)
        rt_die(RT_FAILED, "no memory for a line of the log");
    rt_rollout_each(r, tell_words, &w);
    fclose(w.f);
    return text;
}
