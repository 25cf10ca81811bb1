"""Objectives that are held against the trainers of TRL: what the program is asked for, and the config of its model. Weights follow from
names (families/tiny.py), rows are in the golden files."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../families"))  # tiny.py

CONFIG = {"model_type": "llama", "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "pad_token_id": 0,
          "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.02}
BATCH, STEPS, RATE = 4, 20, 1e-3
RANK, ALPHA = 4, 8  # of the adapter
ADAPTED = ("q_proj", "v_proj")
HEAD = ("score",)  # of a classifier, trained in full beside the adapter

# name: (objective with its settings, what else)
CASES = {
    "dpo": "dpo,beta=0.2",
    "dpo_stored": "dpo,beta=0.2,reference=stored",
    "dpo_lora": "dpo,beta=0.2",
    "ipo": "ipo,beta=0.3",
    "orpo": "orpo,beta=0.25",
    "simpo": "simpo,beta=2,gamma=0.6",
    "simpo_smooth": "simpo,beta=1.5,gamma=0.3,smoothing=0.1",
    "kto": "kto,beta=0.2,good_weight=1.5",
    "kto_lora": "kto,beta=0.2",
    "reward": "reward",
    "reward_center": "reward,center=0.05",
    "reward_lora": "reward",  # the head beside the adapter: PEFT's modules_to_save
    "classify": "classify,labels=3",  # of transformers itself
    "classify_lora": "classify,labels=3",
    "grpo": "grpo,group=2,tokens=7,loss=grpo",
    "grpo_clipped": "grpo,group=2,tokens=7,updates=3,loss=dapo,beta=0.1,clip=0.1,clip_high=0.15,temperature=0.8",
    "grpo_dr": "grpo,group=2,tokens=7,loss=dr_grpo,beta=0.05,kl=plain",
    "grpo_bnpo_lora": "grpo,group=2,tokens=7,updates=2,loss=bnpo,beta=0.1",
    "distill": "distill,temperature=1.5,share=0.7",  # of torch
}
