/* tok_files.c - the files of a tokenizer, with mgc's messages for what is wrong in them. */
#include "compiler/tok/tok.h"

static const char *file_text(void *ctx, const char *path, size_t *n)
{
    Session *s = ctx;
    const uint32_t file = read_source(s, path);
    return file ? diag_text(s->diag, file, n) : NULL;
}

static void tell(Session *s, const TextError *e, int code)
{
    Span at = {0};
    if (e->source)
        at = (Span){diag_add_file(s->diag, e->path, e->source, e->size), (uint32_t)e->begin,
                    (uint32_t)e->end};
    if (e->text)
        diag_error(s->diag, at, code, "%s", e->text);
    if (e->text && e->help)
        diag_help(s->diag, "%s", e->help);
}

Span tok_span(Session *s, const ChatSource *from, size_t begin, size_t end)
{
    return (Span){diag_add_file(s->diag, from->path, from->text, from->size), (uint32_t)begin,
                  (uint32_t)end};
}

Tokenizer *tok_read(Session *s, const char *path)
{
    size_t n;
    TextError e = {0};
    const char *json = file_text(s, path, &n);
    Tokenizer *t = json ? tok_parse(s->arena, path, json, n, &e) : NULL;
    if (!t)
        tell(s, &e, 572);
    return t;
}

ChatTemplate *tok_template(Session *s)
{
    const ChatFiles f = {s->o->tokenizer, s->o->chat_template, s->o->template_name, file_text, s};
    TextError e;
    ChatTemplate *c = chat_template(s->arena, &f, &e);
    if (!c)
        tell(s, &e, 576);
    return c;
}
