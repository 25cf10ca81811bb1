/* tables.h - what the manual is made of: the tables of options, commands, codes, variables and
 * exits, as arrays. All texts are of static storage. */
#ifndef MGC_MANUAL_TABLES_H
#define MGC_MANUAL_TABLES_H

#include <stdbool.h>
#include <stddef.h>

/* NEEDS: a value, in the next word or behind '='; MAYBE: behind '=' alone; FLAG: none. */
typedef enum Value { VALUE_needs, VALUE_maybe, VALUE_flag } Value;

typedef struct Entry {
    const char *group, *name; /* "Output", "emit" */
    char letter;              /* 'o' of -o; 0: none */
    const char *argument, *help;
    Value value;
    bool repeats;
} Entry;

/* A form of a command; commands of several forms have several neighbours of one name. */
typedef struct Form {
    const char *name, *arguments, *help;
} Form;

/* The options that a command takes, as words; "" is a compile. */
typedef struct Takes {
    const char *name, *options;
} Takes;

typedef struct Code {
    int number;
    const char *title, *text;
} Code;

/* Of "mgc" or "train": an environment variable, or an exit code as text. */
typedef struct Note {
    const char *of, *name, *text;
} Note;

extern const Entry mgc_options[], train_options[];
extern const Form forms[];
extern const Takes takes[];
extern const Code codes[];
extern const Note variables[], exits[];
extern const size_t mgc_option_count, train_option_count, form_count, take_count, code_count,
    variable_count, exit_count;

/* Does the command take the option of this name? Options of every command are --help, --version
 * and --proposals. */
bool command_takes(const char *command, const char *option);
/* Is the argument a choice of words, as "auto|none"? */
bool has_choices(const Entry *e);
/* The kind of file that an argument names, for completion: 'd' a directory, 'f' a file or a
 * pattern, 'D' a device by name or file, 0: no file. */
char argument_kind(const Entry *e);

#endif
