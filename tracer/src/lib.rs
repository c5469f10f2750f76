//! QEMU plugin.
