/* recipe.h - training as other programs describe it, and as mgc's text and commands. */
#ifndef MGC_RECIPE_H
#define MGC_RECIPE_H

#include "base/device.h"
#include "compiler/recipe/keys.h"

typedef struct Recipe {
    Session *s;
    const char *device; /* its name or file */
    bool gpu;
    Device about;
    int64_t ranks, micro, accumulate;

    const char *optimizer; /* "adamw" */
    const char *settings;  /* "betas = (0.9, 0.999), eps = 1e-8" */
    double decay;
    bool all_decay;       /* not matrices alone */
    const char *schedule; /* "cosine" */
    const char *more;     /* what follows its steps: ", floor = 1e-6" */
    double rate, clip;
    int64_t warmup, steps; /* steps 0: not known before the data are */
    const char *precision; /* as the train block has it */
    const char *lines;     /* more lines of the train block */

    int stage;     /* of ZeRO */
    int64_t group; /* ranks among which parameters, or with `copies` all of it, are split; 0: all */
    bool copies;
    const char *state, *parameters; /* the level below, "host" or "disk"; NULL: they stay */
    const char *recompute;
} Recipe;

/* The device and the number of ranks that the options say; false after an error. */
bool recipe_begin(Recipe *r, Session *s);
/* A block of text each. */
const char *recipe_train(const Recipe *r);
const char *recipe_layout(const Recipe *r);
/* A text of the language in the one form; NULL after errors. */
const char *recipe_formatted(Session *s, const char *text);

/* All modules with a matrix in layers, as LLaMA-Factory finds them: no head, no table. */
Words recipe_modules(const Session *s, const Module *m);

/* ---- deepspeed.c ---- */

/* DeepSpeed's config into a recipe that may have the trainer's numbers already (trainer: it has
 * them). False after errors. */
bool deepspeed_read(Recipe *r, Keys *k, const char *path, bool trainer);
Exit command_import_ds(Session *s, const char *path);

/* ---- llamafactory.c ---- */
Exit command_import_yaml(Session *s);

#endif
