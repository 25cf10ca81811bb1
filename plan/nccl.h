/* nccl.h - see nccl.c. */
#ifndef MGC_PLAN_NCCL_H
#define MGC_PLAN_NCCL_H

#include "base/device.h"

/* A ring: its ranks, the nodes and pods that they are in, and how fast a rank sends around it. */
typedef struct NcclRing {
    int64_t ranks, nodes, pods;
    double bandwidth; /* bytes/s */
} NcclRing;

/* Seconds of a collective around a ring in which each rank sends so many bytes. rounds: 1, or 2 of
 * an all-reduce, whose bytes go around twice; where the device's collectives are
 * unordered that may be faster by a tree, or by the switch of the links. */
double nccl_seconds(const Device *d, const NcclRing *r, int rounds, double bytes);

/* Seconds of an exchange of these ranks, all with all, beside what its bytes take on the links. */
double nccl_exchange_seconds(const Device *d, const NcclRing *r);
/* Seconds before the first step of sends and receives, a shift's as well. */
double nccl_sends_begin(void);

#endif
