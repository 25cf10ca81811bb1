/* pipe_layout.c - the table of a layout's schedule: one that is built in, or of a file. */
#include "base/open.h"
#include "pipeline/pipe_layout.h"

#include <string.h>

static const PipeTable *table_of_file(const Module *m, const char *path)
{
    Diag *d = m->diag;
    FILE *in = open_file(path);
    char *text = NULL;
    size_t n = 0, size = 0;
    if (!in) {
        diag_error(d, m->layout.pipeline.span, 560, "cannot read the table '%s': %s", path,
                   open_error());
        return NULL;
    }
    for (int c; (c = getc(in)) != EOF;) {
        if (n == size) {
            char *more = NEW_ARRAY(m->arena, char, size = 2 * size + 4096);
            if (n)
                memcpy(more, text, n);
            text = more;
        }
        text[n++] = (char)c;
    }
    fclose(in);
    return pipe_read(m->arena, d, diag_add_file(d, path, n ? text : "", n));
}

static bool numbers_agree(const Module *m, const PipeTable *t, int64_t microbatches)
{
    const Pipeline *l = &m->layout.pipeline;
    int ranks = (int)mesh_size(m, l->axis), stages = ranks * l->chunks;
    if (t->placement == MG_V) {
        diag_error(m->diag, l->span, 341,
                   "the table '%s' is a V: it puts the first stage and the last on one rank, and a "
                   "layout has each rank's stages in a loop: only mgc pipeline takes it so far",
                   t->name);
        diag_help(m->diag, "schedule = zb-h1, schedule = interleaved, or a table of a loop");
        return false;
    }
    if (t->ranks == ranks && t->stages == stages && t->microbatches == microbatches)
        return true;
    diag_error(m->diag, l->span, 582,
               "the table '%s' is of %d ranks, %d stages and %d microbatches, the layout of %d, %d "
               "and %lld",
               t->name, t->ranks, t->stages, t->microbatches, ranks, stages,
               (long long)microbatches);
    return false;
}

const PipeTable *pipe_of_layout(const Module *m, int64_t microbatches)
{
    const Pipeline *l = &m->layout.pipeline;
    PipeForm f = {.ranks = (int)mesh_size(m, l->axis),
                  .chunks = l->chunks,
                  .microbatches = (int)microbatches,
                  .group = l->group,
                  .pairs = l->pairs == PAIRS_all};
    if (l->table) {
        const PipeTable *t = table_of_file(m, l->table);
        return t && numbers_agree(m, t, microbatches) ? t : NULL;
    }
    const char *name = name_str(m->names, l->schedule);
    for (int k = 0; k < PIPE_SCHEDULES; k++)
        if (!strcmp(name, pipe_schedule_name((PipeSchedule)k)))
            f.schedule = (PipeSchedule)k;
    return pipe_make(m->arena, m->diag, &f);
}

bool pipe_layout_splits_wgrad(const Module *m, bool *splits)
{
    const Pipeline *l = &m->layout.pipeline;
    *splits = !strcmp(name_str(m->names, l->schedule), pipe_schedule_name(PIPE_ZB_H1));
    if (!l->table)
        return true;
    const PipeTable *t = table_of_file(m, l->table);
    for (int rank = 0; t && rank < t->ranks; rank++)
        for (size_t i = 0; i < t->row[rank].n; i++)
            *splits |= t->row[rank].data[i].kind == PIPE_W;
    return t != NULL;
}
