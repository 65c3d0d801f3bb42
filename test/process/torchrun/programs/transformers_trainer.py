"""Transformers' Trainer on CPU: a tiny GPT-2, made from a config, learns to count. Trainer finds the launcher by
itself. usage: transformers_trainer.py FOLDER"""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

import ending


class Counting(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = (torch.arange(12) + index) % 32
        return {"input_ids": tokens, "labels": tokens}


def main():
    set_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2,
                                       bos_token_id=0, eos_token_id=0))
    arguments = TrainingArguments(output_dir=sys.argv[1], use_cpu=True, max_steps=6, per_device_train_batch_size=4,
                                  learning_rate=0.01, logging_steps=2, save_steps=6, report_to=[], disable_tqdm=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=Counting())
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    total = sum(p.detach().double().sum().item() for p in model.parameters())
    rank = f"result rank {arguments.process_index} of {arguments.world_size}:"
    print(f"{rank} {arguments.parallel_mode} {type(trainer.model_wrapped).__name__}", flush=True)
    print(f"{rank} losses {losses} of {len(trainer.get_train_dataloader())} batches", flush=True)
    print(f"{rank} the sum of the weights is {total:.6f}", flush=True)


ending.run(main)
