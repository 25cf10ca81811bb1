/* parallel.h - a function of numbers, computed by several processes at once.
 *
 * The results are those of a loop over the numbers, whatever the number of processors: a call sees
 * memory as it was when parallel_map began, and nothing that counts may depend on what calls change
 * there, for each may run in this process or in another.
 *
 * A call may map in turn. All share the processors of the outermost map: what one of them has no
 * numbers for another uses. */
#ifndef MGC_BASE_PARALLEL_H
#define MGC_BASE_PARALLEL_H

#include <stdio.h>

#include "base/arena.h"

/* The bytes that a call wrote. */
typedef struct Written {
    char *bytes;
    size_t n;
} Written;

/* Writes the result of number k to `out`. */
typedef void ParallelCall(void *ctx, int k, FILE *out);

/* How many processes may run at once for a map that begins now: the processors that this one may
 * use, 16 at the most; in a call those that nobody uses, and its own. */
int parallel_most(void);

/* Calls f(ctx, k, ..) for each k from 0 up to n, and leaves what it wrote in result[k], in a: in
 * this process, and in as many others as there are processors for. A process that ends otherwise
 * than by return, or cannot be begun, has its number called here, where the user sees the error. */
void parallel_map(int n, ParallelCall *f, void *ctx, Arena *a, Written *result);

/* The same in two steps. The first begins as many other processes as there are processors that
 * nobody uses, and returns; what they call sees memory as it was then, and what is called by the
 * second, in this one or in others, as it is then. The second returns all results, in a; or what
 * was begun is ended, and there are none. Until then *ctx is as it was, and maps that began later
 * have ended. */
typedef struct ParallelMap ParallelMap;
ParallelMap *parallel_begin(int n, ParallelCall *f, void *ctx, Arena *a);
const Written *parallel_finish(ParallelMap *m);
void parallel_drop(ParallelMap *m);

/* The same at once, for calls that may end their process: none runs in this one, and each process
 * that ends otherwise than by return has died[k] say how, in a: the first line that it wrote on
 * standard error, and its signal or exit code. NULL: number k has a result, or was not begun
 * (parallel_stop, or no process could be). What others write on standard error is dropped. */
void parallel_apart(int n, ParallelCall *f, void *ctx, Arena *a, Written *result,
                    const char **died);

/* The map that is under way, the outermost of several, begins no more calls: it ends when those
 * that run have, and leaves a result that is not there without bytes (NULL). May be called from a
 * handler of a signal. */
void parallel_stop(void);

#endif
