/* roll.h - the words between members and their coordinator, over TCP. Private to this folder.
 *
 *   both               hello: who they are, and a random number
 *   member             its state, at once, when its rank ends, and every other second
 *   coordinator        begin, wait, drop your rank, it is over; every other second that it is there
 *
 * An end that is silent for longer than RT_ROLL_SILENCE seconds does not run, and is left.
 *
 * Every word has a MAC by the secret of the job (MGC_SECRET) over both hellos, the role of the
 * speaker, the number of the word, and the word itself. A word that somebody else said, or said
 * again, ends the connection; before the first good word neither side believes anything. */
#ifndef MG_ELASTIC_ROLL_H
#define MG_ELASTIC_ROLL_H

#include "runtime/elastic/pulse.h"
#include "runtime/net/wire_tcp.h"

typedef struct rt_roll_hello {
    char magic[8];
    uint32_t version;
    uint32_t member,
        members; /* the launcher's RANK and WORLD_SIZE; of a coordinator its member's */
    uint32_t zero;
    uint64_t job;
    uint8_t nonce[16];
} rt_roll_hello;

enum { RT_ROLL_EVERY = 2, RT_ROLL_SILENCE = 20 }; /* seconds */

typedef enum rt_roll_kind {
    RT_ROLL_STATE = 1, /* of a member */
    RT_ROLL_BEGIN,     /* start your rank */
    RT_ROLL_WAIT,      /* you are a spare */
    RT_ROLL_DROP,      /* kill your rank: another one is gone */
    RT_ROLL_OVER,      /* the run has ended; end with `code` */
    RT_ROLL_HERE,      /* of a coordinator: it is there */
    RT_ROLL_GROW,      /* have your rank 0 end behind its next save: there can be more ranks */
} rt_roll_kind;

/* Not all fields are of all kinds. Both ends are the same executable on machines of one kind. */
typedef struct rt_roll_word {
    uint32_t kind;
    uint32_t runs;        /* state: its rank runs, in `generation` */
    uint32_t stops;       /* ... it was told to stop, and begins nothing */
    uint32_t generation;  /* state: the last one that it was told to begin; begin: the new one */
    uint32_t size, place; /* of that generation: ranks, and its rank */
    uint32_t local_size, local_place; /* ... on its machine */
    uint32_t outcome;                 /* state: rt_outcome of the last end */
    int32_t code;
    int32_t restarts, restarts_max; /* in all */
    uint32_t began;                 /* see rt_pulse */
    uint32_t sees;                  /* state: its --out is the directory that `mark` was left in */
    int64_t step;                   /* steps done at the end, or RT_STEP_UNKNOWN */
    int64_t clean;                  /* state: see rt_pulse, */
    int64_t accused;                /* likewise, */
    int64_t until;                  /* begin: likewise */
    uint64_t self;                  /* state: a random number of the member's process */
    uint64_t host;                  /* rt_host_id */
    uint64_t mark;                  /* a random number of the run, from its first start on */
    rt_spot door;                   /* state: where its coordinator would listen, */
    uint32_t keeper;                /* and at which port its keeper does; 0: it has none */
    uint32_t shunned; /* its machine had wrong bits; a member says it as it was told */
    rt_spot leader;   /* begin: where rank 0 is to listen; version 0: at MASTER_ADDR */
    char cause[RT_CAUSE];
    rt_spot doors[MG_RANKS_MAX];    /* begin, wait: those of all members */
    uint16_t keepers[MG_RANKS_MAX]; /* begin: ports of their keepers, */
    int16_t places[MG_RANKS_MAX];   /* and their ranks, or -1 */
} rt_roll_word;

/* One end of a connection. */
typedef struct rt_roll_line {
    int fd;       /* -1: none */
    bool calls;   /* the member's end */
    bool greeted; /* the other hello has come */
    rt_roll_hello mine, theirs;
    uint64_t said, heard;      /* words */
    int64_t said_ns, heard_ns; /* the last ones, or the start */
    size_t came;               /* bytes of what is coming */
    struct {
        rt_roll_word word;
        uint8_t mac[RT_MAC_BYTES];
    } in;
} rt_roll_line;

/* The identity of this end. */
typedef struct rt_roll_party {
    uint8_t secret[RT_KEY_BYTES];
    uint64_t job;
    int member, members;
} rt_roll_party;

/* Takes a socket that is connected, and sends the hello. */
void rt_roll_open(rt_roll_line *l, const rt_roll_party *p, int fd, bool calls);
void rt_roll_close(rt_roll_line *l);
/* False: the connection is broken. */
bool rt_roll_say(rt_roll_line *l, const rt_roll_party *p, const rt_roll_word *w);
/* 1: *w is the next word; 0: none has come yet; -1: the connection is of no use, and *why says why
 * (NULL: it broke). */
int rt_roll_hear(rt_roll_line *l, const rt_roll_party *p, rt_roll_word *w, const char **why);

/* The mark that rank 0's supervisor leaves in --out: a directory with it is that of this run, also
 * where another machine sees it. rt_mark_leave makes the directory; it ends the program on error.
 */
void rt_mark_leave(const char *out, uint64_t mark);
bool rt_mark_is_there(const char *out, uint64_t mark);

/* coordinator.c: the process of a coordinator, at doors that are open. */
struct rt_supervisor;
_Noreturn void rt_coordinate(const struct rt_supervisor *s, const rt_roll_party *p,
                             const rt_doors *d);

#endif
