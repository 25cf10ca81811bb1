/* watched.h - a run directory as it is read while a program writes there.
 *
 * Nothing in it is trusted: a line that is no object is counted and passed over, a number that is
 * not finite is a gap, texts are any UTF-8 that is shown escaped. The state below follows from the
 * lines read so far; when metrics.jsonl is another file, or shorter, it begins anew. */
#ifndef MGC_WATCHED_H
#define MGC_WATCHED_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "compiler/watch/series.h"

enum {
    WATCH_RANKS = 1024,    /* whose waits are kept */
    WATCH_SERIES = 256,    /* keys of metrics.jsonl */
    WATCH_EVENTS = 1000,   /* the newest ones */
    WATCH_LINE = 1 << 20,  /* bytes of a line; longer ones are passed over */
    WATCH_ONCE = 16 << 20, /* bytes that are read at once: about half a second */
};

/* A line with "event", or a step that was skipped. */
typedef struct WatchEvent {
    double step, time; /* time: seconds since 1970, or NAN */
    const char *kind;  /* "start", "end", "restart", "alert", "skipped", "overflow", ... */
    const char *text;  /* the rest of the line, to be read by people */
} WatchEvent;

/* How a run began: of its newest start. NULL, NAN: not said. */
typedef struct WatchStart {
    const char *program, *compiler, *layout, *optimizer, *settings, *device, *host;
    double step, time;
    double ranks, threads, steps, batch, seq, parameters;
    double predicted_ms, flops, memory_planned;
} WatchStart;

typedef enum WatchState {
    WATCH_awaited, /* there is no metrics.jsonl yet */
    WATCH_running,
    WATCH_done,
    WATCH_stopped, /* after saving */
    WATCH_failed,
    WATCH_died, /* nobody holds the lock, and no line says why */
    WATCH_ended /* likewise, of a run that does not log its start */
} WatchState;

/* The newest checkpoint. */
typedef struct WatchSaved {
    int count;
    double step, bytes, time; /* step: -1 where there is none */
} WatchSaved;

typedef struct Watched {
    const char *path, *name;
    Arena *a; /* what follows but for the file; anew with each file */
    VEC(Series) series;
    VEC(WatchEvent) events;
    WatchStart start;
    bool started, ended;           /* there was a start; the newest start has its end */
    const char *why;               /* of that end */
    double step, time, first_time; /* of the newest line; of the first; NAN */
    double memory_used;            /* bytes, or NAN */
    double wait[WATCH_RANKS];      /* ms of a step, or NAN */
    int nwait;                     /* ranks with one: 0 to here */
    int64_t lines, unread, starts, restarts, skipped, overflows, alerts;
    bool locked, behind; /* behind: there is more to be read */
    WatchSaved saved;
    uint64_t version; /* rises with every change */
    struct WatchFile *file;
} Watched;

/* name: as it is shown. It lies in the arena; watched_close closes its file and frees the rest. */
Watched *watched_open(Arena *a, const char *path, const char *name);
void watched_close(Watched *w);
/* Reads what was added, WATCH_ONCE of it at most, and looks at the lock and the checkpoints. True
 * if anything changed. */
bool watched_read(Watched *w);
/* One line of metrics.jsonl (watched_lines.c). */
void watched_line(Watched *w, const char *text, size_t n);
void watched_clear(Watched *w);                                   /* of all lines */
const Series *watched_series(const Watched *w, const char *name); /* or NULL */
int64_t watched_starts(const Watched *w); /* how often the program began, as far as lines say */
WatchState watched_state(const Watched *w);
const char *watched_state_text(WatchState s);
/* Seconds of a step with all that lies between steps, lately; NAN: unknown. */
double watched_pace(const Watched *w);
double watched_eta(const Watched *w); /* seconds, or NAN */

#endif
