# SPDX-License-Identifier: Apache-2.0
"""Mistakes of users, and what the answer must say. tests/cli/mistakes.py runs them.

A row is fixed by hand: (id, what the user did, words of the command line, exit code, what the message must hold) and, where the
message suggests something that can be typed, the words with which it must work: exit code 0, or the one given. Whole messages stand in
tests/golden/mistakes.txt; regenerating that file cannot change what is demanded here.

Every command runs in a folder with the files of FILES. {root} is the source tree.
"""

GPT2 = '{model_type: gpt2, n_layer: 12, n_embd: 768, n_head: 12, n_positions: 1024, vocab_size: 50257}'
LLAMA = ('"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 8, '
         '"num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 4096')


def job(model=GPT2, cluster='{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}', training='{sequence_length: 1024, global_batch: 64}',
        more=''):
    return f'model: {model}\ncluster: {cluster}\ntraining: {training}\n{more}'


def config(model_type, more=''):
    return '{"model_type": "%s", %s%s}\n' % (model_type, LLAMA, ', ' + more if more else '')


MEGATRON = ('--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --vocab-size 32000 --max-position-embeddings 1024 '
            '--micro-batch-size 1 --seq-length 1024 --bf16\n')

FILES = {
    'job.yaml': job(),
    'my job.yaml': job(),
    'empty.yaml': '',
    'cut.yaml': 'model: {model_type: gpt2, n_layer: 12\n',
    'cut.json': '{"model": {"model_type": "gpt2"}, "cluster": {"nodes": 1',
    'list.yaml': '- model\n- cluster\n',
    'latin1.yaml': b'model: gpt2 # \xfcbung\n',
    'twice.yaml': job() + 'cluster: {nodes: 2}\n',
    'nan.yaml': job(training='{sequence_length: 1024, global_batch: 64, tokens: .nan}'),
    'no-model.yaml': 'cluster: {nodes: 1, device: h100-sxm-80gb}\ntraining: {sequence_length: 1024, global_batch: 64}\n',
    'no-training.yaml': f'model: {GPT2}\ncluster: {{nodes: 1, device: h100-sxm-80gb}}\n',
    'seq-len.yaml': job(training='{seq_len: 1024, global_batch: 64}'),
    'batch-size.yaml': job(training='{sequence_length: 1024, global_batch_size: 64}'),
    'huge.yaml': job(training='{sequence_length: 1024, global_batch: 99999999999999999999}'),
    'both.yaml': job(cluster='{nodes: 1, devices_per_node: 8, gpus_per_node: 8, device: h100-sxm-80gb}'),
    'folder-job.yaml': job(model='models/empty'),
    'path-job.yaml': job(model='models/lama/config.json'),
    'cluster-path.yaml': job(cluster='clusters/lab.yml'),
    'clusters/lab.yaml': '{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}\n',
    'models/llama/config.json': config('llama'),
    'models/llama4/config.json': config('mllama_text_model', '"num_local_experts": 16'),
    'models/cased/config.json': config('LLaMA'),
    'models/experts/config.json': config('llama', '"num_local_experts": 8, "num_experts_per_tok": 2'),
    'models/tower/config.json': config('llama', '"vision_config": {"hidden_size": 1280}'),
    'models/towers/config.json': config('llama', '"vision_config": {"hidden_size": 1280}, "num_nextn_predict_layers": 1'),
    'models/mtp/config.json': config('qwen3', '"num_nextn_predict_layers": 1'),
    'models/window/config.json': config('llama', '"sliding_window": 1024'),
    'models/odd/config.json': config('llama', '"flux_capacitors": 3'),
    'models/nothing/config.json': '{"architectures": ["RwkvForCausalLM"]}\n',
    'models/half/config.json': '{"model_type": "llama", "hidden_size": 1024',
    'models/empty/README.md': 'nothing\n',
    'big.yaml': job(model='{root}/models/llama-3-70b/config.json', cluster='{nodes: 1, devices_per_node: 1, device: rtx-4090}',
                    training='{sequence_length: 4096, global_batch: 8}'),
    't5.yaml': job(model='{root}/models/t5-base/config.json'),
    'vit.yaml': job(model='{root}/models/vit-base-patch16-224/config.json'),
    'llama.yaml': job(model='{root}/models/llama-3-8b/config.json'),
    'thirty-one.yaml': job(cluster='{nodes: 31, devices_per_node: 1, device: h100-sxm-80gb}', training='{sequence_length: 1024, global_batch: 32}'),
    'runs.csv': 'id,tp,pp\na,1,1\n',
    'cut.jsonl': '{"id": "a", "tp": \n',
    'run.jsonl': '{"id": "a", "framework": "nanotron", "model": {"name": "llama"}, "gpu": {"type": "H100", "count": 8}}\n',
    'a100.calibration.yaml': 'schema: espalier.calibration/1\ndevice: a100-sxm-80gb\nengine: generic\ncoefficients: {compute: 1.1}\n',
    'old.calibration.yaml': 'schema: espalier.calibration/0\ndevice: h100-sxm-80gb\n',
    'odd.calibration.yaml': 'schema: espalier.calibration/1\ndevice: h100-sxm-80gb\nengine: generic\ncoefficients: {computr: 1.1}\n',
    'text.log': 'hello\nworld\n',
    'one.yaml': '{nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}\n',
    'launch.sh': MEGATRON + 'run --tensor-model-parallel-size $TP\n',
    'flags.args': MEGATRON,
    'branch.sh': MEGATRON + 'if [ $BIG = 1 ]; then\nE="--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"\nfi\n',
    'parameters.sh': MEGATRON + 'TP=${1}\nPP=$2\nrun --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP\n',
    'sources.sh': 'source "conf/sizes.sh"\nrun --micro-batch-size 1 --seq-length 1024 --bf16 ${SIZES[@]}\n',
    'conf/sizes.sh': 'SIZES=(--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --vocab-size 32000)\n',
    'slurm.sh': '#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n' + MEGATRON + 'torchrun --nnodes $SLURM_NNODES --nproc-per-node $SLURM_GPUS_PER_NODE x.py\n',
    'stages.args': '--micro-batch-size 1 --seq-length 1024 --bf16 --pipeline-model-parallel-size 2 --decoder-last-pipeline-num-layers 3\n',
    'wrap.yaml': 'distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config: {fsdp_auto_wrap_policy: NO_WRAP}\n',
    'components.toml': '[training]\nseq_len = 1024\nlocal_batch_size = 1\n[quantize.grouped_mm.mx]\nfqns = ["experts"]\n[model]\nconverters = ["mx"]\n',
    'zero.json': '{"bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}, "hybrid_engine": {"enabled": true}}\n',
    'present.sh': 'torchrun pretrain_gpt.py --tensor-model-parallel-size 8 --num-layers 8 --hidden-size 1024 --ffn-hidden-size 2816 --num-attention-heads 16 --swiglu '
                 '--normalization RMSNorm --seq-length 1024 --max-position-embeddings 1024 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 16 --bf16\n',
}

