/* import.h - mgc import-hf: what its parts share.
 *
 * A family of models is known by its template, lib/mgc/hf/FAMILY.mg: the keys of
 * config.json that it understands and the text of the model, with conditions. The C code knows no
 * family. docs/families.md describes templates. */
#ifndef MGC_IMPORT_H
#define MGC_IMPORT_H

#include "compiler/session.h"

#include <jansson.h>

/* A model as its config.json describes it, read by the template of its family. */
typedef struct Import {
    Session *s;
    const char *dir, *path;   /* of config.json */
    json_t *config, *tensors; /* tensors: name -> {"shape": [...], ...} of all files; NULL: none */
    json_t *owned;            /* an array of all that was made */
    const char *family;
    const char *objective;    /* --objective: its name, or NULL */
    json_t *given, *declared; /* the settings of the objective that are given, and that it has */
    json_t *values;           /* name -> value: keys and what is computed from them */
    json_t *known;            /* key, as "rope_scaling.factor" -> see below */
    json_t *extra;            /* patterns of tensors that are in files and are no parameters */
    json_t *fresh;            /* patterns of parameters that files may lack */
    FILE *out;                /* the text of the model */
} Import;

/* `known`: what becomes of a key in the model's config block: a string is the expression that
 * stands for it, true: it stays as it is, null: it is left out. */

/* A place in a template that is read on: text, from `at` to `end`. */
typedef struct Cursor {
    Import *h;
    uint32_t file;
    const char *text;
    uint32_t at, end;
    int dead; /* above 0: read, and not computed */
    int depth;
    bool failed;
} Cursor;

/* import_names.c: the names of all templates of a folder, in order, commas between them; "" if it
 * has none, or is not there. */
const char *import_names(Arena *a, const char *folder);

/* import_config.c: false after telling all that is wrong. */
bool import_config(Import *h);
/* Of a key: always false. */
bool import_bad(Import *h, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* All keys that the template does not know are told. */
bool import_all_known(Import *h);

/* import_objective.c: `given` is the text of --objective, or NULL. */
bool import_objective(Import *h, const char *given);
/* Settings that the objective does not have are told. */
bool import_options_known(Import *h);
/* Of a setting: always false. */
bool import_bad_option(Import *h, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* import_template.c: runs the template of the family; the text goes to h->out. */
bool import_template(Import *h);

/* import_key.c: a line `%key` or `%option`; the cursor is behind the word. */
bool import_key(Cursor *c, bool option);
json_t *import_find(const Import *h, const char *key);

/* import_eval.c: expressions of templates. NULL after an error was told. */
json_t *import_eval(Cursor *c);
bool import_refuse(Cursor *c, uint32_t begin, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Words and marks of a line; blanks before them are passed over. */
bool import_accept(Cursor *c, const char *token);
bool import_expect(Cursor *c, const char *token);
const char *import_name(Cursor *c, bool dots);
bool import_ends(Cursor *c);
json_t *import_own(Import *h, json_t *v);
bool import_true(const json_t *v);

/* import_functions.c: what expressions call. */
json_t *import_call(Cursor *c, uint32_t begin, const char *name, json_t *args);

/* import_values.c: values as text, and equal values. */
bool import_same(const json_t *a, const json_t *b);
const char *import_number(const Import *h, const json_t *v);
const char *import_shown(const Import *h, const json_t *v); /* for messages, not too long */
void import_write_config(const Import *h, FILE *out);

/* import_tensors.c: the headers of a directory's safetensors files, and their agreement with the
 * parameters of a module. */
bool import_tensors(Import *h);
bool import_agree(const Import *h, const Module *m);

#endif
