/* quantity.h - bytes, seconds and rates for people: "1.5 GiB", "812 ms", "1250", into the arena. */
#ifndef MGC_BASE_QUANTITY_H
#define MGC_BASE_QUANTITY_H

#include "base/arena.h"

const char *text_bytes(Arena *a, double bytes);
const char *text_seconds(Arena *a, double seconds);
/* Three digits, and zeros: 0.52, 958, 1250, 3460000. */
const char *text_rate(Arena *a, double rate);

#endif
