/* program.h - the programs of this executable, each for another number of ranks (variants.h). */
#ifndef MG_ELASTIC_PROGRAM_H
#define MG_ELASTIC_PROGRAM_H

#include "runtime/run.h"
#include "runtime/variants.h"

typedef struct rt_programs {
    int fd; /* of the executable */
    int n;  /* at least 1, ordered by ranks, the largest first */
    mg_variant of[MG_VARIANTS_MAX];
} rt_programs;

/* Finds those of the running executable: one, if mgc made it without --elastic. Ends the program
 * if the executable is damaged (78). */
void rt_programs_find(rt_programs *e, const mg_run *r);
void rt_programs_close(rt_programs *e);
/* The largest number of ranks of a program with at most that many; 0: none. */
int rt_programs_most(const rt_programs *e, int ranks);
bool rt_programs_have(const rt_programs *e, int ranks);
char *rt_programs_text(const rt_programs *e); /* "2, 3 or 4"; the caller frees it */
/* Becomes the program of so many ranks; ends the program (78) if the system does not let it. */
_Noreturn void rt_programs_become(const rt_programs *e, int ranks, char *const *argv);

#endif
