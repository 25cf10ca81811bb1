/* library.cc - the kernels of kernels/cuda alone, for the shim. */
#include "kernels/cuda/library.h"
