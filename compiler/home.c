/* home.c - where the files lie that mgc comes with; see session.h. */
#include "compiler/session.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *home_dir(Arena *a)
{
    const char *home = getenv("MGC_HOME");
    if (home && *home)
        return home;
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    for (int up = 0; up < 2; up++) { /* PREFIX/bin/mgc -> PREFIX */
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = 0;
    }
    return arena_printf(a, "%s/lib/mgc", path);
}

/* PREFIX/lib/mgc -> PREFIX/share/mgc */
static const char *share_dir(Arena *a)
{
    char real[PATH_MAX];
    const char *path = arena_printf(a, "%s/../../share/mgc", home_dir(a));
    return realpath(path, real) ? arena_strdup(a, real) : path;
}

const char *model_path(Session *s, const char *path)
{
    static const char folder[] = "models/";
    const char *name = path + strlen(folder);
    if (strncmp(path, folder, strlen(folder)) || strchr(name, '/') || access(path, F_OK) == 0 ||
        errno != ENOENT)
        return path;
    const char *ours = arena_printf(s->arena, "%s/%s", share_dir(s->arena), path);
    if (access(ours, R_OK))
        return path;
    diag_notice(s->diag, "there is no '%s' here; it is '%s', which mgc comes with", path, ours);
    return ours;
}
