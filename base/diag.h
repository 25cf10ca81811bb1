/* diag.h - what a person reads when something is wrong.
 *
 *   file:line:col: error[MG0207]: message with both numbers
 *      31 |   kv_heads -> tp
 *         |   ^~~~~~~~
 *   file:line:col: note: where the other number comes from
 *   help: a legal alternative
 *
 * One error per cause: call diag_error once, then diag_note and diag_help for the same cause.
 * Messages are lower case, without a period, names in single quotes. Every code has a row in
 * compiler/errors.def, which is what `mgc explain CODE` prints. */
#ifndef MGC_DIAG_H
#define MGC_DIAG_H

#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"

/* A place in a source file, in bytes. file 0 means "no place" (a command-line flag, say). */
typedef struct Span {
    uint32_t file, begin, end;
} Span;

typedef struct Diag Diag;

enum { DIAG_ERROR_LIMIT = 20 }; /* errors printed before giving up on the rest */

Diag *diag_new(Arena *a, FILE *out, bool color);
/* One of the same files that counts errors and prints nothing. */
Diag *diag_silent(const Diag *d, Arena *a);

/* The kind of a message. Notes and helps belong to the error or warning before them, but a notice
 * stands by itself. */
typedef enum DiagKind { DIAG_error, DIAG_warning, DIAG_note, DIAG_help, DIAG_notice } DiagKind;
/* text lives as long as the arena of the Diag. */
typedef void (*DiagHear)(void *ctx, DiagKind kind, Span at, int code, const char *text);
/* One that prints nothing, and has each message heard; errors beyond `limit` are dropped. */
Diag *diag_heard(Arena *a, int limit, DiagHear hear, void *ctx);

/* Registers a text (not copied; NUL after its last byte) and returns its file number, from 1. */
uint32_t diag_add_file(Diag *d, const char *path, const char *text, size_t size);
/* `text` for a terminal: bytes that one acts on, and what is no UTF-8, as \xNN. Messages are
 * written so, whatever they quote. */
void diag_show(FILE *out, const char *text);
const char *diag_path(const Diag *d, uint32_t file);
const char *diag_text(const Diag *d, uint32_t file, size_t *size);
/* 1-based line and column (in bytes) of the start of a span; 0,0 without a file. */
void diag_locate(const Diag *d, Span s, int *line, int *column);

/* code is the number of an MG code: 207 prints as MG0207. */
void diag_error(Diag *d, Span s, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void diag_warning(Diag *d, Span s, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A note by itself: what was chosen for a program that nothing is wrong with. */
void diag_notice(Diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Both belong to the error or warning before them and are dropped with it. */
void diag_note(Diag *d, Span s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_help(Diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- remedies -------------------------------------------------------------------------------- */

/* One change: of the text at a span (empty: `with` goes in there), or, without a file, of the
 * command line: `with` is one more option, "--microbatch 8" or "-D batch=8". */
typedef struct Edit {
    Span at;
    const char *with;
} Edit;

/* Changes that make an error go away, together; those of one file from its beginning on. */
enum { REMEDY_EDITS = 8 };
typedef struct Remedy {
    int n;
    Edit edit[REMEDY_EDITS];
} Remedy;

/* An error, and which remedy was told of it. */
typedef struct Told {
    int code;
    Span at;
    const char *said;
    Remedy remedy;
} Told;
typedef VEC(Told) ToldList;

/* Proposes a remedy of the error before. It is tried first, by whoever compiles (trial.h), and told
 * as a help only if it works: true. Where nobody tries it is not told. Of several candidates the
 * caller proposes one after another until one is told. */
bool diag_remedy(Diag *d, const Remedy *r, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, of one edit: an option of the command line. */
bool diag_remedy_option(Diag *d, const char *option, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Tells a remedy that the caller has tried itself. */
void diag_remedy_tried(Diag *d, const Remedy *r, const char *said);
const ToldList *diag_told(const Diag *d);

/* Whether a remedy makes the error of that code at that place go away. */
typedef bool (*RemedyTry)(void *ctx, const Remedy *r, int code, Span at);
void diag_on_remedy(Diag *d, RemedyTry try, void *ctx);
Span diag_last(const Diag *d); /* the place of the last error */

/* A finding about a program, for comparison: an error, or a stage that was reached. */
typedef struct Found {
    int code;      /* 0: a stage */
    int stage;     /* 1, 2, ... */
    uint32_t file; /* a hash of its path */
    uint32_t begin;
} Found;
typedef void (*FoundFn)(void *ctx, const Found *f);
/* One that prints nothing and hands on what is found. Files get the edits as they are added. */
Diag *diag_trial(Arena *a, const Remedy *edits, FoundFn found, void *ctx);
/* The part of the compiler before is done: what it finds wrong is found. */
void diag_stage(Diag *d, int stage);
Found diag_found(const Diag *d, int code, Span at);

int diag_errors(const Diag *d);
/* True once so many errors were printed that going on is of no use. */
bool diag_enough(const Diag *d);

#endif
