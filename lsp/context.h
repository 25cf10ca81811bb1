/* context.h - where a place of a text is, by the tokens before it: so a text that is being written,
 * and is wrong as it is, has its completions, too. */
#ifndef MGC_LSP_CONTEXT_H
#define MGC_LSP_CONTEXT_H

#include "lsp/names.h"

enum { OPEN_MAX = 64 };

typedef struct Context {
    const Index *x;
    size_t n;              /* tokens before what is being written */
    size_t open[OPEN_MAX]; /* those that opened a bracket */
    int nopen;
    size_t item, line; /* the first token of the item, and of the line's text; n: there is none */
    bool first;        /* nothing stands before it in its line */
} Context;

/* Reads up to a byte; false: it is inside of a string or a comment. */
bool context_read(Context *c, const Index *x, size_t byte);
/* The nth token before what is being written; NULL: there are not so many. Is it this word or
 * sign? */
const MgToken *context_token(const Context *c, size_t n);
bool context_is(const Context *c, size_t n, const char *text);
/* The block, model or optimizer that the byte is in; NULL: none. */
const Node *context_owner(const Context *c, size_t byte);

#endif
