//! The model file: safetensors, with every list of numbers as a tensor and the rest as JSON in the header.
//!
//! The header's metadata has `format` = "robustard", `version` = "4", `model`, a JSON description in which each list of
//! numbers is replaced by `{"tensor": NAME}` (NAME is its path, such as `regression.model.coefficients`), and `sha256` of that description
//! and of all tensors in the order of their names. Python opens it with `safetensors.safe_open`.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::error::io_words;
use crate::files::Existing;
use crate::model::TableModel;
use crate::output::{OutputError, write_whole};

const FORMAT: &str = "robustard";
const VERSION: u32 = 4;
const TENSOR_KEY: &str = "tensor";
/// Lists shorter than this stay in the description, where people can read them.
const LEAST_TENSOR: usize = 9;

/// Why a model file cannot be written or read.
#[derive(Debug, Error)]
pub enum ModelFileError {
    /// The file system said no.
    #[error("cannot {action} {path}: {reason}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// It cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Something else.
    #[error("{path} is not a robustard model: {reason}")]
    Foreign {
        /// The file.
        path: String,
        /// What was found.
        reason: String,
    },
    /// Made by a later version.
    #[error(
        "{path} was written by a newer robustard (model format {found}, this one reads {VERSION}); update robustard"
    )]
    Newer {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
    },
    /// Made by an earlier version.
    #[error("{path} was written by an older robustard (model format {found}, this one reads {VERSION}); fit it again")]
    Older {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
    },
    /// A model that no file can hold.
    #[error("the model cannot be saved: {reason}; rescale the columns and fit it again")]
    NotFinite {
        /// Which number is not finite.
        reason: String,
    },
    /// Not as it was written.
    #[error("{path} is damaged: {reason}; fit the model again")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

/// A list of numbers on its way to the file.
struct Tensor {
    dtype: Dtype,
    bytes: Vec<u8>,
}

/// Writes a model, whole or not at all, in place of what has the name.
pub fn save_model(model: &TableModel, path: &Path) -> Result<(), ModelFileError> {
    Ok(write_whole(path, &model_to_bytes(model)?, Existing::Replace)?)
}

/// What a model file holds.
pub fn model_to_bytes(model: &TableModel) -> Result<Vec<u8>, ModelFileError> {
    let failed = |reason: String| ModelFileError::Io { action: "write", path: IN_MEMORY.to_owned(), reason };
    let bytes = pack(FORMAT, model).map_err(failed)?;
    // A number that is not finite has no place in JSON: what is written must be what can be read.
    match load_bytes(&bytes, IN_MEMORY) {
        Ok(_) => Ok(bytes),
        Err(_) => Err(ModelFileError::NotFinite {
            reason: not_finite(&description_of(model)).unwrap_or("some of its numbers are not finite".to_owned()),
        }),
    }
}

/// Anything as a file of a format, with its lists of numbers as tensors.
pub(crate) fn pack(format: &str, value: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut description = serde_json::to_value(value).map_err(|error| error.to_string())?;
    let mut tensors = Vec::new();
    extract(&mut description, String::new(), &mut tensors);
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    let description = description.to_string();
    let sha256 = checksum(&description, tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.bytes.as_slice())));
    let metadata = HashMap::from([
        ("format".to_owned(), format.to_owned()),
        ("version".to_owned(), VERSION.to_string()),
        ("model".to_owned(), description),
        ("sha256".to_owned(), sha256),
    ]);
    let views = tensors.iter().map(|(name, tensor)| {
        let view = TensorView::new(tensor.dtype, vec![tensor.bytes.len() / 8], &tensor.bytes);
        (name.as_str(), view.expect("eight bytes for each number"))
    });
    let bytes = safetensors::serialize(views, Some(metadata)).map_err(|error| error.to_string())?;
    with_sorted_header(bytes).ok_or_else(|| "its header is no JSON".to_owned())
}

