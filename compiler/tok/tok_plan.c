/* tok_plan.c - the options of mgc tok, and what the first record says of the others. */
#include "compiler/tok/tok_run.h"
#include "compiler/tok/tok_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool tok_options(const Options *o)
{
    return o->tokenizer || o->json_key || o->json_prompt || o->eod || o->format ||
           o->chat_template || o->template_name || o->train_on || o->max_length || o->too_long;
}

static Exit usage(Session *s, const char *why)
{
    diag_error(s->diag, (Span){0}, 0, "%s", why);
    return EXIT_usage;
}

static ChatFormat named_format(const char *name)
{
    for (ChatFormat f = CHAT_text; f <= CHAT_messages; f++)
        if (strcmp(tok_format_name(f), name) == 0)
            return f;
    return CHAT_none;
}

static const char *keys_of(Session *s, const json_t *o)
{
    const char *key, *all = "";
    json_t *v;
    int n = 0;
    json_object_foreach((json_t *)o, key, v) {
        if (++n == 9)
            return arena_printf(s->arena, "%s, ...", all);
        all = arena_printf(s->arena, "%s%s'%.40s'", all, *all ? ", " : "", key);
    }
    return all;
}

/* The first record of the first file that has records; NULL if there is none, or it cannot be read
 * (the run says why, when it comes to it). */
static json_t *first_record(Session *s, const char **path)
{
    json_t *o = NULL;
    for (size_t i = 0; i < s->o->words.n && !o; i++) {
        const char *why, *text;
        size_t n;
        *path = s->o->words.data[i];
        Source *from = tok_source_form(*path) == SOURCE_text ? NULL : tok_source_open(*path, &why);
        if (from && tok_source_next(from, &text, &n) == SOURCE_record)
            o = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
        tok_source_close(from);
    }
    return o;
}

static Exit find_format(Session *s, TokPlan *p)
{
    const Options *o = s->o;
    const char *path = NULL, *key = o->json_key ? o->json_key : "text";
    json_t *first = first_record(s, &path);
    Exit status = EXIT_done;
    p->format = o->format                       ? named_format(o->format)
                : o->json_key || o->json_prompt ? CHAT_text
                : first                         ? tok_format_of(first)
                                                : CHAT_text;
    if (p->format == CHAT_none && (json_object_get(first, key) || !json_is_object(first)))
        p->format = CHAT_text;
    if (p->format == CHAT_none) {
        diag_error(s->diag, (Span){0}, 574,
                   "%s: the first record is of no known format: its keys are %s", path,
                   keys_of(s, first));
        diag_help(s->diag, "--json-key KEY says where its text is, --format what it is");
        status = EXIT_source;
    }
    p->kind = p->format > CHAT_text ? tok_kind_of(first) : CHAT_plain;
    if (!status && !o->format && p->format > CHAT_text)
        printf("%s: format %s, by the keys of its first record\n", path,
               tok_format_name(p->format));
    json_decref(first);
    return status;
}

static Exit find_length(Session *s, TokPlan *p)
{
    char *end;
    if (s->o->too_long && !s->o->max_length)
        return usage(s, "--too-long needs --max-length");
    p->drop = s->o->too_long && strcmp(s->o->too_long, "drop") == 0;
    if (!s->o->max_length)
        return EXIT_done;
    errno = 0;
    p->most = strtoll(s->o->max_length, &end, 10);
    if (*end || errno || p->most < 1 || p->most > INT32_MAX)
        return usage(s, "--max-length is a number of tokens from 1 to 2147483647");
    return EXIT_done;
}

Exit tok_plan_make(Session *s, TokPlan *p)
{
    const Options *o = s->o;
    bool text_keys = o->json_key || o->json_prompt;
    Exit status = find_length(s, p);
    if (!status)
        status = find_format(s, p);
    if (status)
        return status;
    bool chat = p->format > CHAT_text;
    if (chat && text_keys)
        return usage(s, "--json-key and --json-prompt are of texts, not of conversations");
    if (!chat && (o->chat_template || o->template_name || o->train_on))
        return usage(s, "--chat-template, --template-name and --train-on are of conversations");
    p->on = !o->train_on                       ? TRAIN_assistant
            : strcmp(o->train_on, "all") == 0  ? TRAIN_all
            : strcmp(o->train_on, "last") == 0 ? TRAIN_last
                                               : TRAIN_assistant;
    if (p->kind != CHAT_plain && o->train_on)
        return usage(s,
                     "--train-on is not of pairs and labels: what is learnt there is the answer");
    p->weighted = chat || o->json_prompt;
    if (chat && !(p->chat = tok_template(s)))
        return EXIT_source;
    return EXIT_done;
}
