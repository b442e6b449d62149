// CauseRules: which class of failure brings which others along, what each class means and what to
// do about it. Data: configs/diagnosis/causes.yaml and classes.yaml.
#pragma once

#include <array>
#include <bitset>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "configs/schema/diagnostic.hpp"
#include "diagnose/cause/failure_class.hpp"

namespace stoker::diagnose {

struct ClassMeaning {
  std::string summary;  // "a rank ran out of GPU memory"
  Advice advice;
};

class CauseRules {
 public:
  // Each adds what is wrong to `errors`.
  void read_causes(std::string_view text, const std::string& file, configs::Diagnostics& errors);
  void read_classes(std::string_view text, const std::string& file, configs::Diagnostics& errors);

  // True when a failure of class `cause` explains one of class `effect`: always, or (`later`) when
  // the effect arrived after the cause. Chains are followed.
  [[nodiscard]] bool explains(FailureClass cause, FailureClass effect, bool later) const;
  // The same where no clock shows which of the two arrived first: in logs of two ranks.
  [[nodiscard]] bool explains_unordered(FailureClass cause, FailureClass effect) const;
  // The same where a launcher reports the cause, which it does after its effects.
  [[nodiscard]] bool explains_told_late(FailureClass cause, FailureClass effect) const {
    return told_late_[static_cast<std::size_t>(cause)][static_cast<std::size_t>(effect)];
  }
  // True when Xid `cause` brings Xid `effect` along on one GPU.
  [[nodiscard]] bool xid_explains(int cause, int effect) const;
  [[nodiscard]] const ClassMeaning& meaning(FailureClass c) const {
    return meanings_.at(static_cast<std::size_t>(c));
  }

 private:
  using Row = std::bitset<kFailureClasses>;
  std::array<Row, kFailureClasses> always_{}, later_{}, unordered_{}, told_late_{};
  std::array<ClassMeaning, kFailureClasses> meanings_;
  std::map<int, std::set<int>> xids_;
};

}  // namespace stoker::diagnose
