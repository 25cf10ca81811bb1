/* parse.h - what lexer, parser and parse.c share. */
#ifndef MGC_PARSE_H
#define MGC_PARSE_H

#include "grammar/ast.h"

enum { PARSE_NAME_MAX = 128, PARSE_STRING_MAX = 256 };

typedef struct Literal {
    const char *text, *unit;
    double value;
} Literal;

/* Values of tokens and of grammar symbols. */
typedef union Semantic {
    Name name;
    const char *text;
    Literal literal;
    BinaryOp op;
    Node *node;
    NodeList *list;
} Semantic;

/* A token as the lexer gave it, kept while the parser looks for a place to go on from. */
typedef struct Token {
    int kind;
    Semantic value;
    Span span;
    bool first; /* on its line */
} Token;

typedef struct Parse {
    Ast *ast;
    Diag *diag;
    void *scanner;
    uint32_t offset; /* of the lexer, in bytes */
    bool line_start; /* a newline was passed since the last token */
    int before;      /* the kind of the token that the lexer gave last */
    int item;        /* the keyword of the item being read */
    Name x, at, follows, adapter, on;
    int braces;       /* open before the next token */
    Span opened;      /* the outermost of them */
    Token last;       /* the token the parser looks at */
    Token prior;      /* and the one before it */
    VEC(Token) queue; /* tokens to hand out before the lexer's next one: a stack */
    bool recover;     /* an error was reported: find the next statement */
    bool deep;        /* a tree was too deep */
    Node *expression; /* the result of START_EXPRESSION */
} Parse;

/* A registered text to be read, its first `skip` bytes as blanks; NULL after telling that it is too
 * long. Then the next token as the lexer gives it, 0 at the end. */
Parse *parse_open(Arena *a, Names *names, Diag *d, uint32_t file, size_t skip);
int parse_lex(Parse *p, Semantic *value, Span *span);
void parse_close(Parse *p);

/* For the lexer. */
void parse_comment(Parse *p, Span at, const char *text, size_t n);
const char *parse_string(Parse *p, Span at, const char *text, size_t n);
_Noreturn void parse_fatal(const char *message);

/* For the parser: its token source, which helps it to recover, and its messages. */
int parse_token(Semantic *value, Span *span, Parse *p);
void parse_unexpected(Parse *p, const char *const *expected, int n, bool wants_over);
void parse_habit(Parse *p); /* helps with what is right in another language, if the last error is
                               that (habits.c) */
void parse_exhausted(Parse *p, const char *message);

/* Copies a node to the arena, counting the depth of what is below it; `at` is all of it unless
 * given. A tree too deep is reported once and ends the parse. */
Node *node_make(Parse *p, const Node *n);
#define MAKE(span_, kind_, ...)                                                                    \
    node_make(p, &(Node){.kind = N_##kind_, .span = (span_), __VA_ARGS__})
NodeList *list_new(Parse *p, Node *first); /* empty for NULL */
NodeList *list_add(Parse *p, NodeList *l, Node *n);

#endif
