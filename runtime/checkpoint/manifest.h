/* manifest.h - what state.json says of a checkpoint. */
#ifndef MG_MANIFEST_H
#define MG_MANIFEST_H

#include "runtime/checkpoint/checkpoint.h"

enum { RT_MANIFEST_MOST = 1 << 16 }; /* bytes of the text */

typedef struct rt_file_seal { /* the entry of state.json for a file */
    int64_t bytes;
    uint32_t crc;
    bool given;
} rt_file_seal;

typedef struct rt_manifest {
    const mg_program *program; /* that reads it */
    rt_state state;
    int64_t format;
    uint64_t fingerprint;
    rt_file_seal model, slots, config; /* config: only if the program had one */
    unsigned seen;
} rt_manifest;

/* Fills *m, whose program is set, from the text of `path`, n bytes with a zero behind them. NULL,
 * or what is wrong (the caller frees it). */
char *rt_manifest_parse(const char *path, const char *text, size_t n, rt_manifest *m);
/* The file beside the tensors that other programs read. */
const char *rt_config_name(const mg_program *p);

#endif
