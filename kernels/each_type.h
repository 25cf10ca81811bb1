/* each_type.h - MGK_BODY for float, then for double, at one level; see each_isa.h. */
#define MGK_TYPE f32
#define MGK_F64  0
#include "kernels/simd.h"
#include MGK_BODY
#undef MGK_TYPE
#undef MGK_F64

#define MGK_TYPE f64
#define MGK_F64  1
#include "kernels/simd.h"
#include MGK_BODY
#undef MGK_TYPE
#undef MGK_F64
