%# In the repeat: what the loss of balance is made of, of the layer's `score`.
%if balanced
        used = used + mean(sum(select(index(choice) == top(score, choice -> best), 1, 0), over best), over seq)
        asked = asked + mean(score, over seq)
%end
