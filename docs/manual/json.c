/* json.c - the tables as JSON, for the pages of the site; see write.h. */
#include "docs/manual/write.h"

static void text(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            fprintf(out, "\\u%04x", *s);
        else
            fputc(*s, out);
    fputc('"', out);
}

static void key(FILE *out, const char *name, const char *value)
{
    fprintf(out, "\"%s\": ", name);
    text(out, value);
}

/* An object of a list, whose values lie behind their names. */
static void object(FILE *out, bool first, const char *const *pair, size_t n)
{
    fputs(first ? "\n{" : ",\n{", out);
    for (size_t k = 0; k < n; k++) {
        fputs(k ? ", " : "", out);
        key(out, pair[2 * k], pair[2 * k + 1]);
    }
}

static void entries(FILE *out, const char *name, const Entry *e, size_t n)
{
    static const char *const values[] = {"needs", "maybe", "flag"};
    fprintf(out, "\"%s\": [", name);
    for (size_t i = 0; i < n; i++) {
        const char letter[2] = {e[i].letter, 0};
        const char *const pairs[] = {"group",  e[i].group, "name",     e[i].name,
                                     "letter", letter,     "argument", e[i].argument,
                                     "help",   e[i].help,  "value",    values[e[i].value]};
        object(out, !i, pairs, 6);
        fprintf(out, ", \"repeats\": %s}", e[i].repeats ? "true" : "false");
    }
    fputs("],\n", out);
}

static void notes(FILE *out, const char *name, const Note *n, size_t count, const char *end)
{
    fprintf(out, "\"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        const char *const pairs[] = {"of", n[i].of, "name", n[i].name, "text", n[i].text};
        object(out, !i, pairs, 3);
        fputc('}', out);
    }
    fprintf(out, "]%s\n", end);
}

bool write_tables(FILE *out)
{
    fputs("{\n", out);
    entries(out, "mgc", mgc_options, mgc_option_count);
    entries(out, "train", train_options, train_option_count);
    fputs("\"commands\": [", out);
    for (size_t i = 0; i < form_count; i++) {
        const char *const pairs[] = {"name", forms[i].name, "arguments", forms[i].arguments,
                                     "help", forms[i].help};
        object(out, !i, pairs, 3);
        fputc('}', out);
    }
    fputs("],\n\"takes\": {", out);
    for (size_t i = 0; i < take_count; i++) {
        fputs(i ? ",\n" : "\n", out);
        key(out, takes[i].name, takes[i].options);
    }
    fputs("},\n\"codes\": [", out);
    for (size_t i = 0; i < code_count; i++) {
        fprintf(out, "%s\n{\"number\": %d, ", i ? "," : "", codes[i].number);
        key(out, "title", codes[i].title);
        fputs(", ", out);
        key(out, "text", codes[i].text);
        fputc('}', out);
    }
    fputs("],\n", out);
    notes(out, "variables", variables, variable_count, ",");
    notes(out, "exits", exits, exit_count, "");
    fputs("}\n", out);
    return !ferror(out);
}
