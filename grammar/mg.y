/* mg.y - the grammar of .mg files. LALR(1), no conflicts.
 *
 * Statements need no separators: each begins with a keyword, `name =`, `a, b =` or `name :`, and
 * nothing that can end an expression can be followed by a name. `@` takes its `over` at once, so it
 * is one production. The initial value of a parameter has expressions of its own (`number`), in which a
 * call takes no `as`: there the word begins the external name.
 * The words of optimizers, and those of an adapter's line, are tokens only there: parse.c.
 * After an error, parse.c skips to the next statement and hands out RESUME. */
%code top {
#include "grammar/parse.h"
#include "grammar/tokens.h"
}

%define api.pure full
%define api.prefix {mgy_}
%define api.value.type {Semantic}
%define api.location.type {Span}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param {Parse *p}

%code {
#include <string.h>

#define YYLLOC_DEFAULT(to, rhs, n)                                                                 \
    do {                                                                                           \
        (to).file = YYRHSLOC(rhs, (n) ? 1 : 0).file;                                               \
        (to).begin = (n) ? YYRHSLOC(rhs, 1).begin : YYRHSLOC(rhs, 0).end;                          \
        (to).end = YYRHSLOC(rhs, n).end;                                                           \
    } while (0)
#define YYMAXDEPTH 4000
#define mgy_lex    parse_token
static void mgy_error(Span *at, Parse *p, const char *message);
}

%token YYEOF 0 "the end of the file"
%token START_FILE START_EXPRESSION RESUME
%token DIM "dim" CONST "const" BLOCK "block" MODEL "model" TRAIN "train" LAYOUT "layout"
%token CONFIG "config"
%token PARAM "param" METRIC "metric" REPEAT "repeat" SCAN "scan" RETURN "return"
%token AS "as" OVER "over" ALONG "along" WHERE "where" TO "to" TIMES "x" AT "at" FOLLOWS "follows"
%token ARROW "->" DOTS ".." LE "<=" GE ">=" EQ "==" NE "!="
%token OPTIMIZER "optimizer" SETTING "setting" STATE "state" REST "rest"
%token ADAPTER "adapter" ON "on"
%token <name> IDENT "a name"
%token <text> STRING "a string" WORD "a word"
%token <literal> NUMBER "a number" QUANTITY "a quantity"

%left '+' '-'
%left '*' '/'
%precedence NEGATED

%type <node> limit follows declaration slot first json member selector item binding parameter parent statement number atom entry axis option list pad direction
%type <node> expr sum term unary dot postfix primary call argument subscript group whole name
%type <list> rule slots selectors fields jsons members bindings parameters parameter_list statements names some_names external groups merged
%type <list> several entries values pads exprs axes options option_list arguments argument_list subscripts dims
%type <text> path
%type <op> compare below

%%

start: START_FILE items
     | START_EXPRESSION expr    { p->expression = $2; }

/* ---- items -------------------------------------------------------------------------------- */

items: %empty
     | items item               { if ($2) vec_push(p->ast->arena, &p->ast->items, $2);
                                  if (p->deep) YYABORT; }

