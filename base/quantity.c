/* quantity.c - bytes and seconds for people; see quantity.h. */
#include "base/quantity.h"

#include <math.h>

const char *text_bytes(Arena *a, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t u = 0;
    while (fabs(bytes) >= 1000 && u + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        u++;
    }
    return arena_printf(a, u && bytes < 100 ? "%.3g %s" : "%.0f %s", bytes, units[u]);
}

const char *text_seconds(Arena *a, double seconds)
{
    if (seconds < 1e-3)
        return arena_printf(a, "%.3g us", seconds * 1e6);
    if (seconds < 1)
        return arena_printf(a, "%.3g ms", seconds * 1e3);
    if (seconds < 600)
        return arena_printf(a, "%.3g s", seconds);
    return arena_printf(a, "%.0f s", seconds);
}

const char *text_rate(Arena *a, double rate)
{
    if (!(rate >= 1000 && rate < 1e15))
        return arena_printf(a, "%.3g", rate);
    const double unit = pow(10, floor(log10(rate)) - 2);
    return arena_printf(a, "%.0f", round(rate / unit) * unit);
}
