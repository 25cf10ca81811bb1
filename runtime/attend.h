/* attend.h - which kernel of kernels/cuda computes attention, by its descriptor. The runtime of
 * CUDA programs launches by this choice; the compiler gives a program the kernels that it chooses,
 * and prices attention by its class. */
#ifndef MG_ATTEND_H
#define MG_ATTEND_H

#include <stdio.h>

#include "runtime/abi.h"
#include "runtime/launches.h"

typedef enum mg_attend_class {
    MG_ATTEND_WARP,   /* attention.h: a warp computes a row; slow, for what no tile fits */
    MG_ATTEND_FLOATS, /* flash.h: tiles, products in float32 */
    MG_ATTEND_TF32,   /* flash.h: tiles, products of tf32 on tensor cores */
    MG_ATTEND_FLASH,  /* flash.h: tiles, products of halves on tensor cores */
    MG_ATTEND_FLASH90 /* flash_sm90.h: tiles, products of halves on the tensor cores of sm_90 */
} mg_attend_class;
typedef enum mg_attend_pass {
    MG_ATTEND_FORWARD,
    MG_ATTEND_DQ,
    MG_ATTEND_DKV,
    MG_ATTEND_DBIAS,
    MG_ATTEND_PASSES
} mg_attend_pass;
typedef enum mg_attend_sight {
    MG_SEE_ALL,
    MG_SEE_SOME,
    MG_SEE_CAPPED,
    MG_SEE_BIASED,
    MG_SEE_CAPPED_BIASED
} mg_attend_sight; /* sight.h */

/* A kernel: its pass, the kind of numbers ("bf16", "tf32", ...), and unless it is of the first
 * class what queries see and the columns of its tiles of keys and values. */
typedef struct mg_attend {
    mg_attend_class class_;
    mg_attend_pass pass;
    const char *numbers;
    mg_attend_sight sight;
    int head, vhead;
    bool few; /* of the two kernels for heads of 64 that of few blocks: see mg_attend_has_few */
} mg_attend;

/* The least head of a tile that has room for `head` columns; 0 if none has. */
static inline int mg_attend_head(int64_t head)
{
    static const int heads[] = {32, 64, 80, 96, 128, 192, 256};
    for (unsigned i = 0; i < sizeof heads / sizeof *heads; i++)
        if (head <= heads[i])
            return heads[i];
    return 0;
}

/* The same of the tiles of sm_90, which are whole panels of 64 columns. */
static inline int mg_attend_head90(int64_t head)
{
    return head <= 64 ? 64 : head <= 128 ? 128 : head <= MG_FLASH90_HEAD ? 192 : 0;
}

/* Sets the columns of tiles. Values have another number than keys only in some pairs, so that the
 * kernels are few enough for each to be examined: keys of 192 with values of 128 (latent attention:
 * 128 and 64 of positions), and 64 with 128. */
static inline void mg_attend_tiles(mg_attend *a, int64_t head, int64_t vhead)
{
    int (*of)(int64_t) = a->class_ == MG_ATTEND_FLASH90 ? mg_attend_head90 : mg_attend_head;
    const int k = of(head), v = of(vhead);
    if ((k == 192 && v <= 128) || (k == 128 && v <= 64) || (k <= 64 && v == 128)) {
        a->head = k == 192 || k == 128 ? k : 64;
        a->vhead = k == 192 || v > 64 ? 128 : 64;
    } else
        a->head = a->vhead = k > v ? k : v;
}

/* True if no row of q, k, v, o, or in a gradient of theirs, begins at a place that is no multiple
 * of 8 elements, as far as strides say it. grad: of dq, dk and dv too. */
static inline bool mg_attend_even(const mg_attention_desc *d, bool grad)
{
    int64_t all = d->head | d->vhead;
    for (int i = 0; i < 4; i++)
        all |= d->q[i] | d->o[i] | (grad ? d->dq[i] : 0);
    for (int i = 0; i < 3; i++)
        all |= d->k[i] | d->v[i] | (grad ? d->dk[i] | d->dv[i] : 0);
    return all % 8 == 0;
}

/* The class of the kernel for d in a pass. tf32: the program may round f32 for products; sm90: the
 * GPU has those tensor cores; even: all operands begin at multiples of 16 bytes. */
static inline mg_attend_class mg_attention_class(const mg_attention_desc *d, mg_attend_pass pass,
                                                 bool tf32, bool sm90, bool even)
{
    const int64_t most = d->head > d->vhead ? d->head : d->vhead;
    if (d->dtype == MG_F64 || mg_attend_head(most) == 0)
        return MG_ATTEND_WARP;
    if (d->dtype == MG_F32)
        return tf32 ? MG_ATTEND_TF32 : MG_ATTEND_FLOATS;
    if (!even || !mg_attend_even(d, pass == MG_ATTEND_DQ || pass == MG_ATTEND_DKV))
        return MG_ATTEND_WARP;
    return sm90 && most <= MG_FLASH90_HEAD && d->scale > 0 && !d->biased ? MG_ATTEND_FLASH90
                                                                         : MG_ATTEND_FLASH;
}

/* How many kernels compute the gradients of attention: tiles have one more, of do . o. This does
 * not depend on the GPU. */
static inline int64_t mg_attention_grad_nodes(const mg_attention_desc *d)
{
    return mg_attention_class(d, MG_ATTEND_DQ, false, false, true) == MG_ATTEND_WARP ? 2 : 3;
}

/* Kernels of the bias's gradient: of tiles one more, as above. */
static inline int64_t mg_attention_bias_nodes(const mg_attention_desc *d)
{
    return mg_attention_grad_nodes(d) - 1;
}

