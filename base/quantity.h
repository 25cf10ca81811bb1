/* quantity.h - bytes and seconds for people: "1.5 GiB", "812 ms", into the arena. */
#ifndef MGC_BASE_QUANTITY_H
#define MGC_BASE_QUANTITY_H

#include "base/arena.h"

const char *text_bytes(Arena *a, double bytes);
const char *text_seconds(Arena *a, double seconds);

#endif
