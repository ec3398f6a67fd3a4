// SPDX-License-Identifier: Apache-2.0
// Tests launch scripts in common forms: Slurm, defaults, arithmetic, decided and undecided conditions, parameters,
// sourced files, Hydra.
#include "exchange/shell_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/flag_lines.h"

namespace espalier::exchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Setting flag(const std::string& script, const std::string& key, const ShellContext& context = {}) {
  const auto lines = read_flag_lines(script, "x.sh", context);
  EXPECT_TRUE(lines.ok()) << (lines ? "" : lines.error().message());
  if (lines)
    for (const Setting& setting : lines->flags)
      if (setting.key == key) return setting;
  return {"", "absent"};
}
std::string value(const std::string& script, const ShellContext& context = {}) { return flag(script, "tp", context).value; }

TEST(ShellScript, FollowsVariables) {
  EXPECT_EQ(value("A=4\nB=$A\nrun --tp ${B}\n"), "4");
  EXPECT_EQ(value("A=2\nrun --tp $((A * 3 + 1))\n"), "7");  // 2 · 3 + 1
  EXPECT_EQ(value("A=9\nrun --tp $(( ($A > 8) ? $A / 2 : 1 ))\n"), "4");
  EXPECT_EQ(value("run --tp $((4 / 0))\n"), "$((4 / 0))");
  EXPECT_EQ(value("A=${A:-2}\nA=${A:=3}\nrun --tp=$A\n"), "2");
  EXPECT_EQ(value("A=5\nA=$(hostname)\nrun --tp $A\n"), "$A");
  EXPECT_THAT(flag("A=$(hostname)\nrun --tp $A\n", "tp").missing, ElementsAre("A"));
  EXPECT_THAT(flag("A=$((B * C))\nrun --tp $A\n", "tp").missing, ElementsAre("B", "C"));
  EXPECT_EQ(value("for T in 2; do run --tp $T; done\n"), "2");
  EXPECT_EQ(value("for T in 2 4; do run --tp $T; done\n"), "$T");
  EXPECT_EQ(value("cat <<EOF\nit's $5 a \"line\nEOF\nrun --tp 2\n"), "2");  // another program's text
  // A value that grows without bound is cut off.
  std::string grows = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) grows += "A=$A$A\n";
  EXPECT_EQ(value(grows + "run --tp $A\n"), "$A");
}

TEST(ShellScript, KnowsSlurmAndTheCluster) {
  const std::string script =
      "#SBATCH --nodes=4 # four\n#SBATCH --gres=gpu:h100:8\nrun --tp $SLURM_GPUS_PER_NODE --pp $SLURM_NNODES\n";
  EXPECT_EQ(value(script), "8");
  EXPECT_EQ(flag(script, "pp").value, "4");
  ShellContext context;
  context.nodes = 2;
  context.devices_per_node = 4;
  EXPECT_EQ(value("run --tp $SLURM_GPUS_ON_NODE\n", context), "4");
  EXPECT_EQ(value("N=$(nvidia-smi -L | wc -l)\nrun --tp $N\n", context), "4");
  EXPECT_EQ(value("#SBATCH -N 3\nrun --tp $SLURM_JOB_NUM_NODES\n", context), "3");
}

