/* checkpoint.h - what a checkpoint is made of: shared by the one who writes and the one who reads.
 */
#ifndef MG_CHECKPOINT_H
#define MG_CHECKPOINT_H

#include "runtime/abi.h"

#define RT_MODEL_FILE "model.safetensors"     /* parameters under their external names */
#define RT_SLOTS_FILE "optimizer.safetensors" /* the same names behind "exp_avg." and so on */
#define RT_STATE_FILE "state.json"

/* The last line of state.json: the CRC-32C of all before it. */
#define RT_SEAL       ",\n\"crc32c\":\"%08x\"}\n"
#define RT_SEAL_BYTES 23

enum {
    RT_CKPT_FORMAT = 1,
    RT_CHUNK = 4 << 20, /* bytes of a tensor moved at once */
};

const char *rt_dtype_name(mg_dtype t); /* as safetensors spells it */

#endif