item: "dim" bindings            { $$ = MAKE(@$, DIMS, .list = *$2); }
    | "const" bindings          { $$ = MAKE(@$, CONSTS, .list = *$2); }
    | "block" IDENT '(' parameters ')' '{' statements '}'
                                { $$ = MAKE(@$, BLOCK, .name = $2, .at = @2, .body = @6.end, .list = *$4,
                                            .more = *$7); }
    | "model" IDENT '(' parameters ')' '{' statements '}'
                                { $$ = MAKE(@$, MODEL, .name = $2, .at = @2, .body = @6.end, .list = *$4,
                                            .more = *$7); }
    | "train" IDENT "where" selectors '{' entries '}'
                                { $$ = MAKE(@$, TRAIN, .name = $2, .at = @2, .body = @5.end, .list = *$4,
                                            .more = *$6); }
    | "train" '{' entries '}'   { $$ = MAKE(@$, TRAIN, .at = @1, .body = @2.end, .more = *$3); }
    | "layout" '{' entries '}'  { $$ = MAKE(@$, LAYOUT, .at = @1, .body = @2.end, .more = *$3); }
    | "layout" IDENT parent '{' entries '}'
                                { $$ = MAKE(@$, LAYOUT, .name = $2, .at = @2, .body = @4.end, .a = $3,
                                            .more = *$5); }
    | "config" '{' fields '}'   { $$ = MAKE(@$, CONFIG, .at = @1, .body = @2.end, .more = *$3); }
    | "optimizer" IDENT '(' parameters ')' '{' rule '}'
                                { $$ = MAKE(@$, OPTIMIZER, .name = $2, .at = @2, .body = @6.end, .list = *$4,
                                            .more = *$7); }
    | "setting" IDENT           { $$ = MAKE(@$, RANGE, .name = $2, .at = @2); }
    | "setting" limit below IDENT
                                { $$ = MAKE(@$, RANGE, .name = $4, .at = @4, .a = $2, .op = $3); }
    | "setting" limit below IDENT '<' limit
                                { $$ = MAKE(@$, RANGE, .name = $4, .at = @4, .a = $2, .op = $3, .b = $6); }
    | error RESUME              { $$ = NULL; yyerrok; }

limit: NUMBER                   { $$ = MAKE(@$, NUMBER, .number = $1.value, .text = $1.text); }
     | '-' NUMBER               { $$ = MAKE(@$, NUMBER, .number = -$2.value,
                                            .text = arena_printf(p->ast->arena, "-%s", $2.text)); }

below: '<' { $$ = B_LT; } | "<=" { $$ = B_LE; }

parent: %empty                  { $$ = NULL; }
      | ':' name                { $$ = $2; }

bindings: binding               { $$ = list_new(p, $1); }
        | bindings ',' binding  { $$ = list_add(p, $1, $3); }

binding: IDENT '=' expr         { $$ = MAKE(@$, BIND, .name = $1, .at = @1, .a = $3); }

/* ---- parameters of blocks and models ------------------------------------------------------ */

parameters: %empty              { $$ = list_new(p, NULL); }
          | parameter_list

parameter_list: parameter       { $$ = list_new(p, $1); }
              | parameter_list ',' parameter
                                { $$ = list_add(p, $1, $3); }

parameter: IDENT                { $$ = MAKE(@$, TENSOR, .name = $1, .at = @1); }
         | IDENT '[' names ']'  { $$ = MAKE(@$, TENSOR, .name = $1, .at = @1, .flag = true, .list = *$3); }
         | IDENT ':' IDENT '(' name ')'
                                { $$ = MAKE(@$, TENSOR, .name = $1, .at = @1, .a = $5,
                                            .text = name_str(p->ast->names, $3)); }
         | IDENT '[' names ']' ':' IDENT '(' name ')'
                                { $$ = MAKE(@$, TENSOR, .name = $1, .at = @1, .flag = true, .list = *$3,
                                            .a = $8, .text = name_str(p->ast->names, $6)); }
         | "along" IDENT        { $$ = MAKE(@$, ALONG, .name = $2, .at = @2); }
         | "over" IDENT         { $$ = MAKE(@$, OVER, .name = $2, .at = @2); }
         | IDENT '='            { $$ = MAKE(@$, OPTION, .name = $1, .at = @1); }
         | IDENT '=' expr       { $$ = MAKE(@$, OPTION, .name = $1, .at = @1, .a = $3); }
         | IDENT '[' names ']' '=' expr
                                { $$ = MAKE(@$, OPTION, .name = $1, .at = @1, .flag = true, .list = *$3, .a = $6); }

names: %empty                   { $$ = list_new(p, NULL); }
     | some_names

some_names: name                { $$ = list_new(p, $1); }
          | some_names ',' name { $$ = list_add(p, $1, $3); }

name: IDENT                     { $$ = MAKE(@$, NAME, .name = $1); }

/* ---- statements --------------------------------------------------------------------------- */

statements: %empty              { $$ = list_new(p, NULL); }
          | statements statement
                                { $$ = $2 ? list_add(p, $1, $2) : $1; if (p->deep) YYABORT; }

