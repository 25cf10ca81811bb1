/* parts.h - what the parts of the interpreter share: the tree of a template, values, a rendering.
 */
#ifndef MGC_JINJA_PARTS_H
#define MGC_JINJA_PARTS_H

#include "text/jinja/jinja.h"

#include <setjmp.h>
#include <string.h>

/* ---- tokens -------------------------------------------------------------------------------- */

typedef enum TokenKind {
    TOKEN_end,
    TOKEN_data,
    TOKEN_open,      /* {{ */
    TOKEN_close,     /* }} */
    TOKEN_block,     /* {% */
    TOKEN_block_end, /* %} */
    TOKEN_name,
    TOKEN_string, /* unescaped */
    TOKEN_integer,
    TOKEN_float,
    TOKEN_operator
} TokenKind;

typedef struct Token {
    TokenKind kind;
    uint32_t at, end;
    const char *text; /* data, name, string; an operator's characters */
    size_t n;
    int64_t integer;
    double real;
} Token;
typedef VEC(Token) Tokens;

/* ---- the tree ------------------------------------------------------------------------------ */

typedef enum NodeKind {
    /* expressions */
    NODE_constant,
    NODE_name,
    NODE_list,
    NODE_tuple,
    NODE_dict,   /* keys and values by turns */
    NODE_member, /* a.name */
    NODE_item,   /* a[b] */
    NODE_slice,  /* a[b:c:d] */
    NODE_call,
    NODE_filter,
    NODE_test,
    NODE_not,
    NODE_and,
    NODE_or,
    NODE_choice, /* a if b else c */
    NODE_compare,
    NODE_binary,
    NODE_negative,
    NODE_positive,
    NODE_concat,
    /* statements */
    NODE_body,
    NODE_data,
    NODE_output,
    NODE_for,
    NODE_if,
    NODE_set,
    NODE_set_block,
    NODE_macro,
    NODE_break,
    NODE_continue,
    NODE_generation
} NodeKind;

typedef struct Node Node;
typedef VEC(Node *) Nodes;
struct Node {
    NodeKind kind;
    uint32_t at, end;
    const char *text; /* data; the name of a member, filter, test, macro; an operator */
    size_t n;
    int name;        /* of a variable, or of the argument that this is given for; -1: none */
    JinValue *value; /* constant */
    Node *a, *b, *c, *d;
    Nodes list;   /* items; arguments, of which `positional` come first; statements */
    Nodes others; /* comparisons after the first; defaults of parameters */
    int positional;
};

struct JinTemplate {
    Arena *a;
    const char *source;
    size_t size;
    VEC(const char *) names; /* of variables, by number */
    Node *body;
    bool generation;
};

typedef struct Parser {
    JinTemplate *t;
    Tokens tokens;
    size_t next;
    int depth, loops, macros;
    JinError *e;
    jmp_buf fail;
} Parser;

