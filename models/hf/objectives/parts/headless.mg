%# Behind the family's file, for a head in the place of the one over the vocabulary: `labels` numbers of each sequence.
%require can_be_headless, "model_type", "is of a family whose network has no other head than that over the vocabulary yet"
%if not tied
%extra "lm_head.weight"
%end
%new "score.weight"
%config architectures = null, id2label = null, label2id = null, num_labels = labels
