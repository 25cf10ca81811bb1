/* chat.h - the chat template of a tokenizer, and the names of its special tokens. */
#ifndef MGC_TEXT_CHAT_H
#define MGC_TEXT_CHAT_H

#include "text/error.h"
#include "text/jinja/jinja.h"

typedef struct ChatSource { /* of a template, as the lexer sees it */
    const char *path, *text;
    size_t size;
} ChatSource;

typedef struct ChatTemplate {
    JinTemplate *plain, *tools; /* tools: for conversations with tools, or NULL */
    ChatSource from[2];         /* of each */
    VEC(JinVariable) token;     /* bos_token and so on */
    bool parsed_arguments;      /* calls have arguments as objects, not as JSON in a string */
    time_t now;
} ChatTemplate;

typedef struct ChatFiles {
    const char *tokenizer; /* the path of tokenizer.json: others lie beside it */
    const char *given;     /* a template in a file of its own, or NULL */
    const char *name;      /* which of several templates, or NULL */
    /* The bytes of a file, which live as long as the arena; NULL after telling why not. */
    const char *(*read)(void *ctx, const char *path, size_t *n);
    void *ctx;
} ChatFiles;

/* The template: the given one, or chat_template.jinja, or that of tokenizer_config.json. NULL: see
 * e. */
ChatTemplate *chat_template(Arena *a, const ChatFiles *f, TextError *e);
/* A path in the folder of the tokenizer. */
const char *chat_beside(Arena *a, const char *tokenizer, const char *name);

/* Messages as OpenAI writes them, by one of the two; with the generation prompt behind them, or
 * without. */
bool chat_render(const ChatTemplate *c, const JinTemplate *t, Arena *a, JinValue *messages,
                 JinValue *tools, bool prompt, JinText *out, JinError *e);

#endif
