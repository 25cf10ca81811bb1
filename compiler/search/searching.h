/* searching.h - what a search needs of the driver; see searching.c. */
#ifndef MGC_SEARCHING_H
#define MGC_SEARCHING_H

#include "compiler/session.h"
#include "search/search.h"

/* A model whose layouts are searched. */
typedef struct Searching {
    Session *s;
    const char *path, *device; /* device: its name, or its file */
    const Ast *ast;
    const Node *from;      /* the layout whose rules the template has; NULL: by convention */
    const Node *given;     /* a layout whose numbers are given; NULL: all are sought */
    const char *define;    /* one more -D; NULL: none */
    const char *precision; /* in place of the option's; NULL: that, or the file's */
    double seconds;        /* that a search may take; 0: as long as it does */
    Space *space;
    Compiled one; /* the program of one rank */
    Basis basis;
} Searching;

/* Plans the program of one rank. */
Exit searching_begin(Searching *q);
/* The fastest layout of so many ranks; with `offload auto` if none fits without. */
Search searching_run(Searching *q, int64_t ranks);
/* Ctrl-C ends mgc again: what was found is told. */
void searching_told(void);
/* Tells why there is none. */
Exit searching_none(Searching *q, const Search *r);
/* The name of a device as a layout says it; NULL: it is a file. */
const char *searching_device(const Searching *q);

#endif
