/* verify.h - what the parts of the verifier share; private to ir/. */
#ifndef MGC_VERIFY_H
#define MGC_VERIFY_H

#include "ir/ir.h"

typedef struct Verifier {
    const Module *m;
    FILE *out;
    Arena *tmp;
    const char *fn;
    /* A function and each fused kernel is an island, numbered from 1: nothing from outside is seen.
     * `seen`, per value: the island in which its definition was passed and is in scope, or 0. */
    uint32_t *seen, island, islands;
    int broken;
} Verifier;

/* Counts a violation and reports it; i: the instruction, or NULL. */
void verify_broken(Verifier *v, const Ins *i, int invariant, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The text of a name. */
const char *verify_name(const Verifier *v, Name n);
/* I1, of a type; i: as above. */
void verify_type(Verifier *v, const Ins *i, const Type *t);

/* verify_tensors.c: I8, of tensor number `at`. */
void verify_tensor(Verifier *v, uint32_t at);
/* verify_stages.c: I12, of all functions. */
void verify_stages(Verifier *v);

#endif
