/* factory.h - mgc import-yaml: what the files about LLaMA-Factory's settings share. */
#ifndef MGC_FACTORY_H
#define MGC_FACTORY_H

#include "compiler/recipe/recipe.h"

/* A set of records, and its token file. */
typedef struct DataSet {
    const char *name; /* of the token file, in the folder of the import */
    const char *command;
    bool held; /* for evaluation */
    const char *share;
} DataSet;

typedef struct Factory {
    Session *s;
    const char *path, *dir; /* the file; the folder that is written */
    Keys k;
    Recipe r;
    const char *model; /* its directory */
    Imported made;
    const char *text; /* of the model, as it is to be */

    bool pretrain;         /* stage pt: texts, not conversations */
    const char *objective; /* of mgc tune, with its settings; NULL: the next token */
    bool pairs, marked;    /* its records: of two answers, or of one with a mark */
    const char *base;      /* what a frozen base is kept in: ", base = nf4", or "" */
    bool packed, lora, freeze, merges;
    int64_t kept; /* freeze: the first layer that is trained, or the first that is not */

    VEC(DataSet) sets;
    VEC(Keys *) others;   /* files that were read beside: their lines */
    double epochs, ratio; /* of the warm-up */
    const char *options;  /* of ./train */
    const char *held;     /* ... what is held out of --data */
    int64_t records;      /* ... so many, where it is a number */
    const char *init;     /* a word of the shell */
    const char *before;   /* lines of the script before all others */
    bool by_epoch;        /* the script has to know the steps of an epoch */
} Factory;

/* A text as one word of a shell. */
const char *factory_quoted(const Factory *f, const char *text);
/* A path as it is, or beside the YAML; NULL: there is neither. */
const char *factory_find(const Factory *f, const char *path);

/* factory_method.c: stage, what is trained. Before and after the model is known. */
void factory_method(Factory *f);
void factory_trained(Factory *f);
/* factory_preference.c: the objective of a stage, and all keys of preferences; false: it has none.
 */
bool factory_preference(Factory *f, const char *stage);
/* factory_train.c: sizes, optimizer, schedule, precision; then the options of a run. */
void factory_numbers(Factory *f);
void factory_run(Factory *f);
/* factory_data.c */
void factory_data(Factory *f);
/* factory_model.c: the model's text with this recipe; false after errors. */
bool factory_model(Factory *f);
/* factory_script.c */
const char *factory_script(const Factory *f);

#endif
