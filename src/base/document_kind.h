// SPDX-License-Identifier: Apache-2.0
// A file of the wrong kind: a model's config.json where a plan is wanted says "a model's config.json", not which key a
// plan would have.
#pragma once

#include <string>
#include <string_view>

#include "base/document.h"

namespace espalier::base {

/// "a job file", "a cluster file", "a model's config.json", "a plan (espalier.plan/1)", "a document of schema
/// espalier.…"; empty: none that is known. By its keys alone.
std::string document_kind(const Node& root);
/// "found a cluster file; expected a job file", and what a file of that kind is for.
Error wrong_kind(const std::string& kind, const std::string& where, const std::string& wanted);
/// The same for a text (YAML or JSON) that a reader refused with `error`, which stays where nothing better is known.
Error wrong_kind_of(std::string_view text, const std::string& where, const std::string& wanted, const Error& error);

}  // namespace espalier::base
