/* run.h - the runtime's own header: the state of a run and what each file of this folder offers.
 *
 * The emitted program sees only abi.h. All names here begin with rt_, because the runtime is linked
 * into one program with generated code. Only signals.c, text.c and ranks.c have mutable globals (a
 * signal handler and the end of the process have no argument); all other state of the process is in
 * one mg_run, owned by main(). */
#ifndef MG_RUN_H
#define MG_RUN_H

#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "runtime/abi.h"
#include "runtime/best.h"
#include "runtime/checkpoint/catalog.h"
#include "runtime/files.h"
#include "runtime/goals.h"
#include "runtime/net/world.h"

/* ---- how a program ends (text.c) ---------------------------------------------------------- */

typedef enum rt_exit {
    RT_DONE = 0,
    RT_FAILED = 1,     /* a run-time failure: non-finite loss, no memory */
    RT_USAGE = 2,      /* the command line is wrong */
    RT_BAD_DATA = 65,  /* data or a checkpoint is wrong */
    RT_LOST = 69,      /* a rank is gone or hangs */
    RT_BROKE = 71,     /* the GPU, or a library of it, failed */
    RT_IO = 74,        /* the system could not read or write */
    RT_STOPPED = 75,   /* stopped by a signal, after saving: run again with --resume */
    RT_CORRUPT = 76,   /* --health found wrong bits, which were not saved */
    RT_NO_DEVICE = 77, /* there is no GPU */
    RT_MISFIT = 78,    /* this machine or library is not the one compiled for */
} rt_exit;

