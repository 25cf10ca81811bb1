/* emit_c.h - the emitted program; see emit_c.c. */
#ifndef MGC_EMIT_C_H
#define MGC_EMIT_C_H

#include "plan/plan.h"

/* Writes the program of a plan as C. features: the features of a processor that its kernels need;
 * kernels: they are written as C, too, and need no features. */
void codegen_emit_c(const Plan *p, const char *features, bool kernels, FILE *out);

#endif
