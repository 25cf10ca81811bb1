/* show.c - a pipeline to look at: its program as text, its run as a grid, and what comes of it. */
#include "pipeline/pipeline.h"

#include <math.h>

/* ---- the program ---------------------------------------------------------------------------- */

void pipe_print_program(const PipeProgram *p, FILE *out)
{
    for (int rank = 0; rank < p->table->ranks; rank++) {
        fprintf(out, "rank %d, which sends from %d buffers forward and %d back\n", rank,
                p->buffers[rank][0], p->buffers[rank][1]);
        const PipeOps *ops = &p->rank[rank];
        for (size_t i = 0; i < ops->n; i++) {
            const PipeOp *op = &ops->data[i];
            bool more = op->step == PIPE_START && i && ops->data[i - 1].step == PIPE_START;
            if (!more)
                fprintf(out, "%s    %s", i ? "\n" : "",
                        op->step == PIPE_START  ? "start "
                        : op->step == PIPE_WAIT ? "wait "
                                                : "");
            fprintf(out, "%s%s", more ? " " : "", pipe_name(op->action).text);
        }
        fputc('\n', out);
    }
}

/* ---- the grid ------------------------------------------------------------------------------- */

typedef struct Grid {
    const PipeProgram *p;
    const PipeClock *clock;
    double unit;
    bool color, chunks;
    int columns, width; /* of a cell */
    FILE *out;
} Grid;

static int digits(int n)
{
    return snprintf(NULL, 0, "%d", n);
}

/* The cheapest action of the table. */
static double cheapest(const PipeProgram *p, const PipeClock *k)
{
    double unit = k->step;
    for (int rank = 0; rank < p->table->ranks; rank++)
        for (size_t i = 0; i < p->rank[rank].n; i++)
            if (p->rank[rank].data[i].step == PIPE_COMPUTE)
                unit = fmin(unit, k->end[rank][i] - k->begin[rank][i]);
    return unit;
}

static int column(const Grid *g, double time)
{
    return (int)lround(time / g->unit);
}

int pipe_shade(PipeKind k, int chunk)
{
    static const unsigned char shades[][PIPE_SHADES] = {[PIPE_F] = {20, 26, 32, 62},
                                                        [PIPE_B] = {28, 34, 64, 70},
                                                        [PIPE_I] = {30, 36, 66, 72},
                                                        [PIPE_W] = {90, 96, 132, 127}};
    return shades[k][chunk % PIPE_SHADES];
}

/* An action over n columns. */
static void print_action(const Grid *g, PipeAction a, int n)
{
    if (g->color) {
        fprintf(g->out, " \033[48;5;%d;38;5;231m%*d%*s\033[0m",
                pipe_shade(a.kind, a.stage / g->p->table->ranks), g->width, a.microbatch,
                (n - 1) * (g->width + 1), "");
        return;
    }
    char text[32];
    snprintf(text, sizeof text, "%s%d", pipe_kind(a.kind), a.microbatch);
    fprintf(g->out, " %-*s", g->width, g->chunks ? pipe_name(a).text : text);
    for (int i = 1; i < n; i++)
        fprintf(g->out, " %-*s", g->width, "-");
}

static void print_idle(const Grid *g, int n)
{
    for (int i = 0; i < n; i++)
        fprintf(g->out, " %-*s", g->width, g->color ? "" : ".");
}

static void print_row(const Grid *g, int rank)
{
    const PipeOps *ops = &g->p->rank[rank];
    int at = 0;
    fprintf(g->out, "rank %-3d", rank);
    for (size_t i = 0; i < ops->n; i++) {
        if (ops->data[i].step != PIPE_COMPUTE)
            continue;
        int begin = column(g, g->clock->begin[rank][i]), end = column(g, g->clock->end[rank][i]);
        begin = begin > at ? begin : at;
        end = end > begin ? end : begin + 1; /* what is rounded leaves none out */
        print_idle(g, begin - at);
        print_action(g, ops->data[i].action, end - begin);
        at = end;
    }
    print_idle(g, g->columns - at);
    fputc('\n', g->out);
}

