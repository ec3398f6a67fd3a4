// SPDX-License-Identifier: Apache-2.0
// Reads the log of the Hugging Face Trainer (transformers, trl): its progress bar, by tqdm, and the line that it
// prints at the end.
//
//   {'loss': 2.7838, 'grad_norm': 27.5, 'learning_rate': 1e-05, 'epoch': 1.0}              no time: not a step
//    17%|█▋        | 120/690 [05:31<26:02,  2.74s/it]                                      rate of the last steps
//   {'train_runtime': 1891.9246, 'train_samples_per_second': 5.816,                        mean of the run
//    'train_steps_per_second': 0.365, …}
//
// transformers 5 puts the figures into quotes. A log also holds bars of evaluations, tokenization and downloads; the
// steps are those of the bar that ran longest. The mean of the run counts where there is no bar. It includes
// evaluations, checkpoints and the first steps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runlog/step_log.h"

namespace espalier::runlog {

class TrainerLog {
 public:
  void line(std::int64_t number, std::string_view text);
  [[nodiscard]] std::vector<LoggedStep> steps() const;
  [[nodiscard]] double resolution() const;  ///< relative: how coarsely the times are printed
  /// Returns the first line that looks like the Trainer's; 0 without one.
  [[nodiscard]] std::int64_t first_line() const { return first_line_; }
  [[nodiscard]] std::string missing() const;  ///< where there are such lines and no steps

 private:
  struct Bar {
    double elapsed_s = 0;  ///< at its last line
    double resolution = 0;
    std::vector<LoggedStep> steps;
  };
  void bar(std::int64_t number, std::string_view text);
  void end(std::int64_t number, std::string_view text);

  std::map<std::int64_t, Bar> bars_;  ///< by the number of their steps
  std::vector<LoggedStep> means_;     ///< means of whole runs
  double mean_resolution_ = 0;
  std::int64_t first_line_ = 0;
};

}  // namespace espalier::runlog
