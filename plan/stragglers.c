/* stragglers.c - how slow the slowest of many ranks is.
 *
 * The speeds of ranks are spread (cards of one kind differ by how they were made and how warm they
 * get), and each step waits for the slowest. With the times of ranks normal and independent,
 * P(the slowest of n is no more than z deviations behind) = Phi(z)^n, so at part q of all meshes
 *   1 - Phi(z) = 1 - q^(1/n) = -expm1(log(q) / n)
 * which is solved for z by halving: erfc has the precision that a small tail needs. */
#include "plan/stragglers.h"

#include <math.h>

double stragglers_slowest(int64_t ranks, double part)
{
    const double tail = -expm1(log(part) / (double)ranks);
    double low = -40, high = 40; /* beyond, a double has no tail */
    for (int i = 0; i < 64; i++) {
        const double z = (low + high) / 2;
        *(erfc(z / sqrt(2)) / 2 > tail ? &low : &high) = z;
    }
    return high;
}
