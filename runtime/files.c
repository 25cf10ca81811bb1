/* files.c - how the runtime opens, writes and removes files; see files.h. */
#include "runtime/run.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* errno of rt_file_open for a file that is not regular; no call on a regular file sets it. */
#define NOT_REGULAR EMEDIUMTYPE

int rt_file_open(int at, const char *name, int flags)
{
    struct stat s;
    int fd = openat(at, name, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0) {
        if (errno == ENXIO) /* a pipe without a reader, a socket, a missing device */
            errno = NOT_REGULAR;
        return -1;
    }
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode))
        return fd;
    close(fd);
    errno = S_ISDIR(s.st_mode) ? EISDIR : NOT_REGULAR;
    return -1;
}

const char *rt_file_error(void)
{
    return errno == NOT_REGULAR ? "it is not a regular file"
           : errno == ELOOP     ? "it is a symbolic link, which is not followed here"
           : errno == 0         ? "it became shorter while it was read"
                                : strerror(errno);
}

FILE *rt_file_create(const char *path)
{
    int fd = rt_file_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f && fd >= 0)
        close(fd);
    return f;
}

bool rt_read_at(int fd, void *to, size_t n, int64_t at)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(fd, (char *)to + done, n - done, (off_t)(at + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got ? errno : 0;
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

bool rt_write_at(int fd, const void *from, size_t n, int64_t at)
{
    for (size_t done = 0; done < n;) {
        const ssize_t put =
            pwrite(fd, (const char *)from + done, n - done, (off_t)(at + (int64_t)done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

char *rt_file_whole(const char *path, int flags, int64_t most, size_t *n)
{
    struct stat s;
    char *text = NULL;
    const int fd = rt_file_open(AT_FDCWD, path, O_RDONLY | flags);
    *n = 0;
    if (fd < 0)
        return NULL;
    bool good = fstat(fd, &s) == 0;
    if (good) {
        *n = (size_t)s.st_size;
        good = s.st_size <= most;
        if (good) {
            text = rt_alloc(*n + 1, 1);
            good = rt_read_at(fd, text, *n, 0);
        } else {
            errno = EFBIG;
        }
    }
    const int e = errno;
    close(fd);
    if (good)
        return text;
    free(text);
    errno = e;
    return NULL;
}

char *rt_file_need(const char *what, const char *path, int64_t most, size_t *n)
{
    size_t size;
    char *text = rt_file_whole(path, 0, most, &size);
    if (!text && errno == EFBIG)
        rt_die(RT_BAD_DATA, "%s%s has %zu bytes; the limit is %" PRId64, what, path, size, most);
    if (!text && size)
        rt_die(RT_IO, "%s%s cannot be read: %s", what, path, rt_file_error());
    if (!text)
        rt_die(RT_BAD_DATA, "%s%s: %s", what, path, rt_file_error());
    if (n)
        *n = size;
    return text;
}

int rt_folder_open(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int rt_folder_inside(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int rt_checkpoints_open(const char *out)
{
    int at = rt_folder_open(out);
    if (at < 0)
        return -1;
    int fd = rt_folder_inside(at, "ckpt"), e = errno;
    close(at);
    errno = e;
    return fd;
}

char *rt_checkpoints_wrong(const char *out)
{
    struct stat s;
    char *path = rt_printf("%s/ckpt", out), *why = NULL;
    if (lstat(path, &s) == 0 && !S_ISDIR(s.st_mode))
        why = rt_printf("%s is %s: checkpoints are written to and removed from a directory of the "
                        "run itself; if they are to lie elsewhere, make %s the link",
                        path, S_ISLNK(s.st_mode) ? "a symbolic link" : "no directory", out);
    free(path);
    return why;
}

/* If another process exchanges an entry meanwhile, the entry is removed or stays; it is never
 * followed. */
bool rt_remove_at(int at, const char *name, int depth)
{
    int fd = rt_folder_inside(at, name);
    if (fd < 0 && errno == ENOENT)
        return true;
    if (fd < 0) /* not a directory: a link or a file; errno of an unreadable directory stays */
        return (errno == ENOTDIR || errno == ELOOP) && unlinkat(at, name, 0) == 0;
    DIR *d = fdopendir(fd);
    if (!d) {
        close(fd);
        return false;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (unlinkat(fd, e->d_name, 0) && depth > 0)
            rt_remove_at(fd, e->d_name, depth - 1);
    }
    closedir(d);
    return unlinkat(at, name, AT_REMOVEDIR) == 0;
}

bool rt_is_file_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

void rt_make_directories(const char *path)
{
    char *copy = rt_printf("%s", path);
    for (char *s = copy + 1; *s; s++)
        if (*s == '/') {
            *s = 0;
            mkdir(copy, 0777);
            *s = '/';
        }
    if (mkdir(copy, 0777) && errno != EEXIST)
        rt_die(RT_IO, "--out %s: %s", path, strerror(errno));
    free(copy);
}
