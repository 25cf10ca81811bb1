/* train.h - how a program is trained: what its train blocks say, checked. */
#ifndef MGC_IR_TRAIN_H
#define MGC_IR_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/names.h"
#include "ir/precision.h"
#include "ir/type.h"

typedef struct OptimizerInfo OptimizerInfo; /* ir/optimizers.h */
enum { OWN_MAX = 16 };                      /* numbers that a file's optimizer names itself */

/* As mg_lr in runtime/abi.h, in its order. */
typedef enum Schedule {
    LR_constant,
    LR_linear,
    LR_cosine,
    LR_wsd,
    LR_inverse_sqrt,
    LR_warmup,
    LR_warmup_cosine,
    LR_count
} Schedule;
extern const char *const schedule_names[LR_count];
typedef enum Descent { DESCENT_linear, DESCENT_cosine, DESCENT_sqrt, DESCENT_count } Descent;
extern const char *const descent_names[DESCENT_count];

enum { STATE_LEAST = 4096 }; /* where a source does not say it: bitsandbytes' min_8bit_size */

/* One of the losses that a step makes smaller, and how it changes its own parameters (Tensor.goal):
 * they alone have its gradient, and all gradients are of the same values of all parameters. */
typedef struct Goal {
    Name loss; /* "loss" of the first */
    Span span; /* where a source asks for it; no place: not in a text */
    const OptimizerInfo *optimizer;
    Span optimizer_span; /* where a source says which, with its settings; no place: not in a text */
#define NUMBER(name, ...) double name;
#define FLAG(name)        double name;
#include "ir/optimizers.def"
    double own[OWN_MAX]; /* as OptimizerInfo.own names them */
    double clip;         /* 0: none */
    /* The optimizer keeps what it has of each element in this type, rounded to it at random, or
     * (nearest) to the nearest number; DT_none: of the type that the program computes in. */
    DType state;
    bool nearest;
    int64_t state_least; /* dynamic8: what has fewer elements is kept as it is computed */
    Span state_span;     /* where a source says so; no place: not in a text */
    Name average; /* each of its parameters has an average with this Tensor.beta; 0: none has */
    Schedule schedule;
    double peak, floor;
    int64_t warmup, steps;
    int64_t last;    /* wsd: steps of the descent */
    Descent descent; /* wsd: of the descent */
    bool log;        /* warmup, warmup_cosine: by the logarithm */
} Goal;
/* Operands of fp8 have a scale each; or each tile of 128 elements, of a parameter of 128 x 128; or
 * of 32 elements, with scales that are powers of two. */
typedef enum Scales { SCALES_tensor, SCALES_tile, SCALES_mx, SCALES_count } Scales;
extern const char *const scales_names[SCALES_count]; /* as in the language and the text */

/* A frozen matrix is kept, beside an adapter: in the type that the program computes in, or
 * bf16 beside halves; or in NF4, two numbers a byte, in blocks of BASE_BLOCK elements as files have
 * them, each with an absmax, of which BASE_NESTED have one absmax in turn (passes/step/base_nf4.c);
 * or in int8, a byte a number, with an absmax a row (base_int8.c). */
typedef enum FrozenBase { BASE_as_computed, BASE_nf4, BASE_int8, BASE_count } FrozenBase;
extern const char *const base_names[BASE_count]; /* as in the language and the text */
enum { BASE_BLOCK = 64, BASE_NESTED = 256 };

enum { MAX_GOALS = 8 };

/* Advantages are deviations of rewards from the mean of their group, over the standard deviation of
 * the group, over that of all rewards of a step, or as they are. */
typedef enum RewardScale { REWARD_group, REWARD_batch, REWARD_none, REWARD_count } RewardScale;
extern const char *const reward_scale_names[REWARD_count]; /* as in the language and the text */

/* A step learns answers that the program generates itself, in groups of `size` of one prompt. */
typedef struct Rollout {
    int64_t size;    /* 0: it learns what its data has */
    int64_t tokens;  /* of an answer, at most */
    int64_t updates; /* of the parameters, by the same answers */
    int64_t texts;   /* so many are generated at once */
    RewardScale scale;
    double temperature;
    Span span; /* where a source says so; no place: not in a text */
} Rollout;

/* The train blocks, checked. What differs by parameter is in Tensor. */
typedef struct Train {
    Goal goal[MAX_GOALS]; /* the first is that of `loss`, which has the parameters of no other */
    int goals;            /* 1 or more */
    DType compute;        /* f32 or f64 */
    bool tree;            /* gradients are added up in a tree over the microbatches of a step */
    Span tree_span;       /* where a source says so; no place: not in a text */
    bool as_ready; /* a parameter is updated once its gradient is there, whatever the others */
    bool tf32;     /* f32 whose products a GPU may round to 10 bits before it multiplies */
    DType half;    /* compute f32: what operands of products and what is kept are rounded to;
                      DT_none: nothing is */
    DType fp8, fp8_gradients; /* half bf16: what operands of layers' products are rounded to, with
                      scales, and what their gradients are; DT_none: to half alone */
    Scales fp8_scales;
    bool fp8_products;  /* the device multiplies fp8; else halves of the same value are */
    DType master;       /* what parameters are kept in, rounded at random; DT_none: in `compute` */
    FrozenBase base;    /* what frozen matrices of layers are kept as */
    Span base_span;     /* where a source says so; no place: not in a text */
    DType sums;         /* what sums of gradients are kept in, likewise; DT_none: in `compute` */
    bool sums_nearest;  /* ... rounded to the nearest */
    bool wide_partials; /* what ranks have parts of is added up in `compute`, and not in halves
                           where all parts are */
    PrecisionBy precision_by; /* for people */
    Span precision_span;      /* where a source says so; no place: not in a text */
    /* f16: the loss is multiplied by a scale, which follows DeepSpeed's rule; 0: none */
    double scale, scale_least;
    int64_t scale_window, scale_hysteresis;
    Rollout rollout;
} Train;

#endif
