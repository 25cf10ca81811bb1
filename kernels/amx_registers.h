/* amx_registers.h - what the files of products on AMX (amx.h) have in common: the shape of tile
 * registers, and what the compiler has to know of them. Included where the tiles' instructions are
 * allowed. */
#ifndef MGK_AMX_REGISTERS_H
#define MGK_AMX_REGISTERS_H

#include <immintrin.h>
#include <stdint.h>

#include "kernels/isa.h"

/* A compiler barrier: gcc's tile intrinsics do not declare that they read memory. */
MGK_INLINE void settle(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Configures the eight tile registers: rows of 64 bytes, `rows` of them in the first six (sums, and
 * rows of A), 16 in the others (columns of B). */
MGK_INLINE void shape_registers(int64_t rows)
{
    struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shape.bytes[i] = 64;
        shape.rows[i] = i < 6 ? (uint8_t)rows : 16;
    }
    settle();
    _tile_loadconfig(&shape);
}

#endif
