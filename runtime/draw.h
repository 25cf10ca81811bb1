/* draw.h - many numbers drawn at once, as init.c says of one. */
#ifndef MG_DRAW_H
#define MG_DRAW_H

#include <stdbool.h>
#include <stdint.h>

enum { RT_DRAWS = 256 };

/* Of elements e: out[i] is the standard normal number, or that in [0, 1), of number 0 that element
 * e[i] draws under key. */
void rt_draw(const uint64_t e[RT_DRAWS], const uint32_t key[2], bool normal, double out[RT_DRAWS]);

#endif
