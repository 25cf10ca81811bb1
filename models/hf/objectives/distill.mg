%# Distillation (Hinton, Vinyals, Dean, 2015): logits of a teacher, which a file has beside the tokens, at a temperature; and the tokens themselves.
%option temperature : positive = 2
%option share : number = 0.5
%require share >= 0 and share <= 1, "share", "is no number from 0 to 1"
%include "objectives/parts/begin.mg"
%let rows_have = "", rows_are = "sequences"
%include model_type + ".mg"
const temperature = $temperature, share = $share  # of the teacher
dim marks = 3

block log_softmax(x, over d) {
    masked = select(valid(d), x, -1e30)
    top = stop(max(masked, over d))
    return masked - top - log(sum(exp(masked - top), over d))
}

model $(model_type)_$objective(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks), teacher[batch, seq, vocab]) {
    policy : block $model_type
    logits = policy(tokens)
    learnt = select(next(mask) == 1, 1, 0)
    aim = log_softmax(teacher / temperature, over vocab)
    own = log_softmax(logits / temperature, over vocab)
    apart = sum(exp(aim) * (aim - own), over vocab) * temperature * temperature
    loss = share * sum(learnt * apart) / max(sum(learnt), 1) + (1 - share) * cross_entropy(logits, next(tokens), learnt)
}

%include "parts/training.mg"
