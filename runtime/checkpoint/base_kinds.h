/* base_kinds.h - what base.c and the kinds of a frozen base share. */
#ifndef MG_BASE_KINDS_H
#define MG_BASE_KINDS_H

#include "runtime/checkpoint/base.h"

/* A kind of base, by the part that has its codes. Pieces come in the order of the file, of a
 * multiple of 64 elements but for the last. */
typedef struct rt_base_kind {
    int each; /* elements a byte */
    void *(*begin)(mg_run *r, const rt_external *x, char **stored);
    void (*put)(void *b, const char *dtype, const char *in, int64_t at, int64_t n);
    void (*end)(void *b); /* the codes are put; frees b */
    void (*values)(mg_run *r, const rt_external *x, double *to);
    int64_t (*bytes)(const rt_external *x); /* that making of x takes */
} rt_base_kind;
extern const rt_base_kind rt_base_nf4, rt_base_int8;

/* The tensor NAME.end of the matrix x. */
const rt_external *rt_base_part(const mg_run *r, const rt_external *x, const char *end);
/* All elements of a part; floats as the type in which the program computes. */
void rt_base_put_all(mg_run *r, const rt_external *x, const void *values);
void rt_base_put_floats(mg_run *r, const rt_external *x, const float *values);
void *rt_base_get_all(mg_run *r, const rt_external *x); /* owned by the caller */
double rt_base_number(const rt_external *x, const void *values, int64_t i);

#endif
