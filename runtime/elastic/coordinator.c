/* coordinator.c - lets the ranks of the members begin together, and again when one is gone.
 *
 * The members are the supervisors that the launcher started, by their RANK. Each begin is a
 * generation: it says which members run, and which rank each of them has. A member beyond the ranks
 * of the program is a spare. When a member's rank or the member itself is gone, all ranks of the
 * generation end (their watchdogs see to that, or else this process tells the members to kill
 * them), and the next generation begins:
 *
 *   at once, as soon as there are members enough for as many ranks as before, at first for the
 *   most ranks that the program has;
 *   after --rejoin seconds, with the most ranks for which there are members.
 *
 * All that this process knows it has from the members' words: when it dies, the next one asks them
 * again, and a generation that runs goes on. Rank 0 is of the first member that sees --out. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/elastic/roll.h"
#include "runtime/elastic/supervisor.h"

enum { GUESTS = 16, TICK_MS = 100, NOTE_SECONDS = 5, SPARE_SECONDS = 10 };
/* Ranks get some time to find out by themselves what is wrong, and to say it. */
enum {
    PATIENCE_SECONDS = 2,
    ACQUAINTANCE_SECONDS = 5,
    FAREWELL_SECONDS = 5,
    GREETING_SECONDS = 10
};
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
    guest guest[GUESTS];
    int generation, size;
    int placed[MG_RANKS_MAX];    /* the member of each rank of the generation, or -1: unknown */
    int64_t failed;              /* ns: a rank was first missed, or 0 */
    bool settled;                /* the end of the generation was looked at */
    int64_t gathers, not_before; /* ns: members are waited for since, and until at least */
    bool noted;
    rt_rule rule;
    int64_t died;
    uint64_t mark;
    bool resumes; /* the run's directory is this run's */
    char cause[RT_CAUSE];
    bool over;
    int64_t over_since;
    rt_roll_word last; /* RT_ROLL_OVER */
} coordinator;

static bool is_here(const seat *s)
{
    return s->line.fd >= 0 && s->said.kind == RT_ROLL_STATE;
}

static bool runs(const coordinator *c, const seat *s)
{
    return is_here(s) && s->said.runs && (int)s->said.generation == c->generation;
}

static bool is_ready(const seat *s)
{
    return is_here(s) && !s->said.runs && !s->said.stops;
}

static void leaves(seat *s)
{
    rt_roll_close(&s->line);
    s->told = false;
    s->begun = 0;
}

static void tell(const coordinator *c, seat *s, const rt_roll_word *w)
{
    if (!rt_roll_say(&s->line, c->party, w))
        leaves(s);
}

