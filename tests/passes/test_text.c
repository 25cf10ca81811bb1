/* test_text.c - each pass on small programs, before and after as text (tests/passes/text).
 *
 *   passes-text FILE...      runs each case, and shows where "after" is not what the pass gives
 *   passes-text -u FILE...   writes what it gives in the place of "after"
 *
 * A case is read, verified, given to the one pass that its file names, verified, and printed. Why
 * an "after" is right is for whoever writes it to say; -u only saves the typing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"
#include "passes/passes.h"
#include "passes/simplify/accumulate.h"
#include "passes/simplify/simplify.h"
#include "tests/passes/case_file.h"

/* ---- what is run ----------------------------------------------------------------------------- */

static void rule_fold(Module *m, Fn *fn, Arena *tmp)
{
    (void)tmp;
    simplify_fold(m, fn);
}
static void rule_cse(Module *m, Fn *fn, Arena *tmp)
{
    simplify_cse(m, fn, tmp);
}
static void rule_licm(Module *m, Fn *fn, Arena *tmp)
{
    simplify_licm(m, fn, tmp);
}
static void rule_dce(Module *m, Fn *fn, Arena *tmp)
{
    simplify_dce(m, fn, tmp);
}
static void rule_accumulate(Module *m, Fn *fn, Arena *tmp)
{
    accumulate_all(m, fn->body, tmp);
}

/* The parts of simplify, which runs them in turns: each once, by itself. */
static const struct {
    const char *name;
    void (*run)(Module *m, Fn *fn, Arena *tmp);
} rules[] = {{"fold", rule_fold},
             {"cse", rule_cse},
             {"licm", rule_licm},
             {"dce", rule_dce},
             {"accumulate", rule_accumulate}};
enum { RULES = sizeof rules / sizeof *rules };

static int rule_find(const char *name)
{
    for (int i = 0; i < RULES; i++)
        if (!strcmp(rules[i].name, name))
            return i;
    return -1;
}

static PassStatus run_rule(Job *j, int rule)
{
    j->tmp = arena_new();
    for (size_t f = 0; f < j->m->fns.n; f++)
        rules[rule].run(j->m, j->m->fns.data[f], j->tmp);
    arena_free(j->tmp);
    j->tmp = NULL;
    return ir_verify(j->m, j->log) ? PASS_broken : PASS_ok;
}

static PassStatus run(const char *name, Module *m)
{
    Job j = {.m = m, .log = stderr};
    int rule = rule_find(name);
    PassRange only = {.from = name, .until = name};
    return rule >= 0 ? run_rule(&j, rule) : passes_run(&j, &only);
}

/* ---- what comes out -------------------------------------------------------------------------- */

/* A module's text in two parts: what all cases of a file begin with, and what a case is about. */
typedef struct Printed {
    char *head, *rest;
} Printed;

/* The length of a module's text before its functions. If the head of the file opens the first
 * function, its signature counts too. */
static size_t head_length(const char *text, bool opened)
{
    const char *p = strstr(text, "\nfn @");
    if (!p)
        return strlen(text);
    p++;
    if (!opened)
        return (size_t)(p - text);
    do
        p += strcspn(p, "\n") + 1;
    while (!strncmp(p, "  role ", 7) || !strncmp(p, "  batch ", 8) || !strncmp(p, "  arg ", 6));
    return (size_t)(p - text);
}

static Printed printed(const Module *m, bool opened, Arena *a)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    ir_print(m, out);
    fclose(out);
    size_t n = head_length(text, opened);
    Printed p = {arena_strndup(a, text, n), arena_strdup(a, text + n)};
    free(text);
    return p;
}

static bool has_line(const char *text, const char *line, size_t n)
{
    for (; *text; text += strcspn(text, "\n") + 1)
        if (strcspn(text, "\n") == n && !memcmp(text, line, n))
            return true;
    return false;
}

/* The lines of one head that the other has not. */
static void print_lines(FILE *out, char sign, const char *of, const char *other)
{
    for (size_t n; *of; of += n + 1) {
        n = strcspn(of, "\n");
        if (!has_line(other, of, n))
            fprintf(out, "%c %.*s\n", sign, (int)n, of);
    }
}

/* A module that is being read and changed, and what is said about it. */
typedef struct Bench {
    Arena *a;
    FILE *messages;
    char *said;
    size_t size;
    Diag *diag;
} Bench;

/* Nobody tries remedies here: all are told. */
static bool each_works(void *ctx, const Remedy *r, int code, Span at)
{
    (void)ctx, (void)r, (void)code, (void)at;
    return true;
}

static const char *messages(Bench *b)
{
    fflush(b->messages);
    return b->said;
}

/* The output of the pass for a case, in the form of its "after"; NULL after an error message. */
static const char *outcome(const CaseFile *f, const Case *c, Bench *b)
{
    const char *text = case_text(f, c, b->a);
    uint32_t file = diag_add_file(b->diag, f->path, text, f->size);
    Module *m = ir_parse(b->a, names_new(b->a), b->diag, file);
    if (!m) {
        fputs(messages(b), stderr);
        return NULL;
    }
    if (ir_verify(m, stderr)) {
        fprintf(stderr, "%s:%d: the program before the pass is none\n", f->path, c->line);
        return NULL;
    }
    m->update_rule = mg_update_rule;
    Printed before = printed(m, f->opened, b->a);
    PassStatus status = run(f->pass, m);
    if (status == PASS_broken) {
        fprintf(stderr, "%s:%d: pass '%s' breaks this program\n", f->path, c->line, f->pass);
        return NULL;
    }
    char *all = NULL;
    size_t size;
    FILE *out = open_memstream(&all, &size);
    fputs(messages(b), out);
    if (status == PASS_ok) {
        Printed after = printed(m, f->opened, b->a);
        print_lines(out, '-', before.head, after.head);
        print_lines(out, '+', after.head, before.head);
        fputs(after.rest, out);
    }
    fclose(out);
    const char *result = arena_strdup(b->a, all);
    free(all);
    return result;
}

