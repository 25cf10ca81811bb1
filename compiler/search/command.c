/* command.c - mgc search; `layout auto` of a source; see command.h. */
#include "compiler/search/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "compiler/search/precisions.h"
#include "compiler/search/scale.h"
#include "compiler/search/searching.h"
#include "grammar/words.h"

static Exit usage(Session *s, const char *text, const char *help)
{
    diag_error(s->diag, (Span){0}, 0, "%s", text);
    diag_help(s->diag, "%s", help);
    return EXIT_usage;
}

/* ---- options --------------------------------------------------------------------------------- */

/* A number above 0: "2T". */
static Exit read_number(Session *s, const char *option, const char *text, double *n)
{
    static const struct {
        char suffix;
        double times;
    } suffixes[] = {{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
    char *end;
    if (!text)
        return EXIT_done;
    errno = 0;
    *n = strtod(text, &end);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (*end && *end == suffixes[i].suffix && !end[1]) {
            *n *= suffixes[i].times;
            end++;
        }
    if (!errno && end != text && !*end && *n > 0 && *n < 1e30)
        return EXIT_done;
    return usage(s, arena_printf(s->arena, "--%s '%s' is no number above 0", option, text),
                 arena_printf(s->arena, "--%s=%s", option,
                              !strcmp(option, "tokens")   ? "2T"
                              : !strcmp(option, "budget") ? "100000"
                                                          : "60"));
}

/* "64", or "8..1024": 8, 16, 32, ... */
static Exit read_ranks(Session *s, const char *text, int64_t *from, int64_t *to)
{
    char *end;
    errno = 0;
    *from = *to = strtoll(text, &end, 10);
    const bool range = !strncmp(end, "..", 2);
    if (range && end != text)
        *to = strtoll(end + 2, &end, 10);
    if (!errno && end != text && !*end && *from >= 1 && *to >= *from && *to <= RANKS)
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 690,
               "--ranks '%s' is no number from 1 to %d, and no range of them", text, RANKS);
    diag_help(s->diag, "--ranks 64, or --ranks 8..1024 for 8, 16, 32, ... 1024");
    return EXIT_usage;
}

/* ---- outputs --------------------------------------------------------------------------------- */

typedef struct Outputs {
    const Searching *q;
    const Search *r;
} Outputs;

typedef void Writes(const Outputs *w, FILE *out);

static void write_layout(const Outputs *w, FILE *out)
{
    Arena *a = arena_new();
    const Candidate *best = &w->r->all.data[w->r->best];
    fputs(point_text(w->q->space, &best->point, "found", searching_device(w->q), a), out);
    arena_free(a);
}

static void write_points(const Outputs *w, FILE *out)
{
    search_points(w->r, out);
}

static void write_page(const Outputs *w, FILE *out)
{
    Arena *a = w->q->s->arena;
    const char *model =
        w->q->precision ? arena_printf(a, "%s, %s,", w->q->path, w->q->precision) : w->q->path;
    search_page(w->r, model, "found", searching_device(w->q), out);
}

static Exit write_to(Session *s, const char *path, Writes *writes, const Outputs *w)
{
    Output out;
    if (!path)
        return EXIT_done;
    const Exit wrong = output_open(s, &out, path);
    if (wrong)
        return wrong;
    writes(w, out.file);
    return output_close(s, &out, true);
}

/* Before a search, which takes long. */
static Exit replaceable(Session *s)
{
    const char *const paths[] = {s->o->out, s->o->points, s->o->report};
    Exit wrong = EXIT_done;
    for (int i = 0; i < 3 && !wrong; i++)
        if (paths[i])
            wrong = output_replaceable(s, paths[i]);
    return wrong;
}

static Exit search_one(Searching *first, Precisions *p, int64_t ranks, double tokens)
{
    Session *s = first->s;
    Searching *q = first;
    Search r;
    Exit wrong = precisions_run(first, p, ranks, &q, &r);
    if (!wrong && p->told)
        printf("precision    %s\n", p->told);
    const Outputs w = {q, &r};
    if (!wrong)
        wrong = write_to(s, s->o->points, write_points, &w);
    if (wrong)
        return wrong;
    if (r.best < 0)
        return searching_none(q, &r);
    const Tried *best = &r.all.data[r.best].tried[TRY_whole];
    search_show(&r, "found", searching_device(q), stdout);
    if (tokens)
        printf("%s tokens: %s\n", scale_count(s->arena, tokens),
               scale_hours(tokens, (double)q->basis.tokens / best->seconds, ranks,
                           scale_joules(&q->one.device, best, ranks) / (double)q->basis.tokens,
                           s->arena));
    wrong = write_to(s, s->o->out, write_layout, &w);
    if (!wrong)
        wrong = write_to(s, s->o->report, write_page, &w);
    return wrong ? wrong : r.stopped ? EXIT_stopped : EXIT_done;
}

/* ---- commands -------------------------------------------------------------------------------- */

/* Reads the command line and the file, and plans the program of one rank, in the first of the
 * precisions. */
static Exit begin(Session *s, Searching *q, Precisions *p, const char *form, int64_t *from,
                  int64_t *to)
{
    const Options *o = s->o;
    if (o->thorough && o->exhaustive)
        return usage(s, "--thorough beside --exhaustive, which plans all", "--exhaustive");
    if (o->words.n != 1 || !o->ranks || !o->device)
        return usage(s, arena_printf(s->arena, "the form is: mgc %s", form),
                     "mgc search models/llama7b.mg --device h100 --ranks 64");
    *q = (Searching){.s = s, .path = o->words.data[0], .device = o->device};
    Exit wrong = read_ranks(s, o->ranks, from, to);
    if (!wrong)
        wrong = read_number(s, "search-time", o->search_time, &q->seconds);
    if (!wrong)
        wrong = precisions_read(s, p);
    if (!wrong && p->n > 1 && *from != *to)
        wrong = usage(s, "--precisions is of one number of ranks", "--ranks 64");
    if (!wrong)
        wrong = replaceable(s);
    if (wrong)
        return wrong;
    q->precision = p->n ? p->name[0] : NULL;
    const uint32_t file = read_source(s, q->path);
    if (!file)
        return EXIT_usage;
    q->ast = mg_parse(s->arena, s->names, s->diag, file);
    if (!q->ast)
        return EXIT_source;
    const Node *rules = space_layout(q->ast, o->layout ? o->layout : "default");
    if (o->layout && !rules) {
        diag_error(s->diag, (Span){0}, 320, "there is no layout '%s'", o->layout);
        diag_help(s->diag, "--layout names one of the file, whose rules say what may be split");
        return EXIT_source;
    }
    q->from = rules;
    return searching_begin(q);
}

Exit command_search(Session *s)
{
    const char *form =
        "search F.mg --device NAME --ranks N|A..B [--tokens 2T] [--budget GPU-HOURS] "
        "[--precisions NAME,NAME] [--search-time SECONDS] [--thorough | --exhaustive] "
        "[-D NAME=VALUE] "
        "[-o LAYOUT.mg] "
        "[--report PAGE.html] [--points POINTS.tsv]";
    Searching q;
    Precisions p;
    int64_t from, to;
    Scale scale = {.weak = false};
    Exit wrong = begin(s, &q, &p, form, &from, &to);
    if (!wrong)
        wrong = read_number(s, "tokens", s->o->tokens, &scale.tokens);
    if (!wrong)
        wrong = read_number(s, "budget", s->o->budget, &scale.budget);
    if (wrong)
        return wrong;
    if (scale.budget && !scale.tokens)
        return usage(s, "--budget is of GPU hours for so many tokens, and --tokens is not given",
                     "--tokens 2T");
    if (from == to && !scale.budget)
        return search_one(&q, &p, from, scale.tokens);
    if (s->o->points || s->o->out)
        return usage(s, "-o and --points are of one number of ranks", "--ranks 64");
    scale.page = s->o->report;
    return scale_run(&q, &scale, from, to);
}

Exit command_scale(Session *s)
{
    const char *form = "scale F.mg --device NAME --ranks A..B [--tokens 2T] [--budget GPU-HOURS] "
                       "[--search-time SECONDS] [-D NAME=VALUE] [--report PAGE.html]";
    Searching q;
    Precisions p;
    int64_t from, to;
    Scale scale = {.weak = true, .page = s->o->report};
    Exit wrong = begin(s, &q, &p, form, &from, &to);
    if (!wrong)
        wrong = read_number(s, "tokens", s->o->tokens, &scale.tokens);
    if (!wrong)
        wrong = read_number(s, "budget", s->o->budget, &scale.budget);
    return wrong ? wrong : scale_run(&q, &scale, from, to);
}

/* ---- layout auto ----------------------------------------------------------------------------- */

static bool has_rules(const Node *layout)
{
    for (size_t i = 0; i < layout->more.n; i++)
        if (layout->more.data[i]->kind == N_RULE)
            return true;
    return false;
}

/* `device h100 x 64`, which a search needs. */
static Exit read_device(Session *s, const Ast *ast, const Node *layout, const char **name,
                        int64_t *ranks)
{
    const Node *found = NULL;
    for (size_t i = 0; i < layout->more.n; i++) {
        const Node *n = layout->more.data[i];
        if (n->kind == N_SETTING && n->list.n &&
            setting_named(name_str(ast->names, n->name)) == SETTING_device)
            found = n->list.data[0];
    }
    const Node *times = found && found->kind == N_TIMES ? node_bare(found->b) : NULL;
    const Node *device = found && found->kind == N_TIMES ? found->a : found;
    const bool good =
        device && device->kind == N_NAME &&
        (!times || (times->kind == N_NUMBER && times->number >= 1 && times->number <= RANKS));
    if (!good) {
        diag_error(s->diag, found ? found->span : layout->at, 694,
                   "a layout that is searched says the device and how many ranks there are");
        diag_help(s->diag, "layout auto { device h100 x 64 }");
        return EXIT_source;
    }
    *name = s->o->device ? s->o->device : name_str(ast->names, device->name);
    *ranks = times ? (int64_t)times->number : 1;
    return EXIT_done;
}

/* The layout of this process, which compiles one model: also for its remedies. */
typedef struct FoundLayout {
    char *text;
    const char *precision; /* NULL: the layout names none */
} FoundLayout;

/* *f: the layout that takes the place of `layout auto`. */
static Exit find_layout(Session *s, const char *path, const Ast *ast, const Node *layout,
                        FoundLayout *f)
{
    Searching q = {.s = s, .path = path, .ast = ast, .given = layout}, *of = &q;
    Precisions p;
    Search r;
    int64_t ranks;
    Exit wrong = read_device(s, ast, layout, &q.device, &ranks);
    q.from = has_rules(layout) || layout->a ? layout : space_layout(ast, "default");
    if (!wrong)
        wrong = precisions_allowed(s, ast, layout, &p);
    if (wrong)
        return wrong;
    q.precision = p.n ? p.name[0] : NULL;
    wrong = searching_begin(&q);
    if (!wrong)
        wrong = precisions_run(&q, &p, ranks, &of, &r);
    if (wrong)
        return wrong;
    if (r.best < 0)
        return searching_none(of, &r);
    const Candidate *best = &r.all.data[r.best];
    f->text = strdup(point_text(of->space, &best->point, "auto", searching_device(of), s->arena));
    f->precision = of->precision;
    if (p.told)
        fprintf(stderr, "note: layout auto: %s\n", p.told);
    if (f->text)
        fprintf(stderr, "note: layout auto: %s%s\n%s", search_counts(&r, s->arena),
                r.stopped ? "; the search was stopped before its end" : "", f->text);
    searching_told();
    return f->text ? EXIT_done : EXIT_tool;
}

/* *text: that layout; NULL: another one is chosen. */
static Exit search_auto(Session *s, const char *path, const Ast *ast, const char **text)
{
    static FoundLayout found;
    const char *name = s->o->layout ? s->o->layout : "auto";
    const Node *layout = space_layout(ast, "auto"), *usual = space_layout(ast, "default");
    *text = NULL;
    if (!layout || strcmp(name, "auto") || (!s->o->layout && usual))
        return EXIT_done;
    if (s->quick) {
        *text = "layout auto {\n}\n";
        return EXIT_done;
    }
    const Exit wrong = found.text ? EXIT_done : find_layout(s, path, ast, layout, &found);
    *text = found.text;
    s->precision = found.precision;
    return wrong;
}

Exit search_layouts(Session *s, const char *path, const Ast *ast, Ast **layouts)
{
    const char *text = s->layout_text;
    const Exit wrong = text ? EXIT_done : search_auto(s, path, ast, &text);
    if (wrong || !text)
        return wrong;
    const uint32_t file = diag_add_file(s->diag, "layout", text, strlen(text));
    *layouts = mg_parse(s->arena, s->names, s->diag, file);
    return *layouts ? EXIT_done : EXIT_source;
}
