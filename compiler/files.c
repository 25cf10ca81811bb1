/* files.c - inputs read whole, outputs written whole or not at all; see session.h. */
#include "base/open.h"
#include "compiler/session.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOURCE_LIMIT = 64 << 20 }; /* bytes; a span counts in 32 bits */

static char *read_open(Arena *a, FILE *in, size_t *size)
{
    struct stat st;
    if (fstat(fileno(in), &st))
        return NULL;
    if (st.st_size > SOURCE_LIMIT) {
        errno = EFBIG;
        return NULL;
    }
    char *text = arena_alloc(a, (size_t)st.st_size + 1);
    *size = fread(text, 1, (size_t)st.st_size, in);
    return ferror(in) ? NULL : text;
}

uint32_t read_source(Session *s, const char *path)
{
    size_t size = 0;
    if (s->o->held_path && !strcmp(s->o->held_path, path))
        return diag_add_file(s->diag, path, s->o->held_text, s->o->held_size);
    FILE *in = open_file(path);
    char *text = in ? read_open(s->arena, in, &size) : NULL;
    int error = errno;
    if (in)
        fclose(in);
    if (text)
        return diag_add_file(s->diag, path, text, size);
    errno = error;
    diag_error(s->diag, (Span){0}, 560, "cannot read '%s': %s", path, open_error());
    return 0;
}

static const char *temp_name(Session *s, const char *path)
{
    return arena_printf(s->arena, "%s.%ld.tmp", path, (long)getpid());
}

/* Whether the file that is written first, beside it, can be made. */
static Exit output_writable(Session *s, const char *path)
{
    const char *temp = temp_name(s, path);
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
        unlink(temp);
        return EXIT_done;
    }
    diag_error(s->diag, (Span){0}, 543, "cannot write '%s': %s", path, strerror(errno));
    return EXIT_tool;
}

Exit output_replaceable(Session *s, const char *path)
{
    struct stat st;
    if (!strcmp(path, "-"))
        return EXIT_done;
    if (stat(path, &st) || S_ISREG(st.st_mode))
        return output_writable(s, path);
    diag_error(s->diag, (Span){0}, 561, "'%s' is no plain file: it is not replaced", path);
    return EXIT_usage;
}

Exit output_fresh(Session *s, const char *path)
{
    struct stat st;
    if (lstat(path, &st))
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 544, "'%s' exists", path);
    diag_help(s->diag, "name a directory that does not exist: nothing is overwritten");
    return EXIT_usage;
}

Exit output_open(Session *s, Output *out, const char *path)
{
    struct stat st;
    *out = (Output){.path = path ? path : "standard output"};
    if (!path || !strcmp(path, "-"))
        out->file = stdout;
    else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        out->file = fopen(path, "we"); /* a pipe, a device: nothing to leave whole */
    else {
        out->temp = temp_name(s, path);
        out->file = fopen(out->temp, "wxe");
        if (out->file && stat(path, &st) == 0)
            (void)!fchmod(fileno(out->file), st.st_mode & 0777); /* that of what it replaces */
    }
    if (out->file)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 543, "cannot write '%s': %s", path, strerror(errno));
    return EXIT_tool;
}

Exit output_close(Session *s, Output *out, bool keep)
{
    errno = 0;
    bool good = fflush(out->file) == 0 && !ferror(out->file);
    if (out->file != stdout)
        good = fclose(out->file) == 0 && good;
    if (out->temp && keep && good)
        good = rename(out->temp, out->path) == 0;
    int error = errno;
    if (out->temp && (!keep || !good))
        unlink(out->temp);
    if (!good && keep)
        diag_error(s->diag, (Span){0}, 543, "cannot write '%s': %s", out->path, strerror(error));
    return good || !keep ? EXIT_done : EXIT_tool;
}
