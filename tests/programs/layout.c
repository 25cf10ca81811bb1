/* layout.c - random layouts; see gen.h. */
#include "tests/programs/gen.h"

#include <stdio.h>

#define TEXT(...) arena_printf(g->a, __VA_ARGS__)
#define ANY(...)                                                                                   \
    ((const char *const[]){__VA_ARGS__}[draw_below(                                                \
        g, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))])

enum { AXES = 4 };
static const char *const axes[AXES] = {"dp", "cp", "tp", "ep"};

typedef struct Mesh {
    int size[AXES]; /* 0: not there */
    int stages;     /* of the axis pp; 0: not there */
    int ranks;
} Mesh;

/* Sizes that divide something more often than not. */
static Mesh draw_mesh(Gen *g)
{
    Mesh m = {.ranks = 1};
    const char *s = "";
    int first = draw_below(g, AXES),
        n = draw_one_in(g, 3) ? draw_between(g, 2, 4) : draw_below(g, 2);
    if (g->linear && !n)
        n = draw_between(g, 1, 2);
    bool before = draw_one_in(g, 2);
    if (draw_one_in(g, 4))
        m.stages = draw_one_in(g, 4) ? 4 : 2;
    if (m.stages && before)
        s = TEXT("pp = %d", m.stages);
    for (int i = 0; i < AXES; i++) {
        if ((i - first + AXES) % AXES >= n)
            continue;
        m.size[i] = draw_one_in(g, 6) ? 1 : draw_one_in(g, 12) ? 3 : draw_one_in(g, 12) ? 4 : 2;
        m.ranks *= m.size[i];
        s = TEXT("%s%s%s = %d", s, *s ? ", " : "", axes[i], m.size[i]);
    }
    if (m.stages && !before)
        s = TEXT("%s%spp = %d", s, *s ? ", " : "", m.stages);
    m.ranks *= m.stages ? m.stages : 1;
    if (*s)
        line(g, "mesh %s", s);
    return m;
}

static void write_device(Gen *g, int ranks)
{
    const char *name = ANY("cpu", "cpu", "cpu", "cpus", "h100", "a100", "h200", "b200");
    line(g, draw_one_in(g, 3) ? "device %s x %d" : "device %s", name, ranks);
}

/* Does it divide what the axis cuts? Sometimes that is not asked: dims of the model are padded. */
static bool divides(Gen *g, int d, int n)
{
    const bool input = d == g->batch || d == g->seq;
    return g->dim[d].size % n == 0 || draw_one_in(g, input ? 20 : 3);
}

/* The dim of a linear scan, in parts that have chunks; its axis, or -1. */
static int split_scan(Gen *g, const Mesh *m, Dims *left)
{
    const int d = draw_dim(g, g->linear & *left);
    int axis = draw_below(g, AXES);
    for (int n = 0; n < AXES && m->size[axis] < 2; n++)
        axis = (axis + 1) % AXES;
    if (d < 0 || m->size[axis] < 2 || g->dim[d].size % (2 * m->size[axis]) || draw_one_in(g, 4))
        return -1;
    *left &= ~bit(d);
    line(g, "%s -> %s", dim_name(g, d), axes[axis]);
    return axis;
}

/* ", stages = [1, 0, 2]": the layers, each in some stage; seldom one more. */
static const char *cut(Gen *g, int stages, int layers)
{
    enum { MOST = 16 };
    int of[MOST] = {0};
    const char *all = "";
    for (int n = layers + (draw_below(g, 20) == 0); n > 0; n--)
        of[draw_below(g, stages)]++;
    for (int s = 0; s < stages; s++)
        all = TEXT("%s%s%d", all, s ? ", " : "", of[s]);
    return TEXT(", stages = [%s]", all);
}

static const char *stage_options(Gen *g, int ranks, int layers)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "interleaved, chunks = 2",
                                            "interleaved, chunks = 2, group = 2"};
    const int which = draw_below(g, 6), chunks = which > 3 ? 2 : 1;
    if (!which)
        return "";
    return TEXT(" (schedule = %s%s)", schedules[which - 1],
                draw_below(g, 3) ? "" : cut(g, ranks * chunks, layers));
}

