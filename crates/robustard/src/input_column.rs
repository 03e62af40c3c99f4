//! Original columns of a table, which may have become several inputs.

use serde::{Deserialize, Serialize};

/// A column of a table and the inputs that stand for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputColumn {
    /// Its name.
    pub name: String,
    /// Its inputs, by their numbers.
    pub inputs: Vec<usize>,
    /// What they are.
    pub kind: InputKind,
}

/// What the inputs of a column are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// One number.
    Number,
    /// A number, which is `filled` where it was missing, and a second input that is 1 there.
    NumberOrMissing {
        /// What is filled in.
        filled: f64,
    },
    /// One input for each level, 1 in rows that have it, and perhaps one more for levels that no training row has.
    Category {
        /// The levels, in the order of their inputs.
        levels: Vec<String>,
    },
}

impl InputColumn {
    /// A column and its inputs.
    pub fn new(name: impl Into<String>, inputs: Vec<usize>, kind: InputKind) -> Self {
        Self { name: name.into(), inputs, kind }
    }

    /// Whether it has the inputs that its kind needs, of so many.
    pub(crate) fn is_consistent(&self, inputs: usize) -> bool {
        let own = self.inputs.len();
        let fits = match &self.kind {
            InputKind::Number => own == 1,
            InputKind::NumberOrMissing { .. } => own == 2,
            InputKind::Category { levels } => own == levels.len() || own == levels.len() + 1,
        };
        fits && self.inputs.iter().all(|&input| input < inputs)
    }
}
