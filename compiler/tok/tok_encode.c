/* tok_encode.c - one document: from its record to ids and weights. Threads do this at the same
 * time. */
#include "compiler/tok/tok_run.h"

#include <stdlib.h>
#include <string.h>

static void wrong(Document *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void wrong(Document *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!d->wrong && vasprintf(&d->wrong, fmt, ap) < 0)
        abort();
    va_end(ap);
}

/* Gives the ids from `from` on a weight. */
static void weigh(TokHand *h, size_t from, uint8_t weight)
{
    if (!h->weighted)
        return;
    if (h->w->n > h->cap) {
        h->cap = h->w->cap;
        h->weight = realloc(h->weight, h->cap);
        if (!h->weight)
            abort();
    }
    if (h->w->n > from)
        memset(h->weight + from, weight, h->w->n - from);
}

static void count_learnt(const TokHand *h, Document *d, int part)
{
    d->part[part].learnt = 0;
    for (size_t i = 0; h->weighted && i < d->part[part].n; i++)
        d->part[part].learnt += h->weight[d->part[part].begin + i] != 0;
}

static void begin_part(const TokHand *h, Document *d, int part)
{
    d->part[part].begin = h->w->n;
    d->parts = part + 1;
}

/* The token after a text is learnt; after a conversation, if it follows an answer at once. */
static void end_part(const TokPlan *p, TokHand *h, Document *d, int part)
{
    size_t begin = d->part[part].begin;
    if (p->eod >= 0) {
        size_t at = h->w->n;
        bool learnt = !p->chat || (at > begin && h->weight[at - 1]);
        tok_push(h->w, p->eod, 0);
        weigh(h, at, learnt);
    }
    d->part[part].n = h->w->n - begin;
    count_learnt(h, d, part);
}

/* ---- texts --------------------------------------------------------------------------------- */

static void encode_text(const TokPlan *p, TokHand *h, Document *d, const char *prompt, size_t k,
                        const char *text, size_t n)
{
    TokWorker *w = h->w;
    if (n >= UINT32_MAX || k >= UINT32_MAX) {
        wrong(d, "a text of more than 4 GB");
        return;
    }
    begin_part(h, d, 0);
    size_t at = w->n;
    tok_push_all(w, p->t->before.data, p->t->before.n);
    if (prompt)
        tok_encode(w, prompt, k);
    weigh(h, at, prompt == NULL);
    at = w->n;
    tok_encode(w, text, n);
    tok_push_all(w, p->t->after.data, p->t->after.n);
    weigh(h, at, 1);
    end_part(p, h, d, 0);
}

static json_t *text_under(Document *d, const json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    if (!json_is_string(v))
        wrong(d, "no text under the key '%s'", key);
    return v;
}

static void encode_record(const TokPlan *p, TokHand *h, Document *d, const json_t *o)
{
    const char *key = p->o->json_key ? p->o->json_key : "text";
    json_t *prompt = p->o->json_prompt ? text_under(d, o, p->o->json_prompt) : NULL,
           *text = text_under(d, o, key);
    if (!d->wrong)
        encode_text(p, h, d, json_string_value(prompt), json_string_length(prompt),
                    json_string_value(text), json_string_length(text));
}

/* ---- conversations ------------------------------------------------------------------------- */

/* A token counts as part of an answer if any of its bytes does. */
static void weigh_parts(TokHand *h, size_t begin, const Masked *m)
{
    const TokWorker *w = h->w;
    size_t part = 0;
    weigh(h, begin, 0);
    for (size_t i = begin; i < w->n; i++) {
        size_t from = w->at[i], to = i + 1 < w->n ? w->at[i + 1] : m->text.n;
        for (size_t k = i + 1; to == from && k <= w->n; k++) /* several of one character */
            to = k < w->n ? w->at[k] : m->text.n;
        while (part < m->part.n && m->part.data[part].end <= from)
            part++;
        h->weight[i] = part < m->part.n && m->part.data[part].begin < to;
    }
}

