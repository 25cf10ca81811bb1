/* nest.h - the loops of a generated kernel.
 *
 * A fused body is evaluated at every index of its dims. Dims that all operands step through alike
 * are merged into one loop; loops follow the memory order of the largest operand. The outer loops,
 * flattened, are the kernel's work units; the inner ones are what a unit runs.
 *
 * A kernel that goes on with a product (Kernel.columns) has the rows of its result as outer loops
 * and the columns as the one inner loop; MG_TILE of them are a unit. */
#ifndef MGC_NEST_H
#define MGC_NEST_H

#include "plan/plan.h"

/* Fills units and grain of a kernel. */
void kernel_nest(const Module *m, Kernel *k);
/* Can a kernel go on with a product: is it cut into the rows and k->columns columns in which its
 * operand c lies? */
bool kernel_goes_by_rows(const Module *m, const Kernel *k, int c);
/* nest_tile.c: bytes of operands that a kernel on a host turns. */
double kernel_turns(const Module *m, const Kernel *k);

enum { NEST_DIMS = 12 };

typedef enum NestKind { NEST_map, NEST_row, NEST_col, NEST_combine } NestKind;

typedef struct NestLoop {
    Dim dim;      /* the innermost of the dims merged here; size: of them all */
    bool reduced; /* row, col: one of the dims that are summed */
    bool rotated; /* split in two halves, so that rotated indices stay affine */
} NestLoop;

typedef struct Nest {
    NestKind kind;
    int nouter, ninner;
    NestLoop outer[NEST_DIMS], inner[NEST_DIMS];
    /* map, combine: the last inner loop is cut into `blocks` pieces of `block`, the last unit index
     * choosing one. 0: not cut. col, partial: nlead loops of `inner`, all reduced, are flattened
     * and shared out to the units. */
    int64_t block, blocks;
    int nlead;
    int first_column; /* the dim that columns begin with; 0: none, or all are */
    int ndims; /* every iterated dim, and the loop that walks it: -1 where a merged neighbour does
                */
    Dim dim[NEST_DIMS];
    int8_t loop[NEST_DIMS]; /* index: outer loops first, then inner */
    /* Of dims that one loop walks though their strides do not fit: the dim's index is that of the
     * loop / below % size. 0: the loop's index. */
    int64_t below[NEST_DIMS];
    int64_t units;
} Nest;

Nest nest_of(const Module *m, const Kernel *k);
/* The same for a processor. The order in which a row's sums are made depends on the sizes of the
 * dims alone, however operands lie: they are walked as the sum has them, and the last ones, as many
 * as make GROUP elements, by one loop. */
Nest nest_on_host(const Module *m, const Kernel *k);

/* nest_pieces.c: where a loop is cut so that in each piece rotated indices are affine and, with
 * `places`, what one dim counts (OP_reindex over the loop's) lies inside of it or outside: piece i
 * is [cut[i], cut[i + 1]). Gives how many; beyond NEST_PIECES what is counted may lie on both
 * sides. */
enum { NEST_PIECES = 8 };
int nest_pieces(const Nest *n, const Region *body, int loop, bool places,
                int64_t cut[NEST_PIECES + 2]);

/* nest_tile.c: a pointwise kernel some of whose operands lie across its innermost loop. Units are
 * tiles then: pieces of that loop and of those along which such operands have neighbours, so that
 * each of their lines is read, or written, once and whole. Within a tile they are turned: copied
 * into (or out of) a dense block whose last dim is the innermost loop. */
enum { NEST_TILED = 6 };
typedef struct NestTurned {
    int n;                  /* 0: the operand is not turned */
    int tiled[NEST_TILED];  /* the tiled loops that it has, by falling stride; not the innermost */
    int run;                /* the last so many are one line: neighbours without gaps */
    int64_t line;           /* of so many elements */
    int64_t at[NEST_TILED]; /* per tiled loop: strides in memory, */
    int64_t in[NEST_TILED]; /* and in the block */
    int64_t block;          /* elements */
} NestTurned;
typedef struct NestTile {
    int n; /* tiled loops, in the order of loops: the last is the innermost. 0: none */
    int loop[NEST_TILED];     /* outer loops first, as nest_loop has them */
    int64_t size[NEST_TILED]; /* of a tile; the last tile of a loop may be smaller */
    int64_t pieces[NEST_TILED], units;
    NestTurned turned[MAX_OPERANDS];
} NestTile;
NestTile nest_tile(const Module *m, const Nest *n, const Kernel *k);
const NestLoop *nest_loop(const Nest *n, int i); /* outer loops first */
int nest_dim(const Nest *n, Name d);             /* index in dim[], or -1 */
int operand_dim(const Operand *o, Name d);

/* Row kernels: does a value of this type differ along the row? */
bool nest_wide(const Nest *n, const Type *t);
bool nest_reduces(const Ins *i); /* sum, rmax */
/* stage[v]: how many loops over the row must be done before v can be computed in one; the most. */
int nest_stages(const Region *body, int *stage);
/* Is one walk over a row enough: do all reductions, and all results that differ along the row, need
 * no reduction? They are all largest numbers then, which no order changes. stage: as that gave it.
 */
bool nest_one_walk(const Module *m, const Nest *n, const Region *body, const int *stage);

#endif
