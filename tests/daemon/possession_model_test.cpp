// The lease, the control socket and the claims as an exhaustive model: three daemons of one state
// directory on a network file system, each of which may be frozen, woken or killed between any two
// steps, and two job starts for each submission. Every reachable state is visited (breadth first).
// A step here is one system call there; what the code does is in state/possession.cpp,
// socket/line_server.cpp, loop/daemon.cpp and worker/agent/storage/claim.cpp.
// Each Broken variant takes one guard out; the model must find what that guard is for.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace {

constexpr int kDaemons = 3, kEpochs = 3, kStarts = 2, kKills = 1;
int freezes() {  // a second one makes millions of states more
  return std::getenv("STOKER_LONG") != nullptr ? 2 : 1;
}

enum class Broken {
  Nothing,
  SocketByName,        // close() removes the file at the path, also one that a successor bound
  KeepsNoSocket,       // only its own, but the owner does not look whether it is still in place
  CopiesOneJournal,    // only that of the lease before, also when its owner had not copied yet
  ChecksNoFence,       // a successor's lease is not looked for
  ClaimsNothing,       // any start of a job trains
  IgnoresGenerations,  // an older generation trains on beside a newer one
};

enum Pc : std::uint8_t {
  Begin,   // before it looks for the newest lease
  Claim,   // the newest lease stood still: link(2) of the next one
  Copy,    // the lease is ours: the journal is copied
  Unlink,  // listen(): the path is cleared
  Bind,    // and bound
  Loop,    // journals and acts
  Append,  // the fence was passed: the intent is written
  Check,   // before the effect the fence is asked once more
  Submit,  // sbatch
  Answer,  // the result is written
  Close,   // the end: is the socket ours?
  Remove,  // it was
  Gone,
};

enum Memory : std::uint8_t { Absent, Nothing, Intended, Submitted };

struct Daemon {
  std::uint8_t pc = Begin, epoch = 0, saw = 0;
  bool frozen = false, dead = false, searched = false;
};
struct Start {            // of a job: its first acts
  std::uint8_t step = 0;  // 0 queued, 1 has the claim, 2 trains, 3 left
  std::uint8_t generation = 0;
};
struct Job {
  bool there = false;
  std::uint8_t claims = 0;
  std::array<Start, kStarts> starts;
};
struct Journal {
  std::uint8_t memory = Absent, token = 0;  // token: the epoch that decided on the submission
};
struct State {
  std::array<Daemon, kDaemons> daemons;
  std::array<std::uint8_t, kEpochs + 1> lease{};  // owner + 1; 0 = no such file
  std::array<Journal, kEpochs + 1> journal{};     // one a lease
  std::array<Job, kEpochs + 1> jobs{};            // by token
  std::uint8_t socket = 0, freezes = 0, kills = 0, generation = 0;
  bool forgot = false;
};

std::string_view bytes_of(const State& state) {
  static_assert(std::has_unique_object_representations_v<State>);
  return {reinterpret_cast<const char*>(&state), sizeof state};
}

int newest_lease(const State& state) {
  int newest = 0;
  for (int epoch = 1; epoch <= kEpochs; ++epoch)
    if (state.lease[static_cast<std::size_t>(epoch)] != 0) newest = epoch;
  return newest;
}

// All states that follow, with the name of the step.
class Steps {
 public:
  explicit Steps(Broken broken) : broken_(broken) {}
  std::vector<std::pair<std::string, State>> of(const State& state) {
    out_.clear();
    kept_ = 0;
    for (int d = 0; d < kDaemons; ++d) daemon_steps(state, d);
    for (std::size_t token = 1; token <= kEpochs; ++token)
      for (std::size_t start = 0; start < kStarts; ++start) job_step(state, token, start);
    moved_ = out_.size();
    for (int d = 0; d < kDaemons; ++d) world_steps(state, d);
    return out_;
  }
  // Something could go on without a freeze, a waking or a kill; without counting sockets that are
  // put back (endlessly where two daemons do it).
  [[nodiscard]] bool moved() const { return moved_ > 0; }
  [[nodiscard]] bool acted() const { return moved_ > kept_; }

