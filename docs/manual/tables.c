/* tables.c - see tables.h. */
#include "docs/manual/tables.h"

#include <string.h>

#define COUNT(x) (sizeof(x) / sizeof *(x))

const Entry mgc_options[] = {
#define OPTION_TEXT(field, ...)   {__VA_ARGS__, VALUE_needs, false},
#define OPTION_LIST(field, ...)   {__VA_ARGS__, VALUE_needs, true},
#define OPTION_CHOICE(field, ...) {__VA_ARGS__, VALUE_needs, false},
#define OPTION_MAYBE(field, ...)  {__VA_ARGS__, VALUE_maybe, false},
#define OPTION_FLAG(field, ...)   {__VA_ARGS__, VALUE_flag, false},
#include "compiler/options.def"
};
const size_t mgc_option_count = COUNT(mgc_options);

const Form forms[] = {
#define COMMAND(name, arguments, help) {name, arguments, help},
#include "compiler/options.def"
};
const size_t form_count = COUNT(forms);

#define ROW(group, name, arg, help, value, repeats) {group, name, 0, arg, help, value, repeats},
const Entry train_options[] = {
#define OPTION_TEXT(field, group, name, arg, help)  ROW(group, name, arg, help, VALUE_needs, false)
#define OPTION_LIST(field, group, name, arg, help)  ROW(group, name, arg, help, VALUE_needs, true)
#define OPTION_MAYBE(field, group, name, arg, help) ROW(group, name, arg, help, VALUE_maybe, false)
#define OPTION_COUNT(field, group, name, arg, help, least)                                         \
    ROW(group, name, arg, help, VALUE_needs, false)
#define OPTION_REAL(field, group, name, arg, help, least)                                          \
    ROW(group, name, arg, help, VALUE_needs, false)
#define OPTION_EVERY(field, group, name, arg, help) ROW(group, name, arg, help, VALUE_needs, false)
#define OPTION_SPAN(field, group, name, arg, help)  ROW(group, name, arg, help, VALUE_needs, false)
#define OPTION_FLAG(field, group, name, arg, help)  ROW(group, name, arg, help, VALUE_flag, false)
#include "runtime/options.def"
};
const size_t train_option_count = COUNT(train_options);

const Code codes[] = {
#define ERROR(number, title, text) {number, title, text},
#include "compiler/errors.def"
};
const size_t code_count = COUNT(codes);

const Takes takes[] = {
#define TAKES(name, options) {name, options},
#include "compiler/takes.def"
};
const size_t take_count = COUNT(takes);

const Note variables[] = {
#define VARIABLE(of, name, text) {of, name, text},
#include "docs/manual/manual.def"
};
const size_t variable_count = COUNT(variables);

const Note exits[] = {
#define EXIT(of, code, text) {of, code, text},
#include "docs/manual/manual.def"
};
const size_t exit_count = COUNT(exits);

/* Is the word one of those of `list`, which blanks separate? */
static bool listed(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; *p;) {
        const size_t k = strcspn(p, " ");
        if (k == n && !memcmp(p, word, n))
            return true;
        p += k + (p[k] == ' ');
    }
    return false;
}

bool command_takes(const char *command, const char *option)
{
    if (listed("help version proposals", option))
        return true;
    for (size_t i = 0; i < take_count; i++)
        if (!strcmp(takes[i].name, command))
            return listed(takes[i].options, option);
    return false;
}

/* Words in small letters with '|' between them; NAME|FILE is none. */
bool has_choices(const Entry *e)
{
    if (e->value == VALUE_flag || !strcmp(e->name, "resume"))
        return false;
    const bool alone = e->value == VALUE_maybe || !strcmp(e->argument, "average");
    return (alone || strchr(e->argument, '|')) && *e->argument &&
           !strpbrk(e->argument, "ABCDEFGHIJKLMNOPQRSTUVWXYZ:,=[ ");
}

char argument_kind(const Entry *e)
{
    if (!strcmp(e->name, "device"))
        return 'D';
    if (strstr(e->argument, "FILE") || strstr(e->argument, "GLOB"))
        return 'f';
    return strstr(e->argument, "DIR") ? 'd' : 0;
}
