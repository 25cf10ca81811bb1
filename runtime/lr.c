/* lr.c - computes the learning rate of a step; the formulas are at mg_lr in abi.h. */
#include "runtime/run.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

static double cosine(double r)
{
    return 0.5 * (1 + cos(PI * r));
}

/* at / length, limited to [0, 1]. */
static double part(int64_t at, int64_t length)
{
    double r = (double)at / (double)(length > 1 ? length : 1);
    return r < 0 ? 0 : r > 1 ? 1 : r;
}

static double between(const mg_lr *lr, double share)
{
    return lr->floor + (lr->peak - lr->floor) * share;
}

static double descent(const mg_lr *lr, int64_t step)
{
    int64_t last = lr->last < lr->steps - lr->warmup ? lr->last : lr->steps - lr->warmup;
    double q = part(step - (lr->steps - last), last);
    return between(lr, lr->shape == MG_SHAPE_COSINE ? cosine(q)
                       : lr->shape == MG_SHAPE_SQRT ? 1 - sqrt(q)
                                                    : 1 - q);
}

/* DeepSpeed's WarmupLR and WarmupCosineLR. */
static double deepspeed(const mg_lr *lr, int64_t step)
{
    int64_t w = lr->warmup > 2 ? lr->warmup : 2;
    double rise = lr->log ? log((double)step + 1) / log((double)w) : (double)step / (double)w;
    if (step < w)
        return lr->kind == MG_LR_WARMUP ? between(lr, rise) : lr->peak * rise;
    return lr->kind == MG_LR_WARMUP ? lr->peak
                                    : between(lr, cosine(part(step - w + 1, lr->steps - w)));
}

double rt_lr(const mg_lr *lr, int64_t step)
{
    if (lr->kind == MG_LR_WARMUP || lr->kind == MG_LR_WARMUP_COSINE)
        return deepspeed(lr, step);
    if (step < lr->warmup)
        return lr->peak * (double)(step + 1) / (double)lr->warmup;
    double r = part(step - lr->warmup, lr->steps - lr->warmup);
    switch (lr->kind) {
    case MG_LR_LINEAR:
        return lr->peak + (lr->floor - lr->peak) * r;
    case MG_LR_COSINE:
        return between(lr, cosine(r));
    case MG_LR_WSD:
        return descent(lr, step);
    case MG_LR_INVERSE_SQRT:
        return fmax(lr->floor, lr->peak * sqrt((double)lr->warmup / (double)(step + 1)));
    case MG_LR_CONSTANT:
    case MG_LR_WARMUP:
    case MG_LR_WARMUP_COSINE:
        break;
    }
    return lr->peak;
}