 private:
  State& add(const State& from, std::string name) {
    return out_.emplace_back(std::move(name), from).second;
  }
  [[nodiscard]] bool fenced(const State& s, const Daemon& d) const {
    return broken_ != Broken::ChecksNoFence && d.epoch < kEpochs && s.lease[d.epoch + 1u] != 0;
  }
  void daemon_steps(const State& s, int number);
  void loop_steps(const State& s, int number);
  void job_step(const State& s, std::size_t token, std::size_t start);
  void world_steps(const State& s, int number);

  Broken broken_;
  const int freezes_ = freezes();
  std::size_t moved_ = 0, kept_ = 0;
  std::vector<std::pair<std::string, State>> out_;
};

void Steps::daemon_steps(const State& s, int number) {
  const auto n = static_cast<std::size_t>(number);
  const Daemon& d = s.daemons[n];
  if (d.frozen || d.dead || d.pc == Gone) return;
  const auto to = [&](const char* what, Pc pc) -> State& {
    State& next = add(s, fmt::format("daemon {} {}", number + 1, what));
    next.daemons[n].pc = pc;
    return next;
  };
  switch (d.pc) {
    case Begin: {
      const int newest = newest_lease(s);
      if (newest == kEpochs) return;
      if (newest > 0) {
        const Daemon& owner = s.daemons[s.lease[static_cast<std::size_t>(newest)] - 1u];
        const bool still = owner.frozen || owner.dead || owner.pc == Gone;
        if (!still) return;
      }
      to("sees the newest lease stand still", Claim).daemons[n].saw =
          static_cast<std::uint8_t>(newest);
      return;
    }
    case Claim: {
      if (s.lease[d.saw + 1u] != 0) return void(to("is late", Begin));
      State& next = to("makes the next lease", Copy);
      next.lease[d.saw + 1u] = static_cast<std::uint8_t>(number + 1);
      next.daemons[n].epoch = static_cast<std::uint8_t>(d.saw + 1);
      return;
    }
    case Copy: {
      State& next = to("copies the journal", Unlink);
      std::optional<Journal> found;
      for (std::size_t epoch = d.epoch - 1u; epoch > 0; --epoch) {
        if (s.journal[epoch].memory != Absent) {
          found = s.journal[epoch];
          break;
        }
        if (broken_ == Broken::CopiesOneJournal) break;
      }
      next.journal[d.epoch] = found.value_or(Journal{Nothing, 0});
      for (std::size_t epoch = 1; epoch < d.epoch; ++epoch)
        next.forgot |= !found && s.journal[epoch].memory != Absent;
      return;
    }
    case Unlink: to("clears the socket's path", Bind).socket = 0; return;
    case Bind: to("binds its socket", Loop).socket = static_cast<std::uint8_t>(number + 1); return;
    case Close:
      if (broken_ == Broken::SocketByName || s.socket == number + 1)
        to("means to remove its socket", Remove);
      else
        to("ends", Gone);
      return;
    case Remove: to("removes the socket and ends", Gone).socket = 0; return;
    default: return loop_steps(s, number);
  }
}

