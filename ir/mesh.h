/* mesh.h - the ranks as points of a grid, and what each has of a dim; a part of ir.h. */
#ifndef MGC_MESH_H
#define MGC_MESH_H

#include "ir/ir.h"

/* Ranks along these axes; all of the mesh. */
int64_t mesh_size(const Module *m, Axes axes);
int64_t mesh_ranks(const Module *m);
/* How many of the ranks along these axes are in one block of so many neighbours, that of rank 0. */
int64_t mesh_block(const Module *m, Axes axes, int64_t block);
/* Coordinate of a rank on an axis: ranks count with the last axis the fastest. */
int64_t mesh_coordinate(const Module *m, int64_t rank, int axis);
/* Their names: "dp, tp". */
const char *mesh_axes_text(const Module *m, Axes axes);
/* Place of a rank among those along these axes, the first of the mesh the outermost. */
int64_t mesh_place(const Module *m, int64_t rank, Axes axes);
/* The rules of the layout, in order: on which axes each of n dims is split. A rule is for a dim
 * that is there, on axes that no rule before it has used; dims with `fixed` set, and of one
 * element, are left whole. axes[n] is set. */
void mesh_walk(const Module *m, const Dim *dims, int n, const bool *fixed, Axes *axes);
/* The same; applied: set for each rule that splits something, by its number. */
void mesh_walk_noting(const Module *m, const Dim *dims, int n, const bool *fixed, Axes *axes,
                      bool *applied);
/* The same, where dim k may be split on the axes may[k] alone. */
void mesh_walk_within(const Module *m, const Dim *dims, int n, const Axes *may, Axes *axes);
/* Over which axes the sequences of a batch are split; how many ranks that are. */
Axes mesh_batch_axes(const Module *m);
int64_t mesh_batch_ranks(const Module *m);
/* How many microbatches a step computes one after another; each rank has its part of each. */
int64_t mesh_microbatches(const Module *m);
/* With `reduce = tree`: the axis over which gradients are added up in the tree, or 0; and whether
 * every microbatch is, for each rank keeps a part of the sums alone. Then microbatch s of a step,
 * of sequences [s * microbatch, ...), is the (s / n)th of rank s % n; else number s % k of rank
 * s / k, of its k microbatches. */
Axes mesh_tree_axes(const Module *m);
Axes mesh_tree_of(const Module *m, const Type *t); /* the same for a value: 0 for halves */
bool mesh_tree_each_microbatch(const Module *m);
/* The dim as it is on all ranks together. */
int64_t dim_whole(const Module *m, Dim d);
/* The axes of d by their numbers, the outermost first; how many there are. axis[MAX_AXES] is set.
 */
int mesh_nested(const Module *m, Dim d, int *axis);
/* d, which is whole or split, split on one axis more, as the innermost: of even size. */
Dim mesh_split_within(const Module *m, Dim d, Axes axis);
/* The axes on which the layout's rules split a dim of this name in zigzag order. */
Axes mesh_zigzag(const Module *m, Name dim);
/* The axes on which its rules split this dim, and attention along it exchanges heads. */
Axes mesh_heads(const Module *m, Name dim);
/* The axes on which its rules split this dim of experts, and rows are sent once to all of a rank's
 * peers there, gathered, and not to each expert. */
Axes mesh_once(const Module *m, Name dim);
/* A dim of this name that is split on these axes as its rules say, of no size. */
Dim mesh_ruled(const Module *m, Name dim, Axes axes);
/* d split on these axes as well, as its rules say; its size has to be a multiple of mesh_unit. */
Dim mesh_split(const Module *m, Dim d, Axes more);
/* Stages there are; to which one belongs element i of what a rank has of the pipeline's dim, and
 * which layer of all that is; -1: room that is left. */
int mesh_stages(const Module *m);
int mesh_stage(const Module *m, int64_t rank, int64_t i);
int64_t mesh_layer(const Module *m, int64_t rank, int64_t i);
/* How many layers are before a stage. */
int64_t mesh_first_layer(const Module *m, int stage);
/* The stage of a rank along the axis of stages, as a set of one; AT_ALL where there are no stages.
 */
StageSet mesh_stage_set(const Module *m, int64_t rank);
/* A loop whose iterations are layers of the pipeline: is i one? */
bool ir_is_staged(const Module *m, const Ins *i);
/* Has a stage fewer layers than there is room for on each rank (Pipeline.max_layers)? */
bool ir_layers_differ(const Module *m);
/* The relay among a region's instructions that has to end before i begins, though i may read
 * nothing of it. Ranks go all the way forward before they go back, and what is added to gradients
 * of other microbatches is added on the way back, in whose order of microbatches their sums are
 * written. NULL: none. */
const Ins *ir_relay_before(const Ins *i, Ins *const *among, size_t n);
/* The size of a whole dim that lies as d does is a multiple of this; and the size of a rank's part
 * of this: its blocks, and an even number for a zigzag. */
int64_t mesh_unit(const Module *m, Dim d);
int64_t mesh_pieces(const Module *m, Dim d);
/* The index in the whole dim of element i of what a rank has: larger for larger i. */
int64_t mesh_index(const Module *m, int64_t rank, Dim d, int64_t i);
/* How many of the elements that a rank has come before index `end` of the whole dim. */
int64_t mesh_below(const Module *m, int64_t rank, Dim d, int64_t end);

/* Of a tensor that lies as t does: the number, among the dims of tiles, of one of which a rank has
 * a part of a tile; -1: ranks have all of each. a: as of tile_scale (rules_tiles.c). */
int ir_cut_tiles(const Module *m, const Attrs *a, const Type *t);
/* Does a split cut a tile of one of a product's operands? a: the product's. */
bool ir_cuts_product(const Module *m, const Attrs *a, const Type *x, const Type *y);

#endif
