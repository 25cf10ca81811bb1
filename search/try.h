/* try.h - what plans say of a point, and what is known of all points from the program of one rank.
 *
 * A point is elaborated as any layout is, and planned up to three times, each time with more of the
 * decisions that are made by planning. A rough plan keeps what layers keep by default, whether that
 * fits or not. A quick plan has the decision of what they keep, and so says whether it fits. A
 * whole plan is the compiler's own, but for its proof. */
#ifndef MGC_SEARCH_TRY_H
#define MGC_SEARCH_TRY_H

#include "base/parallel.h"
#include "plan/plan.h"
#include "search/space.h"

/* The program under a layout that is given as text, by whoever reads models. NULL: it is refused.
 * *d: the device as its ranks have it. *code: of the first error that it or its plans have; set as
 * long as the program is used. */
typedef Module *SearchElaborate(void *ctx, const char *layout, Arena *a, Device *d, int *code);

/* Seconds of a step, by what they are for. */
typedef struct Parts {
    double bubble; /* ranks wait for other stages */
    double waits;  /* for collectives, while nothing else runs */
    double again;  /* what was computed before is computed once more */
} Parts;

typedef struct Tried {
    int code;      /* of the error that refuses it; 0: none */
    bool failed;   /* mgc itself is wrong here: it said so, or ended (try_all) */
    bool fits;     /* there is a plan, and the device has room for it */
    int64_t bytes; /* that it needs; 0: there is no plan */
    int64_t kept;  /* of those, of activations, at the peak */
    double seconds;
    Parts parts;
    double mfu, sent; /* sent: bytes by a rank */
} Tried;

typedef enum TryDepth { TRY_rough, TRY_quick, TRY_whole, TRY_count } TryDepth;

/* A layout that makes mgc fail may end the process; else log has what mgc says of itself. */
Tried try_point(SearchElaborate *elaborate, void *ctx, const char *layout, TryDepth depth,
                FILE *log);
/* The same, written to out. */
void try_write(SearchElaborate *elaborate, void *ctx, const char *layout, TryDepth depth,
               FILE *out);
/* Calls f(ctx, k, out), which calls try_write or writes nothing, for each k from 0 up to n, in
 * processes of their own. t[k]: .failed where mgc failed, and why[k] says how, in a; else why[k] is
 * NULL. All zeros: nothing was written, or a stop came before. */
void try_all(int n, ParallelCall *f, void *ctx, Arena *a, Tried *t, const char **why);

/* One tensor that lasts from step to step, or the sums of its gradients. */
typedef struct Held {
    double bytes;
    int zero;            /* the ZeRO level from which on ranks of data have parts of it; 4: none */
    bool by[ROLE_count]; /* it has a dim that the rules split on such an axis */
    bool sums;           /* of gradients: only where there are several microbatches */
} Held;

/* The program of one rank. */
typedef struct Basis {
    VEC(Held) held;
    double flops, seconds; /* of a step, on one rank: as it is, were there room */
    double rate;           /* FLOP/s that nothing computes above */
    double carried;        /* bytes that go from layer to layer, of a sequence */
    double kept;           /* bytes that layers keep for the backward pass, of a sequence */
    double parameters;     /* how many */
    double budget;         /* bytes */
    bool shared;           /* the ranks share one processor */
    const Device *device;
    int64_t batch, tokens; /* of a step */
    bool trains;
} Basis;

/* Plans the program of one rank. False: there is no plan. d lives as long as the basis. */
bool basis_make(Basis *b, Space *s, Module *m, const Device *d, Arena *a);

/* The seconds of a rough plan with what has to be computed again so that it fits, about; offload:
 * by `offload auto`. */
double expected_seconds(const Basis *b, const Tried *rough, bool offload);
/* About the seconds in which `offload auto` moves parameters, and sums of their gradients, for each
 * microbatch; 0: the device has room for them. */
double streams_seconds(const Basis *b, const Space *s, const Point *p);
/* Does `offload auto` hardly have room, on the device and the next level, for what lasts of a rank?
 */
bool is_tight(const Basis *b, int64_t ranks, double lasts);
/* The bytes that what lasts of a rank may have, of as many as there are: of the device, and with
 * `offload auto` of its share of the levels below. */
double room_bytes(const Basis *b, int64_t ranks, bool offload);

/* Bounds from below: nothing that is planned takes less. */
double bound_bytes(const Basis *b, const Point *p, int64_t microbatches);
double bound_seconds(const Basis *b, const Point *p, int64_t microbatches);
/* Seconds of a step, about: for the order in which points are planned, and nothing else. */
double estimate_seconds(const Basis *b, const Space *s, const Point *p);

#endif
