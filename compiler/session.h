/* session.h - what one run of mgc works with, and the pieces of the driver. main() owns it all. */
#ifndef MGC_SESSION_H
#define MGC_SESSION_H

#include "base/quantity.h"
#include "compiler/options.h"
#include "grammar/grammar.h"
#include "plan/plan.h"
#include "codegen/llvm/llvm.h"

typedef struct Session {
    Arena *arena; /* lives as long as the process works */
    Names *names;
    Diag *diag;
    const Options *o;
    struct Times *times;      /* NULL where nobody asks */
    struct Page *page;        /* likewise */
    bool quick;               /* no layout is searched: what asks for it is compiled for one rank */
    bool trial;               /* of a remedy: nobody asks for others */
    const char *layout_text;  /* a layout in place of the file's; NULL: none */
    const char *layout_rules; /* lines that the chosen layout has, too; NULL: none */
    const struct Seen *seen;  /* who is told what expressions are; NULL: nobody */
    const char *precision;    /* that `layout auto` was found for; NULL: it names none */
} Session;

/* As ElaborateOptions has it. */
typedef struct Seen {
    void (*fn)(void *whom, Span at, const char *path, Name block, const Type *type,
               const char *number);
    void *whom;
} Seen;

/* times.c: --time-passes. A mark ends the part of that name, which began with the mark before. */
typedef struct Times Times;
void times_begin(Session *s);
void times_mark(const Session *s, const char *part);
void times_print(const Session *s, FILE *out);

/* combination.c: combinations of options that mean nothing are refused, not guessed at. */
Exit combination_check(Session *s);
bool pass_is_known(const char *name); /* or "lower", or "all" */

/* compile.c: a model or an IR text, through the passes, to what the options ask for. */
Exit compile(Session *s);

/* elastic.c: programs for several numbers of ranks, in one executable. */
Exit compile_elastic(Session *s);

/* An input as far as it is compiled. The plan is NULL if the range of passes ends before it. */
typedef struct Compiled {
    Module *module;
    Device device;
    Plan *plan;
} Compiled;

/* Reads and elaborates the input named by the options (module, device). */
Exit compile_front(Session *s, const char *path, Compiled *c);
/* The passes after `from` (NULL: all of them) up to `until` (NULL: all, and the plan). */
Exit compile_middle(Session *s, Compiled *c, const char *from, const char *until);

/* explain.c */
Exit explain_code(Session *s, const char *code);
Exit explain_names(Session *s, const char *path); /* of all parameters, as selectors name them */
Exit explain_name(Session *s, const char *path, const char *name);

/* env.c: mgc and the machine, for a bug report. */
Exit env_print(Session *s);

/* import_hf.c: the model of a Hugging Face directory, its text in the one form. */
typedef struct Imported {
    const char *text, *family;
    const char *fresh; /* parameters that files may lack, as selectors: "\"score.weight\"", or "" */
    const char *extra; /* tensors of files that are no parameters, likewise */
    size_t size;
    Module *module;
    bool weights; /* the directory has safetensors, with which it agrees */
} Imported;
Exit import_hf(Session *s, const char *dir, bool packed, const char *objective, Imported *made);
/* Writes it to -o or standard output. */
Exit command_import_hf(Session *s, const char *dir);

/* tune.c: that with an adapter, and its program. */
Exit command_tune(Session *s);

/* calibrate.c: measures this machine, or its GPU (--device), and writes the description to -o, or
 * standard output. */
Exit command_calibrate(Session *s);

/* trace_report.c: what a trace of ./train measured beside what was predicted, on standard output.
 */
Exit command_report(Session *s, const char *path);

/* watch/command.c: runs, in a terminal; on a page, or a local server's. */
Exit command_watch(Session *s);
Exit command_board(Session *s);

/* pipeline_command.c: a pipeline's schedule, proved and shown. */
Exit command_pipeline(Session *s, const char *name);
bool pipeline_options(const Options *o); /* whether any of its options is given */

