#include "core/supply/pending_reason.hpp"

namespace stoker::core::supply {
namespace {

struct KnownReason {
  std::string_view name;  // a final '*' matches any ending
  ReasonClass kind;
  std::string_view meaning;
};
constexpr KnownReason kReasons[] = {
    {"None", ReasonClass::Waiting, "not considered yet"},
    {"Resources", ReasonClass::Waiting, "waits for nodes that others use"},
    {"Priority", ReasonClass::Waiting, "other jobs have a higher priority"},
    {"BeginTime", ReasonClass::Waiting, "its begin time is not reached"},
    {"DependencyNeverSatisfied", ReasonClass::Never, "its dependency can never be satisfied"},
    {"Dependency", ReasonClass::Waiting, "an earlier job of this run has not ended"},
    {"JobArrayTaskLimit", ReasonClass::Waiting, "the task before it runs"},
    {"ReqNodeNotAvail*", ReasonClass::Waiting, "nodes that it needs are down, drained or reserved"},
    {"Nodes required for job are DOWN*", ReasonClass::Waiting, "nodes that it needs are away"},
    {"Reservation *was deleted", ReasonClass::Never, "its reservation ended or was removed"},
    {"ReservationDeleted", ReasonClass::Never, "its reservation ended or was removed"},
    {"Reservation*", ReasonClass::Waiting, "its reservation has not begun"},
    {"Cleaning", ReasonClass::Waiting, "its earlier start is still being cleaned up"},
    {"Prolog", ReasonClass::Waiting, "the prolog runs"},
    {"PartitionDown", ReasonClass::Waiting, "the partition is down"},
    {"PartitionInactive", ReasonClass::Waiting, "the partition is inactive"},
    {"FrontEndDown", ReasonClass::Waiting, "no front end is up"},
    {"Licenses", ReasonClass::Waiting, "waits for licences"},
    {"SchedDefer", ReasonClass::Waiting, "the scheduler defers starts"},
    {"QOSGrp*Limit", ReasonClass::Person, "a limit of the QOS is reached"},
    {"QOSMaxJobs*", ReasonClass::Waiting, "your own jobs fill the QOS"},
    {"AssocMaxJobs*", ReasonClass::Waiting, "your own jobs fill the account"},
    {"JobHeldUser", ReasonClass::Person, "a user holds it (scontrol release)"},
    {"JobHeldAdmin", ReasonClass::Person, "an administrator holds it"},
    {"launch failed requeued held", ReasonClass::Person, "its launch failed on a node"},
    {"JobHoldMaxRequeue", ReasonClass::Person, "it was requeued too often"},
    {"AssocGrp*", ReasonClass::Person, "a limit of the account is reached"},
    {"Assoc*", ReasonClass::Person, "a limit of the association is reached"},
    {"QOS*", ReasonClass::Person, "a limit of the QOS is in the way"},
    {"MaxJobs*", ReasonClass::Person, "a limit of jobs is reached"},
    {"PartitionTimeLimit", ReasonClass::Person, "it asks for more time than the partition gives"},
    {"PartitionNodeLimit", ReasonClass::Person, "it asks for more nodes than the partition gives"},
    {"PartitionConfig", ReasonClass::Person, "the partition does not admit it"},
    {"AccountNotAllowed", ReasonClass::Person, "the account may not use this partition"},
    {"QOSNotAllowed", ReasonClass::Person, "the QOS may not use this partition"},
    {"InvalidAccount", ReasonClass::Person, "the account is not valid"},
    {"InvalidQOS", ReasonClass::Person, "the QOS is not valid"},
    {"AccountingPolicy", ReasonClass::Person, "accounting policy forbids it"},
    {"DeadLine", ReasonClass::Person, "it cannot end before its deadline"},
    {"BadConstraints", ReasonClass::Person, "no node of the cluster can satisfy its constraints"},
    {"NonZeroExitCode", ReasonClass::Waiting, "it ended with an exit code"},
};

bool matches(std::string_view pattern, std::string_view text) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  const std::string_view head = pattern.substr(0, star);
  const std::string_view tail = pattern.substr(star + 1);
  return text.size() >= head.size() + tail.size() && text.substr(0, head.size()) == head &&
         text.substr(text.size() - tail.size()) == tail;
}

}  // namespace

Reason classify_reason(std::string_view reason, bool we_excluded) {
  if (we_excluded && reason == "BadConstraints")
    return {ReasonClass::Ours, "our exclusions leave too few nodes"};
  for (const KnownReason& known : kReasons)
    if (matches(known.name, reason)) {
      Reason out{known.kind, std::string(known.meaning)};
      if (we_excluded && reason == "Resources") out.meaning += " (our exclusions may be why)";
      return out;
    }
  return {ReasonClass::Waiting, "a reason that this version does not know"};
}

}  // namespace stoker::core::supply