static void know_doors(const coordinator *c, rt_roll_word *w)
{
    for (int i = 0; i < c->party->members; i++)
        w->doors[i] = c->seat[i].said.door;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void end(coordinator *c, int code, const char *text)
{
    c->over = true;
    c->over_since = rt_now_ns();
    c->last = (rt_roll_word){.kind = RT_ROLL_OVER, .code = code};
    if (text)
        rt_complain("%s", text);
}

/* Waits for a while for members that are not there: they may come. */
static void say_goodbye(coordinator *c)
{
    bool all = true;
    for (int i = 0; i < c->party->members; i++) {
        seat *s = &c->seat[i];
        if (is_here(s) && !s->parted) {
            s->parted = true;
            tell(c, s, &c->last);
        }
        all = all && s->parted && s->line.fd < 0;
    }
    if (all || rt_now_ns() - c->over_since > FAREWELL_SECONDS * SECOND)
        _exit(RT_DONE);
}

/* ---- a generation that runs --------------------------------------------------------------------
 */

/* Learns of a generation that another coordinator has begun. */
static void adopt(coordinator *c)
{
    for (int i = 0; i < c->party->members; i++) {
        const rt_roll_word *w = &c->seat[i].said;
        if (!is_here(&c->seat[i]))
            continue;
        c->resumes = c->resumes || w->began;
        if (w->mark)
            c->mark = w->mark;
        if (w->restarts > c->rule.restarts)
            c->rule.restarts = w->restarts;
        if ((int)w->generation > c->generation) {
            c->generation = (int)w->generation;
            c->size = (int)w->size;
            c->settled = false;
            for (int p = 0; p < MG_RANKS_MAX; p++)
                c->placed[p] = -1;
        }
        if (w->generation && (int)w->generation == c->generation && (int)w->place < c->size)
            c->placed[w->place] = i;
    }
}

/* True if a rank of the generation is missing, and the others will not end as they should. */
static bool is_broken(const coordinator *c)
{
    for (int p = 0; p < c->size; p++) {
        const seat *s = c->placed[p] < 0 ? NULL : &c->seat[c->placed[p]];
        if (!s || !is_here(s))
            return rt_now_ns() - c->began > ACQUAINTANCE_SECONDS * SECOND;
        if (!runs(c, s) && s->said.outcome != RT_ENDED_WELL && s->said.outcome != RT_ENDED_STOPPED)
            return true;
    }
    return false;
}

/* Ends what is left of a generation, if it does not end by itself. */
static void look_after(coordinator *c)
{
    const int64_t now = rt_now_ns();
    if (!is_broken(c)) {
        c->failed = 0;
        return;
    }
    c->failed = c->failed ? c->failed : now;
    if (now - c->failed < PATIENCE_SECONDS * SECOND)
        return;
    for (int i = 0; i < c->party->members; i++)
        if (runs(c, &c->seat[i]) && !c->seat[i].told) {
            c->seat[i].told = true;
            tell(c, &c->seat[i], &(rt_roll_word){.kind = RT_ROLL_DROP});
        }
}

/* Members that run another generation were away for long. */
static void drop_late(coordinator *c)
{
    for (int i = 0; i < c->party->members; i++) {
        seat *s = &c->seat[i];
        if (is_here(s) && s->said.runs && !runs(c, s) && !s->told) {
            s->told = true;
            tell(c, s, &(rt_roll_word){.kind = RT_ROLL_DROP});
        }
    }
}

/* ---- after its end -----------------------------------------------------------------------------
 */

/* The seat of the member that had rank `place`, if it is there and says how that ended. */
static const seat *seat_of(const coordinator *c, int place)
{
    const seat *s = c->placed[place] < 0 ? NULL : &c->seat[c->placed[place]];
    return s && is_here(s) && (int)s->said.generation == c->generation ? s : NULL;
}

/* Members that are missing: "2, 3", or ""; the caller frees it. */
static char *missing(const coordinator *c)
{
    char *text = rt_printf("%s", "");
    for (int i = 0; i < c->party->members; i++) {
        if (is_here(&c->seat[i]))
            continue;
        char *before = text;
        text = rt_printf("%s%s%d", before, *before ? ", " : "", i);
        free(before);
    }
    return text;
}

/* The cause: a rank that was ended by a signal knows more than those that saw it go. */
static void find_cause(coordinator *c)
{
    char *gone = missing(c);
    const seat *known = NULL;
    for (int p = 0; p < c->size; p++) {
        const seat *s = seat_of(c, p);
        if (s && *s->said.cause && s->said.outcome == RT_ENDED_LOST &&
            (!known || s->said.code != RT_LOST))
            known = s;
    }
    char *text = rt_printf("%s%s%s", known ? known->said.cause : "no rank is left",
                           *gone ? "; not there: the supervisor of RANK " : "", gone);
    snprintf(c->cause, sizeof c->cause, "%s", text);
    free(text);
    free(gone);
}

/* Ends the run, or decides that it is to go on. */
static void settle(coordinator *c)
{
    const seat *leader = seat_of(c, 0);
    int wait;
    c->settled = true;
    c->gathers = rt_now_ns();
    c->noted = false;
    if (leader && leader->said.outcome != RT_ENDED_LOST) {
        end(c, leader->said.code, NULL); /* it has said why */
        return;
    }
    for (int p = 0; p < c->size; p++) {
        const seat *s = seat_of(c, p);
        if (s && s->said.outcome == RT_ENDED_FOR_GOOD) {
            end(c, s->said.code, s->said.cause);
            return;
        }
    }
    find_cause(c);
    c->died = leader ? leader->said.step : RT_STEP_UNKNOWN;
    /* The step counts as another one than before if no member knows it. */
    if (!leader)
        c->rule.same = 0;
    const rt_ruling ruling = rt_rule_next(&c->rule, c->died, &wait);
    c->not_before = c->gathers + wait * SECOND;
    if (ruling == RT_RESTART)
        return;
    char *text =
        ruling == RT_TOO_MANY
            ? rt_printf("%s: the run was started again %d times, as often as --max-restarts says",
                        c->cause, c->rule.restarts)
            : rt_printf("%s, after step %lld, for the third time in a row: a restart does not help",
                        c->cause, (long long)c->died);
    end(c, RT_LOST, text);
    free(text);
}

/* ---- the next generation ------------------------------------------------------------------------
 */

/* Chooses members by their order; the first sees the run's directory. False: none does. */
static bool choose(coordinator *c, int size)
{
    int leader = -1, n = 1;
    for (int i = 0; i < c->party->members && leader < 0; i++)
        if (is_ready(&c->seat[i]) && (!c->resumes || c->seat[i].said.sees))
            leader = i;
    if (leader < 0)
        return false;
    c->placed[0] = leader;
    for (int i = 0; i < c->party->members && n < size; i++)
        if (i != leader && is_ready(&c->seat[i]))
            c->placed[n++] = i;
    return true;
}

static rt_roll_word begin_word(const coordinator *c, int place)
{
    const uint64_t host = c->seat[c->placed[place]].said.host;
    rt_roll_word w = {.kind = RT_ROLL_BEGIN,
                      .generation = (uint32_t)c->generation,
                      .size = (uint32_t)c->size,
                      .place = (uint32_t)place,
                      .restarts = c->rule.restarts,
                      .restarts_max = c->rule.most,
                      .began = c->resumes,
                      .step = c->died,
                      .mark = c->mark};
    for (int p = 0; p < c->size; p++)
        if (c->seat[c->placed[p]].said.host == host) {
            w.local_place += p < place;
            w.local_size++;
        }
    if (c->placed[0])
        w.leader = c->seat[c->placed[0]].said.door;
    snprintf(w.cause, sizeof w.cause, "%s", c->cause);
    know_doors(c, &w);
    for (int i = 0; i < c->party->members; i++) {
        w.keepers[i] = is_here(&c->seat[i]) ? (uint16_t)c->seat[i].said.keeper : 0;
        w.places[i] = RT_KEEPS_NONE;
    }
    for (int p = 0; p < c->size; p++)
        w.places[c->placed[p]] = (int16_t)p;
    return w;
}

static void begin(coordinator *c, int size)
{
    rt_roll_word spare = {.kind = RT_ROLL_WAIT};
    if (!choose(c, size)) {
        end(c, RT_MISFIT,
            "none of the machines that are left sees the directory of --out: put it on a file "
            "system that all machines have, or start the run again with --resume on the machine "
            "that has it");
        return;
    }
    c->generation++;
    c->size = size;
    c->failed = 0;
    c->settled = false;
    while (!c->mark)
        if (getrandom(&c->mark, sizeof c->mark, 0) != sizeof c->mark)
            c->mark = (uint64_t)rt_now_ns();
    if (c->rule.restarts)
        rt_note("%s: restart %d of %d, on %d ranks", c->cause, c->rule.restarts, c->rule.most,
                size);
    for (int p = 0; p < size; p++) {
        seat *s = &c->seat[c->placed[p]];
        rt_roll_word w = begin_word(c, p);
        s->told = false;
        s->begun = c->generation;
        s->said.runs = 1;
        s->said.generation = w.generation;
        s->said.place = w.place;
        s->said.size = w.size;
        tell(c, s, &w);
    }
    know_doors(c, &spare);
    spare.mark = c->mark;
    for (int i = 0; i < c->party->members; i++)
        if (is_ready(&c->seat[i]))
            tell(c, &c->seat[i], &spare);
}

static void note_wait(coordinator *c, int ready)
{
    char *who = missing(c);
    if (*who)
        rt_note("%d of %d supervisors are there; waiting up to %lld s for that of RANK %s", ready,
                c->party->members, (long long)(c->patience / SECOND), who);
    free(who);
    c->noted = true;
}

static void gather(coordinator *c)
{
    const rt_programs *e = &c->s->programs;
    const int64_t now = rt_now_ns();
    /* After a start with fewer ranks nobody waits again for those that had not come. */
    const int most = c->generation ? c->size : rt_programs_most(e, c->party->members);
    int ready = 0;
    for (int i = 0; i < c->party->members; i++)
        ready += is_ready(&c->seat[i]);
    const int size = rt_programs_most(e, ready);
    if (!c->noted && ready < most && now - c->gathers > NOTE_SECONDS * SECOND)
        note_wait(c, ready);
    if (now < c->not_before || (ready < most && now - c->gathers < c->patience))
        return;
    /* At first all are on their way: ranks are of the first of them, and spares of the last. */
    if (!c->generation && ready < c->party->members &&
        now - c->gathers <
            (c->patience < SPARE_SECONDS * SECOND ? c->patience : SPARE_SECONDS * SECOND))
        return;
    if (size) {
        begin(c, size);
        return;
    }
    char *who = missing(c), *have = rt_programs_text(e);
    char *text =
        rt_printf("the supervisor of RANK %s has not come within --rejoin %lld s, and this "
                  "program takes %s ranks: start it there, or compile the program for "
                  "fewer, too (mgc --elastic)",
                  *who ? who : "(all)", (long long)(c->patience / SECOND), have);
    end(c, RT_LOST, text);
    free(who);
    free(have);
    free(text);
}

static void decide(coordinator *c)
{
    bool any = false;
    adopt(c);
    for (int i = 0; i < c->party->members; i++)
        any = any || runs(c, &c->seat[i]);
    drop_late(c);
    if (any)
        look_after(c);
    else if (c->generation && !c->settled)
        settle(c);
    else
        gather(c);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void let_in(coordinator *c, int door)
{
    const int fd = accept4(door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    guest *g = &c->guest[0];
    if (fd < 0)
        return;
    for (int i = 0; i < GUESTS; i++) { /* a free place, or that of the oldest */
        if (c->guest[i].line.fd < 0) {
            g = &c->guest[i];
            break;
        }
        if (c->guest[i].began < g->began)
            g = &c->guest[i];
    }
    rt_roll_close(&g->line);
    g->began = rt_now_ns();
    rt_roll_open(&g->line, c->party, fd, false);
}

/* A member comes, perhaps while its old connection, or that of the one before it, seems to stand;
 * but not while another process that has its RANK speaks. */
static void seat_guest(coordinator *c, guest *g, const rt_roll_word *w)
{
    enum { SPEAKS_SECONDS = 3 * RT_ROLL_EVERY };
    seat *s = &c->seat[g->line.theirs.member];
    if (is_here(s) && s->said.self != w->self &&
        rt_now_ns() - s->line.heard_ns < SPEAKS_SECONDS * SECOND) {
        if (s->doubled != w->self)
            rt_note("a process that called here was sent away: another one is the supervisor of "
                    "RANK %u already",
                    g->line.theirs.member);
        s->doubled = w->self;
        rt_roll_close(&g->line);
        return;
    }
    leaves(s);
    s->line = g->line;
    s->said = *w;
    g->line.fd = -1;
}

static void hear_guest(coordinator *c, guest *g)
{
    rt_roll_word w;
    const char *why;
    const int came = rt_roll_hear(&g->line, c->party, &w, &why);
    if (came > 0 && w.kind == RT_ROLL_STATE) {
        seat_guest(c, g, &w);
        return;
    }
    if (came == 0 && rt_now_ns() - g->began < GREETING_SECONDS * SECOND)
        return;
    if (why)
        rt_note("a process that called here was sent away: %s", why);
    rt_roll_close(&g->line);
}

static void hear_member(coordinator *c, seat *s)
{
    rt_roll_word w;
    const char *why;
    for (;;) {
        const int came = rt_roll_hear(&s->line, c->party, &w, &why);
        if (!came)
            return;
        if (came < 0 || w.kind != RT_ROLL_STATE) {
            leaves(s);
            return;
        }
        if ((int)w.generation < s->begun)
            continue; /* it was on its way when the member was told to begin */
        s->told = s->told && w.runs;
        s->said = w;
    }
}

/* Says that this process is there, and leaves members that do not run. */
static void keep_in_touch(coordinator *c, seat *s)
{
    const int64_t now = rt_now_ns();
    if (s->line.fd < 0)
        return;
    if (now - s->line.said_ns > RT_ROLL_EVERY * SECOND)
        tell(c, s, &(rt_roll_word){.kind = RT_ROLL_HERE});
    if (now - s->line.heard_ns > RT_ROLL_SILENCE * SECOND)
        leaves(s);
}

static void listen_to_all(coordinator *c)
{
    struct pollfd p[RT_DOORS + GUESTS + MG_RANKS_MAX];
    int n = 0;
    for (int i = 0; i < c->doors->n; i++)
        p[n++] = (struct pollfd){c->doors->fd[i], POLLIN, 0};
    for (int i = 0; i < GUESTS; i++)
        p[n++] = (struct pollfd){c->guest[i].line.fd, POLLIN, 0};
    for (int i = 0; i < c->party->members; i++)
        p[n++] = (struct pollfd){c->seat[i].line.fd, POLLIN, 0};
    poll(p, (nfds_t)n, TICK_MS);
    for (int i = 0; i < c->doors->n; i++)
        if (p[i].revents)
            let_in(c, c->doors->fd[i]);
    for (int i = 0; i < GUESTS; i++)
        if (c->guest[i].line.fd >= 0)
            hear_guest(c, &c->guest[i]);
    for (int i = 0; i < c->party->members; i++)
        if (c->seat[i].line.fd >= 0) {
            hear_member(c, &c->seat[i]);
            keep_in_touch(c, &c->seat[i]);
        }
}

static coordinator *new_coordinator(const rt_supervisor *s, const rt_roll_party *p,
                                    const rt_doors *d)
{
    const rt_options *o = s->run->options;
    enum { REJOIN = 300, SUCCESSOR = 10 };
    coordinator *c = rt_alloc(1, sizeof *c);
    c->s = s;
    c->party = p;
    c->doors = d;
    c->began = c->gathers = rt_now_ns();
    c->patience = o->rejoin == RT_UNSET ? REJOIN : o->rejoin;
    /* Members have waited for the coordinator before by now. */
    if (p->member && c->patience > SUCCESSOR)
        c->patience = SUCCESSOR;
    c->patience *= SECOND;
    c->rule.most = o->max_restarts == RT_UNSET ? 0 : (int)o->max_restarts;
    c->died = RT_STEP_UNKNOWN;
    for (int i = 0; i < MG_RANKS_MAX; i++) {
        c->seat[i].line.fd = -1;
        c->placed[i] = -1;
    }
    for (int i = 0; i < GUESTS; i++)
        c->guest[i].line.fd = -1;
    return c;
}

void rt_coordinate(const rt_supervisor *s, const rt_roll_party *p, const rt_doors *d)
{
    coordinator *c = new_coordinator(s, p, d);
    for (;;) {
        listen_to_all(c);
        if (!c->over)
            decide(c);
        if (c->over)
            say_goodbye(c);
    }
}
