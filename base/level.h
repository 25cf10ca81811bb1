/* level.h - where bytes are: levels of memory, of which each further one is larger and slower. */
#ifndef MGC_BASE_LEVEL_H
#define MGC_BASE_LEVEL_H

/* Operands and results of all that computes are on the device (of a processor: in its memory);
 * transfers bring there what lies on another level, and back. */
typedef enum Level { LEVEL_device, LEVEL_host, LEVEL_disk, LEVEL_count } Level;

extern const char *const level_names[LEVEL_count]; /* "device", "host", "disk" */

#endif
