/* library.h - the kernels that no plan generates, compiled in kernels.cu for each type that needs
 * them. abi.h explains their parameters; descriptors are passed by value. */
#ifndef MG_CUDA_LIBRARY_H
#define MG_CUDA_LIBRARY_H

#include "abi.h"
#include "launches.h"
#include "device.h"

/* A program defines the types that it uses; without any definition all types are built. */
#if !defined MG_WITH_F32 && !defined MG_WITH_F64 && !defined MG_WITH_BF16 && !defined MG_WITH_F16
#define MG_WITH_F32
#define MG_WITH_F64
#define MG_WITH_BF16
#define MG_WITH_F16
#if defined MG_SHIM || (defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 890)
#define MG_ALL_TILES
#endif
#define MG_WITH_INSTANCES
#endif
#ifdef MG_WITH_F32
#define MG_IF_F32(...) __VA_ARGS__
#else
#define MG_IF_F32(...)
#endif
#ifdef MG_WITH_F64
#define MG_IF_F64(...) __VA_ARGS__
#else
#define MG_IF_F64(...)
#endif
#ifdef MG_WITH_BF16
#define MG_IF_BF16(...) __VA_ARGS__
#else
#define MG_IF_BF16(...)
#endif
#ifdef MG_WITH_F16
#define MG_IF_F16(...) __VA_ARGS__
#else
#define MG_IF_F16(...)
#endif

#include "numbers.h"

#include "gather.h"
#include "scatter.h"
#include "experts.h"
#include "rows.h"
#if defined MG_WITH_TILES || defined MG_ALL_TILES /* not all processors round to fp8 */
#include "tiles.h"
#endif
#include "random.h"
#include "shares.h"
#include "xent.h"

#include "sight.h"

#include "attention.h"

#include "mma.h"

#include "floats.h"

#include "flash.h"

#include "delta.h" /* after flash.h: flash_at */

#include "flash_grad.h"
#include "flash_bias.h" /* after flash_grad.h: flash_rows_of */

#include "wgmma.h"

#include "flash_sm90.h"
#include "flash_sm90_long.h" /* after flash_sm90.h */

#include "conv.h"

#include "grouped.h" /* after conv.h: conv_tile */

#include "instances.h"

#endif
