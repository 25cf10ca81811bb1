/* rounds.c - who measures with whom, so that each two meet once and nobody has two at a time. */
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
