/* text_reader.h - tokens of the IR's text, shared by the reader's two halves; private to ir/.
 *
 * A mistake is reported once, with its place, and ends the reading (longjmp to Reader.fail). */
#ifndef MGC_IR_TEXT_READER_H
#define MGC_IR_TEXT_READER_H

#include <setjmp.h>

#include "ir/ir.h"

enum { MAX_DEPTH = 32, MAX_VALUES = 250 };

typedef enum TokenKind { TOK_end, TOK_word, TOK_value, TOK_string, TOK_number, TOK_mark } TokenKind;

typedef struct Token {
    TokenKind kind;
    const char *text; /* word, value, string: decoded; mark: the character */
    double real;
    int64_t integer;
    bool integral;
    Span span;
} Token;

typedef struct Label {
    Value value;
    uint32_t fn; /* in which function; a label of another one is free */
} Label;

typedef struct Reader {
    Module *m;
    Arena *a;
    const char *start, *at, *end;
    uint32_t file;
    Token t;                  /* the next token */
    VEC(Label) by_name;       /* per name: the value last called so */
    uint32_t fn;              /* functions before the one being read, and 1 */
    uint32_t source;          /* file that @line:column speaks of, 0 until needed */
    VEC(uint32_t) line_start; /* its lines */
    jmp_buf fail;
} Reader;

/* Reports at s and gives up. fmt has one %s, for `what`. */
_Noreturn void text_wrong(Reader *r, Span s, int code, const char *fmt, const char *what);

/* text_lex.c: the next token is r->t. want_: it must be that, and is taken; take_: it is taken if
 * it is that. */
void text_next(Reader *r);
bool text_is_word(const Reader *r, const char *w);
bool text_is_mark(const Reader *r, char c);
bool text_take_mark(Reader *r, char c);
void text_want_mark(Reader *r, char c);
bool text_take_word(Reader *r, const char *w);
void text_want_word(Reader *r, const char *w);
const char *text_want_text(Reader *r);
Name text_want_name(Reader *r);
double text_want_real(Reader *r);
int64_t text_want_int(Reader *r, int64_t low, int64_t high);
int text_want_choice(Reader *r, const char *const *choices, int n);
/* [ '@' line ':' column ], a place in the source the text was made from. */
Span text_read_place(Reader *r);

/* text_parse.c: the number of the axis of that name, of n bytes; a dtype. */
int text_read_axis(Reader *r, const char *name, size_t n, Span s);
DType text_read_dtype(Reader *r);

/* text_header.c: the lines before inputs and tensors, into r->m. */
void text_read_train(Reader *r);
void text_read_layout(Reader *r);
void text_read_mesh(Reader *r);

#endif
