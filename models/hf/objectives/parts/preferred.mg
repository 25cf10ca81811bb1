%# The loss of a `margin` of the chosen answer over the rejected one (Bradley, Terry); with smoothing some pairs are the wrong way round.
%if smoothing == 0
    loss = -mean(log_sigmoid(margin))
%else
    loss = -mean((1 - smoothing) * log_sigmoid(margin) + smoothing * log_sigmoid(-margin))
%end
    metric accuracy = mean(select(margin > 0, 1, 0))
    metric margins = mean(margin)
}

%include "parts/training.mg"
