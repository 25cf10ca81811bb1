/* terminal.h - shows frames in a terminal by ncurses, and hands keys on; see module.h. */
#ifndef MGC_WATCH_TERMINAL_H
#define MGC_WATCH_TERMINAL_H

#include "compiler/watch/module.h"

const char *terminal_run(Arena *a, const Screen *s);

#endif
