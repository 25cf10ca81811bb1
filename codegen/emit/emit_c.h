/* emit_c.h - the emitted program; see emit_c.c. */
#ifndef MGC_EMIT_C_H
#define MGC_EMIT_C_H

#include "plan/plan.h"

/* Writes the program of a plan as C. features: what its kernels need of a processor; kernels: they
 * are written as C, too, and need nothing. */
void codegen_emit_c(const Plan *p, const char *features, bool kernels, FILE *out);

#endif
