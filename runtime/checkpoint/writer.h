/* writer.h - the files of a checkpoint or an export as they are written. */
#ifndef MG_WRITER_H
#define MG_WRITER_H

#include "runtime/checkpoint/checkpoint.h"

typedef struct rt_writer {
    int fd;
    rt_seal seal; /* of what was written */
} rt_writer;

/* A new file in a folder. All return false with errno. */
bool rt_writer_open(rt_writer *w, int dir, const char *name);
bool rt_writer_put(rt_writer *w, const void *p, size_t n);
/* Syncs and closes, also after a failure. */
bool rt_writer_close(rt_writer *w, bool good);

/* A file of one text. */
bool rt_write_text(int dir, const char *name, const char *text, rt_writer *w);

/* Changes that an export makes of tensors. */
typedef struct rt_form_of {
    bool merged;       /* with what an adapter adds */
    const char *dtype; /* in safetensors; NULL: as they are kept */
    bool too_large;    /* set: a number was that the type cannot hold */
} rt_form_of;
/* The header of that file, *size bytes; the caller frees it. */
char *rt_tensors_header(const rt_catalog *c, const rt_form_of *form, size_t *size);
/* The tensors of a catalog as a safetensors file. form NULL: as they are. */
bool rt_write_tensors(mg_run *r, int dir, const char *name, const rt_catalog *c, rt_form_of *form,
                      rt_writer *w);
/* Bytes of a tensor in a file. */
int64_t rt_tensor_bytes(const rt_external *x, const rt_form_of *form);

#endif
