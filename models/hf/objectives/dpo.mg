%# Direct preference optimization (Rafailov and others, 2023). With smoothing its conservative form (Mitchell, 2023).
%option beta : positive = 0.1
%option smoothing : number = 0
%require smoothing >= 0 and smoothing < 0.5, "smoothing", "is no number from 0 to below 0.5"
%option reference : word = "start" only "start", "stored"
%include "objectives/parts/begin.mg"
%include model_type + ".mg"
%let with_reference = true
const beta = $beta$(smoothing == 0 ? "" : ", smoothing = " + text(smoothing))

%include "objectives/parts/log_sigmoid.mg"
%include "objectives/parts/pairs.mg"
    gain = likely - reference
    margin = beta * (gain[pair = 0] - gain[pair = 1])
%include "objectives/parts/preferred.mg"
