/* number.h - reads numbers of types that a program does not compute in. */
#ifndef MG_NUMBER_H
#define MG_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

bool rt_number_known(const char *dtype);    /* a name of a dtype of safetensors */
bool rt_number_is_whole(const char *dtype); /* I64, U8, BOOL, ... */
/* Element i of `from`; whole numbers beyond 2^53 are rounded. */
double rt_number(const char *dtype, const char *from, int64_t i);
/* Elements i to i + n - 1 of `from`. */
void rt_numbers(const char *dtype, const char *from, int64_t i, int64_t n, double *to);

#endif
