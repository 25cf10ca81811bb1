/* roll.c - words between members and their coordinator; see roll.h. */
#include "runtime/elastic/roll.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime/run.h"

enum { VERSION = 2 };
static const char magic[8] = "mgcroll";
/* A machine that vanished is found by this silence. */
enum { IDLE_SECONDS = 2, PROBE_SECONDS = 1, PROBES = 2, SILENCE_MS = 3500 };

_Static_assert(sizeof(rt_roll_hello) == 48, "nothing between the fields");

/* ---- the line -------------------------------------------------------------------------------- */

/* Cannot block: few words are on their way at a time, and a socket's buffer has room for them. */
static bool send_all(rt_roll_line *l, const void *what, size_t bytes)
{
    return send(l->fd, what, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

void rt_roll_open(rt_roll_line *l, const rt_roll_party *p, int fd, bool calls)
{
    *l = (rt_roll_line){.fd = fd, .calls = calls, .said_ns = rt_now_ns(), .heard_ns = rt_now_ns()};
    l->mine = (rt_roll_hello){.version = VERSION,
                              .member = (uint32_t)p->member,
                              .members = (uint32_t)p->members,
                              .job = p->job};
    memcpy(l->mine.magic, magic, sizeof magic);
    if (getrandom(l->mine.nonce, sizeof l->mine.nonce, 0) != sizeof l->mine.nonce)
        rt_die(RT_FAILED, "no random numbers: %s", strerror(errno));
    rt_tcp_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    rt_tcp_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_SECONDS);
    rt_tcp_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SECONDS);
    rt_tcp_set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    rt_tcp_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, SILENCE_MS);
    rt_tcp_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    send_all(l, &l->mine, sizeof l->mine); /* a failure shows at the next word */
}

void rt_roll_close(rt_roll_line *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

typedef struct testimony {
    char role[8];
    rt_roll_hello caller, callee;
    uint64_t number;
    rt_roll_word word;
} testimony;

static void testify(const rt_roll_line *l, const rt_roll_party *p, bool of_caller, uint64_t number,
                    const rt_roll_word *w, uint8_t mac[RT_MAC_BYTES])
{
    testimony *t = rt_alloc(1, sizeof *t);
    memcpy(t->role, of_caller ? "member" : "leader", 6);
    t->caller = l->calls ? l->mine : l->theirs;
    t->callee = l->calls ? l->theirs : l->mine;
    t->number = number;
    memcpy(&t->word, w, sizeof *w);
    rt_siphash(p->secret, t, sizeof *t, mac);
    free(t);
}

bool rt_roll_say(rt_roll_line *l, const rt_roll_party *p, const rt_roll_word *w)
{
    struct {
        rt_roll_word word;
        uint8_t mac[RT_MAC_BYTES];
    } *out;
    if (!l->greeted)
        return false;
    out = rt_alloc(1, sizeof *out);
    memcpy(&out->word, w, sizeof *w);
    testify(l, p, l->calls, l->said++, &out->word, out->mac);
    l->said_ns = rt_now_ns();
    const bool good = send_all(l, out, sizeof *out);
    free(out);
    return good;
}

/* 1: all bytes have come. */
static int take(rt_roll_line *l, void *to, size_t bytes)
{
    while (l->came < bytes) {
        ssize_t n = recv(l->fd, (char *)to + l->came, bytes - l->came, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n <= 0)
            return -1;
        l->came += (size_t)n;
    }
    l->came = 0;
    return 1;
}

static const char *unfit(const rt_roll_line *l, const rt_roll_party *p)
{
    const rt_roll_hello *h = &l->theirs;
    if (memcmp(h->magic, magic, sizeof magic))
        return "it says something else than a supervisor would";
    if (h->version != VERSION)
        return "its program was made by another version of mgc";
    if (h->job != p->job)
        return "it is of another job";
    if (h->members != (uint32_t)p->members || h->member >= h->members)
        return "it is of a job of another number of ranks";
    return NULL;
}

int rt_roll_hear(rt_roll_line *l, const rt_roll_party *p, rt_roll_word *w, const char **why)
{
    uint8_t mac[RT_MAC_BYTES];
    *why = NULL;
    if (!l->greeted) {
        const int came = take(l, &l->theirs, sizeof l->theirs);
        if (came <= 0)
            return came;
        if ((*why = unfit(l, p)))
            return -1;
        l->greeted = true;
        return 0;
    }
    const int came = take(l, &l->in, sizeof l->in);
    if (came <= 0)
        return came;
    testify(l, p, !l->calls, l->heard++, &l->in.word, mac);
    if (!rt_same_mac(mac, l->in.mac)) {
        *why = "it has another MGC_SECRET";
        return -1;
    }
    l->heard_ns = rt_now_ns();
    memcpy(w, &l->in.word, sizeof *w);
    w->cause[RT_CAUSE - 1] = 0;
    return 1;
}

/* ---- the mark -------------------------------------------------------------------------------- */

static char *mark_path(const char *out)
{
    return rt_printf("%s/.run", out);
}

void rt_mark_leave(const char *out, uint64_t mark)
{
    rt_make_directories(out);
    char *path = mark_path(out);
    FILE *f = rt_file_create(path);
    if (!f || fprintf(f, "%016" PRIx64 "\n", mark) < 0 || fclose(f))
        rt_die(RT_IO, "%s: %s", path, rt_file_error());
    free(path);
}

bool rt_mark_is_there(const char *out, uint64_t mark)
{
    char text[32] = "", *path = mark_path(out);
    const int fd = rt_file_open(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    free(path);
    return n > 0 && strtoull(text, NULL, 16) == mark;
}
