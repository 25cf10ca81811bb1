/* parameters.h - the parameters of the kernels of kernels/cuda. */
#ifndef RECORD_PARAMETERS_H
#define RECORD_PARAMETERS_H

enum { RECORD_ARGUMENTS = 256 };

/* The first part of the name of kernel i; NULL: there are no more. */
const char *record_kernel(int i);
/* Sets the bytes of each parameter of a kernel, and returns how many it has; -1: there is no such
 * kernel. */
int record_kernel_parameters(const char *kernel, int bytes[RECORD_ARGUMENTS]);

#endif
