/* processor.h - the processors that programs are made for, by the names of --cpu. */
#ifndef MGC_PROCESSOR_H
#define MGC_PROCESSOR_H

#include "plan/plan.h"

typedef struct Processor {
    const char *name;
    const char *arch; /* as Linux and compilers name it: ARCH-linux-gnu-gcc, lib/mgc/ARCH */
    const char *llvm; /* LLVM's name */
    int vector_bits;
    const char *needs; /* each of these features, as LLVM writes them */
    const char
        *routines; /* NULL: functions of libm on vectors are glibc's; else the prefix of ours */
} Processor;

/* All processors; of one architecture, the most able first. */
enum { PROCESSORS = 4 };
extern const Processor processors[PROCESSORS];

/* NULL: there is none of this name. */
const Processor *processor_find(const char *name);
/* The architecture that mgc itself was compiled for; "" if it is none of the table. */
const char *processor_host_arch(void);
/* The architecture that the plan's program runs on, if mgc runs on another one; else NULL. */
const char *processor_foreign(const Plan *p);

/* For the plan's program, in the arena: the C compiler ($MGC_CC, cc, or the cross compiler by
 * Debian's name), the help of a compiler that fails, and the path of a library in lib_dir. */
const char *processor_cc(const Plan *p);
const char *processor_cc_help(const Plan *p);
const char *processor_library(const Plan *p, const char *lib_dir, const char *name);

#endif
