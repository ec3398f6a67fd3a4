// SPDX-License-Identifier: Apache-2.0
// Reads Qwen2.5-Omni (Qwen 2025, arXiv 2503.20215). A thinker takes text, images and sound, a talker produces its
// answers as codes, and another part makes sound of those. The three are trained separately. The thinker is planned,
// and a note states how many parameters the talker has:
//
//   talker   a qwen2 of its own sizes, rows e wide in its table, and e·h + h from the thinker's features;
//            e embedding_size
#include <algorithm>
#include <string>

#include "model/decoder_traits.h"
#include "model/tower.h"

namespace espalier::model {
namespace {

/// Returns the parameters of the talker; 0 if the file has none.
std::int64_t talker_parameters(Fields& top) {
  if (!top.reader().has("talker_config")) return 0;
  base::Reader reader = top.reader().child("talker_config", true);
  Model talker;
  Fields fields(reader, talker.notes);
  const std::int64_t rows = fields.integer_or({"embedding_size"}, SizeLimits::width, 3584);
  read_decoder(fields, talker, *decoder_traits("qwen2"));
  if (!top.ok()) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < talker.layers.size(); ++i)
    for (const Operator& op : talker.layer(i).operators) sum += static_cast<double>(op.parameters);
  constexpr double kMost = 1125899906842624.0;
  if (sum > kMost) {
    top.fail("talker_config", "sizes that multiply to more than 2^50 parameters", "a talker of at most 2^50 parameters");
    return 0;
  }
  const std::int64_t hidden = talker.layer(0).hidden;
  return parameter_count(talker) + times(talker.vocabulary, rows) - times(talker.vocabulary, hidden) + times(rows, hidden) +
         hidden;
}

}  // namespace

void read_omni(Fields& top, Model& model) {
  const auto& rows = tower_families();
  const auto row = std::find_if(rows.begin(), rows.end(), [](const TowerFamily& f) { return f.type == "qwen2_5_omni_thinker"; });
  base::Reader reader = top.reader().child("thinker_config", true);
  top.reader().ignore({"token2wav_config", "enable_audio_output", "enable_talker"});
  const std::int64_t talker = talker_parameters(top);
  if (!top.ok()) return;
  Fields thinker(reader, model.notes);
  read_tower_family(thinker, model, *row);
  if (!top.ok()) return;
  judge_unread(thinker, model.family);
  if (talker > 0 || top.reader().has("token2wav_config"))
    model.notes.push_back({ModelNote::Kind::left_out, "talker_config",
                           "the thinker is planned; the talker, " + std::to_string(talker) +
                               " parameters, and the part that turns its codes into sound are trained separately"});
}

}  // namespace espalier::model
