/* pipeline_command.c - mgc pipeline: a schedule that is built in or read from a table, proved
 * before anything is said of it, then printed with the time it takes. */
#include "compiler/session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/pipeline.h"

bool pipeline_options(const Options *o)
{
    return o->ranks || o->microbatches || o->chunks || o->group || o->costs.n || o->hidden ||
           o->pairs || o->comms || o->grid;
}

static Exit usage(Session *s, const char *text, const char *help)
{
    diag_error(s->diag, (Span){0}, 0, "%s", text);
    diag_help(s->diag, "%s", help);
    return EXIT_usage;
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* 0 where the option is not given. */
static Exit read_count(Session *s, const char *option, const char *text, int limit, int *n)
{
    *n = 0;
    if (!text)
        return EXIT_done;
    size_t digits = strspn(text, "0123456789");
    long value = digits && digits < 8 && !text[digits] ? strtol(text, NULL, 10) : 0;
    if (value < 1 || value > limit)
        return usage(s,
                     arena_printf(s->arena, "--%s '%s' is no whole number from 1 to %d", option,
                                  text, limit),
                     arena_printf(s->arena, "--%s=%d", option, limit < 4 ? limit : 4));
    *n = (int)value;
    return EXIT_done;
}

static Exit read_counts(Session *s, PipeForm *f)
{
    const Options *o = s->o;
    Exit wrong = read_count(s, "ranks", o->ranks, PIPE_RANKS_MAX, &f->ranks);
    if (!wrong)
        wrong =
            read_count(s, "microbatches", o->microbatches, PIPE_MICROBATCHES_MAX, &f->microbatches);
    if (!wrong)
        wrong = read_count(s, "chunks", o->chunks, PIPE_STAGES_MAX, &f->chunks);
    if (!wrong)
        wrong = read_count(s, "group", o->group, PIPE_MICROBATCHES_MAX, &f->group);
    return wrong;
}

/* "[STAGE:]F,I,W[,SEND]". Times are positive, so that the cheapest action is a unit; a message may
 * take none. */
static bool read_cost(const char *text, int stages, int *stage, double *value, int *n)
{
    char *end;
    const char *colon = strchr(text, ':');
    *stage = -1;
    if (colon) {
        size_t digits = strspn(text, "0123456789");
        if (!digits || digits > 6 || text + digits != colon)
            return false;
        *stage = (int)strtol(text, NULL, 10);
        text = colon + 1;
        if (*stage >= stages)
            return false;
    }
    for (*n = 0; *n < 4; text = end + 1) {
        double least = *n < 3 ? 1e-9 : 0;
        if (!strchr(".0123456789", *text) || !*text)
            return false;
        value[*n] = strtod(text, &end);
        if (end == text || !(value[*n] >= least && value[*n] <= 1e9))
            return false;
        ++*n;
        if (*end != ',')
            break;
    }
    return !*end && (*n == 3 || (*n == 4 && *stage < 0));
}

/* Those of all stages come first, whatever their order on the command line. */
static Exit read_costs(Session *s, const PipeTable *t, PipeCosts *c)
{
    const Words *given = &s->o->costs;
    double *by_stage[3], value[4];
    for (int i = 0; i < 3; i++)
        by_stage[i] = NEW_ARRAY(s->arena, double, t->stages);
    for (int i = 0; i < 3 * t->stages; i++)
        by_stage[i / t->stages][i % t->stages] = 1;
    *c = (PipeCosts){.forward = by_stage[0], .input = by_stage[1], .weight = by_stage[2]};
    for (int one = 0; one < 2; one++)
        for (size_t i = 0; i < given->n; i++) {
            int stage, n;
            if (!read_cost(given->data[i], t->stages, &stage, value, &n))
                return usage(s,
                             arena_printf(s->arena,
                                          "--costs '%s' is not F,I,W or F,I,W,SEND or "
                                          "STAGE:F,I,W with times from 1e-9 to 1e9, and one of %d "
                                          "stages",
                                          given->data[i], t->stages),
                             "--costs=1,1,1,0.1 --costs=0:2,1,1");
            if ((stage >= 0) != one)
                continue;
            int from = one ? stage : 0, end = one ? stage + 1 : t->stages;
            for (int k = from; k < end; k++)
                for (int part = 0; part < 3; part++)
                    by_stage[part][k] = value[part];
            c->send = n == 4 ? value[3] : c->send;
        }
    return EXIT_done;
}

/* A pair takes at least as long as each of its actions. */
static Exit hides_less(Session *s, const PipeTable *t, const PipeCosts *c, const char *text)
{
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < t->row[rank].n; i++) {
            const PipeAction *a = &t->row[rank].data[i];
            if (!a->pair)
                continue;
            const PipePair of = pipe_pair(c, a);
            const double least = of.forward < of.back ? of.forward : of.back;
            if (c->hidden > least)
                return usage(s,
                             arena_printf(s->arena,
                                          "--hidden '%s': of %s and %s, which take %g and %g, at "
                                          "most %g can be hidden",
                                          text, pipe_name(a[0]).text, pipe_name(a[1]).text,
                                          of.forward, of.back, least),
                             arena_printf(s->arena, "--hidden=%g", least));
        }
    return EXIT_done;
}