statement: IDENT '=' expr       { $$ = MAKE(@$, ASSIGN, .name = $1, .at = @1, .a = $3); }
         | several '=' expr     { $$ = MAKE(@$, SEVERAL, .at = @1, .list = *$1, .a = $3); }
         | IDENT ':' "param" '[' names ']' '=' number path external
                                { $$ = MAKE(@$, PARAM, .name = $1, .at = @1, .list = *$5, .a = $8,
                                            .text = $9, .more = *$10); }
         | IDENT ':' "param" '[' names ']' '~' call path external
                                { $$ = MAKE(@$, PARAM, .name = $1, .at = @1, .list = *$5, .b = $8,
                                            .text = $9, .more = *$10); }
         | IDENT ':' "block" name path follows
                                { $$ = MAKE(@$, INSTANCE, .name = $1, .at = @1, .a = $4, .b = $6, .text = $5); }
         | "metric" IDENT '=' expr
                                { $$ = MAKE(@$, METRIC, .name = $2, .at = @2, .a = $4); }
         | "repeat" IDENT path '{' statements '}'
                                { $$ = MAKE(@$, REPEAT, .name = $2, .at = @2, .body = @4.end, .text = $3,
                                            .more = *$5); }
         | "repeat" IDENT "at" name path '{' statements '}'
                                { $$ = MAKE(@$, REPEAT, .name = $2, .at = @2, .body = @6.end, .a = $4,
                                            .text = $5, .more = *$7); }
         | "scan" IDENT direction '{' statements '}'
                                { $$ = MAKE(@$, SCAN, .name = $2, .at = @2, .body = @4.end, .a = $3,
                                            .more = *$5); }
         | "return" exprs       { $$ = MAKE(@$, RETURN, .at = @1, .list = *$2); }
         | "dim" bindings       { $$ = MAKE(@$, DIMS, .list = *$2); }
         | error RESUME         { $$ = NULL; yyerrok; }

direction: %empty               { $$ = NULL; }
         | name

/* The body of an optimizer. */
rule: %empty                    { $$ = list_new(p, NULL); }
    | rule statement            { $$ = $2 ? list_add(p, $1, $2) : $1; if (p->deep) YYABORT; }
    | rule declaration          { $$ = list_add(p, $1, $2); }

declaration: "state" slots      { $$ = MAKE(@$, STATE, .at = @1, .list = *$2); }
           | "state" slots "where" expr
                                { $$ = MAKE(@$, STATE, .at = @1, .list = *$2, .a = $4); }
           | "rest" IDENT       { $$ = MAKE(@$, REST, .name = $2, .at = @2); }

slots: slot                     { $$ = list_new(p, $1); }
     | slots ',' slot           { $$ = list_add(p, $1, $3); }

slot: IDENT first path          { $$ = MAKE(@$, SLOT, .name = $1, .at = @1, .b = $2, .text = $3); }
    | IDENT '[' ']' first path  { $$ = MAKE(@$, SLOT, .name = $1, .at = @1, .flag = true, .b = $4,
                                            .text = $5); }
    | IDENT '[' name ']' first path
                                { $$ = MAKE(@$, SLOT, .name = $1, .at = @1, .a = $3, .b = $5, .text = $6); }

first: %empty                   { $$ = NULL; }
     | '=' limit                { $$ = $2; }

several: IDENT ',' name         { $$ = list_new(p, MAKE(@1, NAME, .name = $1)); list_add(p, $$, $3); }
       | several ',' name       { $$ = list_add(p, $1, $3); }

path: %empty                    { $$ = NULL; }
    | "as" STRING               { $$ = $2; }

follows: %empty                 { $$ = NULL; }
       | "follows" IDENT name expr
                                { $$ = MAKE(@$, FOLLOWS, .name = $2, .at = @2, .a = $3, .b = $4); }

/* The external order of a parameter; parentheses merge, `at` is where a part begins. */
external: %empty                { $$ = list_new(p, NULL); }
        | '[' groups ']'        { $$ = $2; }

groups: group                   { $$ = list_new(p, $1); }
      | groups ',' group        { $$ = list_add(p, $1, $3); }

