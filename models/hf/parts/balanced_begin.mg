%if balanced
    used = expand(0, over (batch$also, choice))
    asked = expand(0, over (batch$also, choice))
%end