# Plans made from job.yaml by `estimate --tp 2 --pp 2`, then changed: file -> (what is replaced, by what).
PLANS = {
    'plan.json': None,
    'future.json': ('espalier.plan/2', 'espalier.plan/9'),
    'other-model.json': ('"n_layer": 12', '"n_layer": 24'),
    'bent.json': ('"tp": 2', '"tp": 3'),
    'half.json': (-400, ''),
}


def pins(text, *more):
    return ['plan', 'job.yaml', '--set', f'search={text}', *more]


def imported(form, name, *words):
    more = {'accelerate': ['--micro-batch', '1', '--sequence-length', '1024'], 'deepspeed': ['--sequence-length', '1024']}.get(form, [])
    model = [] if form == 'megatron-args' else ['--model', 'models/llama/config.json']
    return ['import', 'config', '--format', form, name, '--cluster', 'one.yaml', *model, *more, *words]


def megatron(name, *words, text=''):
    """The import of a file, or of the flags with `text` behind them."""
    if text:
        name = text.split()[0][2:] + '.args'
        FILES[name] = MEGATRON + text + '\n'
    return imported('megatron-args', name, *words)


def sets(*values):
    words = ['plan', 'job.yaml']
    for value in values:
        words += ['--set', value]
    return words


MISTAKES = [
    # ---- files -------------------------------------------------------------------------------------------------------------
    ('job-misspelt', 'the job file is called job.yaml', ['plan', 'jobb.yaml'], 3, ['jobb.yaml', 'no such file', 'did you mean job.yaml?']),
    ('job-folder', 'a folder instead of a job file', ['plan', 'models'], 3, ['models', 'a directory']),
    ('job-empty', 'an empty job file', ['plan', 'empty.yaml'], 3, ['empty.yaml:1:1', 'an empty file']),
    ('job-cut', 'a job file that ends in the middle', ['plan', 'cut.yaml'], 3, ['cut.yaml:2', 'brackets']),
    ('job-cut-json', 'a JSON job that ends in the middle', ['plan', 'cut.json'], 3, ['cut.json:1:', 'end']),
    ('job-list', 'a list instead of a mapping', ['plan', 'list.yaml'], 3, ['list.yaml:1:1', 'a mapping']),
    ('job-latin1', 'a file that is not UTF-8', ['plan', 'latin1.yaml'], 3, ['latin1.yaml:1:', 'UTF-8']),
    ('job-key-twice', 'the same key twice', ['plan', 'twice.yaml'], 3, ['twice.yaml:4:', '"cluster" a second time', 'line 2']),
    ('stdin-empty', 'an empty stdin', ['plan', '-'], 3, ['<stdin>', 'an empty file']),
    ('model-path', 'the folder of the model is misspelt', ['plan', 'path-job.yaml'], 3,
     ['path-job.yaml:1:', 'models/lama/config.json', 'did you mean models/llama/config.json?'],
     ['plan', 'path-job.yaml', '--set', 'model=models/llama/config.json']),
    ('model-folder', 'a model folder without config.json', ['plan', 'folder-job.yaml'], 3, ['folder-job.yaml:1:', 'models/empty', 'without config.json']),
    ('cluster-path', '.yml for .yaml', ['plan', 'cluster-path.yaml'], 3, ['cluster-path.yaml:2:', 'did you mean clusters/lab.yaml?'],
     ['plan', 'cluster-path.yaml', '--set', 'cluster=clusters/lab.yaml']),
    ('plan-for-job', 'a plan where a job is wanted', ['plan', 'plan.json'], 3, ['plan.json', 'a plan (espalier.plan/2)', 'espalier simulate plan.json'], ['simulate', 'plan.json']),
    ('model-for-job', "a model's config.json where a job is wanted", ['plan', 'models/llama/config.json'], 3,
     ['models/llama/config.json', "a model's config.json", 'model: models/llama/config.json']),
    ('out-is-a-file', '-o names a file', ['plan', 'job.yaml', '--set', 'search.fix={tp: 1, pp: 1}', '-o', 'job.yaml'], 2, ['job.yaml', 'folder']),

    # ---- keys and values of a job ------------------------------------------------------------------------------------------------
    ('key-engin', 'a misspelt key', sets('engin=generic'), 3, ['"engin"', 'did you mean "engine"?']),
    ('no-model', 'no model', ['plan', 'no-model.yaml'], 3, ['no "model"', 'a path or a mapping']),
    ('no-training', 'no training', ['plan', 'no-training.yaml'], 3, ['no "training"']),
    ('seq-len', "another tool's word for the sequence", ['plan', 'seq-len.yaml'], 3, ['sequence_length', 'rename "seq_len" to "sequence_length"']),
    ('batch-size', "another tool's word for the batch", ['plan', 'batch-size.yaml'], 3, ['global_batch', 'rename "global_batch_size" to "global_batch"']),
    ('batch-words', 'a unit after the batch', sets('training.global_batch=64 samples'), 3, ['"64 samples"', 'an integer', 'without unit']),
    ('batch-negative', 'a negative batch', sets('training.global_batch=-64'), 3, ['-64', 'an integer from 1']),
    ('batch-zero', 'a batch of nothing', sets('training.global_batch=0'), 3, ['found 0', 'an integer from 1']),
    ('batch-real', 'half a sample', sets('training.global_batch=64.5'), 3, ['64.5', 'whole number']),
    ('batch-huge', 'a batch beyond 64 bits', ['plan', 'huge.yaml'], 3, ['99999999999999999999', 'an integer from 1 to', 'smaller']),
    ('tokens-nan', 'not a number', ['plan', 'nan.yaml'], 3, ['nan.yaml:3:', '.nan', 'write a finite number']),
    ('memory-unit', 'a size without a unit', sets('cluster.memory_limit=36'), 3, ['36', 'a unit is missing', '80GiB'],
     sets('cluster.memory_limit=36GiB')),
    ('memory-dash', 'a dash between number and unit', sets('cluster.memory_limit=36-GiB'), 3, ['"36-GiB"', 'write a number and kB']),
    ('set-twice', 'the last of two values is the wrong one', sets('training.global_batch=64', 'training.global_batch=-1'), 3,
     ['--set training.global_batch=-1: found -1']),
    ('memory-word', 'a unit that is none', sets('cluster.memory_limit=36 gigs'), 3, ['"36 gigs"', 'GiB']),
    ('bandwidth-unit', 'a bandwidth without a unit', sets('cluster.inter_node={bandwidth: 400}'), 3, ['400', 'a unit is missing', '400Gb/s']),
    ('latency-negative', 'a negative latency', sets('cluster.nodes=2', 'cluster.inter_node={latency: -5us}'), 3, ['-5us', 'negative']),
    ('device-short', 'a name that fits two devices', sets('cluster.device=h100'), 3, ['"h100"', 'h100-pcie-80gb', 'h100-sxm-80gb'],
     sets('cluster.device=h100-sxm-80gb')),
    ('device-misspelt', 'a misspelt device', sets('cluster.device=h100-smx-80gb'), 3, ['did you mean h100-sxm-80gb?']),
    ('device-unknown', 'a device that nobody described', sets('cluster.device=gaudi-3'), 3, ['"gaudi-3"', 'can be described', 'peak_tflops']),
    ('no-nodes', 'a cluster of no nodes', sets('cluster.nodes=0'), 3, ['found 0', 'an integer from 1']),
    ('gpus-twice', 'gpus_per_node beside devices_per_node', ['plan', 'both.yaml'], 3, ['gpus_per_node', 'the same']),
    ('precision-misspelt', 'bf17', sets('training.precision=bf17'), 3, ['"bf17"', 'did you mean "bf16"?']),
    ('precision-device', 'bf16 on a V100', sets('cluster.device=v100-sxm-32gb'), 3, ['bf16 (the default)', 'v100-sxm-32gb does not support bf16', 'training.precision: fp16 would do'],
     sets('cluster.device=v100-sxm-32gb', 'training.precision=fp16')),
    ('optimizer-other', 'an optimizer with other states', sets('training.optimizer=lion'), 3, ['"lion"', 'adam', 'not modelled']),
    ('optimizer-misspelt', 'a misspelt optimizer', sets('training.optimizer=adamm'), 3, ['did you mean "adam"?']),
    ('engine-short', 'the beginning of three engines', sets('engine=megatron'), 3, ['"megatron-core"', '"megatron-lm-2021"'],
     sets('engine=megatron-core')),
    ('space-misspelt', 'layer-wise', sets('search.space=layer-wise'), 3, ['did you mean "layerwise"?']),
    ('offload', 'a dimension of the search, asked for as in DeepSpeed', sets('training.cpu_offload=true'), 3, ['"cpu_offload"', 'search: {fix: {offload: optimizer}}', 'non-goals']),
    ('sequence-t5', 'one length for an encoder and a decoder', ['plan', 't5.yaml'], 3, ['two sequences', '{encoder: 512, decoder: 128}']),
    ('sequence-vit', 'a sequence for images', ['plan', 'vit.yaml'], 3, ['vision model', 'take training.sequence_length out']),
    ('sequence-learned', 'longer than the positions that are learned', sets('training.sequence_length=2048'), 3,
     ['2048', 'at most 1024', '--set model.n_positions=2048'], sets('training.sequence_length=2048', 'model.n_positions=2048')),

    # ---- models --------------------------------------------------------------------------------------------------------------------
    ('model-llama4', 'a family that is not read', ['inspect', 'model', 'models/llama4'], 3,
     ['"mllama_text_model"', 'a known model family', 'none is taken in its place']),
    ('model-cased', 'another spelling of a family', ['inspect', 'model', 'models/cased/config.json'], 3, ['"LLaMA"', 'did you mean "llama"?']),
    ('model-experts', 'experts in a dense family', ['inspect', 'model', 'models/experts'], 3, ['num_local_experts = 8', 'family llama']),
    ('model-tower', 'a vision tower in a text family', sets('model=models/tower'), 3, ['vision_config', '--set model.vision_config='],
     sets('model=models/tower', 'model.vision_config=')),
    ('model-two-keys', 'two keys that a family does not read', sets('model=models/towers'), 3,
     ['vision_config = {…}, num_nextn_predict_layers = 1', '--set model.vision_config= --set model.num_nextn_predict_layers='],
     sets('model=models/towers', 'model.vision_config=', 'model.num_nextn_predict_layers=')),
    ('model-mtp', 'multi-token prediction in a family without', ['inspect', 'model', 'models/mtp'], 3, ['num_nextn_predict_layers = 1']),
    ('model-type-missing', 'a config without model_type', ['inspect', 'model', 'models/nothing'], 3, ['RwkvForCausalLM', 'model_type']),
    ('model-cut', 'a config.json that ends in the middle', ['inspect', 'model', 'models/half'], 3, ['models/half/config.json:1:', 'end']),
    ('model-heads', 'heads that do not divide', sets('model.n_head=5'), 3, ['n_head = 5', 'n_embd = 768']),
    ('cluster-for-model', 'a cluster where a model is wanted', ['inspect', 'model', 'clusters/lab.yaml'], 3, ['found a cluster file', 'espalier inspect cluster clusters/lab.yaml'], ['inspect', 'cluster', 'clusters/lab.yaml']),
    ('model-for-cluster', 'a model where a cluster is wanted', ['inspect', 'cluster', 'models/llama/config.json'], 3, ["found a model's config.json", 'espalier inspect model models/llama/config.json'],
     ['inspect', 'model', 'models/llama/config.json']),

    # ---- pins and limits of the search ------------------------------------------------------------------------------------------
    ('pin-unknown', 'a dimension that does not exist', pins('{fix: {tensor_parallel: 2}}'), 3, ['"tensor_parallel"', 'did you mean "tp"?'],
     pins('{fix: {tp: 2}}')),
    ('pin-zero-4', 'ZeRO 4', pins('{fix: {zero: 4}}'), 3, ['search={fix: {zero: 4}} ($.search.fix.zero): found 4', 'from 0 to 3']),
    ('limit-pp-0', 'at most no stages', pins('{limits: {pp: 0}}'), 3, ['found 0', 'an integer of at least 1']),
    ('pin-tp-3', 'tp 3 on 8 devices', pins('{fix: {tp: 3}}'), 3, ['found 3', '1, 2, 4 or 8', '8 devices', 'choose 2 or 4'], pins('{fix: {tp: 4}}')),
    ('pin-pp-16', 'more stages than devices', pins('{fix: {pp: 16}}'), 3, ['found 16', '1, 2, 4 or 8', 'choose 8'], pins('{fix: {pp: 8}}')),
    ('pin-ep-dense', 'experts of a dense model', pins('{fix: {ep: 2}}'), 3, ['found 2', 'the model has no experts', 'take search.fix.ep out']),
    ('pin-micro-batch', 'a micro-batch that divides no batch', pins('{fix: {micro_batch: 3}}'), 3, ['found 3', 'global batch 64', 'choose 2 or 4'],
     pins('{fix: {micro_batch: 4}}')),
    ('pin-list', 'a list under fix', pins('{fix: {tp: [2, 4]}}'), 3, ['a list', 'allow'], pins('{allow: {tp: [2, 4]}}')),
    ('pin-quoted', 'a number in quotes', pins('{fix: {tp: "2"}}'), 3, ['"2"', 'remove the quotes']),
    ('pins-tp-pp', 'tp 8 and pp 2 on 8 devices', pins('{fix: {tp: 8, pp: 2}}', '--set', 'model.n_head=16'), 4,
     ['search.fix.pp: 2 and search.fix.tp: 8 exclude each other', '16 ranks', 'search.fix.pp: 1', 'search.fix.tp: 4 would do'],
     pins('{fix: {tp: 4, pp: 2}}', '--set', 'model.n_head=16')),
    ('pins-gpipe', 'a pipeline schedule on one stage', pins('{fix: {schedule: gpipe, pp: 1}}'), 4,
     ['search.fix.pp: 1 and search.fix.schedule: gpipe exclude each other', 'needs a pipeline', 'search.fix.pp: 2'],
     pins('{fix: {schedule: gpipe, pp: 2}}')),
    ('pins-sp', 'sequence parallelism without tensor parallelism', pins('{fix: {sp: megatron, tp: 1}}'), 4,
     ['search.fix.sp: megatron and search.fix.tp: 1 exclude each other', 'sp-needs-tp', 'search.fix.tp: 2'], pins('{fix: {sp: megatron, tp: 2}}')),
    ('pins-zero-forbidden', 'all ZeRO stages forbidden', pins('{forbid: {zero: [0, 1, 2, 3]}}'), 4,
     ['search.forbid.zero: [0, 1, 2, 3] excludes every configuration', 'no value of zero is left', 'without 0'],
     pins('{forbid: {zero: [1, 2, 3]}}')),
    ('pins-1f1b-forbidden', '1F1B forbidden on one stage', pins('{fix: {pp: 1}, forbid: {schedule: 1f1b}}'), 4,
     ['search.fix.pp: 1 and search.forbid.schedule: 1f1b exclude each other', 'needs a pipeline'], pins('{fix: {pp: 2}, forbid: {schedule: 1f1b}}')),
    ('pins-limits', 'limits that leave fewer ranks than devices', pins('{limits: {tp: 2, pp: 1, cp: 1, dp: 2}}'), 4,
     ['search.limits.cp: 1', 'search.limits.dp: 2', 'search.limits.pp: 1', 'search.limits.tp: 2', 'exclude each other', '4 ranks', '8 devices'],
     pins('{limits: {tp: 4, pp: 1, cp: 1, dp: 2}}')),
    ('pins-zero-zb', 'ZeRO 3 with a zero-bubble schedule', pins('{fix: {zero: 3, schedule: zb-h1}}'), 4,
     ['search.fix.schedule: zb-h1 and search.fix.zero: 3 exclude each other', 'zero-bubble-zero', 'search.fix.zero: 1'],
     pins('{fix: {zero: 1, schedule: zb-h1}}')),
    ('pins-shard', 'a shard group without ZeRO', pins('{fix: {zero: 0, shard: 4}}'), 4,
     ['search.fix.shard: 4 and search.fix.zero: 0 exclude each other', 'zero-shard', 'search.fix.zero: 1'], pins('{fix: {zero: 1, shard: 4}}')),
    ('pins-vpp', 'virtual stages of plain 1F1B', pins('{fix: {schedule: 1f1b, vpp: 2}}'), 4,
     ['search.fix.schedule: 1f1b and search.fix.vpp: 2 exclude each other', 'virtual-stages', 'search.fix.vpp: 1'],
     pins('{fix: {schedule: 1f1b, vpp: 1}}')),
    ('pins-recompute', 'layers of a recomputation that is off', pins('{fix: {recompute: none, recompute_layers: 2}}'), 4,
     ['search.fix.recompute: none and search.fix.recompute_layers: 2 exclude each other', 'recompute-layers', 'search.fix.recompute_layers: 0'],
     pins('{fix: {recompute: none, recompute_layers: 0}}')),
    ('modules-typo', 'a module of a block with a typing error', pins('{fix: {recompute: layernrm}}'), 3,
     ['search.fix.recompute', 'none, selective, full, or modules of a block: core_attn, layernorm', 'did you mean "layernorm"?'],
     pins('{fix: {recompute: layernorm}}')),
    ('modules-in-list', 'one wrong name in a list of modules', pins('{fix: {recompute: [layernorm, activation]}}'), 3,
     ['modules of a block: core_attn, layernorm, act, mlp'], pins('{fix: {recompute: [layernorm, act]}}')),
    ('modules-of-experts', 'activations of experts in a model without', pins('{fix: {recompute: moe_act}}'), 3,
     ['search.fix.recompute: found moe_act', 'modules that blocks of the model have', 'core_attn, layernorm, act, mlp'], pins('{fix: {recompute: act}}')),
    ('modules-of-the-engine', 'a module that torchtitan does not recompute', pins('{fix: {recompute: mlp}}', '--set', 'engine=torchtitan'), 3,
     ['mlp under engine torchtitan', 'layernorm, act, every_second_mm, grouped_mm'], pins('{fix: {recompute: op}}', '--set', 'engine=torchtitan')),
    ('pins-overlap', 'overlap of tensor parallelism without sequence parallelism', pins('{fix: {overlap_tp: true, sp: none}}'), 4,
     ['search.fix.overlap_tp: on and search.fix.sp: none exclude each other', 'overlap-tp'], pins('{fix: {overlap_tp: true, sp: megatron}}')),
    ('pins-heads', 'tp 8 with 12 heads', pins('{fix: {tp: 8}}'), 4,
     ['search.fix.tp: 8 excludes every configuration', '12 heads are not divisible by tp 8', 'search.fix.tp: 4'], pins('{fix: {tp: 4}}')),
    ('pins-batch', 'more data parallelism than the batch can be divided over', pins('{fix: {dp: 8, micro_batch: 16}}'), 4,
     ['search.fix.dp: 8 and search.fix.micro_batch: 16 exclude each other', 'does not divide the global batch 64', 'search.fix.dp: 4',
      'search.fix.micro_batch: 8'], pins('{fix: {dp: 8, micro_batch: 8}}')),
    ('pins-engine', 'pipelines of an engine without', pins('{fix: {pp: 2}}', '--set', 'engine=fsdp2'), 4,
     ['search.fix.pp: 2 and engine: fsdp2 exclude each other', 'FSDP-', 'search.fix.pp: 1'], pins('{fix: {pp: 1}}', '--set', 'engine=fsdp2')),
    ('pins-fix-allow', 'a dimension under fix and allow', pins('{fix: {tp: 2}, allow: {tp: [2, 4]}}'), 3, ['"tp" under both fix and allow']),
    ('nothing-divides', '31 devices, 32 samples, 12 heads, 14 layers', ['plan', 'thirty-one.yaml'], 4,
     ['whatever is pinned', 'divide-batch', 'divide-heads', 'stages', 'training.global_batch: 31', 'cluster.nodes: 30'],
     ['plan', 'thirty-one.yaml', '--set', 'training.global_batch=31']),

    # ---- memory --------------------------------------------------------------------------------------------------------------------
    ('memory-70b', '70 B parameters on one card', ['plan', 'big.yaml'], 4, ['none of', 'the leanest', 'GiB a device', 'cluster.nodes: 80 would fit']),
    ('memory-limit', 'a limit below what anything needs', sets('cluster.memory_limit=256MiB'), 4, ['none of', 'cluster.memory_limit: ', 'would fit']),
    ('memory-pin', 'a pin that costs the memory', pins('{fix: {zero: 0, tp: 1, pp: 1}}', '--set', 'model={root}/models/llama-3-8b/config.json', '--set',
                                                       'cluster.device=a100-sxm-80gb'), 4,
     ['none of', 'without search.fix.zero: 0', 'would fit'],
     pins('{fix: {tp: 1, pp: 1}}', '--set', 'model={root}/models/llama-3-8b/config.json', '--set', 'cluster.device=a100-sxm-80gb')),

    # ---- the command line --------------------------------------------------------------------------------------------------------
    ('command-misspelt', 'a misspelt command', ['plam', 'job.yaml'], 2, ['the unknown command "plam"', 'did you mean "espalier plan"?']),
    ('command-none', 'no command', [], 2, ['no command', 'one of plan, estimate', 'espalier --help']),
    ('command-job', 'a job file in place of a command', ['job.yaml'], 2, ['"job.yaml"', 'did you mean "espalier plan job.yaml"?'], ['plan', 'job.yaml']),
    ('command-inspect', 'inspect without saying what', ['inspect', 'models/llama'], 2, ['inspect: found', 'model, cluster, run']),
    ('command-inspect-typo', 'inspect modle', ['inspect', 'modle', 'models/llama'], 2, ['did you mean "espalier inspect model"?']),
    ('flag-misspelt', 'a misspelt flag', ['plan', 'job.yaml', '--thread', '2'], 2, ['the unknown flag --thread', 'did you mean --threads?'],
     ['plan', 'job.yaml', '--threads', '2']),
    ('flag-one-dash', 'one dash for two', ['estimate', 'job.yaml', '-tp', '2'], 2, ['-tp', 'did you mean --tp?'], ['estimate', 'job.yaml', '--tp', '2']),
    ('flag-elsewhere', 'a flag of another command', ['plan', 'job.yaml', '--tp', '2'], 2, ['--tp is a flag of espalier estimate', '--set search.fix.tp=2'],
     ['estimate', 'job.yaml', '--tp', '2'], sets('search.fix.tp=2')),
    ('flag-long-name', "another tool's name for a flag", ['estimate', 'job.yaml', '--tensor-model-parallel-size', '2'], 2, ['did you mean --tp?'],
     ['estimate', 'job.yaml', '--tp', '2']),
    ('flag-no-value', 'a flag without its value', ['plan', 'job.yaml', '--threads'], 2, ['plan --threads: found nothing', 'see espalier plan --help']),
    ('flag-not-a-number', 'a word for a number', ['plan', 'job.yaml', '--threads', 'all'], 2, ['"all"', 'a number from 0 to 4096']),
    ('word-too-many', 'two jobs at once', ['plan', 'job.yaml', 'llama.yaml'], 2, ['a second file, "llama.yaml"', 'run espalier plan once per job']),
    ('word-spaces', 'a name with spaces without quotes', ['plan', 'my', 'job.yaml'], 2, ['put the name with spaces into quotes: "my job.yaml"']),
    ('no-file', 'plan without a job', ['plan'], 2, ['no job', 'a job file: espalier plan JOB.yaml']),
    ('set-no-value', '--set without a value', ['plan', 'job.yaml', '--set', 'training.global_batch'], 2, ['no "="', '--set training.global_batch=VALUE']),
    ('set-typo', '--set of a key that does not exist', sets('training.globl_batch=32'), 3, ['--set training.globl_batch=32', 'did you mean "global_batch"?'],
     sets('training.global_batch=32')),
    ('set-below-number', '--set below a number', sets('training.global_batch.x=1'), 2, ['"x" below 64']),
    ('rule-unknown', 'a pruning rule that does not exist', ['plan', 'job.yaml', '--no-rule', 'no-such-rule'], 2, ['"no-such-rule"', 'one of']),
    ('sweep-no-values', 'a sweep over nothing', ['plan', 'job.yaml', '--sweep', 'cluster.nodes'], 2, ['no values', '--sweep cluster.nodes=VALUE']),
    ('sweep-typo', 'a sweep over a key that does not exist', ['plan', 'job.yaml', '--sweep', 'cluster.noodles=1,2'], 3, ['--sweep cluster.noodles=1,2: found', '"noodles"', 'did you mean "nodes"?'],
     ['plan', 'job.yaml', '--sweep', 'cluster.nodes=1,2']),

    # ---- estimate ------------------------------------------------------------------------------------------------------------------
    ('estimate-world', 'degrees that do not make the devices', ['estimate', 'job.yaml', '--tp', '4', '--dp', '4'], 2,
     ['world', 'dp 4 · pp 1 = 16 ranks', '8 devices', 'hint: --dp 2 would do'], ['estimate', 'job.yaml', '--tp', '4', '--dp', '2']),
    ('estimate-tp-3', 'tp 3 on 8 devices', ['estimate', 'job.yaml', '--tp', '3'], 2, ['tp 3', '8 devices', '(dp 2 is derived)', 'hint: --tp 2 or --tp 4 would do'],
     ['estimate', 'job.yaml', '--tp', '4'], ['estimate', 'job.yaml', '--tp', '2']),
    ('estimate-tp-8', 'tp 8 with 12 heads', ['estimate', 'job.yaml', '--tp', '8'], 2, ['12 heads', 'hint: --tp 4 would do'],
     ['estimate', 'job.yaml', '--tp', '4']),
    ('estimate-tp-6', 'tp 6, which divides the heads but not the devices', ['estimate', 'job.yaml', '--tp', '6'], 2,
     ['8 devices', 'hint: --tp 4 would do'], ['estimate', 'job.yaml', '--tp', '4']),
    ('estimate-tp-16', 'more tensor parallelism than devices', ['estimate', 'job.yaml', '--tp', '16'], 2,
     ['8 devices', 'hint: --tp 4 would do'], ['estimate', 'job.yaml', '--tp', '4']),
    ('estimate-dp-3', 'dp 3 on 8 devices', ['estimate', 'job.yaml', '--dp', '3'], 2, ['8 devices', 'hint: --dp 8 would do'],
     ['estimate', 'job.yaml', '--dp', '8']),
    ('estimate-tp-8-dp-1', 'tp 8 with 12 heads and dp given', ['estimate', 'job.yaml', '--tp', '8', '--dp', '1'], 2,
     ['12 heads', 'hint: --tp 4 without --dp would do'], ['estimate', 'job.yaml', '--tp', '4']),
    ('estimate-zero', 'ZeRO 4', ['estimate', 'job.yaml', '--zero', '4'], 2, ['estimate --zero: found "4"', 'a number from 0 to 3']),
    ('estimate-sp', 'a misspelt kind', ['estimate', 'job.yaml', '--tp', '2', '--sp', 'megatorn'], 2, ['"megatorn"', 'did you mean "megatron"?'],
     ['estimate', 'job.yaml', '--tp', '2', '--sp', 'megatron']),
    ('estimate-schedule', 'a misspelt schedule', ['estimate', 'job.yaml', '--pp', '2', '--schedule', 'zbh1'], 2, ['"zbh1"', 'did you mean "zb-h1"?'],
     ['estimate', 'job.yaml', '--pp', '2', '--schedule', 'zb-h1']),
    ('estimate-overlap', 'an overlap that does not exist', ['estimate', 'job.yaml', '--overlap', 'gradients'], 2, ['"gradients"', 'grad, param, p2p, tp']),
    ('estimate-micro-batch', 'no samples in a micro-batch', ['estimate', 'job.yaml', '--micro-batch', '0'], 2, ['"0"', 'a number from 1']),

    # ---- plans -----------------------------------------------------------------------------------------------------------------------
    ('plan-absent', 'a plan that is not there', ['simulate', 'plann.json'], 3, ['plann.json', 'did you mean plan.json?'], ['simulate', 'plan.json']),
    ('plan-job', 'a job where a plan is wanted', ['simulate', 'job.yaml'], 3, ['found a job file', 'espalier plan job.yaml -o DIR'], ['plan', 'job.yaml', '-o', 'made-so']),
    ('plan-cut', 'a plan that ends in the middle', ['check', 'half.json'], 3, ['half.json:', 'end']),
    ('plan-future', 'a plan of another version', ['check', 'future.json'], 3, ['espalier.plan/9', 'espalier.plan/2', 'another version']),
    ('plan-other-model', 'another model inside the plan', ['simulate', 'other-model.json'], 3, ['$.model', 'hash of the embedded source', 'plan again']),
    ('plan-bent', 'a degree changed by hand', ['simulate', 'bent.json'], 3, ['$.pipelines[0].stages[0]', '4 devices', 'tp 3', 'plan again']),
    ('plan-engine', 'a misspelt engine', ['check', 'plan.json', '--engine', 'nanotrn'], 2, ['"nanotrn"', 'did you mean "nanotron"?'],
     ['check', 'plan.json', '--engine', 'nanotron']),
    ('plan-model', 'a model where a plan is wanted', ['explain', 'models/llama/config.json'], 3, ["found a model's config.json", 'a plan.json']),
    ('compare-absent', 'one of two plans is not there', ['compare', 'plan.json', 'other.json'], 3, ['other.json', 'no such file']),
    ('export-unable', 'a format that cannot say the plan', ['export', 'galvatron', 'pp3.json'], 5, ['GAL-FILE', 'schedule zb-h1']),
    ('import-no-job', 'an import without a job', ['import', 'galvatron', 'plan.json'], 2, ['no --job', 'JOB.yaml']),
    ('import-not-galvatron', "a plan of ours where Galvatron's is wanted", ['import', 'galvatron', 'plan.json', '--job', 'job.yaml'], 3, ['plan.json', 'found a plan', 'espalier export galvatron plan.json']),

    # ---- launch files ------------------------------------------------------------------------------------------------------------
    ('launch-variable', 'a variable that the script does not assign', megatron('launch.sh'), 3,
     ['launch.sh:2: found --tensor-model-parallel-size = "$TP"', 'hint: --arg TP=…'], megatron('launch.sh', '--arg', 'TP=2')),
    ('launch-parameters', 'positional parameters', megatron('parameters.sh'), 3, ['2 faults', 'what the script asks for: --arg 1=… --arg 2=…'],
     megatron('parameters.sh', '--arg', '1=2', '--arg', '2=1')),
    ('launch-condition', 'flags under a condition', megatron('branch.sh'), 3,
     ['branch.sh:3: found --tensor-model-parallel-size = "2" under the condition of line 2, and --pipeline-model-parallel-size', '--arg BIG=…'],
     megatron('branch.sh', '--arg', 'BIG=0')),
    ('launch-sourced', 'the file that a script sources', megatron('sources.sh'), 3, ['conf/sizes.sh, which line 1 sources', '--with sizes.sh'],
     megatron('sources.sh', '--with', 'conf/sizes.sh')),
    ('launch-with-absent', 'a sourced file that is not there', megatron('sources.sh', '--with', 'sizes.sh'), 3, ['sizes.sh: found no such file']),
    ('launch-arg', '--arg without a value', megatron('launch.sh', '--arg', 'TP'), 2, ['--arg: found "TP"; expected NAME=VALUE']),
    ('launch-slurm-nodes', 'more nodes in the #SBATCH lines than in the cluster', megatron('slurm.sh'), 3,
     ['--nnodes = 16', '8 devices, which the cluster has', '--set cluster.nodes=N'], megatron('slurm.sh', '--set', 'cluster.nodes=2')),
    ('launch-no-layers', 'a share of layers that are not known', megatron('stages.args'), 3, ['no --num-layers', '--model config.json'],
     megatron('stages.args', '--model', 'models/llama/config.json')),
    ('launch-several', 'several flags without a price', megatron('flags.args', text='--mtp-num-layers 1 --use-megatron-fsdp --fp4-format e2m1'), 3,
     ['3 faults', '--mtp-num-layers = 1', '--use-megatron-fsdp = True', '--fp4-format = e2m1']),
    ('launch-squared-relu', 'an activation that the flags alone do not tell', megatron('flags.args', text='--squared-relu'), 3,
     ['--squared-relu = True', 'another activation than swiglu and gelu']),
    ('launch-hybrid', 'layers of several kinds', megatron('flags.args', text='--hybrid-layer-pattern M*M-'), 3, ['--hybrid-layer-pattern', 'give it with --model']),
    ('launch-hybrid-context', 'hybrid context parallelism', megatron('flags.args', text='--hybrid-context-parallel'), 3,
     ['--hybrid-context-parallel = True', '--ignore hybrid_context_parallel'], megatron('flags.args', '--ignore', 'hybrid_context_parallel', text='--hybrid-context-parallel')),
    ('launch-misspelt', 'a flag that looks like one of the plan', megatron('flags.args', text='--tensor-model-paralel-size 2'), 3,
     ['--tensor-model-paralel-size', 'did you mean "tensor_model_parallel_size"?']),
    ('launch-group', 'micro-batches in other groups', megatron('flags.args', text='--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 '
                                                               '--microbatch-group-size-per-virtual-pipeline-stage 4'), 3,
     ['--microbatch-group-size-per-virtual-pipeline-stage = 4', 'expected 2, the stages']),
    ('launch-no-wrap', 'FSDP without a wrap policy', imported('accelerate', 'wrap.yaml'), 3,
     ['fsdp_auto_wrap_policy = NO_WRAP', 'the whole model is one unit', 'runs out of memory']),
    ('launch-mx', 'MX formats', imported('torchtitan', 'components.toml'), 3, ['2 faults', 'quantize.grouped_mm.mx.fqns', 'model.converters = [mx]']),
    ('launch-zero', 'sections of DeepSpeed without a price', imported('deepspeed', 'zero.json'), 3,
     ['2 faults', 'zero_hpz_partition_size = 8', 'hybrid_engine.enabled = True']),
    # ---- improve -----------------------------------------------------------------------------------------------------------------
    ('improve-format', 'no --from', ['improve', 'present.sh', '--cluster', 'clusters/lab.yaml'], 2, ['--from']),
    ('improve-format-name', 'a format that does not exist', ['improve', '--from', 'megatron', 'present.sh', '--cluster', 'clusters/lab.yaml'], 2, ['megatron-args'],
     ['improve', '--from', 'megatron-args', 'present.sh', '--cluster', 'clusters/lab.yaml']),
    ('improve-cluster', 'a cluster that is not there', ['improve', '--from', 'megatron-args', 'present.sh', '--cluster', 'clusters/lab.yml'], 3, ['clusters/lab.yml', 'no such file']),
    ('improve-other-format', 'a script read as JSON', ['improve', '--from', 'deepspeed', 'present.sh', '--cluster', 'clusters/lab.yaml', '--model', 'models/llama'], 3, ['present.sh:1:']),
    ('improve-out', 'the changed file into a folder that is not there', ['improve', '--from', 'megatron-args', 'present.sh', '--cluster', 'clusters/lab.yaml', '-o', 'absent/new.sh'], 3,
     ['absent/new.sh']),

    # ---- measured runs and calibrations ------------------------------------------------------------------------------------------
    ('runs-csv', 'a table instead of records', ['validate', 'runs.csv'], 3, ['runs.csv:1:1', 'text that is not JSON ("id,tp,pp")', 'a CSV table is not read']),
    ('runs-cut', 'a record that ends in the middle', ['validate', 'cut.jsonl'], 3, ['cut.jsonl:1']),
    ('runs-empty', 'an empty file of records', ['validate', 'empty.yaml'], 3, ['empty.yaml', 'record']),
    ('run-id', 'a record that is not in the file', ['inspect', 'run', 'run.jsonl', '--id', 'b'], 3, ['no record "b"', '"a"'],
     ['inspect', 'run', 'run.jsonl', '--id', 'a']),
    ('calibrate-nothing', 'a calibration from nothing', ['calibrate', '--base', 'h100-sxm-80gb'], 2, ['nothing measured', '--runs FILE']),
    ('calibrate-base', 'a name that fits two devices', ['calibrate', '--base', 'h100', '--runs', 'run.jsonl'], 2, ['h100-pcie-80gb', 'h100-sxm-80gb']),
    ('calibrate-log', 'a log without what it was made with', ['calibrate', '--base', 'h100-sxm-80gb', '--runs', 'text.log'], 2, ['--config']),
    ('calibrate-not-a-log', 'a log without steps', ['calibrate', '--base', 'h100-sxm-80gb', '--runs', 'text.log', '--config', 'job.yaml'], 3,
     ['text.log', 'Megatron-LM']),
    ('calibration-device', 'a calibration of another device', ['plan', 'job.yaml', '--calibration', 'a100.calibration.yaml'], 3,
     ['found a calibration for a100-sxm-80gb; expected one for h100-sxm-80gb']),
    ('calibration-version', 'a calibration of another version', ['plan', 'job.yaml', '--calibration', 'old.calibration.yaml'], 3,
     ['espalier.calibration/0', 'espalier.calibration/1']),
    ('calibration-key', 'a coefficient that does not exist', ['plan', 'job.yaml', '--calibration', 'odd.calibration.yaml'], 3,
     ['"computr"', 'did you mean "compute"?']),
    ('calibration-absent', 'a calibration that is not there', ['plan', 'job.yaml', '--calibration', 'mine.yaml'], 3, ['mine.yaml: found no such file']),
]

