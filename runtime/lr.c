/* lr.c - the learning rate of a step; the formula is that of mg_lr in abi.h. */
#include "runtime/run.h"

#include <math.h>

double rt_lr(const mg_lr *lr, int64_t step)
{
    if (step < lr->warmup)
        return lr->peak * (double)(step + 1) / (double)lr->warmup;
    int64_t span = lr->steps - lr->warmup;
    double r = (double)(step - lr->warmup) / (double)(span > 1 ? span : 1);
    if (r > 1)
        r = 1;
    switch (lr->kind) {
    case MG_LR_LINEAR:
        return lr->peak + (lr->floor - lr->peak) * r;
    case MG_LR_COSINE:
        return lr->floor + (lr->peak - lr->floor) * 0.5 * (1 + cos(3.14159265358979323846 * r));
    case MG_LR_CONSTANT:
        break;
    }
    return lr->peak;
}
