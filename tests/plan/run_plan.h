/* run_plan.h - the meaning of a plan: its actions, on a byte arena, in the order of the plan.
 *
 * Numbers lie where and as the plan says (f32 as float, f64 as double), everything is computed in
 * double. What a kernel computes is asked of the reference interpreter; what a library call
 * computes is written down here from the words of runtime/abi.h. Slow, and independent of codegen,
 * kernels and runtime: what differs from the module's interpretation is the planner's mistake. */
#ifndef MGC_TESTS_RUN_PLAN_H
#define MGC_TESTS_RUN_PLAN_H

#include "ir/interpret.h"
#include "plan/plan.h"

/* Element e (row-major over type's dims) of a strided operand. */
int64_t strided_element(const Operand *o, int64_t e);

/* A number in memory. */
double number_at(const void *p, DType t, int64_t i);
void number_put(void *p, DType t, int64_t i, double x);

/* Runs a kernel's action on the memory of its operands, in the interpreter; shaken: with inexact
 * results (ir_interpret_shaken) drawn from *state. */
void interpret_kernel(const Plan *p, const Action *act, void *const *at);
void interpret_kernel_shaken(const Plan *p, const Action *act, void *const *at, uint64_t seed);

/* Runs one kernel; `ctx` is handed through. */
typedef void KernelRun(void *ctx, const Plan *p, const Action *act, void *const *at);

/* The place of a buffer in the bytes of a run: the arenas of all levels, one behind the other. */
int64_t memory_offset(const Plan *p, const Buffer *b);

/* Runs all actions of a program, its kernels by `kernel` (NULL: interpret_kernel). order: NULL for
 * that of the program, else where a random one that the streams allow is drawn from. False: the
 * guard ended it. */
bool run_plan(const Plan *p, const Program *prog, unsigned char *arena, KernelRun *kernel,
              void *ctx, uint64_t *order);
/* The same of all ranks of the mesh together, each with its arena, in one order. */
bool run_plan_ranks(const Plan *p, const Program *prog, unsigned char *const *arenas,
                    uint64_t *order);

#endif
