/* disk.h - transfers between a GPU and a file; see disk.c. */
#ifndef MG_RUNTIME_CUDA_DISK_H
#define MG_RUNTIME_CUDA_DISK_H

#include "runtime/levels.h"

typedef struct rt_gpu_disk rt_gpu_disk;

/* This rank's file, whose transfers go through MG_DISK_PINNED bytes of pinned memory at whole
 * pages, the caller's. As rt_disk_open. */
rt_gpu_disk *rt_gpu_disk_open(mg_run *r, char *pinned);
/* Once the streams are empty. */
void rt_gpu_disk_close(rt_gpu_disk *d);
/* In the stream at hand; `from` and `to` on the disk are MG_FAR's. */
void rt_gpu_disk_fetch(mg_run *r, rt_gpu_disk *d, int action, char *to, int64_t from,
                       int64_t bytes);
void rt_gpu_disk_offload(mg_run *r, rt_gpu_disk *d, int action, int64_t to, const char *from,
                         int64_t bytes);
/* From the disk to other memory of the host, or to it, at once; the streams are empty. */
void rt_gpu_disk_copy(rt_gpu_disk *d, bool in, int64_t offset, char *memory, int64_t bytes);
rt_level_use rt_gpu_disk_use(const mg_run *r, const rt_gpu_disk *d);

#endif
