// Reads the pairs and closes them over chains (Warshall); a ring in `explains` is an error.
#include "diagnose/cause/cause_rules.hpp"

#include <vector>

#include "configs/schema/yaml_reader.hpp"
#include "diagnose/cause/advice_file.hpp"

namespace stoker::diagnose {

namespace {

std::size_t at(FailureClass c) {
  return static_cast<std::size_t>(c);
}

using Groups = std::map<std::string, std::vector<FailureClass>>;

// A list of class names and group names.
std::vector<FailureClass> read_members(configs::MapReader& map, std::string_view key,
                                       const Groups& groups) {
  std::vector<FailureClass> members;
  map.list(key, [&](configs::ValueReader& item) {
    std::string word;
    if (!item.read(word)) return;
    if (const auto group = groups.find(word); group != groups.end())
      members.insert(members.end(), group->second.begin(), group->second.end());
    else if (const auto named = enum_from<FailureClass>(word))
      members.push_back(*named);
    else
      item.error("no class and no group: " + word);
  });
  return members;
}

template <std::size_t N>
void close_chains(std::array<std::bitset<N>, N>& rows) {
  for (std::size_t middle = 0; middle < N; ++middle)
    for (std::size_t from = 0; from < N; ++from)
      if (rows[from][middle]) rows[from] |= rows[middle];
}

}  // namespace

void CauseRules::read_causes(std::string_view text, const std::string& file,
                             configs::Diagnostics& errors) {
  configs::YamlReader reader(text, file);
  reader.root([&](configs::MapReader& m) {
    Groups groups;
    m.at("groups").entries([&](const configs::YamlKey& key, configs::ValueReader& value) {
      std::vector<FailureClass>& members = groups[key.text];
      value.list([&](configs::ValueReader& item) {
        FailureClass member{};
        if (item.read(member)) members.push_back(member);
      });
    });
    m.list("causes", [&](configs::ValueReader& item) {
      item.map([&](configs::MapReader& entry) {
        FailureClass cause{};
        entry.require("cause", cause);
        for (const auto effect : read_members(entry, "explains", groups))
          always_[at(cause)].set(at(effect));
        for (const auto effect : read_members(entry, "explains_later", groups))
          later_[at(cause)].set(at(effect));
        for (const auto effect : read_members(entry, "explains_unordered", groups))
          unordered_[at(cause)].set(at(effect));
        for (const auto effect : read_members(entry, "explains_told_late", groups))
          told_late_[at(cause)].set(at(effect));
      });
    });
    m.list("xid_causes", [&](configs::ValueReader& item) {
      item.map([&](configs::MapReader& entry) {
        int cause = 0;
        std::vector<int> effects;
        entry.require("cause", cause);
        entry.require("explains", effects);
        xids_[cause].insert(effects.begin(), effects.end());
      });
    });
  });
  close_chains(always_);
  for (std::size_t i = 0; i < kFailureClasses; ++i) {
    if (always_[i][i])
      reader.error({},
                   "`explains` forms a ring at " + std::string(EnumNames<FailureClass>::names[i]));
    later_[i] |= always_[i];
  }
  close_chains(later_);
  const auto wrong = reader.errors();
  errors.insert(errors.end(), wrong.begin(), wrong.end());
}

void CauseRules::read_classes(std::string_view text, const std::string& file,
                              configs::Diagnostics& errors) {
  configs::YamlReader reader(text, file);
  std::set<FailureClass> seen;
  reader.root([&](configs::MapReader& m) {
    m.list("classes", [&](configs::ValueReader& item) {
      item.map([&](configs::MapReader& entry) {
        FailureClass named{};
        entry.require("class", named);
        ClassMeaning& meaning = meanings_[at(named)];
        entry.require("summary", meaning.summary);
        entry.map("advice", [&](configs::MapReader& a) { read_advice(a, meaning.advice); });
        seen.insert(named);
      });
    });
  });
  for (std::size_t i = 0; i < kFailureClasses; ++i)
    if (!seen.contains(static_cast<FailureClass>(i)))
      reader.error({}, "no entry for class " + std::string(EnumNames<FailureClass>::names[i]));
  const auto wrong = reader.errors();
  errors.insert(errors.end(), wrong.begin(), wrong.end());
}

bool CauseRules::explains(FailureClass cause, FailureClass effect, bool later) const {
  if (cause == effect) return false;
  return later ? later_[at(cause)][at(effect)] : always_[at(cause)][at(effect)];
}

bool CauseRules::explains_unordered(FailureClass cause, FailureClass effect) const {
  return unordered_[at(cause)][at(effect)] ||
         (explains(cause, effect, true) && !explains(effect, cause, true));
}

bool CauseRules::xid_explains(int cause, int effect) const {
  const auto row = xids_.find(cause);
  return row != xids_.end() && row->second.contains(effect);
}

}  // namespace stoker::diagnose
