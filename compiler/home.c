/* home.c - where the files lie that mgc comes with; see session.h. */
#include "compiler/session.h"

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
