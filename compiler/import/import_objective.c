/* import_objective.c - `--objective dpo,beta=0.2`: what a model of a family is trained for, other
 * than the next token. An objective is a template too, lib/mgc/hf/objectives/NAME.mg, which has the
 * file of the family between its own lines; `%option` declares what may be set. */
#include "compiler/import/import.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool import_bad_option(Import *h, const char *name, const char *fmt, ...)
{
    char why[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    diag_error(h->s->diag, (Span){0}, 282, "--objective %s: '%.100s' %s", h->objective, name, why);
    return false;
}

static bool unknown(Import *h, const char *folder)
{
    diag_error(h->s->diag, (Span){0}, 281, "there is no objective '%.60s'", h->objective);
    diag_help(h->s->diag, "there is: %s; settings follow behind commas, as dpo,beta=0.1",
              import_names(h->s->arena, folder));
    return false;
}

/* A number, a truth value, or else a word. */
static json_t *value_of(const char *text)
{
    char *end;
    errno = 0;
    const long long whole = strtoll(text, &end, 10);
    if (*text && !*end && !errno)
        return json_integer(whole);
    const double x = strtod(text, &end);
    if (*text && !*end && x - x == 0)
        return json_real(x);
    if (!strcmp(text, "true") || !strcmp(text, "false"))
        return json_boolean(*text == 't');
    return json_string(text);
}

static bool setting(Import *h, const char *text)
{
    const char *equals = strchr(text, '=');
    const char *name = arena_printf(h->s->arena, "%.*s", (int)(equals ? equals - text : 0), text);
    if (!*name)
        return import_bad_option(h, text, "is no setting: one is NAME=VALUE");
    if (json_object_get(h->given, name))
        return import_bad_option(h, name, "is set twice");
    json_object_set_new(h->given, name, value_of(equals + 1));
    return true;
}

bool import_objective(Import *h, const char *given)
{
    Arena *a = h->s->arena;
    h->given = import_own(h, json_object());
    h->declared = import_own(h, json_object());
    json_object_set_new(h->values, "objective", json_string(""));
    if (!given)
        return true;
    const char *folder = arena_printf(a, "%s/hf/objectives", home_dir(a));
    size_t n = strcspn(given, ",");
    h->objective = arena_strndup(a, given, n);
    for (const char *c = h->objective; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return unknown(h, folder);
    if (access(arena_printf(a, "%s/%s.mg", folder, h->objective), R_OK))
        return unknown(h, folder);
    json_object_set_new(h->values, "objective", json_string(h->objective));
    while (given[n]) {
        given += n + 1;
        n = strcspn(given, ",");
        if (!setting(h, arena_strndup(a, given, n)))
            return false;
    }
    return true;
}

bool import_options_known(Import *h)
{
    const char *name, *all = "";
    json_t *v;
    json_object_foreach(h->declared, name, v)
        all = arena_printf(h->s->arena, "%s%s%s", all, *all ? ", " : "", name);
    bool good = true;
    json_object_foreach(h->given, name, v)
        if (!json_object_get(h->declared, name)) {
            good = import_bad_option(h, name, "is no setting of it");
            diag_help(h->s->diag, *all ? "there is: %s" : "it has none%s", all);
        }
    return good;
}
