//! Access streams: synthetic generators and trace replay.
