/* levels.h - the arenas of other levels of memory than the device's: of a processor a file
 * (levels.c), of a GPU pinned memory of its host, and a file (cuda/levels.c). An offset is
 * MG_FAR's.
 */
#ifndef MG_LEVELS_H
#define MG_LEVELS_H

#include "runtime/run.h"

typedef struct rt_levels rt_levels;

/* Says in words (the caller frees them) what `ranks` ranks offload to one place of this machine,
 * and what is free there; *code: RT_DONE, or how a program ends that has no room. NULL: nothing is
 * offloaded to that level (MG_LEVEL_*). */
char *rt_levels_room(const mg_run *r, int level, int ranks, rt_exit *code);
/* Makes this rank's, all zeros; ends the program with what is missing if there is no room for those
 * of all ranks of the machine, before any takes some. All ranks call it. Nothing, where the program
 * plans none. */
void rt_levels_open(mg_run *r);
void rt_levels_close(mg_run *r);
/* Of a GPU: the address of a place of its host's arena. */
void *rt_level_place(const mg_run *r, int64_t offset);
/* Of a processor: the action that began transfer `number` of a way, which is not done. */
int rt_levels_action(const mg_run *r, int way, uint64_t number);
/* Of a processor: the last transfer of a way (transfers.h) that has begun; are those up to a number
 * done? It waits so long, or (ns < 0) until they are. */
uint64_t rt_levels_begun(const mg_run *r, int way);
bool rt_levels_done(mg_run *r, int way, uint64_t number, int64_t ns);
/* Memory that a rank has for its transfers, at most. */
int64_t rt_levels_memory(const mg_run *r);
/* The way that transfers of a level take here, and why (the caller frees it); NULL: there are none,
 * or no file can be made. */
char *rt_levels_way(const mg_run *r, int level);
/* Bytes of this program on another level. Of a disk, of all ranks of this machine; of a GPU's host
 * of this rank. */
typedef struct rt_level_use {
    const char *name; /* "disk" */
    int64_t planned;  /* bytes of the arenas */
    int64_t own;      /* that the system may need beside them to have them there */
    int64_t used;     /* measured, both together; -1: unknown */
} rt_level_use;
/* False: nothing is there. */
bool rt_levels_use(const mg_run *r, int level, rt_level_use *u);
/* At the end of a step that is traced: its transfers, if they have run beside the rest. */
void rt_levels_trace(mg_run *r);
/* Copies bytes to and from other memory of the host. */
void rt_level_put(mg_run *r, int64_t offset, const void *from, int64_t bytes);
void rt_level_get(const mg_run *r, int64_t offset, void *to, int64_t bytes);
/* Of a processor, with one rank: rt_stored_open and rt_stored_close of a tensor that lies there.
 * Parts of one tensor are open together. (With several: images.c.) */
char *rt_level_open(mg_run *r, const rt_external *x, bool read);
void rt_level_close(mg_run *r, const rt_external *x, bool changed);

#endif