group: whole
     | whole "at" expr          { $$ = MAKE(@$, FROM, .at = @2, .a = $1, .b = $3); }

whole: name
     | '(' merged ')'           { $$ = MAKE(@$, GROUP, .list = *$2); }

merged: name                    { $$ = list_new(p, $1); }
      | merged name             { $$ = list_add(p, $1, $2); }

number: atom
      | '-' number %prec NEGATED
                                { $$ = MAKE(@$, NEG, .at = @1, .a = $2); }
      | number '+' number       { $$ = MAKE(@$, BINARY, .at = @2, .op = B_ADD, .a = $1, .b = $3); }
      | number '-' number       { $$ = MAKE(@$, BINARY, .at = @2, .op = B_SUB, .a = $1, .b = $3); }
      | number '*' number       { $$ = MAKE(@$, BINARY, .at = @2, .op = B_MUL, .a = $1, .b = $3); }
      | number '/' number       { $$ = MAKE(@$, BINARY, .at = @2, .op = B_DIV, .a = $1, .b = $3); }

atom: NUMBER                    { $$ = MAKE(@$, NUMBER, .number = $1.value, .text = $1.text); }
    | name
    | call
    | '(' expr ')'              { $$ = MAKE(@$, PAREN, .a = $2); }

/* ---- train and layout --------------------------------------------------------------------- */

entries: %empty                 { $$ = list_new(p, NULL); }
       | entries entry          { $$ = $2 ? list_add(p, $1, $2) : $1; if (p->deep) YYABORT; }

entry: IDENT values             { $$ = MAKE(@$, SETTING, .name = $1, .at = @1, .list = *$2); }
     | IDENT expr "where" selectors
                                { $$ = MAKE(@$, SETTING, .name = $1, .at = @1, .list = *list_new(p, $2),
                                            .more = *$4); }
     | IDENT "where" selectors  { $$ = MAKE(@$, SETTING, .name = $1, .at = @1, .more = *$3); }
     | IDENT exprs "->" axes    { $$ = MAKE(@$, SETTING, .name = $1, .at = @1, .list = *$2, .more = *$4); }
     | some_names "->" axes     { $$ = MAKE(@$, RULE, .at = @2, .list = *$1, .more = *$3); }
     | "adapter" call "on" selectors
                                { $$ = MAKE(@$, ADAPTER, .at = @1, .a = $2, .more = *$4); }
     | "adapter" IDENT call "on" selectors
                                { $$ = MAKE(@$, ADAPTER, .name = $2, .at = @1, .a = $3, .more = *$5); }
     | error RESUME             { $$ = NULL; yyerrok; }

values: exprs
      | bindings
      | expr "x" expr           { $$ = list_new(p, MAKE(@$, TIMES, .at = @2, .a = $1, .b = $3)); }
      | pads

selectors: selector            { $$ = list_new(p, $1); }
         | selectors ',' selector
                                { $$ = list_add(p, $1, $3); }

selector: expr
        | STRING                { $$ = MAKE(@$, STRING, .text = $1); }

pads: pad                       { $$ = list_new(p, $1); }
    | pads ',' pad              { $$ = list_add(p, $1, $3); }

pad: expr "to" expr             { $$ = MAKE(@$, PAD, .at = @2, .a = $1, .b = $3); }

axes: axis                      { $$ = list_new(p, $1); }
    | axes ',' axis             { $$ = list_add(p, $1, $3); }

axis: IDENT                     { $$ = MAKE(@$, AXIS, .name = $1, .at = @1); }
    | IDENT '(' options ')'     { $$ = MAKE(@$, AXIS, .name = $1, .at = @1, .list = *$3); }

options: %empty                 { $$ = list_new(p, NULL); }
       | option_list

option_list: option             { $$ = list_new(p, $1); }
           | option_list ',' option
                                { $$ = list_add(p, $1, $3); }

option: argument
      | IDENT '=' STRING        { $$ = MAKE(@$, NAMED, .name = $1, .at = @1,
                                            .a = MAKE(@3, STRING, .text = $3)); }
      | IDENT '=' list          { $$ = MAKE(@$, NAMED, .name = $1, .at = @1, .a = $3); }

