//! What the program can be asked to do.

pub mod default;
pub mod run;
pub mod streams;
