/* parts.h - which rank copies which bytes of its arena for a checkpoint, and which bytes of a file
 * of the checkpoint each rank writes, where all of them write.
 *
 * The ranks of a machine put the parts that they have into one snapshot, memory that they share: a
 * part that several have is copied once, each of them a piece of it. Each rank then writes pieces
 * of the file from the snapshot of its machine. A tensor that a machine has whole is written by one
 * machine; of another tensor the first rank that has a run of elements writes that. So each byte of
 * a file behind its header is written by one rank; all ranks compute the same. */
#ifndef MG_PARTS_H
#define MG_PARTS_H

#include "runtime/run.h"

enum { RT_PIECE = 1 << 20 }; /* a piece of a file has at most so many bytes */

/* The places of a program's ranks. */
typedef struct rt_places {
    const mg_program *program;
    int rank, ranks;
    const int16_t *host;     /* by rank: the first rank of its machine */
    int64_t apart;           /* bytes between the snapshots of two ranks */
    int64_t base[MG_LEVELS]; /* where in one what is offloaded to a level begins */
} rt_places;

/* The place in a rank's snapshot of an offset of its arena, or of another level. */
int64_t rt_places_at(const rt_places *p, int64_t offset);

typedef struct rt_parts rt_parts;
/* Of the tensors of a file, which begin at byte `header` of it. */
rt_parts *rt_parts_new(const rt_places *places, const rt_catalog *tensors, int64_t header);
void rt_parts_free(rt_parts *p);            /* NULL: nothing */
int64_t rt_parts_file(const rt_parts *p);   /* bytes of the whole file */
int64_t rt_parts_memory(const rt_parts *p); /* bytes of the list */

/* The copies that this rank makes: bytes of its arena, or of another level, from `offset` on, to
 * their place in the snapshot of rank `to` of this machine. */
typedef void rt_copied(void *ctx, int64_t offset, int64_t bytes, int to);
void rt_parts_copies(const rt_parts *p, rt_copied *fn, void *ctx);
/* The pieces that this rank writes, at byte `at` of the file, until fn says false. */
typedef bool rt_written(void *ctx, int64_t at, int64_t bytes);
void rt_parts_pieces(const rt_parts *p, rt_written *fn, void *ctx);
/* A piece, from the snapshots of this machine; `snapshot` is the address of rank 0's, also where
 * there is none. One thread at a time. */
void rt_parts_get(rt_parts *p, char *snapshot, int64_t at, int64_t bytes, char *out);

#endif
