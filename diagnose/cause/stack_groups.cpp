// Line by line: a line begins a thread, is a frame of the thread before, or says nothing.
#include "diagnose/cause/stack_groups.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace stoker::diagnose {
namespace {

constexpr std::size_t kMaxThreads = 512, kMaxFrames = 128, kMaxFrame = 200;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string_view take_word(std::string_view& rest) {
  rest = trimmed(rest);
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

// "thread 4711 pt_main state S wchan futex_wait syscall 202 0x7f…"
std::string proc_thread(std::string_view line) {
  std::string text = "thread";
  take_word(line);
  take_word(line);
  const std::size_t state_at = line.find(" state ");
  if (state_at == std::string_view::npos) return text;
  text += " " + std::string(trimmed(line.substr(0, state_at)));
  line.remove_prefix(state_at + 7);
  const std::string_view state = take_word(line);
  // Running and sleeping alternate all the time; stopped, stuck in the kernel and dead do not.
  if (state == "T" || state == "t") text += ", stopped";
  if (state == "D") text += ", uninterruptible";
  if (state == "Z" || state == "X") text += ", dead";
  for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
    if (word != "wchan" && word != "syscall") continue;
    const std::string_view value = take_word(line);
    if (value != "0" && value != "running" && !value.empty())
      text += ", " + std::string(word) + " " + std::string(value);
  }
  return text;
}

// The function of "[<0>] futex_wait+0x5c/0x130".
std::string kernel_frame(std::string_view line) {
  line.remove_prefix(std::min(line.find(']') + 1, line.size()));
  line = trimmed(line);
  return "kernel " + std::string(line.substr(0, line.find('+')));
}

// "#3  0x00007f… in c10d::wait (this=0x…) at store.cpp:12" -> "c10d::wait store.cpp:12".
std::string numbered_frame(std::string_view line) {
  std::string_view rest = line;
  take_word(rest);
  rest = trimmed(rest);
  if (rest.starts_with("0x")) take_word(rest);
  rest = trimmed(rest);
  if (rest.starts_with("in ")) rest.remove_prefix(3);
  std::string_view name = trimmed(rest.substr(0, rest.find(" (")));
  std::string text(name);
  if (const std::size_t at = rest.rfind(" at "); at != std::string_view::npos) {
    std::string_view place = trimmed(rest.substr(at + 4));
    place.remove_prefix(std::min(place.rfind('/') + 1, place.size()));
    text += " " + std::string(place);
  }
  return text;
}

bool begins_tool_thread(std::string_view line) {
  return line.starts_with("Thread ") || line.starts_with("Current thread ") ||
         (line.starts_with("TID ") && line.ends_with(":"));
}

// py-spy: "train_step (train.py:120)".
bool is_python_frame(std::string_view line) {
  const std::size_t open = line.rfind(" (");
  return open != std::string_view::npos && line.ends_with(")") &&
         line.find(".py:", open) != std::string_view::npos;
}

// faulthandler: `File "/x/train.py", line 120 in train_step` -> py-spy's form; "" = none.
std::string faulthandler_frame(std::string_view line) {
  if (!line.starts_with("File \"")) return {};
  const std::size_t quote = line.rfind("\", line ");
  const std::size_t in = line.rfind(" in ");
  if (quote == std::string_view::npos || in == std::string_view::npos || in < quote) return {};
  std::string_view file = line.substr(6, quote - 6);
  file.remove_prefix(std::min(file.rfind('/') + 1, file.size()));
  const std::string_view number = line.substr(quote + 8, in - quote - 8);
  return std::string(line.substr(in + 4)) + " (" + std::string(file) + ":" + std::string(number) +
         ")";
}

// A thread that is stopped, dead, or in the kernel beyond the reach of signals.
bool is_stuck(const StackGroup& group) {
  return std::any_of(group.threads.begin(), group.threads.end(), [](const std::string& thread) {
    const std::string first = thread.substr(0, thread.find('\n'));
    return first.starts_with("thread") && (first.find(", stopped") != std::string::npos ||
                                           first.find(", uninterruptible") != std::string::npos ||
                                           first.find(", dead") != std::string::npos);
  });
}

// Who is stuck where at least half of the ranks are not; else who is outside the majority.
void name_odd(StackReport& report, std::size_t ranks) {
  const auto take = [&report](const StackGroup& group) {
    report.odd.insert(report.odd.end(), group.members.begin(), group.members.end());
  };
  for (const StackGroup& group : report.groups)
    if (is_stuck(group)) take(group);
  if (!report.odd.empty() && 2 * report.odd.size() <= ranks) return;
  report.odd.clear();
  if (report.groups.size() < 2 || 2 * report.groups[0].members.size() <= ranks) return;
  for (std::size_t i = 1; i < report.groups.size(); ++i) take(report.groups[i]);
}

}  // namespace

std::vector<std::string> reduce_stack(std::string_view text) {
  std::set<std::string> threads;
  std::string current;
  std::size_t frames = 0;
  const auto close = [&] {
    if (!current.empty() && threads.size() < kMaxThreads) threads.insert(current);
    current.clear();
    frames = 0;
  };
  const auto add = [&](std::string frame) {
    if (frame.empty() || ++frames > kMaxFrames) return;
    if (frame.size() > kMaxFrame) frame.resize(kMaxFrame);
    current += (current.empty() ? "" : "\n  ") + frame;
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("thread ")) {
      close();
      add(proc_thread(line));
    } else if (begins_tool_thread(line) || line.starts_with("frames by ") ||
               line.starts_with("process ")) {
      close();
    } else if (line.starts_with("[<")) {
      add(kernel_frame(line));
    } else if (line.starts_with("#")) {
      add(numbered_frame(line));
    } else if (auto frame = faulthandler_frame(line); !frame.empty()) {
      add(std::move(frame));
    } else if (is_python_frame(line)) {
      add(std::string(line));
    }
  }
  close();
  return {threads.begin(), threads.end()};
}

StackReport group_stacks(const std::vector<RankStack>& stacks) {
  std::map<std::vector<std::string>, StackGroup> by_threads;
  for (const RankStack& stack : stacks) {
    const std::vector<std::string> threads = reduce_stack(stack.text);
    StackGroup& group = by_threads[threads];
    group.threads = threads;
    group.members.push_back({stack.node, stack.rank});
  }
  StackReport report;
  for (auto& [threads, group] : by_threads) {
    std::sort(group.members.begin(), group.members.end(),
              [](const auto& a, const auto& b) { return a.rank < b.rank; });
    report.groups.push_back(std::move(group));
  }
  std::sort(report.groups.begin(), report.groups.end(),
            [](const StackGroup& a, const StackGroup& b) {
              if (a.members.size() != b.members.size()) return a.members.size() > b.members.size();
              return a.members[0].rank < b.members[0].rank;
            });
  name_odd(report, stacks.size());
  std::sort(report.odd.begin(), report.odd.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return report;
}

}  // namespace stoker::diagnose