static void print_ruler(const Grid *g)
{
    enum { EVERY = 5 };
    fprintf(g->out, "%-8s", "time");
    for (int i = 0; i < g->columns; i += EVERY)
        fprintf(g->out, " %-*d", EVERY * (g->width + 1) - 1, i);
    fputc('\n', g->out);
}

bool pipe_print_grid(const PipeProgram *p, const PipeClock *k, bool color, FILE *out,
                     double *columns)
{
    const PipeTable *t = p->table;
    Grid g = {.p = p,
              .clock = k,
              .unit = cheapest(p, k),
              .color = color,
              .chunks = t->stages > t->ranks,
              .width = digits(t->microbatches - 1),
              .out = out};
    *columns = round(k->step / g.unit);
    if (*columns > PIPE_COLUMNS_MAX)
        return false;
    g.columns = column(&g, k->step);
    if (!color)
        g.width += 1 + (g.chunks ? digits(t->stages - 1) : 0);
    print_ruler(&g);
    for (int rank = 0; rank < t->ranks; rank++)
        print_row(&g, rank);
    if (color) {
        fputs("       ", out);
        for (PipeKind kind = PIPE_F; kind <= PIPE_W; kind++)
            fprintf(out, "  \033[48;5;%dm  \033[0m %s", pipe_shade(kind, 0), pipe_kind(kind));
        fputc('\n', out);
    } else
        fprintf(out, "         - the action goes on, . idle; one column is %g\n", g.unit);
    return true;
}

/* ---- what comes of it ----------------------------------------------------------------------- */

static const double STRAGGLER = 0.1; /* a rank takes that much longer */

static size_t count(const PipeProgram *p, bool computes)
{
    size_t n = 0;
    for (int rank = 0; rank < p->table->ranks; rank++)
        for (size_t i = 0; i < p->rank[rank].n; i++) {
            const PipeOp *op = &p->rank[rank].data[i];
            n += computes ? op->step == PIPE_COMPUTE
                          : op->step == PIPE_START && pipe_sends(op->action.kind);
        }
    return n;
}

void pipe_print_summary(const PipeProgram *p, const PipeProof *proof, const PipeCosts *c, FILE *out)
{
    const PipeTable *t = p->table;
    Arena *tmp = arena_new();
    const PipeGraph *g = proof->graph[PIPE_BY_WAY];
    const PipeClock *k = pipe_clock(tmp, g, c);
    const double *little = pipe_slower(tmp, g, c, k, 0).longer;
    const double *much = pipe_slower(tmp, g, c, k, STRAGGLER).longer;
    fprintf(out, "%s: %d rank%s, %d stage%s, %d microbatch%s; %zu actions, %zu messages; proved\n",
            t->name, t->ranks, t->ranks > 1 ? "s" : "", t->stages, t->stages > 1 ? "s" : "",
            t->microbatches, t->microbatches > 1 ? "es" : "", count(p, true), count(p, false));
    fprintf(out,
            "step %.9g, bubble %.1f%%; with a queue each for sending and receiving %.9g, with one "
            "for all %.9g\n",
            k->step, 100 * k->bubble, pipe_clock(tmp, proof->graph[PIPE_BY_KIND], c)->step,
            pipe_clock(tmp, proof->graph[PIPE_ONE], c)->step);
    fprintf(out, "%4s  %10s  %10s  %9s  %9s  %13s  %10s\n", "rank", "busy", "idle", "in flight",
            "to B or I", "d step/d busy", "10% slower");
    for (int rank = 0; rank < t->ranks; rank++) {
        PipeHeld held = pipe_held(t, rank);
        fprintf(out, "%4d  %10.6g  %10.6g  %9d  %9d", rank, k->busy[rank],
                fmax(0, k->step - k->busy[rank]), held.to_weight, held.to_input);
        if (isnan(little[rank]))
            fprintf(out, "  %13s  %10s\n", "-", "-");
        else
            fprintf(out, "  %13.3f  %+9.2f%%\n", little[rank],
                    100 * much[rank] * STRAGGLER * k->busy[rank] / k->step);
    }
    arena_free(tmp);
}
