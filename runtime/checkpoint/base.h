/* base.h - frozen matrices that are kept in fewer bits (mg_tensor.coded): how they are made of the
 * numbers of files, and what they stand for. */
#ifndef MG_BASE_H
#define MG_BASE_H

#include "runtime/run.h"

/* Is the item a scale or an offset, which belongs to a matrix and is in no file? */
bool rt_base_beside(const rt_external *x);
/* Elements a number of the tensor: 2 of codes of NF4. */
int rt_base_each(const rt_external *x);
/* Files have of codes the matrix that they stand for. */
mg_dtype rt_file_dtype(const rt_external *x);
int64_t rt_file_elements(const rt_external *x);
int64_t rt_file_size(const rt_external *x, int dim);

/* Makes the matrix of codes x: elements in the order of files, in pieces of whole blocks. The
 * numbers are the same whatever the layout, since whole matrices are seen here. */
typedef struct rt_base rt_base;
rt_base *rt_base_begin(mg_run *r, const rt_external *x);
/* n elements from `at` on, as `dtype` of safetensors has them. */
void rt_base_put(rt_base *b, const char *dtype, const char *in, int64_t at, int64_t n);
void rt_base_end(rt_base *b);
/* All elements that codes stand for, as the program reads them; owned by the caller. */
double *rt_base_values(mg_run *r, const rt_external *x);
/* Memory of making the largest. */
int64_t rt_base_bytes(const mg_run *r);

#endif
