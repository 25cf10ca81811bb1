/* wire_tcp_door.c - opens the sockets at which a rank listens while ranks meet: rank 0 at the
 * addresses of its machine that MASTER_ADDR names, each other rank at the address by which it
 * reached rank 0. A rank never listens at all addresses of its machine. */
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "runtime/run.h"
#include "runtime/net/wire_tcp.h"

/* A network may need some time to free a port, or to know a name. */
enum { PORT_SECONDS = 3, NAME_SECONDS = 10, RETRY_MS = 200 };

int rt_tcp_socket(const rt_address *a)
{
    int s = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
    if (s < 0 && errno != EAFNOSUPPORT)
        rt_die(RT_FAILED, "no socket to meet the other ranks: %s", strerror(errno));
    return s;
}

void rt_tcp_set(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

/* False: errno says why. */
static bool open_door(rt_doors *d, const rt_address *a)
{
    int s = rt_tcp_socket(a);
    if (s < 0)
        return false;
    rt_tcp_set(s, SOL_SOCKET, SO_REUSEADDR, 1);
    if (a->any.sa_family == AF_INET6)
        rt_tcp_set(s, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (bind(s, &a->any, rt_address_bytes(a)) || listen(s, SOMAXCONN)) {
        int e = errno;
        close(s);
        errno = e;
        return false;
    }
    d->near = *a;
    d->fd[d->n++] = s;
    return true;
}

void rt_doors_close(rt_doors *d)
{
    while (d->n)
        close(d->fd[--d->n]);
}

const char *rt_doors_find(rt_doors *d, const rt_tcp_place *p)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *list;
    char port[16];
    snprintf(port, sizeof port, "%d", p->port);
    int e = getaddrinfo(p->host, port, &wanted, &list);
    d->nfound = 0;
    if (e)
        return e == EAI_SYSTEM ? strerror(errno) : gai_strerror(e);
    for (struct addrinfo *i = list; i && d->nfound < RT_DOORS; i = i->ai_next) {
        rt_address *a = &d->found[d->nfound];
        if (i->ai_family != AF_INET && i->ai_family != AF_INET6)
            continue;
        *a = (rt_address){0};
        memcpy(a, i->ai_addr, i->ai_addrlen);
        if (rt_address_is_any(a))
            rt_die(RT_MISFIT,
                   "MASTER_ADDR is '%.100s', which stands for every address: set it to the one of "
                   "rank 0's machine that the others are to call",
                   p->host);
        d->nfound++;
    }
    freeaddrinfo(list);
    return d->nfound ? NULL : "it has no address of IPv4 or IPv6";
}

void rt_doors_open_main(rt_doors *d, const rt_tcp_place *p)
{
    int64_t now = rt_now_ns();
    int e = 0;
    d->began = d->began ? d->began : now;
    if (now < d->again)
        return;
    d->again = now + RETRY_MS * (int64_t)1000000;
    double waited = (double)(now - d->began) / 1e9;
    d->unknown = rt_doors_find(d, p);
    if (d->unknown && waited < NAME_SECONDS)
        return;
    if (d->unknown)
        rt_die(RT_MISFIT,
               "MASTER_ADDR is '%.100s': %s; set it to the name or address of this machine, where "
               "rank 0 is",
               p->host, d->unknown);
    for (int i = 0; i < d->nfound; i++)
        if (!open_door(d, &d->found[i]) && (!e || errno == EADDRINUSE))
            e = errno;
    if (d->n || waited < PORT_SECONDS)
        return;
    rt_address_text at = rt_address_say(&d->found[0]);
    if (e == EADDRINUSE)
        rt_die(RT_MISFIT,
               "%s is in use: set MGC_PORT to a port that is free on this machine, "
               "where rank 0 is, on all machines",
               at.text);
    rt_die(
        RT_MISFIT,
        "MASTER_ADDR is '%.100s' (%s), where this machine cannot listen (%s): set it to the name "
        "or address of this machine, where rank 0 is",
        p->host, at.text, strerror(e));
}

rt_spot rt_doors_open(rt_doors *d, const rt_address *near)
{
    rt_address a = *near;
    socklen_t size = sizeof a;
    rt_doors_close(d);
    if (a.any.sa_family == AF_INET6)
        a.v6.sin6_port = 0;
    else
        a.v4.sin_port = 0;
    if (!open_door(d, &a) || getsockname(d->fd[0], &a.any, &size))
        rt_die(RT_FAILED, "no port to be called at by the other ranks: %s", strerror(errno));
    return rt_address_spot(&a);
}
