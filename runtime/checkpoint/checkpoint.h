/* checkpoint.h - the files of a checkpoint: shared by the writer and the reader. */
#ifndef MG_CHECKPOINT_H
#define MG_CHECKPOINT_H

#include "runtime/checkpoint/safetensors.h"
#include "runtime/run.h"

#define RT_MODEL_FILE  "model.safetensors"     /* parameters under their external names */
#define RT_SLOTS_FILE  "optimizer.safetensors" /* the same names after "exp_avg." and so on */
#define RT_STATE_FILE  "state.json"
#define RT_CONFIG_FILE "config.json" /* for other programs, if the program has one */

/* The last line of state.json: the CRC-32C of all before it. */
#define RT_SEAL       ",\n\"crc32c\":\"%08x\"}\n"
#define RT_SEAL_BYTES 23

enum {
    RT_CKPT_FORMAT = 1,
    RT_TENSOR_FILES = 2, /* of a checkpoint: what is trained, and state */
    RT_CHUNK = 4 << 20,  /* bytes of a tensor moved at once */
};

/* The seal of a file in state.json. */
typedef struct rt_seal {
    uint32_t crc; /* CRC-32C */
    int64_t bytes;
} rt_seal;

/* A checkpoint while it is written. */
typedef struct rt_unpublished {
    int root, dir; /* OUT/ckpt, and the directory in it under its temporary name, or -1 */
    char *tmp;     /* that name */
    int64_t step;
    const char *file; /* what is written now: for the message of a failure */
} rt_unpublished;
/* Makes the directory; then the caller writes the files of tensors, fsync'ed; then
 * rt_checkpoint_seal writes the others, of the state s; rt_checkpoint_publish renames. All return
 * false with errno; whatever they returned, rt_checkpoint_leave is called, and closes and removes
 * what is left. It keeps errno. */
/* The text of state.json; config: the seal of the configuration, if the program has one. The caller
 * frees it. */
char *rt_checkpoint_state(const mg_run *r, const rt_state *s, const rt_seal seals[RT_TENSOR_FILES],
                          const rt_seal *config);
bool rt_checkpoint_begin(const mg_run *r, int64_t step, rt_unpublished *u);
bool rt_checkpoint_seal(const mg_run *r, const rt_state *s, const rt_seal seals[RT_TENSOR_FILES],
                        rt_unpublished *u);
bool rt_checkpoint_publish(rt_unpublished *u);
void rt_checkpoint_leave(rt_unpublished *u);
/* Warns that there is no checkpoint. */
void rt_checkpoint_failed(const mg_run *r, const rt_unpublished *u, int error);
/* The name of file i of RT_TENSOR_FILES. */
const char *rt_checkpoint_file(const mg_program *p, int i);

/* The names of the files with what is trained, and of that for other programs (NULL: none). */
const char *rt_checkpoint_tensors(const mg_program *p);
const char *rt_checkpoint_config(const mg_program *p);

const char *rt_dtype_name(mg_dtype t); /* the name in safetensors */

#endif
