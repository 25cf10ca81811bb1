/* record.h - the CUDA runtime, cuBLASLt and NCCL as functions that only write down what is called:
 * a line for each call, in its order, in text (README.md has the words). No kernel runs, nothing is
 * copied, and the addresses of device memory are numbers that nobody may read from. */
#ifndef RECORD_H
#define RECORD_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "runtime/run.h"
#include "tests/record/parameters.h"

/* The program that is recorded; set before its device is opened. */
extern mg_run *record_run;

/* From now on calls are written to this file; NULL: they are not. */
void record_to(FILE *f);

/* Writes a line: the word, the current action (-1: none), and the rest. */
void record_line(const char *word, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A number that no other object has: streams, events, graphs and communicators are numbers. */
uintptr_t record_number(void);

#endif
