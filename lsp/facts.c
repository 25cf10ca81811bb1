/* facts.c - what the compiler knows of a text: looked up in a process of its own for each text of a
 * document, and kept, so that a text that comes back (undo, a file that is opened again) is known
 * at once.
 *
 * The process writes lines of JSON, each with its "part": "source" is what elaboration tells,
 * "plan" what the plan does, or what is proposed against errors; "end" says that nothing more will
 * come. A process that ends without it has met an error of the compiler, which is said to the
 * person. */
#include "lsp/server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT = 16, CHILDREN = 3, LINE_MAX_BYTES = 64 << 20 };
/* Seconds: a change begins a look at once, but one that comes so soon after another waits, for
 * others follow soon. */
static const double soon = 0.05, pause_before = 0.01;
static const double seconds_max = 60;

/* Facts of a text under some options. */
struct Kept {
    Kept *next;
    uint64_t key;
    size_t size;
    Facts facts;
};

/* ---- kept ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t key, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        key = (key ^ (unsigned char)bytes[i]) * 1099511628211U; /* FNV-1a */
    return key;
}

static uint64_t mix_options(uint64_t key, const json_t *options)
{
    for (size_t i = 0; i < json_array_size(options); i++) {
        const json_t *o = json_array_get(options, i);
        if (json_is_string(o))
            key = mix(key, json_string_value(o), json_string_length(o) + 1);
    }
    return key;
}

static uint64_t key_of(const Server *s, const Document *d)
{
    uint64_t key = mix(14695981039346656037U, d->text.data, d->text.size);
    key = mix(key, d->path, strlen(d->path) + 1);
    return mix_options(mix_options(key, s->options), d->options);
}

static void release(Facts *f)
{
    json_decref(f->source);
    json_decref(f->plan);
    *f = (Facts){0};
}

static void keep(Server *s, const Document *d)
{
    Kept *k = calloc(1, sizeof *k), **at = &s->kept;
    if (!k)
        abort();
    *k = (Kept){s->kept, key_of(s, d), d->text.size, d->facts};
    json_incref(k->facts.source);
    json_incref(k->facts.plan);
    s->kept = k;
    for (int n = 0; *at && n < KEPT; n++)
        at = &(*at)->next;
    if (*at) { /* the oldest */
        release(&(*at)->facts);
        free(*at);
        *at = NULL;
    }
}

static bool find_kept(Server *s, Document *d)
{
    const uint64_t key = key_of(s, d);
    for (const Kept *k = s->kept; k; k = k->next)
        if (k->key == key && k->size == d->text.size) {
            d->facts = k->facts;
            json_incref(d->facts.source);
            json_incref(d->facts.plan);
            earlier_now(d);
            return true;
        }
    return false;
}

void facts_free(Server *s)
{
    for (Kept *k = s->kept, *next; k; k = next) {
        next = k->next;
        release(&k->facts);
        free(k);
    }
    s->kept = NULL;
}

/* ---- what has come ------------------------------------------------------------------------- */

static void fresh(Server *s, Document *d, bool plan)
{
    publish(s, d);
    if (plan && s->can_refresh_lenses)
        server_request(s, "workspace/codeLens/refresh", NULL);
    server_answer_waiting(s, d, d->facts.all);
}

void facts_drop(Server *s, Document *d, bool wanted)
{
    child_end(&d->child);
    d->nheard = 0;
    if (d->facts.plan && json_object_get(d->facts.plan, "blocks")) {
        json_decref(d->planned);
        d->planned = json_incref(d->facts.plan);
    }
    earlier_keep(d);
    release(&d->facts);
    d->wanted = false;
    if (!wanted)
        return;
    if (find_kept(s, d)) {
        fresh(s, d, true);
        return;
    }
    d->wanted = s->host->look != NULL;
    d->facts.all = !d->wanted;
    const double now = server_now();
    d->from = now - d->changed < soon ? now + pause_before : now;
    d->changed = now;
}

