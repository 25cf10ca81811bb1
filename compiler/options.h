/* options.h - the command line as a structure; options.def is the table. */
#ifndef MGC_OPTIONS_H
#define MGC_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"

/* Exit codes, which scripts rely on. */
typedef enum Exit {
    EXIT_done = 0,
    EXIT_source = 1,     /* errors in the source */
    EXIT_usage = 2,      /* the command line */
    EXIT_infeasible = 3, /* does not fit, or has no legal schedule */
    EXIT_tool = 4,       /* a compiler, a library or the file system failed */
    EXIT_stopped = 5,    /* a search was stopped before its end: its best so far is told */
    EXIT_internal = 70   /* mgc is wrong */
} Exit;

typedef VEC(const char *) Words;

/* Absent: NULL, false, empty. An option of kind MAYBE without a value is "". */
typedef struct Options {
#define OPTION_TEXT(field, ...)   const char *field;
#define OPTION_LIST(field, ...)   Words field;
#define OPTION_CHOICE(field, ...) const char *field;
#define OPTION_MAYBE(field, ...)  const char *field;
#define OPTION_FLAG(field, ...)   bool field;
#include "compiler/options.def"
    const char *command; /* "explain", "fmt", "env"; NULL: compile */
    Words words;         /* what is no option, without the command */
    /* A file as an editor holds it, which is read in place of that of this path; NULL: none. */
    const char *held_path, *held_text;
    size_t held_size;
} Options;

/* Reads argv. False: told on err what is wrong (EXIT_usage). */
/* The command that a word is nearly, or NULL. */
const char *command_nearest(const char *word);

bool options_parse(Options *o, int argc, char **argv, Arena *a, FILE *err);
void options_help(FILE *out);
/* The first option given that a command ("" a compile, NULL one without any) does not take, by its
 * name; NULL: there is none. The table is takes.def. */
const char *options_untaken(const Options *o, const char *command);
/* The nth form of a command's arguments, "CODE" of explain; NULL: it has no more. */
const char *command_form(const char *command, int nth);
/* Is a value one of those of an option that has a choice of them? */
bool option_allows(const char *name, const char *value);

#endif
