/* text.h - a function's body before and after a pass, as text; for tests of passes/. */
#ifndef MGC_TESTS_PASSES_TEXT_H
#define MGC_TESTS_PASSES_TEXT_H

#include "tests/passes/model.h"

typedef struct Rewrite {
    const char *what, *before, *after;
} Rewrite;

/* Reads a module into t: `head` up to the body, the body, then its end. */
void read_text(Model *t, const char *head, const char *body, const char *end);
/* The first function's lines without indentation, from after its argument `last` to its results;
 * to be freed. */
char *body_text(const Model *t, const char *last);
/* Runs passes (up to a NULL) on `before`; true if that gives `after`; says otherwise what it gave.
 */
bool rewrites_to(const Rewrite *r, const char *head, const char *end, const char *last,
                 PassRun *const *passes);

#endif
