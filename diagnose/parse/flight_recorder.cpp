// Older dumps have no pg_status: then the entries alone tell, as far as their ring reaches.
#include "diagnose/parse/flight_recorder.hpp"

#include <algorithm>
#include <charconv>

#include "diagnose/parse/pickle.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::size_t kMostGroups = 10'000;

// Numbers are written as numbers or as text, by version.
std::int64_t number_at(const Json& map, const char* key) {
  if (!map.is_object()) return -1;
  const auto found = map.find(key);
  if (found == map.end()) return -1;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (!found->is_string()) return -1;
  const auto& text = found->get_ref<const std::string&>();
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string text_at(const Json& map, const char* key) {
  if (!map.is_object()) return "";
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>().substr(0, 200) : "";
}

// A group's own name is the same on all its ranks; its number on one rank (pg_id) is not.
std::string named(const std::string& name, const std::string& description) {
  const bool told = !description.empty() && description != "undefined";
  return told ? name + "(" + description + ")" : name;
}
std::string group_name(const Json& dump, const std::string& id) {
  const auto groups = dump.find("pg_config");
  if (groups == dump.end() || !groups->is_object() || !groups->contains(id)) return id;
  return named(id, text_at((*groups)[id], "desc"));
}

// "nccl:all_reduce" -> "ALL_REDUCE"
std::string operation_of(const Json& entry) {
  std::string name = text_at(entry, "profiling_name");
  name = name.substr(name.rfind(':') + 1);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

struct Progress {
  CollectiveReport report;  // its group is empty until an entry names it
  std::int64_t completed = -1;
};

void take_entry(const Json& entry, Progress& group) {
  if (const auto name = entry.find("process_group");
      name != entry.end() && name->is_array() && name->size() == 2 && (*name)[0].is_string())
    group.report.group =
        named((*name)[0].get<std::string>().substr(0, 200),
              (*name)[1].is_string() ? (*name)[1].get<std::string>().substr(0, 200) : "");
  const auto p2p = entry.find("is_p2p");
  if (p2p != entry.end() && p2p->is_boolean() && p2p->get<bool>()) return;
  std::int64_t sequence = number_at(entry, "collective_seq_id");
  if (sequence < 0) sequence = number_at(entry, "seq_id");  // dumps before 2.2
  if (sequence < 0) return;
  CollectiveReport& r = group.report;
  r.entered = std::max(r.entered, sequence);
  const std::string state = text_at(entry, "state");
  if (state == "completed") {
    group.completed = std::max(group.completed, sequence);
  } else if (!state.empty() && (r.stuck_in < 0 || sequence < r.stuck_in)) {
    r.stuck_in = sequence;
    r.operation = operation_of(entry);
  }
}

}  // namespace

bool may_be_flight_dump(std::string_view head) {
  if (is_pickle(head)) return true;
  return !head.empty() && head.front() == '{' && head.find("\"pg_config\"") < 4096;
}

Result<std::vector<CollectiveReport>> read_flight_dump(std::string_view bytes, std::uint32_t rank,
                                                       const std::string& object) {
  Json dump;
  if (is_pickle(bytes)) {
    PickleLimits limits;
    limits.left_out = "frames";  // most of a dump, and no word about who waits for whom
    STOKER_TRY(read, read_pickle(bytes, object, limits));
    dump = std::move(read);
  } else {
    STOKER_TRY(read, parse_json(bytes, object, {64u << 20, 32}));
    dump = std::move(read);
  }
  if (!dump.is_object() || (!dump.contains("entries") && !dump.contains("pg_status")))
    return fail("is no dump of the flight recorder", object);
  std::map<std::string, Progress> groups;
  const auto group = [&](const std::string& id) -> Progress* {
    if (groups.size() >= kMostGroups && !groups.contains(id)) return nullptr;
    Progress& one = groups[id];
    one.report.rank = rank;
    return &one;
  };
  if (const auto entries = dump.find("entries"); entries != dump.end() && entries->is_array())
    for (const Json& entry : *entries) {
      if (!entry.is_object()) continue;
      const std::int64_t id = number_at(entry, "pg_id");
      if (Progress* one = group(std::to_string(std::max<std::int64_t>(id, 0))))
        take_entry(entry, *one);
    }
  if (const auto status = dump.find("pg_status"); status != dump.end() && status->is_object())
    for (const auto& [id, told] : status->items()) {
      Progress* one = group(id);
      if (one == nullptr) continue;
      one->report.entered =
          std::max(one->report.entered, number_at(told, "last_enqueued_collective"));
      one->completed = std::max(one->completed, number_at(told, "last_completed_collective"));
    }
  std::vector<CollectiveReport> reports;
  for (auto& [id, one] : groups) {
    CollectiveReport& r = one.report;
    // Completed ones may still be listed as started when the dump was taken.
    if (r.stuck_in >= 0 && r.stuck_in <= one.completed) r.stuck_in = -1;
    if (r.stuck_in < 0 && one.completed >= 0 && r.entered > one.completed)
      r.stuck_in = one.completed + 1;
    if (r.group.empty()) r.group = group_name(dump, id);
    reports.push_back(std::move(r));
  }
  return reports;
}

}  // namespace stoker::diagnose
