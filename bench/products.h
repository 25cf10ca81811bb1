/* products.h - products of a given list, each alone, by every library there is. */
#ifndef BENCH_PRODUCTS_H
#define BENCH_PRODUCTS_H

#include "runtime/abi.h"

/* Before anything of OpenMP runs: finds oneDNN, if this machine has it, for so many threads. */
void products_open(int threads);

/* Reads "ta tb m n k" a line, all numbers, until the end of the file, and prints for each product
 * of numbers of type t, MG_F32 or MG_BF16, and library that has it a line: ta tb m n k library,
 * seconds at the median and at best. 0, or the number of the line that is none. */
int products_run(mg_run *r, mg_dtype t, const char *path);

#endif
