/* convert.h - halves as PTX rounds them: to nearest, ties to even; a NaN is 0x7fff. */
#ifndef PTX_CONVERT_H
#define PTX_CONVERT_H

#include <stdint.h>

namespace ptx
{

uint16_t to_bf16(float x);
uint16_t to_f16(float x);
float from_bf16(uint16_t h);
float from_f16(uint16_t h);

} // namespace ptx

#endif
