%# Pairs of a chosen and a rejected answer, as `mgc tok` writes them: both are rows of one pass through the network. Before it: with_reference, averaged.
dim pair = 2, marks = 3

%if not headless
%include "objectives/parts/likelihood.mg"
%end
model $(model_type)_$objective(chosen[batch, seq] : token(vocab), chosen_mask[batch, seq] : token(marks), rejected[batch, seq] : token(vocab), rejected_mask[batch, seq] : token(marks)$(with_reference and reference == "stored" ? ", reference[batch, pair]" : "")) {
    policy : block $model_type
%if with_reference and reference == "start"
    start : block $model_type as "reference" follows policy by 1  # the policy as it began
%end
    tokens = select(index(pair) == 0, chosen, rejected)
%if headless
    mark = select(index(pair) == 0, chosen_mask, rejected_mask)
%else
    targets = select(index(pair) == 0, next(chosen), next(rejected))
    mark = select(index(pair) == 0, next(chosen_mask), next(rejected_mask))
    likely = answer(policy(tokens), targets, mark)
%if averaged
    size = max(sum(select(mark == 1, 1, 0), over seq), 1)
%end
%if with_reference and reference == "start"
    reference = answer(start(tokens), targets, mark)
%end
%end
