/* generate.c - options of a program that generates; see session.h. */
#include "compiler/session.h"

#include <stdlib.h>
#include <string.h>

static Exit usage(Session *s, const char *text, const char *help)
{
    diag_error(s->diag, (Span){0}, 0, "%s", text);
    diag_help(s->diag, "%s", help);
    return EXIT_usage;
}

/* A number of --generate; what it is where it is not given. */
Exit generate_number(Session *s, const char *name, const char *text, int64_t without, int64_t *n)
{
    enum { MOST = 65536 };
    char *end;
    if (text && !s->o->generate)
        return usage(s, arena_printf(s->arena, "--%s is for --generate", name),
                     arena_printf(s->arena, "--generate --%s 8", name));
    const long long value = text ? strtoll(text, &end, 10) : without;
    if (text && (!*text || *end || value < 1 || value > MOST))
        return usage(
            s,
            arena_printf(s->arena, "--%s '%s' is no whole number from 1 to %d", name, text, MOST),
            arena_printf(s->arena, "--%s 8", name));
    *n = value;
    return EXIT_done;
}

/* Options that ask for steps of training, of a program that has none. */
Exit generate_options(Session *s, const Compiled *c)
{
    const Options *o = s->o;
    const bool json = o->plan && !strcmp(o->plan, "json");
    if (c->plan->train || !(o->frontier || o->report || o->trace || o->memory || json))
        return EXIT_done;
    return usage(s,
                 "--frontier, --report, --trace, --memory and --plan=json are of steps of training",
                 "--plan and --schedule show a program that generates");
}
