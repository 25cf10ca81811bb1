/* sample.c - generates tokens: the last `seq` tokens go in, the logits of the next token come out.
 *
 * A short context is left-aligned in the window; the window behind the position is in the causal
 * future, and is never read. Token i is drawn with Philox keyed by (seed, "sample") at counter
 * i. */
#include "runtime/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/safetensors.h"

enum { BYTES = 256 };

typedef struct context {
    int32_t *token;
    int64_t n, cap;
    char *logits; /* of the next token, in the program's compute type */
} context;

static void push(context *c, int32_t t)
{
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 256;
        c->token = rt_grow(c->token, (size_t)c->cap, sizeof *c->token);
    }
    c->token[c->n++] = t;
}

/* With a vocabulary of 256, bytes are tokens; otherwise the prompt is a list of token ids. */
static void read_prompt(context *c, const mg_program *p, const char *prompt)
{
    if (p->vocab == BYTES) {
        for (const char *s = prompt && *prompt ? prompt : "\n"; *s; s++)
            push(c, (unsigned char)*s);
        return;
    }
    for (const char *s = prompt ? prompt : "0"; *(s += strspn(s, " ,\t\n"));) {
        char *end;
        errno = 0;
        long long t = strtoll(s, &end, 10);
        if (end == s || errno || t < 0 || t >= p->vocab)
            rt_die(RT_USAGE,
                   "--prompt: '%.20s': with a vocabulary of %lld a prompt is token ids (0 to %lld)",
                   s, (long long)p->vocab, (long long)p->vocab - 1);
        push(c, (int32_t)t);
        s = end;
    }
    if (!c->n)
        push(c, 0);
}

/* Puts the end of the context into the window, and reads the logits. A program without a position
 * input takes the logits at the end of the window. */
static void forward(mg_run *r, context *c)
{
    const mg_entry *e = &r->program->sample;
    int64_t n = c->n < e->window ? c->n : e->window, from = e->pos < 0 ? e->window - n : 0;
    int64_t bytes = r->program->vocab * mg_dtype_bytes(r->program->compute);
    int32_t *tokens = rt_alloc((size_t)(e->batch * e->window), sizeof *tokens),
            pos = (int32_t)(n - 1);
    for (int64_t b = 0; b < e->batch; b++)
        memcpy(tokens + b * e->window + from, c->token + c->n - n, (size_t)n * sizeof *tokens);
    rt_put_rows(r, e, e->tokens, tokens, e->window * 4);
    if (e->pos >= 0)
        rt_put(r, e->pos, &pos, sizeof pos);
    rt_fill_scalars(r, e, rt_updates(r));
    rt_run(r, RT_SAMPLE);
    if (!c->logits)
        c->logits = rt_alloc((size_t)bytes, 1);
    rt_get(r, e->logits, c->logits, bytes);
    free(tokens);
}

static double logit(const mg_run *r, const context *c, int64_t i)
{
    return r->program->compute == MG_F64 ? ((const double *)c->logits)[i]
                                         : (double)((const float *)c->logits)[i];
}

static int32_t choose(const mg_run *r, const context *c, int64_t index)
{
    double t = r->options->temperature, sum = 0, at = 0;
    int64_t n = r->program->vocab, best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(logit(r, c, i)))
            rt_die(RT_FAILED, "--sample: the logit of token %lld is %g", (long long)i,
                   logit(r, c, i));
        best = logit(r, c, i) > logit(r, c, best) ? i : best;
    }
    if (t == 0)
        return (int32_t)best;
    for (int64_t i = 0; i < n; i++)
        sum += exp((logit(r, c, i) - logit(r, c, best)) / t);
    uint64_t key = mg_key("sample") ^ (uint64_t)r->state.seed;
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)}, w[4];
    mg_philox((uint32_t[4]){(uint32_t)index, (uint32_t)((uint64_t)index >> 32), 0, 0}, k, w);
    double u = ((double)w[0] + (double)w[1] * 0x1p-32) * 0x1p-32 * sum;
    for (int64_t i = 0; i < n; i++) {
        at += exp((logit(r, c, i) - logit(r, c, best)) / t);
        if (u < at)
            return (int32_t)i;
    }
    return (int32_t)best; /* rounding made u as large as the whole sum */
}

