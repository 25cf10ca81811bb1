/* unbuilt.c - what other programs' settings ask for and mgc does not have yet, in one place. */
#include "compiler/recipe/recipe.h"

const char *recipe_unbuilt(Part p)
{
    switch (p) {
    case PART_objectives:
        return "not built: a recipe of preferences and rewards; `mgc tune DIR --objective dpo` and "
               "others make such programs (docs/finetune.md)";
    case PART_quantized_base:
        return "not built: a recipe with a base of few bits; `mgc tune DIR --lora "
               "rank=16,base=nf4` "
               "makes a program with one of 4 bits";
    }
    return NULL;
}
