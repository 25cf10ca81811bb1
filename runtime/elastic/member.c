/* member.c - the supervisor of one rank, among others that a launcher started with torchrun's
 * variables.
 *
 * It calls the coordinator, says what its rank does, and does what it is told. The coordinator is
 * a process of the member of RANK 0, at MASTER_ADDR, one port above that where ranks meet. If it
 * does not answer for --rejoin seconds the members turn to the next member in their order, each of
 * which listens at a port that the system chose: the coordinator told all members of it. A rank
 * that runs goes on meanwhile. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/elastic/roll.h"
#include "runtime/elastic/supervisor.h"
#include "runtime/net/ranks.h"

enum {
    LOOK_MS = 100,
    CALL_SECONDS = 1,
    RETRY_MS = 200,
    REJOIN = 300,
    SUCCESSOR = 10,
    PARTING_SECONDS = 5
};
#define SECOND ((int64_t)1000000000)
#define MS     ((int64_t)1000000)

typedef struct member {
    rt_supervisor *s;
    rt_tcp_place place; /* where ranks meet; its coordinator: one port above */
    rt_roll_party party;
    rt_doors doors; /* where its own coordinator would listen */
    rt_roll_line line;
    int at;               /* the member whose coordinator it turns to */
    int64_t alone, again; /* ns: without a coordinator since, or 0; no call before */
    const char *why;      /* the last call failed, or NULL */
    bool noted;
    rt_spot spot[MG_RANKS_MAX]; /* the doors of all members, as far as they are known */
    rt_roll_word state;
    bool changed; /* the coordinator does not know the state yet */
    bool dropped; /* it killed its rank because it was told to */
    bool over;
    int code;      /* ... as it was told */
    int64_t parts; /* ns: it waits for no word any more, or 0 */
    char *variable[8];
} member;

/* ---- the coordinator ------------------------------------------------------------------------- */

static void look_after_coordinator(member *m)
{
    rt_supervisor *s = m->s;
    if (s->coordinator && waitpid(s->coordinator, NULL, WNOHANG) == s->coordinator)
        s->coordinator = 0;
    if (s->coordinator || m->at != m->party.member || !m->doors.n || m->over || s->stop)
        return;
    const pid_t self = getpid();
    fflush(NULL);
    s->coordinator = fork();
    if (s->coordinator < 0)
        rt_die(RT_FAILED, "the coordinator could not be started: %s", strerror(errno));
    if (s->coordinator)
        return;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != self)
        _exit(RT_LOST);
    rt_roll_close(&m->line);
    if (s->keeper_door >= 0)
        close(s->keeper_door);
    rt_coordinate(s, &m->party, &m->doors);
}

/* The addresses of the coordinator that this member turns to. */
static int find(member *m, rt_address *a)
{
    if (m->at) {
        if (!m->spot[m->at].version)
            return 0;
        a[0] = rt_spot_address(&m->spot[m->at], &m->doors.near);
        return 1;
    }
    rt_tcp_place at = m->place;
    rt_doors found = {0};
    at.port++;
    m->why = rt_doors_find(&found, &at);
    memcpy(a, found.found, sizeof found.found);
    return m->why ? 0 : found.nfound;
}

/* A connected socket, or -1. */
static int call(member *m)
{
    rt_address a[RT_DOORS];
    const struct timeval limit = {.tv_sec = CALL_SECONDS};
    const int n = find(m, a);
    for (int i = 0; i < n; i++) {
        int fd = rt_tcp_socket(&a[i]);
        if (fd < 0)
            continue;
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd, &a[i].any, rt_address_bytes(&a[i])) == 0) {
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
            return fd;
        }
        m->why = strerror(errno);
        close(fd);
    }
    return -1;
}

/* Opens the door for others, at the address by which this member reached the first coordinator. */
static void open_door(member *m)
{
    rt_address near = {0};
    socklen_t size = sizeof near;
    if (m->doors.n || getsockname(m->line.fd, &near.any, &size))
        return;
    m->state.door = rt_doors_open(&m->doors, &near);
    m->state.keeper = (uint32_t)rt_keeper_open(m->s, &near);
}

