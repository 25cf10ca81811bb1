/* wire_tcp_meet.c - lets the ranks of a job find each other over TCP.
 *
 * Rank 0 listens at MASTER_ADDR, and the other ranks call it until it answers. Each other rank
 * listens at the address by which it reached rank 0, and tells rank 0 its port. When all ranks
 * have come, rank 0 sends all addresses to each rank, and each rank calls the ranks below it. No
 * rank waits for a single connection: all connections advance in turn, so that a stranger who
 * calls and says nothing, or rubbish, holds up no rank. When all lines stand, all ranks stop
 * listening. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/run.h"
#include "runtime/net/wire_tcp.h"

enum { CALLS = 16, STRANGERS = 16, NOTES = 16, NAMED = 16 };
enum { TICK_MS = 20, RETRY_MS = 20, RETRY_MAX_MS = 500, NOTE_MS = 5000 };
/* Limit of a connection and its greeting; extra time for rank 0 to send the addresses, because
 * rank 0 itself may wait up to the limit. */
enum { CALL_SECONDS = 10, GRACE_SECONDS = 5 };
/* A machine that vanished is detected by the keepalive probe after this silence, within four
 * seconds. */
enum { IDLE_SECONDS = 2, PROBE_SECONDS = 1, PROBES = 2, SILENCE_MS = 3500 };
#define SECOND ((int64_t)1000000000)
#define MS     ((int64_t)1000000)

/* The calls to a rank below this one: one at a time. */
typedef struct caller {
    rt_call call;
    int64_t again; /* ns: no call before this time */
    int wait_ms;
    const char *why; /* the last call failed, or NULL */
} caller;

/* The meaning of a polled descriptor. */
typedef struct polled {
    enum { DOOR, GUEST, CALLER, LINE } kind;
    int of, line;
} polled;

typedef struct meeting {
    rt_tcp *wire;
    rt_tcp_place place;
    rt_party party;
    double limit; /* seconds */
    int64_t began;
    bool noted;
    rt_doors doors;
    int turn;       /* counter: which address of rank 0 is called next */
    rt_call *guest; /* callers that are not authenticated yet */
    int nguests;
    caller *caller; /* by rank */
    rt_spot spot[MG_RANKS_MAX];
    int64_t told; /* bytes of `spot` that have come from rank 0 */
    uint64_t noted_of[NOTES];
    int nnotes;
    struct pollfd *poll;
    polled *of;
    int npoll;
    int64_t looked; /* ns: the last look at the lines that stand */
} meeting;

/* ---- who is there ---------------------------------------------------------------------------- */

static bool stands(const meeting *m, int rank)
{
    return m->wire->line[RT_MESSAGES][rank] >= 0 && m->wire->line[RT_WORDS][rank] >= 0;
}

static bool knows_spots(const meeting *m)
{
    return !m->wire->rank || m->told == (int64_t)sizeof *m->spot * m->wire->size;
}

static bool all_stand(const meeting *m)
{
    for (int i = 0; i < m->wire->size; i++)
        if (i != m->wire->rank && !stands(m, i))
            return false;
    return true;
}

/* The missing ranks: "rank 2, 5"; the caller frees it. */
static char *missing(const meeting *m)
{
    char *text = rt_printf("rank");
    int n = 0;
    for (int i = 0; i < m->wire->size; i++) {
        if (i == m->wire->rank || stands(m, i) || n++ >= NAMED)
            continue;
        char *longer = rt_printf("%s%s %d", text, n > 1 ? "," : "", i);
        free(text);
        text = longer;
    }
    if (n > NAMED) {
        char *longer = rt_printf("%s and %d more", text, n - NAMED);
        free(text);
        text = longer;
    }
    return text;
}

/* The result of the last call to a rank; the caller frees it. */
static char *last_call(const meeting *m, int rank)
{
    rt_address_text at = rt_address_say(&m->caller[rank].call.other);
    return rt_printf("%s: %s", at.text, m->caller[rank].why ? m->caller[rank].why : "no answer");
}

/* The reason why this rank has not met rank 0; the caller frees it. */
static char *without_leader(const meeting *m)
{
    if (m->doors.unknown)
        return rt_printf("MASTER_ADDR is '%.100s': %s", m->place.host, m->doors.unknown);
    return last_call(m, 0);
}

