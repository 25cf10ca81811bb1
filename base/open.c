/* open.c - files to be read; see open.h. */
#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* open_file sets errno to this; no call on a regular file does. */
#define NOT_REGULAR EMEDIUMTYPE

static FILE *regular(const char *path, int flags, const char *mode)
{
    struct stat st;
    int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0) {
        if (errno == ENXIO) /* a pipe that nobody reads, a socket, a device that is not there */
            errno = NOT_REGULAR;
        return NULL;
    }
    FILE *f = NULL;
    int error = NOT_REGULAR;
    if (fstat(fd, &st))
        error = errno;
    else if (S_ISDIR(st.st_mode))
        error = EISDIR;
    else if (S_ISREG(st.st_mode) && !(f = fdopen(fd, mode)))
        error = errno;
    if (f)
        return f;
    close(fd);
    errno = error;
    return NULL;
}

FILE *open_file(const char *path)
{
    return regular(path, O_RDONLY, "rb");
}

FILE *open_own(const char *path, bool empty)
{
    return regular(path, O_RDWR | O_CREAT | O_NOFOLLOW | (empty ? O_TRUNC : 0), "r+b");
}

const char *open_error(void)
{
    return errno == NOT_REGULAR ? "it is not a regular file"
           : errno == ELOOP     ? "it is a symbolic link, which is not followed here"
                                : strerror(errno);
}
