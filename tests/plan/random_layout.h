/* random_layout.h - layouts that are drawn at random, and the ways of docs/layouts.md that they
 * have.
 *
 * A way is one thing that a layout, a precision or a decision may do to a program of several ranks.
 * Text is drawn until it asks for one that is wanted; all others come as they come. What a program
 * then does of what was asked is seen by follow_layout.c. */
#ifndef MGC_TESTS_RANDOM_LAYOUT_H
#define MGC_TESTS_RANDOM_LAYOUT_H

#include "tests/plan/sharded.h"

/* Ways: what a model has to have, and in what it is computed (PRECISIONS: any); as
 * random_layout.c has them. */
#define WAYS(W)                                                                                    \
    W(batch, ANY, PRECISIONS, "sequences on ranks")                                                \
    W(two_axes, ANY, PRECISIONS, "a dim on two axes")                                              \
    W(state, ANY, PRECISIONS, "state in parts")                                                    \
    W(grads, ANY, PRECISIONS, "state and gradients in parts")                                      \
    W(params, ANY, PRECISIONS, "state, gradients and parameters in parts")                         \
    W(class_padded, ANY, PRECISIONS, "tensors padded where a class splits them")                   \
    W(dim_padded, PADS, PRECISIONS, "dims padded where a rule splits them")                        \
    W(blocks, ANY, PRECISIONS, "a dim in blocks")                                                  \
    W(pieces, ANY, PRECISIONS, "collectives in pieces")                                            \
    W(turns, ANY, PRECISIONS, "pieces that take turns")                                            \
    W(halves, ANY, HALVES, "halves, added up in halves")                                           \
    W(wide, ANY, WIDE, "halves, added up in f32")                                                  \
    W(fp8, ANY, FP8, "fp8, a scale for each tensor")                                               \
    W(tiles, ANY, TILES, "fp8, scales of tiles")                                                   \
    W(apart, ANY, FP8, "largest numbers along one axis after the other")                           \
    W(ring, ATTENDS, PRECISIONS, "a ring of keys")                                                 \
    W(zigzag, ATTENDS, PRECISIONS, "zigzag order")                                                 \
    W(heads, ATTENDS, PRECISIONS, "heads exchanged for positions")                                 \
    W(groups, ATTENDS, PRECISIONS, "a ring of groups that exchange heads")                         \
    W(scan, SCANS, PRECISIONS, "a scan along a split dim")                                         \
    W(slots, SLOTS, PRECISIONS, "slots of experts sent")                                           \
    W(rows, ROWS, PRECISIONS, "sorted rows sent")                                                  \
    W(peers, SLOTS, PRECISIONS, "slots of experts sent once to peers")                             \
    W(peers_rows, ROWS, PRECISIONS, "sorted rows sent once to peers")                              \
    W(bound, ROWS, DOUBLE, "sorted rows sent up to a bound")                                       \
    W(gathered, ROWS, PRECISIONS, "experts' matrices gathered")                                    \
    W(parts, PARTS, PRECISIONS, "parts of a sequence that choose experts")                         \
    W(gpipe, LAYERS, PRECISIONS, "stages, gpipe")                                                  \
    W(one_f_one_b, LAYERS, PRECISIONS, "stages, 1f1b")                                             \
    W(interleaved, LAYERS, PRECISIONS, "stages, interleaved")                                      \
    W(zb_h1, LAYERS, PRECISIONS, "stages, zb-h1")                                                  \
    W(uneven, LAYERS, PRECISIONS, "stages of layers that are said")                                \
    W(empty, LAYERS, PRECISIONS, "a stage without a layer")                                        \
    W(pairs, LAYERS, PRECISIONS, "a forward beside a backward")                                    \
    W(beside, LAYERS, HALVES, "collectives beside the table")                                      \
    W(offload, ANY, PRECISIONS, "tensors on another level")                                        \
    W(once, LAYERS, HALVES, "layers gathered once a step")                                         \
    W(buckets, LAYERS, PRECISIONS, "gradients reduced in their iterations")                        \
    W(ahead, LAYERS, PRECISIONS, "gathered an iteration ahead")                                    \
    W(ahead_apart, LAYERS, PRECISIONS, "gathered ahead into a place of its own")                   \
    W(kept, ANY, PRECISIONS, "values computed again")

typedef enum Way {
#define W(name, ...) WAY_##name,
    WAYS(W)
#undef W
        WAY_count
} Way;
extern const char *const way_says[WAY_count];
#define WAY(name) ((uint64_t)1 << WAY_##name)
_Static_assert(WAY_count <= 64, "sets of ways are of 64 bits");

/* A model of which layouts are drawn, and the ways that only some models have. */
typedef struct Drawn {
    Reference r;
    const char *spec;
    uint64_t ways; /* asked for */
} Drawn;

/* Draws a model, a precision, and a layout of it that asks for the way. To be closed by
 * model_close(&d->r.t), and drawn again where the layout is refused. */
void draw_layout(Drawn *d, Way wanted, uint64_t *rng);

/* The text of a layout of a model: a mesh of up to three axes and 64 ranks, sometimes with stages
 * beside them; rules for some of the model's dims, in any order; classes, each with those before
 * it; a third offloads. ways: what it asks for. */
const char *random_layout(const Reference *r, Arena *a, uint64_t *rng, uint64_t *ways);

/* follow_layout.c: whether all ranks of a layout compute what one does, within SHARD_BOUND: as they
 * are split, behind each pass that changes what is sent or kept, and as they are planned, in
 * several orders that streams allow; of halves, which plans store as halves, orders have the same
 * bits. The plan is proved. False: refused, for sizes. Takes out of d->ways what the program does
 * not do, and adds what plans decide. */
bool follow_layout(Drawn *d, const Device *device, uint64_t *rng);

#endif
