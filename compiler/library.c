/* library.c - a part of mgc that is loaded when it is needed, because of the libraries that it
 * brings along. The dynamic linker counts and keeps what is loaded, so nothing is remembered here.
 */
#include "compiler/session.h"

#include <dlfcn.h>
#include <string.h>

const void *library_table(Arena *a, const char *file, const char *symbol, const char **why_not)
{
    const char *path = arena_printf(a, "%s/%s", home_dir(a), file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *const *build = library ? dlsym(library, symbol) : NULL;
    if (!build)
        *why_not = arena_strdup(a, dlerror());
    else if (strcmp(*build, MGC_VERSION)) {
        *why_not = arena_printf(a, "%s is of mgc %s", path, *build);
        build = NULL;
    }
    return build;
}
