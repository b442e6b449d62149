// Makes a Finding of one matched line: node, ranks, GPU and code from the signature's groups, else
// from the labels in front of the line; kernel lines are decoded with the Xid catalogue.
#pragma once

#include "diagnose/input/line_origin.hpp"
#include "diagnose/match/finding.hpp"
#include "diagnose/match/pattern_set.hpp"
#include "diagnose/parse/xid_catalogue.hpp"

namespace stoker::diagnose {

// `text` is the line without terminal sequences. The caller sets file and line.
Finding make_finding(const Signature& signature, const std::vector<PatternSet::Group>& groups,
                     const LineOrigin& origin, std::string_view text);

// Fills in what `words`, the line from the kernel's own words on, say: code, GPU, meaning,
// severity. False: the line is a follow-up of one that was reported already (data lines of an
// SXid).
bool decode_kernel(Finding& finding, std::string_view words, const XidCatalogue& catalogue);

// "0-2,5" -> 0 1 2 5, at most 4096 of them; what is no number is left out.
std::vector<std::uint32_t> rank_list(std::string_view text);

}  // namespace stoker::diagnose
