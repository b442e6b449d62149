// Iteration lines that are no record of their own but ride on something else: progress bars with
// numbers behind them (Lightning, NeMo, tqdm postfix), MLPerf's :::MLLOG events, and Composer's
// records, which are printed over several lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "diagnose/parse/metrics.hpp"

namespace stoker::diagnose {

// "Epoch 0:  10%|█ | 100/1000 [00:10<01:30, 10.0it/s, v_num=0, reduced_train_loss=2.31]".
std::optional<IterationMetrics> parse_progress_bar(std::string_view line);

// ":::MLLOG {… "key": "train_loss", "value": 2.19, "metadata": {… "samples_count": 640, "lr": …}}".
std::optional<IterationMetrics> parse_mllog(std::string_view line);
// "… "key": "eval_accuracy"/"eval_loss"/"eval_error" …": their value under the key's name.
std::optional<ValidationMetrics> parse_mllog_validation(std::string_view line);

// Composer: "[epoch=0][batch=10/4800]:" opens a record of "Train name: value" lines. Each returns
// what the line adds to a record in Megatron's form, or "" when it is not a record.
std::string composer_head(std::string_view line);   // "iteration 10/ 4800 |"
std::string composer_field(std::string_view line);  // " loss/train/total: 2.31 |"

}  // namespace stoker::diagnose
