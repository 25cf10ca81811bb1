# A model of the kind '$model_type', from its config.json: its weights go in by --init, and
# what is trained can be loaded where it came from.
%if objective != ""
# It is trained for the objective '$objective' (docs/finetune.md).
%end