void Steps::loop_steps(const State& s, int number) {
  const auto n = static_cast<std::size_t>(number);
  const Daemon& d = s.daemons[n];
  const Journal& journal = s.journal[d.epoch];
  const auto to = [&](const char* what, Pc pc) -> State& {
    State& next = add(s, fmt::format("daemon {} {}", number + 1, what));
    next.daemons[n].pc = pc;
    return next;
  };
  switch (d.pc) {
    case Loop: {
      if (fenced(s, d)) return void(to("sees its successor", Close));
      const bool keeps = broken_ != Broken::KeepsNoSocket && broken_ != Broken::SocketByName;
      if (keeps && s.socket != number + 1) {
        ++kept_;
        to("puts its socket back", Unlink);
      }
      if (journal.memory == Nothing) to("decides to submit", Append);
      if (journal.memory == Intended && journal.token != d.epoch) {  // its predecessor's intent
        State& next = to("searches for the token", Loop);
        if (s.jobs[journal.token].there)
          next.journal[d.epoch].memory = Submitted;
        else
          next.journal[d.epoch].memory = Nothing;
      }
      return;
    }
    case Append: {
      State& next = to("writes its intent", Check);
      next.journal[d.epoch] = {Intended, d.epoch};
      return;
    }
    case Check:
      to(fenced(s, d) ? "sees its successor" : "may act", fenced(s, d) ? Close : Submit);
      return;
    case Submit: to("submits", Answer).jobs[d.epoch].there = true; return;
    case Answer:
      if (fenced(s, d)) return void(to("sees its successor", Close));
      to("writes the answer", Loop).journal[d.epoch].memory = Submitted;
      return;
    default: return;
  }
}

void Steps::job_step(const State& s, std::size_t token, std::size_t start) {
  const Job& job = s.jobs[token];
  if (!job.there) return;
  const Start& now = job.starts[start];
  const auto to = [&](const char* what, std::uint8_t step) -> State& {
    State& next = add(s, fmt::format("start {} of job {} {}", start + 1, token, what));
    next.jobs[token].starts[start].step = step;
    return next;
  };
  if (now.step == 0) {
    const bool free = job.claims == 0 || broken_ == Broken::ClaimsNothing;
    State& next = to(free ? "has the claim" : "finds it claimed", free ? 1 : 3);
    if (free) ++next.jobs[token].claims;
  } else if (now.step == 1) {
    State& next = to("makes a generation", 2);
    next.jobs[token].starts[start].generation = ++next.generation;
  } else if (now.step == 2 && now.generation < s.generation &&
             broken_ != Broken::IgnoresGenerations) {
    to("leaves, a newer generation is there", 3);
  }
}

void Steps::world_steps(const State& s, int number) {
  const auto n = static_cast<std::size_t>(number);
  const Daemon& d = s.daemons[n];
  if (d.dead || d.pc == Gone) return;
  if (d.frozen) {
    add(s, fmt::format("daemon {} wakes up", number + 1)).daemons[n].frozen = false;
    return;
  }
  if (s.freezes < freezes_ && d.pc != Begin) {
    State& next = add(s, fmt::format("daemon {} freezes", number + 1));
    next.daemons[n].frozen = true;
    ++next.freezes;
  }
  if (s.kills < kKills && d.pc != Begin) {
    State& next = add(s, fmt::format("daemon {} is killed", number + 1));
    next.daemons[n].dead = true;
    ++next.kills;
  }
}

// What must hold in every state; "" = it does.
std::string wrong_anywhere(const State& s) {
  for (std::size_t token = 1; token <= kEpochs; ++token)
    if (s.jobs[token].claims > 1) return fmt::format("two starts have the claim of job {}", token);
  if (s.forgot) return "a daemon began with nothing although a journal is there";
  return "";
}

bool two_act(const State& s) {
  return std::count_if(s.daemons.begin(), s.daemons.end(),
                       [](const Daemon& d) { return !d.dead && !d.frozen && d.pc == Loop; }) > 1;
}

// What must hold where nothing moves any more and no daemon is frozen.
std::string wrong_at_rest(const State& s) {
  int training = 0, owner = 0;
  for (int d = 0; d < kDaemons; ++d) {
    const Daemon& daemon = s.daemons[static_cast<std::size_t>(d)];
    if (daemon.frozen) return "";
    if (!daemon.dead && daemon.pc == Loop) owner = d + 1;
  }
  for (const Job& job : s.jobs)
    for (const Start& start : job.starts) training += start.step == 2 ? 1 : 0;
  if (training > 1) return "two job starts train";
  if (owner == 0) return "";  // the last epoch of the model is dead
  if (s.socket != owner) return fmt::format("the socket of daemon {} is not in place", owner);
  const Daemon& last = s.daemons[static_cast<std::size_t>(owner - 1)];
  if (s.journal[last.epoch].memory != Submitted) return "nothing was submitted";
  if (training == 0) return "nothing trains";
  return "";
}

