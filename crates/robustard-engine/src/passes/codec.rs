//! Bytes that travel between the fit and the rows: safetensors, with a version and what is no list of numbers as JSON in the header.

use std::collections::HashMap;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

const KEY: &str = "robustard";
const VERSION: u32 = 1;

/// Bytes that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Something else, or damaged on the way.
    #[error("these bytes are no {expected} of robustard, or are damaged: {reason}")]
    Damaged {
        /// What was expected.
        expected: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Written by another version.
    #[error(
        "these bytes are a {expected} of version {found}; this robustard reads version {VERSION}: use one version everywhere"
    )]
    Version {
        /// What was expected.
        expected: &'static str,
        /// The version found.
        found: u32,
    },
}

#[derive(Serialize, Deserialize)]
struct Header<D> {
    kind: String,
    version: u32,
    description: D,
}

/// Lists of numbers by name.
pub(super) struct Numbers {
    kind: &'static str,
    lists: HashMap<String, Vec<f64>>,
}

/// Writes a description and lists of numbers.
pub(super) fn encode(kind: &'static str, description: &impl Serialize, lists: &[(&str, &[f64])]) -> Vec<u8> {
    let header = Header { kind: kind.to_owned(), version: VERSION, description };
    let header = serde_json::to_string(&header).expect("a description is plain data");
    let view = |values: &'_ [f64]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        (values.len(), bytes)
    };
    let bytes: Vec<(&str, (usize, Vec<u8>))> = lists.iter().map(|(name, values)| (*name, view(values))).collect();
    let views = bytes.iter().map(|(name, (length, bytes))| {
        (*name, TensorView::new(Dtype::F64, vec![*length], bytes).expect("eight bytes a number"))
    });
    serialize(views, Some(HashMap::from([(KEY.to_owned(), header)]))).expect("names are written once")
}

/// Reads what [`encode`] has written.
pub(super) fn decode<D: DeserializeOwned>(kind: &'static str, bytes: &[u8]) -> Result<(D, Numbers), DecodeError> {
    let damaged = |reason: String| DecodeError::Damaged { expected: kind, reason };
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(error.to_string()))?;
    let header = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
    let header = header.ok_or_else(|| damaged("they have no header".to_owned()))?;
    let Header { kind: found, version, .. } =
        serde_json::from_str::<Header<serde::de::IgnoredAny>>(header).map_err(|error| damaged(error.to_string()))?;
    if found != kind {
        return Err(damaged(format!("they are a {found}")));
    }
    if version != VERSION {
        return Err(DecodeError::Version { expected: kind, found: version });
    }
    let Header { description, .. } =
        serde_json::from_str::<Header<D>>(header).map_err(|error| damaged(error.to_string()))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| damaged(error.to_string()))?;
    let mut lists = HashMap::new();
    for (name, view) in tensors.tensors() {
        if view.dtype() != Dtype::F64 {
            return Err(damaged(format!("{name} is not of doubles")));
        }
        let values = view.data().as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        lists.insert(name, values);
    }
    Ok((description, Numbers { kind, lists }))
}

impl Numbers {
    /// A list, which must have `length` numbers if that is given.
    pub(super) fn take(&mut self, name: &str, length: Option<usize>) -> Result<Vec<f64>, DecodeError> {
        let list = self.lists.remove(name).ok_or_else(|| self.damaged(format!("they lack {name}")))?;
        if length.is_none_or(|length| length == list.len()) {
            Ok(list)
        } else {
            Err(self.damaged(format!("{name} has another length")))
        }
    }

    /// An error about these bytes.
    pub(super) fn damaged(&self, reason: String) -> DecodeError {
        DecodeError::Damaged { expected: self.kind, reason }
    }
}
