/* import_names.c - which templates there are, for messages that say what could have been meant. */
#include "compiler/import/import.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* and not by the locale, as alphasort does */
}

static int is_template(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return n > 3 && !strcmp(entry->d_name + n - 3, ".mg");
}

const char *import_names(Arena *a, const char *folder)
{
    struct dirent **all = NULL;
    const char *text = "";
    const int n = scandir(folder, &all, is_template, by_name);
    for (int i = 0; i < n; i++) {
        text = arena_printf(a, "%s%s%.*s", text, i ? ", " : "", (int)strlen(all[i]->d_name) - 3,
                            all[i]->d_name);
        free(all[i]);
    }
    free(all);
    return text;
}
