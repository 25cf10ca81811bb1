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

static void entries(FILE *out, const char *name, const Entry *e, size_t n)
{
    static const char *const values[] = {"needs", "maybe", "flag"};
    fprintf(out, "\"%s\": [", name);
    for (size_t i = 0; i < n; i++) {
        const char letter[2] = {e[i].letter, 0};
        fputs(i ? ",\n{" : "\n{", out);
        key(out, "group", e[i].group);
        fputs(", ", out);
        key(out, "name", e[i].name);
        fputs(", ", out);
        key(out, "letter", letter);
        fputs(", ", out);
        key(out, "argument", e[i].argument);
        fputs(", ", out);
        key(out, "help", e[i].help);
        fputs(", ", out);
        key(out, "value", values[e[i].value]);
        fprintf(out, ", \"repeats\": %s}", e[i].repeats ? "true" : "false");
    }
    fputs("],\n", out);
}

static void notes(FILE *out, const char *name, const Note *n, size_t count, const char *end)
{
    fprintf(out, "\"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ",\n{" : "\n{", out);
        key(out, "of", n[i].of);
        fputs(", ", out);
        key(out, "name", n[i].name);
        fputs(", ", out);
        key(out, "text", n[i].text);
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
        fputs(i ? ",\n{" : "\n{", out);
        key(out, "name", forms[i].name);
        fputs(", ", out);
        key(out, "arguments", forms[i].arguments);
        fputs(", ", out);
        key(out, "help", forms[i].help);
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
