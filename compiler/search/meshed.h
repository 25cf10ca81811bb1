/* meshed.h - a layout that says a mesh and no rules: they are found. */
#ifndef MGC_SEARCH_MESHED_H
#define MGC_SEARCH_MESHED_H

#include "compiler/session.h"

/* Does the chosen layout of a program that trains say a mesh, and no rule? */
bool mesh_is_alone(const Module *m);

/* Rules for it, as lines; searched once in a process, and told of then. NULL: there are none that
 * split all axes, or what is compiled is not read from a model. m: as it is elaborated. */
const char *mesh_rules(Session *s, const char *path, const Module *m);

/* Puts lines into the layout that is chosen (of `layouts` of a file of its own, or of the model's):
 * they take the place of its mesh, if they have one. */
Exit mesh_splice(Session *s, Ast *ast, Ast *layouts, const char *lines);

#endif
