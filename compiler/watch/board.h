/* board.h - runs as one page: what `mgc board` writes and serves. */
#ifndef MGC_BOARD_H
#define MGC_BOARD_H

#include <jansson.h>
#include <stdio.h>

#include "compiler/watch/watched.h"

/* The runs as JSON; lives: the page asks for news. The caller frees it. */
json_t *board_json(Watched *const *runs, int n, bool lives);
uint64_t board_version(Watched *const *runs, int n); /* of that */

#endif
