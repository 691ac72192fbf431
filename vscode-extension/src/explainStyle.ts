// How the explanation looks, in the colours of the person's theme. Sources differ by underline too, not by colour alone.
export const STYLE = `
body {
  max-width: 1100px; margin: 0 auto; padding: 20px 28px 40px; line-height: 1.5;
  color: var(--vscode-editor-foreground); background: var(--vscode-editor-background);
  font-family: var(--vscode-font-family); font-size: var(--vscode-font-size);
}
h1 { font-size: 1.4em; font-weight: 600; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.15em; font-weight: 600; margin: 28px 0 8px; }
p { margin: 4px 0; }
.soft { color: var(--vscode-descriptionForeground); }
.notice { border-left: 3px solid var(--vscode-editorWarning-foreground); padding: 2px 12px; margin: 12px 0; }
pre {
  margin: 6px 0; padding: 12px 14px; border-radius: 5px; tab-size: 4; white-space: pre-wrap; overflow-wrap: anywhere;
  font-family: var(--vscode-editor-font-family); font-size: var(--vscode-editor-font-size);
  background: var(--vscode-textCodeBlock-background); border: 1px solid var(--vscode-widget-border, transparent);
}
pre code { font: inherit; background: none; color: inherit; }
.token { unicode-bidi: isolate; border-radius: 2px; text-underline-offset: 5px; text-decoration-thickness: 2px; }
.lookup { color: var(--vscode-charts-blue); text-decoration-line: underline; }
.model { color: var(--vscode-charts-yellow); text-decoration: underline dashed 2px; }
.target { color: inherit; }
.dropped { color: var(--vscode-descriptionForeground); text-decoration: line-through; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; }
.chip { font-family: var(--vscode-editor-font-family); padding: 0 3px; unicode-bidi: isolate; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 4px 12px 4px 0; border-top: 1px solid var(--vscode-widget-border, transparent); }
th { font-weight: 600; border-top: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.path { overflow-wrap: anywhere; font-family: var(--vscode-editor-font-family); }
.tokens td { border-top: 0; padding-top: 0; padding-bottom: 8px; line-height: 1.7; }
svg { vertical-align: middle; width: 100%; min-width: 40px; height: 10px; }
svg .drafting { fill: var(--vscode-charts-yellow); }
svg .verifying { fill: var(--vscode-descriptionForeground); }
.segment[data-about]::before {
  content: attr(data-about); display: inline-block; margin: 0 4px 0 0; padding: 0 6px; border-radius: 3px; font-size: 0.8em;
  font-family: var(--vscode-font-family); color: var(--vscode-badge-foreground); background: var(--vscode-badge-background);
}
.segment.control { color: var(--vscode-charts-purple); }
.segment.typed { color: var(--vscode-charts-green); }
.segment.context, .segment.separator { color: var(--vscode-descriptionForeground); }
body.vscode-high-contrast pre, body.vscode-high-contrast-light pre { border-color: var(--vscode-contrastBorder); }
`;
