/* level.h - where bytes are: levels of memory, of which each further one is larger and slower; and
 * where kernels run. */
#ifndef MGC_BASE_LEVEL_H
#define MGC_BASE_LEVEL_H

/* Operands and results of what computes are on the device (of a processor: in its memory), or, of a
 * kernel that runs on a GPU's host, all there; transfers bring to the device what lies on another
 * level, and back. */
typedef enum Level { LEVEL_device, LEVEL_host, LEVEL_disk, LEVEL_count } Level;

extern const char *const level_names[LEVEL_count]; /* "device", "host", "disk" */

/* The optimizer's kernels whose operands are on the host of a GPU run there or on the device. */
typedef enum OptimizerAt {
    OPTIMIZER_auto,
    OPTIMIZER_device,
    OPTIMIZER_host,
    OPTIMIZER_count
} OptimizerAt;

extern const char *const optimizer_at_names[OPTIMIZER_count]; /* "auto", "device", "host" */

#endif
