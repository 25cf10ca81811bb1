/* checkpoint.h - the files of a checkpoint: shared by the writer and the reader. */
#ifndef MG_CHECKPOINT_H
#define MG_CHECKPOINT_H

#include "runtime/abi.h"
#include "runtime/checkpoint/safetensors.h"

#define RT_MODEL_FILE  "model.safetensors"     /* parameters under their external names */
#define RT_SLOTS_FILE  "optimizer.safetensors" /* the same names after "exp_avg." and so on */
#define RT_STATE_FILE  "state.json"
#define RT_CONFIG_FILE "config.json" /* for other programs, if the program has one */

/* The last line of state.json: the CRC-32C of all before it. */
#define RT_SEAL       ",\n\"crc32c\":\"%08x\"}\n"
#define RT_SEAL_BYTES 23

enum {
    RT_CKPT_FORMAT = 1,
    RT_CHUNK = 4 << 20, /* bytes of a tensor moved at once */
};

/* The names of the files with what is trained, and of that for other programs (NULL: none). */
const char *rt_checkpoint_tensors(const mg_program *p);
const char *rt_checkpoint_config(const mg_program *p);

const char *rt_dtype_name(mg_dtype t); /* the name in safetensors */

/* Reads all n bytes with pread; false on an error (errno 0: the file ends before). */
bool rt_read_at(int fd, void *to, size_t n, int64_t at);

#endif
