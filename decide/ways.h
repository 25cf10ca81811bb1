/* ways.h - which of two layouts has the faster step, by plans that are made with both. What plans
 * say here must not depend on what changes no bit: on waits for collectives (--overlap=none), on
 * levels of memory. */
#ifndef MGC_DECIDE_WAYS_H
#define MGC_DECIDE_WAYS_H

#include "base/device.h"
#include "ir/ir.h"

/* The device as plans are compared for it: collectives run beside what computes. */
Device ways_device(const Device *d);

/* A layout's rules become its own; returns one of them, which is to be changed. */
LayoutRule *ways_rule(Layout *l, size_t rule, Arena *a);

/* 0 or 1: the layout that alone fits the device, or that has the faster step. m is as it is after
 * the decision `after`; seconds[2] are those of a step, INFINITY where there is no plan. */
int ways_better(const Module *m, const Device *d, const Layout as[2], const char *after,
                double seconds[2]);

#endif
