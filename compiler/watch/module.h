/* module.h - what lib/mgc/libmgc_watch.so offers: one table, found by name. It stands apart because
 * it brings ncurses and libmicrohttpd, which nothing else in mgc needs. It knows nothing of runs.
 */
#ifndef MGC_WATCH_MODULE_H
#define MGC_WATCH_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler/watch/frame.h"

#define WATCH_MODULE_FILE   "libmgc_watch.so"
#define WATCH_MODULE_SYMBOL "mgc_watch_module"

/* Frames for a terminal, and its keys. */
typedef struct Screen {
    void *ctx;
    /* A frame of that size, in the arena; asked for when something changed, and each second. */
    Frame *(*draw)(void *ctx, Arena *a, int rows, int columns, bool utf8);
    /* A key: a character, '\t' and 'T' for the tabs, 'j' and 'k' for down and up. False: the end.
     * *again: there is another frame to be drawn. */
    bool (*key)(void *ctx, int key, bool *again);
    /* Looks for news; true: there is another frame to be drawn. *more: there are more of them. */
    bool (*look)(void *ctx, bool *more);
    const char *const *folders; /* whose files are looked at */
    int nfolders;
} Screen;

/* An answer of the server: in the arena of the request. */
typedef struct Answer {
    int status;
    const char *type; /* "text/html; charset=utf-8" */
    const void *body;
    size_t size;
    const char *nonce; /* of the scripts that it may run; NULL: none */
} Answer;

/* The pages of a server. */
typedef struct Site {
    void *ctx;
    const char *address; /* IPv4, in numbers */
    int port;            /* 0: any */
    const char *token;   /* the first part of each path */
    /* The page at path behind the token's '/', with the value of ?since=, or NULL; as 404: nothing
     * is there. */
    Answer (*get)(void *ctx, Arena *a, const char *path, const char *since);
    void (*begins)(void *ctx, int port); /* it listens */
} Site;

typedef struct WatchModuleTable {
    const char *build; /* equal to MGC_VERSION, or the two do not belong together */
    /* Both go on until they are ended, by a key or by SIGINT, SIGTERM, SIGHUP. NULL, or why they
     * cannot, in the arena. */
    const char *(*terminal)(Arena *a, const Screen *s);
    const char *(*serve)(Arena *a, const Site *s);
} WatchModuleTable;

#endif
