/* library.h - the kernels that no plan generates, for kernels.cu, for each type that they are
 * needed in. Their parameters are explained in abi.h; descriptors are passed by value. */
#ifndef MG_CUDA_LIBRARY_H
#define MG_CUDA_LIBRARY_H

#include "abi.h"
#include "device.h"

#include "gather.h"
#include "rows.h"
#include "random.h"
#include "xent.h"

#include "attention.h" /* after xent.h: mg_exp */

#include "mma.h"

#include "flash.h"

#endif
