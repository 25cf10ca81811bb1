/* native.h - the generated kernels of a plan, loaded into the test. */
#ifndef MGC_TESTS_NATIVE_H
#define MGC_TESTS_NATIVE_H

#include "tests/plan/planned.h"

typedef void NativeKernel(void *const *p, int64_t begin, int64_t end);

typedef struct Native {
    void *library;
    NativeKernel **kernel; /* per kernel of the plan */
} Native;

/* Generates (by LLVM, or as the program in C, compiled as it says), links and loads; fails the test
 * if that fails. */
void native_open(Native *n, Model *t, const Plan *p);
void native_open_c(Native *n, Model *t, const Plan *p);
void native_close(Native *n);

#endif
