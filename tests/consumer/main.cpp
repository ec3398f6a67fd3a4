// SPDX-License-Identifier: Apache-2.0
// The smallest program that uses the installed library: GPT-2 has 124,439,808 parameters.
#include <espalier/model.h>

#include <iostream>

int main() {
  const auto model = espalier::load_model(
      R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12})",
      "inline");
  if (!model) {
    std::cerr << model.error().message() << "\n";
    return 1;
  }
  std::cout << espalier::parameter_count(*model) << "\n";
}
