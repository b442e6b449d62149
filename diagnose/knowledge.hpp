// Knowledge: everything that `diagnose` knows, as data: signatures, cause rules, Xid catalogue.
// What comes with the program is compiled in; a site adds signature files of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "diagnose/cause/cause_rules.hpp"
#include "diagnose/match/signature.hpp"
#include "diagnose/parse/xid_catalogue.hpp"

namespace stoker::diagnose {

struct SiteFile {
  std::string name, text;
};

struct Knowledge {
  std::vector<Signature> signatures;  // in the order of families, then of the file
  CauseRules causes;
  XidCatalogue xids;
};

// What is wrong with a site's file is appended to `errors`, and none of that file's signatures is
// taken. Our own data is checked by the tests; wrong there is a bug (STOKER_CHECK).
std::shared_ptr<const Knowledge> load_knowledge(const std::vector<SiteFile>& site,
                                                configs::Diagnostics& errors);

}  // namespace stoker::diagnose
