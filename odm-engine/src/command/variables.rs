//! The variables of a command, which its expressions read as `$$name`.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};

use crate::error::Result;
use crate::expression::{Computation, Environment, check_bindable};
use crate::value;

/// What the expressions of a command see besides documents.
///
/// # Errors
/// A name that no variable can have, values that depend on documents, and what their expressions fail with.
pub(super) fn environment(variables: &RawDocument) -> Result<Arc<Environment>> {
    value::check(variables)?;
    let mut environment = Arc::new(Environment::default());
    let nothing = RawDocumentBuf::new();
    for (name, value) in value::fields(variables) {
        check_bindable(name)?;
        // Each sees those before it.
        let computation = Computation::parse_without_document(value, &environment)?;
        let value = computation.of(&nothing)?.into_bson();
        Arc::make_mut(&mut environment).set(name, value);
    }
    Ok(environment)
}
