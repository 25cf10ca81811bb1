/* merge.h - mgc merge: what its parts share.
 *
 * A directory of weights (model.safetensors, or an index with its files) and adapters as PEFT's go
 * into a directory of merged weights, one tensor after the other, a piece of rows at a time. */
#ifndef MGC_MERGE_H
#define MGC_MERGE_H

#include "compiler/session.h"

#include <jansson.h>

enum { MERGE_RANK_MAX = 8 };

typedef enum Element { ELEMENT_f64, ELEMENT_f32, ELEMENT_bf16, ELEMENT_f16, ELEMENT_other } Element;

typedef struct Stored {
    const char *name;
    const char *dtype; /* "F32" */
    Element element;
    int rank;
    int64_t shape[MERGE_RANK_MAX], n; /* n elements */
    uint64_t begin, end;              /* in the file */
    struct StoredFile *file;
    bool used;
} Stored;

typedef struct StoredFile {
    const char *path, *name; /* name: the last part of the path */
    FILE *in;
    VEC(Stored *) tensors; /* in the order of the bytes */
} StoredFile;

typedef struct Store {
    const char *dir;
    bool indexed;
    VEC(StoredFile *) files;
    json_t *by_name; /* name -> the place in `all` */
    VEC(Stored *) all;
} Store;

/* store.c: false after an error (MG0620). `file`: the name of the one file; NULL: a model's. */
bool store_open(Session *s, Store *st, const char *dir, const char *file);
void store_close(Store *st);
Stored *store_find(const Store *st, const char *name);
/* n elements from number `at` on, as doubles; false after an error. */
bool store_numbers(Session *s, const Stored *t, int64_t at, int64_t n, double *out);
/* All of them, malloc'ed; NULL after an error. */
double *store_all(Session *s, const Stored *t);
/* Of an element type: bytes; rounded once. */
int element_bytes(Element e);
void element_put(Element e, const double *from, int64_t n, void *out);
const char *element_name(Element e);

/* An adapter, its weight, and what its config says. */
typedef struct MergedAdapter {
    const char *dir;
    double weight;
    Store store;
    bool stabilized, turned;
    double alpha;
    json_t *alphas, *config;
} MergedAdapter;

/* adapter.c */
bool merge_adapter_open(Session *s, MergedAdapter *m, const char *word);
void merge_adapter_close(MergedAdapter *m);

/* An adapter's part of a tensor of n rows: left [rows, rank] times right [rank, columns]. */
typedef struct Addend {
    double *left, *right; /* malloc'ed; B, one of them, has scale and weight in it */
    double *magnitude;    /* DoRA: malloc'ed, or NULL */
    bool by_column;       /* its lengths are those of columns */
    double *length;       /* ... malloc'ed, once they are known */
    int64_t rank;
    double *whole; /* the tensor itself, in place of the base's; or NULL */
} Addend;

/* The part that adapter m has for a tensor of the base: 1, 0: nothing, -1: an error was told. */
int merge_addend(Session *s, MergedAdapter *m, const Stored *w, Addend *out);
void merge_addend_free(Addend *a);

/* rows.c: the tensor with what is added, written as elements of `to`. */
bool merge_tensor(Session *s, const Stored *w, Addend *add, size_t n, Element to, FILE *out);

Exit command_merge(Session *s);

#endif
