/* rendezvous.c - lets the processes of one machine find each other.
 *
 * The first process listens at a socket of the abstract namespace. The name of the socket comes
 * from what the launcher tells only the processes of this job. The other processes connect, say
 * their rank, and get the shared memory. No file is left behind: the kernel frees the name when
 * its process ends for any reason, and the memory when the last process that has it ends. The
 * name need not be secret: both sides ask the kernel for the owner of the other process, and a
 * process of another user is sent away. The connections stay open: a broken connection means
 * that a rank is gone. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/machine.h"

typedef struct hello {
    char magic[8];
    int32_t rank, of;
    uint64_t fingerprint;
} hello;

static const char magic[8] = "mgcrank";
enum { RETRY_MS = 10, NOTE_MS = 5000, HELLO_SECONDS = 5 };

static socklen_t name_of(struct sockaddr_un *at, const char *job)
{
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "mgc-%u-%016llx-%016llx",
                     (unsigned)geteuid(), (unsigned long long)mg_key(job),
                     (unsigned long long)rt_mix64(mg_key(job) ^ strlen(job)));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_ours(int s)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

static int make_socket(void)
{
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        rt_die(RT_FAILED, "no socket to meet the other ranks: %s", strerror(errno));
    return s;
}

/* The missing ranks: "2, 5". The caller frees it. */
static char *missing(const struct rt_ranks *k)
{
    char *text = NULL;
    for (int i = 1; i < k->nhere; i++) {
        if (k->link[k->here[i]] >= 0)
            continue;
        char *longer = text ? rt_printf("%s, %d", text, k->here[i]) : rt_printf("%d", k->here[i]);
        free(text);
        text = longer;
    }
    return text;
}

/* Prints a note once if the wait is long, and ends the program if it is too long. */
static void be_patient(const struct rt_ranks *k, int me, int64_t began, double limit, bool *noted)
{
    int64_t ms = (rt_now_ns() - began) / 1000000;
    bool over = limit > 0 && (double)ms >= limit * 1000;
    if (!over && (*noted || ms < NOTE_MS))
        return;
    char *who = me == k->here[0] ? missing(k) : rt_printf("%d", k->here[0]);
    if (over)
        rt_die(RT_LOST, "rank %s has not come in %.3g s: was it started on this machine?", who,
               limit);
    rt_note("waiting for rank %s", who);
    *noted = true;
    free(who);
}

/* ---- the first ------------------------------------------------------------------------------- */

static void give(int s, int fd)
{
    char byte = 1, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (sendmsg(s, &m, MSG_NOSIGNAL) != 1)
        rt_die(RT_LOST, "a rank hung up before it had the shared memory: %s", strerror(errno));
}

/* The rank that connected, or -1: not a rank of this job. */
static int who_is_it(const struct rt_ranks *k, int s, uint64_t fingerprint)
{
    struct timeval limit = {.tv_sec = HELLO_SECONDS}, none = {0};
    hello h;
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (!is_ours(s) || recv(s, &h, sizeof h, MSG_WAITALL) != sizeof h ||
        memcmp(h.magic, magic, sizeof magic))
        return -1;
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    if (h.fingerprint != fingerprint || h.of != k->n)
        rt_die(RT_MISFIT, "rank %d runs another program than rank %d: all have to run the same",
               h.rank, k->here[0]);
    if (h.rank < 0 || h.rank >= k->n || !k->is_here[h.rank] || h.rank == k->here[0])
        rt_die(RT_MISFIT, "a process calls itself rank %d, which is not one of this machine's",
               h.rank);
    if (k->link[h.rank] >= 0)
        rt_die(RT_MISFIT, "two processes call themselves rank %d", h.rank);
    return h.rank;
}

static void receive_all(struct rt_ranks *k, const char *job, uint64_t fingerprint, double limit,
                        int fd)
{
    struct sockaddr_un at;
    socklen_t size = name_of(&at, job);
    int64_t began = rt_now_ns();
    bool noted = false;
    int door = make_socket();
    if (bind(door, (struct sockaddr *)&at, size) || listen(door, MG_RANKS_MAX))
        rt_die(RT_LOST,
               errno == EADDRINUSE ? "another job on this machine has the same name (%s): %s"
                                   : "no place to meet the other ranks (%s): %s",
               job, strerror(errno));
    for (int met = 1; met < k->nhere;) {
        struct pollfd p = {door, POLLIN, 0};
        be_patient(k, k->here[0], began, limit, &noted);
        int s = poll(&p, 1, RETRY_MS) > 0 ? accept4(door, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (s < 0)
            continue;
        int rank = who_is_it(k, s, fingerprint);
        if (rank < 0) {
            close(s);
            continue;
        }
        give(s, fd);
        k->link[rank] = s;
        met++;
    }
    close(door);
}

/* ---- the others ------------------------------------------------------------------------------ */

static int take(int s)
{
    char byte = 0, room[CMSG_SPACE(sizeof(int))];
    struct iovec data = {&byte, 1};
    struct msghdr m = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd = -1;
    ssize_t n;
    while ((n = recvmsg(s, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    struct cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

static int call(struct rt_ranks *k, const char *job, int me, uint64_t fingerprint, double limit)
{
    struct sockaddr_un at;
    socklen_t size = name_of(&at, job);
    int64_t began = rt_now_ns();
    bool noted = false;
    for (;;) {
        int s = make_socket();
        if (connect(s, (struct sockaddr *)&at, size) == 0) {
            hello h = {.rank = me, .of = k->n, .fingerprint = fingerprint};
            memcpy(h.magic, magic, sizeof magic);
            if (!is_ours(s))
                rt_die(RT_LOST, "a process of another user sits where rank %d should be (%s)",
                       k->here[0], job);
            int fd = send(s, &h, sizeof h, MSG_NOSIGNAL) == sizeof h ? take(s) : -1;
            k->link[k->here[0]] = s;
            if (fd >= 0)
                return fd;
            rt_die(RT_LOST, "rank %d hung up: it says why", k->here[0]);
        }
        close(s);
        be_patient(k, me, began, limit, &noted);
        poll(NULL, 0, RETRY_MS);
    }
}

void rt_rendezvous(struct rt_ranks *k, const char *job, int me, uint64_t fingerprint, double limit,
                   int *fd)
{
    if (me == k->here[0])
        receive_all(k, job, fingerprint, limit, *fd);
    else
        *fd = call(k, job, me, fingerprint, limit);
}
