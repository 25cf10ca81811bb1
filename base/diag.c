/* diag.c - collects files, prints messages with the source line and a caret; see diag.h. */
#include "base/diag.h"

#include <stdlib.h>
#include <string.h>

typedef struct File {
    const char *path, *text;
    size_t size;
} File;

struct Diag {
    Arena *arena;
    FILE *out;
    bool color;
    int errors;
    bool muted; /* the last error was over the limit: so are its notes */
    int limit;
    VEC(File) files;
    int code; /* of the last error, and its place */
    Span last;
    RemedyTry try;
    void *try_ctx;
    ToldList told;
    const Remedy *edits;
    FoundFn found;
    void *found_ctx;
    DiagHear hear;
    void *hear_ctx;
};

Diag *diag_new(Arena *a, FILE *out, bool color)
{
    Diag *d = NEW(a, Diag);
    d->arena = a;
    d->out = out;
    d->color = color;
    d->limit = DIAG_ERROR_LIMIT;
    return d;
}

Diag *diag_trial(Arena *a, const Remedy *edits, FoundFn found, void *ctx)
{
    enum { ALL = 1000 }; /* that others follow is no news */
    Diag *d = diag_new(a, NULL, false);
    d->limit = ALL;
    d->edits = edits;
    d->found = found;
    d->found_ctx = ctx;
    return d;
}

Diag *diag_heard(Arena *a, int limit, DiagHear hear, void *ctx)
{
    Diag *d = diag_new(a, NULL, false);
    d->limit = limit;
    d->hear = hear;
    d->hear_ctx = ctx;
    return d;
}

Diag *diag_silent(const Diag *d, Arena *a)
{
    Diag *s = diag_new(a, NULL, false);
    for (size_t i = 0; i < d->files.n; i++)
        vec_push(a, &s->files, d->files.data[i]);
    return s;
}

/* The text with the edits of that file. */
static File edited(const Diag *d, uint32_t file, File f)
{
    uint32_t from = 0;
    char *all = NULL;
    size_t size;
    FILE *out = open_memstream(&all, &size);
    for (int i = 0; i < d->edits->n; i++) {
        Span at = d->edits->edit[i].at;
        if (at.file != file || at.begin < from || at.end > f.size)
            continue;
        fwrite(f.text + from, 1, at.begin - from, out);
        fputs(d->edits->edit[i].with, out);
        from = at.end;
    }
    fwrite(f.text + from, 1, f.size - from, out);
    fclose(out);
    f.text = arena_strndup(d->arena, all, size);
    f.size = size;
    free(all);
    return f;
}

uint32_t diag_add_file(Diag *d, const char *path, const char *text, size_t size)
{
    uint32_t file = (uint32_t)d->files.n + 1;
    File f = {path, text, size};
    vec_push(d->arena, &d->files, d->edits && d->edits->n ? edited(d, file, f) : f);
    return file;
}

const char *diag_path(const Diag *d, uint32_t file)
{
    return file ? d->files.data[file - 1].path : "mgc";
}

const char *diag_text(const Diag *d, uint32_t file, size_t *size)
{
    *size = file ? d->files.data[file - 1].size : 0;
    return file ? d->files.data[file - 1].text : "";
}

void diag_locate(const Diag *d, Span s, int *line, int *column)
{
    *line = *column = 0;
    if (!s.file)
        return;
    const File *f = &d->files.data[s.file - 1];
    size_t end = s.begin < f->size ? s.begin : f->size, start = 0;
    *line = 1;
    for (size_t i = 0; i < end; i++)
        if (f->text[i] == '\n') {
            ++*line;
            start = i + 1;
        }
    *column = (int)(end - start) + 1;
}

/* The source line and a caret under the span's part of it. Long lines are cut around the caret and
 * bytes a terminal would act on are shown as '?'. */
static void print_source(Diag *d, Span s, int line, int column)
{
    enum { WIDEST = 160, BEFORE = 80 };
    const File *f = &d->files.data[s.file - 1];
    size_t start = (s.begin < f->size ? s.begin : f->size) - (size_t)(column - 1), end = start;
    while (end < f->size && f->text[end] != '\n')
        end++;
    size_t caret = start + (size_t)(column - 1);
    size_t from = caret - start > BEFORE ? caret - BEFORE : start;
    size_t to = end - from > WIDEST ? from + WIDEST : end;
    fprintf(d->out, "%5d | %s", line, from > start ? "..." : "");
    for (size_t i = from; i < to; i++) {
        unsigned char c = (unsigned char)f->text[i];
        bool c1 = c < 0xA0 && i > from && (unsigned char)f->text[i - 1] == 0xC2;
        fputc(c == '\t' ? ' ' : c < 32 || c == 127 || c1 ? '?' : c, d->out);
    }
    fprintf(d->out, "%s\n      | %*s", to < end ? "..." : "",
            (int)(caret - from) + (from > start ? 3 : 0), "");
    size_t length = s.end > s.begin ? s.end - s.begin : 1;
    if (length > to - caret)
        length = to > caret ? to - caret : 1;
    fputs(d->color ? "\033[1;32m^" : "^", d->out);
    for (size_t i = 1; i < length; i++)
        fputc('~', d->out);
    fputs(d->color ? "\033[0m\n" : "\n", d->out);
}

/* The length of the UTF-8 sequence at s, or 0 where there is none, or one that a terminal acts on
 * (C0, DEL, C1). */
static int harmless(const unsigned char *s)
{
    int n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (s[0] < 0x20 || s[0] == 0x7F || s[0] > 0xF4 || (s[0] == 0xC2 && s[1] < 0xA0))
        return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return n;
}

