/* rounds.c - who meets in a preflight at all; and who measures with whom, so that each two meet
 * once and nobody has two at a time. */
#include <stdlib.h>

#include "runtime/preflight/flight.h"

/* One stays, and the others go round (the circle method): an odd number is made even by one that is
 * not there. */
int rt_partner(int n, int round, int i)
{
    const int last = n + n % 2 - 1;
    int other = i == last ? round * ((last + 1) / 2) % last : (round - i + 2 * last) % last;
    if (i != last && other == i)
        other = last;
    return other < n ? other : -1;
}

int rt_rounds(int n)
{
    return n < 2 ? 0 : n + n % 2 - 1;
}

/* Ranks that meet for a preflight have the same parts, sizes and order of them. */
uint64_t rt_preflight_key(void)
{
    char *text = rt_printf("preflight 1, %zu", sizeof(rt_about));
    const uint64_t key = mg_key(text);
    free(text);
    return key;
}
