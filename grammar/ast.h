/* ast.h - the syntax tree: what the text says, nothing looked up yet.
 *
 * All nodes have one shape; ast.def lists which fields a kind uses. The tree keeps what the
 * formatter needs to give the text back: parentheses, numbers as written, comments. */
#ifndef MGC_AST_H
#define MGC_AST_H

#include "base/arena.h"
#include "base/diag.h"
#include "base/names.h"

typedef enum NodeKind {
    N_none,
#define NODE(kind, name, ...) N_##kind,
#include "grammar/ast.def"
    N_count
} NodeKind;

typedef enum BinaryOp {
    B_ADD,
    B_SUB,
    B_MUL,
    B_DIV,
    B_MOD,
    B_LT,
    B_LE,
    B_GT,
    B_GE,
    B_EQ,
    B_NE
} BinaryOp;

/* Trees deeper than this are refused by the parser, so that walking one needs no care. */
enum { AST_DEPTH_MAX = 256 };

typedef struct Node Node;
typedef VEC(Node *) NodeList;

struct Node {
    NodeKind kind;
    BinaryOp op;
    bool flag;
    int depth; /* of the tree below, itself counted */
    Span span, at;
    uint32_t body; /* what has statements or entries: where they begin, after the brace */
    Name name;
    const char *text, *unit;
    double number;
    Node *a, *b;
    NodeList list, more;
};

typedef struct Comment {
    Span span;
    const char *text; /* with its '#', without the end of the line */
} Comment;

typedef struct Ast {
    Arena *arena;
    Names *names;
    uint32_t file;
    const char *path, *text;
    NodeList items;
    VEC(Comment) comments;
} Ast;

const char *node_kind_name(NodeKind kind);
const char *binary_text(BinaryOp op); /* "+" */
/* The node inside any parentheses. */
const Node *node_bare(const Node *n);

/* Reads a registered file (diag_add_file). Errors go to d (codes 01xx); NULL if there were any. The
 * tree lives in `a` and points into the file's text. */
Ast *mg_parse(Arena *a, Names *names, Diag *d, uint32_t file);

/* The same, and after errors what could be read beside them, for editors; NULL: the text is too
 * long. */
Ast *mg_parse_rest(Arena *a, Names *names, Diag *d, uint32_t file);

/* Reads a registered text that is one expression after `skip` bytes (the value of a -D); NULL after
 * errors. */
const Node *parse_expression(Arena *a, Names *names, Diag *d, uint32_t file, size_t skip);

/* Equal up to spans. */
bool node_equal(const Node *a, const Node *b);
bool ast_equal(const Ast *a, const Ast *b);
/* One node a line, indented; for tests. */
void ast_dump(const Ast *ast, FILE *out);

#endif
