// SPDX-License-Identifier: Apache-2.0
// Declares the tables of mutations, one file each; kinds_test.cpp counts them.
#pragma once

#include <vector>

#include "result_suite.h"
#include "suite.h"

namespace espalier::mutation {

std::vector<Mutation> plan_mutations();
std::vector<Mutation> program_mutations();
std::vector<Mutation> claim_mutations();
std::vector<Mutation> tied_mutations();
std::vector<Mutation> range_structure_mutations();
std::vector<Mutation> range_rule_mutations();
std::vector<Mutation> range_claim_mutations();
std::vector<Mutation> mixed_structure_mutations();
std::vector<Mutation> mixed_rule_mutations();
std::vector<Mutation> pipeline_mutations();
std::vector<Mutation> mixed_program_mutations();
std::vector<Mutation> mixed_claim_mutations();
std::vector<ResultMutation> mixed_result_mutations();
std::vector<ResultMutation> figure_mutations();
std::vector<ResultMutation> certificate_mutations();
std::vector<ResultMutation> document_mutations();

}  // namespace espalier::mutation
