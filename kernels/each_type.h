/* each_type.h - includes MGK_BODY for each type of number in memory, at one level; see
 * each_isa.h. */
#define MGK_TYPE f32
#define MGK_F64  0
#define MGK_HALF 0
#include "kernels/simd.h"
#include MGK_BODY
#undef MGK_TYPE
#undef MGK_F64
#undef MGK_HALF

#define MGK_TYPE f64
#define MGK_F64  1
#define MGK_HALF 0
#include "kernels/simd.h"
#include MGK_BODY
#undef MGK_TYPE
#undef MGK_F64
#undef MGK_HALF

#define MGK_TYPE bf16
#define MGK_F64  0
#define MGK_HALF MGK_BF16
#include "kernels/simd.h"
#include MGK_BODY
#undef MGK_TYPE
#undef MGK_F64
#undef MGK_HALF

#define MGK_TYPE f16
#define MGK_F64  0
#define MGK_HALF MGK_F16
#include "kernels/simd.h"
#include MGK_BODY
#undef MGK_TYPE
#undef MGK_F64
#undef MGK_HALF
