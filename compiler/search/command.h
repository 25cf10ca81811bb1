/* command.h - mgc search, and `layout auto` of a source. */
#ifndef MGC_SEARCH_COMMAND_H
#define MGC_SEARCH_COMMAND_H

#include "compiler/session.h"

/* mgc search F.mg --device NAME --ranks N: shows the fastest layout, or a table of several N. */
Exit command_search(Session *s);
/* mgc scale: the same as tables of strong and weak scaling. */
Exit command_scale(Session *s);

/* The layout that takes the place of those of a file: that of s->layout_text, or, if `layout auto`
 * is chosen, the one that is found, once in a process. *layouts as it was: neither. */
Exit search_layouts(Session *s, const char *path, const Ast *ast, Ast **layouts);

#endif
