//! The screens, as text.

mod screens;
