%# In the model, before what attends.
%if packed
    start = document_start(tokens, along seq)  # where the data say that documents begin
%end