/* ---- text that is safe for a terminal ----------------------------------------------------- */

typedef struct shown { /* bytes of an incomplete character */
    unsigned char byte[4];
    int n, want;
} shown;

static void flush_escaped(shown *s)
{
    for (int i = 0; i < s->n; i++)
        printf("\\x%02x", s->byte[i]);
    s->n = 0;
}

/* Prints printable ASCII, newline, tab and whole UTF-8 characters unchanged, all other bytes as
 * \xNN. */
static void show_byte(shown *s, unsigned char c)
{
    if (s->n && (c & 0xC0) != 0x80)
        flush_escaped(s);
    if (!s->n) {
        s->want = c >= 0xC2 && c < 0xE0   ? 2
                  : c >= 0xE0 && c < 0xF0 ? 3
                  : c >= 0xF0 && c < 0xF5 ? 4
                                          : 1;
        if (s->want == 1) {
            if ((c >= 0x20 && c < 0x7F) || c == '\n' || c == '\t')
                putchar(c);
            else
                printf("\\x%02x", c);
            return;
        }
    }
    s->byte[s->n++] = c;
    unsigned char a = s->byte[0], b = s->n > 1 ? s->byte[1] : 0x9F;
    bool bad = s->n > 1 &&
               ((a == 0xE0 && b < 0xA0) || (a == 0xED && b > 0x9F) || (a == 0xF0 && b < 0x90) ||
                (a == 0xF4 && b > 0x8F) || (a == 0xC2 && b < 0xA0)); /* C1 controls too */
    if (bad) {
        flush_escaped(s);
    } else if (s->n == s->want) {
        fwrite(s->byte, 1, (size_t)s->n, stdout);
        s->n = 0;
    }
}

/* ---- --logits ----------------------------------------------------------------------------- */

typedef struct kept {
    float *logits; /* [rows, vocab] */
    int64_t rows;
} kept;

static void keep(const mg_run *r, const context *c, kept *k)
{
    int64_t n = r->program->vocab;
    k->logits = rt_grow(k->logits, (size_t)((k->rows + 1) * n), sizeof *k->logits);
    for (int64_t i = 0; i < n; i++)
        k->logits[k->rows * n + i] = (float)logit(r, c, i);
    k->rows++;
}

static void write_kept(const mg_run *r, const kept *k, const char *path)
{
    size_t size, data = (size_t)(k->rows * r->program->vocab) * sizeof *k->logits;
    rt_st_tensor t = {
        .name = "logits", .dtype = "F32", .rank = 2, .shape = {k->rows, r->program->vocab}};
    char *header = rt_st_header(&t, 1, &size);
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(header, 1, size, f) == size;
    good = good && fwrite(k->logits, 1, data, f) == data;
    if ((f && fclose(f)) || !good)
        rt_die(RT_IO, "--logits %s: %s", path, strerror(errno));
    free(header);
}

void rt_sample(mg_run *r)
{
    context c = {0};
    shown s = {0};
    kept logits = {0};
    bool bytes = r->program->vocab == BYTES;
    read_prompt(&c, r->program, r->options->prompt);
    for (int64_t i = 0; i < r->options->sample && !rt_signal_stop(); i++) {
        forward(r, &c);
        if (r->options->logits)
            keep(r, &c, &logits);
        int32_t t = choose(r, &c, i);
        push(&c, t);
        if (bytes)
            show_byte(&s, (unsigned char)t);
        else
            printf("%s%d", i ? " " : "", t);
        fflush(stdout);
    }
    flush_escaped(&s);
    putchar('\n');
    fflush(stdout);
    if (r->options->logits && logits.rows)
        write_kept(r, &logits, r->options->logits);
    free(logits.logits);
    free(c.token);
    free(c.logits);
}