# What is accepted, with a remark on stderr that must hold these words (none: nothing is said).
REMARKS = [
    ('accept-adamw', sets('training.optimizer=AdamW', 'training.precision=BF16', 'search.fix={tp: 1, pp: 1}'), []),
    ('accept-bfloat16', sets('training.precision=torch.bfloat16', 'search.fix={tp: 1, pp: 1}'), []),
    ('accept-nvidia-smi', sets('cluster.device=NVIDIA H100 80GB HBM3', 'search.fix={tp: 1, pp: 1}'), []),
    ('accept-gpus-per-node', sets('cluster={nodes: 1, gpus_per_node: 8, device: A100-SXM4-80GB}', 'search.fix={tp: 1, pp: 1}'), []),
    ('accept-model-folder', sets('model=models/llama', 'search.fix={tp: 1, pp: 1}'), []),
    ('remark-unread', sets('model=models/odd', 'search.fix={tp: 1, pp: 1}'), ['flux_capacitors', 'not read']),
    ('remark-window', sets('model=models/window', 'search.fix={tp: 1, pp: 1}'), ['sliding_window = 1024', 'whole sequence']),
    ('remark-long', sets('model=models/llama', 'training.sequence_length=8192', 'search.fix={tp: 1, pp: 1}'), ['8192', 'max_position_embeddings 4096']),
    ('remark-estimate', ['estimate', 'job.yaml', '--set', 'model=models/odd'], ['flux_capacitors']),
]
