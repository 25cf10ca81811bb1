%# Kahneman-Tversky optimization (Ethayarajh and others, 2024): answers with a mark, good or bad. How far the policy is from the reference is
%# seen in answers to other prompts, which come beside.
%option beta : positive = 0.1
%option good_weight : positive = 1
%option bad_weight : positive = 1
%option reference : word = "start" only "start", "stored"
%include "objectives/parts/begin.mg"
%let rows_are = "answers", rows_have = ""
%include model_type + ".mg"
const beta = $beta, good_weight = $good_weight, bad_weight = $bad_weight
dim marks = 3, flag = 1$(reference == "stored" ? ", pair = 2" : "")

%include "objectives/parts/likelihood.mg"
model $(model_type)_$objective(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks), other[batch, seq] : token(vocab), other_mask[batch, seq] : token(marks), good[batch, flag] : token(marks)$(reference == "stored" ? ", reference[batch, pair]" : "")) {
    policy : block $model_type
%if reference == "start"
    start : block $model_type as "reference" follows policy by 1  # the policy as it began
%end
%if reference == "start"
    gain = answer(policy(tokens), next(tokens), next(mask)) - answer(start(tokens), next(tokens), next(mask))
    away = answer(policy(other), next(other), next(other_mask)) - answer(start(other), next(other), next(other_mask))
%else
    gain = answer(policy(tokens), next(tokens), next(mask)) - reference[pair = 0]
    away = answer(policy(other), next(other), next(other_mask)) - reference[pair = 1]
%end
    apart = max(mean(stop(away)), 0)
    is_good = select(good[flag = 0] == 0, 0, 1)
    side = 2 * is_good - 1
    weight = is_good * good_weight + (1 - is_good) * bad_weight
    loss = mean(weight * (1 - sigmoid(beta * side * (gain - apart))))
    metric accuracy = mean(select(side * gain > 0, 1, 0))
}

%let together = true
%include "parts/training.mg"
