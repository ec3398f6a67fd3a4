// SPDX-License-Identifier: Apache-2.0
// Fuzzes configurations of training frameworks with any bytes: an accepted input lists its keys and has sizes that a
// job can be made of. The first byte chooses the format.
#include "espalier/imported_configuration.h"
#include "exchange/flag_lines.h"
#include "exchange/megatron_import.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  if (size == 0) return 0;
  const std::string text(fuzz::text_of(data + 1, size - 1));
  const auto& formats = exchange::configuration_formats();
  const exchange::ConfigurationFormat& format = formats[data[0] % formats.size()];
  exchange::ConfigurationRequest request{"file", text, 16, {}, {}, {}, {}, "", nullptr};
  if (data[0] & 0x80) {  // as if set by the training script
    request.micro_batch = 1;
    request.sequence_length = 2048;
  }
  request.file = [&text](const std::string&) { return Result<std::string>(text); };
  const auto read = format.read(request);
  if (read.ok()) {
    fuzz::expect(read->global_batch > 0 && read->sequence_length > 0, "an accepted configuration has a batch and a length");
    fuzz::expect(read->schedule.micro_batch > 0 && read->strategy.tp > 0 && read->schedule.stages > 0, "and degrees");
    fuzz::expect(!read->keys.empty(), "and keys");
    if (!read->model.empty()) {
      const auto model = load_model(read->model, "model");
      if (!model.ok()) fuzz::expect_helpful(model.error());
    }
  } else {
    fuzz::expect_helpful(read.error());
  }
  const auto layout = exchange::read_megatron_layout(text.substr(0, 200));
  fuzz::expect(layout.blocks.empty() != layout.fault.empty(), "a layout or why it is none");
  return 0;
}
