"""Attention and transformers: what is where, and the chapter that explains it.

From the ground up: what one layer is made of,

- `masks`: who may look at whom (chapter 4)
- `positions`: sinusoids, learned tables, rotations, relative biases (chapter 4)
- `attention`: the operation, and the layer of many heads (chapters 3 and 5)
- `scores`: how well a key answers a query, and which kernel computes it (chapter 10)
- `cache`: keys and values of the past (chapter 9)
- `norms`, `feedforward`, `block`: what a transformer's block has beside attention (chapter 6)
- `experts`: a network of which each token uses a part (chapter 9)

models made of layers,

- `recurrent`: recurrent networks (chapter 1)
- `seq2seq`: an encoder and a decoder with attention between them (chapter 2)
- `transformer`: decoder, encoder, both (chapter 6)
- `vision`: pictures, cut into patches (chapter 8)
- `models`: published ones, and how their weights are read and written (chapter 9)
- `decoder_config`: the sizes of a decoder (chapter 18)
- `shipped`, `weights`: small trained models that come with the module (chapter 7)

what is done with models,

- `losses`, `train`: the loss, the loop, optimizers, what follows pre-training (chapters 7 and 16)
- `generate`: sampling, search, drafts, constraints (chapter 7)
- `inside`: attention's weights, attributions, circuits (chapter 13)
- `serving`, `quantise`: many requests at once, weights of few bits (chapter 17)
- `parallel`, `planner`: many machines, and what a run on them costs (chapter 18)

what stands in attention's place or beside text,

- `efficient`: attention that costs less (chapter 10)
- `recurrence`: linear attention, delta rules, state spaces (chapter 15)
- `modalities`: sound, diffusion, captions (chapter 11)
- `data`: the corpora and the tasks that are made up (chapter 4)

and what all of it stands on: `checks`, `device`, `files`, `memo`, `provenance`, `shell`, `cli`.
"""
