/* case_file.c - see case_file.h. */
#include "tests/passes/case_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/open.h"

static const char pass_mark[] = "# pass: ", case_mark[] = "# case: ", middle[] = "-----\n";

int case_file_line(const CaseFile *f, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at; i++)
        line += f->text[i] == '\n';
    return line;
}

static bool wrong(const CaseFile *f, size_t at, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", f->path, case_file_line(f, at), what);
    return false;
}

static bool begins(const CaseFile *f, size_t at, const char *with)
{
    return strncmp(f->text + at, with, strlen(with)) == 0;
}

static size_t next_line(const CaseFile *f, size_t at)
{
    return at + strcspn(f->text + at, "\n") + (f->text[at + strcspn(f->text + at, "\n")] != 0);
}

/* The start of the next line that begins so, or the end of the text. */
static size_t find(const CaseFile *f, size_t at, const char *with)
{
    while (at < f->size && !begins(f, at, with))
        at = next_line(f, at);
    return at;
}

/* The rest of a line behind its mark. */
static const char *said(const CaseFile *f, size_t at, const char *mark, Arena *a)
{
    const char *s = f->text + at + strlen(mark);
    return arena_strndup(a, s, strcspn(s, "\n"));
}

static bool read_text(CaseFile *f, Arena *a)
{
    FILE *in = open_file(f->path);
    if (!in) {
        fprintf(stderr, "%s: %s\n", f->path, open_error());
        return false;
    }
    char *text = NULL;
    FILE *out = open_memstream(&text, &f->size);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    fclose(out);
    f->text = arena_strndup(a, text, f->size);
    f->size = strlen(f->text);
    free(text);
    return true;
}

/* The case whose sentence is at `at`; *end: where the next one is. */
static bool read_case(CaseFile *f, size_t at, size_t *end, Arena *a)
{
    Case c = {.says = said(f, at, case_mark, a), .line = case_file_line(f, at)};
    c.before = next_line(f, at);
    c.after_end = *end = find(f, c.before, case_mark);
    c.before_end = find(f, c.before, middle);
    if (c.before_end >= c.after_end)
        return wrong(f, at, "this case has no line '-----' between before and after");
    c.after = next_line(f, c.before_end);
    size_t again = find(f, c.after, middle);
    if (again < c.after_end)
        return wrong(f, again, "this case has a second line '-----'");
    vec_push(a, &f->cases, c);
    return true;
}

bool case_file_read(CaseFile *f, const char *path, Arena *a)
{
    *f = (CaseFile){.path = path};
    if (!read_text(f, a))
        return false;
    if (!begins(f, 0, pass_mark))
        return wrong(f, 0, "the first line is to be '# pass: NAME'");
    f->pass = said(f, 0, pass_mark, a);
    f->head = next_line(f, 0);
    f->head_end = find(f, f->head, case_mark);
    f->opened = find(f, f->head, "fn @") < f->head_end;
    if (f->head_end == f->size)
        return wrong(f, f->size, "there is no '# case: SENTENCE'");
    for (size_t at = f->head_end; at < f->size;)
        if (!read_case(f, at, &at, a))
            return false;
    return true;
}

const char *case_text(const CaseFile *f, const Case *c, Arena *a)
{
    char *s = arena_strndup(a, f->text, f->size);
    for (size_t i = 0; i < f->size; i++) {
        bool of_it = (i >= f->head && i < f->head_end) || (i >= c->before && i < c->before_end);
        if (!of_it && s[i] != '\n')
            s[i] = ' ';
    }
    return s;
}

bool case_file_update(const CaseFile *f, const char *const *after, Arena *a)
{
    const char *temp = arena_printf(a, "%s.new", f->path);
    FILE *out = fopen(temp, "wb");
    size_t at = 0;
    for (size_t k = 0; out && k < f->cases.n; k++) {
        const Case *c = &f->cases.data[k];
        if (!after[k])
            continue;
        fwrite(f->text + at, 1, c->after - at, out);
        fputs(after[k], out);
        fputs(c->after_end < f->size ? "\n" : "", out);
        at = c->after_end;
    }
    bool good = out && fwrite(f->text + at, 1, f->size - at, out) == f->size - at;
    good &= out && !ferror(out);
    good &= out && fclose(out) == 0;
    if (!good || rename(temp, f->path) != 0) {
        perror(temp);
        remove(temp);
        return false;
    }
    return true;
}
