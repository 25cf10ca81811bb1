/* actions.h - actions.def as data. */
#ifndef MGC_ACTIONS_H
#define MGC_ACTIONS_H

#include <stdbool.h>

#include "base/device.h"

typedef enum ActionKind {
#define MARK(id, ...)   ACT_##id,
#define ACTION(id, ...) ACT_##id,
#include "plan/actions.def"
    ACT_count
} ActionKind;

/* The resource that bounds an action. Actions with different resources take no longer side by side,
 * but a collective slows the others (Device.link_slowdown). */
typedef enum Resource {
    RESOURCE_arithmetic,
    RESOURCE_bandwidth,
    RESOURCE_links,
    RESOURCE_near,  /* the links within a machine, of collectives that leave the network as it is */
    RESOURCE_small, /* communicators of small collectives, which leave the links as they are */
    RESOURCE_fetches,  /* the way from another level of memory to the device */
    RESOURCE_offloads, /* and back */
    RESOURCE_host,     /* the memory of a GPU's host, for kernels that run there */
    RESOURCE_count
} Resource;

typedef struct ActionInfo {
    const char *name;       /* "product" */
    const char *function;   /* "mg_gemm"; NULL: a mark */
    const char *descriptor; /* "mg_gemm_desc"; NULL: none */
    Resource resource;
} ActionInfo;

extern const ActionInfo action_info[ACT_count];

static inline bool kind_is_mark(ActionKind k)
{
    return !action_info[k].function;
}

/* Share of a device's peak at which a kind multiplies, in the precision of the program. */
double kind_share(ActionKind k, const Device *d, const Train *t);

#endif
