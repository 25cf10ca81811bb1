/* options.c - reads the command line by the table in options.def; see options.h. */
#include "compiler/options.h"

#include <string.h>

#include "base/names.h"

typedef enum Kind { KIND_text, KIND_list, KIND_choice, KIND_maybe, KIND_flag, KIND_refused } Kind;

typedef struct Option {
    Kind kind;
    const char *group, *name;
    char letter;
    const char *argument, *help;
    size_t field; /* offset in Options */
} Option;

#define ROW(kind, f, group, name, letter, arg, help)                                               \
    {KIND_##kind, group, name, letter, arg, help, offsetof(Options, f)},
static const Option table[] = {
#define OPTION_TEXT(...)          ROW(text, __VA_ARGS__)
#define OPTION_LIST(...)          ROW(list, __VA_ARGS__)
#define OPTION_CHOICE(...)        ROW(choice, __VA_ARGS__)
#define OPTION_MAYBE(...)         ROW(maybe, __VA_ARGS__)
#define OPTION_FLAG(...)          ROW(flag, __VA_ARGS__)
#define OPTION_REFUSED(name, why) {KIND_refused, "", name, 0, "", why, 0},
#include "compiler/options.def"
};
enum { NTABLE = sizeof table / sizeof *table };

static const struct Command {
    const char *name, *arguments, *help;
    bool refused;
} commands[] = {
#define COMMAND(name, arguments, help) {name, arguments, help, false},
#define REFUSED_COMMAND(name, why)     {name, "", why, true},
#include "compiler/options.def"
};
enum { NCOMMANDS = sizeof commands / sizeof *commands };

static const struct Takes {
    const char *command, *options;
} takes[] = {
#define TAKES(command, options) {command, options},
#include "compiler/takes.def"
};

/* The command line while it is read. */
typedef struct Reader {
    Options *o;
    int argc, at;
    char **argv;
    Arena *a;
    FILE *err;
} Reader;

static const Option *find_long(const char *name, size_t n)
{
    for (size_t i = 0; i < NTABLE; i++)
        if (strlen(table[i].name) == n && !memcmp(table[i].name, name, n))
            return &table[i];
    return NULL;
}

static const Option *find_letter(char letter)
{
    for (size_t i = 0; i < NTABLE; i++)
        if (table[i].letter && table[i].letter == letter)
            return &table[i];
    return NULL;
}

static bool unknown(Reader *r, const char *word, size_t n)
{
    const char *names[NTABLE];
    for (size_t i = 0; i < NTABLE; i++)
        names[i] = table[i].name;
    const char *near = name_nearest(arena_strndup(r->a, word, n), names, NTABLE);
    fprintf(r->err, "mgc: error: unknown option '--%.*s'", (int)n, word);
    if (near)
        fprintf(r->err, "; did you mean '--%s'?\n", near);
    else
        fputs("; mgc --help lists them\n", r->err);
    return false;
}

/* Is the word one of those of `list`, "a|b|c" with '|' between them? */
static bool listed(const char *list, char between, const char *word)
{
    const char separator[2] = {between, 0};
    const size_t n = strlen(word);
    for (const char *p = list; *p;) {
        const size_t k = strcspn(p, separator);
        if (k == n && !memcmp(p, word, n))
            return true;
        p += k + (p[k] == between);
    }
    return false;
}

bool option_allows(const char *name, const char *value)
{
    const Option *o = find_long(name, strlen(name));
    return o && o->kind == KIND_choice && listed(o->argument, '|', value);
}

static bool set(Reader *r, const Option *o, const char *value)
{
    void *field = (char *)r->o + o->field;
    bool choice = o->kind == KIND_choice || (o->kind == KIND_maybe && *value &&
                                             !(*o->argument >= 'A' && *o->argument <= 'Z'));
    if (choice && !listed(o->argument, '|', value)) {
        fprintf(r->err, "mgc: error: --%s takes %s, not '%s'\n", o->name, o->argument, value);
        return false;
    }
    if (o->kind == KIND_flag) {
        *(bool *)field = true;
        return true;
    }
    if (o->kind == KIND_list) {
        vec_push(r->a, (Words *)field, value);
        return true;
    }
    const char **text = field;
    if (*text && strcmp(*text, value)) {
        fprintf(r->err, "mgc: error: --%s is given twice, as '%s' and '%s'\n", o->name, *text,
                value);
        return false;
    }
    *text = value;
    return true;
}

/* The option, with the value that stands behind '=' or the letter, or else in the next word. */
static bool take(Reader *r, const Option *o, const char *value)
{
    if (o->kind == KIND_refused) {
        fprintf(r->err, "mgc: error: --%s: %s\n", o->name, o->help);
        return false;
    }
    if (o->kind == KIND_flag && value) {
        fprintf(r->err, "mgc: error: --%s takes no value\n", o->name);
        return false;
    }
    bool needs = o->kind != KIND_flag && o->kind != KIND_maybe;
    if (needs && !value) {
        if (r->at + 1 >= r->argc) {
            fprintf(r->err, "mgc: error: --%s needs a value: %s\n", o->name, o->argument);
            return false;
        }
        value = r->argv[++r->at];
    }
    if (needs && !*value) {
        fprintf(r->err, "mgc: error: --%s has an empty value\n", o->name);
        return false;
    }
    return set(r, o, value ? value : "");
}

const char *command_nearest(const char *word)
{
    const char *names[NCOMMANDS];
    for (size_t i = 0; i < NCOMMANDS; i++)
        names[i] = commands[i].name;
    return name_nearest(word, names, NCOMMANDS);
}

static bool take_word(Reader *r, const char *word)
{
    for (size_t i = 0; !r->o->command && !r->o->words.n && i < NCOMMANDS; i++)
        if (!strcmp(commands[i].name, word)) {
            if (commands[i].refused) {
                fprintf(r->err, "mgc: error: '%s' is not built yet: %s\n", word, commands[i].help);
                return false;
            }
            r->o->command = commands[i].name;
            return true;
        }
    vec_push(r->a, &r->o->words, word);
    return true;
}

static bool take_next(Reader *r, bool *only_words)
{
    const char *arg = r->argv[r->at];
    if (*only_words || arg[0] != '-' || !arg[1])
        return take_word(r, arg);
    if (!strcmp(arg, "--")) {
        *only_words = true;
        return true;
    }
    if (arg[1] == '-') {
        size_t n = strcspn(arg + 2, "=");
        const Option *o = find_long(arg + 2, n);
        return o ? take(r, o, arg[2 + n] ? arg + 3 + n : NULL) : unknown(r, arg + 2, n);
    }
    const Option *o = find_letter(arg[1]);
    if (!o) {
        fprintf(r->err, "mgc: error: unknown option '%s'; mgc --help lists them\n", arg);
        return false;
    }
    return take(r, o, arg[2] ? arg + 2 : NULL);
}

bool options_parse(Options *o, int argc, char **argv, Arena *a, FILE *err)
{
    *o = (Options){0};
    Reader r = {o, argc, 1, argv, a, err};
    bool only_words = false;
    for (; r.at < argc; r.at++)
        if (!take_next(&r, &only_words))
            return false;
    return true;
}

/* ---- what commands take ------------------------------------------------------------------- */

static bool is_given(const Options *o, const Option *row)
{
    const void *field = (const char *)o + row->field;
    return row->kind == KIND_flag   ? *(const bool *)field
           : row->kind == KIND_list ? ((const Words *)field)->n > 0
                                    : *(const char *const *)field != NULL;
}

const char *options_untaken(const Options *o, const char *command)
{
    const char *taken = "";
    for (size_t i = 0; command && i < sizeof takes / sizeof *takes; i++)
        if (!strcmp(takes[i].command, command))
            taken = takes[i].options;
    for (size_t i = 0; i < NTABLE; i++)
        if (table[i].kind != KIND_refused && is_given(o, &table[i]) &&
            !listed(taken, ' ', table[i].name) &&
            !listed("help version proposals", ' ', table[i].name))
            return table[i].name;
    return NULL;
}

const char *command_form(const char *command, int nth)
{
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (!commands[i].refused && !strcmp(commands[i].name, command) && nth-- == 0)
            return commands[i].arguments;
    return NULL;
}

/* ---- help --------------------------------------------------------------------------------- */

static void print_row(FILE *out, const char *left, const char *help)
{
    enum { COLUMN = 30 };
    int n = fprintf(out, "  %s", left);
    if (n > COLUMN - 2) {
        fputc('\n', out);
        n = 0;
    }
    fprintf(out, "%*s%s\n", COLUMN - n, "", help);
}

static void print_options(FILE *out)
{
    const char *group = "";
    for (size_t i = 0; i < NTABLE; i++) {
        const Option *o = &table[i];
        if (o->kind == KIND_refused)
            continue;
        if (strcmp(group, o->group))
            fprintf(out, "\n%s\n", group = o->group);
        char left[80];
        if (o->letter)
            snprintf(left, sizeof left, "-%c%s%s, --%s", o->letter, *o->argument ? " " : "",
                     o->argument, o->name);
        else if (o->kind == KIND_maybe)
            snprintf(left, sizeof left, "--%s[=%s]", o->name, o->argument);
        else
            snprintf(left, sizeof left, "--%s%s%s", o->name, *o->argument ? "=" : "", o->argument);
        print_row(out, left, o->help);
    }
}

void options_help(FILE *out)
{
    fputs(
        "usage: mgc F.mg -o train [options]\n\n"
        "  mgc models/llama_mini.mg -o train        compile a model to a training program\n"
        "  mgc models/llama7b.mg --plan             what a step costs and where its bytes lie\n"
        "  mgc models/mlp.mg -D hidden=512 --check  types, memory, schedule: everything but code\n"
        "\nCommands\n",
        out);
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (!commands[i].refused) {
            char left[80];
            snprintf(left, sizeof left, "mgc %s%s%s", commands[i].name,
                     *commands[i].arguments ? " " : "", commands[i].arguments);
            print_row(out, left, commands[i].help);
        }
    print_options(out);
    fputs(
        "\nExit codes: 0 done, 1 errors in the source, 2 usage, 3 does not fit or has no legal\n"
        "schedule, 4 a tool failed, 5 a search was stopped, 70 mgc is wrong (please report it).\n",
        out);
}