/* The process is over, or is to be. */
static void finish(Server *s, Document *d, const char *wrong)
{
    child_end(&d->child);
    d->nheard = 0;
    d->facts.all = true;
    if (wrong && !d->facts.source)
        d->facts.source = json_pack("{s:[]}", "messages");
    if (wrong)
        json_object_set_new(d->facts.source, "failed", json_string(wrong));
    else
        keep(s, d);
    if (wrong)
        server_log(s, 1, "mgc, at '%s': %s", d->path, wrong);
    fresh(s, d, true);
}

/* A line of the process: a part. True: it was the last. */
static bool take_line(Server *s, Document *d, const char *line, size_t n)
{
    json_t *part = json_loadb(line, n, 0, NULL);
    const char *name = text_of(part, "part");
    json_t **to = name && !strcmp(name, "source") ? &d->facts.source
                  : name && !strcmp(name, "plan") ? &d->facts.plan
                                                  : NULL;
    const bool end = name && !strcmp(name, "end");
    if (to) {
        json_decref(*to);
        *to = json_incref(part);
        earlier_now(d);
        fresh(s, d, to == &d->facts.plan);
    }
    json_decref(part);
    return end;
}

static bool take_lines(Server *s, Document *d)
{
    char *line = d->heard, *end;
    bool last = false;
    while (!last && (end = memchr(line, '\n', d->nheard - (size_t)(line - d->heard)))) {
        last = take_line(s, d, line, (size_t)(end - line));
        line = end + 1;
    }
    d->nheard -= (size_t)(line - d->heard);
    memmove(d->heard, line, d->nheard);
    return last;
}

void facts_read(Server *s, Document *d)
{
    enum { PIECE = 1 << 16 };
    for (;;) {
        if (d->nheard + PIECE > d->heard_cap) {
            d->heard_cap = 2 * (d->nheard + PIECE);
            d->heard = realloc(d->heard, d->heard_cap);
            if (!d->heard)
                abort();
        }
        const ssize_t n = read(d->child.fd, d->heard + d->nheard, PIECE);
        if (n > 0) {
            d->nheard += (size_t)n;
            if (take_lines(s, d)) {
                finish(s, d, NULL);
                return;
            }
        } else {
            if (n == 0 || d->nheard > LINE_MAX_BYTES)
                finish(s, d, "the compiler has met an error of its own, not one of the source");
            return;
        }
    }
}

/* ---- the process --------------------------------------------------------------------------- */

typedef struct Look {
    const Server *s;
    const Document *d;
} Look;

static size_t add_options(const json_t *from, const char **to, size_t n, size_t most)
{
    for (size_t i = 0; i < json_array_size(from) && n < most; i++)
        if (json_is_string(json_array_get(from, i)))
            to[n++] = json_string_value(json_array_get(from, i));
    return n;
}

static void look(void *ctx, FILE *out)
{
    enum { OPTIONS = 64 };
    const Look *l = ctx;
    const char *options[OPTIONS];
    size_t n = add_options(l->s->options, options, 0, OPTIONS);
    n = add_options(l->d->options, options, n, OPTIONS);
    const LspAsk ask = {l->d->path, l->d->text.data, l->d->text.size, options, n};
    l->s->host->look(l->s->host->ctx, &ask, out);
    fputs("{\"part\": \"end\"}\n", out);
}

double facts_step(Server *s)
{
    const double now = server_now();
    double rest = 1e9;
    int running = 0;
    for (Document *d = s->documents; d; d = d->next)
        running += d->child.pid != 0;
    for (Document *d = s->documents; d; d = d->next) {
        if (d->child.pid && now - d->began > seconds_max)
            finish(s, d, "planning took more than 60 seconds, and was stopped");
        if (d->wanted && now >= d->from && running < CHILDREN) {
            Look l = {s, d};
            d->wanted = false;
            d->began = now;
            running++;
            if (!child_start(&d->child, look, &l))
                finish(s, d, "there is no process to be had for the compiler");
        }
        const double until = d->child.pid ? d->began + seconds_max : d->wanted ? d->from : 1e18;
        if (until - now < rest && (d->child.pid || running < CHILDREN))
            rest = until - now;
    }
    return rest;
}
