/* verify_damages.h - damages to a program that the verifier has to find, and what it says then. */
#ifndef MGC_TESTS_IR_VERIFY_DAMAGES_H
#define MGC_TESTS_IR_VERIFY_DAMAGES_H

#include "ir/ir.h"

typedef struct Damage {
    int invariant; /* that is broken */
    void (*damage)(Module *m);
    const char *says;
} Damage;

extern const Damage damages[];
extern const size_t damage_count;
/* The program that is damaged. */
extern const char *const damage_args[], damage_body[];

#endif
