/* names.h - what the names of a source stand for, as far as the text alone says: where each is
 * declared, and where it stands. Types and sizes are the compiler's (facts.h). */
#ifndef MGC_LSP_NAMES_H
#define MGC_LSP_NAMES_H

#include "grammar/ast.h"
#include "grammar/tokens.h"

typedef enum DeclKind {
    DECL_dim,
    DECL_const,
    DECL_axis,   /* of a mesh: those of all layouts with a name are one */
    DECL_value,  /* also of a block's parameters, and the number of an iteration */
    DECL_option, /* parameter of a block that has a name in calls */
    DECL_flag,
    DECL_param,
    DECL_instance,
    DECL_block,
    DECL_model,
    DECL_optimizer,
    DECL_setting, /* of optimizers: those of a name are one, as its range says */
    DECL_state,
    DECL_layout
} DeclKind;
const char *decl_kind_name(DeclKind k); /* "dim" */

typedef struct Decl {
    DeclKind kind;
    Name name;
    Span at;           /* the first place of the name */
    const Node *node;  /* BIND, TENSOR, ASSIGN, PARAM, BLOCK, ... */
    const Node *owner; /* the block, model or optimizer in which it is known; NULL: everywhere */
} Decl;

typedef struct Occurrence {
    Span at;
    Name name;
    int decl;   /* index in decls; -1: a block, function or optimizer of the language */
    bool write; /* it is declared, or gets a value, here */
} Occurrence;

typedef struct Index {
    Arena *arena;
    Names *names;
    Diag *diag; /* has heard what is wrong with the text, and tells nobody */
    Ast *ast;   /* as far as it could be read */
    bool whole; /* all of it */
    MgTokens tokens;
    VEC(Decl) decls;
    uint32_t *slots; /* the table of their numbers from 1, by name, owner and kind */
    size_t nslots;
    VEC(Occurrence) occurrences; /* by place */
} Index;

/* All in `a`; the text stays as long. NULL: the text is too long. */
Index *index_new(Arena *a, const char *path, const char *text, size_t size);
/* The name at a byte, or right before it; NULL: none stands there. */
const Occurrence *index_at(const Index *x, size_t byte);
/* The declaration that a name would mean in this owner; -1: none. Blocks, optimizers and layouts
 * have names of their own (kind). */
int index_find(const Index *x, DeclKind kind, const Node *owner, Name name);
/* The block, model or optimizer whose text a byte is in; NULL: none. */
const Node *index_owner(const Index *x, size_t byte);
const char *index_text(const Index *x, Name n);

#endif
