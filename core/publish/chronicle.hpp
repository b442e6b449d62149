// The chronicle: the run's story in Markdown, in the tone of the logs that people kept by hand:
// what happened, the evidence, what was done, iterations and time lost. A pure function of the
// journal, and of the account that status shows for what it cost: there is one account of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/journal.hpp"
#include "wire/status.hpp"

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
  // `account`: of the run's status, null = without GPU hours.
  [[nodiscard]] std::string text(const wire::StatusGoodput* account = nullptr) const;
  [[nodiscard]] Sequence last_row() const;  // that it has read

 private:
  std::unique_ptr<Story> story_;
};

// `rows`: the journal, in order; rows of other runs are left out.
std::string chronicle(const std::vector<JournalRow>& rows, const RunName& run,
                      const wire::StatusGoodput* account = nullptr);

}  // namespace stoker::core
