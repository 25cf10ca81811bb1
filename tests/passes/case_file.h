/* case_file.h - a file of cases for one pass: the IR before it and after it, as text.
 *
 *   # pass: NAME                      a pass of passes.def, or a rule of simplify
 *   mgir 1 ...                        what every module of the file begins with: all that comes
 *   fn @train {                       before its functions, and, if all are alike in that, the
 *     arg ...                         arguments of the first
 *   # case: One sentence.
 *     %a = ...                        the rest of it, before the pass
 *   -----
 *     %a = ...                        and after it
 *   # case: ...
 *
 * "After" has what the pass said, if anything; then the lines of the common part that it took away
 * (-) and that it added (+); then the rest. tests/README.md says how to write one. */
#ifndef MGC_TESTS_PASSES_CASE_FILE_H
#define MGC_TESTS_PASSES_CASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

/* Places in the file's text. */
typedef struct Case {
    const char *says; /* its sentence */
    int line;         /* where that is */
    size_t before, before_end, after, after_end;
} Case;

typedef struct CaseFile {
    const char *path, *text, *pass;
    size_t size, head, head_end;
    bool opened; /* the head opens a function */
    VEC(Case) cases;
} CaseFile;

/* False: it is no such file; why, with file and line, is on stderr. */
bool case_file_read(CaseFile *f, const char *path, Arena *a);
int case_file_line(const CaseFile *f, size_t at); /* from 1 */
/* The module before the pass: of the file's length, with blanks for all that is not of it, so that
 * messages about it name lines of the file. */
const char *case_text(const CaseFile *f, const Case *c, Arena *a);
/* Puts other texts in the place of "after", one for each case (NULL: it stays), all of it or
 * nothing. */
bool case_file_update(const CaseFile *f, const char *const *after, Arena *a);

#endif