_Noreturn void jin_parse_fail(Parser *p, uint32_t at, uint32_t end, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void jin_lex(Parser *p);
/* expressions.c */
const Token *jin_peek(const Parser *p);
bool jin_at_operator(const Parser *p, const char *op);
bool jin_at_name(const Parser *p, const char *name);
bool jin_skip_operator(Parser *p, const char *op);
bool jin_skip_name(Parser *p, const char *name);
void jin_expect_operator(Parser *p, const char *op);
int jin_name_number(JinTemplate *t, const char *text, size_t n);
Node *jin_node_new(Parser *p, NodeKind kind, uint32_t at);
Node *jin_parse_expression(Parser *p);
Node *jin_parse_tuple(Parser *p);     /* an expression, or several with commas */
Node *jin_parse_loop_list(Parser *p); /* the same without `a if b`: a loop's `if` is its own */
Node *jin_parse_primary(Parser *p);
const char *jin_reserved_name(const Token *t); /* NULL if it may be a variable */
/* statements.c */
Node *jin_parse_template(Parser *p);

/* ---- values -------------------------------------------------------------------------------- */

typedef enum JinKind {
    JIN_undefined,
    JIN_none,
    JIN_bool,
    JIN_int,
    JIN_float,
    JIN_string,
    JIN_list,
    JIN_tuple,
    JIN_range,
    JIN_dict,
    JIN_view,   /* of a dict: items(), keys(), values() */
    JIN_stream, /* a generator, which may be run through once */
    JIN_namespace,
    JIN_loop,
    JIN_macro,
    JIN_function,
    JIN_method
} JinKind;

typedef struct JinPair {
    JinValue *key, *value;
} JinPair;

typedef struct LoopState {
    JinValue **item;
    size_t n, index;
} LoopState;

struct JinValue {
    JinKind kind;
    bool safe; /* a string after the filter `safe`: not to be mixed with others */
    bool used; /* a stream that was run through */
    union {
        bool truth;
        int64_t integer;
        double real;
        struct {
            const char *text; /* a string; the name of what is undefined, a function, a method */
            size_t n;
            JinValue *self;
        };
        struct {
            JinValue **item;
            size_t items;
        };
        struct {
            JinPair *pair;
            size_t pairs, room;
        };
        LoopState *loop;
        struct {
            const Node *macro;
            struct Frame *frame;
        };
    };
};

/* ---- a rendering --------------------------------------------------------------------------- */

typedef struct Frame {
    struct Frame *outer;
    VEC(struct Bound {
        int name;
        JinValue *value;
    })
    bound;
} Frame;

typedef enum Flow { FLOW_on, FLOW_break, FLOW_continue } Flow;

typedef struct Render {
    const JinTemplate *t;
    Arena *a;
    Frame *frame;
    char *out; /* malloc'ed */
    size_t n, cap;
    VEC(JinPart) generation;
    int captures; /* the output is for a value */
    int depth, loop_filters;
    int64_t steps;
    size_t memory;
    time_t now;
    const Node *here; /* of messages */
    JinError *e;
    jmp_buf fail;
} Render;

_Noreturn void jin_render_fail(Render *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void *jin_render_alloc(Render *r, size_t count, size_t size);
void jin_write_out(Render *r, const char *text, size_t n);
/* The output from `from` on as a string, taken back. */
JinValue *jin_take_output(Render *r, size_t from);

/* value.c */
JinValue *jin_value_new(Render *r, JinKind kind);
JinValue *jin_string_of(Render *r, const char *text, size_t n); /* shares the text */
JinValue *jin_string_copy(Render *r, const char *text, size_t n);
JinValue *jin_integer_of(Render *r, int64_t i);
JinValue *jin_truth_of(Render *r, bool b);
JinValue *jin_none_of(Render *r);
JinValue *jin_undefined_of(Render *r, const char *name, size_t n);
JinValue *jin_list_of(Render *r, JinKind kind, size_t n); /* items to be filled in */
bool jin_is_text(const JinValue *v, const char *text);
bool jin_is_number(const JinValue *v); /* with truth values, as in Python */
double jin_real_of(const JinValue *v);
int64_t jin_whole_of(const JinValue *v);
const char *jin_kind_name(const JinValue *v);
bool jin_truthy(const JinValue *v);
bool jin_equal(Render *r, const JinValue *a, const JinValue *b);
int jin_compare(Render *r, const JinValue *a, const JinValue *b); /* fails on what has no order */
JinValue *jin_dict_get(Render *r, const JinValue *dict, const JinValue *key); /* or NULL */
JinValue *jin_dict_text(const JinValue *dict, const char *key, size_t n);     /* or NULL */
void jin_dict_put(Render *r, JinValue *dict, JinValue *key, JinValue *value);
/* The items that a loop over the value runs through. */
JinValue **jin_items_of(Render *r, JinValue *v, size_t *n);

/* write.c */
JinValue *jin_as_string(Render *r, JinValue *v); /* Python's str() */
void jin_write_value(Render *r, const JinValue *v);
void jin_write_json(Render *r, const JinValue *v, int64_t indent, const char *between,
                    const char *colon, bool ascii, bool sorted);
size_t jin_real_text(double x, char out[40]);

/* text.c: strings by characters */
typedef struct Text {
    const char *p;
    size_t n;
} Text;
size_t jin_text_chars(Text t);
Text jin_text_slice(Text t, size_t from, size_t to); /* characters */
JinValue *jin_text_lower(Render *r, Text t);
JinValue *jin_text_upper(Render *r, Text t);
JinValue *jin_text_capital(Render *r, Text t);
JinValue *jin_text_title(Render *r, Text t,
                         bool jinja); /* words as the filter has them, or str.title */
Text jin_text_strip(Text t, const Text *chars, bool left, bool right);
JinValue *jin_text_replace(Render *r, Text t, Text old, Text by, int64_t count);
JinValue *jin_text_split_lines(Render *r, Text t);
JinValue *jin_text_split(Render *r, Text t, const Text *by, int64_t most, bool from_right);
int64_t jin_text_find(Text t, Text what, size_t from); /* in bytes, or -1 */
bool jin_space_at(Text t, size_t i, size_t *bytes);

/* call.c */
typedef struct Args {
    JinValue **value;
    int *name; /* -1: by position */
    size_t n;
    bool *taken;
} Args;
/* Argument number i (from 0), or of that name; NULL: not given. */
JinValue *jin_argument(Render *r, Args *args, size_t i, const char *name);
void jin_no_more_arguments(Render *r, const Args *args, const char *what);
Text jin_text_argument(Render *r, JinValue *v, const char *what);
int64_t jin_whole_argument(Render *r, JinValue *v, const char *what);
JinValue *jin_member(Render *r, JinValue *of, const char *name, size_t n);
JinValue *jin_item(Render *r, JinValue *of, JinValue *key);
JinValue *jin_call(Render *r, JinValue *f, Args *args);
JinValue *jin_method_call(Render *r, const JinValue *method, Args *args);
bool jin_method_known(const JinValue *of, const char *name, size_t n);

/* filter.c, test.c */
JinValue *jin_filter(Render *r, const char *name, JinValue *of, Args *args);
bool jin_test(Render *r, const char *name, JinValue *of, Args *args);
bool jin_filter_known(const char *name);
bool jin_test_known(const char *name);
bool jin_contains(Render *r, JinValue *in, const JinValue *what);

/* eval.c, run.c */
JinValue *jin_eval(Render *r, const Node *n);
JinValue *jin_lookup(Render *r, int name, bool *found);
void jin_bind(Render *r, Frame *f, int name, JinValue *value);
Frame *jin_frame_new(Render *r, Frame *outer);
Flow jin_run_body(Render *r, const Node *n);
JinValue *jin_call_macro(Render *r, const JinValue *macro, Args *args);
void jin_deeper(Render *r);

#endif