/* lsp/command.c: the server of editors. */
Exit command_lsp(Session *s);

/* subcommands.c */
Exit command_run(Session *s);

/* trace.c: the predicted timeline of one training step, as Chrome's trace JSON. */
void trace_print(const Plan *p, FILE *out);

/* page.c: --report, one HTML page that loads nothing. What it shows is collected while compiling.
 */
typedef struct Page Page;
Page *page_new(Arena *a);
void page_pass(Page *p, const char *name, const Module *m); /* the program as it is now */
FILE *page_fusion(Page *p);
void page_frontier(Page *p, const Module *m, const Device *d); /* m: before pass recompute */
Exit page_write(Session *s, const Compiled *c, const char *path);

/* summary.c: the one line after a compile. */
void print_summary(const Session *s, const Compiled *c, FILE *out);

/* home.c: where runtime and device descriptions lie: $MGC_HOME, or lib/mgc beside the folder that
 * the executable really stands in. */
const char *home_dir(Arena *a);
/* The path of a model: as given, or, of a models/NAME.mg that the working folder does not have, the
 * one that mgc comes with (share/mgc/models), which a notice says. */
const char *model_path(Session *s, const char *path);

/* device.c: reads a description by name, or the file itself if it ends in ".json". */
Exit device_load(Session *s, const char *name, Device *d);
/* Those with a description beside mgc, sorted. */
const char **device_names(Arena *a, size_t *count);

/* remedies.c: helps of the error that a plan does not fit: what would, its bytes and its speed.
 * missing: what it lacks though all is offloaded that can be; NULL: nobody tried. */
void remedies_tell(Session *s, const Plan *p, const char *missing);

/* ... bytes of a plan's program with all parameters trained, on a device with room for it; 0: it
 * cannot be planned. */
int64_t unfrozen_bytes(Session *s, const Plan *p);

/* proposals.c: adds an option to *o as a message proposes it, "--microbatch 8"; false: it is none.
 */
bool option_add(Arena *a, Options *o, const char *text);
/* ... remedies that messages propose are tried before they are told. */
void proposals_try(Session *s);
Exit proposals_write(Session *s, const char *path); /* --proposals: those that were told, as JSON */

/* library.c: the table that a file beside mgc offers under that name; its first member is the
 * version of mgc (const char *) that it belongs to. NULL, and why not. */
const void *library_table(Arena *a, const char *file, const char *symbol, const char **why_not);

/* llvm.c: the part that makes kernels, loaded when it is first needed. */
bool llvm_kernels(const Plan *p, KernelOutput form, const char *path, const char **features);
bool llvm_features(const Plan *p, const char **features);
bool llvm_version(Arena *a, const char **version, const char **why_not);

/* ---- files.c ------------------------------------------------------------------------------- */

/* Reads a regular file whole and registers it; 0 after telling why it cannot. */
uint32_t read_source(Session *s, const char *path);

/* A text output that is there as a whole or not at all. path NULL or "-": standard output. */
typedef struct Output {
    FILE *file;
    const char *path, *temp; /* temp is NULL where bytes go straight to their place */
} Output;
Exit output_open(Session *s, Output *out, const char *path);
/* Keep it, or (on false) leave nothing behind. */
Exit output_close(Session *s, Output *out, bool keep);
/* Whether a file of that name may be made or replaced: there is none, or a regular one, and its
 * folder takes new ones. */
Exit output_replaceable(Session *s, const char *path);
/* Whether there is nothing of that name. */
Exit output_fresh(Session *s, const char *path);

/* generate.c: a number of --generate, and what it is where it is not given; options that ask for
 * steps of training, of a program that has none, are refused. */
Exit generate_number(Session *s, const char *name, const char *text, int64_t without, int64_t *n);
Exit generate_options(Session *s, const Compiled *c);

#endif
