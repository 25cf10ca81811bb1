%if balanced
    used = expand(0, over (batch, choice))
    asked = expand(0, over (batch, choice))
%end