/* ---- where it differs ------------------------------------------------------------------------ */

typedef struct Lines {
    int n;
    const char **at;
    size_t *length;
} Lines;

static Lines lines_of(const char *s, Arena *a)
{
    Lines l = {0};
    size_t room = 1;
    for (const char *p = s; *p; p++)
        room += *p == '\n';
    l.at = NEW_ARRAY(a, const char *, room);
    l.length = NEW_ARRAY(a, size_t, room);
    while (*s) {
        size_t n = strcspn(s, "\n");
        l.at[l.n] = s;
        l.length[l.n++] = n;
        s += n + (s[n] != 0);
    }
    return l;
}

static bool same_line(const Lines *a, int i, const Lines *b, int k)
{
    return a->length[i] == b->length[k] && !memcmp(a->at[i], b->at[k], a->length[i]);
}

static void show(int line, char sign, const Lines *l, int i)
{
    if (line)
        fprintf(stderr, "%5d %c %.*s\n", line, sign, (int)l->length[i], l->at[i]);
    else
        fprintf(stderr, "      %c %.*s\n", sign, (int)l->length[i], l->at[i]);
}

/* By the longest part that both have: lines of the file with their numbers (-: not given), and what
 * is given instead (+). */
static void show_difference(int line, const char *wanted, const char *got, Arena *a)
{
    Lines x = lines_of(wanted, a), y = lines_of(got, a);
    int width = y.n + 1, *common = NEW_ARRAY(a, int, (size_t)(x.n + 1) * (size_t)width);
    for (int i = x.n; i-- > 0;)
        for (int k = y.n; k-- > 0;) {
            int down = common[(i + 1) * width + k], right = common[i * width + k + 1];
            common[i * width + k] = same_line(&x, i, &y, k) ? common[(i + 1) * width + k + 1] + 1
                                    : down > right          ? down
                                                            : right;
        }
    for (int i = 0, k = 0; i < x.n || k < y.n;) {
        if (i < x.n && k < y.n && same_line(&x, i, &y, k)) {
            show(line + i, ' ', &x, i);
            i++, k++;
        } else if (k == y.n ||
                   (i < x.n && common[(i + 1) * width + k] >= common[i * width + k + 1])) {
            show(line + i, '-', &x, i);
            i++;
        } else {
            show(0, '+', &y, k);
            k++;
        }
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The "after" of a case, without the blank lines behind it. */
static const char *wanted_text(const CaseFile *f, const Case *c, Arena *a)
{
    size_t end = c->after_end;
    while (end > c->after + 1 && f->text[end - 1] == '\n' && f->text[end - 2] == '\n')
        end--;
    return arena_strndup(a, f->text + c->after, end - c->after);
}

/* Does a case hold? *now: what is to be written instead, or NULL. */
static bool case_holds(const CaseFile *f, const Case *c, bool update, const char **now, Arena *a)
{
    Bench b = {.a = a};
    b.messages = open_memstream(&b.said, &b.size);
    b.diag = diag_new(a, b.messages, false);
    diag_on_remedy(b.diag, each_works, NULL);
    const char *got = outcome(f, c, &b), *wanted = wanted_text(f, c, a);
    fclose(b.messages);
    free(b.said);
    bool holds = got && !strcmp(wanted, got);
    if (holds || !got)
        return holds;
    int line = case_file_line(f, c->after);
    fprintf(stderr, "%s:%d: pass '%s' gives something else: %s\n", f->path, line, f->pass, c->says);
    show_difference(line, wanted, got, a);
    *now = update ? got : NULL;
    return update;
}

static bool file_holds(const char *path, bool update)
{
    Arena *a = arena_new();
    CaseFile f;
    bool holds = case_file_read(&f, path, a), change = false;
    if (holds && rule_find(f.pass) < 0 && pass_find(f.pass) < 0) {
        fprintf(stderr, "%s:1: no pass is called '%s'\n", path, f.pass);
        holds = false;
    }
    if (holds) {
        const char **now = NEW_ARRAY(a, const char *, f.cases.n);
        for (size_t k = 0; k < f.cases.n; k++) {
            holds &= case_holds(&f, &f.cases.data[k], update, &now[k], a);
            change |= now[k] != NULL;
        }
        if (change)
            holds &= case_file_update(&f, now, a);
        printf("%s: %zu cases%s\n", path, f.cases.n, change ? ", written anew" : "");
    }
    arena_free(a);
    return holds;
}

int main(int argc, char **argv)
{
    int first = argc > 1 && !strcmp(argv[1], "-u") ? 2 : 1;
    if (first >= argc || argv[first][0] == '-') {
        fprintf(stderr, "usage: %s [-u] FILE...\n", argv[0]);
        return 2;
    }
    bool hold = true;
    for (int i = first; i < argc; i++)
        hold &= file_holds(argv[i], first == 2);
    return hold ? 0 : 1;
}
