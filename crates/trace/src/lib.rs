//! Page traces on disk: format, reader, writers, importers, exporters, analyses.
