// SPDX-License-Identifier: Apache-2.0
// Recognises a file of the wrong kind. If a model's config.json is given instead of a plan, the error reads "a
// model's config.json" and does not list the missing keys of a plan.
#pragma once

#include <string>
#include <string_view>

#include "base/document.h"

namespace espalier::base {

/// Returns the kind of a document, by its keys alone; empty if it is unknown. Kinds are "a job file", "a cluster
/// file", "a model's config.json", "a plan (espalier.plan/1)" and "a document of schema espalier.…".
std::string document_kind(const Node& root);
/// Returns the error "found a cluster file; expected a job file", with the use of a file of that kind.
Error wrong_kind(const std::string& kind, const std::string& where, const std::string& wanted);
/// Returns this error for a text (YAML or JSON) that a reader rejected with `error`; `error` itself if the
/// kind is unknown.
Error wrong_kind_of(std::string_view text, const std::string& where, const std::string& wanted, const Error& error);

}  // namespace espalier::base