void diag_show(FILE *out, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = harmless(s);
        if (n)
            fwrite(s, 1, (size_t)n, out);
        else
            fprintf(out, "\\x%02x", *s);
        s += n ? n : 1;
    }
}

/* Of what a message says nothing is a terminal's command: it may come out of a file. */
static void say(Diag *d, const char *fmt, va_list ap)
{
    char *text = arena_vprintf(d->arena, fmt, ap);
    diag_show(d->out, text);
    fputc('\n', d->out);
}

/* Is there anybody whom a message would reach? */
static bool told(const Diag *d)
{
    return d->out || d->hear;
}

static void heard(Diag *d, DiagKind kind, Span s, int code, const char *fmt, va_list ap)
{
    d->hear(d->hear_ctx, kind, s, code, arena_vprintf(d->arena, fmt, ap));
}

static void message(Diag *d, Span s, DiagKind is, const char *kind, const char *paint, int code,
                    const char *fmt, va_list ap)
{
    int line, column;
    if (d->hear) {
        heard(d, is, s, code, fmt, ap);
        return;
    }
    diag_locate(d, s, &line, &column);
    if (s.file) {
        diag_show(d->out, diag_path(d, s.file));
        fprintf(d->out, ":%d:%d: ", line, column);
    } else
        fputs("mgc: ", d->out);
    fprintf(d->out, "%s%s", d->color ? paint : "", kind);
    if (code)
        fprintf(d->out, "[MG%04d]", code);
    fprintf(d->out, "%s: ", d->color ? "\033[0m" : "");
    say(d, fmt, ap);
    if (s.file)
        print_source(d, s, line, column);
}

void diag_error(Diag *d, Span s, int code, const char *fmt, ...)
{
    d->code = code;
    d->last = s;
    if (d->found) {
        Found f = diag_found(d, code, s);
        d->found(d->found_ctx, &f);
    }
    d->muted = d->errors++ >= d->limit || !told(d);
    if (d->muted) {
        if (d->out && d->errors == d->limit + 1)
            fprintf(d->out, "mgc: more than %d errors: the rest is not shown\n", d->limit);
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    message(d, s, DIAG_error, "error", "\033[1;31m", code, fmt, ap);
    va_end(ap);
}

void diag_warning(Diag *d, Span s, int code, const char *fmt, ...)
{
    d->muted = !told(d);
    if (d->muted)
        return;
    va_list ap;
    va_start(ap, fmt);
    message(d, s, DIAG_warning, "warning", "\033[1;35m", code, fmt, ap);
    va_end(ap);
}

void diag_notice(Diag *d, const char *fmt, ...)
{
    if (!told(d))
        return;
    va_list ap;
    va_start(ap, fmt);
    if (d->hear)
        heard(d, DIAG_notice, (Span){0}, 0, fmt, ap);
    else {
        fputs("note: ", d->out);
        say(d, fmt, ap);
    }
    va_end(ap);
}

void diag_note(Diag *d, Span s, const char *fmt, ...)
{
    if (d->muted)
        return;
    va_list ap;
    va_start(ap, fmt);
    if (s.file || d->hear)
        message(d, s, DIAG_note, "note", "\033[1;36m", 0, fmt, ap);
    else {
        fputs("note: ", d->out);
        say(d, fmt, ap);
    }
    va_end(ap);
}

void diag_help(Diag *d, const char *fmt, ...)
{
    if (d->muted)
        return;
    va_list ap;
    va_start(ap, fmt);
    if (d->hear)
        heard(d, DIAG_help, (Span){0}, 0, fmt, ap);
    else {
        fputs(d->color ? "\033[1mhelp\033[0m: " : "help: ", d->out);
        say(d, fmt, ap);
    }
    va_end(ap);
}

int diag_errors(const Diag *d)
{
    return d->errors;
}

bool diag_enough(const Diag *d)
{
    return d->errors > d->limit;
}

/* ---- remedies -------------------------------------------------------------------------------- */

void diag_on_remedy(Diag *d, RemedyTry try, void *ctx)
{
    d->try = try;
    d->try_ctx = ctx;
}

Span diag_last(const Diag *d)
{
    return d->last;
}

const ToldList *diag_told(const Diag *d)
{
    return &d->told;
}

void diag_remedy_tried(Diag *d, const Remedy *r, const char *said)
{
    if (d->muted)
        return;
    Told t = {d->code, d->last, said, *r};
    for (int i = 0; i < r->n; i++)
        t.remedy.edit[i].with = arena_strdup(d->arena, r->edit[i].with);
    vec_push(d->arena, &d->told, t);
    diag_help(d, "%s", said);
}

static bool propose(Diag *d, const Remedy *r, const char *fmt, va_list ap)
{
    if (d->muted || !d->try || !d->try(d->try_ctx, r, d->code, d->last))
        return false;
    diag_remedy_tried(d, r, arena_vprintf(d->arena, fmt, ap));
    return true;
}

bool diag_remedy(Diag *d, const Remedy *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bool told = propose(d, r, fmt, ap);
    va_end(ap);
    return told;
}

bool diag_remedy_option(Diag *d, const char *option, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bool told = propose(d, &(Remedy){1, {{{0}, option}}}, fmt, ap);
    va_end(ap);
    return told;
}

Found diag_found(const Diag *d, int code, Span at)
{
    Found f = {.code = code, .begin = at.begin, .file = 2166136261U};
    for (const char *p = diag_path(d, at.file); *p; p++)
        f.file = (f.file ^ (unsigned char)*p) * 16777619U; /* FNV-1a */
    return f;
}

void diag_stage(Diag *d, int stage)
{
    if (d->found)
        d->found(d->found_ctx, &(Found){.stage = stage});
}