/* "TIME" */
static Exit read_hidden(Session *s, const PipeTable *t, PipeCosts *c)
{
    const char *text = s->o->hidden;
    char *end;
    bool pairs = false;
    if (!text)
        return EXIT_done;
    c->hidden = *text && strchr(".0123456789", *text) ? strtod(text, &end) : -1;
    if (!(c->hidden >= 0 && c->hidden <= 1e9) || end == text || *end)
        return usage(s, arena_printf(s->arena, "--hidden '%s' is no time up to 1e9", text),
                     "--hidden=0.5");
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < t->row[rank].n; i++)
            pairs |= t->row[rank].data[i].pair;
    if (!pairs)
        return usage(
            s,
            arena_printf(s->arena, "--hidden is of pairs that overlap, and %s has none", t->name),
            "--pairs, of 1f1b and interleaved; dualpipe-v has pairs, too");
    return hides_less(s, t, c, text);
}

/* ---- the table ------------------------------------------------------------------------------ */

static int schedule_of(const char *name)
{
    for (int i = 0; i < PIPE_SCHEDULES; i++)
        if (!strcmp(pipe_schedule_name((PipeSchedule)i), name))
            return i;
    return -1;
}

static void propose_number(Session *s, const char *option, int n)
{
    const char *text = arena_printf(s->arena, "--%s %d", option, n);
    diag_remedy_option(s->diag, text, "%s", text);
}

/* Proposes other numbers of chunks, groups or microbatches that make the schedule legal. */
static void propose_numbers(Session *s, const PipeForm *f)
{
    PipeForm chunked = *f, grouped = *f;
    chunked.chunks = pipe_schedule_chunks(f->schedule);
    grouped.group = f->ranks;
    if (pipe_legal(&chunked))
        propose_number(s, "chunks", chunked.chunks);
    if (f->group && pipe_legal(&grouped))
        propose_number(s, "group", grouped.group);
    for (int step = -1; step <= 1; step += 2) {
        int n = pipe_legal_microbatches(f, step);
        if (n)
            propose_number(s, "microbatches", n);
    }
}

static Exit make_table(Session *s, PipeForm *f, const PipeTable **t)
{
    if (!f->ranks || !f->microbatches)
        return usage(s,
                     arena_printf(s->arena, "%s needs --ranks and --microbatches",
                                  pipe_schedule_name(f->schedule)),
                     "--ranks=4 --microbatches=8");
    f->pairs = s->o->pairs;
    if (f->pairs && f->schedule != PIPE_1F1B && f->schedule != PIPE_INTERLEAVED)
        return usage(s,
                     arena_printf(s->arena, "--pairs is of 1f1b and interleaved, and not of %s",
                                  pipe_schedule_name(f->schedule)),
                     "leave it out, or --pairs with 1f1b");
    if (!f->chunks)
        f->chunks = pipe_schedule_chunks(f->schedule);
    *t = pipe_make(s->arena, s->diag, f);
    if (!*t)
        propose_numbers(s, f);
    else
        diag_stage(s->diag, 1); /* what follows is a proof */
    return *t ? EXIT_done : EXIT_source;
}

