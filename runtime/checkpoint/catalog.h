/* catalog.h - the tensors of a program as the tensors of a checkpoint. */
#ifndef MG_CATALOG_H
#define MG_CATALOG_H

#include "runtime/abi.h"

/* The external form of all layers (and experts) of a stored tensor: slices of it, with reordered
 * dims. */
typedef struct rt_form {
    const mg_tensor *tensor;
    int rank;
    int64_t shape[MG_RANK_MAX]; /* in files: of a part, that of its whole */
    int64_t elements, whole;    /* its own; those of the shape */
    int64_t run, from, every;   /* its elements in a file: runs at from, from + every, ... */
    int ndims; /* the dims of the shape before merging: sizes and strides in elements */
    int64_t dim[MG_RANK_MAX], stride[MG_RANK_MAX];
    /* For a tensor that is split over ranks: the part of each dim that a rank has, and the axes of
     * the split. */
    int copies;    /* number of arenas, */
    int64_t apart; /* and bytes between those of two neighbours, or between their images */
    const mg_program *split; /* NULL: each rank has all of it */
    int64_t part[MG_RANK_MAX];
    uint32_t axes[MG_RANK_MAX], zigzag[MG_RANK_MAX];
    int64_t unit[MG_RANK_MAX]; /* elements: each contiguous run begins at a multiple */
    uint32_t on;               /* the axes that layers or experts are split on */
} rt_form;
/* One external tensor, or a part of one. Models have many layers, so this struct is small. */
typedef struct rt_external {
    const rt_form *form;
    char *name;      /* "model.layers.3.mlp.up_proj.weight"; "exp_avg." before it for a slot */
    char *begins;    /* that of the parameter that it begins as, or NULL */
    int64_t offset;  /* elements from the start of the stored tensor */
    int16_t *stands; /* by rank: the rank in whose place of rank 0's memory its data are kept;
                      * owned; NULL: in its own place */
    int place;       /* along form->on: the place of the ranks that have it */
    int part, parts; /* number `part` of the `parts` items that are parts of one tensor of a file;
                      * 0 of 1 if it is all of it */
} rt_external;
typedef struct rt_catalog {
    rt_external *item; /* sorted by name, parts by their place */
    rt_form *form;     /* one for each tensor of the role */
    int n;
    int64_t bytes;   /* of the tensors in files */
    int64_t memory;  /* bytes of host memory of the catalog, */
    int64_t entries; /* and the most that a header with an entry for each takes */
} rt_catalog;

/* Ends the program (78) if the program's table contradicts itself. */
rt_catalog rt_catalog_new(const mg_program *p, mg_role role);
void rt_catalog_free(rt_catalog *c);
/* The place in c->item of the first item called `name`, or -1. */
int rt_catalog_find(const rt_catalog *c, const char *name);
/* Bytes of a rank's part of an external tensor, from its first to its last element. */
int64_t rt_form_bytes(const rt_form *x);
/* True if the rank has a part of the tensor. */
bool rt_external_has(const rt_external *x, int rank);
/* Elements [begin, begin + n) in external order, of a part in its own, read from and written to the
 * memory of rt_stored_open. */
void rt_external_get(const rt_external *x, const char *stored, int64_t begin, int64_t n, void *out);
void rt_external_put(const rt_external *x, char *stored, int64_t begin, int64_t n, const void *in);
/* How many of the n elements from `begin` on lie side by side in the memory of the same ranks, and
 * the first of these. */
int64_t rt_external_run(const rt_external *x, int64_t begin, int64_t n, int *rank);

/* ---- whole.c ------------------------------------------------------------------------------ */

/* A tensor of a file is the x->parts items from x on, x->part being 0. Its memory, a pointer for
 * each; freed by rt_whole_close. As rt_stored_open else. */
char **rt_whole_open(struct mg_run *r, const rt_external *x, bool read);
void rt_whole_close(struct mg_run *r, const rt_external *x, char **stored, bool changed);
/* Elements [begin, begin + n) of a tensor of a file. State that no part has, because it is not
 * trained, is read as zeros, and not written. */
void rt_whole_get(const rt_external *x, char *const *stored, int64_t begin, int64_t n, void *out);
void rt_whole_put(const rt_external *x, char *const *stored, int64_t begin, int64_t n,
                  const void *in);
/* The place in a file of element e. */
int64_t rt_whole_index(const rt_form *form, int64_t e);
/* The places in the source of all parts: "phi.mg:12, phi.mg:13"; owned by the caller. */
char *rt_whole_where(const rt_external *x);

#endif
