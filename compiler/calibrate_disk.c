/* calibrate_disk.c - the disk below a processor's memory: how much of it is free, and how fast a
 * file is written and read that no cache has. */
#include "compiler/calibrate.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 4 << 20, CHUNKS = 48, PAGE = 4096, LOOKS = 64 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds to write all of the file to the disk; negative: it cannot be. */
static double written(int f, const char *chunk)
{
    const double begin = now();
    for (int k = 0; k < CHUNKS; k++)
        if (pwrite(f, chunk, CHUNK, (off_t)k * CHUNK) != CHUNK)
            return -1;
    return fdatasync(f) ? -1 : now() - begin;
}

/* Seconds to read `n` pieces of it, `apart` bytes from each other, that the system has not kept. */
static double read_back(int f, char *to, int n, size_t bytes, off_t apart)
{
    if (posix_fadvise(f, 0, 0, POSIX_FADV_DONTNEED))
        return -1;
    const double begin = now();
    for (int k = 0; k < n; k++)
        if (pread(f, to, bytes, k * apart) != (ssize_t)bytes)
            return -1;
    return now() - begin;
}

bool calibrate_disk(CalibratedDisk *d)
{
    struct statvfs s;
    const double bytes = (double)CHUNK * CHUNKS;
    int f = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char *chunk = malloc(CHUNK);
    double out = -1, in = -1, look = -1;
    if (f >= 0 && chunk && !fstatvfs(f, &s)) {
        for (size_t i = 0; i < CHUNK; i++) /* not zeros, which a file system may leave out */
            chunk[i] = (char)(i * 2654435761U >> 13);
        out = written(f, chunk);
        in = out > 0 ? read_back(f, chunk, CHUNKS, CHUNK, CHUNK) : -1;
        look = in > 0 ? read_back(f, chunk, LOOKS, PAGE, (off_t)(bytes / LOOKS) / PAGE * PAGE) : -1;
        d->memory = (double)s.f_bavail * (double)s.f_frsize;
    }
    if (f >= 0)
        close(f);
    free(chunk);
    if (!(out > 0 && in > 0 && look > 0))
        return false;
    d->in = bytes / in;
    d->out = bytes / out;
    d->both = 2 * bytes / (in + out); /* one after the other */
    d->seconds = fmin(look / LOOKS, 1);
    return true;
}
