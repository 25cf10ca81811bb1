/* line.c - a connection to a keeper. Both ends prove that they know the key before either believes
 * anything:
 *
 *   caller   hello: a random number
 *   keeper   its own hello, MAC(keeper, both hellos)
 *   caller   MAC(caller, both hellos)
 *
 * Nothing is encrypted, and pieces have checksums alone, as messages between ranks. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/keeper/keeper.h"
#include "runtime/net/wire_tcp.h"
#include "runtime/run.h"

enum { CALL_MS = 3000, BUFFER = 64 << 10, IDLE_SECONDS = 5, PROBE_SECONDS = 2, PROBES = 3 };
static const char magic[8] = "mgckeep";

typedef struct hello {
    char magic[8];
    uint32_t version, zero;
    uint8_t nonce[16];
} hello;

_Static_assert(sizeof(hello) == 32 && sizeof(rt_keep_word) == 56, "nothing between the fields");

bool rt_keep_send(int fd, const void *p, size_t n)
{
    for (const char *from = p; n;) {
        const ssize_t done = send(fd, from, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            errno = errno == EAGAIN || errno == EWOULDBLOCK ? ETIMEDOUT : errno;
            return false;
        }
        from += done;
        n -= (size_t)done;
    }
    return true;
}

bool rt_keep_take(int fd, void *p, size_t n)
{
    for (char *to = p; n;) {
        const ssize_t came = recv(fd, to, n, MSG_WAITALL);
        if (came < 0 && errno == EINTR)
            continue;
        if (came <= 0) {
            errno = !came                                     ? ECONNRESET
                    : errno == EAGAIN || errno == EWOULDBLOCK ? ETIMEDOUT
                                                              : errno;
            return false;
        }
        to += came;
        n -= (size_t)came;
    }
    return true;
}

/* ---- who they are ---------------------------------------------------------------------------- */

static hello new_hello(void)
{
    hello h = {.version = 1};
    memcpy(h.magic, magic, sizeof magic);
    if (getrandom(h.nonce, sizeof h.nonce, 0) != sizeof h.nonce)
        memset(&h, 0, sizeof h); /* no proof comes of it */
    return h;
}

static void testify(const uint8_t *key, const char *role, const hello *caller, const hello *callee,
                    uint8_t mac[RT_MAC_BYTES])
{
    struct {
        char role[8];
        hello caller, callee;
    } t = {.caller = *caller, .callee = *callee};
    memcpy(t.role, role, strlen(role));
    rt_siphash(key, &t, sizeof t, mac);
}

static void set_limits(int fd, int seconds)
{
    const struct timeval limit = {.tv_sec = seconds};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO,
               &(struct timeval){.tv_sec = seconds ? seconds : RT_KEEP_SECONDS}, sizeof limit);
}

static void keep_alive(int fd)
{
    rt_tcp_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    rt_tcp_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_SECONDS);
    rt_tcp_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SECONDS);
    rt_tcp_set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    rt_tcp_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

bool rt_keep_admits(int fd, const uint8_t key[RT_KEY_BYTES])
{
    hello theirs, mine = new_hello();
    uint8_t mac[RT_MAC_BYTES], want[RT_MAC_BYTES];
    set_limits(fd, RT_KEEP_SECONDS);
    keep_alive(fd);
    if (!rt_keep_take(fd, &theirs, sizeof theirs) || memcmp(theirs.magic, magic, sizeof magic) ||
        theirs.version != mine.version)
        return false;
    testify(key, "keeper", &theirs, &mine, mac);
    if (!rt_keep_send(fd, &mine, sizeof mine) || !rt_keep_send(fd, mac, sizeof mac) ||
        !rt_keep_take(fd, mac, sizeof mac))
        return false;
    testify(key, "caller", &theirs, &mine, want);
    set_limits(fd, 0); /* it may rest as long as the program computes */
    return rt_same_mac(mac, want);
}

static bool is_admitted(int fd, const uint8_t *key)
{
    const hello mine = new_hello();
    hello theirs;
    uint8_t mac[RT_MAC_BYTES], want[RT_MAC_BYTES];
    if (!rt_keep_send(fd, &mine, sizeof mine) || !rt_keep_take(fd, &theirs, sizeof theirs) ||
        !rt_keep_take(fd, mac, sizeof mac))
        return false;
    testify(key, "keeper", &mine, &theirs, want);
    if (!rt_same_mac(mac, want)) {
        errno = EACCES;
        return false;
    }
    testify(key, "caller", &mine, &theirs, mac);
    return rt_keep_send(fd, mac, sizeof mac);
}

/* ---- the caller ------------------------------------------------------------------------------ */

/* A connected socket, whose calls wait; -1 with errno. */
static int connect_to(const rt_address *a)
{
    int error = 0;
    socklen_t size = sizeof error;
    const int fd =
        socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (fd < 0)
        return -1;
    struct pollfd p = {fd, POLLOUT, 0};
    if (connect(fd, &a->any, rt_address_bytes(a)) && errno != EINPROGRESS)
        error = errno;
    else if (poll(&p, 1, CALL_MS) != 1)
        error = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    if (error) {
        close(fd);
        errno = error;
        return -1;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    set_limits(fd, RT_KEEP_SECONDS);
    keep_alive(fd);
    return fd;
}

int rt_keeper_of(const rt_keepers *k, int rank)
{
    for (int i = 0; i < k->n; i++)
        if ((k->of[i].rank == rank || k->of[i].rank == RT_KEEPS_ALL) && k->of[i].spot.version)
            return i;
    return -1;
}

bool rt_keep_call(rt_keep_line *l, const rt_keepers *k, int which)
{
    const rt_address near = {0};
    *l = (rt_keep_line){.fd = -1};
    if (which < 0 || !k->of[which].spot.version) {
        errno = ENOTCONN;
        return false;
    }
    const rt_address a = rt_spot_address(&k->of[which].spot, &near);
    l->fd = connect_to(&a);
    if (l->fd < 0)
        return false;
    l->out = rt_alloc(BUFFER, 1);
    if (is_admitted(l->fd, k->key))
        return true;
    const int e = errno;
    rt_keep_close(l);
    errno = e;
    return false;
}

void rt_keep_close(rt_keep_line *l)
{
    if (l->fd >= 0)
        close(l->fd);
    free(l->out);
    *l = (rt_keep_line){.fd = -1};
}

bool rt_keep_flush(rt_keep_line *l)
{
    const size_t n = l->n;
    l->n = 0;
    return rt_keep_send(l->fd, l->out, n);
}

static bool put(rt_keep_line *l, const void *p, size_t n)
{
    if (l->n + n > BUFFER && !rt_keep_flush(l))
        return false;
    if (n > BUFFER)
        return rt_keep_send(l->fd, p, n);
    memcpy(l->out + l->n, p, n);
    l->n += n;
    return true;
}

bool rt_keep_say(rt_keep_line *l, const rt_keep_word *w, const void *data)
{
    return put(l, w, sizeof *w) && (w->kind != RT_KEEP_PUT || put(l, data, (size_t)w->bytes));
}

bool rt_keep_ask(rt_keep_line *l, const rt_keep_word *w, rt_keep_word *answer)
{
    return rt_keep_say(l, w, NULL) && rt_keep_flush(l) &&
           rt_keep_take(l->fd, answer, sizeof *answer);
}

bool rt_keep_hear(rt_keep_line *l, void *data, int64_t bytes)
{
    return rt_keep_take(l->fd, data, (size_t)bytes);
}