list: '[' exprs ']'             { $$ = MAKE(@$, LIST, .list = *$2); }

/* ---- config ------------------------------------------------------------------------------- */

fields: %empty                  { $$ = list_new(p, NULL); }
      | fields member           { $$ = list_add(p, $1, $2); if (p->deep) YYABORT; }
      | fields error RESUME     { $$ = $1; yyerrok; }

member: IDENT '=' json          { $$ = MAKE(@$, ASSIGN, .name = $1, .at = @1, .a = $3); }

members: member                 { $$ = list_new(p, $1); }
       | members ',' member     { $$ = list_add(p, $1, $3); }

json: expr
    | STRING                    { $$ = MAKE(@$, STRING, .text = $1); }
    | '[' jsons ']'             { $$ = MAKE(@$, LIST, .list = *$2); }
    | '{' members '}'           { $$ = MAKE(@$, OBJECT, .list = *$2); }

jsons: json                     { $$ = list_new(p, $1); }
     | jsons ',' json           { $$ = list_add(p, $1, $3); }

/* ---- expressions -------------------------------------------------------------------------- */

exprs: expr                     { $$ = list_new(p, $1); }
     | exprs ',' expr           { $$ = list_add(p, $1, $3); }

expr: sum
    | sum compare sum           { $$ = MAKE(@$, BINARY, .at = @2, .op = $2, .a = $1, .b = $3); }

compare: '<' { $$ = B_LT; } | "<=" { $$ = B_LE; } | '>' { $$ = B_GT; } | ">=" { $$ = B_GE; }
       | "==" { $$ = B_EQ; } | "!=" { $$ = B_NE; }

sum: term
   | sum '+' term               { $$ = MAKE(@$, BINARY, .at = @2, .op = B_ADD, .a = $1, .b = $3); }
   | sum '-' term               { $$ = MAKE(@$, BINARY, .at = @2, .op = B_SUB, .a = $1, .b = $3); }

term: unary
    | term '*' unary            { $$ = MAKE(@$, BINARY, .at = @2, .op = B_MUL, .a = $1, .b = $3); }
    | term '/' unary            { $$ = MAKE(@$, BINARY, .at = @2, .op = B_DIV, .a = $1, .b = $3); }
    | term '%' unary            { $$ = MAKE(@$, BINARY, .at = @2, .op = B_MOD, .a = $1, .b = $3); }

unary: dot
     | '-' unary                { $$ = MAKE(@$, NEG, .at = @1, .a = $2); }

dot: postfix
   | dot '@' postfix "over" dims
                                { $$ = MAKE(@$, DOT, .at = @2, .a = $1, .b = $3, .list = *$5); }

dims: name                      { $$ = list_new(p, $1); }
    | '(' some_names ')'        { $$ = $2; }

postfix: primary
       | postfix '[' subscripts ']'
                                { $$ = MAKE(@$, INDEX, .at = @2, .a = $1, .list = *$3); }

subscripts: subscript           { $$ = list_new(p, $1); }
          | subscripts ',' subscript
                                { $$ = list_add(p, $1, $3); }

subscript: expr
         | expr "->" expr       { $$ = MAKE(@$, RENAME, .at = @2, .a = $1, .b = $3); }
         | IDENT '=' expr       { $$ = MAKE(@$, PART, .name = $1, .at = @1, .a = $3); }
         | IDENT '=' expr ".." expr
                                { $$ = MAKE(@$, PART, .name = $1, .at = @1, .a = $3, .b = $5); }
         | IDENT '=' expr ".." expr "->" name
                                { $$ = MAKE(@$, PART, .name = $1, .at = @1, .a = $3, .b = $5,
                                            .list = *list_new(p, $7)); }

primary: NUMBER                 { $$ = MAKE(@$, NUMBER, .number = $1.value, .text = $1.text); }
       | WORD                   { $$ = MAKE(@$, WORD, .text = $1); }
       | QUANTITY               { $$ = MAKE(@$, QUANTITY, .number = $1.value, .text = $1.text,
                                            .unit = $1.unit); }
       | name
       | call
       | call "as" STRING       { $1->text = $3; $1->span = @$; $$ = $1; }
       | '(' expr ')'           { $$ = MAKE(@$, PAREN, .a = $2); }
       | '(' exprs ',' expr ')' { $$ = MAKE(@$, TUPLE, .list = *list_add(p, $2, $4)); }