static _Noreturn void give_up(const meeting *m, char *who)
{
    if (m->wire->rank && !stands(m, 0)) {
        char *why = without_leader(m);
        rt_die(RT_LOST,
               "rank 0 has not answered in %.3g s (%s): was it started, with this MASTER_ADDR and "
               "MGC_PORT (else MASTER_PORT)?",
               m->limit, why);
    }
    if (m->wire->rank && !knows_spots(m))
        rt_die(RT_LOST, "rank 0 has not said in %.3g s where the others are", m->limit);
    if (!m->wire->rank)
        rt_die(RT_LOST,
               "%s has not come in %.3g s: was it started, with this MASTER_ADDR, port and "
               "MGC_SECRET?",
               who, m->limit);
    for (int i = 1; i < m->wire->rank; i++)
        if (!stands(m, i)) {
            char *why = last_call(m, i);
            rt_die(RT_LOST,
                   "rank %d has met rank 0, and cannot be reached from here in %.3g s (%s): ranks "
                   "call each other at any port",
                   i, m->limit, why);
        }
    rt_die(
        RT_LOST,
        "%s has met rank 0, and has not reached this one in %.3g s: ranks call each other at any "
        "port",
        who, m->limit);
}

/* Does it wait for others alone, who know more of why: for rank 0 to have met all, or for those
 * that call this rank? */
static bool others_know(const meeting *m)
{
    if (!m->wire->rank || !stands(m, 0))
        return false;
    for (int i = 1; i < m->wire->rank; i++)
        if (knows_spots(m) && !stands(m, i))
            return false;
    return true;
}

/* Prints a note once if the wait is long, and ends the program if it is too long. */
static void be_patient(meeting *m)
{
    int64_t ms = (rt_now_ns() - m->began) / MS;
    double limit = m->limit + (others_know(m) ? GRACE_SECONDS : 0);
    bool over = m->limit > 0 && (double)ms >= limit * 1000;
    if (!over && (m->noted || ms < NOTE_MS))
        return;
    char *who = missing(m);
    if (over)
        give_up(m, who);
    if (m->wire->rank && stands(m, 0) && !knows_spots(m)) {
        rt_note("waiting for rank 0 to have met all ranks");
    } else if (m->wire->rank && !stands(m, 0)) {
        char *why = without_leader(m);
        rt_note("waiting for rank 0 (%s)", why);
        free(why);
    } else if (m->wire->rank) {
        rt_note("waiting for %s to connect with this rank", who);
    } else {
        rt_note("waiting for %s at %s, port %d%s", who, m->place.host, m->place.port,
                m->doors.n && rt_address_is_loopback(&m->doors.near)
                    ? ", an address that other machines cannot reach"
                    : "");
    }
    m->noted = true;
    free(who);
}

/* Gives the next stage of the meeting the full time limit. */
static void turn_clock(meeting *m)
{
    m->began = rt_now_ns();
    m->noted = false;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void allow_files(const meeting *m)
{
    enum { OTHERS = 64 }; /* other files that the program has open */
    struct rlimit l;
    rlim_t need = (rlim_t)((RT_LINES + 1) * m->wire->size + m->nguests + RT_DOORS + OTHERS);
    if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= need)
        return;
    if (l.rlim_max < need)
        rt_die(RT_MISFIT,
               "connections to %d ranks take up to %llu open files, and %llu are allowed "
               "(ulimit -Hn)",
               m->wire->size - 1, (unsigned long long)need, (unsigned long long)l.rlim_max);
    l.rlim_cur = need;
    setrlimit(RLIMIT_NOFILE, &l);
}

static void stand(meeting *m, const rt_call *c)
{
    rt_tcp_set(c->fd, IPPROTO_TCP, TCP_NODELAY, 1);
    m->wire->line[c->line][c->rank] = c->fd;
}

static bool is_of_this_machine(int fd)
{
    rt_address own = {0}, other = {0};
    socklen_t size = sizeof own, osize = sizeof other;
    getsockname(fd, &own.any, &size);
    getpeername(fd, &other.any, &osize);
    rt_spot a = rt_address_spot(&own), b = rt_address_spot(&other);
    return a.version == b.version && memcmp(a.at, b.at, sizeof a.at) == 0;
}

