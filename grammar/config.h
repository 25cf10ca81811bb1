/* config.h - what train.c and layout.c share: settings are names with values that look like calls.
 */
#ifndef MGC_CONFIG_H
#define MGC_CONFIG_H

#include "grammar/elab.h"

/* goals.c: the loss that a train block with a name is for; NULL after an error. */
Goal *add_goal(Elab *e, const Node *train);
/* Refuses several losses where the layout or the precision takes one; once both are known. */
void check_goals(Elab *e);

/* The one value of a setting; NULL after an error. */
const Node *config_value(Elab *e, const Node *setting);
/* Index in `names` (NULL at the end) of a NAME's or CALL's name; -1 after an error that lists them.
 */
int config_choice(Elab *e, const Node *value, const char *what, const char *const *names, int code);
/* Arguments of a CALL by name into slots (NULL: not given); one without a name takes the next slot.
 * Only an argument named `conditional` may have a `where`. */
bool config_args(Elab *e, const Node *value, const char *const *names, const Node **slots,
                 const char *conditional, int code);
/* The setting `precision` (precision.c); and the name that the command line puts in its place. */
void read_precision(Elab *e, const Node *value, Train *t);
void override_precision(const char *name, Train *t);
/* A layout's line `precision bf16, fp8`: those that a search may choose from (`layout auto`). */
void check_precisions(Elab *e, const Node *setting, bool searched);
/* rollout.c: the setting `rollout`. */
void read_rollout(Elab *e, const Node *value, Rollout *o);
/* The precision that nobody gave: bf16 on a GPU, f32 on a processor. To call after read_layout,
 * which finds the device. */
void default_precision(const Elab *e, Train *t);
/* After default_precision: whether the program can be in fp8, if it says so; else told. */
bool fp8_fits(Elab *e, Train *t);
/* After default_precision: whether the program can keep optimizer state as it says; else told. With
 * --precision f64 it is kept in f64. */
bool state_fits(Elab *e, Train *t);
/* pad.c: the paddings of a layout. Then, after default_precision, those that nobody said: `try`
 * elaborates the program with some, NULL where it cannot. */
typedef VEC(Padded) PaddedList;
typedef const Module *TryPadding(void *ctx, const PaddedList *pads);
void read_pads(Elab *e, const NodeList *pads, bool chosen);
void pad_by_default(Elab *e, TryPadding *try, void *ctx);
void pad_as_tried(Elab *e, const PaddedList *pads);
/* offload.c: a line `offload ...` of a layout, whose mesh is known. */
void layout_offload(Elab *e, const Node *setting, Layout *l);
void override_offload(const Elab *e, Layout *l); /* by the command line */
/* ... then `optimizer ...`, or NULL. */
void layout_optimizer(Elab *e, const Node *value, bool chosen, Layout *l);
/* Checks a layout for `reduce = tree` (tree.c); `at` is the place of its microbatch. */
void check_tree(Elab *e, const Layout *l, Span at);
/* stages.c: options of a rule's axis; the pipeline of a rule of the chosen layout, if it is one;
 * and what the chosen layout has beside its pipeline. */
void check_axis_options(Elab *e, const Node *axis);
/* An option without a value says how the rule's dim is split on an axis; others are left alone. */
void read_axis_word(Elab *e, const Node *option, Axes axis, LayoutRule *rule);
void read_stages(Elab *e, const Node *rule, Name dim, const LayoutRule *kept, Layout *l);
/* Warns where a rule of axes of one rank asks for pairs, which a pipeline has. */
void warn_of_pairs(Elab *e, const Node *rule);
/* The loop that is cut into stages, where the iterations of its repeat are of several kinds. */
void stages_of_kinds(Elab *e);
void check_stages(Elab *e, const Layout *l);
/* train.c: a number in [low, high), or above 0 where low is -1; 1 or 0. n: NULL leaves it. */
bool config_within(Elab *e, const Node *n, const char *what, double low, double high, double *d);
bool config_flag(Elab *e, const Node *n, const char *what, bool *yes);
bool config_real(Elab *e, const Node *n, double *d); /* outside of blocks */
bool config_integer(Elab *e, const Node *n, int64_t least, int64_t *i, int code);

#endif
