//! The answer key and properties of single steps, which need what is not public.

#[path = "../../tests/common/mod.rs"]
mod common;
mod oracle;
mod properties;
