/* keeper.h - in-memory checkpoints: --memory-save-every.
 *
 * A keeper is a process of a supervisor. It has parts of checkpoints in its memory, which outlive
 * the program, and gives them to whoever knows the key. A set is a checkpoint of one step: the
 * files of tensors, byte for byte as they would be on a disk, in pieces (checkpoint/parts.h), and
 * the text of state.json. Each rank sends its pieces to the keeper of its supervisor, and to that
 * of a rank of the next machine (keep.c). So a set is whole as long as no two machines that are
 * neighbours are gone, and it says nothing of the mesh.
 *
 * Nothing says that a set is whole but its pieces: a reader (kept.c) asks all keepers what they
 * have, and takes the newest set with a state whose pieces, each with its checksum, cover both
 * files. A set that is being sent is another than those before; these are dropped when it is
 * whole. */
#ifndef MG_KEEPER_H
#define MG_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/abi.h"
#include "runtime/net/siphash.h"
#include "runtime/net/spot.h"

/* ---- where the keepers are: in the pulse of a program ---------------------------------------- */

enum { RT_KEEPS_NONE = -1, RT_KEEPS_ALL = -2 };
typedef struct rt_keepers {
    uint8_t key[RT_KEY_BYTES];
    int32_t n; /* 0: there are none */
    struct {
        rt_spot spot;
        int32_t rank; /* whose keeper it is: RT_KEEPS_NONE: a spare's; RT_KEEPS_ALL */
    } of[MG_RANKS_MAX];
} rt_keepers;
/* The keeper of a rank, or -1. */
int rt_keeper_of(const rt_keepers *k, int rank);

/* ---- words ----------------------------------------------------------------------------------- */

typedef enum rt_keep_kind {
    RT_KEEP_PUT = 1, /* a piece comes behind it; there is no answer */
    RT_KEEP_SYNC,    /* answer: `error`, of what came since the last one */
    RT_KEEP_DROP,    /* all sets but `set`; no answer */
    RT_KEEP_LIST, /* answer: the words of all good pieces behind it, and how many are not: `at` */
    RT_KEEP_GET,  /* answer: the piece of `set`, `file` and `at` behind it */
} rt_keep_kind;

enum {
    RT_KEEP_STATE = 2,      /* beside the files of tensors (checkpoint.h): state.json */
    RT_KEEP_MOST = 1 << 20, /* bytes of a piece */
};

typedef struct rt_keep_word {
    uint32_t kind, file;
    uint64_t set; /* a random number, not 0 */
    int64_t step;
    int64_t at, bytes, behind; /* the piece in its file, and bytes of the file behind it */
    uint32_t part;             /* rt_crc32c_part of it */
    int32_t error;             /* an answer's: errno, or 0 */
} rt_keep_word;

/* ---- line.c: a connection to a keeper -------------------------------------------------------- */

typedef struct rt_keep_line {
    int fd; /* -1: none */
    char *out;
    size_t n; /* bytes that wait to be sent */
} rt_keep_line;

/* The caller's. All wait, for RT_KEEP_SECONDS at most, and return false with errno; the line is of
 * no use then, and is to be closed. */
enum { RT_KEEP_SECONDS = 20 };
bool rt_keep_call(rt_keep_line *l, const rt_keepers *k, int which);
void rt_keep_close(rt_keep_line *l);
/* `bytes` bytes of data behind the word, where it is RT_KEEP_PUT. */
bool rt_keep_say(rt_keep_line *l, const rt_keep_word *w, const void *data);
bool rt_keep_flush(rt_keep_line *l); /* sends what waits */
/* An answer; sends what waits before. `bytes` bytes of data follow, for rt_keep_hear. */
bool rt_keep_ask(rt_keep_line *l, const rt_keep_word *w, rt_keep_word *answer);
bool rt_keep_hear(rt_keep_line *l, void *data, int64_t bytes);
/* The callee's: a socket that was accepted; true if the caller knows the key. */
bool rt_keep_admits(int fd, const uint8_t key[RT_KEY_BYTES]);
bool rt_keep_send(int fd, const void *p, size_t n);
bool rt_keep_take(int fd, void *p, size_t n);

/* ---- keeper.c: the process ------------------------------------------------------------------- */

_Noreturn void rt_keeper_run(int door, const uint8_t key[RT_KEY_BYTES]);

/* ---- keep.c: a rank sends its part ----------------------------------------------------------- */

struct mg_run;
struct rt_saving;
/* True if the run has in-memory checkpoints, as far as options and supervisor say. */
bool rt_keeps(const struct mg_run *r);
/* The rank of the next machine to whose keeper a rank sends its pieces, too; -1: there is one
 * machine. host: by rank, the first rank of its machine. */
int rt_keep_neighbour(const int16_t *host, int ranks, int rank);
/* The scribe of each rank: sends its pieces of the snapshot, and the leader's the state of the run.
 * False with errno. */
bool rt_keep_pieces(struct rt_saving *s);
void rt_keep_end(struct rt_saving *s); /* closes its lines */
/* The leader: no keeper has any set but this one, if it has that. */
void rt_keep_alone(struct rt_saving *s, uint64_t set);

/* ---- kept.c: rank 0 goes on from memory ------------------------------------------------------ */

typedef struct rt_kept rt_kept;
/* The newest whole set that this program can go on from, of a step from `after` + 1 to `until`, and
 * the state of the run then; NULL: there is none. A line says what is wrong with sets that are
 * passed over. The caller closes it. */
struct rt_state;
rt_kept *rt_kept_find(const struct mg_run *r, int64_t after, int64_t until);
const struct rt_state *rt_kept_state(const rt_kept *k);
uint64_t rt_kept_set(const rt_kept *k);
int64_t rt_kept_file(const rt_kept *k, int file); /* bytes of a file of tensors */
/* Bytes of a file of tensors; ends the program (74) if no keeper has them any more. */
void rt_kept_read(rt_kept *k, int file, int64_t at, int64_t bytes, void *to);
void rt_kept_close(rt_kept *k); /* NULL: nothing */

#endif
