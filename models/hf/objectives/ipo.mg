%# Identity preference optimization (Azar and others, 2023), of means over the tokens of an answer, as its authors compute it.
%option beta : positive = 0.1
%option reference : word = "start" only "start", "stored"
%include "objectives/parts/begin.mg"
%include model_type + ".mg"
%let with_reference = true, averaged = true
const beta = $beta

%include "objectives/parts/pairs.mg"
    gain = (likely - reference) / size
    margin = gain[pair = 0] - gain[pair = 1]
    off = margin - 1 / (2 * beta)
    loss = mean(off * off)
    metric accuracy = mean(select(margin > 0, 1, 0))
    metric margins = mean(margin)
}

%include "parts/training.mg"