/// The same file with the fields of its header in order: safetensors writes them as they lie in a hash map.
fn with_sorted_header(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    const LENGTH: usize = size_of::<u64>();
    let length = usize::try_from(u64::from_le_bytes(*bytes.first_chunk::<LENGTH>()?)).ok()?;
    let header = bytes.get(LENGTH..LENGTH.checked_add(length)?)?;
    let fields: std::collections::BTreeMap<String, Value> = serde_json::from_slice(header).ok()?;
    let mut sorted = serde_json::to_vec(&fields).ok()?;
    // Its end is filled with spaces to where tensors may begin.
    if sorted.len() > length {
        return None;
    }
    sorted.resize(length, b' ');
    bytes[LENGTH..LENGTH + length].copy_from_slice(&sorted);
    Some(bytes)
}

fn description_of(model: &TableModel) -> Value {
    serde_json::to_value(model).unwrap_or(Value::Null)
}

/// Where a list of numbers has a gap, which is what JSON makes of numbers that are not finite.
fn not_finite(value: &Value) -> Option<String> {
    fn find(value: &Value, path: &str) -> Option<String> {
        match value {
            Value::Object(fields) => fields.iter().find_map(|(key, value)| find(value, &format!("{path}.{key}"))),
            Value::Array(items) if items.iter().any(Value::is_number) && items.contains(&Value::Null) => {
                Some(format!("{} has values that are not finite", path.trim_start_matches('.')))
            }
            Value::Array(items) => items.iter().find_map(|value| find(value, path)),
            _ => None,
        }
    }
    find(value, "")
}

/// The model of a file's bytes.
pub fn model_from_bytes(bytes: &[u8]) -> Result<TableModel, ModelFileError> {
    load_bytes(bytes, IN_MEMORY)
}

/// What errors call a model that is in no file.
const IN_MEMORY: &str = "the model";

/// Reads a model and checks that it is whole.
pub fn load_model(path: &Path) -> Result<TableModel, ModelFileError> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| ModelFileError::Io {
        action: "read",
        path: name.clone(),
        reason: io_words(&error),
    })?;
    load_bytes(&bytes, &name)
}

fn load_bytes(bytes: &[u8], name: &str) -> Result<TableModel, ModelFileError> {
    let model: TableModel = unpack(FORMAT, bytes, name)?;
    model.check().map_err(|reason| ModelFileError::Damaged { path: name.to_owned(), reason })?;
    Ok(model)
}

/// What [`pack`] has written, if it is whole.
pub(crate) fn unpack<T: DeserializeOwned>(format: &str, bytes: &[u8], name: &str) -> Result<T, ModelFileError> {
    let foreign = |reason: &str| ModelFileError::Foreign { path: name.to_owned(), reason: reason.to_owned() };
    let damaged = |reason: String| ModelFileError::Damaged { path: name.to_owned(), reason };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| {
        // Eight bytes of length, then JSON.
        if bytes.get(8) == Some(&b'{') {
            damaged(format!("{error}; perhaps it is cut short"))
        } else {
            foreign("it is no safetensors file")
        }
    })?;
    let metadata = header.metadata().clone().unwrap_or_default();
    if metadata.get("format").map(String::as_str) != Some(format) {
        return Err(foreign("it is a safetensors file of another program"));
    }
    let version = metadata.get("version").and_then(|version| version.parse::<u32>().ok());
    match version {
        Some(found) if found > VERSION => return Err(ModelFileError::Newer { path: name.to_owned(), found }),
        Some(found) if found < VERSION => return Err(ModelFileError::Older { path: name.to_owned(), found }),
        Some(_) => {}
        None => return Err(damaged("it does not say its version".to_owned())),
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| damaged(error.to_string()))?;
    let text = metadata.get("model").ok_or_else(|| damaged("it has no description".to_owned()))?;
    let mut parts: Vec<(String, TensorView<'_>)> = tensors.tensors();
    parts.sort_by(|(a, _), (b, _)| a.cmp(b));
    let sha256 = checksum(text, parts.iter().map(|(name, tensor)| (name.as_str(), tensor.data())));
    if metadata.get("sha256") != Some(&sha256) {
        return Err(damaged("its checksum does not fit its content".to_owned()));
    }
    let mut description: Value = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
    let mut budget = bytes.len();
    restore(&mut description, &tensors, &mut budget).map_err(damaged)?;
    serde_json::from_value(description).map_err(|error| damaged(error.to_string()))
}