/* Sets keepalive on the lines of words. A line of messages may be silent as long as the other
 * rank computes. Words are short and always read: if the other kernel does not acknowledge a
 * word or a probe, its machine is gone. */
static void watch_machines(const rt_tcp *w)
{
    for (int i = 0; i < w->size; i++) {
        int fd = w->line[RT_WORDS][i];
        if (fd < 0 || is_of_this_machine(fd))
            continue;
        rt_tcp_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_SECONDS);
        rt_tcp_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SECONDS);
        rt_tcp_set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
        rt_tcp_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, SILENCE_MS);
        rt_tcp_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    }
}

/* ---- calling --------------------------------------------------------------------------------- */

static void call_again(meeting *m, int rank, const char *why)
{
    caller *k = &m->caller[rank];
    if (k->call.fd >= 0)
        close(k->call.fd);
    k->call.fd = -1;
    k->why = why;
    k->again = rt_now_ns() + k->wait_ms * MS;
    k->wait_ms = 2 * k->wait_ms < RETRY_MAX_MS ? 2 * k->wait_ms : RETRY_MAX_MS;
    if (rank == 0)
        m->turn++;
}

/* Calls the rank for the first line to it that is missing. */
static void begin_call(meeting *m, int rank)
{
    caller *k = &m->caller[rank];
    rt_doors *d = &m->doors;
    if (rank == 0 && (!d->nfound || m->turn % d->nfound == 0)) {
        d->unknown = rt_doors_find(d, &m->place);
        if (d->unknown) {
            call_again(m, rank, d->unknown);
            return;
        }
    }
    k->call = (rt_call){.rank = rank,
                        .line = m->wire->line[RT_MESSAGES][rank] < 0 ? RT_MESSAGES : RT_WORDS,
                        .began = rt_now_ns(),
                        .other = rank ? rt_spot_address(&m->spot[rank], &d->near)
                                      : d->found[m->turn % d->nfound]};
    k->call.fd = rt_tcp_socket(&k->call.other);
    if (k->call.fd < 0 ||
        (connect(k->call.fd, &k->call.other.any, rt_address_bytes(&k->call.other)) &&
         errno != EINPROGRESS))
        call_again(m, rank, strerror(errno));
}

/* A call to a port of this machine where no process listens may get that port as its own, and
 * then connects to itself. */
static bool reached_itself(const rt_call *c, const rt_address *near)
{
    return memcmp(near, &c->other, rt_address_bytes(near)) == 0;
}

static void connected(meeting *m, int rank)
{
    caller *k = &m->caller[rank];
    rt_address near = {0};
    socklen_t size = sizeof near, esize = sizeof(int);
    int e = 0;
    getsockopt(k->call.fd, SOL_SOCKET, SO_ERROR, &e, &esize);
    if (!e && getsockname(k->call.fd, &near.any, &size))
        e = errno;
    if (e || reached_itself(&k->call, &near)) {
        call_again(m, rank, strerror(e ? e : ECONNREFUSED));
        return;
    }
    if (rank == 0 && k->call.line == RT_MESSAGES) /* now the address that reaches rank 0 is known */
        m->party.door = rt_doors_open(&m->doors, &near);
    rt_call_begin(&m->party, &k->call);
    if (k->call.stage == RT_CALL_OVER)
        call_again(m, rank, "it hung up");
}

static void caller_goes_on(meeting *m, int rank)
{
    caller *k = &m->caller[rank];
    if (k->call.stage == RT_CALL_CONNECTS) {
        connected(m, rank);
        return;
    }
    const char *why = rt_call_go_on(&m->party, &k->call);
    if (k->call.stage == RT_CALL_OVER) {
        call_again(m, rank, why);
    } else if (k->call.stage == RT_CALL_MET) {
        stand(m, &k->call);
        k->call.fd = -1;
        k->wait_ms = RETRY_MS;
        if (rank == 0 && stands(m, 0))
            turn_clock(m);
    }
}

/* Calls the nearest ranks first, so that the ranks do not all call the same one. */
static void call_others(meeting *m)
{
    int64_t now = rt_now_ns();
    int calls = 0;
    for (int i = knows_spots(m) ? m->wire->rank - 1 : 0; i >= 0 && m->wire->rank; i--) {
        caller *k = &m->caller[i];
        if (k->call.fd >= 0 && now - k->call.began > CALL_SECONDS * SECOND)
            call_again(m, i, "no answer");
        else if (k->call.fd < 0 && !stands(m, i) && now >= k->again && calls < CALLS)
            begin_call(m, i);
        calls += k->call.fd >= 0;
    }
}

