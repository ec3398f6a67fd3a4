#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A launch script as people keep it: Llama 3 8B with Megatron-LM on eight devices of one node. `espalier improve` reads it as it is (README.md).
TP=8
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --rotary-base 500000
    --swiglu --normalization RMSNorm --disable-bias-linear
    --untie-embeddings-and-output-weights --vocab-size 128256
    --attention-dropout 0.0 --hidden-dropout 0.0
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP   # inside the node
    --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
)
TRAINING_ARGS="--micro-batch-size 1 --global-batch-size 64 --bf16 --lr 3e-4 --train-iters 1000"
torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" $TRAINING_ARGS