/// SHA-256 of the description and of the tensors with their names.
fn checksum<'a>(description: &str, tensors: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hasher = Sha256::new();
    hasher.update(description.as_bytes());
    for (name, bytes) in tensors {
        hasher.update(name.as_bytes());
        hasher.update(bytes);
    }
    hex(&hasher.finalize())
}

/// Bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Moves the lists of numbers below `value` into `tensors`.
fn extract(value: &mut Value, path: String, tensors: &mut Vec<(String, Tensor)>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(key, value)| extract(value, below(key), tensors));
        }
        Value::Array(items) => match to_tensor(items) {
            Some(tensor) => {
                tensors.push((path.clone(), tensor));
                *value = Value::Object(Map::from_iter([(TENSOR_KEY.to_owned(), Value::String(path))]));
            }
            None => items.iter_mut().enumerate().for_each(|(k, value)| extract(value, below(&k.to_string()), tensors)),
        },
        _ => {}
    }
}

fn to_tensor(items: &[Value]) -> Option<Tensor> {
    if items.len() < LEAST_TENSOR {
        return None;
    }
    if let Some(integers) = items.iter().map(Value::as_u64).collect::<Option<Vec<_>>>() {
        return Some(Tensor { dtype: Dtype::U64, bytes: integers.iter().flat_map(|v| v.to_le_bytes()).collect() });
    }
    let is_float = |value: &Value| value.as_f64().filter(|_| value.is_f64());
    let floats: Vec<f64> = items.iter().map(is_float).collect::<Option<_>>()?;
    Some(Tensor { dtype: Dtype::F64, bytes: floats.iter().flat_map(|v| v.to_le_bytes()).collect() })
}

