/* wire_tcp.h - messages by TCP; private to the files wire_tcp*.c.
 *
 * Between every two ranks there are two connections, the lines: one for the messages of the main
 * thread, one for the words of the watchdog's. */
#ifndef MG_WIRE_TCP_H
#define MG_WIRE_TCP_H

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "runtime/net/siphash.h"
#include "runtime/net/wire.h"

enum { RT_MESSAGES, RT_WORDS, RT_LINES };

/* A message that is under way. */
typedef struct rt_tcp_op {
    int rank;
    bool sends;
    char *at;
    int64_t left;
    rt_ticket *ticket;
} rt_tcp_op;

typedef struct rt_tcp {
    int rank, size;
    int64_t limit;                    /* ns for which others are waited for; 0: for ever */
    int line[RT_LINES][MG_RANKS_MAX]; /* sockets; -1: to this rank itself */
    bool gone[MG_RANKS_MAX];          /* its line for messages is broken */
    int64_t broke;                    /* when the first of them broke, ns, or 0 */
    bool ends;                        /* nothing is waited for from those that are gone */
    int n;                            /* begun, and not done */
    rt_tcp_op op[RT_WIRE_PENDING];    /* in the order in which they were begun */
    short ready[MG_RANKS_MAX];        /* POLLIN, POLLOUT */
    pthread_mutex_t voice;            /* a thread that ends the process has last words, too */
    struct {                          /* words to a rank, and from it */
        rt_word to, from;
        int left, came; /* bytes */
    } word[MG_RANKS_MAX];
} rt_tcp;

/* wire_tcp_meet.c: makes all lines; ends the program where it cannot (69, 78). */
void rt_tcp_meet(rt_tcp *w, const rt_wire_terms *t);

/* ---- wire_tcp_place.c: where ranks meet, and how addresses are written ----------------------- */

typedef union rt_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} rt_address;

/* An address as one rank tells it to another. */
typedef struct rt_spot {
    uint32_t version; /* of IP: 4 or 6; 0: none */
    uint32_t port;
    uint8_t at[16];
} rt_spot;

typedef struct rt_tcp_place {
    const char *host; /* MASTER_ADDR */
    int port;
    uint8_t secret[RT_KEY_BYTES];
    char *job; /* what the processes of this job have in common on all machines; owned */
} rt_tcp_place;

/* Reads the environment; ends the program (78) where that does not say it. */
void rt_tcp_place_read(rt_tcp_place *p, const rt_world *w);
typedef struct rt_address_text {
    char text[80];
} rt_address_text;
rt_address_text rt_address_say(const rt_address *a); /* "10.0.0.1 port 29501" */
socklen_t rt_address_bytes(const rt_address *a);
bool rt_address_is_any(const rt_address *a); /* 0.0.0.0 or :: */
bool rt_address_is_loopback(const rt_address *a);
rt_spot rt_address_spot(const rt_address *a);
/* `near` is an address of this machine, by which it reaches the others. */
rt_address rt_spot_address(const rt_spot *s, const rt_address *near);

/* ---- wire_tcp_door.c: where a rank listens, while they meet -----------------------------------
 */

enum { RT_DOORS = 8 };
typedef struct rt_doors {
    int fd[RT_DOORS], n;
    rt_address near;            /* of this machine: of a door */
    rt_address found[RT_DOORS]; /* what MASTER_ADDR stands for */
    int nfound;
    const char *unknown;  /* why it stands for nothing, or NULL */
    int64_t began, again; /* ns: the first try to listen, not before the next */
} rt_doors;
/* Looks MASTER_ADDR up. NULL, or why it stands for nothing. */
const char *rt_doors_find(rt_doors *d, const rt_tcp_place *p);
/* Rank 0's, if they can be had yet; ends the program (78) where they have been tried long enough.
 */
void rt_doors_open_main(rt_doors *d, const rt_tcp_place *p);
/* The only one of another rank, at any port. */
rt_spot rt_doors_open(rt_doors *d, const rt_address *near);
void rt_doors_close(rt_doors *d);
int rt_tcp_socket(const rt_address *a); /* -1: there are no addresses of that kind here */
void rt_tcp_set(int fd, int level, int option, int value);

/* ---- wire_tcp_hello.c: how two processes know each other ------------------------------------- */

/* The caller says a hello, the callee answers with one of its own and with a proof that it knows
 * the secret, the caller proves it too, and is welcome. All of it is of fixed size. */
typedef struct rt_hello {
    char magic[8];
    uint32_t version;
    uint32_t ranks, rank, to; /* of how many ranks which one speaks to which */
    uint32_t line;
    uint32_t refusal; /* of a callee: why it goes no further, or 0 */
    uint64_t job, program;
    uint8_t nonce[16];
} rt_hello;
typedef struct rt_answer {
    rt_hello hello;
    uint8_t mac[RT_MAC_BYTES];
} rt_answer;
typedef struct rt_proof {
    rt_spot door; /* to rank 0: where the caller itself may be called */
    uint8_t mac[RT_MAC_BYTES];
} rt_proof;

/* What a process says of itself, and knows by. */
typedef struct rt_party {
    const rt_tcp *wire;
    const uint8_t *secret;
    const char *job_text;
    uint64_t job, program;
    rt_spot door;
} rt_party;

/* A connection on its way to being a line. */
typedef enum rt_stage {
    RT_CALL_CONNECTS,
    RT_CALL_AWAITS_ANSWER,
    RT_CALL_AWAITS_WELCOME,
    RT_CALL_AWAITS_HELLO,
    RT_CALL_AWAITS_PROOF,
    RT_CALL_MET,
    RT_CALL_OVER,
} rt_stage;
typedef struct rt_call {
    int fd; /* -1: none */
    rt_stage stage;
    int64_t began;  /* ns */
    int rank, line; /* of the other; -1: it has not said */
    rt_address other;
    rt_hello caller, callee;
    rt_spot door; /* of the caller */
    uint8_t in[sizeof(rt_answer)];
    size_t came;
} rt_call;

/* The first words of a caller, on a connection that stands. */
void rt_call_begin(const rt_party *p, rt_call *c);
/* Goes on with what has come. Where it is RT_CALL_OVER, says why. A caller that is refused for good
 * ends the program (78). */
const char *rt_call_go_on(const rt_party *p, rt_call *c);

#endif
