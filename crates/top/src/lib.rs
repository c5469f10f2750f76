//! The screens of `isotherm top`: what is shown, apart from where it comes from.
