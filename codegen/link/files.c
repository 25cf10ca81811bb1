/* files.c - private directories and copies for the link step. */
#include "codegen/link/link.h"
#include "codegen/emit/emit_c.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *temp_dir(Arena *a, const char *beside)
{
    const char *tmp = getenv("TMPDIR");
    char *path = beside ? arena_printf(a, "%s.mgc-XXXXXX", beside)
                        : arena_printf(a, "%s/mgc-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(path);
}

void remove_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(dir);
}

bool copy_file(const char *from, const char *to)
{
    char buffer[1 << 16];
    struct stat st;
    int in = open(from, O_RDONLY | O_CLOEXEC), saved;
    if (in < 0)
        return false;
    int out =
        fstat(in, &st) ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0777);
    bool ok = out >= 0;
    ssize_t n = 0;
    while (ok && (n = read(in, buffer, sizeof buffer)) > 0)
        ok = write(out, buffer, (size_t)n) == n;
    saved = errno;
    close(in);
    if (out >= 0 && close(out))
        ok = false;
    errno = saved;
    return ok && n == 0;
}

bool emit_to_file(const Plan *p, const char *features, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return false;
    codegen_emit_c(p, features, false, f);
    bool ok = !ferror(f);
    return fclose(f) == 0 && ok;
}
