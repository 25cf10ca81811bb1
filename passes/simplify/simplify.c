/* simplify.c - folds, shares, hoists and drops until nothing changes.
 *
 * Every part makes the program smaller or moves something to a place it does not leave again, so
 * this ends; the bound is there for the day when two parts undo each other, and is then reported.
 */
#include "passes/simplify/simplify.h"
#include "passes/simplify/accumulate.h"
#include "passes/passes.h"

enum { ITERATIONS = 64 };

static bool one_iteration(Job *j, Fn *fn)
{
    Module *m = j->m;
    bool changed = simplify_fold(m, fn);
    changed |= simplify_licm(m, fn, j->tmp);
    changed |= simplify_cse(m, fn, j->tmp);
    changed |= simplify_dce(m, fn, j->tmp);
    changed |= accumulate_all(m, fn->body, j->tmp);
    return changed;
}

PassStatus pass_simplify(Job *j)
{
    for (size_t f = 0; f < j->m->fns.n; f++) {
        int iterations = 0;
        while (one_iteration(j, j->m->fns.data[f]))
            if (++iterations == ITERATIONS)
                return pass_bug(j, NULL, "simplify does not come to an end in @%s",
                                name_str(j->m->names, j->m->fns.data[f]->name));
    }
    return PASS_ok;
}
