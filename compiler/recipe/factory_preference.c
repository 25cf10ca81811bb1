/* factory_preference.c - stages over preferences (rm, dpo, kto) as objectives of mgc tune. */
#include "compiler/recipe/factory.h"

#include <string.h>

/* The losses of stage dpo. `smooths`: LLaMA-Factory's dpo_label_smoothing is of it alone. */
static const struct {
    const char *name, *objective;
    bool refers, smooths, margin;
    const char *says;
} losses[] = {
    {"sigmoid", "dpo", true, true, false, "--objective dpo"},
    {"ipo", "ipo", true, false, false, "--objective ipo"},
    {"orpo", "orpo", false, false, false,
     "--objective orpo; the loss of the chosen answers is a mean over all their tokens, there over "
     "answers"},
    {"simpo", "simpo", false, false, true, "--objective simpo"},
};
enum { LOSSES = sizeof losses / sizeof *losses };

static const char *number(Factory *f, const char *key)
{
    return keys_shown(f->s->arena, keys_number(&f->k, key));
}

/* A key that some stages or losses read, and this one does not. */
static void unread(Factory *f, const char *key, const char *why)
{
    if (keys_given(&f->k, key))
        keys_idle(&f->k, key, "%s", why);
}

static void rest(Factory *f, bool preferences, bool policy)
{
    static const char *const of_ppo[] = {"ppo_buffer_size",
                                         "ppo_epochs",
                                         "ppo_score_norm",
                                         "ppo_target",
                                         "ppo_whiten_rewards",
                                         "reward_model",
                                         "reward_model_type",
                                         "reward_model_adapters",
                                         "reward_model_quantization_bit"};
    static const char *const of_policies[] = {
        "pref_beta",       "pref_ftx",  "pref_loss",          "ld_alpha",
        "pref_bco_weight", "ref_model", "ref_model_adapters", "ref_model_quantization_bit"};
    static const char *const of_stages[] = {"dpo_label_smoothing", "simpo_gamma",
                                            "kto_chosen_weight", "kto_rejected_weight"};
    for (size_t i = 0; i < sizeof of_ppo / sizeof *of_ppo; i++)
        unread(f, of_ppo[i], "for stage ppo");
    for (size_t i = 0; !policy && i < sizeof of_policies / sizeof *of_policies; i++)
        unread(f, of_policies[i],
               preferences ? "for stages dpo and kto" : "for stages over preferences");
    for (size_t i = 0; !policy && i < sizeof of_stages / sizeof *of_stages; i++)
        unread(f, of_stages[i],
               preferences ? "for stages dpo and kto" : "for stages over preferences");
}

/* The model that the policy is held against is the policy as it began. */
static void reference(Factory *f, bool refers)
{
    Keys *k = &f->k;
    const char *model = keys_text(k, "ref_model"), *found = NULL;
    if (!refers) {
        unread(f, "ref_model", "this loss has no reference");
        unread(f, "ref_model_adapters", "this loss has no reference");
        unread(f, "ref_model_quantization_bit", "this loss has no reference");
        return;
    }
    if (model && (found = factory_find(f, model)) && !strcmp(found, f->model))
        keys_here(k, "ref_model", "the policy as it began");
    else if (model)
        keys_missing(k, "ref_model",
                     "a reference that is another model than the policy as it began: the objective "
                     "with reference=stored reads its log probabilities");
    if (keys_given(k, "ref_model_adapters") && model)
        keys_missing(k, "ref_model_adapters", "a reference with an adapter: mgc merge it first");
    else
        unread(f, "ref_model_adapters", "no ref_model");
    if (keys_given(k, "ref_model_quantization_bit") && model)
        keys_missing(k, "ref_model_quantization_bit", "a reference of its own in fewer bits");
    else
        unread(f, "ref_model_quantization_bit", "no ref_model");
}

