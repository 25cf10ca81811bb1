/* wire_tcp.c - sends messages and words over the lines that wire_tcp_meet.c made.
 *
 * The messages that have begun form a list. A rank that waits for any message drives the whole
 * list, as far as the sockets accept and give bytes without waiting. The order in which two ranks
 * begin their messages, and the size of the messages, therefore cannot cause a deadlock: a rank
 * that cannot send still takes.
 *
 * A broken connection means that the rank at its other end is gone. The watchdog sees that at
 * the line of words and ends the process; the code here only waits for that. */
#include "runtime/net/wire_tcp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "runtime/run.h"

enum { WAIT_MS = 1, PATIENCE = 10 };
#define SECOND ((int64_t)1000000000)

static bool start(void *p, const rt_wire_terms *t, int *rank, int *size)
{
    rt_tcp *w = p;
    w->rank = *rank = t->world->rank;
    w->size = *size = t->world->size;
    w->limit = (int64_t)(t->limit * 1e9);
    pthread_mutex_init(&w->voice, NULL);
    rt_tcp_meet(w, t);
    return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void begin(rt_tcp *w, int rank, bool sends, const void *at, int bytes, rt_ticket *t)
{
    w->op[w->n++] = (rt_tcp_op){rank, sends, (char *)(uintptr_t)at, bytes, t};
    t->left++;
    w->ready[rank] = POLLIN | POLLOUT;
}

static void send_to(void *p, int rank, const void *from, int bytes, rt_ticket *t)
{
    begin(p, rank, true, from, bytes, t);
}

static void take_from(void *p, int rank, void *to, int bytes, rt_ticket *t)
{
    begin(p, rank, false, to, bytes, t);
}

static void breaks(rt_tcp *w, int rank)
{
    w->gone[rank] = true;
    w->broke = w->broke ? w->broke : rt_now_ns();
}

/* Moves one message as far as possible without waiting; returns the bytes moved, or 0. */
static int64_t move_one(rt_tcp *w, const rt_tcp_op *o)
{
    int fd = w->line[RT_MESSAGES][o->rank];
    ssize_t n;
    do
        n = o->sends ? send(fd, o->at, (size_t)o->left, MSG_NOSIGNAL | MSG_DONTWAIT)
                     : recv(fd, o->at, (size_t)o->left, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        w->ready[o->rank] &= (short)(o->sends ? ~POLLOUT : ~POLLIN);
    else if (n <= 0)
        breaks(w, o->rank);
    return n > 0 ? n : 0;
}

/* Moves each message once, but no message before an earlier one between the same two ranks in
 * the same direction. True if bytes moved. Removes messages that are done from the list. */
static bool move(rt_tcp *w)
{
    short waits[MG_RANKS_MAX] = {0};
    bool moved = false;
    int left = 0;
    for (int i = 0; i < w->n; i++) {
        rt_tcp_op o = w->op[i];
        short way = o.sends ? POLLOUT : POLLIN;
        if (o.left && w->ready[o.rank] & ~waits[o.rank] & way && !w->gone[o.rank]) {
            int64_t n = move_one(w, &o);
            o.at += n;
            o.left -= n;
            moved = moved || n;
        }
        if (o.left && !(w->ends && w->gone[o.rank])) {
            waits[o.rank] |= way;
            w->op[left++] = o;
        } else {
            o.ticket->left--;
        }
    }
    w->n = left;
    return moved;
}

/* Waits until a message can move, for at most `ms`. */
static bool await(rt_tcp *w, int ms)
{
    struct pollfd p[MG_RANKS_MAX];
    int rank[MG_RANKS_MAX], n = 0;
    short wanted[MG_RANKS_MAX] = {0};
    for (int i = 0; i < w->n; i++)
        wanted[w->op[i].rank] |= w->op[i].sends ? POLLOUT : POLLIN;
    for (int i = 0; i < w->size; i++)
        if (wanted[i] && !w->gone[i]) {
            p[n] = (struct pollfd){w->line[RT_MESSAGES][i], wanted[i], 0};
            rank[n++] = i;
        }
    if (poll(p, (nfds_t)n, ms) <= 0)
        return false;
    for (int i = 0; i < n; i++) /* a broken socket reports its error when it is used */
        w->ready[rank[i]] |= p[i].revents & (POLLERR | POLLHUP) ? wanted[rank[i]] : p[i].revents;
    return true;
}

/* Without a ticket each message moves once: the caller waits for something else. */
static bool go_on(void *p, const rt_ticket *t)
{
    rt_tcp *w = p;
    while (t && t->left && (move(w) || await(w, WAIT_MS)))
        continue;
    if (!t && w->n) {
        await(w, 0);
        move(w);
    }
    if (w->n && w->broke && !w->ends && rt_now_ns() - w->broke > PATIENCE * SECOND)
        for (int i = 0; i < w->size; i++)
            if (w->gone[i])
                rt_die(RT_LOST, "the connection to rank %d is broken", i);
    return w->n;
}

static int peer_of(void *p, const rt_ticket *t)
{
    const rt_tcp *w = p;
    for (int i = 0; i < w->n; i++)
        if (w->op[i].ticket == t)
            return w->op[i].rank;
    return -1;
}

/* Runs before the watchdog exists. Other ranks may still be connecting to each other, and may
 * give up: the grace time lets their message come first. */
static void gather(void *p, const void *mine, void *all, int bytes)
{
    enum { GRACE = 2 };
    rt_tcp *w = p;
    int64_t end = rt_now_ns() + w->limit + GRACE * SECOND;
    rt_ticket t = {0};
    for (int i = 0; i < w->size; i++) {
        char *to = (char *)all + (int64_t)i * bytes;
        if (i == w->rank) {
            memcpy(to, mine, (size_t)bytes);
        } else {
            send_to(w, i, mine, bytes, &t);
            take_from(w, i, to, bytes, &t);
        }
    }
    while (go_on(w, &t)) {
        for (int i = 0; i < w->size; i++)
            if (w->gone[i])
                rt_die(RT_LOST, "rank %d is gone: it says why", i);
        if (w->limit && rt_now_ns() > end)
            rt_die(RT_LOST, "rank %d has met all others, and then hangs: nothing comes from it",
                   peer_of(w, &t));
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Sends the rest of the last word; true if all of it is sent. */
static bool spoke(rt_tcp *w, int rank)
{
    const rt_word *word = &w->word[rank].to;
    int *left = &w->word[rank].left;
    if (*left) {
        ssize_t n = send(w->line[RT_WORDS][rank], (const char *)word + sizeof *word - *left,
                         (size_t)*left, MSG_NOSIGNAL | MSG_DONTWAIT);
        *left -= n > 0 ? (int)n : 0;
    }
    return !*left;
}

static void say(void *p, int rank, const rt_word *word)
{
    rt_tcp *w = p;
    pthread_mutex_lock(&w->voice);
    if (spoke(w, rank)) {
        w->word[rank].to = *word;
        w->word[rank].left = sizeof *word;
        spoke(w, rank);
    }
    pthread_mutex_unlock(&w->voice);
}

static bool hears(void *p, int rank, rt_word *word)
{
    rt_tcp *w = p;
    int *came = &w->word[rank].came;
    ssize_t n = recv(w->line[RT_WORDS][rank], (char *)&w->word[rank].from + *came,
                     sizeof *word - (size_t)*came, MSG_DONTWAIT);
    *came += n > 0 ? (int)n : 0;
    if (*came < (int)sizeof *word)
        return false;
    *came = 0;
    *word = w->word[rank].from;
    return true;
}

static int line_of(void *p, int rank)
{
    const rt_tcp *w = p;
    return w->line[RT_WORDS][rank];
}

/* The lines of words close with the process; no receive needs to be cancelled. */
static void silence(void *p)
{
    (void)p;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* All ranks first report to rank 0. A rank that closed its lines before the other ranks know of
 * the end would look like a rank that is gone. */
static void stop(void *p)
{
    rt_tcp *w = p;
    char byte = 0, came[MG_RANKS_MAX];
    int first = w->rank ? 0 : 1, last = w->rank ? 0 : w->size - 1;
    rt_ticket t = {0};
    w->ends = true;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = first; i <= last; i++)
            if ((turn == 0) == (w->rank == 0))
                take_from(w, i, &came[i], 1, &t);
            else
                send_to(w, i, &byte, 1, &t);
        while (t.left)
            go_on(w, &t);
    }
    for (int line = 0; line < RT_LINES; line++)
        for (int i = 0; i < w->size; i++)
            if (i != w->rank)
                close(w->line[line][i]);
}

/* Tells the other ranks; this process ends by itself. */
static void abort_here(void *p, int code)
{
    rt_tcp *w = p;
    for (int i = 0; i < w->size; i++) {
        if (i == w->rank)
            continue;
        say(w, i, &(rt_word){.parted = code + 1});
        shutdown(w->line[RT_WORDS][i], SHUT_WR);
    }
}

const rt_carrier rt_carrier_tcp = {.start = start,
                                   .stop = stop,
                                   .gather = gather,
                                   .send = send_to,
                                   .take = take_from,
                                   .go_on = go_on,
                                   .peer = peer_of,
                                   .say = say,
                                   .hears = hears,
                                   .line = line_of,
                                   .silence = silence,
                                   .abort = abort_here,
                                   .state_bytes = sizeof(rt_tcp)};
