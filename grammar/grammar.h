/* grammar.h - .mg text to syntax tree, syntax tree to text, syntax tree to logical program. */
#ifndef MGC_GRAMMAR_H
#define MGC_GRAMMAR_H

#include "grammar/ast.h"
#include "ir/ir.h"

/* Prints the canonical text: comments kept, one statement a line, columns aligned. Formatting the
 * result gives it again, and it parses to an equal tree. */
void mg_fmt(const Ast *ast, FILE *out);

typedef struct ElaborateOptions {
    const char *const *define; /* "NAME=VALUE", from -D, in order; the last of a name wins */
    size_t ndefine;
    const char *layout;    /* name of the layout, NULL for the default one */
    const Ast *layouts;    /* more layouts, from --layout FILE; NULL for none */
    const char *device;    /* instead of the layout's; NULL for none */
    const char *precision; /* instead of the train block's, one of its names; NULL for none */
    const char *adapter;   /* the one that is trained, "none"; NULL: that of the file */
    int64_t microbatch;    /* instead of the layout's; 0 for none */
    const char *recompute; /* instead of the layout's, "auto", "none" or "all"; NULL for none */
    const char *offload;   /* instead of the layout's, "auto" or "none"; NULL for none */
    const char *optimizer; /* ... "auto", "device" or "host" */
    int64_t sequences;     /* a program that generates so many texts at once, on all ranks; below
                              0: one, or as many as ranks have texts of their own; 0: one that trains */
    int64_t group;   /* ... of which so many begin with one prompt each; 0: each has its own */
    int64_t prefill; /* ... that reads so many tokens of a prompt at once; 0: as many as it likes */
    bool inline_composites; /* composites by their definitions, for tests */
    /* Is the device of that name (or in that file) a GPU? Asked with `who`; NULL: none is. */
    bool (*is_gpu)(void *who, const char *device);
    void *who;
    /* NULL, or: told of each expression of the source, as @train has it, at the place of the name
     * or operator that it is known by, in the call `path` of a block. type NULL: it is `number`. */
    void (*seen)(void *whom, Span at, const char *path, Name block, const Type *type,
                 const char *number);
    void *whom;
} ElaborateOptions;

/* The logical program: functions train, eval and, where the loss is a cross-entropy over next(...),
 * sample; or, of a program that generates, generate alone; the train block and the layout, checked.
 * NULL after errors (codes 02xx and 03xx). */
Module *mg_elaborate(Arena *a, Names *names, Diag *d, const Ast *ast, const ElaborateOptions *o);

/* The rule of an optimizer, as prelude.mg declares it (grammar/update.c): Module.update_rule. */
bool mg_update_rule(Builder *b, const RuleCall *c, Value *out);

#endif
