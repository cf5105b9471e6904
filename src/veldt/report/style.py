"""The report's style sheet: system fonts, one accent colour, light and dark palettes, a layout for phones."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fcfcfa; --ink: #1c1e22; --muted: #6c7078; --rule: #e4e4df; --grid: #e9e9e5; --wash: #f3f3ef;
  --accent: #2b66cc; --mark: #fdf3d3; --good: #1d7f58; --warn: #b5651d; --bad: #c03a45;
  --series-0: #2f6fdb; --series-1: #d9772b; --series-2: #23966b; --series-3: #8457c7;
  --series-4: #cf4a55; --series-5: #2590a8; --series-6: #87872b; --series-7: #b0568f;
  --simulate: #5b8def; --infer: #2fb5a0; --replay: #b07cc6; --train: #e8954a;
  --evaluate: #5fa85f; --wait: #b9bcc2; --other: #dcd7cc;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14161a; --ink: #e6e6e3; --muted: #959aa3; --rule: #2b2f36; --grid: #262a30; --wash: #1c1f24;
    --accent: #7aa7f5; --mark: #3a3318; --good: #58c596; --warn: #e0a060; --bad: #f07d86;
    --series-0: #6ea0f5; --series-1: #f0a064; --series-2: #52c79a; --series-3: #b08ff0;
    --series-4: #f07d86; --series-5: #5cc3da; --series-6: #c4c466; --series-7: #e08fc4;
    --simulate: #5b8def; --infer: #2fb5a0; --replay: #b07cc6; --train: #e8954a;
    --evaluate: #5fa85f; --wait: #565c66; --other: #3d3a34;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 48px 24px 64px; max-width: 1128px; background: var(--page); color: var(--ink);
  font: 15px/1.5 Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums;
}
h1 { margin: 0; font-size: 34px; line-height: 1.15; font-weight: 650; letter-spacing: -0.022em; text-wrap: balance; }
h1 span { color: var(--muted); font-weight: 400; }
h2 { margin: 0 0 20px; font-size: 19px; line-height: 1.3; font-weight: 620; letter-spacing: -0.012em; }
h2.environment { margin: 72px 0 -20px; padding-top: 20px; border-top: 1px solid var(--rule); font-size: 26px; }
h3 { margin: 0 0 8px; font-size: 13.5px; line-height: 1.35; font-weight: 560; }
h3 small { margin-left: 6px; font-size: 12.5px; font-weight: 400; color: var(--muted); }
p { margin: 0; }
a { color: var(--accent); text-underline-offset: 2px; }
section { margin-top: 56px; }
.lead { margin-top: 12px; color: var(--muted); display: flex; flex-wrap: wrap; gap: 4px 18px; align-items: baseline; }
.state::before {
  content: ""; display: inline-block; width: 8px; height: 8px; margin-right: 7px; border-radius: 50%;
  background: var(--good);
}
.state.running::before { background: var(--accent); }
.state.interrupted::before { background: var(--warn); }
.state.broken::before { background: var(--bad); }

.metrics {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 28px 24px; margin: 40px 0 0;
}
.metrics div { border-top: 1px solid var(--rule); padding-top: 12px; }
.metrics div:first-child { border-top: 2px solid var(--series-0); padding-top: 11px; }
dt { font-size: 13px; color: var(--muted); }
dd { margin: 0; }
.metrics dd { font-size: 26px; line-height: 1.25; font-weight: 600; letter-spacing: -0.02em; }
.metrics dd small { display: block; font-size: 13px; font-weight: 400; letter-spacing: 0; color: var(--muted); }

.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 36px; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 36px 30px; }
.speed .bars { margin-bottom: 36px; }
figure { margin: 0; min-width: 0; }
.improvement { margin-top: 32px; }
.improvement .note { margin-top: 0; }
.scroll + figure { margin-top: 32px; max-width: 640px; }
figure p { font-size: 12.5px; color: var(--muted); }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-family: inherit; fill: var(--muted); }
.narrow { display: none; }
.legend {
  display: flex; flex-wrap: wrap; gap: 6px 20px; margin: 0 0 18px; padding: 0;
  list-style: none; font-size: 13.5px;
}
.legend i, td i {
  display: inline-block; width: 14px; height: 3px; margin-right: 8px; border-radius: 2px; vertical-align: middle;
}
.legend.stages i { width: 10px; height: 10px; }
.legend span { color: var(--muted); margin-left: 6px; }

.bars { display: grid; grid-template-columns: minmax(0, auto) minmax(0, 1fr); gap: 12px 18px; align-items: center; }
.bars.one { grid-template-columns: minmax(0, 1fr); }
.bars span { font-size: 13.5px; overflow-wrap: anywhere; }
.bar { display: flex; height: 26px; border-radius: 5px; overflow: hidden; background: var(--wash); gap: 2px; }
.bar div { min-width: 1px; }

.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 13.5px; }
th, td { padding: 7px 20px 7px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
th { font-weight: 500; color: var(--muted); white-space: nowrap; }
th.number, td.number { text-align: right; white-space: nowrap; }
tr > :last-child { padding-right: 0; }
td.nowrap { white-space: nowrap; }
td.text { width: 100%; min-width: 160px; overflow-wrap: anywhere; }
tr.differs td { background: var(--mark); }
tr.differs td:first-child { box-shadow: -8px 0 0 var(--mark); }
code, pre, .settings { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code, pre { font-size: 12.5px; }
pre {
  margin: 0; padding: 14px 16px; border-radius: 6px; background: var(--wash);
  white-space: pre-wrap; overflow-wrap: anywhere;
}

.settings { columns: 3 300px; column-gap: 40px; font-size: 12.5px; }
.settings div { break-inside: avoid; margin-bottom: 22px; }
.settings h3 { margin: 0; padding-bottom: 4px; font-size: 12.5px; border-bottom: 1px solid var(--rule); }
.settings dl { margin: 0; }
.settings dl div { display: flex; justify-content: space-between; gap: 16px; margin: 0; padding: 3px 0; }
.settings dt { font-size: 12.5px; }
.settings dd { text-align: right; overflow-wrap: anywhere; }
.settings .given dt { color: var(--accent); }
.settings .given dd { font-weight: 600; }
.note { margin: -12px 0 20px; font-size: 13.5px; color: var(--muted); }
.note b { font-weight: 600; color: var(--accent); }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(240px, 1fr)); gap: 14px 30px; margin: 0; }
.facts dd { font-size: 14px; overflow-wrap: anywhere; }
.reproduce pre + dl { margin-top: 20px; }
details { margin-top: 20px; }
summary { cursor: pointer; color: var(--accent); font-size: 13.5px; }
details > * + * { margin-top: 14px; }
footer { margin-top: 64px; padding-top: 16px; border-top: 1px solid var(--rule); font-size: 13px; color: var(--muted); }

@media (max-width: 760px) {
  body { padding: 28px 16px 48px; }
  h1 { font-size: 27px; }
  section { margin-top: 44px; }
  .metrics { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 20px 20px; margin-top: 30px; }
  .metrics dd { font-size: 22px; }
  .pair { grid-template-columns: minmax(0, 1fr); }
  .wide { display: none; }
  .narrow { display: block; }
  .bars { grid-template-columns: minmax(0, 1fr); gap: 6px; }
  .bars .bar { margin-bottom: 8px; }
}
@media print {
  body { padding: 0; }
  section { break-inside: avoid; }
}
""".strip()
