%# The end of a family's file. An objective (objectives/*.mg) writes its model first.
%if objective == ""
%include "parts/training.mg"
%end