/// Puts the tensors back. `budget` is spent by the bytes put back, so that one tensor named often cannot fill the memory.
fn restore(value: &mut Value, tensors: &SafeTensors<'_>, budget: &mut usize) -> Result<(), String> {
    match value {
        Value::Object(fields) if fields.len() == 1 && fields.contains_key(TENSOR_KEY) => {
            let name = fields[TENSOR_KEY].as_str().ok_or("a tensor has no name")?;
            let tensor = tensors.tensor(name).map_err(|_| format!("the tensor {name} is missing"))?;
            let data = tensor.data();
            *budget = budget.checked_sub(data.len()).ok_or("a tensor is named more than once")?;
            let words = data.chunks_exact(8).map(|word| word.try_into().expect("eight bytes"));
            *value = match tensor.dtype() {
                Dtype::U64 => Value::Array(words.map(|word| u64::from_le_bytes(word).into()).collect()),
                Dtype::F64 => {
                    let number = |word| serde_json::Number::from_f64(f64::from_le_bytes(word)).map(Value::Number);
                    let numbers: Option<Vec<Value>> = words.map(number).collect();
                    Value::Array(numbers.ok_or_else(|| format!("the tensor {name} holds values that are not finite"))?)
                }
                other => return Err(format!("the tensor {name} is of type {other:?}")),
            };
            Ok(())
        }
        Value::Object(fields) => fields.iter_mut().try_for_each(|(_, value)| restore(value, tensors, budget)),
        Value::Array(items) => items.iter_mut().try_for_each(|value| restore(value, tensors, budget)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_and_hostile_files_are_refused() {
        let message = |bytes: &[u8]| load_bytes(bytes, "m").map(|_| ()).unwrap_err().to_string();
        assert!(message(b"").contains("not a robustard model"));
        assert!(message(b"price,area\n1,2\n").contains("not a robustard model"));
        assert!(message(&[0xff; 64]).contains("not a robustard model"));
        let file = |metadata: &[(&str, &str)]| {
            let metadata = metadata.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            safetensors::serialize(Vec::<(String, TensorView<'_>)>::new(), Some(metadata)).unwrap()
        };
        assert!(
            message(&file(&[("format", "pt")])).contains("another program"),
            "{}",
            message(&file(&[("format", "pt")]))
        );
        assert!(message(&file(&[("format", FORMAT), ("version", "99")])).contains("newer"));
        assert!(message(&file(&[("format", FORMAT)])).contains("damaged"));
        assert!(message(&file(&[("format", FORMAT), ("version", "4"), ("model", "{}")])).contains("damaged"));
        let signed = |description: &str| {
            let sha256 = checksum(description, [].into_iter());
            let fields = [("format", FORMAT), ("version", "4"), ("model", description), ("sha256", &sha256)];
            message(&file(&fields))
        };
        assert!(signed(&"[".repeat(100_000)).contains("damaged"));
        assert!(signed(r#"{"tensor": "nothing"}"#).contains("missing"));
    }

    /// A checksum says that a file is as it was written, not that it was written by us.
    #[test]
    fn signed_models_whose_predictions_are_not_finite_are_refused() {
        let rows: String = (0..60)
            .map(|k| {
                let x = (f64::from(k) * 0.7).sin();
                format!("{x},{},{}\n", k % 7, (3.0 * x).sin() + 0.01 * f64::from(k % 5))
            })
            .collect();
        let table = crate::read_bytes(format!("x,k,y\n{rows}").into_bytes(), "t", &Default::default()).unwrap();
        let control = robustard::Control::new();
        let mut refused = 0;
        for features in ["linear", "smooth"] {
            let options: robustard::Options =
                serde_json::from_value(serde_json::json!({ "features": features, "noise": "student-t" })).unwrap();
            let fitted = TableModel::fit(&table, &crate::EncodeOptions::new("y"), &options.recipe().unwrap(), &control);
            let bytes = model_to_bytes(&fitted.unwrap().model).unwrap();
            let read = SafeTensors::deserialize(&bytes).unwrap();
            let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
            let description = header.metadata().as_ref().unwrap()["model"].clone();
            let mut tensors: Vec<(String, Dtype, Vec<u8>)> =
                read.tensors().into_iter().map(|(name, view)| (name, view.dtype(), view.data().to_vec())).collect();
            tensors.sort_by(|(a, ..), (b, ..)| a.cmp(b));
            for (spoiled, (_, dtype, data)) in tensors.iter().enumerate() {
                for value in [1e308, -1e308, 0.0, 1e-320] {
                    let huge = f64::to_le_bytes(value).repeat(data.len() / 8);
                    if *dtype != Dtype::F64 {
                        continue;
                    }
                    let of = |k: usize| if k == spoiled { huge.as_slice() } else { tensors[k].2.as_slice() };
                    let parts = || tensors.iter().enumerate().map(|(k, (name, ..))| (name.as_str(), of(k)));
                    let metadata = HashMap::from([
                        ("format".to_owned(), FORMAT.to_owned()),
                        ("version".to_owned(), VERSION.to_string()),
                        ("model".to_owned(), description.clone()),
                        ("sha256".to_owned(), checksum(&description, parts())),
                    ]);
                    let views = tensors.iter().enumerate().map(|(k, (name, dtype, data))| {
                        (name.as_str(), TensorView::new(*dtype, vec![data.len() / 8], of(k)).unwrap())
                    });
                    let file = safetensors::serialize(views, Some(metadata)).unwrap();
                    match load_bytes(&file, "m") {
                        Err(error) => {
                            refused += 1;
                            assert!(matches!(error, ModelFileError::Damaged { .. }), "{error}");
                        }
                        Ok(model) => {
                            let predicted = model.predict(&table, &control).unwrap().values;
                            let name = &tensors[spoiled].0;
                            assert!(predicted.mean.iter().all(|mean| mean.is_finite()), "{features} {name} {value}");
                        }
                    }
                }
            }
        }
        assert!(refused > 0);
    }
}
