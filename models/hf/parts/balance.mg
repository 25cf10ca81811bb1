%# The keys of a loss that counts how unevenly experts are used, which transformers has where it is asked for the router's scores.
%key scores_asked : flag = false from output_router_logits
%key balancing : number = default_balancing from router_aux_loss_coef
%require balancing >= 0, "router_aux_loss_coef", "is below 0"
%let balanced = scores_asked and balancing > 0
%require not (packed and balanced), "output_router_logits", "asks for a loss of balance, which counts a whole window: it is not built for documents that are packed (--packed, mgc tune)"
%require not (objective != "" and balanced), "output_router_logits", "asks for a loss of balance, which is not built beside an objective"
%if balanced
%key balancing : positive = default_balancing from router_aux_loss_coef as balancing
%end
%let balancing_const = balanced ? ", balancing = " + real(balancing) : ""
