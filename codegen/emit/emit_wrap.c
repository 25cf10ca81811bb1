/* emit_wrap.c - breaks the lines of the emitted program, so that none is longer than WIDTH. The
 * writers print text that belongs together as one line. This file breaks it between words, and
 * indents the rest to the open bracket. */
#include "codegen/emit/emit.h"

#include <string.h>

enum { WIDTH = EMIT_WIDTH, DEEPEST = 28, NESTED = 64, NEAR = 30 };

typedef enum Kind { CODE, COMMENT, MACRO } Kind;

/* The open brackets at a place of a line, and whether the place is in a string. */
typedef struct Scan {
    int open[NESTED], depth;
    bool string, escaped;
} Scan;

static void scan(Scan *s, char c, int column)
{
    if (c == '"' && !s->escaped)
        s->string = !s->string;
    s->escaped = c == '\\' && !s->escaped;
    if (s->string)
        return;
    if ((c == '(' || c == '{' || c == '[') && s->depth < NESTED)
        s->open[s->depth++] = column + 1;
    if ((c == ')' || c == '}' || c == ']') && s->depth > 0)
        s->depth--;
}

/* The indentation of the remainder of a broken line. */
static int indent_of(const Scan *s, int first)
{
    for (int k = s->depth; k-- > 0;)
        if (s->open[k] <= DEEPEST)
            return s->open[k];
    return first + 4;
}

/* The length of the part of text that fits: it ends at a blank outside of strings. A blank after a
 * comma, in fewer brackets, is preferred if it is near. *after: the open brackets there. 0: no part
 * fits. */
static size_t part(const char *text, size_t n, int column, Kind kind, const Scan *from, Scan *after)
{
    Scan s = *from;
    size_t best = 0;
    int paid = 0;
    const size_t room = (size_t)(WIDTH - (kind == MACRO) * 2 - column);
    const bool words = kind == COMMENT;
    for (size_t i = 0; i < n && (i <= room || !best); i++) {
        if (text[i] == ' ' && i && text[i - 1] != ' ' && (words || !s.string)) {
            const int cost = s.depth + (words || text[i - 1] == ',' ? 0 : NESTED);
            if (best && cost > paid && i - best < NEAR)
                continue;
            best = i;
            paid = cost;
            *after = s;
        }
        if (!words)
            scan(&s, text[i], column + (int)i);
    }
    return best;
}

static void emit_line(FILE *out, const char *text, size_t n)
{
    size_t first = strspn(text, " ");
    const Kind kind = !strncmp(text + first, "/*", 2) || text[first] == '*' ? COMMENT
                      : text[first] == '#'                                  ? MACRO
                                                                            : CODE;
    Scan state = {0}, after = {0};
    const char *from = text;
    int column = 0;
    while (column + (int)n > WIDTH) {
        size_t skip = column ? 0 : first;
        size_t k = part(text + skip, n - skip, column + (int)skip, kind, &state, &after);
        if (!k)
            break;
        k += skip;
        fwrite(text, 1, k, out);
        fputs(kind == MACRO ? " \\\n" : "\n", out);
        state = after;
        text += k + 1;
        n -= k + 1;
        column = kind == COMMENT ? (int)first + 3 : indent_of(&state, (int)first);
        if (kind == COMMENT && from[first] == '*')
            fprintf(out, "%*s*  ", (int)first, "");
        else
            fprintf(out, "%*s", column, "");
    }
    fwrite(text, 1, n, out);
    fputc('\n', out);
}

void emit_wrapped(FILE *out, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        emit_line(out, text, n);
        text += n + (text[n] == '\n');
    }
}
