/* collective.h - what ops.def knows of a collective beside its op: the kind of mg_comm that does
 * it, and what ranks send each other for it. */
#ifndef MGC_COLLECTIVE_H
#define MGC_COLLECTIVE_H

#include "ir/ir.h"
#include "runtime/abi.h"

/* How what is sent goes over the links; plan/rates.c says how long each takes. */
typedef enum SendWay {
    SEND_nothing,
    SEND_ring,      /* once round the ring of ranks, each piece through all of them */
    SEND_twice,     /* round the ring to be added up, and again with the sums */
    SEND_exchange,  /* from each rank to each other */
    SEND_neighbour, /* from each rank to the next */
} SendWay;

typedef struct Collective {
    Op op;
    mg_comm_kind kind;
    const char *abi; /* "MG_ALL_REDUCE" */
    SendWay sends;
    const char *formula; /* of the bytes a rank sends: "2 (n - 1) / n B" */
} Collective;

/* NULL: the op is none. */
const Collective *collective_of(Op op);
const Collective *collective_of_kind(mg_comm_kind kind);
/* Bytes that a rank sends, of an operand of x bytes among n ranks. */
double collective_bytes(mg_comm_kind kind, double x, double n);
/* Messages that follow each other. */
double collective_steps(mg_comm_kind kind, double n);

#endif
