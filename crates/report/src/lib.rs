//! Results as terminal text, JSON, HTML, PNG and SVG.
