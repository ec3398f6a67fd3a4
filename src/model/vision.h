// SPDX-License-Identifier: Apache-2.0
// Defines what image classifiers share. Token counts follow from the image size, so their layers have fixed streams.
// The head works once a sample: its stream is one token, and its norm and pooling are as wide as all tokens together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/fields.h"
#include "model/operators.h"

namespace espalier::model {

/// Returns a layer that takes and outputs `tokens` a sample.
LayerKind fixed_kind(std::string name, LayerRole role, std::int64_t tokens, std::int64_t hidden);
/// Returns the patch convolution: in = channels·patch², with bias.
Operator patch_embedding(std::int64_t in, std::int64_t hidden);
/// Returns the final norm over all tokens, reduction to one, classifier, loss.
LayerKind classifier(std::int64_t tokens, std::int64_t hidden, std::int64_t classes);
/// Reads the number of classes: num_labels, or the length of id2label; the configuration class assumes 2.
std::int64_t read_classes(Fields& f);
/// Reads one number, or two equal ones: only square images are planned.
std::int64_t read_side(Fields& f, std::string_view key, std::int64_t fallback);

}  // namespace espalier::model
