%# One label of several for each sequence, read at its last token, as transformers' models for sequence classification.
%key pad_id : count? = null from pad_token_id
%option labels : whole = 2
%option pad : count? = pad_id
%require pad != null, "pad", "is the token that fills rows up: config.json has no pad_token_id, so give it"
%include "objectives/parts/begin.mg"
%let headless = true, rows_have = "", rows_are = "sequences"
%include model_type + ".mg"
%include "objectives/parts/headless.mg"
%config pad_token_id = pad
dim label = $labels, flag = 1
const pad = $pad  # the token that fills rows up

model $(model_type)_$objective(tokens[batch, seq] : token(vocab), target[batch, flag] : token(label)) {
    policy : block $model_type
    score : param[hidden, label] ~ normal(std) as "score.weight" [label, hidden]
    last_place = max(select(tokens == pad, 0, index(seq)), over seq)
    each = policy(tokens) @ score over hidden
    logits = sum(select(index(seq) == last_place, each, 0), over seq)
    loss = cross_entropy(logits, target[flag = 0])
    metric accuracy = mean(in_top(logits, target[flag = 0]))
}

%include "parts/training.mg"
