/* c_kernels.h - the kernels of a plan as plain C; see c_kernels.c. */
#ifndef MGC_C_KERNELS_H
#define MGC_C_KERNELS_H

#include "codegen/emit/emit.h"

/* The headers that they need. */
void c_kernels_include(const Emitter *e);
/* Their definitions, each below its formula. */
void c_kernels(const Emitter *e);

#endif
