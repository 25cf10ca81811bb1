/* files.h - how the runtime opens, writes and removes files.
 *
 * Two rules, documented in docs/data.md. Reading: only regular files, and no open waits for a
 * process at the other end of a pipe. A path that the user gave may lead through symbolic links; a
 * file of a checkpoint may not be a link. Writing and removing: only in the run's folder, through a
 * descriptor of the folder that is changed, and never through a symbolic link. */
#ifndef MG_FILES_H
#define MG_FILES_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Opens a regular file; `flags` are those of open, `at` is a folder or AT_FDCWD. -1: errno says
 * why, and rt_file_error() says it in words, also for a pipe, a device, a socket or a symbolic
 * link. */
int rt_file_open(int at, const char *name, int flags);
const char *rt_file_error(void);
/* Creates or truncates a file of the run; NULL: errno as above. */
FILE *rt_file_create(const char *path);

/* Read and write all n bytes at byte `at`, in as many calls as the system needs. False on an error:
 * errno, or 0 where the file ends before. */
bool rt_read_at(int fd, void *to, size_t n, int64_t at);
bool rt_write_at(int fd, const void *from, size_t n, int64_t at);

/* The whole of a regular file, with a 0 behind; the caller frees it. `flags` are those of open
 * beside O_RDONLY. NULL: errno as above; EFBIG where the file has more than `most` bytes, 0 where
 * it became shorter while it was read. *n: its bytes, in the case of EFBIG, too. */
char *rt_file_whole(const char *path, int flags, int64_t most, size_t *n);
/* The same of a file that the user named; `what` stands before its path in messages ("--prompts ").
 * Ends the program if it cannot: RT_IO where reading fails, else RT_BAD_DATA. n may be NULL. */
char *rt_file_need(const char *what, const char *path, int64_t most, size_t *n);

/* Opens a folder that the user named, also through a symbolic link; or one inside it, not a
 * link. */
int rt_folder_open(const char *path);
int rt_folder_inside(int at, const char *name);

/* Makes the directory of --out, with those above it; ends the program if it cannot. */
void rt_make_directories(const char *path);

/* Opens OUT/ckpt; -1 on error. rt_checkpoints_wrong: NULL, or why it cannot be a folder (the caller
 * frees it); the folder may be missing. */
int rt_checkpoints_open(const char *out);
char *rt_checkpoints_wrong(const char *out);

/* Removes `name` in the folder `at`: a directory with its contents, `depth` levels of directories
 * deep; of a symbolic link only the link. True: the name does not exist any more. */
bool rt_remove_at(int at, const char *name, int depth);

/* True if `name` is one path component and not hidden: a file in the folder of the file that names
 * it. */
bool rt_is_file_name(const char *name);

#endif
