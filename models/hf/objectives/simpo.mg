%# Simple preference optimization (Meng, Xia, Chen, 2024): no reference; means over the tokens of an answer, and a margin that is asked for.
%option beta : positive = 2
%option gamma : number = 0.5
%option smoothing : number = 0
%require smoothing >= 0 and smoothing < 0.5, "smoothing", "is no number from 0 to below 0.5"
%include "objectives/parts/begin.mg"
%include model_type + ".mg"
%let averaged = true
const beta = $beta, gamma = $gamma$(smoothing == 0 ? "" : ", smoothing = " + text(smoothing))

%include "objectives/parts/log_sigmoid.mg"
%include "objectives/parts/pairs.mg"
    each = likely / size
    margin = beta * (each[pair = 0] - each[pair = 1]) - gamma
%include "objectives/parts/preferred.mg"
