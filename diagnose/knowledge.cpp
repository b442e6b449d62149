// Reads the embedded files by their folder.
#include "diagnose/knowledge.hpp"

#include "common/check.hpp"
#include "diagnose/embedded_data.hpp"

namespace stoker::diagnose {

namespace {

void must(const Status& status) {
  STOKER_CHECK(status.has_value(), status.has_value() ? "" : status.error().message());
}

void add_signatures(Knowledge& knowledge, std::vector<Signature> more) {
  for (auto& signature : more) knowledge.signatures.push_back(std::move(signature));
}

}  // namespace

std::shared_ptr<const Knowledge> load_knowledge(const std::vector<SiteFile>& site,
                                                configs::Diagnostics& errors) {
  auto knowledge = std::make_shared<Knowledge>();
  configs::Diagnostics ours;
  for (const auto& file : embedded_files()) {
    const std::string name(file.name);
    if (name.starts_with("configs/signatures/"))
      add_signatures(*knowledge, read_signatures(file.text, name, knowledge->signatures, ours));
    else if (name == "configs/diagnosis/causes.yaml")
      knowledge->causes.read_causes(file.text, name, ours);
    else if (name == "configs/diagnosis/classes.yaml")
      knowledge->causes.read_classes(file.text, name, ours);
    else if (name == "configs/xid/xid.tsv")
      must(knowledge->xids.read_xids(file.text, name));
    else if (name == "configs/xid/sxid.tsv")
      must(knowledge->xids.read_sxids(file.text, name));
  }
  STOKER_CHECK(ours.empty(), ours.empty() ? "" : ours.front().text());
  for (const auto& file : site) {
    configs::Diagnostics wrong;
    auto more = read_signatures(file.text, file.name, knowledge->signatures, wrong, Lint::Yes);
    if (wrong.empty()) add_signatures(*knowledge, std::move(more));
    errors.insert(errors.end(), wrong.begin(), wrong.end());
  }
  return knowledge;
}

}  // namespace stoker::diagnose