TEST(ShellScript, DecidesConditions) {
  const std::string script = "if [ \"$M\" = 7B ]; then T=2; elif [[ $M == 70* ]]; then T=8; else T=1; fi\nrun --tp $T\n";
  EXPECT_EQ(value("M=7B\n" + script), "2");
  EXPECT_EQ(value("M=70B\n" + script), "8");
  EXPECT_EQ(value("M=1B\n" + script), "1");
  EXPECT_EQ(value(script), "$T");
  EXPECT_THAT(flag(script, "tp").missing, ElementsAre("T"));
  const std::string flags = "if [ $F -gt 1 ] && [ -n \"$G\" ]; then E=\"--tp 2\"; fi\nrun --pp 1 $E\n";
  EXPECT_EQ(value("F=2\nG=x\n" + flags), "2");
  EXPECT_EQ(flag("F=2\nG=x\n" + flags, "tp").condition, 0);
  EXPECT_EQ(value("F=1\nG=x\n" + flags), "absent");
  EXPECT_EQ(flag(flags, "tp").condition, 1);
  EXPECT_THAT(flag(flags, "tp").deciding, ElementsAre("F", "G"));
  const std::string choice = "case $M in\n 7B|8B) A=(--tp 2);;\n *) A=(--tp 8);;\nesac\nrun ${A[@]}\n";
  EXPECT_EQ(value("M=8B\n" + choice), "2");
  EXPECT_EQ(value("M=x\n" + choice), "8");
  EXPECT_EQ(value("X=1\n[ $X = 1 ] && E=\"--tp 2\"\nrun --pp 1\n"), "2");
  EXPECT_EQ(value("X=0\n[ $X = 1 ] && E=\"--tp 2\"\nrun --pp 1\n"), "absent");
  // In a loop over arguments, the assignment before it is the default.
  EXPECT_EQ(value("T=4\nwhile [ $# -gt 0 ]; do case $1 in --tp) T=$2;; esac; shift; done\nrun --tp $T\n"), "4");
}

TEST(ShellScript, TakesWhatItIsGiven) {
  ShellContext context;
  context.variables = {{"1", "8B"}, {"12", "4"}, {"X", "2"}};
  EXPECT_EQ(value("S=$1\nT=${12}\nif [ $S = 8B ]; then T=$((T * 2)); fi\nrun --tp $T\n", context), "8");
  EXPECT_EQ(value("X=9\nrun --tp $X\n", context), "2");  // --arg overrides the script's assignment
  EXPECT_THAT(flag("T=${3}\nrun --tp $T\n", "tp").missing, ElementsAre("3"));
}

TEST(ShellScript, ReadsSourcedFiles) {
  const std::string script = "D=$(pwd)\nsource \"$D/models.sh\"\nsource venv/bin/activate\nrun --pp 1 ${M[@]}\n";
  const auto without = read_flag_lines(script, "x.sh", {});
  ASSERT_TRUE(without.ok());
  ASSERT_EQ(without->sources.size(), 1u);  // a Python environment holds no flags
  EXPECT_THAT(without->sources.front().path, HasSubstr("models.sh"));
  EXPECT_EQ(without->sources.front().line, 2);
  ShellContext context;
  context.files = {{"conf/models.sh", "M=(--tp 4)\n"}};
  EXPECT_EQ(value(script, context), "4");
  EXPECT_EQ(flag(script, "tp", context).line, 2);
  EXPECT_EQ(value("run --tp $T\n", {{}, {{"vars.sh", "T=2\n"}}, 0, 0}), "2");  // not sourced: read before the script
  EXPECT_EQ(value("T=2 bash train.sh\n", {{}, {{"train.sh", "run --tp $T\n"}}, 0, 0}), "2");
  EXPECT_FALSE(read_flag_lines("run --tp 1\n", "x.sh", {{}, {{"a.sh", "\"\n"}}, 0, 0}).ok());
}

TEST(ShellScript, ReadsOverridesOfHydra) {
  const std::string script =
      "python3 -m verl.trainer.main_ppo --config-name=x \\\n actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 \\\n"
      " +actor_rollout_ref.actor.megatron.override_transformer_config.num_layers_in_first_pipeline_stage=5 \\\n"
      " actor_rollout_ref.rollout.tensor_model_parallel_size=8\n";
  EXPECT_EQ(flag(script, "tensor_model_parallel_size").value, "4");
  EXPECT_EQ(flag(script, "decoder_first_pipeline_num_layers").value, "5");
}

// A flag without meaning for a plan may occur twice; a flag with one may not.
TEST(ShellScript, OneValueForFlagsThatCount) {
  EXPECT_EQ(value("docker run --device /dev/a --device /dev/b x\nrun --tp 2\n"), "2");
  EXPECT_FALSE(read_flag_lines("run --tp 2 --tp 4\n", "x.sh").ok());
}

}  // namespace
}  // namespace espalier::exchange
