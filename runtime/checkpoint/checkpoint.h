/* checkpoint.h - what a checkpoint is made of: shared by the one who writes and the one who reads.
 */
#ifndef MG_CHECKPOINT_H
#define MG_CHECKPOINT_H

#include "runtime/abi.h"
#include "runtime/checkpoint/safetensors.h"

#define RT_MODEL_FILE  "model.safetensors"     /* parameters under their external names */
#define RT_SLOTS_FILE  "optimizer.safetensors" /* the same names behind "exp_avg." and so on */
#define RT_STATE_FILE  "state.json"
#define RT_CONFIG_FILE "config.json" /* where the program has one: for other programs */

/* The last line of state.json: the CRC-32C of all before it. */
#define RT_SEAL       ",\n\"crc32c\":\"%08x\"}\n"
#define RT_SEAL_BYTES 23

enum {
    RT_CKPT_FORMAT = 1,
    RT_CHUNK = 4 << 20, /* bytes of a tensor moved at once */
};

const char *rt_dtype_name(mg_dtype t); /* as safetensors spells it */

/* pread of all n bytes, or false (errno 0: the file ends before). */
bool rt_read_at(int fd, void *to, size_t n, int64_t at);
/* The header of an open safetensors file; NULL, or what is wrong with it (to be freed). */
char *rt_read_header(const char *path, int fd, rt_st *st);

#endif
