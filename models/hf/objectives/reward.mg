%# A reward model (Bradley, Terry): a number for each answer, read at its last token. It is a classifier of one label to transformers.
%option center : number = 0
%require center >= 0, "center", "is below 0"
%include "objectives/parts/begin.mg"
%let headless = true, labels = 1
%include model_type + ".mg"
%include "objectives/parts/headless.mg"
%if center > 0
const center = $center  # pulls the mean of two rewards to 0

%end
dim label = $labels

%include "objectives/parts/log_sigmoid.mg"
%include "objectives/parts/pairs.mg"
    score : param[hidden, label] ~ normal(std) as "score.weight" [label, hidden]
    last_place = max(select(mark == 1, index(seq), 0), over seq)
    each = (policy(tokens) @ score over hidden)[label = 0]
    reward = sum(select(index(seq) == last_place, each, 0), over seq)
    margin = reward[pair = 0] - reward[pair = 1]
%if center > 0
    both = reward[pair = 0] + reward[pair = 1]
    loss = center * mean(both * both) - mean(log_sigmoid(margin))
%else
    loss = -mean(log_sigmoid(margin))
%end
    metric accuracy = mean(select(margin > 0, 1, 0))
    metric margins = mean(margin)
}

%include "parts/training.mg"