static void lost_coordinator(member *m, const char *why)
{
    rt_roll_close(&m->line);
    m->why = why ? why : m->why;
    m->alone = m->alone ? m->alone : rt_now_ns();
    m->again = rt_now_ns() + RETRY_MS * MS;
    m->changed = true;
}

/* Turns to the next member if this one's coordinator has been away for too long. */
static void turn_away(member *m)
{
    enum { NOTE_SECONDS = 5 };
    const rt_options *o = m->s->run->options;
    int64_t limit = (o->rejoin == RT_UNSET ? REJOIN : o->rejoin) * SECOND;
    if (m->at && limit > SUCCESSOR * SECOND) /* all have waited for the first */
        limit = SUCCESSOR * SECOND;
    const int64_t waited = m->alone ? rt_now_ns() - m->alone : 0;
    const char *why = m->why ? m->why : "no answer";
    if (waited > NOTE_SECONDS * SECOND && !m->noted) {
        rt_note("waiting for the supervisor of RANK %d, which lets ranks begin (%s)", m->at, why);
        m->noted = true;
    }
    if (waited <= limit)
        return;
    do
        m->at++;
    while (m->at < m->party.members && m->at != m->party.member && !m->spot[m->at].version);
    if (m->at >= m->party.members || (m->at == m->party.member && !m->doors.n))
        rt_die(RT_LOST,
               "no other supervisor has answered in %lld s (%s): was that of RANK 0 started, with "
               "this MASTER_ADDR, port and MGC_SECRET?",
               (long long)(limit / SECOND), why);
    m->alone = rt_now_ns();
    m->noted = false;
}

static void reach(member *m)
{
    const int64_t now = rt_now_ns();
    if (m->line.fd >= 0 || m->over)
        return;
    turn_away(m);
    if (now < m->again)
        return;
    const int fd = call(m);
    if (fd < 0) {
        lost_coordinator(m, NULL);
        return;
    }
    rt_roll_open(&m->line, &m->party, fd, true);
    open_door(m);
}

/* ---- its rank -------------------------------------------------------------------------------- */

static char *address_text(const rt_spot *s)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(s->version == 6 ? AF_INET6 : AF_INET, s->at, text, sizeof text);
    return rt_printf("%s", text);
}

/* The variables of the rank, in place of those of the launcher. */
static void set_variables(member *m, const rt_roll_word *w)
{
    char *master = w->leader.version ? address_text(&w->leader) : rt_printf("%s", m->place.host);
    for (int i = 0; i < 8; i++)
        free(m->variable[i]);
    m->variable[0] = rt_printf("RANK=%u", w->place);
    m->variable[1] = rt_printf("WORLD_SIZE=%u", w->size);
    m->variable[2] = rt_printf("LOCAL_RANK=%u", w->local_place);
    m->variable[3] = rt_printf("LOCAL_WORLD_SIZE=%u", w->local_size);
    m->variable[4] = rt_printf("MASTER_ADDR=%s", master);
    m->variable[5] = rt_printf("MGC_PORT=%d", m->place.port);
    m->variable[6] = rt_printf("MGC_GENERATION=%u", w->generation);
    m->variable[7] = NULL;
    free(master);
}

/* Takes the places of the keepers of all members from a word. */
static void know_keepers(member *m, const rt_roll_word *w)
{
    rt_keepers *k = &m->s->keepers;
    k->n = m->party.members;
    for (int i = 0; i < k->n; i++) {
        k->of[i].rank = w->places[i];
        k->of[i].spot = w->keepers[i] ? w->doors[i] : (rt_spot){0};
        k->of[i].spot.port = w->keepers[i];
    }
}