/* Terms beside the loss that no objective has. */
static void beside(Factory *f)
{
    static const struct {
        const char *key, *what;
    } terms[] = {{"pref_ftx", "the loss of the chosen answers beside this one"},
                 {"pref_bco_weight", "the loss of a classifier (BCO) beside this one"}};
    Keys *k = &f->k;
    for (size_t i = 0; i < 2; i++)
        if (keys_number(k, terms[i].key) != 0)
            keys_missing(k, terms[i].key, "%s; it can be written in the model's file",
                         terms[i].what);
        else if (keys_given(k, terms[i].key))
            keys_here(k, terms[i].key, "the objective's loss alone");
    if (keys_given(k, "ld_alpha"))
        keys_missing(k, "ld_alpha", "weights of long answers (LD-DPO)");
}

static void pairs(Factory *f)
{
    Keys *k = &f->k;
    const char *name = keys_text(k, "pref_loss");
    size_t i = 0;
    while (i < LOSSES && strcmp(losses[i].name, name) != 0)
        i++;
    if (i == LOSSES) {
        if (!strcmp(name, "hinge") || !strcmp(name, "kto_pair"))
            keys_missing(k, "pref_loss",
                         "the loss '%s': of those there are sigmoid, ipo, orpo and simpo", name);
        else
            keys_wrong(k, "pref_loss",
                       "'%s' is no loss: sigmoid, hinge, ipo, kto_pair, orpo or simpo", name);
        i = 0;
    } else
        keys_here(k, "pref_loss", "%s", losses[i].says);
    const bool smooth = keys_number(k, "dpo_label_smoothing") > 0;
    f->objective = arena_printf(
        f->s->arena, "%s,beta=%s%s%s%s%s", losses[i].objective, number(f, "pref_beta"),
        losses[i].margin ? ",gamma=" : "", losses[i].margin ? number(f, "simpo_gamma") : "",
        smooth ? ",smoothing=" : "", smooth ? number(f, "dpo_label_smoothing") : "");
    if (smooth && !losses[i].smooths)
        keys_wrong(k, "dpo_label_smoothing", "smoothing is for pref_loss sigmoid, and this is %s",
                   name);
    else if (losses[i].smooths)
        keys_here(k, "dpo_label_smoothing", "--objective dpo: smoothing");
    else
        unread(f, "dpo_label_smoothing", "for pref_loss sigmoid");
    if (losses[i].margin)
        keys_here(k, "simpo_gamma", "--objective simpo: gamma");
    else
        unread(f, "simpo_gamma", "for pref_loss simpo");
    unread(f, "kto_chosen_weight", "for stage kto");
    unread(f, "kto_rejected_weight", "for stage kto");
    reference(f, losses[i].refers);
}

static void marks(Factory *f)
{
    Keys *k = &f->k;
    f->objective = arena_printf(f->s->arena, "kto,beta=%s,good_weight=%s,bad_weight=%s",
                                number(f, "pref_beta"), number(f, "kto_chosen_weight"),
                                number(f, "kto_rejected_weight"));
    keys_here(k, "kto_chosen_weight", "--objective kto: good_weight");
    keys_here(k, "kto_rejected_weight", "--objective kto: bad_weight");
    unread(f, "pref_loss", "for stage dpo");
    unread(f, "dpo_label_smoothing", "for stage dpo");
    unread(f, "simpo_gamma", "for stage dpo");
    reference(f, true);
}

bool factory_preference(Factory *f, const char *stage)
{
    Keys *k = &f->k;
    f->pairs = !strcmp(stage, "dpo") || !strcmp(stage, "rm");
    f->marked = !strcmp(stage, "kto");
    if (!strcmp(stage, "rm")) {
        f->objective = "reward";
        keys_here(k, "stage",
                  "--objective reward, of pairs by mgc tok; the head is score.weight, as of "
                  "transformers' classifiers, and no v_head");
    } else if (!strcmp(stage, "dpo")) {
        keys_here(k, "stage", "an objective over pairs by mgc tok");
        pairs(f);
    } else if (f->marked) {
        keys_here(k, "stage", "--objective kto, of answers with a mark by mgc tok");
        marks(f);
    }
    const bool policy = f->objective && strcmp(stage, "rm") != 0;
    if (policy) {
        keys_here(k, "pref_beta", "the objective's beta");
        beside(f);
    }
    rest(f, f->objective, policy);
    return f->objective;
}
