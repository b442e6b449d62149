// The chronicle: the run's story in Markdown, in the tone of the logs that people kept by hand:
// what happened, the evidence, what was done, iterations and time lost. A pure function of the
// journal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/journal.hpp"

namespace stoker::core {

struct Story;

// The story as it grows: rows are added in order, each once; text() is the whole of it so far.
class Chronicle {
 public:
  explicit Chronicle(RunName run);
  ~Chronicle();
  Chronicle(Chronicle&&) noexcept;
  Chronicle& operator=(Chronicle&&) noexcept;

  // True when there is something new to read. Rows of other runs, and rows added before, are
  // nothing new.
  bool tell(const JournalRow& row);
  [[nodiscard]] std::string text() const;
  [[nodiscard]] Sequence told() const;  // the last row

 private:
  std::unique_ptr<Story> story_;
};

// `rows`: the journal, in order; rows of other runs are left out. `policy`: of the run.
std::string chronicle(const std::vector<JournalRow>& rows, const RunPolicy& policy);

}  // namespace stoker::core
