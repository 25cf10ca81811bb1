/* narrow.h - types of 16 bits for what training keeps, as edits of a source; see narrow.c. */
#ifndef MGC_NARROW_H
#define MGC_NARROW_H

#include "ir/ir.h"

/* Steps of what is kept in bf16: each has that of those before it, too. */
typedef enum Narrow {
    NARROW_none,
    NARROW_state,
    NARROW_master,
    NARROW_reduce,
    NARROW_count
} Narrow;

/* The edits that make a source keep as much in bf16 as n says. False: it says so already, or there
 * is no place for it. */
bool narrow_edits(const Module *m, Narrow n, Remedy *r);
/* "state = bf16, master = bf16" */
const char *narrow_text(const Module *m, Narrow n);

#endif
