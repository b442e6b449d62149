// Texts of the programs themselves: Megatron-LM and Megatron-DeepSpeed (training.py,
// checkpointing.py), our own core, NeMo, torchtitan, Hugging Face's Trainer, IDEFICS, MLPerf,
// DeepSpeed (torch_checkpoint_engine.py), Lightning (model_checkpoint.py), Accelerate, and what
// people print themselves.
#include "diagnose/parse/phase_line.hpp"

#include <algorithm>
#include <array>

#include "diagnose/input/line_scan.hpp"

namespace stoker::diagnose {

namespace {

struct Form {
  std::string_view text;
  PhaseMark mark;
  std::string_view number;  // stands behind this
};

// The number is behind the first step or iteration of the whole line; and the line speaks of a
// save, not of a checkpoint that was saved before.
constexpr std::string_view kAnyStep = "?";

// The first that a line has counts: what ends something stands before what begins it.
constexpr std::array kForms{
    Form{"successfully saved checkpoint", PhaseMark::SaveEnds, "iteration"},
    Form{"successfully loaded checkpoint", PhaseMark::LoadEnds, "iteration"},
    Form{"Restored all states from the checkpoint at", PhaseMark::LoadEnds, "step="},
    Form{"saving checkpoint at iteration", PhaseMark::SaveBegins, "iteration"},
    Form{"loading checkpoint from", PhaseMark::LoadBegins, ""},
    Form{"loading release checkpoint from", PhaseMark::LoadBegins, ""},
    Form{"resuming from checkpoint", PhaseMark::LoadBegins, ""},
    Form{"Loading the checkpoint at step", PhaseMark::LoadBegins, "step"},
    Form{"Finished loading the checkpoint", PhaseMark::LoadEnds, ""},
    Form{"Finished saving the checkpoint", PhaseMark::SaveEnds, ""},
    Form{"Saving the checkpoint", PhaseMark::SaveBegins, ""},
    Form{"Async checkpoint save for step", PhaseMark::SaveEnds, "step"},
    Form{"Saving model checkpoint to", PhaseMark::SaveBegins, "checkpoint-"},
    Form{"is about to be saved!", PhaseMark::SaveBegins, kAnyStep},
    Form{"is ready now!", PhaseMark::SaveEnds, kAnyStep},
    Form{"Saving current state to", PhaseMark::SaveBegins, kAnyStep},
    Form{", saving model to '", PhaseMark::SaveBegins, kAnyStep},
    Form{"aved checkpoint", PhaseMark::SaveEnds, kAnyStep},
    Form{"heckpoint saved", PhaseMark::SaveEnds, kAnyStep},
    Form{"validation loss at ", PhaseMark::EvaluationEnds, ""},
    Form{"** Finished validation **", PhaseMark::EvaluationEnds, ""},
    Form{"** Starting validation **", PhaseMark::EvaluationBegins, ""},
    Form{"***** Running Evaluation *****", PhaseMark::EvaluationBegins, ""},
    Form{"***** Running evaluation *****", PhaseMark::EvaluationBegins, ""},
    Form{"Evaluating iter", PhaseMark::EvaluationBegins, ""},
    Form{"Evaluating on ", PhaseMark::EvaluationBegins, ""},
    Form{"\"key\": \"eval_start\"", PhaseMark::EvaluationBegins, ""},
    Form{"\"key\": \"eval_stop\"", PhaseMark::EvaluationEnds, ""},
    Form{"\"key\": \"run_stop\"", PhaseMark::Leaves, ""},
    Form{"exiting program at iteration", PhaseMark::Leaves, ""},
    Form{"exiting program after", PhaseMark::Leaves, ""},
    Form{"after training is done", PhaseMark::Leaves, ""},
    Form{"Training completed. Do not forget", PhaseMark::Leaves, ""},
};

// What every form has, so that most lines are done with one look.
bool may_be(std::string_view line) {
  for (const std::string_view part :
       {"heckpoint", "valuat", "alidation", "\"key\": \"", "exiting program", "raining is done",
        "raining completed", "saving model to '", "Saving current state"})
    if (line.find(part) != std::string_view::npos) return true;
  return false;
}

bool speaks_of_older(std::string_view line) {
  for (const std::string_view word : {"oad", "esum", "estor", "ail", "o saved", "not ", "emov"})
    if (line.find(word) != std::string_view::npos) return true;
  return false;
}

// "global_step100", "step=100", "at iteration 100", "step_100.pt"
std::optional<std::uint64_t> any_step(std::string_view line) {
  for (const std::string_view word : {"step", "iteration", "iter", "checkpoint-"})
    for (auto at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
      std::string_view rest = line.substr(at + word.size());
      rest.remove_prefix(std::min(rest.find_first_not_of(" _=:-"), rest.size()));
      std::size_t length = 0;
      if (const auto number = scan_count(rest, length)) return number;
    }
  return std::nullopt;
}

}  // namespace

std::optional<PhaseLine> parse_phase_line(std::string_view line) {
  line = line.substr(0, 1024);
  if (!may_be(line)) return std::nullopt;
  for (const Form& form : kForms) {
    const auto at = line.find(form.text);
    if (at == std::string_view::npos) continue;
    PhaseLine found{form.mark, std::nullopt};
    if (form.number.empty()) return found;
    if (form.number == kAnyStep) {
      if (speaks_of_older(line)) return std::nullopt;
      found.iteration = any_step(line);
      return found;
    }
    const auto word = line.find(form.number, at);
    if (word == std::string_view::npos) return found;
    std::size_t length = 0;
    found.iteration = scan_count(trim_left(line.substr(word + form.number.size())), length);
    return found;
  }
  return std::nullopt;
}

}  // namespace stoker::diagnose
