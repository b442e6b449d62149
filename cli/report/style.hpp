// The style of the report: for a screen by day and by night, for a telephone, and for paper.
#pragma once

namespace stoker::cli::postmortem {

inline constexpr const char* kStyle = R"css(
:root{--back:#fff;--text:#1b2430;--muted:#5a6674;--line:#e1e5ea;--accent:#2563b0;--good:#1a7a48;
--bad:#b92525;--mild:#9a5b00;--band:rgba(200,50,50,.16);--planned:rgba(90,110,130,.14)}
@media (prefers-color-scheme:dark){:root{--back:#11161c;--text:#e4e9ee;--muted:#97a4b1;
--line:#2b3540;--accent:#77aefb;--good:#57cc90;--bad:#ff7b7b;--mild:#f0b350;
--band:rgba(255,110,110,.2);--planned:rgba(150,165,180,.18)}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1140px;padding:1.2rem;background:var(--back);color:var(--text);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:1.8rem 0 .5rem;border-bottom:1px solid var(--line)}
.muted{color:var(--muted)}.good{color:var(--good)}.bad{color:var(--bad)}.mild{color:var(--mild)}
.verdict{font-size:1.1rem;font-weight:600;margin:.3rem 0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:.5rem 1.2rem;
margin:1rem 0}
.figures dt{color:var(--muted);font-size:.8rem}.figures dd{margin:0;font-size:1.15rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(340px,100%),1fr));gap:1rem}
figure{margin:0;min-width:0}figcaption{font-size:.85rem}
svg{display:block;width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--muted)}
.grid{stroke:var(--line);stroke-width:1}.mid{fill:none;stroke:var(--accent);stroke-width:1.6}
.spread{fill:var(--accent);opacity:.25}.band{fill:var(--band)}.planned{fill:var(--planned)}
.bar{fill:var(--accent)}.bar.good{fill:var(--good)}.bar.bad{fill:var(--bad)}
.waterfall{max-width:700px}.todo code{display:inline-block;min-width:16rem}
.other{fill:none;stroke:var(--mild);stroke-width:1.6;stroke-dasharray:5 3}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .9rem .25rem 0;
border-bottom:1px solid var(--line)}th{color:var(--muted);font-weight:500}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
details{border-bottom:1px solid var(--line);padding:.3rem 0;overflow-wrap:anywhere}
summary{cursor:pointer}ol{list-style:none;padding-left:1.2rem;margin:.3rem 0}
pre{overflow-x:auto;font-size:.85rem}
@media print{body{max-width:none;padding:0;font-size:11px}details>*{display:block}
figure,tr,details{break-inside:avoid}}
)css";

}  // namespace stoker::cli::postmortem