/* ---- being called ---------------------------------------------------------------------------- */

/* Closes the connection. Notes it once for each address and reason, and at most NOTES times. */
static void send_away(meeting *m, rt_call *c, const char *why)
{
    rt_address_text at = rt_address_say(&c->other);
    char *end = strstr(at.text, " port ");
    uint64_t key = mg_key(why);
    char kept = *end;
    *end = 0;
    key ^= rt_mix64(mg_key(at.text));
    *end = kept;
    close(c->fd);
    c->fd = -1;
    for (int i = 0; i < m->nnotes; i++)
        if (m->noted_of[i] == key)
            return;
    if (m->nnotes == NOTES)
        return;
    m->noted_of[m->nnotes++] = key;
    rt_note("a process that called from %s was sent away: %s", at.text, why);
}

/* A free place for a new caller; if all are taken, the place of the oldest. */
static rt_call *place_for_guest(meeting *m)
{
    rt_call *oldest = &m->guest[0];
    for (int i = 0; i < m->nguests; i++) {
        if (m->guest[i].fd < 0)
            return &m->guest[i];
        if (m->guest[i].began < oldest->began)
            oldest = &m->guest[i];
    }
    send_away(m, oldest, "too many call at once");
    return oldest;
}

static void let_in(meeting *m, int door)
{
    for (int i = 0; i < m->nguests; i++) {
        rt_address other = {0};
        socklen_t size = sizeof other;
        int s = accept4(door, &other.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (s < 0)
            return;
        *place_for_guest(m) = (rt_call){.fd = s,
                                        .stage = RT_CALL_AWAITS_HELLO,
                                        .rank = -1,
                                        .line = -1,
                                        .began = rt_now_ns(),
                                        .other = other};
    }
}

static void guest_goes_on(meeting *m, rt_call *c)
{
    const char *why = rt_call_go_on(&m->party, c);
    if (c->stage == RT_CALL_OVER) {
        send_away(m, c, why);
    } else if (c->stage == RT_CALL_MET) {
        stand(m, c);
        if (!m->wire->rank && c->line == RT_MESSAGES)
            m->spot[c->rank] = c->door;
        c->fd = -1;
    }
}

static void send_slow_away(meeting *m)
{
    int64_t now = rt_now_ns();
    for (int i = 0; i < m->nguests; i++)
        if (m->guest[i].fd >= 0 && now - m->guest[i].began > CALL_SECONDS * SECOND)
            send_away(m, &m->guest[i], "it did not say who it is");
}

/* ---- where the others are -------------------------------------------------------------------- */

static _Noreturn void is_gone(int rank)
{
    rt_die(RT_LOST, "rank %d hung up before all had met: it says why", rank);
}

static void tell_spots(const meeting *m)
{
    for (int i = 1; i < m->wire->size; i++) {
        const char *from = (const char *)m->spot;
        size_t left = sizeof *m->spot * (size_t)m->wire->size;
        while (left) {
            struct pollfd p = {m->wire->line[RT_MESSAGES][i], POLLOUT, 0};
            ssize_t n = send(p.fd, from, left, MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
                is_gone(i);
            if (n < 0 && poll(&p, 1, CALL_SECONDS * 1000) == 0)
                is_gone(i);
            from += n > 0 ? n : 0;
            left -= n > 0 ? (size_t)n : 0;
        }
    }
}

static void hear_spots(meeting *m)
{
    int64_t all = (int64_t)sizeof *m->spot * m->wire->size;
    ssize_t n = recv(m->wire->line[RT_MESSAGES][0], (char *)m->spot + m->told,
                     (size_t)(all - m->told), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        is_gone(0);
    m->told += n > 0 ? n : 0;
    if (knows_spots(m))
        turn_clock(m);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void look_at(meeting *m, int fd, short events, polled of)
{
    if (fd < 0)
        return;
    m->poll[m->npoll] = (struct pollfd){fd, events, 0};
    m->of[m->npoll++] = of;
}

/* Lines that stand are many: they are polled only once a tick. */
static void gather_polled(meeting *m)
{
    const rt_tcp *w = m->wire;
    int64_t now = rt_now_ns();
    m->npoll = 0;
    if (w->rank && !knows_spots(m))
        look_at(m, w->line[RT_MESSAGES][0], POLLIN | POLLRDHUP, (polled){LINE, 0, RT_MESSAGES});
    for (int line = 0; line < RT_LINES && now - m->looked > TICK_MS * MS; line++)
        for (int i = 0; i < w->size; i++)
            look_at(m, w->line[line][i], POLLRDHUP, (polled){LINE, i, line});
    if (now - m->looked > TICK_MS * MS)
        m->looked = now;
    for (int i = 0; i < w->rank; i++)
        look_at(m, m->caller[i].call.fd,
                m->caller[i].call.stage == RT_CALL_CONNECTS ? POLLOUT : POLLIN,
                (polled){CALLER, i, 0});
    for (int i = 0; i < m->nguests; i++)
        look_at(m, m->guest[i].fd, POLLIN, (polled){GUEST, i, 0});
    for (int i = 0; i < m->doors.n; i++)
        look_at(m, m->doors.fd[i], POLLIN, (polled){DOOR, i, 0});
}

static void go_on(meeting *m)
{
    gather_polled(m);
    if (poll(m->poll, (nfds_t)m->npoll, TICK_MS) <= 0)
        return;
    for (int i = 0; i < m->npoll; i++) {
        const struct pollfd *p = &m->poll[i];
        const polled *of = &m->of[i];
        if (!p->revents)
            continue;
        if (of->kind == LINE && p->revents & POLLIN)
            hear_spots(m);
        else if (of->kind == LINE)
            is_gone(of->of);
        else if (of->kind == CALLER && m->caller[of->of].call.fd == p->fd)
            caller_goes_on(m, of->of);
        else if (of->kind == GUEST && m->guest[of->of].fd == p->fd)
            guest_goes_on(m, &m->guest[of->of]);
        else if (of->kind == DOOR && of->of < m->doors.n && m->doors.fd[of->of] == p->fd)
            let_in(m, p->fd);
    }
}

static void make_room(meeting *m)
{
    size_t size = (size_t)m->wire->size;
    m->nguests = m->wire->size + STRANGERS;
    m->guest = rt_alloc((size_t)m->nguests, sizeof *m->guest);
    m->caller = rt_alloc(size, sizeof *m->caller);
    size_t all = RT_LINES * size + 1 + size + (size_t)m->nguests + RT_DOORS;
    m->poll = rt_alloc(all, sizeof *m->poll);
    m->of = rt_alloc(all, sizeof *m->of);
    for (int i = 0; i < m->nguests; i++)
        m->guest[i].fd = -1;
    for (int i = 0; i < m->wire->size; i++)
        m->caller[i] = (caller){.call = {.fd = -1}, .wait_ms = RETRY_MS};
}

static void clear(meeting *m)
{
    rt_doors_close(&m->doors);
    for (int i = 0; i < m->nguests; i++)
        if (m->guest[i].fd >= 0)
            close(m->guest[i].fd);
    explicit_bzero(m->place.secret, sizeof m->place.secret);
    free(m->place.job);
    free(m->guest);
    free(m->caller);
    free(m->poll);
    free(m->of);
}

void rt_tcp_meet(rt_tcp *w, const rt_wire_terms *t)
{
    meeting m = {.wire = w, .limit = t->limit, .began = rt_now_ns()};
    rt_tcp_place_read(&m.place, t->world);
    m.party = (rt_party){.wire = w,
                         .secret = m.place.secret,
                         .job_text = m.place.job,
                         .job = mg_key(m.place.job),
                         .program = t->program,
                         .generation = (uint32_t)t->world->generation};
    make_room(&m);
    allow_files(&m);
    for (int line = 0; line < RT_LINES; line++)
        for (int i = 0; i < MG_RANKS_MAX; i++)
            w->line[line][i] = -1;
    while (!all_stand(&m) || !knows_spots(&m)) {
        be_patient(&m);
        if (!w->rank && !m.doors.n)
            rt_doors_open_main(&m.doors, &m.place);
        call_others(&m);
        send_slow_away(&m);
        go_on(&m);
    }
    if (!w->rank)
        tell_spots(&m);
    watch_machines(w);
    clear(&m);
}
