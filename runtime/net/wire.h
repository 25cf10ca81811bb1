/* wire.h - messages to ranks on other machines, by MPI or by TCP.
 *
 * What carries them is a table of functions, chosen by how the ranks were started. MPI's launchers
 * bring MPI, for programs of the processor: its library is loaded while the program runs, and only
 * where ranks are on several machines, so a program needs it neither to be compiled nor to run on
 * one. Open MPI and MPICH differ in their binary interfaces; each has a table of its own
 * (wire_openmpi.c, wire_mpich.c), which both are stable within the library versions that are asked
 * for. All else goes over TCP (wire_tcp.c).
 *
 * One thread sends and takes, another speaks and hears. Nothing is allocated after rt_wire_open.
 * Between two ranks messages arrive in the order in which they were sent. */
#ifndef MG_WIRE_H
#define MG_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/abi.h"
#include "runtime/net/world.h"

typedef struct rt_wire rt_wire;

/* How many of some messages are not done: of those that were begun with it. It starts at {0}, and
 * stays where it is until all of them are. */
typedef struct rt_ticket {
    int left;
} rt_ticket;

typedef struct rt_wire_terms {
    const rt_world *world;
    bool gpus;        /* the program is one for GPUs, which are to need no MPI */
    uint64_t program; /* what is the same for all that run it */
    double limit;     /* seconds for which the others are waited for; 0: for ever */
} rt_wire_terms;

/* Meets the other ranks; ends the program where it cannot (78; 69: some have not come). */
rt_wire *rt_wire_open(const rt_wire_terms *t);
/* Waits until all ranks have come here. The process ends with `code` where the carrier does not let
 * it go then. */
void rt_wire_close(rt_wire *w, int code);
/* What each rank has, `bytes` of it, to all of them, by rank. Waits. */
void rt_wire_gather(rt_wire *w, const void *mine, void *all, int bytes);
/* Begin; the memory is not to be touched until the ticket says that it is done. At most
 * RT_WIRE_PENDING at once, RT_WIRE_PIPE of them for pipelines, of at most RT_WIRE_MOST bytes each.
 * Whoever waits for one ticket waits for none of the others. */
#define RT_WIRE_PIPE    1024
#define RT_WIRE_PENDING (2 * 256 + 8 + RT_WIRE_PIPE)
#define RT_WIRE_MOST    ((int64_t)1 << 30)
void rt_wire_send(rt_wire *w, int rank, const void *from, int64_t bytes, rt_ticket *t);
void rt_wire_take(rt_wire *w, int rank, void *to, int64_t bytes, rt_ticket *t);
/* Is all done that has this ticket? If not, *peer is a rank that has not come up to it. Goes on
 * with everything that was begun, and may take a moment if nothing can. */
bool rt_wire_done(rt_wire *w, const rt_ticket *t, int *peer);
/* Goes on with everything, as far as that goes at once. Is anything left? */
bool rt_wire_go_on(rt_wire *w);
/* Small words between the watchdogs of ranks on different machines, apart from all else, and from a
 * thread of their own: none, where this MPI has no room for a second thread. */
typedef struct rt_word {
    int32_t asks;  /* or answers */
    int32_t waits; /* the one who answers: as in its slot */
    int32_t action;
    int32_t still;   /* ms for which that was so */
    int32_t verdict; /* or says what ends the program, as the watchdog writes it, */
    int32_t parted;  /* or that it ends, as in its slot; of a verdict: who is gone did */
} rt_word;
bool rt_wire_speaks(const rt_wire *w);
void rt_wire_say(rt_wire *w, int rank,
                 const rt_word *word);                   /* lost, if the last one is on its way */
bool rt_wire_hears(rt_wire *w, int rank, rt_word *word); /* does not wait */
/* A descriptor on which words come, and which breaks when the rank is gone; -1: this carrier has
 * none. */
int rt_wire_line(rt_wire *w, int rank);
void rt_wire_silence(rt_wire *w); /* before the end: no more of it */
/* Ends this process, and those of the whole job: MPI kills them, by TCP the others are told, and
 * end by themselves. From any thread. */
_Noreturn void rt_wire_abort(rt_wire *w, int code);

/* What carries the messages: what wire.c calls, and its state. */
typedef struct rt_carrier {
    const char *library[3]; /* that is loaded for it; NULL: none, nor is `find` called */
    /* NULL, or the name that the library lacks. */
    const char *(*find)(void *state, void *library);
    /* May more than one thread call it? */
    bool (*start)(void *state, const rt_wire_terms *t, int *rank, int *size);
    void (*stop)(void *state);
    void (*gather)(void *state, const void *mine, void *all, int bytes);
    /* Each counts one more in the ticket, and one less when it is done. */
    void (*send)(void *state, int rank, const void *from, int bytes, rt_ticket *t);
    void (*take)(void *state, int rank, void *to, int bytes, rt_ticket *t);
    /* Goes on with all messages; with a ticket it may take a moment if that is not done. Is
     * anything left? */
    bool (*go_on)(void *state, const rt_ticket *t);
    int (*peer)(void *state, const rt_ticket *t); /* of its first message, or -1 */
    void (*say)(void *state, int rank, const rt_word *word);
    bool (*hears)(void *state, int rank, rt_word *word);
    int (*line)(void *state, int rank); /* NULL: none */
    void (*silence)(void *state);
    void (*abort)(void *state, int code);
    int64_t state_bytes;
} rt_carrier;
extern const rt_carrier rt_carrier_openmpi, rt_carrier_mpich, rt_carrier_tcp;
/* Which of them; ends the program (78) where nothing says. */
const rt_carrier *rt_carrier_of(const rt_world *w, bool gpus);

#endif
