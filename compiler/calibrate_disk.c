/* calibrate_disk.c - the disk below the memory of a processor, or of a GPU's host: how much of it
 * is free, and how fast a file is written and read, as the lanes of a program do it
 * (runtime/transfer_blocks.c): past the system's cache where the file system can, a thread each
 * way. */
#include "compiler/calibrate.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 4 << 20, CHUNKS = 48, PAGE = 4096, LOOKS = 64 };

/* Bytes, bytes a second, seconds. */
typedef struct Disk {
    double memory, in, out, both, seconds;
} Disk;

/* Pieces of a file that one thread copies, `apart` bytes from each other. */
typedef struct Copies {
    int file;
    bool out;
    char *memory;
    int n;
    size_t bytes;
    off_t apart;
    bool done; /* all of them */
} Copies;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *copy(void *ctx)
{
    Copies *c = ctx;
    bool good = true;
    for (int k = 0; k < c->n && good; k++)
        good = (c->out ? pwrite(c->file, c->memory, c->bytes, k * c->apart)
                       : pread(c->file, c->memory, c->bytes, k * c->apart)) == (ssize_t)c->bytes;
    c->done = good && !(c->out && fdatasync(c->file));
    return NULL;
}

/* Seconds for one of them, or for two at once; negative: the file cannot be so written or read. */
static double timed(Copies *one, Copies *two)
{
    pthread_t beside;
    if (posix_fadvise(one->file, 0, 0, POSIX_FADV_DONTNEED))
        return -1;
    const double begin = now();
    if (two && pthread_create(&beside, NULL, copy, two))
        return -1;
    copy(one);
    if (two)
        pthread_join(beside, NULL);
    return one->done && (!two || two->done) ? now() - begin : -1;
}

/* The file without the cache, or itself. */
static int direct(int file)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    const int f = open(name, O_RDWR | O_DIRECT | O_CLOEXEC);
    return f < 0 ? file : f;
}

static bool measure(Disk *d, int file, char *memory)
{
    const double bytes = (double)CHUNK * CHUNKS;
    Copies out = {file, true, memory, CHUNKS, CHUNK, CHUNK, false};
    Copies in = {file, false, memory + CHUNK, CHUNKS, CHUNK, CHUNK, false};
    Copies look = {file, false, memory, LOOKS, PAGE, (off_t)(bytes / LOOKS) / PAGE * PAGE, false};
    for (size_t i = 0; i < CHUNK; i++) /* not zeros, which a file system may leave out */
        memory[i] = (char)(i * 2654435761U >> 13);
    const double first = timed(&out, NULL); /* takes the bytes from the disk */
    const double written = first > 0 ? timed(&out, NULL) : -1;
    const double read = written > 0 ? timed(&in, NULL) : -1;
    const double at_once = read > 0 ? timed(&out, &in) : -1;
    const double looked = at_once > 0 ? timed(&look, NULL) : -1;
    if (!(looked > 0))
        return false;
    d->in = bytes / read;
    d->out = bytes / written;
    d->both = 2 * bytes / at_once;
    d->seconds = fmin(looked / LOOKS, 1);
    return true;
}

bool calibrate_disk(json_t *o)
{
    Disk found, *d = &found;
    struct statvfs s;
    const int file = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    const int straight = file < 0 ? -1 : direct(file);
    char *memory = aligned_alloc(PAGE, 2 * (size_t)CHUNK);
    bool good = file >= 0 && memory && !fstatvfs(file, &s);
    if (good) {
        d->memory = (double)s.f_bavail * (double)s.f_frsize;
        good = measure(d, straight, memory) || (straight != file && measure(d, file, memory));
    }
    if (straight >= 0 && straight != file)
        close(straight);
    if (file >= 0)
        close(file);
    free(memory);
    const struct {
        const char *key;
        double is;
    } field[] = {{"disk_in", d->in},
                 {"disk_out", d->out},
                 {"disk_both", d->both},
                 {"disk_seconds", d->seconds}};
    if (good)
        json_object_set_new(o, "disk_memory",
                            json_integer((json_int_t)calibrate_digits(d->memory)));
    for (size_t k = 0; good && k < sizeof field / sizeof *field; k++)
        json_object_set_new(o, field[k].key, json_real(calibrate_digits(field[k].is)));
    return good;
}
