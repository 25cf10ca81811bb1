/* tok_decode.c - from ids back to text, as tokenizers decodes them, one id after the other.
 *
 * The steps of a decoder are stages in a row. A stage is given tokens; behind one that makes a
 * single text of all (ByteLevel, Fuse) it is given parts of that, and is a filter which holds back
 * what later parts may change. Out of the last one come whole characters. */
#include "text/tok.h"

#include <stdlib.h>
#include <string.h>

typedef struct Bytes { /* malloc'ed */
    char *p;
    size_t n, cap;
} Bytes;

typedef struct Stage {
    Bytes held;
    size_t count; /* tokens so far; strip: what it took at the left */
    bool begun;   /* strip: the left end is done; suffix: a token is held */
} Stage;

struct TokStream {
    const Tokenizer *t;
    Stage *stage;
    Bytes out;
    size_t tokens;
    int16_t byte_of[512]; /* of characters that stand for bytes, or -1 */
};

static void add(Bytes *b, const char *p, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = b->n + n > 2 * b->cap ? b->n + n + 64 : 2 * b->cap;
        b->p = realloc(b->p, b->cap);
        if (!b->p)
            abort();
    }
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void drop(Bytes *b, size_t n)
{
    b->n -= n;
    if (b->n)
        memmove(b->p, b->p + n, b->n);
}

static bool begins(const char *p, size_t n, const char *what, size_t k)
{
    return k && k <= n && memcmp(p, what, k) == 0;
}

/* A copy with every `from` replaced. */
static Bytes replaced(const char *p, size_t n, const char *from, const char *by)
{
    const size_t k = strlen(from);
    Bytes b = {0};
    for (size_t i = 0; i < n;) {
        const bool here = begins(p + i, n - i, from, k);
        add(&b, here ? by : p + i, here ? strlen(by) : 1);
        i += here ? k : 1;
    }
    return b;
}

static void give(TokStream *s, size_t k, const char *p, size_t n);

