%# Odds ratio preference optimization (Hong, Lee, Thorne, 2024): learns the chosen answers, and their odds over the rejected ones.
%option beta : positive = 0.1
%include "objectives/parts/begin.mg"
%include model_type + ".mg"
%let averaged = true
const beta = $beta

%include "objectives/parts/log_sigmoid.mg"
# log(1 - exp(x)) of x below 0.
block log_rest(x) {
    return log(max(1 - exp(x), 1e-12))
}

%include "objectives/parts/pairs.mg"
    each = likely / size
    odds = each - log_rest(each)
    margin = odds[pair = 0] - odds[pair = 1]
    learned = -sum(likely[pair = 0]) / sum(size[pair = 0])
    loss = learned - beta * mean(log_sigmoid(margin))
    metric accuracy = mean(select(margin > 0, 1, 0))
    metric margins = mean(margin)
}

%include "parts/training.mg"
