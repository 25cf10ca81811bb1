/* text_words.c - names, strings and numbers of a module's text, as text_lex.c reads them back. */
#include "ir/text.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static bool plain(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_' && *s != '.')
            return false;
    return true;
}

void text_put_string(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\' || c < 32 || c == 127)
            fprintf(out, "\\x%02x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

void text_put_name(FILE *out, const char *s)
{
    if (plain(s))
        fputs(s, out);
    else
        text_put_string(out, s);
}

/* The shortest decimal that reads back as the same double. */
void text_put_real(FILE *out, double x)
{
    char s[40];
    if (isnan(x) || isinf(x)) {
        fputs(isnan(x) ? "nan" : x < 0 ? "-inf" : "inf", out);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, x);
        if (strtod(s, NULL) == x)
            break;
    }
    fputs(s, out);
}
