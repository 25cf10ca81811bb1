%# Group relative policy optimization (Shao and others, 2024): answers that the program generates, rewards of a command, beside those of the same prompt.
%# The losses of a token are averaged as TRL's loss types do it: `bnpo` and `dapo` (Yu and others, 2025) over all tokens of a step, `grpo` answer by
%# answer, `dr_grpo` (Liu and others, 2025) by the most tokens that answers have. The divergence is weighted by the ratio, whose gradient is then that of the divergence
%# itself (DeepSeek-V3.2, 2025), or plain.
%option group : whole = 8
%require group >= 2, "group", "is fewer answers than two, which have nothing to be compared with"
%option tokens : whole = 256
%option updates : whole = 1
%require updates >= 1, "updates", "is below 1"
%option clip : positive = 0.2
%option clip_high : positive = clip
%option beta : number = 0
%require beta >= 0, "beta", "is below 0"
%option kl : word = "weighted" only "weighted", "plain"
%option loss : word = "dapo" only "dapo", "bnpo", "grpo", "dr_grpo"
%option scale : word = "group" only "group", "batch", "none"
%option temperature : positive = 1
%include "objectives/parts/begin.mg"
%let rows_are = "answers", rows_have = ""
%include model_type + ".mg"
%let several = updates > 1
const clip = $clip, clip_high = $clip_high$(beta > 0 ? ", beta = " + text(beta) : ""), temperature = $temperature
dim marks = 3, one = 1

%include "objectives/parts/token_likelihood.mg"
model $(model_type)_$objective(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks), advantage[batch, one]$(several ? ", old[batch, seq]" : "")) {
    policy : block $model_type
%if beta > 0
    start : block $model_type as "reference" follows policy by 1  # the policy as it began
%end
    logits = policy(tokens)
    likely = likelihood(logits / temperature, next(tokens))
    learnt = select(next(mask) == 1, 1, 0)
    ratio = exp(likely - $(several ? "old" : "stop(likely)"))
    better = advantage[one = 0]
    free = ratio * better
    bounded = min(max(ratio, 1 - clip), 1 + clip_high) * better
%if beta > 0
    off = likelihood(start(tokens) / temperature, next(tokens)) - likely
    apart = exp(off) - off - 1
    each = learnt * (beta * $(kl == "weighted" ? "ratio * apart" : "apart") - min(free, bounded))
    metric kl = sum(learnt * apart) / max(sum(learnt), 1)
%else
    each = -learnt * min(free, bounded)
%end
%if several
    metric clipped = sum(select(free > bounded, learnt, 0)) / max(sum(learnt), 1)
%end
%if loss == "grpo"
    loss = mean(sum(each, over seq) / max(sum(learnt, over seq), 1))
%end
%if loss == "dr_grpo"
    loss = mean(sum(each, over seq)) / $tokens
%end
%if loss == "dapo" or loss == "bnpo"
    loss = sum(each) / max(sum(learnt), 1)
%end
}

%let rollout = "size = " + text(group) + ", tokens = " + text(tokens) + (several ? ", updates = " + text(updates) : "") + ", scale = " + scale + ", temperature = " + text(temperature)
%include "parts/training.mg"
