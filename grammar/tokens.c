/* tokens.c - a text as its tokens; see tokens.h. */
#include "grammar/tokens.h"
#include "grammar/parse.h"

#include "grammar/mg.tab.h"

static TokenKind kind_of(int token)
{
    if (token >= DIM && token <= TO)
        return TOKEN_keyword;
    return token == IDENT                         ? TOKEN_name
           : token == NUMBER || token == QUANTITY ? TOKEN_number
           : token == WORD                        ? TOKEN_word
           : token == STRING                      ? TOKEN_string
                                                  : TOKEN_sign;
}

void mg_tokens(Arena *a, Names *names, Diag *d, uint32_t file, MgTokens *out)
{
    Parse *p = parse_open(a, names, d, file, 0);
    Semantic value;
    MgToken t = {0};
    if (!p)
        return;
    for (int token; (token = parse_lex(p, &value, &t.at)) != 0;) {
        t.kind = kind_of(token);
        t.name = t.kind == TOKEN_name ? value.name : 0;
        vec_push(a, out, t);
    }
    parse_close(p);
}