struct Found {
  std::string wrong;               // "" = nothing in all states
  std::vector<std::string> steps;  // the shortest way to it
  std::size_t states = 0;
};

// The states in the order in which they were met, each with the one that it followed.
class Met {
 public:
  Met() : index_(0, Hash{*this}, Equal{*this}) {}
  bool add(const State& state, std::uint32_t from) {
    states.push_back(state);
    const bool fresh = index_.insert(static_cast<std::uint32_t>(states.size() - 1)).second;
    if (fresh)
      parents.push_back(from);
    else
      states.pop_back();
    return fresh;
  }
  std::deque<State> states;
  std::vector<std::uint32_t> parents;

 private:
  struct Hash {
    const Met& met;
    std::size_t operator()(std::uint32_t n) const {
      return std::hash<std::string_view>()(bytes_of(met.states[n]));
    }
  };
  struct Equal {
    const Met& met;
    bool operator()(std::uint32_t a, std::uint32_t b) const {
      return bytes_of(met.states[a]) == bytes_of(met.states[b]);
    }
  };
  std::unordered_set<std::uint32_t, Hash, Equal> index_;
};

std::vector<std::string> way_to(const Met& met, std::uint32_t at, Steps& steps) {
  std::vector<std::string> way;
  for (; at != 0; at = met.parents[at])
    for (const auto& [step, after] : steps.of(met.states[met.parents[at]]))
      if (bytes_of(after) == bytes_of(met.states[at])) {
        way.insert(way.begin(), step);
        break;
      }
  return way;
}

Found explore(Broken broken) {
  Steps steps(broken);
  Met met;
  met.add(State{}, 0);
  Found found;
  for (std::uint32_t at = 0; at < met.states.size() && found.wrong.empty(); ++at) {
    const State state = met.states[at];
    const auto next = steps.of(state);
    found.wrong = wrong_anywhere(state);
    if (!steps.acted() && two_act(state)) found.wrong = "two daemons act";
    if (found.wrong.empty() && !steps.moved()) found.wrong = wrong_at_rest(state);
    if (!found.wrong.empty()) found.steps = way_to(met, at, steps);
    for (const auto& [step, after] : next) met.add(after, at);
  }
  found.states = met.states.size();
  return found;
}

std::string story(const Found& found) {
  return fmt::format("{}\n  {}", found.wrong, fmt::join(found.steps, "\n  "));
}

}  // namespace

TEST_CASE(
    "model: three daemons frozen or killed anywhere -> one acts, its socket stays, one job "
    "trains") {
  const Found found = explore(Broken::Nothing);
  CHECK_MESSAGE(found.wrong.empty(), story(found));
  MESSAGE(found.states << " states");
  CHECK(found.states > 10'000);
}

TEST_CASE("model: each guard taken out -> what it is for is found") {
  const std::vector<std::pair<Broken, const char*>> variants{
      {Broken::SocketByName, "the socket of daemon"},
      {Broken::KeepsNoSocket, "the socket of daemon"},
      {Broken::CopiesOneJournal, "a daemon began with nothing"},
      {Broken::ChecksNoFence, "two daemons act"},
      {Broken::ClaimsNothing, "two starts have the claim"},
      {Broken::IgnoresGenerations, "two job starts train"}};
  for (const auto& variant : variants) {
    const Found found = explore(variant.first);
    const char* const expected = variant.second;
    CHECK_MESSAGE(found.wrong.find(expected) != std::string::npos,
                  std::string(expected) << " was not found: " << story(found));
  }
}