static void begin(member *m, const rt_roll_word *w)
{
    rt_roll_word *mine = &m->state;
    if (m->s->child || m->s->stop || !rt_programs_have(&m->s->programs, (int)w->size)) {
        m->state.generation = w->generation;
        m->changed = true; /* it does not run, whatever the coordinator takes it for */
        return;
    }
    mine->runs = 1;
    mine->generation = w->generation;
    mine->size = w->size;
    mine->place = w->place;
    mine->restarts = w->restarts;
    mine->mark = w->mark;
    mine->began = w->began;
    if (!w->place)
        rt_mark_leave(m->s->run->options->out, w->mark);
    m->dropped = false;
    snprintf(m->s->what, sizeof m->s->what, "rank %u", w->place);
    set_variables(m, w);
    know_keepers(m, w);
    rt_supervisor_start(m->s, &(rt_start){.ranks = (int)w->size,
                                          .resumes = w->began,
                                          .restarts = w->restarts,
                                          .restarts_max = w->restarts_max,
                                          .died = w->step,
                                          .until = w->until,
                                          .why = w->cause,
                                          .variables = m->variable});
}

static void ended(member *m, const rt_end *e)
{
    rt_roll_word *mine = &m->state;
    mine->runs = 0;
    mine->outcome = e->was;
    mine->code = m->dropped ? RT_LOST : e->code;
    mine->step = e->step;
    mine->clean = e->clean;
    mine->accused = e->accused;
    mine->began = mine->began || e->began;
    snprintf(mine->cause, sizeof mine->cause, "%s", m->dropped ? "" : e->cause);
    m->changed = true;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void obey(member *m, const rt_roll_word *w)
{
    if (w->kind == RT_ROLL_BEGIN || w->kind == RT_ROLL_WAIT) {
        memcpy(m->spot, w->doors, sizeof m->spot);
        m->state.mark = w->mark;
        m->state.shunned = w->shunned;
    }
    if (w->kind == RT_ROLL_GROW && m->s->child)
        m->s->pulse->grows = true;
    if (w->kind == RT_ROLL_BEGIN)
        begin(m, w);
    if (w->kind == RT_ROLL_DROP && m->s->child) {
        m->dropped = true;
        rt_supervisor_kill(m->s);
    }
    if (w->kind == RT_ROLL_OVER) {
        m->over = true;
        m->code = w->code;
        m->parts = rt_now_ns() + PARTING_SECONDS * SECOND;
        rt_roll_close(&m->line);
    }
}

static void hear(member *m)
{
    rt_roll_word w;
    const char *why;
    while (m->line.fd >= 0) {
        const int came = rt_roll_hear(&m->line, &m->party, &w, &why);
        if (!came)
            break;
        if (came < 0) {
            lost_coordinator(m, why ? why : "it hung up: has it this MGC_SECRET?");
            return;
        }
        m->alone = 0;
        m->noted = false;
        obey(m, &w);
    }
}

static void say_state(member *m)
{
    rt_roll_word *mine = &m->state;
    const int64_t now = rt_now_ns();
    if (m->line.fd >= 0 && now - m->line.heard_ns > RT_ROLL_SILENCE * SECOND) {
        if (m->s->coordinator) /* its own is stopped: the next one takes its place */
            kill(m->s->coordinator, SIGKILL);
        lost_coordinator(m, "it is silent");
    }
    if (mine->mark && !mine->sees) /* the coordinator is told as soon as it sees it */
        m->changed = m->changed || rt_mark_is_there(m->s->run->options->out, mine->mark);
    if (m->line.fd < 0 || !m->line.greeted ||
        (!m->changed && now - m->line.said_ns < RT_ROLL_EVERY * SECOND))
        return;
    mine->stops = m->s->stop != 0;
    mine->sees = mine->mark && rt_mark_is_there(m->s->run->options->out, mine->mark);
    if (rt_roll_say(&m->line, &m->party, mine))
        m->changed = false;
    else
        lost_coordinator(m, NULL);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void open_member(member *m, rt_supervisor *s)
{
    const rt_world *w = &s->run->world;
    *m = (member){.s = s, .line = {.fd = -1}, .changed = true, .alone = rt_now_ns()};
    if (w->size > MG_RANKS_MAX)
        rt_die(RT_MISFIT, "%d processes are supervisors; the limit is %d", w->size, MG_RANKS_MAX);
    if (!rt_programs_most(&s->programs, w->size)) {
        char *have = rt_programs_text(&s->programs);
        rt_die(RT_MISFIT, "this program takes %s ranks, and %s started %d process%s of it", have,
               rt_launcher_name(w->launcher), w->size, w->size == 1 ? "" : "es");
    }
    rt_tcp_place_read(&m->place, w);
    if (m->place.port > 65534)
        rt_die(RT_MISFIT, "supervisors meet at the port above %d, and there is none",
               m->place.port);
    m->party = (rt_roll_party){.job = mg_key(m->place.job), .member = w->rank, .members = w->size};
    memcpy(m->party.secret, m->place.secret, sizeof m->party.secret);
    memcpy(s->keepers.key, m->place.secret, sizeof s->keepers.key);
    m->state = (rt_roll_word){.kind = RT_ROLL_STATE,
                              .outcome = RT_ENDED_LOST,
                              .step = RT_STEP_UNKNOWN,
                              .host = rt_host_id(w)};
    if (getrandom(&m->state.self, sizeof m->state.self, 0) != sizeof m->state.self)
        rt_die(RT_FAILED, "no random numbers: %s", strerror(errno));
    rt_tcp_place at = m->place;
    at.port++;
    while (!w->rank && !m->doors.n) {
        rt_doors_open_main(&m->doors, &at);
        poll(NULL, 0, LOOK_MS);
    }
    if (!w->rank) { /* the port of rank 0's door is the next coordinator's business */
        m->state.door = rt_address_spot(&m->doors.near);
        m->state.keeper = (uint32_t)rt_keeper_open(s, &m->doors.near);
    }
}

static int code_of(const member *m)
{
    const rt_roll_word *mine = &m->state;
    if (m->s->overdue)
        return RT_LOST;
    if (m->code == RT_DONE || m->code == RT_STOPPED)
        return mine->place || mine->outcome == RT_ENDED_LOST || mine->outcome == RT_ENDED_CORRUPT ||
                       mine->outcome == RT_ENDED_TO_GROW
                   ? RT_DONE
                   : mine->code;
    return mine->outcome == RT_ENDED_FOR_GOOD ? mine->code : m->code > 128 ? RT_LOST : m->code;
}

/* True: it is time to end. */
static bool is_done(member *m)
{
    const int64_t now = rt_now_ns();
    if (m->s->stop && !m->s->child && !m->parts)
        m->parts = now + (m->state.generation ? PARTING_SECONDS * SECOND : 0);
    if (m->over && m->s->child && now >= m->parts)
        rt_supervisor_kill(m->s);
    return !m->s->child && (m->over || (m->parts && now >= m->parts));
}

int rt_supervise_member(rt_supervisor *s)
{
    member *m = rt_alloc(1, sizeof *m);
    rt_end e;
    open_member(m, s);
    rt_be_quiet(false);
    if (s->run->stdout_kept >= 0)
        dup2(s->run->stdout_kept, STDOUT_FILENO); /* its rank may become rank 0 */
    rt_supervisor_open(s);
    while (!is_done(m)) {
        look_after_coordinator(m);
        reach(m);
        say_state(m);
        rt_supervisor_wait(s, m->line.fd, POLLIN, LOOK_MS);
        hear(m);
        if (rt_supervisor_look(s, &e))
            ended(m, &e);
    }
    if (s->overdue)
        rt_complain("rank %u has not saved and ended within --grace %lld s: killed", m->state.place,
                    (long long)s->run->options->grace);
    const int code = m->over ? code_of(m) : s->overdue ? RT_LOST : RT_STOPPED;
    rt_roll_close(&m->line);
    if (s->coordinator && !m->over)
        kill(s->coordinator, SIGKILL);
    while (s->coordinator && waitpid(s->coordinator, NULL, 0) < 0 && errno == EINTR)
        ;
    free(m->place.job);
    free(m);
    return code;
}
