/* main.c - mgc: reads the command line, does one thing, and is the only one who ends the process.
 */
#include "compiler/session.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first word, where it is the file of a model. */
static void find_model(Session *s, Options *o)
{
    static const char *const commands[] = {"explain", "search", "scale"};
    bool reads = !o->command;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        reads |= o->command && !strcmp(o->command, commands[i]);
    if (reads && o->words.n)
        o->words.data[0] = model_path(s, o->words.data[0]);
}

static Exit run(Session *s)
{
    const Options *o = s->o;
    if (o->help) {
        options_help(stdout);
        return EXIT_done;
    }
    if (o->version) {
        puts("mgc " MGC_VERSION);
        return EXIT_done;
    }
    Exit status = o->command ? command_run(s) : compile(s);
    Exit written = o->proposals ? proposals_write(s, o->proposals) : EXIT_done;
    return status ? status : written;
}

/* Code that finds mgc itself to be wrong says so and aborts; the exit code is 70 then. */
static void aborted(int signal)
{
    (void)signal;
    _exit(EXIT_internal);
}

int main(int argc, char **argv)
{
    Arena *a = arena_new();
    Options o;
    signal(SIGABRT, aborted);
#ifdef __GLIBC__
    /* Memory of one plan is needed again by the next: it does not go back to the system. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
    Exit status = EXIT_usage;
    if (options_parse(&o, argc, argv, a, stderr)) {
        bool color = isatty(STDERR_FILENO) && !getenv("NO_COLOR");
        Session s = {
            .arena = a, .names = names_new(a), .diag = diag_new(a, stderr, color), .o = &o};
        find_model(&s, &o);
        proposals_try(&s);
        status = run(&s);
    }
    if (fflush(stdout) || ferror(stdout)) {
        perror("mgc: standard output");
        status = status ? status : EXIT_tool;
    }
    arena_free(a);
    exit(status);
}
