/* main.c - writes man pages, completions of shells and tables, of the tables that mgc and programs
 * are made with.
 *
 *   manual man DIR
 *   manual completions DIR 'cpu h100 ...'
 *   manual tables                          as JSON, on standard output */
#include <stdlib.h>
#include <string.h>

#include "docs/manual/write.h"

FILE *open_page(const char *to, const char *name)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", to, name) >= (int)sizeof path)
        return NULL;
    return fopen(path, "we");
}

bool close_page(FILE *f)
{
    const bool bad = ferror(f);
    return fclose(f) == 0 && !bad;
}

int main(int argc, char **argv)
{
    bool done;
    if (argc == 3 && !strcmp(argv[1], "man"))
        done = write_man(argv[2]);
    else if (argc == 4 && !strcmp(argv[1], "completions"))
        done = write_completions(argv[2], argv[3]);
    else if (argc == 2 && !strcmp(argv[1], "tables"))
        done = write_tables(stdout) && !fflush(stdout);
    else {
        fputs("usage: manual man DIR | completions DIR DEVICES | tables\n", stderr);
        return 2;
    }
    if (!done)
        perror("manual");
    return done ? 0 : 1;
}
