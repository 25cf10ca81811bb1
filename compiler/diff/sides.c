/* sides.c - see sides.h. */
#include "compiler/diff/sides.h"

#include <string.h>
#include <unistd.h>

#include "compiler/diff/plan_file.h"

enum { WORDS = 64 };

/* Cuts a text at spaces; what stands in quotes, '' or "", is one word. A file of that whole name is
 * one word, too. False: a quote is not closed, or there are too many words. */
static bool words_of(Arena *a, const char *text, char *word[WORDS], int *n)
{
    *n = 0;
    if (!access(text, F_OK)) {
        word[(*n)++] = arena_strdup(a, text);
        return true;
    }
    for (const char *c = text; *c;) {
        if (*c == ' ' || *c == '\t' || *c == '\n') {
            c++;
            continue;
        }
        char *to = arena_alloc(a, strlen(c) + 1), quote = 0;
        if (*n == WORDS - 1)
            return false;
        word[(*n)++] = to;
        for (; *c && (quote || !strchr(" \t\n", *c)); c++)
            if (quote ? *c == quote : *c == '\'' || *c == '"')
                quote = quote ? 0 : *c;
            else
                *to++ = *c;
        *to = 0;
        if (quote)
            return false;
    }
    return *n > 0;
}

static bool is_model(const char *path)
{
    const size_t n = strlen(path);
    return n > 3 && !strcmp(path + n - 3, ".mg");
}

bool side_is_model(Session *s, const char *text)
{
    char *word[WORDS];
    int n;
    return words_of(s->arena, text, word, &n) && is_model(word[0]);
}

/* An option that a side may not have; NULL: there is none. Those of a model and its layout make
 * another plan, all others another output. */
static const char *misplaced(const Options *o)
{
    static const char model[] = "Model and layout";
#define OPTION_TEXT(field, group, name, ...)                                                       \
    if (o->field && strcmp(group, model))                                                          \
        return name;
#define OPTION_CHOICE(...) OPTION_TEXT(__VA_ARGS__)
#define OPTION_MAYBE(...)  OPTION_TEXT(__VA_ARGS__)
#define OPTION_FLAG(...)   OPTION_TEXT(__VA_ARGS__)
#define OPTION_LIST(field, group, name, ...)                                                       \
    if (o->field.n && strcmp(group, model))                                                        \
        return name;
#include "compiler/options.def"
    return o->elastic ? "elastic" : o->generate ? "generate" : NULL;
}

/* The options of a side, and of those of the command that it has not itself. Definitions of the
 * side replace those of the same name. */
static void add_common(Arena *a, Options *o, const Options *common)
{
#define OPTION_TEXT(field, ...)                                                                    \
    if (!o->field)                                                                                 \
        o->field = common->field;
#define OPTION_CHOICE(...) OPTION_TEXT(__VA_ARGS__)
#define OPTION_MAYBE(...)  OPTION_TEXT(__VA_ARGS__)
#define OPTION_FLAG(...)   OPTION_TEXT(__VA_ARGS__)
#define OPTION_LIST(...)
#include "compiler/options.def"
    const Words own = o->define;
    o->define = (Words){0};
    for (size_t i = 0; i < common->define.n; i++) {
        const size_t n = strcspn(common->define.data[i], "=");
        bool replaced = false;
        for (size_t k = 0; k < own.n; k++)
            replaced |=
                strcspn(own.data[k], "=") == n && !strncmp(own.data[k], common->define.data[i], n);
        if (!replaced)
            vec_push(a, &o->define, common->define.data[i]);
    }
    for (size_t k = 0; k < own.n; k++)
        vec_push(a, &o->define, own.data[k]);
    o->report = NULL;
    o->command = NULL;
}

static Exit refuse(Session *s, const char *name, const char *text, const char *why)
{
    diag_error(s->diag, (Span){0}, 662, "%s, '%s': %s", name, text, why);
    return EXIT_usage;
}

/* The options of a model's words. */
static Exit read_options(Session *s, const char *name, const char *text, char **word, int n,
                         Options *o)
{
    char *argv[WORDS + 1] = {(char *)"mgc"};
    memcpy(argv + 1, word, (size_t)n * sizeof *word);
    if (!options_parse(o, n + 1, argv, s->arena, stderr))
        return refuse(s, name, text, "its options are not mgc's");
    if (o->command || o->words.n != 1)
        return refuse(s, name, text, "a side is one model, with options");
    const char *other = misplaced(o);
    if (other)
        return refuse(s, name, text,
                      arena_printf(s->arena,
                                   "--%s is no option of a side: those of a model and its "
                                   "layout are (mgc --help)",
                                   other));
    add_common(s->arena, o, s->o);
    return EXIT_done;
}

/* Compiles it as mgc F.mg --plan=json would. */
static Exit make_plan(Session *s, const char *name, Options *o, Side *side)
{
    Session one = *s;
    Compiled c = {0};
    one.o = o;
    one.diag = s->diag;
    one.layout_text = one.layout_rules = NULL;
    Exit wrong = compile_front(&one, o->words.data[0], &c);
    if (!wrong)
        wrong = compile_middle(&one, &c, NULL, NULL);
    if (wrong) {
        diag_error(s->diag, (Span){0}, 662, "%s, '%s', has no plan", name, side->text);
        return wrong;
    }
    if (!c.plan->train)
        return refuse(s, name, side->text, "a program that does not train has no step");
    side->plan = plan_file_json(&one, &c);
    return EXIT_done;
}

Exit side_read(Session *s, const char *name, const char *text, Side *side)
{
    char *word[WORDS];
    int n;
    Options *o = NEW_ARRAY(s->arena, Options, 1);
    *side = (Side){.text = text};
    if (!words_of(s->arena, text, word, &n))
        return refuse(s, name, text, "a quote in it is not closed, or it is empty or too long");
    if (!is_model(word[0]))
        return n > 1 ? refuse(s, name, text, "a plan in a file takes no options")
                     : plan_file_read(s, word[0], &side->plan);
    const Exit wrong = read_options(s, name, text, word, n, o);
    return wrong ? wrong : make_plan(s, name, o, side);
}
