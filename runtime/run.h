/* run.h - the runtime's own header: the state of a run and what each file of this folder offers.
 *
 * The emitted program sees abi.h alone. Everything here begins with rt_, because it is linked into
 * the same program as generated code. Only signals.c, text.c and ranks.c hold mutable globals (a
 * signal handler and the end of the process have no argument); the rest of the state of the process
 * is one mg_run, owned by main(). */
#ifndef MG_RUN_H
#define MG_RUN_H

#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "runtime/abi.h"
#include "runtime/files.h"
#include "runtime/net/world.h"

/* ---- how a program ends (text.c) ---------------------------------------------------------- */

typedef enum rt_exit {
    RT_DONE = 0,
    RT_FAILED = 1,     /* a run-time failure: non-finite loss, no memory */
    RT_USAGE = 2,      /* the command line */
    RT_BAD_DATA = 65,  /* data or a checkpoint is not what it should be */
    RT_LOST = 69,      /* a rank is gone */
    RT_IO = 74,        /* the system could not read or write */
    RT_STOPPED = 75,   /* stopped by a signal, after saving: run again with --resume */
    RT_NO_DEVICE = 77, /* there is no GPU */
    RT_MISFIT = 78,    /* this machine or library is not the one compiled for */
} rt_exit;

/* "train: error: ..." on stderr, then exit(code). */
_Noreturn void rt_die(rt_exit code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rt_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* and goes on */
void rt_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void rt_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* From now on messages begin with the rank. A quiet process says nothing: another one does. What
 * rt_die calls before the process ends (NULL: nothing). */
void rt_speak_for(int rank);
void rt_be_quiet(bool quiet);
void rt_at_parting(void (*parting)(rt_exit code));

/* Memory that cannot be had ends the program. rt_alloc gives zeroes. */
void *rt_alloc(size_t n, size_t size);
void *rt_grow(void *p, size_t n, size_t size);
char *rt_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

typedef struct rt_words {
    char text[32];
} rt_words;
rt_words rt_bytes_text(double bytes);                       /* "1.50 GiB" */
rt_words rt_count_text(double n);                           /* "1.27M" */
rt_words rt_rate_text(double per_second, const char *unit); /* "6.46 GFLOP/s" */
rt_words rt_duration_text(double seconds);                  /* "1:07:22" */
rt_words rt_ms_text(double ms);                             /* "412 ms" */
rt_words rt_double_text(double x); /* shortest decimal that reads back as x */
/* `text` as the inside of a JSON string; bytes that are not UTF-8 become U+FFFD. To be freed. */
char *rt_json_escape(const char *text);
/* `text`, out of a file, for a terminal: bytes that one acts on, and what is no UTF-8, as \xNN. To
 * be freed. rt_die and its kin write all of a message so. */
char *rt_shown(const char *text);
/* A formatted message so, in which lines may follow that are indented by two blanks. */
char *rt_shown_lines(const char *fmt, va_list ap);
int64_t rt_now_ns(void);   /* monotonic */
double rt_wall_time(void); /* seconds since 1970 */
/* "90", "15m", "3h20m", "1:30:00": seconds, or NAN. */
double rt_duration(const char *text);

/* ---- options.c ---------------------------------------------------------------------------- */

typedef struct rt_list {
    const char **item;
    int n;
} rt_list;
typedef struct rt_span {
    bool given;
    int64_t from, to;
} rt_span;

/* One field a row of options.def. A number that was not given is RT_UNSET. */
#define RT_UNSET INT64_MIN
typedef struct rt_options {
#define OPTION_TEXT(field, ...)  const char *field;
#define OPTION_LIST(field, ...)  rt_list field;
#define OPTION_MAYBE(field, ...) const char *field;
#define OPTION_COUNT(field, ...) int64_t field;
#define OPTION_REAL(field, ...)  double field; /* NAN: not given */
#define OPTION_SPAN(field, ...)  rt_span field;
#define OPTION_FLAG(field, ...)  bool field;
#define OPTION_REFUSED(name, ...)
#include "runtime/options.def"
} rt_options;

/* Reads the command line; ends the program on a bad one (2), --help and --version (0). */
void rt_options_parse(rt_options *o, const mg_program *p, int argc, char **argv);

/* ---- pool.c ------------------------------------------------------------------------------- */

typedef struct rt_pool rt_pool;
int rt_default_threads(void);          /* cores this process may run on, within its CPU quota */
int rt_cores_of(const cpu_set_t *set); /* of some, within that quota */
rt_pool *rt_pool_new(int threads, bool pin);
void rt_pool_free(rt_pool *p);
/* Gives every thread `bytes` of zeroed scratch (64-byte aligned; touched by its own thread). */
void rt_pool_scratch(rt_pool *p, int64_t bytes);
/* From now on the caller of rt_pool_run calls `look` between parts of what it does itself, as long
 * as that says that there is something to look after; and in a part, by rt_pool_look, which does
 * nothing on another thread, with another scratch. */
void rt_pool_beside(rt_pool *p, bool (*look)(void *ctx), void *ctx);
void rt_pool_look(rt_pool *p, const void *scratch);
void rt_pool_run(rt_pool *p, int64_t units, int64_t grain, mg_task *fn, void *ctx);

/* ---- ranks.c: the mesh; see ranks.h ---------------------------------------------------------- */

int rt_ranks_of(const mg_program *p, uint32_t axes); /* along some axes; ~0: of the mesh */
int rt_place_of(const mg_program *p, int rank, uint32_t axes);
char *rt_ranks_arena(const mg_run *r);

/* ---- the device: launch.c and arena.c, or the folder cuda ---------------------------------- */

/* Ends the program where it cannot run here: 77 without a GPU, 78 on another processor. */
void rt_device_open(mg_run *r);
/* Starts the ranks that this machine has, before any thread, unless they had to be started before
 * the device was opened. */
void rt_device_ranks(mg_run *r);
/* Arenas are memory of the host, and those of one machine its ranks' common memory; else each is
 * its rank's alone. */
extern const bool rt_arenas_are_shared;
/* Bytes of the arena, in the order of what is called before and after. */
void rt_device_fill(mg_run *r, int64_t offset, int byte, int64_t bytes);
void rt_device_wait(mg_run *r); /* until all that was called is done */
typedef enum rt_program { RT_STEP, RT_EVAL, RT_SAMPLE, RT_PROGRAMS } rt_program;
void rt_device_run(mg_run *r, rt_program which); /* on this rank */
void rt_device_close(mg_run *r);
/* Of a device that works apart from its host: how many collectives it has entered and left, and in
 * which action it is in one (else -1). */
typedef struct rt_progress {
    uint64_t passed;
    int action;
} rt_progress;
rt_progress rt_device_progress(const mg_run *r);
/* The GPU, or why there is none, to be freed; NULL: the device is the processor. */
char *rt_device_text(bool *there);
/* watch.c: looks at the outputs of a generated kernel, if anyone wants to. */
void rt_watch_outputs(mg_run *r, int action, void *const *p);

typedef struct rt_memory {
    int64_t arena, scratch, other, total; /* bytes: planned */
    int64_t available;                    /* bytes: MemAvailable, cgroup and rlimit, the least */
    const char *limit;                    /* which of them is the least */
} rt_memory;
/* Of the ranks on this machine together. */
rt_memory rt_memory_plan(const mg_run *r);
/* Of a host, the most main memory that the program's processes on this machine have had, shared
 * pages once, and how many they are; of a GPU, what is in use of its memory now. Bytes, -1:
 * unknown. */
int64_t rt_memory_used(const mg_run *r, int *processes);
/* Maps, aligns and touches the arena with the pool; ends the program if it does not fit. */
void rt_arena_map(mg_run *r);
/* poison.c: from now on dead bytes are NaN, those of the arena behind the persistent ones first. */
void rt_poison(mg_run *r);
void rt_poison_dead(mg_run *r, int event);

/* The arena may be the memory of a device: the host reads and writes it by these alone. */
void rt_put_own(mg_run *r, int64_t offset, const void *from, int64_t bytes);
/* commands.c: all ranks run a program. */
void rt_run(mg_run *r, rt_program which);
/* What rank 0 puts is so on all ranks. */
void rt_put(mg_run *r, int64_t offset, const void *from, int64_t bytes);
/* Sequence number b of an entry, to those ranks that have it; `offset`: of the first. */
void rt_put_row(mg_run *r, const mg_entry *e, int64_t offset, int64_t b, const void *from,
                int64_t bytes);
void rt_get(const mg_run *r, int64_t offset, void *to, int64_t bytes);
double rt_get_f64(const mg_run *r, int64_t offset);
/* The stored elements of an external tensor in memory of the host, one tensor at a time: with
 * `read` as they are; otherwise all that is not its padding is to be written. Closed, they are in
 * the arena if they were changed. */
struct rt_external;
char *rt_stored_open(mg_run *r, const struct rt_external *x, bool read);
void rt_stored_close(mg_run *r, const struct rt_external *x, bool changed);

/* ---- crc32c.c, shuffle.c ------------------------------------------------------------------ */

uint32_t rt_crc32c(uint32_t crc, const void *p, size_t n); /* start and chain with crc = 0 */
uint64_t rt_mix64(uint64_t x);
/* Where i of [0, n) goes in the pseudo-random permutation named `key`. */
uint64_t rt_permute(uint64_t key, uint64_t n, uint64_t i);

/* ---- data.c ------------------------------------------------------------------------------- */

typedef struct rt_segment {
    int file;                /* index in rt_data.file */
    int64_t first, tokens;   /* first token, number of tokens */
    int64_t windows, before; /* windows of it, and of the segments before it */
} rt_segment;
typedef struct rt_file {
    char *path;
    int fd;
    int raw;   /* bytes a token that the user says it has, or 0 */
    int width; /* bytes a token: 1, 2, 4 or 8 */
    bool is_signed;
    int64_t start, tokens; /* byte offset of the first token; tokens in the file */
    int64_t bytes;         /* of the file, when it was opened, and when it was changed last */
    struct timespec changed;
    struct rt_file *weights; /* of its tokens as targets, or NULL; owned */
} rt_file;
typedef struct rt_table rt_table;
typedef struct rt_blend rt_blend;
typedef struct rt_data {
    int64_t seq; /* targets of a window; a window is seq + 1 tokens */
    rt_file *file;
    rt_segment *segment;
    int nfiles, nsegments;
    int64_t tokens, windows;
    rt_blend *blend; /* sources by weight, each a set of its own, or NULL */
    rt_table *table; /* rows of named inputs instead (windows, tokens: rows), or NULL */
    int64_t first;   /* row */
    bool borrowed;   /* files and table are another's */
} rt_data;

/* Opens and checks the files of `patterns` (globs); every failure ends the program with 65. */
rt_data *rt_data_open(const rt_list *patterns, const char *option, int64_t seq, int64_t vocab);
/* The files of `patterns`, not yet opened. */
rt_data *rt_data_find(const rt_list *patterns, const char *option);
/* NULL, or which file changed since it was opened, and how (to be freed). */
char *rt_data_changed(const rt_data *d);
/* Moves the last `fraction` of the tokens into a set of their own. */
rt_data *rt_data_hold_out(rt_data *d, double fraction);
/* Fixed order for evaluation: seq apart, from the start of each segment. */
void rt_data_in_order(rt_data *d);
/* Sample number `index` of the endless shuffled sequence, or of the fixed order, becomes the
 * entry's sample number `b`: a window of tokens, or a row of each input. */
void rt_data_sample(mg_run *r, const rt_data *d, const mg_entry *e, int64_t b, int64_t index,
                    bool shuffled);
/* Window number `index` of the endless shuffled sequence named `seed`, or of the fixed order. */
typedef struct rt_place {
    const rt_file *file;
    int64_t first; /* token */
} rt_place;
rt_place rt_data_window(const rt_data *d, uint64_t seed, int64_t index);
rt_place rt_data_window_in_order(const rt_data *d, int64_t index);
/* Opens the weights beside all files; ends the program where they do not fit. */
void rt_data_weigh(rt_data *d);
void rt_data_close(rt_data *d);

/* ---- tokens.c ----------------------------------------------------------------------------- */

/* Opens f->path in the format that it is in and checks every token; ends the program with 65. */
void rt_tokens_open(rt_file *f, int64_t seq, int64_t vocab);
void rt_tokens_read(const rt_file *f, int64_t first, int64_t n, int32_t *out);
char *rt_tokens_changed(const rt_file *f);                            /* as rt_data_changed */
void rt_file_read(const rt_file *f, void *to, int64_t n, int64_t at); /* or ends the program */

/* ---- target_weights.c --------------------------------------------------------------------- */

void rt_targets_open(rt_file *f);
rt_file *rt_targets_again(const rt_file *w); /* another descriptor of them */
void rt_targets_read(const rt_file *f, int64_t first, int64_t n, mg_dtype dtype, void *out);
void rt_targets_close(rt_file *w); /* NULL: nothing */

/* ---- blend.c ------------------------------------------------------------------------------ */

/* Takes over `source` and what is in it. */
rt_blend *rt_blend_new(rt_data **source, const double *weight, int n);
rt_blend *rt_blend_like(const rt_blend *b, rt_data **source);
void rt_blend_free(rt_blend *b);
/* Whose number *index is sequence g; in order: source after source. */
const rt_data *rt_blend_pick(rt_blend *b, int64_t g, int64_t *index);
const rt_data *rt_blend_in_order(const rt_blend *b, int64_t *index);
uint64_t rt_blend_key(const rt_blend *b); /* of the shares */
int rt_blend_sources(const rt_blend *b, rt_data ***source);

/* ---- table.c: the same for named inputs --------------------------------------------------- */

rt_data *rt_table_open(const rt_list *patterns, const char *option, const mg_entry *e);
rt_data *rt_table_hold_out(rt_data *d, double fraction);
void rt_table_row(mg_run *r, const rt_data *d, const mg_entry *e, int64_t row, int64_t sample);
void rt_table_close(rt_data *d);

/* ---- catalog.c ---------------------------------------------------------------------------- */

/* What all layers (and experts) of a stored tensor have alike as the outside knows them: slices of
 * it, their dims reordered. */
typedef struct rt_form {
    const mg_tensor *tensor;
    int rank;
    int64_t shape[MG_RANK_MAX];
    int64_t elements;
    int ndims; /* the dims behind the shape, before merging: sizes and strides in elements */
    int64_t dim[MG_RANK_MAX], stride[MG_RANK_MAX];
    /* Of a tensor that is split over ranks: how much of each dim a rank has, and on which axes. */
    int copies; /* arenas that have it, where all do; bytes between them */
    int64_t apart;
    const mg_program *split; /* NULL: each rank has all of it */
    int64_t part[MG_RANK_MAX];
    uint32_t axes[MG_RANK_MAX], zigzag[MG_RANK_MAX];
    int64_t
        unit[MG_RANK_MAX]; /* elements that lie behind each other on a rank, wherever they begin */
    uint32_t on;           /* the axes that layers or experts are split on */
} rt_form;
/* One of them. There are as many as there are layers: so it holds little. */
typedef struct rt_external {
    const rt_form *form;
    char *name;      /* "model.layers.3.mlp.up_proj.weight"; "exp_avg." before it for a slot */
    int64_t offset;  /* elements from the start of the stored tensor */
    int16_t *stands; /* by rank: in whose place of rank 0's memory what it has is kept; owned; NULL:
                        each in its own */
    int place;       /* along form->on: that of the ranks which have it */
} rt_external;
typedef struct rt_catalog {
    rt_external *item; /* sorted by name */
    rt_form *form;     /* as many as there are tensors of the role */
    int n;
    int64_t bytes;   /* of the tensors */
    int64_t memory;  /* bytes of the host that it takes, */
    int64_t entries; /* and those that a header with an entry for each takes at most */
} rt_catalog;

/* Ends the program (78) on a table that contradicts itself. */
rt_catalog rt_catalog_new(const mg_program *p, mg_role role);
void rt_catalog_free(rt_catalog *c);
/* Has a rank any part of it? */
bool rt_external_has(const rt_external *x, int rank);
/* Elements [begin, begin + n) in external order, out of and into what rt_stored_open gave. */
void rt_external_get(const rt_external *x, const char *stored, int64_t begin, int64_t n, void *out);
void rt_external_put(const rt_external *x, char *stored, int64_t begin, int64_t n, const void *in);

/* ---- init.c, lr.c ------------------------------------------------------------------------- */

void rt_init(mg_run *r);
double rt_lr(const mg_lr *lr, int64_t step);

/* ---- guard.c, trace.c --------------------------------------------------------------------- */

typedef struct rt_guard {
    bool tripped;
    int action;
    double loss, norm;
} rt_guard;
typedef struct rt_check { /* the first non-finite value seen while looking for one */
    bool found;
    int action;
    int output;   /* which of its outputs, from 1 */
    int outputs;  /* outputs of the running action seen so far */
    int64_t call; /* which run of the action in this step, from 1 */
    int64_t element, elements;
    double value;
    int64_t *calls; /* per action, in this step */
} rt_check;
/* What a guard decides: does the step go on? If not, it was a spike, or an overflow that is left
 * out, or r->guard is set. */
bool rt_guard_passes(mg_run *r, int action, double loss, double norm);
/* Runs the step again, looking at the outputs of every action, and says what it found. */
void rt_find_non_finite(mg_run *r, int64_t step);
void rt_check_output(mg_run *r, int action, const void *p, int64_t n, mg_dtype t);

/* dump.c: before the first step of rank 0; then, for each output, of every rank. */
void rt_dump_open(const mg_run *r);
void rt_dump(mg_run *r, int action, const void *p, int64_t n, mg_dtype t);

/* trace.c, trace.h: of a rank. `action` is in mg_program.actions; of a pipeline each operation is
 * told before it is done, and the end of the table. */
typedef struct rt_trace rt_trace;
rt_trace *rt_trace_new(const mg_program *p);
void rt_trace_begin(rt_trace *t, int action);
void rt_trace_end(rt_trace *t, int action);
void rt_trace_phase(rt_trace *t, const mg_pipe_op *o);
/* Up to now; what was recorded since the step before is of this one. */
void rt_trace_step(rt_trace *t, int64_t step, int64_t begin_ns);
/* Rank 0: asks other machines for their clocks, before the first traced step and after the last. */
void rt_trace_clocks(mg_run *r, bool after);
/* Rank 0: writes OUT/trace.json with what all ranks recorded, and prints its own costliest actions,
 * predicted beside measured. */
void rt_trace_write(mg_run *r, const char *path);
void rt_trace_free(rt_trace *t);

/* ---- spike.c ------------------------------------------------------------------------------ */

/* Is this step to be skipped? (r->skipped is then set.) */
bool rt_spike(mg_run *r, double loss, double norm);
void rt_spike_observe(mg_run *r, double loss, double norm); /* of a step that was not */

/* ---- scale.c ------------------------------------------------------------------------------ */

void rt_scale_start(mg_run *r);
/* A step whose gradients are not finite: is it only to be left out? (r->overflow is then set.) */
bool rt_scale_forgives(mg_run *r);
void rt_scale_good(mg_run *r);       /* after one whose gradients were */
int64_t rt_updates(const mg_run *r); /* steps done that were not left out */

/* ---- signals.c ---------------------------------------------------------------------------- */

/* `r` is what SIGUSR2 tells of. */
void rt_signals_catch(const mg_run *r);
void rt_signals_follow(const mg_run *r); /* of a rank that does as it is told: SIGUSR2 alone */
int rt_signal_stop(void);                /* the signal that asks to save and stop, or 0 */
bool rt_signal_save(void);               /* true once after SIGUSR1: save and go on */

/* ---- log.c, history.c, tfevents.c, svg.c -------------------------------------------------- */

typedef struct rt_point {
    int64_t step;
    double value;
} rt_point;
typedef struct rt_points {
    rt_point *item;
    size_t n, cap;
} rt_points;
typedef struct rt_history {
    rt_points loss, val;
} rt_history;
void rt_points_add(rt_points *p, int64_t step, double value);
/* Reads metrics.jsonl up to and including `step`; cuts the rest of the file and a torn last line
 * away. False with errno if the file could not be rewritten. */
bool rt_history_read(rt_history *h, const char *path, int64_t step);
void rt_history_free(rt_history *h);

typedef struct rt_tfevents rt_tfevents;
size_t rt_tf_header(uint8_t out[64], double wall_time);
size_t rt_tf_scalar(uint8_t out[256], double wall_time, int64_t step, const char *tag, float x);
size_t rt_tf_start(uint8_t out[64], double wall_time, int64_t step);

/* Draws the loss; NULL, or why it could not. */
const char *rt_svg_write(const char *path, const rt_history *h, const char *title,
                         const char *subtitle);

typedef struct rt_log rt_log;
/* Every step, logged or not. */
void rt_log_observe(rt_log *l, double loss, double step_ms);
rt_log *rt_log_open(mg_run *r, int64_t resumed_step);
typedef struct rt_step_report {
    int64_t step; /* steps done */
    double loss, norm, lr, step_ms;
    double scale; /* of the loss; 0: the program has none */
    bool skipped, overflow;
} rt_step_report;
void rt_log_step(rt_log *l, const rt_step_report *s);
void rt_log_eval(rt_log *l, int64_t step, double val_loss, double seconds);
void rt_log_line(rt_log *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rt_log_draw(rt_log *l); /* loss.svg */
void rt_log_sync(rt_log *l);
void rt_log_close(rt_log *l); /* prints the summary */

/* ---- checkpoint.c, resume.c --------------------------------------------------------------- */

typedef struct rt_spikes { /* of loss and gradient norm; see spike.c */
    int64_t seen, skipped, in_a_row;
    double mean[2], variance[2];
} rt_spikes;

typedef struct rt_scale { /* of the loss; see scale.c */
    double value;
    int64_t hysteresis;  /* overflows until it is halved, and one */
    int64_t steps, last; /* steps counted; the number of the last that overflowed, or -1 */
    int64_t overflows;
} rt_scale;

typedef struct rt_state { /* what a run is besides its tensors */
    int64_t step;         /* steps done */
    int64_t sequences;    /* sequences read */
    int64_t seed;
    double lr;     /* the peak given by --lr, or NAN */
    int64_t steps; /* given by --steps, or RT_UNSET */
    int64_t data_tokens, data_windows;
    uint64_t blend; /* of the weights of the sources; 0: none */
    rt_spikes spikes;
    rt_scale scale;
} rt_state;

int64_t rt_checkpoint_bytes(const mg_run *r);
/* True if the state is now on disk; else a warning was printed and nothing was lost. */
bool rt_checkpoint_save(mg_run *r);
/* The name of a step's checkpoint under OUT/ckpt. */
rt_words rt_checkpoint_name(int64_t step);
/* Steps of the checkpoints in OUT/ckpt, newest first; -1 ends it. To be freed. */
int64_t *rt_checkpoint_list(const char *out);
/* Removes all but the --keep newest. */
void rt_checkpoint_prune(const mg_run *r);
void rt_checkpoint_clean(const char *out); /* removes what an interrupted save left */

/* NULL if `dir` is a whole checkpoint of this program, else why not (to be freed). */
char *rt_checkpoint_verify(const mg_run *r, const char *dir, rt_state *state);
/* Finds what --resume asks for; NULL if it may start afresh. Ends the program with 65. */
char *rt_resume_find(const mg_run *r, rt_state *state);
/* Fills parameters and state; ends the program with 65. */
void rt_resume_load(mg_run *r, const char *dir);
/* Moves the checkpoints after `step` (and with step < 0 the log) to OUT/previous-N. */
void rt_resume_set_aside(const mg_run *r, int64_t step);

/* ---- weights.c ---------------------------------------------------------------------------- */

typedef struct rt_weights rt_weights;
/* What --init names, checked against the program; ends the program with 65 and a list of all that
 * does not fit. */
rt_weights *rt_weights_open(const mg_run *r, const char *path);
void rt_weights_load(mg_run *r, rt_weights *w); /* fills the parameters */
void rt_weights_close(rt_weights *w);

/* ---- train.c, eval.c, sample.c, info.c ---------------------------------------------------- */

void rt_open_data(mg_run *r); /* --data, --val, --val-fraction */
rt_exit rt_train(mg_run *r);
void rt_fill_batch(mg_run *r); /* every input of the next step; the step may overwrite them */
void rt_fill_scalars(mg_run *r, const mg_entry *e, int64_t step); /* lr, step, seed */
/* How many windows of a set are evaluated: all, or those of --eval-batches. */
int64_t rt_eval_windows(const mg_run *r, const rt_data *d);
/* The loss of these windows as one batch, or, where its rows depend on each other, the mean over
 * whole batches, of which there is one at least (rt_open_data). */
double rt_eval(mg_run *r, const rt_data *d);
void rt_sample(mg_run *r);
void rt_info(const mg_run *r);
rt_exit rt_dry_run(mg_run *r);
/* NULL, or the features this processor lacks ("avx512f, amx-bf16"; to be freed). */
char *rt_cpu_lacks(const char *features);
/* The same of those that cannot be asked for. */
char *rt_cpu_unknown(const char *features);

/* ---- surprise.c: what actions take beside what was predicted ------------------------------- */

typedef struct rt_costs rt_costs;
rt_costs *rt_costs_new(const mg_program *p); /* for rt_costs_free */
void rt_costs_free(rt_costs *c);             /* NULL too */
/* A step begins: is it measured? Then rt_costs_stepped ends it. now: rt_now_ns(). */
bool rt_costs_step(rt_costs *c, int64_t now);
void rt_costs_stepped(rt_costs *c, int64_t now);
void rt_costs_begin(rt_costs *c, int64_t now);
void rt_costs_end(rt_costs *c, int action, int64_t now);
/* Lines for the end of a run, to be freed; NULL where there is no surprise, or c is NULL or was
 * never used. */
char *rt_costs_text(const rt_costs *c, const mg_program *p);

/* ---- the run ------------------------------------------------------------------------------ */

enum {
    RT_WATCH_TIME = 1,
    RT_WATCH_VALUES = 2,
    RT_WATCH_POISON = 4,
    RT_WATCH_DUMP = 8,
    RT_WATCH_COST = 16
};
/* Is anyone interested in outputs? */
enum { RT_WATCH_OUTPUTS = RT_WATCH_VALUES | RT_WATCH_DUMP };

struct mg_run {
    const mg_program *program; /* mg_main and its code: main.c alone names them */
    void (*step)(mg_run *), (*eval)(mg_run *), (*sample)(mg_run *);
    const rt_options *options;
    mg_lr lr; /* the program's, with the peak and steps of the command line */
    int threads;
    rt_pool *pool;
    char *arena;
    rt_world world;
    int rank;                    /* 0: the leader */
    struct rt_ranks *ranks;      /* NULL: one rank */
    struct rt_cuda *cuda;        /* the folder cuda's, or NULL */
    unsigned watch;              /* RT_WATCH_*: 0 while nobody looks */
    _Atomic int action;          /* running now, or -1: for SIGUSR2 and the watchdog */
    _Atomic uint64_t begun;      /* actions so far */
    volatile int64_t step_began; /* ns */
    bool dumped;                 /* the first step of --dump was run */
    int64_t traced;              /* the step that runs, if it is traced; else 0 */
    double scale;                /* of the loss in this step */
    bool skipped, overflow;      /* the step was a spike; its gradients were not finite */
    int64_t started;             /* ns */
    int64_t deadline;            /* of --max-time, ns, or 0 */
    int64_t save_ns;             /* what the last save took */
    double longest_ms;           /* step */
    rt_guard guard;
    rt_check check;
    rt_trace *trace;
    rt_costs *costs; /* the leader's, on a processor; else NULL */
    rt_log *log;
    rt_data *data, *val;
    rt_state state;
    rt_catalog params, slots;
    rt_weights *weights; /* what the run starts from instead of initial values, or NULL */
    int64_t saved_step;  /* of the newest checkpoint known good, or -1 */
    int lock;            /* OUT/.lock: one writer a directory */
    rt_exit code;        /* with which the program ends, once that is known */
};

#endif