static bool has(Session *s, uint32_t file, const char *what, int there, int asked)
{
    if (!asked || there == asked)
        return true;
    diag_error(s->diag, (Span){file, 0, 1}, 584, "the table has %d %s, and --%s is %d", there, what,
               what, asked);
    return false;
}

static Exit read_table(Session *s, const char *path, const PipeForm *f, const PipeTable **t)
{
    if (f->group)
        return usage(s, "--group is for interleaved: a table says itself in which order",
                     "leave it out");
    if (s->o->pairs)
        return usage(s,
                     "--pairs is of 1f1b and interleaved: a table says itself what its pairs are",
                     "leave it out");
    uint32_t file = read_source(s, path);
    if (!file)
        return EXIT_usage;
    const PipeTable *r = *t = pipe_read(s->arena, s->diag, file);
    return r && has(s, file, "ranks", r->ranks, f->ranks) &&
                   has(s, file, "microbatches", r->microbatches, f->microbatches) &&
                   has(s, file, "chunks", r->stages / r->ranks, f->chunks)
               ? EXIT_done
               : EXIT_source;
}

static Exit find_table(Session *s, const char *name, const PipeTable **t)
{
    PipeForm f = {0};
    const char *names[PIPE_SCHEDULES];
    Exit wrong = read_counts(s, &f);
    if (wrong)
        return wrong;
    int schedule = schedule_of(name);
    if (schedule >= 0) {
        f.schedule = (PipeSchedule)schedule;
        return make_table(s, &f, t);
    }
    if (strpbrk(name, "./") || !access(name, F_OK))
        return read_table(s, name, &f, t);
    for (int i = 0; i < PIPE_SCHEDULES; i++)
        names[i] = pipe_schedule_name((PipeSchedule)i);
    const char *near = name_nearest(name, names, PIPE_SCHEDULES);
    diag_error(s->diag, (Span){0}, 580, "no schedule is called '%s', and no file", name);
    if (near)
        diag_help(s->diag, "did you mean %s?", near);
    else
        diag_help(s->diag, "%s, or the path of a table", pipe_schedule_names(s->arena));
    return EXIT_source;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static Exit write_table(Session *s, const PipeTable *t)
{
    Output out;
    Exit wrong = output_open(s, &out, s->o->out);
    if (wrong)
        return wrong;
    pipe_print(t, out.file);
    return output_close(s, &out, true);
}

static Exit print_grid(Session *s, const PipeProgram *p, const PipeProof *proof, const PipeCosts *c)
{
    bool color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    double columns;
    const PipeClock *k = pipe_clock(s->arena, proof->graph[PIPE_BY_WAY], c);
    if (pipe_print_grid(p, k, color, stdout, &columns))
        return EXIT_done;
    diag_error(s->diag, (Span){0}, 583, "the grid would have %.0f columns, and the limit is %d",
               columns, PIPE_COLUMNS_MAX);
    diag_help(s->diag,
              "fewer microbatches show the same order; without --grid the table is printed");
    return EXIT_source;
}

Exit command_pipeline(Session *s, const char *name)
{
    const Options *o = s->o;
    const PipeTable *t = NULL;
    PipeProof proof;
    PipeCosts costs;
    if (o->comms + o->grid + o->schedule > 1)
        return usage(s, "--comms, --grid and --schedule are three ways to print", "name one");
    Exit wrong = find_table(s, name, &t);
    if (!wrong)
        wrong = read_costs(s, t, &costs);
    if (wrong)
        return wrong;
    if (!pipe_complete(t, s->diag))
        return EXIT_source;
    wrong = read_hidden(s, t, &costs); /* whose pairs are whole */
    if (wrong)
        return wrong;
    const PipeProgram *p = pipe_lower(s->arena, t);
    if (!pipe_prove(s->arena, p, s->diag, &proof))
        return EXIT_source;
    const PipeTable *shown = o->comms ? pipe_with_comms(s->arena, p) : t;
    if (o->out)
        wrong = write_table(s, shown);
    if (!wrong && o->grid)
        wrong = print_grid(s, p, &proof, &costs);
    else if (!wrong && o->schedule)
        pipe_print_program(p, stdout);
    else if (!wrong && !o->out)
        pipe_print(shown, stdout);
    if (!wrong)
        pipe_print_summary(p, &proof, &costs, stdout);
    return wrong;
}
