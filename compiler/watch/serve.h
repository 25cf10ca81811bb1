/* serve.h - a small HTTP server by libmicrohttpd, for one person; see module.h. */
#ifndef MGC_WATCH_SERVE_H
#define MGC_WATCH_SERVE_H

#include "compiler/watch/module.h"

const char *serve_run(Arena *a, const Site *s);

#endif
