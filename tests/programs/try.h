/* try.h - one program through the compiler, in a process of its own: whatever becomes of it there
 * is an outcome. */
#ifndef MGC_TESTS_PROGRAMS_TRY_H
#define MGC_TESTS_PROGRAMS_TRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "tests/passes/model.h"

typedef enum Outcome {
    TRY_accepted,
    TRY_refused,    /* with a diagnostic */
    TRY_infeasible, /* likewise */
    TRY_internal,   /* mgc found itself to be wrong */
    TRY_crash,      /* a signal, or a sanitizer's report */
    TRY_hang,
    TRY_silent,  /* an exit code that nothing explains */
    TRY_format,  /* the canonical text is another program */
    TRY_numbers, /* what comes out of the passes computes something else */
    TRY_count
} Outcome;
extern const char *const outcome_names[TRY_count];

static inline bool is_failure(Outcome o)
{
    return o > TRY_infeasible;
}

/* Flags of the comparisons made of an accepted program; 0: none, for it computes too much. */
enum {
    COMPARED_loss = 1,
    COMPARED_gradients = 2,
    COMPARED_plan = 4,
    NOT_FINITE = 8,
    COMPARED_padding = 16,
    COMPARED_generated = 32,
    COMPARED_ranks = 64 /* that generate */
};

typedef struct Tried {
    Outcome outcome;
    int code;          /* of the first error; 0: none */
    unsigned compared; /* a set of the above */
    int ranks;
    const char *said; /* on standard error, in the arena */
} Tried;

/* seed: what is asked of mgc beside the check, and the arguments of what is compared. change:
 * options that change the program, too. */
Tried try_program(Arena *a, const char *text, uint64_t seed, bool change);

/* ---- inside of that process ------------------------------------------------------------------ */

struct Session;
typedef struct Shared {
    volatile unsigned compared;
    volatile int ranks;
} Shared;

/* numbers.c: the program after all passes against what it says. Ends the process with
 * EXIT_NUMBERS, after saying what differs. path: of the program's text. */
enum { EXIT_NUMBERS = 90, EXIT_FORMAT = 91 };
void compare_numbers(const char *path, const char *text, uint64_t seed, Shared *s);
/* Ends the process. */
_Noreturn void differs(const char *what, double off);
/* Of each result, the size beside which what rounding does to it is no difference. args: in t's
 * arena, as `want`. */
const double *noise(Model *t, const Fn *fn, const Tensor64 *args, const Tensor64 *want);
static const double BOUND = 1e-7;

/* numbers_generated.c: if the program generates, each token that it computes from caches against
 * its whole window. work: numbers that a step computes. */
void compare_generated(const char *text, double work, Shared *s);

/* shrink.c: the text without what its failure does not need. */
const char *shrink(Arena *a, const char *text, uint64_t seed, bool change, const Tried *failure);

#endif
