/* disk.h - the file of a level of memory: what a program offloads to a disk.
 *
 * The file has no name, so that it is gone when the process is, however it ends; a run goes on from
 * its checkpoints, never from it. Each rank has its own. All bytes are taken from the disk at the
 * start: if it is too small for all ranks of the machine, the program ends there, before any of
 * them takes some, and not in a step. */
#ifndef MG_DISK_H
#define MG_DISK_H

#include "runtime/levels.h"

/* As rt_levels_room and rt_levels_way. */
char *rt_disk_room(const mg_run *r, int ranks, rt_exit *code);
char *rt_disk_way(const mg_run *r);
/* This rank's file, with all its bytes; ends the program where there is no room. All ranks call it.
 */
int rt_disk_open(mg_run *r);
/* The directory of the files, in messages. */
const char *rt_disk_directory(const mg_run *r);
/* Of all ranks of this machine, whose files are open. */
rt_level_use rt_disk_use(const mg_run *r, int file);
/* The place of an offset in the file. */
int64_t rt_disk_place(int64_t offset);

#endif
