/* show.h - one run as a frame of characters, as `mgc watch` shows it. */
#ifndef MGC_SHOW_H
#define MGC_SHOW_H

#include "compiler/watch/frame.h"
#include "compiler/watch/watched.h"

typedef struct View {
    int run, runs; /* the one that is shown, of so many */
    int tab;       /* counted from the first; any number: it goes round */
    int zoom;
    bool log, smooth, help;
    int scroll; /* events that are passed over, on their page */
} View;

/* The frame at `now`, seconds since 1970; `a` has to live as long as the frame. Any size. */
Frame *show_run(Arena *a, const Watched *w, const View *v, int rows, int columns, bool utf8,
                double now);
/* A key, as a character: true if it asks for another frame. */
bool show_key(View *v, int key);

#endif
