/* unbuilt.c - what other programs' settings ask for and mgc does not have yet, in one place. */
#include "compiler/recipe/recipe.h"

const char *recipe_unbuilt(Part p)
{
    switch (p) {
    case PART_objectives:
        return "not built: preferences and rewards as shipped objectives (a loss over pairs can be "
               "written in the language)";
    case PART_quantized_base:
        return "not built: a base of 4 or 8 bits";
    }
    return NULL;
}
