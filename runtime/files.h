/* files.h - how the runtime opens, writes and removes files.
 *
 * Two rules, which docs/data.md tells users. Reading: only regular files, and no open waits for
 * somebody at the other end of a pipe; a path that the user gave may lead through symbolic links,
 * a file of a checkpoint may not be one. Writing and removing: in the run's folder alone, from a
 * descriptor of the folder that is changed, and never through a symbolic link. */
#ifndef MG_FILES_H
#define MG_FILES_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

/* Opens a regular file; `flags` are open's, `at` is a folder or AT_FDCWD. -1: errno says why, and
 * rt_file_error() in words also where it is a pipe, a device, a socket or a symbolic link. */
int rt_file_open(int at, const char *name, int flags);
const char *rt_file_error(void);
/* A file of the run's own, from its beginning; NULL likewise. */
FILE *rt_file_create(const char *path);

/* A folder that the user named, also through a symbolic link; one inside it, which is no link. */
int rt_folder_open(const char *path);
int rt_folder_inside(int at, const char *name);

/* OUT/ckpt, or -1. NULL, or why it cannot be one (to be freed); it need not be there yet. */
int rt_checkpoints_open(const char *out);
char *rt_checkpoints_wrong(const char *out);

/* Removes what `name` is in the folder `at`: of a directory what is in it first, `depth` levels of
 * directories deep; of a symbolic link the link. True: there is nothing of that name any more. */
bool rt_remove_at(int at, const char *name, int depth);

/* Is it the name of a file beside the one that says it: one component, not hidden? */
bool rt_is_file_name(const char *name);

#endif