static bool encode_talk(const TokPlan *p, TokHand *h, Document *d, const Record *r, int which,
                        Arena *a)
{
    Masked m;
    bool good = tok_mask(&m, a, p->t, p->chat, r, &r->talk[which], p->on);
    d->turns += m.turns;
    if (!good) {
        wrong(d, "%s", m.why);
        d->failed = m.failed;
        d->e = m.e;
    } else if (m.text.n >= UINT32_MAX) {
        wrong(d, "a conversation of more than 4 GB");
    } else {
        begin_part(h, d, which);
        h->w->lost = false;
        tok_encode(h->w, m.text.text ? m.text.text : "", m.text.n);
        weigh_parts(h, d->part[which].begin, &m);
        end_part(p, h, d, which);
        if (h->w->lost && m.part.n)
            wrong(d, "its normalization cannot be followed: nothing says where answers begin");
    }
    free(m.text.text);
    return !d->wrong;
}

/* The prompt of a pair: the tokens that both texts begin with, up to the first of an answer. A
 * token that only one of them has is part of the answer. */
static void align_pair(TokHand *h, Document *d)
{
    const int32_t *a = h->w->id + d->part[0].begin, *b = h->w->id + d->part[1].begin;
    uint8_t *x = h->weight + d->part[0].begin, *y = h->weight + d->part[1].begin;
    size_t n = d->part[0].n < d->part[1].n ? d->part[0].n : d->part[1].n, at = 0;
    while (at < n && a[at] == b[at] && !x[at] && !y[at])
        at++;
    for (size_t i = at; i < d->part[0].n && !x[i]; i++)
        x[i] = 1;
    for (size_t i = at; i < d->part[1].n && !y[i]; i++)
        y[i] = 1;
    count_learnt(h, d, 0);
    count_learnt(h, d, 1);
}

static void encode_chat(const TokPlan *p, TokHand *h, Document *d, const json_t *o)
{
    static const char *const kinds[] = {"conversation", "pair of a chosen and a rejected answer",
                                        "conversation with a label"};
    Record r;
    Arena *a = arena_new();
    if (!tok_record_read(&r, o, p->format, p->chat->parsed_arguments))
        wrong(d, "%s", r.why);
    else if (r.kind != p->kind)
        wrong(d, "is a %s, and the first record is a %s", kinds[r.kind], kinds[p->kind]);
    bool good = !d->wrong && encode_talk(p, h, d, &r, 0, a);
    if (good && r.kind == CHAT_pairs && encode_talk(p, h, d, &r, 1, a))
        align_pair(h, d);
    d->label = r.label;
    tok_record_free(&r);
    arena_free(a);
}

/* ---- length -------------------------------------------------------------------------------- */

static void limit_length(const TokPlan *p, const TokHand *h, Document *d)
{
    bool longer = false, empty = false;
    for (int i = 0; i < d->parts; i++)
        longer |= p->most && d->part[i].n > (size_t)p->most;
    d->cut = longer && !p->drop;
    for (int i = 0; i < d->parts && d->cut; i++)
        if (d->part[i].n > (size_t)p->most) {
            d->part[i].n = (size_t)p->most;
            count_learnt(h, d, i);
        }
    for (int i = 0; i < d->parts && p->weighted && d->cut; i++)
        empty |= !d->part[i].learnt; /* nothing is left to learn */
    if ((longer && p->drop) || empty) {
        d->cut = false;
        d->parts = 0;
    }
}

void tok_document(const TokPlan *p, TokHand *h, Document *d)
{
    json_error_t e;
    if (!d->number) {
        encode_text(p, h, d, NULL, 0, d->text, d->size);
    } else {
        json_t *o = json_loadb(d->text, d->size, JSON_ALLOW_NUL, &e);
        if (!json_is_object(o))
            wrong(d, "%s", o ? "is no JSON object" : e.text);
        else if (p->chat)
            encode_chat(p, h, d, o);
        else
            encode_record(p, h, d, o);
        json_decref(o);
    }
    if (!d->wrong)
        limit_length(p, h, d);
}
