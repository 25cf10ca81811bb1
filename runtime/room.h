/* room.h - what this machine has left of its memory: room.c. */
#ifndef MG_ROOM_H
#define MG_ROOM_H

#include <stdint.h>

/* The number after `key` in a file of "key number" lines, or the file's number if key is ""; -1:
 * there is none. */
int64_t rt_room_number(const char *path, const char *key);
/* Bytes that the processes of this machine may still take: the least of what the machine, the
 * container and the process may have; *limit: which of them. -1: unknown. */
int64_t rt_room_memory(const char **limit);

#endif
