/* preflight.c - mgc preflight: starts a program's own --preflight on the hosts of a run. */
#include "compiler/preflight/hosts.h"

Exit command_preflight(Session *s)
{
    const Options *o = s->o;
    Start start = {.command = o->words.data[0], .option = "--preflight", .launch = o->launch};
    Started end;
    Exit wrong = o->words.n > 1 ? hosts_read(s, o->words.data[1], &start.hosts) : EXIT_done;
    if (!wrong)
        wrong = hosts_run(s, &start, &end);
    if (!wrong && end.status) {
        diag_error(s->diag, (Span){0}, 643, "the preflight of '%s' found what is wrong (exit %d)",
                   start.command, end.status);
        wrong = EXIT_tool;
    }
    if (wrong == EXIT_tool && o->words.n > 1)
        diag_help(s->diag, "this shows it again: mgc preflight '%s' %s", start.command,
                  o->words.data[1]);
    else if (wrong == EXIT_tool)
        diag_help(s->diag, "this shows it again: %s %s --preflight", o->launch ? o->launch : "",
                  start.command);
    return wrong;
}
