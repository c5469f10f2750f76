//! Live Linux: the recorder of page traces.