/* The kernel for d. `some`: first keys, or the number of keys that are seen, are given. */
static inline mg_attend mg_attend_of(const mg_attention_desc *d, mg_attend_pass pass, bool some,
                                     bool tf32, bool sm90, bool even)
{
    mg_attend a = {.class_ = mg_attention_class(d, pass, tf32, sm90, even), .pass = pass};
    a.numbers = d->dtype == MG_BF16          ? "bf16"
                : d->dtype == MG_F16         ? "f16"
                : d->dtype == MG_F64         ? "f64"
                : a.class_ == MG_ATTEND_TF32 ? "tf32"
                                             : "f32";
    if (a.class_ == MG_ATTEND_WARP)
        return a;
    a.sight = d->biased               ? d->cap > 0 ? MG_SEE_CAPPED_BIASED : MG_SEE_BIASED
              : d->cap > 0            ? MG_SEE_CAPPED
              : some || d->window > 0 ? MG_SEE_SOME
                                      : MG_SEE_ALL;
    mg_attend_tiles(&a, d->head, d->vhead);
    return a;
}

/* The gradient of keys and values of heads of 64 has two kernels on sm_90. Two blocks of one fit a
 * multiprocessor, which is faster where there are many; a block of the other has one to itself.
 * Few blocks of the first kind would all begin at once, and masks make their lengths so different
 * that most multiprocessors are done long before the last one (an H100, one sequence of 4096, 8
 * heads of keys: 1.6 times the time). Three blocks a multiprocessor are by a simulation of that,
 * not measured. */
static inline bool mg_attend_has_few(const mg_attend *a)
{
    return a->class_ == MG_ATTEND_FLASH90 && a->pass == MG_ATTEND_DKV && a->head == 64 &&
           a->vhead == 64;
}
static inline bool mg_attend_is_few(const mg_attend *a, int64_t blocks, int multiprocessors)
{
    return mg_attend_has_few(a) && blocks <= 3 * (int64_t)multiprocessors;
}

enum { MG_ATTEND_NAME = 64 };
static inline const char *mg_attend_pass_name(mg_attend_pass pass)
{
    static const char *const name[MG_ATTEND_PASSES] = {"forward", "dq", "dkv", "dbias"};
    return name[pass];
}
static inline const char *mg_attend_sight_name(mg_attend_sight sight)
{
    static const char *const name[] = {"all", "some", "cap", "bias", "capbias"};
    return name[sight];
}
/* The kernel's name. */
static inline void mg_attend_name(const mg_attend *a, char name[MG_ATTEND_NAME])
{
    const char *pass = mg_attend_pass_name(a->pass);
    if (a->class_ == MG_ATTEND_WARP)
        snprintf(name, MG_ATTEND_NAME, "mg_attention_%s_%s", pass, a->numbers);
    else
        snprintf(name, MG_ATTEND_NAME, "mg_flash%s_%s%s_%s_%s_%d_%d",
                 a->class_ == MG_ATTEND_FLASH90 ? "90" : "", pass, a->few ? "_few" : "", a->numbers,
                 mg_attend_sight_name(a->sight), a->head, a->vhead);
}
/* The macro of instances.h that compiles it, with its arguments. */
static inline void mg_attend_instance(const mg_attend *a, char text[MG_ATTEND_NAME])
{
    if (a->class_ == MG_ATTEND_WARP)
        snprintf(text, MG_ATTEND_NAME, "MG_ATTENTION_%s(%s)", mg_attend_pass_name(a->pass),
                 a->numbers);
    else
        snprintf(text, MG_ATTEND_NAME, "MG_FLASH%s_%s%s(%s, %s, %d, %d)",
                 a->class_ == MG_ATTEND_FLASH90 ? "90" : "", mg_attend_pass_name(a->pass),
                 a->few ? "_few" : "", a->numbers, mg_attend_sight_name(a->sight), a->head,
                 a->vhead);
}

/* Rows of a block, its threads, the bytes of its shared memory, and, of the bias's gradient in
 * tiles, its keys. */
typedef struct mg_attend_launch {
    int rows, threads, shared, keys;
} mg_attend_launch;
static inline mg_attend_launch mg_attend_launch_of(const mg_attend *a, int width)
{
    const int k = a->head, v = a->vhead;
    if (a->class_ == MG_ATTEND_WARP)
        return (mg_attend_launch){MG_ATTENTION_WARPS, 32 * MG_ATTENTION_WARPS, 0, 0};
    if (a->class_ == MG_ATTEND_FLASH90)
        return (mg_attend_launch){
            a->pass == MG_ATTEND_DKV && MG_FLASH90_LONG(k, v) ? MG_FLASH90_LONG_ROWS
                                                              : MG_FLASH90_ROWS,
            2 * MG_FLASH90_ROWS,
            a->pass == MG_ATTEND_FORWARD ? MG_FLASH90_SHARED(k, v)
            : a->pass == MG_ATTEND_DQ    ? MG_FLASH90_DQ_SHARED(k, v)
            : MG_FLASH90_LONG(k, v)
                ? MG_FLASH90_LONG_SHARED(k, v)
                : MG_FLASH90_DKV_SHARED(k, v, a->few ? 64 : MG_FLASH90_GRAD_TILE(k, v)),
            0};
    const int rows = a->pass == MG_ATTEND_FORWARD ? MG_FLASH_ROWS : MG_FLASH_GRAD_ROWS(k, v, width);
    return (mg_attend_launch){rows, 2 * rows,
                              a->pass == MG_ATTEND_FORWARD ? MG_FLASH_SHARED(k, v, width)
                              : a->pass == MG_ATTEND_DQ    ? MG_FLASH_DQ_SHARED(k, v, width)
                                                           : MG_FLASH_DKV_SHARED(k, v, width),
                              MG_FLASH_GRAD_TILE(k, v, width)};
}

#endif
