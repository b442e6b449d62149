// Texts of the programs themselves: Megatron-LM and Megatron-DeepSpeed (training.py,
// checkpointing.py), our own core, NeMo, torchtitan, Hugging Face's Trainer, IDEFICS, MLPerf.
#include "diagnose/phase_line.hpp"

#include <array>

#include "diagnose/line_scan.hpp"

namespace stoker::diagnose {

namespace {

struct Form {
  std::string_view text;
  PhaseMark mark;
  std::string_view number;  // stands behind this
};

// The first that a line has counts: what ends something stands before what begins it.
constexpr std::array kForms{
    Form{"successfully saved checkpoint", PhaseMark::SaveEnds, "iteration"},
    Form{"successfully loaded checkpoint", PhaseMark::LoadEnds, "iteration"},
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
  for (const std::string_view part : {"heckpoint", "valuat", "alidation", "\"key\": \"",
                                      "exiting program", "raining is done", "raining completed"})
    if (line.find(part) != std::string_view::npos) return true;
  return false;
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
    const auto word = line.find(form.number, at);
    if (word == std::string_view::npos) return found;
    std::size_t length = 0;
    found.iteration = scan_count(trim_left(line.substr(word + form.number.size())), length);
    return found;
  }
  return std::nullopt;
}

}  // namespace stoker::diagnose
