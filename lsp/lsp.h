/* lsp.h - a language server for .mg files: the Language Server Protocol on two file descriptors.
 *
 * The server reads the text itself (tokens, tree, names), which takes a millisecond. All that the
 * compiler knows beside is looked up by a host, in a process of its own, so that no error of the
 * compiler ends the server, and no long plan makes it wait. */
#ifndef MGC_LSP_H
#define MGC_LSP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct LspAsk {
    const char *path, *text; /* as the editor has it */
    size_t size;
    const char *const *options; /* "--layout pod16k", of this document, beside the host's own */
    size_t noptions;
} LspAsk;

typedef struct LspHost {
    /* Writes what is known of a text as lines of JSON, the quick ones first (lsp/README.md); it
     * runs in a process of its own, which is ended when the text has changed. NULL: nobody knows.
     */
    void (*look)(void *ctx, const LspAsk *ask, FILE *out);
    void *ctx;
    const char *version;
    const char *prelude; /* path of prelude.mg; NULL: it is not there */
} LspHost;

/* Serves until the client says `exit`, or is gone; 0: as the protocol wants it, else 1. */
int lsp_serve(const LspHost *h, int in, int out);

/* The same by hand, for tests: bytes of the client in, bytes for the client out. */
typedef struct Lsp Lsp;
Lsp *lsp_new(const LspHost *h);
/* False: the client said `exit`. */
bool lsp_feed(Lsp *l, const char *bytes, size_t n);
/* Bytes to be sent; taken as sent with the call. */
const char *lsp_take(Lsp *l, size_t *n);
void lsp_free(Lsp *l);

#endif
