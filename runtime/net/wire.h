/* wire.h - messages to ranks on other machines, by MPI or by TCP.
 *
 * A carrier is a table of functions, chosen by how the ranks were started. For programs of the
 * processor the launchers of MPI bring an MPI library. It is loaded at run time, and only if ranks
 * are on several machines: a program needs no MPI to be compiled, or to run on one machine. Open
 * MPI and MPICH have different binary interfaces, so each has its own table (wire_openmpi.c,
 * wire_mpich.c); each interface is stable within the library versions that are loaded. All other
 * programs use TCP (wire_tcp.c).
 *
 * The main thread sends and takes messages; the watchdog thread says and hears words. Nothing is
 * allocated after rt_wire_open. Between two ranks messages arrive in the order of sending. */
#ifndef MG_WIRE_H
#define MG_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/abi.h"
#include "runtime/net/world.h"

typedef struct rt_wire rt_wire;

/* A counter of the messages that were begun with it and are not done. It starts at {0}, and must
 * stay at its address until all of them are done. */
typedef struct rt_ticket {
    int left;
} rt_ticket;

typedef struct rt_wire_terms {
    const rt_world *world;
    bool gpus;        /* the program is for GPUs, and must not need MPI */
    uint64_t program; /* a key: the same for all processes that run the program */
    double limit;     /* seconds to wait for other ranks; 0: without limit */
} rt_wire_terms;

/* Meets the other ranks. Ends the program if it cannot (exit 78; 69: some ranks have not come). */
rt_wire *rt_wire_open(const rt_wire_terms *t);
/* Waits until all ranks have come here. If the carrier then does not return, the process ends
 * with `code`. */
void rt_wire_close(rt_wire *w, int code);
/* Gives `bytes` bytes of each rank to all ranks, by rank. Waits. */
void rt_wire_gather(rt_wire *w, const void *mine, void *all, int bytes);
/* Begin a message. Do not touch the memory until the ticket is done. At most RT_WIRE_PENDING
 * messages at once, RT_WIRE_PIPE of them for pipelines, of at most RT_WIRE_MAX bytes each. A
 * wait for one ticket waits for no other ticket. */
#define RT_WIRE_PIPE    1024
#define RT_WIRE_PENDING (2 * 256 + 8 + RT_WIRE_PIPE)
#define RT_WIRE_MAX     ((int64_t)1 << 30)
void rt_wire_send(rt_wire *w, int rank, const void *from, int64_t bytes, rt_ticket *t);
void rt_wire_take(rt_wire *w, int rank, void *to, int64_t bytes, rt_ticket *t);
/* True if all messages of the ticket are done. If not, *peer is a rank that has not done its
 * side. Drives all messages, and may wait a moment if none can move. */
bool rt_wire_done(rt_wire *w, const rt_ticket *t, int *peer);
/* Drives all messages as far as possible without waiting. True if any is left. */
bool rt_wire_go_on(rt_wire *w);
/* Small words between the watchdogs of ranks on different machines, separate from messages and
 * sent by the watchdog's own thread. An MPI that does not support a second thread has no words. */
typedef struct rt_word {
    int32_t asks;  /* a question; else an answer */
    int32_t waits; /* of the rank that answers: as in its slot */
    int32_t action;
    int32_t still;   /* ms without a change */
    int32_t verdict; /* not 0: what ends the program, as the watchdog writes it */
    int32_t parted;  /* not 0: the sender's slot.parted, or that of the rank that is gone */
} rt_word;
bool rt_wire_speaks(const rt_wire *w);
void rt_wire_say(rt_wire *w, int rank, const rt_word *word); /* dropped if one is in flight */
bool rt_wire_hears(rt_wire *w, int rank, rt_word *word);     /* does not wait */
/* A descriptor on which words arrive, and which breaks when the rank is gone; -1: the carrier
 * has none. */
int rt_wire_line(rt_wire *w, int rank);
void rt_wire_silence(rt_wire *w); /* before the end: cancels open receives of words */
/* Ends this process and the whole job: MPI kills the other processes; by TCP they are told and
 * end by themselves. Any thread may call it. */
_Noreturn void rt_wire_abort(rt_wire *w, int code);

/* A carrier of messages: the functions that wire.c calls, and the size of its state. */
typedef struct rt_carrier {
    const char *library[3]; /* names of the library to load; NULL: none, and `find` is not called */
    /* NULL, or the name of a symbol that the library lacks. */
    const char *(*find)(void *state, void *library);
    /* True if more than one thread may call the carrier. */
    bool (*start)(void *state, const rt_wire_terms *t, int *rank, int *size);
    void (*stop)(void *state);
    void (*gather)(void *state, const void *mine, void *all, int bytes);
    /* Each adds one to the ticket, and subtracts it when the message is done. */
    void (*send)(void *state, int rank, const void *from, int bytes, rt_ticket *t);
    void (*take)(void *state, int rank, void *to, int bytes, rt_ticket *t);
    /* Drives all messages; with a ticket that is not done it may wait a moment. True if any
     * message is left. */
    bool (*go_on)(void *state, const rt_ticket *t);
    int (*peer)(void *state, const rt_ticket *t); /* rank of the ticket's first message, or -1 */
    void (*say)(void *state, int rank, const rt_word *word);
    bool (*hears)(void *state, int rank, rt_word *word);
    int (*line)(void *state, int rank); /* NULL: none */
    void (*silence)(void *state);
    void (*abort)(void *state, int code);
    int64_t state_bytes;
} rt_carrier;
extern const rt_carrier rt_carrier_openmpi, rt_carrier_mpich, rt_carrier_tcp;
/* The carrier of this launcher; ends the program (78) if the environment names none. */
const rt_carrier *rt_carrier_of(const rt_world *w, bool gpus);

#endif
