/* volume.h - see volume.c. */
#ifndef MGC_PLAN_VOLUME_H
#define MGC_PLAN_VOLUME_H

#include "plan/plan.h"

enum { VOLUMES_MAX = 64 };

/* All communication of one kind along the same axes, in a step. */
typedef struct Volume {
    Axes axes;
    mg_comm_kind kind; /* 0: messages of a pipeline's stages */
    bool scalar; /* of numbers about tensors, which are sums in f64, and not of their elements */
    bool tree;   /* added up in a tree, not in the order of ranks */
    bool copies; /* by copies through the memory of the host, not by NCCL */
    int64_t ranks;
    double bytes, count, seconds; /* that a rank sends, loops multiplied out */
    double exposed;               /* of the seconds: while nothing else runs */
} Volume;

typedef struct Volumes {
    int n;
    Volume of[VOLUMES_MAX];
    double bytes, seconds, exposed; /* of all */
} Volumes;

/* After plan_timeline, which says what is exposed. */
Volumes plan_volumes(const Module *m, const Program *g);
double volume_bytes(const Action *a); /* one execution's */
double volume_of(const mg_comm_desc *d);
const char *volume_name(const Volume *v);    /* "all_reduce" */
const char *volume_formula(const Volume *v); /* "2 (n - 1) / n B" */

#endif