static void give_replaced(TokStream *s, size_t k, const char *p, size_t n, const char *from,
                          const char *by)
{
    Bytes b = replaced(p, n, from, by);
    give(s, k, b.p, b.n);
    free(b.p);
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* The whole characters of what is held; what cannot be one is U+FFFD, one for each maximal part. */
static void give_chars(TokStream *s, size_t k, bool last)
{
    Bytes *held = &s->stage[k].held, text = {0};
    size_t i = 0, bad;
    while (i < held->n) {
        const unsigned char *p = (const unsigned char *)held->p + i;
        const size_t left = held->n - i, n = tok_whole_char(p, left, &bad);
        if (!n && !last && bad == left && *p >= 0xc2 && *p < 0xf5)
            break; /* its other bytes may follow */
        add(&text, n ? (const char *)p : "\xef\xbf\xbd", n ? n : 3);
        i += n ? n : bad;
    }
    drop(held, i);
    if (text.n)
        give(s, k + 1, text.p, text.n);
    free(text.p);
}

/* A token in which every character stands for a byte is those bytes; another is its own. */
static void bytes(TokStream *s, size_t k, const char *p, size_t n)
{
    Bytes *held = &s->stage[k].held;
    const size_t before = held->n;
    size_t bad;
    for (size_t i = 0, w; i < n; i += w) {
        const unsigned char *c = (const unsigned char *)p + i;
        w = tok_whole_char(c, n - i, &bad);
        const unsigned u = w == 1 ? *c : w == 2 ? (*c & 0x1fu) << 6 | (c[1] & 0x3f) : 512;
        if (u > 511 || s->byte_of[u] < 0) {
            held->n = before;
            add(held, p, n);
            break;
        }
        const char byte = (char)s->byte_of[u];
        add(held, &byte, 1);
    }
    give_chars(s, k, false);
}

/* The byte of "<0x41>", or -1; Rust takes a plus sign for part of a number. */
static int fallback_byte(const char *p, size_t n)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    if (n != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>' || !p[3] || !p[4])
        return -1;
    const char *high = strchr(digits, p[3]), *low = strchr(digits, p[4]);
    if (!low || (!high && p[3] != '+'))
        return -1;
    return (int)((high ? (high - digits) % 16 : 0) * 16 + (low - digits) % 16);
}

/* Bytes in a row are text if they are UTF-8 together, and U+FFFD each if not. */
static void end_fallback(TokStream *s, size_t k)
{
    Bytes run = s->stage[k].held;
    size_t i = 0, w = 1, bad;
    s->stage[k].held = (Bytes){0};
    for (; i < run.n && w; i += w)
        w = tok_whole_char((const unsigned char *)run.p + i, run.n - i, &bad);
    if (run.n && w)
        give(s, k + 1, run.p, run.n);
    for (i = 0; i < run.n && !w; i++)
        give(s, k + 1, "\xef\xbf\xbd", 3);
    free(run.p);
}

static void fallback(TokStream *s, size_t k, const char *p, size_t n)
{
    const int value = fallback_byte(p, n);
    const char byte = (char)value;
    if (value >= 0) {
        add(&s->stage[k].held, &byte, 1);
        return;
    }
    end_fallback(s, k);
    give(s, k + 1, p, n);
}

/* ---- words --------------------------------------------------------------------------------- */

static void wordpiece(TokStream *s, size_t k, const char *p, size_t n)
{
    static const char *const clean[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                           {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                           {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    const TokDecode *d = &s->t->decode.data[k];
    const size_t prefix = strlen(d->text);
    Bytes b = {0};
    if (s->stage[k].count++) {
        const bool inside = begins(p, n, d->text, prefix) || !prefix;
        add(&b, " ", inside ? 0 : 1);
        add(&b, p + (inside ? prefix : 0), n - (inside ? prefix : 0));
    } else {
        add(&b, p, n);
    }
    for (size_t i = 0; d->clean && i < sizeof clean / sizeof *clean; i++) {
        Bytes next = replaced(b.p, b.n, clean[i][0], clean[i][1]);
        free(b.p);
        b = next;
    }
    give(s, k + 1, b.p, b.n);
    free(b.p);
}

/* The last token has no space behind it: one is held. */
static void suffix(TokStream *s, size_t k, const char *p, size_t n, bool last)
{
    Stage *g = &s->stage[k];
    Bytes before = g->held;
    const bool begun = g->begun;
    g->held = (Bytes){0};
    g->begun = !last;
    if (!last)
        add(&g->held, p, n);
    if (begun)
        give_replaced(s, k + 1, before.p, before.n, s->t->decode.data[k].text, last ? "" : " ");
    free(before.p);
}

/* ---- filters: of tokens, or of parts of one text -------------------------------------------- */

/* How many of the bytes at the end are `what` so often, at most `most` times. */
static size_t run_at_end(const Bytes *b, const char *what, size_t most)
{
    const size_t k = strlen(what);
    size_t n = 0;
    while (k && n / k < most && n + k <= b->n && memcmp(b->p + b->n - n - k, what, k) == 0)
        n += k;
    return n;
}

static void strip(TokStream *s, size_t k, const char *p, size_t n)
{
    const TokDecode *d = &s->t->decode.data[k];
    Stage *g = &s->stage[k];
    const size_t c = strlen(d->text);
    while (!g->begun && n) {
        g->begun = g->count == d->left || !begins(p, n, d->text, c);
        if (!g->begun) {
            g->count++;
            p += c;
            n -= c;
        }
    }
    add(&g->held, p, n);
    const size_t keep = run_at_end(&g->held, d->text, d->right);
    Bytes all = g->held;
    g->held = (Bytes){0};
    add(&g->held, all.p + all.n - keep, keep);
    if (all.n > keep)
        give(s, k + 1, all.p, all.n - keep);
    free(all.p);
}

/* How many bytes at the end may begin the pattern. */
static size_t may_begin(const Bytes *b, size_t from, const char *what)
{
    const size_t k = strlen(what);
    for (size_t n = k - 1 < b->n - from ? k - 1 : b->n - from; n; n--)
        if (memcmp(b->p + b->n - n, what, n) == 0)
            return n;
    return 0;
}

static void replace(TokStream *s, size_t k, const char *p, size_t n)
{
    const TokDecode *d = &s->t->decode.data[k];
    Stage *g = &s->stage[k];
    const size_t width = strlen(d->text);
    size_t from = 0;
    add(&g->held, p, n);
    for (size_t i = 0; i + width <= g->held.n;) {
        const bool here = begins(g->held.p + i, g->held.n - i, d->text, width);
        i += here ? width : 1;
        from = here ? i : from;
    }
    const size_t keep = may_begin(&g->held, from, d->text), all = g->held.n - keep;
    Bytes text = replaced(g->held.p, all, d->text, d->by);
    drop(&g->held, all);
    if (text.n)
        give(s, k + 1, text.p, text.n);
    free(text.p);
}

/* ---- stages -------------------------------------------------------------------------------- */

/* Whether stage k is given parts of one text. */
static bool is_one_text(const TokStream *s, size_t k)
{
    while (k--)
        if (s->t->decode.data[k].kind == DECODE_bytes || s->t->decode.data[k].kind == DECODE_fuse)
            return true;
    return false;
}

static void end_filter(TokStream *s, size_t k)
{
    Stage *g = &s->stage[k];
    Bytes left = g->held;
    const bool stripped = s->t->decode.data[k].kind == DECODE_strip; /* at its right end */
    *g = (Stage){0};
    if (left.n && !stripped)
        give(s, k + 1, left.p, left.n);
    free(left.p);
}

/* A token for stage k; behind the last, text. */
static void token(TokStream *s, size_t k, const char *p, size_t n)
{
    const TokDecode *d = &s->t->decode.data[k];
    switch (d->kind) {
    case DECODE_bytes:
        bytes(s, k, p, n);
        break;
    case DECODE_fallback:
        fallback(s, k, p, n);
        break;
    case DECODE_fuse:
        give(s, k + 1, p, n);
        break;
    case DECODE_strip:
        strip(s, k, p, n);
        break;
    case DECODE_replace:
        replace(s, k, p, n);
        break;
    case DECODE_metaspace:
        give_replaced(s, k + 1, p, n, d->text, d->first && !s->stage[k].count ? "" : " ");
        s->stage[k].count += !is_one_text(s, k);
        return;
    case DECODE_wordpiece:
        wordpiece(s, k, p, n);
        return;
    case DECODE_suffix:
        suffix(s, k, p, n, false);
        return;
    }
    if ((d->kind == DECODE_strip || d->kind == DECODE_replace) && !is_one_text(s, k))
        end_filter(s, k);
}

static void give(TokStream *s, size_t k, const char *p, size_t n)
{
    if (k == s->t->decode.n) {
        add(&s->out, p, n);
        return;
    }
    const TokDecodeKind kind = s->t->decode.data[k].kind;
    const bool filter = kind == DECODE_strip || kind == DECODE_replace || kind == DECODE_fuse ||
                        kind == DECODE_metaspace;
    if (filter || !is_one_text(s, k))
        token(s, k, p, n);
    else
        add(&s->stage[k].held, p, n); /* this one needs the whole text */
}

static void end_stage(TokStream *s, size_t k)
{
    const TokDecodeKind kind = s->t->decode.data[k].kind;
    if (is_one_text(s, k) && (kind == DECODE_bytes || kind == DECODE_fallback ||
                              kind == DECODE_wordpiece || kind == DECODE_suffix)) {
        Bytes whole = s->stage[k].held;
        s->stage[k].held = (Bytes){0};
        if (whole.n)
            token(s, k, whole.p, whole.n);
        free(whole.p);
    }
    if (kind == DECODE_bytes)
        give_chars(s, k, true);
    else if (kind == DECODE_fallback)
        end_fallback(s, k);
    else if (kind == DECODE_suffix)
        suffix(s, k, NULL, 0, true);
    else if (kind == DECODE_strip || kind == DECODE_replace)
        end_filter(s, k);
    s->stage[k].count = 0;
    s->stage[k].begun = false;
}

/* ---- streams ------------------------------------------------------------------------------- */

TokStream *tok_stream_new(const Tokenizer *t)
{
    TokStream *s = calloc(1, sizeof *s);
    if (!s || !(s->stage = calloc(t->decode.n + 1, sizeof *s->stage)))
        abort();
    s->t = t;
    memset(s->byte_of, -1, sizeof s->byte_of);
    for (int b = 0; b < 256; b++)
        s->byte_of[t->char_of[b]] = (int16_t)b;
    return s;
}

void tok_stream_free(TokStream *s)
{
    for (size_t k = 0; s && k < s->t->decode.n; k++)
        free(s->stage[k].held.p);
    if (s) {
        free(s->stage);
        free(s->out.p);
    }
    free(s);
}

static const char *taken(TokStream *s, size_t *n)
{
    *n = s->out.n;
    return s->out.p ? s->out.p : "";
}

const char *tok_stream_put(TokStream *s, int32_t id, size_t *n)
{
    const TokName *name = tok_name_of(s->t, id);
    s->out.n = 0;
    if (name && !name->special) {
        if (s->t->spaced && s->tokens)
            add(&s->out, " ", 1);
        s->tokens++;
        give(s, 0, name->text, strlen(name->text));
    }
    return taken(s, n);
}

const char *tok_stream_end(TokStream *s, size_t *n)
{
    s->out.n = s->tokens = 0;
    for (size_t k = 0; k < s->t->decode.n; k++)
        end_stage(s, k);
    return taken(s, n);
}
