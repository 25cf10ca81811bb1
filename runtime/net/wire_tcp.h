/* wire_tcp.h - messages by TCP; private to the files wire_tcp*.c.
 *
 * Each pair of ranks has two connections, the lines: one for the messages of the main thread,
 * one for the words of the watchdog's thread. */
#ifndef MG_WIRE_TCP_H
#define MG_WIRE_TCP_H

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "runtime/net/siphash.h"
#include "runtime/net/spot.h"
#include "runtime/net/wire.h"

enum { RT_MESSAGES, RT_WORDS, RT_LINES };

/* A message in flight. */
typedef struct rt_tcp_op {
    int rank;
    bool sends;
    char *at;
    int64_t left;
    rt_ticket *ticket;
} rt_tcp_op;

typedef struct rt_tcp {
    int rank, size;
    int64_t limit;                    /* ns to wait for other ranks; 0: without limit */
    int line[RT_LINES][MG_RANKS_MAX]; /* sockets; -1: this rank itself */
    bool gone[MG_RANKS_MAX];          /* its line for messages is broken */
    int64_t broke;                    /* ns: when the first line broke, or 0 */
    bool ends;                        /* at the end: ranks that are gone owe nothing */
    int n;                            /* messages that have begun and are not done */
    rt_tcp_op op[RT_WIRE_PENDING];    /* in the order of beginning */
    short ready[MG_RANKS_MAX];        /* POLLIN, POLLOUT */
    pthread_mutex_t voice;            /* the thread that ends the process also says words */
    struct {                          /* words to a rank and from it */
        rt_word to, from;
        int left, came; /* bytes */
    } word[MG_RANKS_MAX];
} rt_tcp;

/* wire_tcp_meet.c: makes all lines; ends the program if it cannot (69, 78). */
void rt_tcp_meet(rt_tcp *w, const rt_wire_terms *t);

/* ---- wire_tcp_place.c: the place where ranks meet; addresses as text ------------------------- */

typedef union rt_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} rt_address;

typedef struct rt_tcp_place {
    const char *host; /* MASTER_ADDR */
    int port;
    uint8_t secret[RT_KEY_BYTES];
    char *job; /* text that all processes of this job have, on all machines; owned */
} rt_tcp_place;

/* Reads the environment; ends the program (78) if a variable is missing or wrong. */
void rt_tcp_place_read(rt_tcp_place *p, const rt_world *w);
typedef struct rt_address_text {
    char text[80];
} rt_address_text;
rt_address_text rt_address_say(const rt_address *a); /* "10.0.0.1 port 29501" */
socklen_t rt_address_bytes(const rt_address *a);
bool rt_address_is_any(const rt_address *a); /* 0.0.0.0 or :: */
bool rt_address_is_loopback(const rt_address *a);
rt_spot rt_address_spot(const rt_address *a);
/* `near` is the address of this machine from which it reaches the other ranks. */
rt_address rt_spot_address(const rt_spot *s, const rt_address *near);

/* ---- wire_tcp_door.c: sockets that listen while ranks meet ---------------------------------- */

enum { RT_DOORS = 8 };
typedef struct rt_doors {
    int fd[RT_DOORS], n;
    rt_address near;            /* address of a door on this machine */
    rt_address found[RT_DOORS]; /* the addresses of MASTER_ADDR */
    int nfound;
    const char *unknown;  /* why MASTER_ADDR has no address, or NULL */
    int64_t began, again; /* ns: the first try to listen; the time of the next try */
} rt_doors;
/* Looks up MASTER_ADDR. NULL, or why it has no address. */
const char *rt_doors_find(rt_doors *d, const rt_tcp_place *p);
/* Opens the doors of rank 0 if the ports are free; ends the program (78) after enough tries. */
void rt_doors_open_main(rt_doors *d, const rt_tcp_place *p);
/* Opens the only door of another rank, at any port. */
rt_spot rt_doors_open(rt_doors *d, const rt_address *near);
void rt_doors_close(rt_doors *d);
int rt_tcp_socket(const rt_address *a); /* -1: this machine has no addresses of that kind */
void rt_tcp_set(int fd, int level, int option, int value);

/* ---- wire_tcp_hello.c: how two processes authenticate each other ----------------------------- */

/* The caller sends a hello; the callee answers with its own hello and a proof that it knows the
 * secret; the caller sends its proof and gets a welcome. All have fixed sizes. */
typedef struct rt_hello {
    char magic[8];
    uint32_t version;
    uint32_t ranks, rank, to; /* of `ranks` ranks, `rank` speaks to `to` */
    uint32_t line;
    uint32_t refusal; /* callee: why it refuses, or 0 */
    uint64_t job, program;
    uint32_t generation, zero; /* of the job's ranks: rt_world.generation */
    uint8_t nonce[16];
} rt_hello;
typedef struct rt_answer {
    rt_hello hello;
    uint8_t mac[RT_MAC_BYTES];
} rt_answer;
typedef struct rt_proof {
    rt_spot door; /* sent to rank 0: where other ranks can call the caller */
    uint8_t mac[RT_MAC_BYTES];
} rt_proof;

/* The identity of this process, for its own hello and to check others. */
typedef struct rt_party {
    const rt_tcp *wire;
    const uint8_t *secret;
    const char *job_text;
    uint64_t job, program;
    uint32_t generation;
    rt_spot door;
} rt_party;

/* A connection before it becomes a line. */
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
    int rank, line; /* of the other process; -1: not known yet */
    rt_address other;
    rt_hello caller, callee;
    rt_spot door; /* door of the caller */
    uint8_t in[sizeof(rt_answer)];
    size_t came;
} rt_call;

/* Sends the caller's hello on a connection that is open. */
void rt_call_begin(const rt_party *p, rt_call *c);
/* Handles the bytes that have come. If the stage becomes RT_CALL_OVER, returns why. Ends the
 * program (78) if the callee refuses for good. */
const char *rt_call_go_on(const rt_party *p, rt_call *c);

#endif