/* "train: error: ..." on stderr, then exit(code). */
_Noreturn void rt_die(rt_exit code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rt_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* does not exit */
void rt_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void rt_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* rt_speak_for: later messages begin with the rank. rt_be_quiet: a quiet process prints nothing,
 * because another one prints the same. rt_at_parting: rt_die calls the function before the process
 * ends (NULL: nothing). */
void rt_speak_for(int rank);
void rt_be_quiet(bool quiet);
void rt_at_parting(void (*parting)(rt_exit code));
/* A group of processes that is to end with this one, however that ends by itself; 0: none. */
void rt_ends_with_us(int64_t group);
void rt_end_group(void); /* ends it: before an _exit */

/* End the program if memory cannot be had. rt_alloc gives zeroes. */
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
/* `text` as the inside of a JSON string; bytes that are not UTF-8 become U+FFFD. The caller frees
 * it. */
char *rt_json_escape(const char *text);
/* `text` with U+FFFD for each byte that is not UTF-8. The caller frees it. */
char *rt_whole_utf8(const char *text);
/* `text` from a file, safe for a terminal: control characters, and bytes that are not UTF-8, become
 * \xNN. The caller frees it. rt_die and its kin write their messages so. */
char *rt_shown(const char *text);
/* A formatted message, escaped so; it may have more lines, each indented by two blanks. */
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
typedef struct rt_every {
    int64_t steps;  /* RT_UNSET: as the time says */
    double seconds; /* 0: as the steps say */
} rt_every;

/* One field for each row of options.def. A number that was not given is RT_UNSET. */
#define RT_UNSET INT64_MIN
enum { RT_BASE_MAX = 1024 }; /* bytes of a path in state.json */
typedef struct rt_options {
#define OPTION_TEXT(field, ...)  const char *field;
#define OPTION_LIST(field, ...)  rt_list field;
#define OPTION_MAYBE(field, ...) const char *field;
#define OPTION_COUNT(field, ...) int64_t field;
#define OPTION_REAL(field, ...)  double field; /* NAN: not given */
#define OPTION_EVERY(field, ...) rt_every field;
#define OPTION_SPAN(field, ...)  rt_span field;
#define OPTION_FLAG(field, ...)  bool field;
#define OPTION_REFUSED(name, ...)
#include "runtime/options.def"
} rt_options;

/* Reads the command line. Ends the program if it is bad (2), and after --help and --version (0). */
void rt_options_parse(rt_options *o, const mg_program *p, int argc, char **argv);
/* Frees the lists of options. */
void rt_options_free(const rt_options *o);

/* ---- pool.c ------------------------------------------------------------------------------- */

typedef struct rt_pool rt_pool;
int64_t rt_page(void);                 /* page.c: bytes of the kernel's page */
int64_t rt_whole_pages(int64_t bytes); /* rounded up to whole pages */
int rt_default_threads(void);          /* cores this process may run on, within its CPU quota */
int rt_cores_of(const cpu_set_t *set); /* cores of a set, within that quota */
rt_pool *rt_pool_new(int threads, bool pin);
void rt_pool_free(rt_pool *p);
/* Gives each thread `bytes` of zeroed scratch (64-byte aligned; touched by its own thread). */
void rt_pool_scratch(rt_pool *p, int64_t bytes);
/* From now on the caller of rt_pool_run calls `look` between parts of its own work, as long as
 * `look` returns true (it has something to drive); and inside a part by rt_pool_look, which does
 * nothing on another thread (recognised by its scratch). */
void rt_pool_beside(rt_pool *p, bool (*look)(void *ctx), void *ctx);
void rt_pool_look(rt_pool *p, const void *scratch);
void rt_pool_run(rt_pool *p, int64_t units, int64_t grain, mg_task *fn, void *ctx);

/* ---- ranks.c: the mesh; see ranks.h ---------------------------------------------------------- */

int rt_ranks_of(const mg_program *p, uint32_t axes); /* along some axes; ~0: of the mesh */
int rt_place_of(const mg_program *p, int rank, uint32_t axes);
/* Place of a rank among those that an entry's rows are split over, in the order of rows. */
int rt_place_of_rows(const mg_program *p, int rank, const mg_entry *e);
char *rt_ranks_arena(const mg_run *r);

/* ---- the device: launch.c and arena.c, or the folder cuda ---------------------------------- */

/* Ends the program if it cannot run here: exit 77 without a GPU, 78 on another processor. */
void rt_device_open(mg_run *r);
/* Starts the ranks of this machine before any thread, unless rt_device_open had to do that. */
void rt_device_ranks(mg_run *r);
/* True: arenas are host memory, shared by the ranks of a machine. False: each arena is private to
 * its rank. */
extern const bool rt_arenas_are_shared;
/* Fills bytes of the arena, in stream order with the calls before and after. */
void rt_device_fill(mg_run *r, int64_t offset, int byte, int64_t bytes);
void rt_device_wait(mg_run *r); /* waits until all calls are done */
typedef enum rt_program {
    RT_STEP,
    RT_EVAL,
    RT_SAMPLE,
    RT_ROUND,
    RT_PREFILL,
    RT_DECODE,
    RT_SPREAD,
    RT_PROGRAMS
} rt_program;
void rt_device_run(mg_run *r, rt_program which); /* on this rank */
void rt_device_close(mg_run *r);
/* For a device that runs asynchronously to its host: how many collectives it has entered and left,
 * and the action of the collective that it is in (else -1). */
typedef struct rt_progress {
    uint64_t passed;
    int action;
} rt_progress;
rt_progress rt_device_progress(const mg_run *r);
/* The GPU, or why there is none (the caller frees it); NULL: the device is the processor. */
char *rt_device_text(bool *there);
char *rt_device_facts(const mg_run *r); /* of a GPU, for traces: driver.c; freed by the caller */
/* watch.c: passes the outputs of a generated kernel to the watchers, if any. */
void rt_watch_outputs(mg_run *r, int action, void *const *p);

typedef struct rt_memory {
    int64_t arena, scratch, other, total; /* bytes: planned; in `other`, once it was taken, the copy
                                           * that checkpoints are written from */
    int64_t held;                         /* bytes of a GPU: taken before anyone can ask what is
                                           * available, and not in total */
    int64_t available;                    /* bytes: the least of MemAvailable, cgroup and rlimit */
    const char *limit;                    /* the name of that limit */
} rt_memory;
/* The memory of all ranks on this machine. */
rt_memory rt_memory_plan(const mg_run *r);
/* On a host: the peak main memory of the program's processes on this machine, shared pages counted
 * once, and the number of processes; on a GPU: the memory in use now. Bytes; -1: unknown. */
int64_t rt_memory_used(const mg_run *r, int *processes);
/* On a GPU: a line that compares what is planned beside the arena with what was taken (the caller
 * frees it). NULL: unknown, or a host. */
char *rt_outside_text(const mg_run *r);
/* Maps, aligns and touches the arena with the pool. Ends the program if memory is short. */
void rt_arena_map(mg_run *r);
/* poison.c: from now on dead bytes are NaN; first all bytes of the arena behind the persistent
 * ones. */
void rt_poison(mg_run *r);
void rt_poison_dead(mg_run *r, int event);

/* The arena may be device memory: the host reads and writes it only by these functions. */
void rt_put_own(mg_run *r, int64_t offset, const void *from, int64_t bytes);
/* commands.c: runs a program on all ranks. */
void rt_run(mg_run *r, rt_program which);
/* Rank 0 makes bytes 0 on one of the ranks. */
void rt_zero(mg_run *r, int rank, int64_t offset, int64_t bytes);
/* Rank 0 writes the bytes on all ranks. */
void rt_put(mg_run *r, int64_t offset, const void *from, int64_t bytes);
/* Writes the rows of all sequences of an entry, of `bytes` each, on the ranks that have them. */
void rt_put_rows(mg_run *r, const mg_entry *e, int64_t offset, const void *rows, int64_t bytes);
void rt_get(const mg_run *r, int64_t offset, void *to, int64_t bytes);
double rt_get_f64(const mg_run *r, int64_t offset);
/* The stored elements of an external tensor, or of a part, in host memory: one tensor at a time.
 * `read`: with their values; otherwise the caller writes all elements but padding. After
 * rt_stored_close with `changed` they are in the arena. */
char *rt_stored_open(mg_run *r, const rt_external *x, bool read);
/* Bytes from the first to the last of them, and the offset of the first. */
int64_t rt_stored_bytes(const rt_external *x, int64_t *offset);
void rt_stored_close(mg_run *r, const rt_external *x, bool changed);

/* ---- crc32c.c, shuffle.c ------------------------------------------------------------------ */

uint32_t rt_crc32c(uint32_t crc, const void *p, size_t n); /* start and chain with crc = 0 */
uint64_t rt_mix64(uint64_t x);
/* The image of i in [0, n) under the pseudo-random permutation `key`. */
uint64_t rt_permute(uint64_t key, uint64_t n, uint64_t i);

/* ---- data.c ------------------------------------------------------------------------------- */

typedef struct rt_segment {
    int file;                /* index in rt_data.file */
    int64_t first, tokens;   /* first token, number of tokens */
    int64_t windows, before; /* windows of the segment, and of the segments before it; of packed
                              * documents: its tokens, and theirs */
} rt_segment;
typedef struct rt_file {
    char *path;
    int fd;
    int raw;   /* bytes of a token as the user says, or 0 */
    int width; /* bytes of a token: 1, 2, 4 or 8 */
    bool is_signed;
    int64_t start, tokens; /* byte offset of the first token; tokens in the file */
    int64_t bytes;         /* file size when it was opened; `changed`: its last modification then */
    struct timespec changed;
    struct rt_file *weights; /* weights of its tokens as targets, or NULL; owned */
} rt_file;
typedef struct rt_table rt_table;
typedef struct rt_blend rt_blend;
typedef struct rt_pack rt_pack;
/* Documents that were packed into windows: what became of them. */
typedef struct rt_packing {
    int64_t documents, empty; /* all of them; those of fewer than two tokens, which are left out */
    int64_t longer, pieces;   /* than a window; of those, or 0: they are left out */
    int64_t windows;
    int64_t tokens, positions; /* tokens in windows; positions, of windows * seq, that have one */
} rt_packing;
typedef struct rt_data {
    int64_t seq, window; /* targets of a window; its tokens: seq and what is behind them */
    rt_file *file;
    rt_segment *segment;
    int nfiles, nsegments;
    int64_t tokens, windows;
    rt_blend *blend;    /* weighted sources, each a data set, or NULL */
    bool packs, drops;  /* windows are of whole documents; longer ones are left out */
    rt_pack *pack;      /* these windows, or NULL */
    rt_packing packing; /* what they have, of all sources together */
    rt_table *table;    /* named inputs (then windows and tokens count rows), or NULL */
    int64_t first;      /* first row */
    bool borrowed;      /* another data set owns files and table */
} rt_data;

/* Opens and checks files (globs), for windows seq apart; every failure ends the program with 65. */
rt_data *rt_data_open(const rt_list *patterns, const char *option, int64_t seq, int64_t window,
                      int64_t vocab);
/* Adds the files of a pattern, not yet opened, which may begin with u8:, u16: or u32:. */
void rt_data_add(rt_data *d, const char *pattern, const char *option);
/* NULL, or which file changed after it was opened, and how (the caller frees it). */
char *rt_data_changed(const rt_data *d);
/* Moves the last `fraction` of the tokens into a new data set. */
rt_data *rt_data_hold_out(rt_data *d, double fraction);
/* Sets the fixed order of evaluation: windows seq apart, from the start of each segment. */
void rt_data_in_order(rt_data *d);
/* Reads sample number `index`, of the endless shuffled sequence or of the fixed order, as the
 * batch's row `row`: a window of tokens, or a row of each input. */
typedef struct rt_batch rt_batch; /* data/batch.h */
void rt_data_sample(const mg_run *r, const rt_data *d, rt_batch *b, const mg_entry *e, int64_t row,
                    int64_t index, bool shuffled);
/* The place of window number `index` in the endless shuffled sequence of `seed`, or in the fixed
 * order. */
typedef struct rt_place {
    const rt_file *file;
    int64_t first; /* token */
} rt_place;
rt_place rt_data_window(const rt_data *d, uint64_t seed, int64_t index);
rt_place rt_data_window_in_order(const rt_data *d, int64_t index);
/* Opens the weights of all token files; ends the program if they do not fit. Packed documents may
 * have none: then each target counts 1. */
void rt_data_weigh(rt_data *d);
/* Warns of weights beside token files, for a program that takes none. */
void rt_data_unweighed(const rt_data *d);
void rt_data_close(rt_data *d);

/* ---- table.c: data sets of named inputs --------------------------------------------------- */

rt_data *rt_table_open(const rt_list *patterns, const char *option, const mg_entry *e);
rt_data *rt_table_hold_out(rt_data *d, double fraction);
void rt_table_row(const rt_data *d, rt_batch *b, const mg_entry *e, int64_t row, int64_t sample);
void rt_table_close(rt_data *d);

/* ---- init.c ------------------------------------------------------------------------------- */

void rt_init(mg_run *r);
/* Optimizer state that does not begin with zeros, which the arena has already. */
void rt_init_state(mg_run *r);

/* ---- guard.c, trace.c --------------------------------------------------------------------- */

typedef struct rt_guard {
    bool tripped;
    int action;
    double loss, norm;
} rt_guard;
typedef struct rt_check { /* the first non-finite value of the search */
    bool found;
    int action;
    int output;   /* number of the output of the action, from 1 */
    int outputs;  /* outputs of the running action seen so far */
    int64_t call; /* number of the run of the action in this step, from 1 */
    int64_t element, elements;
    double value;
    int64_t *calls; /* per action, in this step */
} rt_check;
/* The decision of a guard: true if the step goes on. If false, the step was a spike or a forgiven
 * overflow, or r->guard is set. */
bool rt_guard_passes(mg_run *r, int action, double loss, double norm);
/* Runs the step again, checks the outputs of each action, and prints what it found. */
void rt_find_non_finite(mg_run *r, int64_t step);
void rt_check_output(mg_run *r, int action, const void *p, int64_t n, mg_dtype t);

/* dump.c: rt_dump_open before the first step, on rank 0; rt_dump for each output, on each rank. */
void rt_dump_open(const mg_run *r);
void rt_dump(mg_run *r, int action, const void *p, int64_t n, mg_dtype t);

/* trace.c, trace.h: the trace of a rank. `action` is an index in mg_program.actions. In a pipeline,
 * rt_trace_phase is called before each operation, and at the end of the table. */
typedef struct rt_trace rt_trace;
rt_trace *rt_trace_new(const mg_program *p);
void rt_trace_begin(rt_trace *t, int action);
void rt_trace_end(rt_trace *t, int action);
void rt_trace_phase(rt_trace *t, const mg_pipe_op *o);
/* Ends the record of a step; events since the step before belong to this step. */
void rt_trace_step(rt_trace *t, int64_t step, int64_t begin_ns);
/* Rank 0: asks other machines for their clocks, before the first traced step and after the last. */
void rt_trace_clocks(mg_run *r, bool after);
/* Rank 0: writes OUT/trace.json with the records of all ranks, and prints its own costliest
 * actions, with predicted and measured times. */
void rt_trace_write(mg_run *r, const char *path);
void rt_trace_free(rt_trace *t);

/* ---- spike.c ------------------------------------------------------------------------------ */

/* True if this step is to be skipped (then sets r->skipped). */
bool rt_spike(mg_run *r, double loss, double norm);
void rt_spike_observe(mg_run *r, double loss, double norm); /* of a step that was not skipped */

/* ---- scale.c ------------------------------------------------------------------------------ */

void rt_scale_start(mg_run *r);
/* True if a step whose gradients are not finite is only skipped (then sets r->overflow). */
bool rt_scale_forgives(mg_run *r);
void rt_scale_good(mg_run *r);       /* after a step with finite gradients */
int64_t rt_updates(const mg_run *r); /* steps done, without skipped overflows */

/* ---- signals.c ---------------------------------------------------------------------------- */

/* `r` is the run that SIGUSR2 reports. */
void rt_signals_catch(const mg_run *r);
void rt_signals_follow(const mg_run *r); /* for a follower: only SIGUSR2 */
int rt_signal_stop(void);                /* the signal that asks to save and stop, or 0 */
bool rt_signal_save(void);               /* true once after SIGUSR1: save and go on */

/* ---- log.c; see also log/history.h ----------------------------------------------------------- */

typedef struct rt_log rt_log;
/* Called for each step, logged or not. */
void rt_log_observe(rt_log *l, double loss, double step_ms);
rt_log *rt_log_open(mg_run *r, int64_t resumed_step);
typedef struct rt_step_report {
    int64_t step; /* steps done */
    double loss, norm, lr, step_ms;
    double scale;   /* loss scale; 0: the program has none */
    double dropped; /* the share of experts' rows that had no room; NAN: all have it */
    bool skipped, overflow;
    rt_goal_report goal[MG_GOALS_MAX]; /* of the losses beside the first */
} rt_step_report;
void rt_log_step(rt_log *l, const rt_step_report *s);
void rt_log_eval(rt_log *l, int64_t step, const rt_scores *s, bool best, double seconds);
/* n prompts, and how they went on. */
void rt_log_samples(rt_log *l, int64_t step, char *const *prompt, char *const *text, int n,
                    double seconds);
void rt_log_line(rt_log *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* {"event":NAME,"step":N,REST,"time":T} in metrics.jsonl: a line that is no step's. */
void rt_log_event(rt_log *l, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void rt_log_draw(rt_log *l); /* loss.svg */
void rt_log_sync(rt_log *l);
/* first_loss is of the run, the others are of this process; NAN: there was none. */
typedef struct rt_facts {
    double first_loss, last_loss, median_ms;
    rt_scores val;
} rt_facts;
void rt_log_facts(const rt_log *l, rt_facts *f);
void rt_log_close(rt_log *l, rt_exit code); /* prints the summary of a run that ends so */

/* ---- checkpoint.c, resume.c --------------------------------------------------------------- */

typedef struct rt_spikes { /* statistics of loss and gradient norm; see spike.c */
    int64_t seen, skipped, in_a_row;
    double mean[2], variance[2];
} rt_spikes;

typedef struct rt_scale { /* the loss scale; see scale.c */
    double value;
    int64_t hysteresis;  /* overflows until the scale is halved, plus one */
    int64_t steps, last; /* steps counted; number of the last overflow, or -1 */
    int64_t overflows;
} rt_scale;

typedef struct rt_state { /* the state of a run besides its tensors */
    int64_t step;         /* steps done */
    int64_t sequences;    /* sequences read */
    int64_t seed;
    double lr;     /* the peak given by --lr, or NAN */
    int64_t steps; /* given by --steps, or RT_UNSET */
    int64_t data_tokens, data_windows;
    uint64_t blend; /* hash of the weights of the sources; 0: none */
    rt_spikes spikes;
    rt_scale scale;
    rt_best best;
    char base[RT_BASE_MAX]; /* an adapter's: what --init read, or "", */
    uint32_t base_crc;      /* and the checksum of it */
} rt_state;

int64_t rt_checkpoint_bytes(const mg_run *r);
/* The blocking way: true if the state is now on disk; otherwise a warning was printed and nothing
 * was lost. */
bool rt_checkpoint_save(mg_run *r);
/* export.c: writes the parameters as a directory for other programs; false after a warning. NULL,
 * or what is wrong with its options (the caller frees it). */
char *rt_export_wrong(const rt_options *o);
bool rt_export(mg_run *r, const char *dir);
/* The name of a step's checkpoint under OUT/ckpt. */
rt_words rt_checkpoint_name(int64_t step);
/* Steps of the checkpoints in OUT/ckpt, newest first, ended by -1. The caller frees it. */
int64_t *rt_checkpoint_list(const char *out);
/* Removes all but the newest --keep checkpoints, --keep-every's and those of the best evaluations,
 * after that of the state s. */
void rt_checkpoint_prune(const mg_run *r, const rt_state *s);
void rt_checkpoint_clean(const char *out); /* removes files that an interrupted save left */

/* NULL if `dir` is a whole checkpoint of this program, else why not (the caller frees it). */
char *rt_checkpoint_verify(const mg_run *r, const char *dir, rt_state *state);
/* Finds the checkpoint of --resume, which may be in memory (r->kept); NULL if the run may start
 * afresh. Ends the program with 65. The caller frees it. */
char *rt_resume_find(mg_run *r, rt_state *state);
/* The step of the newest checkpoint on the disk, or -1. */
int64_t rt_resume_saved(const mg_run *r);
/* Fills parameters and state; ends the program with 65. */
void rt_resume_load(mg_run *r, const char *dir);
/* Moves the checkpoints after `step` (and with step < 0 the log) to OUT/previous-N. */
void rt_resume_set_aside(const mg_run *r, int64_t step);

/* ---- weights.c ---------------------------------------------------------------------------- */

typedef struct rt_weights rt_weights;
/* Opens the weights of --init, and of --adapter (or NULL), and checks them against the program;
 * ends the program with 65 and a list of all misfits. resumed: they are the base of a run of which
 * a checkpoint has what is trained, and the checksum of the rest. */
rt_weights *rt_weights_open(const mg_run *r, const char *path, const char *adapter, bool resumed);
uint32_t rt_weights_crc(const rt_weights *w);        /* of what was loaded and no adapter's */
void rt_weights_load(mg_run *r, rt_weights *w);      /* fills the parameters */
bool rt_weights_have(const rt_weights *w, int item); /* of r->params; of parts the first */
void rt_weights_close(rt_weights *w);

/* ---- train.c, eval.c, sample.c, info.c ---------------------------------------------------- */

void rt_open_data(mg_run *r); /* --data, --val, --val-fraction */
rt_exit rt_train(mg_run *r);
void rt_fill_batch(mg_run *r); /* all inputs of the next step; the step may overwrite them */
void rt_fill_scalars(mg_run *r, const mg_entry *e, int64_t step); /* lr, step, seed */
/* The number of windows of an evaluation: all, or those of --eval-batches. */
int64_t rt_eval_windows(const mg_run *r, const rt_data *d);
void rt_sample(mg_run *r);
void rt_info(const mg_run *r);
rt_exit rt_dry_run(mg_run *r);
/* The part of it that is of rank 0 alone: the checkpoint, the data. Sets *code with the
 * first that is wrong; data that cannot be read end the program. */
void rt_check_start(mg_run *r, rt_exit *code);
char *rt_existing_part(const char *path); /* or the nearest directory above; the caller frees it */
/* NULL, or the features that this processor lacks ("avx512f, amx-bf16"; the caller frees it). */
char *rt_cpu_lacks(const char *features);
void rt_cpu_must(const mg_run *r); /* ends the program if it lacks what kernels need */
/* NULL, or the features that are not known here (the caller frees it). */
char *rt_cpu_unknown(const char *features);

/* ---- surprise.c: measured times of actions against predicted times ------------------------- */

typedef struct rt_costs rt_costs;
rt_costs *rt_costs_new(const mg_program *p); /* the caller frees it with rt_costs_free */
void rt_costs_free(rt_costs *c);             /* NULL: nothing */
/* rt_costs_step: a step begins; true if it is measured, and then rt_costs_stepped ends it. now:
 * rt_now_ns(). */
bool rt_costs_step(rt_costs *c, int64_t now);
void rt_costs_stepped(rt_costs *c, int64_t now);
void rt_costs_begin(rt_costs *c, int64_t now);
void rt_costs_end(rt_costs *c, int action, int64_t now);
/* Lines for the end of a run (the caller frees them); NULL if there is no surprise, or if c is NULL
 * or unused. */
char *rt_costs_text(const rt_costs *c, const mg_program *p);

/* ---- the run ------------------------------------------------------------------------------ */

enum {
    RT_WATCH_TIME = 1,
    RT_WATCH_VALUES = 2,
    RT_WATCH_POISON = 4,
    RT_WATCH_DUMP = 8,
    RT_WATCH_COST = 16,
    RT_WATCH_HASH = 32
};
/* Any watcher of outputs. */
enum { RT_WATCH_OUTPUTS = RT_WATCH_VALUES | RT_WATCH_DUMP | RT_WATCH_HASH };

struct mg_run {
    const mg_program *program; /* mg_main and its code: only main.c names them */
    void (*step)(mg_run *), (*eval)(mg_run *), (*sample)(mg_run *), (*round)(mg_run *);
    rt_exit (*preflight)(mg_run *); /* rt_preflight */
    const rt_options *options;
    mg_lr lr; /* the program's, with the peak and steps of the command line */
    int threads;
    rt_pool *pool;
    char *arena;
    rt_world world;
    int rank;                    /* 0: the leader */
    struct rt_ranks *ranks;      /* NULL: one rank */
    struct rt_pulse *pulse;      /* elastic/pulse.h; NULL: no supervisor started this process */
    struct rt_levels *levels;    /* levels.h; NULL: the program offloads nothing */
    struct rt_streams *streams;  /* of a processor, streams.h; NULL: nothing runs beside */
    struct rt_cuda *cuda;        /* state of the folder cuda, or NULL */
    unsigned watch;              /* RT_WATCH_*: 0 if nothing is watched */
    _Atomic int action;          /* the current action, or -1: for SIGUSR2 and the watchdog */
    _Atomic uint64_t begun;      /* number of actions begun */
    volatile int64_t step_began; /* ns */
    bool dumped;                 /* the first step of --dump has run */
    int64_t traced;              /* the number of the current step, if it is traced; else 0 */
    double scale;                /* the loss scale of this step */
    bool skipped, overflow;      /* the step was a spike; its gradients were not finite */
    int64_t started;             /* ns */
    int64_t deadline;            /* of --max-time, ns, or 0 */
    int64_t save_ns;             /* duration of the last save, from its copy to the end */
    int64_t save_tried;          /* ns: since when the steps go on, or training began */
    double longest_ms;           /* the longest step */
    rt_guard guard;
    rt_check check;
    rt_trace *trace;
    rt_costs *costs; /* the leader's, on a processor; else NULL */
    rt_log *log;
    struct rt_kept *kept;       /* keeper/keeper.h: the in-memory checkpoint that it goes on from */
    struct rt_saving *saving;   /* save.h; NULL: saves wait until all is written */
    struct rt_scored *scored;   /* files of --perplexity */
    struct rt_prompts *prompts; /* of --prompts */
    struct rt_speech *speech;   /* speech.h: NULL where tokens are bytes or ids, */
    bool spoke;                 /* and before it was asked for */
    int stdout_kept;          /* the descriptor it had, where rank 0 prints for all; -1: as it is */
    struct rt_health *health; /* health/health.h; NULL: no --health */
    struct rt_rollout *rollout; /* rollout/rollout.h; NULL: the program learns what its data has */
    rt_data *data, *val;
    rt_batch *batch[RT_PROGRAMS]; /* by data/batch.c */
    rt_state state;
    rt_catalog params, slots;
    rt_catalog saved;    /* of params those that checkpoints have: all, or an adapter's */
    char *base;          /* of an adapter: the path that its base is read from, or NULL */
    rt_weights *weights; /* weights of --init, or NULL */
    int64_t saved_step;  /* step of the newest good checkpoint, or -1 */
    int lock;            /* OUT/.lock: one writer for each directory */
    rt_exit code;        /* exit code of the program, once known */
};

#endif