call: IDENT '(' arguments ')'   { $$ = MAKE(@$, CALL, .name = $1, .at = @1, .list = *$3); }

arguments: %empty               { $$ = list_new(p, NULL); }
         | argument_list

argument_list: argument         { $$ = list_new(p, $1); }
             | argument_list ',' argument
                                { $$ = list_add(p, $1, $3); }

argument: expr
        | IDENT '=' expr        { $$ = MAKE(@$, NAMED, .name = $1, .at = @1, .a = $3); }
        | IDENT '=' expr "where" expr
                                { $$ = MAKE(@$, NAMED, .name = $1, .at = @1, .a = $3, .b = $5); }
        | expr "->" expr        { $$ = MAKE(@$, RENAME, .at = @2, .a = $1, .b = $3); }
        | "over" dims           { $$ = MAKE(@$, OVER, .at = @1, .list = *$2); }
        | "along" dims          { $$ = MAKE(@$, ALONG, .at = @1, .list = *$2); }

%%

/* Reached when the parser's stack is full, else messages come through yyreport_syntax_error. */
static void mgy_error(Span *at, Parse *p, const char *message)
{
    (void)at;
    parse_exhausted(p, message);
}

/* The legal tokens, in brief: all that begin an expression are "an expression". Tokens that continue
 * an expression are left out if others were possible. */
static int yyreport_syntax_error(const yypcontext_t *context, Parse *p)
{
    enum { MANY = 6 };
    yysymbol_kind_t kinds[YYNTOKENS];
    const char *names[MANY];
    int n = yypcontext_expected_tokens(context, kinds, YYNTOKENS), named = 0;
    bool legal[YYNTOKENS] = {false};
    for (int i = 0; i < n; i++)
        legal[kinds[i]] = true;
    bool over = legal[YYSYMBOL_OVER] && !legal[YYSYMBOL_NUMBER] && !legal[YYSYMBOL_IDENT];
    bool expression = legal[YYSYMBOL_NUMBER] && legal[YYSYMBOL_IDENT];
    if (expression)
        names[named++] = "an expression";
    for (int i = 0; i < YYNTOKENS; i++) {
        const char *name = legal[i] ? yysymbol_name((yysymbol_kind_t)i) : "";
        bool sign = name[0] == '\'';
        bool starts = i == YYSYMBOL_NUMBER || i == YYSYMBOL_WORD || i == YYSYMBOL_QUANTITY ||
                      i == YYSYMBOL_IDENT || (sign && strchr("(-", name[1]));
        bool continues = (i >= YYSYMBOL_LE && i <= YYSYMBOL_NE) ||
                         (sign && strchr("+-*/%@<>[", name[1]));
        if (!legal[i] || i == YYSYMBOL_RESUME || (expression && starts) || continues)
            continue;
        if (named < MANY)
            names[named] = name;
        named++;
    }
    parse_unexpected(p, names, named <= MANY ? named : 0, over);
    return 0;
}

/* ---- words, for editors (tokens.h) -------------------------------------------------------- */

const char *mg_keyword(size_t n)
{
    return n <= YYSYMBOL_TO - YYSYMBOL_DIM ? yysymbol_name((yysymbol_kind_t)(YYSYMBOL_DIM + n)) : NULL;
}

const char *mg_soft_keyword(size_t n)
{
    static const yysymbol_kind_t soft[] = {YYSYMBOL_OPTIMIZER, YYSYMBOL_SETTING, YYSYMBOL_STATE, YYSYMBOL_REST,
                                           YYSYMBOL_ADAPTER, YYSYMBOL_ON, YYSYMBOL_TIMES, YYSYMBOL_AT,
                                           YYSYMBOL_FOLLOWS};
    return n < sizeof soft / sizeof *soft ? yysymbol_name(soft[n]) : NULL;
}
