/* coordinator.h - what a coordinator knows; private to coordinator.c and generation.c. */
#ifndef MG_COORDINATOR_H
#define MG_COORDINATOR_H

#include "runtime/elastic/roll.h"
#include "runtime/elastic/supervisor.h"

enum { RT_GUESTS = 16 };
#define SECOND ((int64_t)1000000000)

/* A member, as far as it is known. */
typedef struct seat {
    rt_roll_line line; /* fd -1: it is not there */
    rt_roll_word said; /* its last state; kind 0: it has said none */
    int begun;         /* the generation that it was told to begin over this line, or 0 */
    uint64_t doubled;  /* another process that has its RANK, or 0 */
    bool told;         /* to drop this generation */
    bool parted;       /* it was told that it is over */
} seat;

typedef struct guest {
    rt_roll_line line;
    int64_t began;
} guest;

typedef struct coordinator {
    const rt_supervisor *s;
    const rt_roll_party *party;
    const rt_doors *doors;
    int64_t began;    /* ns: this process */
    int64_t patience; /* ns: --rejoin */
    seat seat[MG_RANKS_MAX];
    guest guest[RT_GUESTS];
    int generation, size;
    int placed[MG_RANKS_MAX];    /* the member of each rank of the generation, or -1: unknown */
    int64_t failed;              /* ns: a rank was first missed, or 0 */
    bool settled;                /* the end of the generation was looked at */
    int64_t gathers, not_before; /* ns: members are waited for since, and until at least */
    bool noted;
    rt_rule rule;
    int64_t died, until;        /* until: of a run that goes on from before wrong bits */
    bool shunned[MG_RANKS_MAX]; /* members of a machine that had wrong bits */
    bool grows;                 /* rank 0 was told to end behind its next save */
    uint64_t mark;
    bool resumes; /* the run's directory is this run's */
    char cause[RT_CAUSE];
    bool over;
    int64_t over_since;
    rt_roll_word last; /* RT_ROLL_OVER */
} coordinator;

static inline bool is_here(const seat *s)
{
    return s->line.fd >= 0 && s->said.kind == RT_ROLL_STATE;
}

static inline bool runs(const coordinator *c, const seat *s)
{
    return is_here(s) && s->said.runs && (int)s->said.generation == c->generation;
}

static inline bool is_ready(const seat *s)
{
    return is_here(s) && !s->said.runs && !s->said.stops;
}

/* coordinator.c: says a word to a member, which is left if that fails; the doors of all; the run
 * has ended, with `code` (text NULL: it has said why). */
void rt_seat_tell(const coordinator *c, seat *s, const rt_roll_word *w);
void rt_know_doors(const coordinator *c, rt_roll_word *w);
void rt_coordinator_end(coordinator *c, int code, const char *text);

/* generation.c: looks at the end of a generation; begins the next one, when there are members
 * enough; has one that could have more ranks end behind its next save. */
void rt_generation_settle(coordinator *c);
void rt_generation_gather(coordinator *c);
void rt_generation_grow(coordinator *c);

#endif