static void write_rules(Gen *g, const Mesh *m)
{
    bool any = draw_one_in(g, 30), split[AXES] = {false};
    Dims left = tensor_dims(g) | bit(g->experts) | bit(g->slot) | bit(g->rows);
    left &= any ? left : g->model;
    if (m->size[0] > 1 && divides(g, g->batch, m->size[0])) {
        line(g, "batch -> dp");
        split[0] = true;
        left &= draw_below(g, 8) ? ~bit(g->batch) : left;
    }
    const int along = split_scan(g, m, &left);
    if (along >= 0)
        split[along] = true;
    while (left) {
        int d = draw_dim(g, left), axis = draw_below(g, AXES), two = draw_below(g, AXES);
        left &= ~bit(d);
        if (draw_below(g, 3) == 0 || !m->size[axis] || !divides(g, d, m->size[axis]))
            continue;
        static const char *const ways[] = {" (zigzag)", " (ring)", " (zigzag, ring)", " (heads)"};
        const int way = d == g->seq && draw_one_in(g, 2) ? draw_below(g, 4) : -1;
        const char *zigzag = way >= 0 ? ways[way] : "", *more = "";
        if (two > axis && m->size[two] && divides(g, d, m->size[axis] * m->size[two]) &&
            draw_one_in(g, 2))
            more = TEXT(", %s", axes[two]);
        const char *also = "";
        int other = draw_dim(g, left);
        if (other >= 0 && draw_one_in(g, 5) && divides(g, other, m->size[axis]) && !*zigzag &&
            !*more) {
            also = TEXT(", %s", dim_name(g, other));
            left &= ~bit(other);
        }
        split[axis] = split[two] = true;
        line(g, "%s%s -> %s%s%s", dim_name(g, d), also, axes[axis], zigzag, more);
    }
    for (int i = 0; i < AXES; i++) {
        Dims fits = 0;
        for (int d = 0; d < g->ndims; d++)
            fits |= g->model & tensor_dims(g) & bit(d) && divides(g, d, m->size[i] ? m->size[i] : 1)
                        ? bit(d)
                        : 0;
        if (m->size[i] > 1 && !split[i] && fits)
            line(g, "%s -> %s", dim_name(g, draw_dim(g, fits)), axes[i]);
    }
    for (int i = 0, n = draw_below(g, 6); i < AXES; i++)
        if (m->size[i] > 1 && n >= 1 && n <= 3) {
            line(g,
                 n == 1   ? "state -> %s"
                 : n == 2 ? "state, grads -> %s"
                          : "state, grads, params -> %s",
                 axes[i]);
            break;
        }
    int iterations = -1;
    for (int i = 0; i < g->ndims && m->stages; i++)
        if (g->dim[i].iterations && (g->repeated & bit(i) || draw_one_in(g, 30)) &&
            (iterations < 0 || draw_one_in(g, 4)))
            iterations = i;
    if (m->stages)
        line(g, "%s -> pp%s", dim_name(g, iterations < 0 ? g->batch : iterations),
             iterations < 0 ? "" : stage_options(g, m->stages, g->dim[iterations].size));
}

static void write_pad(Gen *g)
{
    int d = g->vocab >= 0 ? g->vocab : g->classes;
    if (d < 0 || draw_one_in(g, 2))
        d = draw_dim(g, g->model & tensor_dims(g) & ~bit(g->batch) & ~bit(g->seq));
    if (d < 0)
        return;
    line(g, "pad %s to %d", dim_name(g, d), g->dim[d].size + draw_between(g, 0, 3));
}

static void write_layout(Gen *g, const char *name)
{
    line(g, "layout %s{", name);
    g->indent = 1;
    Mesh m = draw_mesh(g);
    if (draw_below(g, 3))
        write_device(g, m.ranks);
    write_rules(g, &m);
    int batch = g->dim[g->batch].size / (m.size[0] ? m.size[0] : 1), micro = draw_between(g, 1, 4);
    if (draw_one_in(g, 2) && (batch < 1 || batch % micro == 0 || draw_one_in(g, 10)))
        line(g, "microbatch %d", micro);
    if (draw_one_in(g, 2))
        line(g, "chunk %d", draw_between(g, 1, 4));
    switch (draw_below(g, 8)) {
    case 0:
        line(g, "recompute none");
        break;
    case 1:
        line(g, "recompute all");
        break;
    case 2:
        line(g, "recompute auto");
        break;
    case 3:
        if ((g->ninner && draw_one_in(g, 2)) || draw_one_in(g, 20))
            line(g, "recompute keep [%s]", g->ninner ? g->inner[draw_below(g, g->ninner)] : "tanh");
        break;
    default:
        break;
    }
    if (draw_one_in(g, 4))
        write_pad(g);
    if (draw_one_in(g, 10))
        line(g, "assert %s",
             ANY("peak < 76 GB", "peak <= 4 GiB, step < 500 s", "exposed_comm < 100%",
                 "step < 1 us", "peak < 1 B"));
    g->indent = 0;
    line(g, "}");
}

void write_layouts(Gen *g)
{
    write_layout(g, "");
    if (draw_one_in(g, 6))
        write_layout(g, draw_one_in(g, 2) ? "more : default " : "more ");
}
