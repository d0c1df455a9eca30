//! The JSON Schemas of the models.

use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::output::Output;

/// The name of a model, and a function that generates its JSON Schema.
pub(crate) type ModelSchema = (&'static str, fn() -> Value);

/// Prints an object with the JSON Schema of each model.
pub(crate) fn run(schemas: &[ModelSchema], output: &mut Output) -> Result<()> {
    if schemas.is_empty() {
        let message = "this program has no JSON Schemas: enable the feature `schemars` of `odm-cli`, and add the models by `odm_cli::Tool::json_schema`";
        return Err(Failure::problem(message));
    }
    let schemas = schemas
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema()));
    output.json_line(&schemas.collect::<Map<String, Value>>())
}
