/* blas.h - a matrix library to compare with, loaded at run time: single-threaded cblas calls. */
#ifndef MGK_BLAS_H
#define MGK_BLAS_H

/* cblas's enums, as its ABI fixes them. */
enum { MGK_ROW_MAJOR = 101, MGK_NO_TRANS = 111, MGK_TRANS = 112 };

typedef struct mgk_blas {
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                  int lda, const double *b, int ldb, double beta, double *c, int ldc);
    void (*sgemv)(int order, int ta, int m, int n, float alpha, const float *a, int lda,
                  const float *x, int incx, float beta, float *y, int incy);
    void (*dgemv)(int order, int ta, int m, int n, double alpha, const double *a, int lda,
                  const double *x, int incx, double beta, double *y, int incy);
} mgk_blas;

/* For this processor. Returns NULL, or why it could not be loaded. */
const char *mg_blas_open(void);
const char *mg_blas_name(void); /* "OpenBLAS 0.3.21 SkylakeX" */

/* Ends the program if mg_blas_open has not succeeded. */
const mgk_blas *mgk_blas_get(void);

#endif
